// SPDX-License-Identifier: MIT OR Apache-2.0

//! The spans of a task's operations, for subscribers of `tracing`.

use nvdla_uapi::desc::OpType;
use tracing::field::Empty;
use tracing::Span;

/// The span of the operation that completes next. It begins when the previous operation completes.
pub(super) struct Operations {
    next: Span,
    /// Operations that have not completed; none if nobody subscribed when the task began.
    left: u32,
}

impl Operations {
    /// For a task of `operations` operations that begins now.
    pub(super) fn new(operations: u32) -> Self {
        let next = Self::span(operations);
        let left = if next.is_disabled() { 0 } else { operations };
        Self { next, left }
    }

    fn span(left: u32) -> Span {
        if left == 0 {
            return Span::none();
        }
        tracing::trace_span!("operation", number = Empty, unit = Empty, roi = Empty)
    }

    /// An operation has completed.
    pub(super) fn completed(&mut self, number: u32, roi: u32, unit: OpType) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let span = std::mem::replace(&mut self.next, Self::span(self.left));
        span.record("number", number).record("unit", tracing::field::display(unit)).record("roi", roi);
    }
}
