// SPDX-License-Identifier: MIT OR Apache-2.0

//! Records which bytes operations access in memory, for tests that compare them with the bytes that software may access.
//!
//! A [`Recorder`] is a memory between an operation ([`StartedOperation::run`](crate::operation::StartedOperation::run)) and its memory. Without one
//! nothing is recorded, and recording costs nothing.

use std::sync::{Mutex, PoisonError};

use crate::memory::{Access, Memory, Port, Span};

/// Adjacent bytes that were read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Read or write.
    pub access: Access,
    /// The address and the length.
    pub span: Span,
    /// Whether the memory allowed the access. A refused access has stopped the operation with a [`Fault`](crate::memory::Fault).
    pub allowed: bool,
}

/// A memory that records reads and writes.
///
/// It hides the functions with which units save accesses ([`Memory::view`], [`Memory::both`], [`Memory::version`]), so that every
/// access is one that the operation needs.
pub struct Recorder<'m> {
    memory: &'m mut dyn Memory,
    touched: Mutex<Vec<Touched>>,
}

impl std::fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("touched", &self.touched).finish_non_exhaustive()
    }
}

impl<'m> Recorder<'m> {
    /// Records accesses to `memory` after those in `touched`. The storage of `touched` is reused.
    pub fn new(memory: &'m mut dyn Memory, touched: Vec<Touched>) -> Self {
        Self { memory, touched: Mutex::new(touched) }
    }

    /// The accesses, in the order in which a thread made them. Accesses of one kind that are adjacent in memory and in time are
    /// merged.
    pub fn finish(self) -> Vec<Touched> {
        self.touched.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, access: Access, span: Span, allowed: bool) {
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = touched.iter_mut().rev().take(2).find(|last| {
            let Span { port, address, length } = last.span;
            last.access == access
                && last.allowed == allowed
                && port == span.port
                && address.checked_add(length as u64) == Some(span.address)
        }) {
            last.span.length += span.length;
            return;
        }
        touched.push(Touched { access, span, allowed });
    }
}

impl Memory for Recorder<'_> {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        let bytes = self.memory.read(port, address, length);
        self.note(Access::Read, Span { port, address, length }, bytes.is_some());
        bytes
    }

    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        let allowed = self.memory.write(port, address, length).is_some();
        self.note(Access::Write, Span { port, address, length }, allowed);
        self.memory.write(port, address, length)
    }

    fn view(&self, _: Span) -> Option<&[u8]> {
        None
    }
}
