// SPDX-License-Identifier: MIT OR Apache-2.0

//! The contract of the loops: a way to make lines of the output, and what it works on.

use super::super::setup::{Part, Setup, Source, KERNEL_MAX};
use crate::memory::{Memory, Stop};
use crate::simd::aligned::Aligned;
use std::ops::Range;

/// A way to make lines of the output.
pub(super) trait Lines: Sync {
    /// Elements of the input from which a second thread pays.
    const PARALLEL: usize;
    /// Makes a line; the answer is how many NaNs it has.
    fn line(&self, buffers: &mut LineBuffers, at: At<'_>, line: &mut [u8]) -> Result<usize, Stop>;
}

/// What is pooled.
#[derive(Clone, Copy)]
pub(super) struct Task<'t> {
    pub(super) setup: &'t Setup,
    pub(super) part: &'t Part,
    pub(super) source: &'t Source,
}

/// A line of the output.
#[derive(Clone, Copy)]
pub(super) struct At<'t> {
    pub(super) task: Task<'t>,
    pub(super) memory: &'t dyn Memory,
    pub(super) surface: usize,
    pub(super) y: usize,
}

impl<'t> At<'t> {
    /// The input lines that the line's windows cover.
    pub(super) fn rows(&self) -> Range<usize> {
        let (top, bottom) = self.task.setup.vertical.window(self.y);
        top..bottom
    }

    /// An input line.
    pub(super) fn row(&self, row: usize) -> Result<&'t [u8], Stop> {
        let Task { part, source, .. } = self.task;
        source.line(self.memory, [self.surface, row, part.input, part.axis.input])
    }

    /// Lines of the windows that lie outside.
    pub(super) fn outside(&self) -> usize {
        self.task.setup.vertical.kernel - self.rows().len()
    }
}

/// A thread's buffers: for the way that suits most lines, and those in which other lines are made again.
#[derive(Default)]
pub(super) struct LineBuffers {
    pub(super) first: Rows,
    pub(super) second: Rows,
}

impl LineBuffers {
    /// What comes next are other lines than those that follow the last.
    pub(super) fn forget(&mut self) {
        for rows in [&mut self.first, &mut self.second] {
            rows.held = 0..0;
        }
    }
}

/// What stays of input lines until the windows that cover them have passed.
#[derive(Default)]
pub(super) struct Rows {
    /// The results of a line along its windows, for as many lines as a window has.
    pub(super) reduced: Aligned,
    pub(super) loaded: Aligned,
    pub(super) sums: Aligned,
    /// The input lines with results in the buffer.
    pub(super) held: Range<usize>,
    /// Of each line in `reduced`: the largest mark of its elements, and the lanes that have a negative one.
    pub(super) marks: [u16; KERNEL_MAX],
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only its vector code asks
    pub(super) signs: [u16; KERNEL_MAX],
}

/// Where the results of an input line are.
pub(super) fn slot(at: &At<'_>, row: usize) -> usize {
    let vertical = at.task.setup.vertical;
    row % vertical.kernel.min(vertical.input)
}
