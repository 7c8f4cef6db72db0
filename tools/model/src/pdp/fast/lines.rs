// SPDX-License-Identifier: MIT OR Apache-2.0

//! The interface of the loops that compute lines of the output, and their inputs.

use super::super::setup::{Part, Setup, Source, KERNEL_MAX};
use crate::memory::{Memory, Stop};
use crate::simd::aligned::Aligned;
use std::ops::Range;

/// Computes lines of the output.
pub(super) trait Lines: Sync {
    /// Smallest number of input elements for which a second thread is worth its cost.
    const PARALLEL: usize;
    /// Computes a line. Returns its number of NaNs.
    fn line(&self, buffers: &mut LineBuffers, at: OutputLine<'_>, line: &mut [u8]) -> Result<usize, Stop>;
}

/// The operation, the part of the cube and the input to pool.
#[derive(Clone, Copy)]
pub(super) struct PooledPart<'t> {
    pub(super) setup: &'t Setup,
    pub(super) part: &'t Part,
    pub(super) source: &'t Source<'t>,
}

/// A line of the output.
#[derive(Clone, Copy)]
pub(super) struct OutputLine<'t> {
    pub(super) task: PooledPart<'t>,
    pub(super) memory: &'t dyn Memory,
    pub(super) surface: usize,
    pub(super) y: usize,
}

impl<'t> OutputLine<'t> {
    /// The input lines that the line's windows cover.
    pub(super) fn rows(&self) -> Range<usize> {
        let (top, bottom) = self.task.setup.vertical.window(self.y);
        top..bottom
    }

    /// An input line.
    pub(super) fn row(&self, row: usize) -> Result<&'t [u8], Stop> {
        let PooledPart { part, source, .. } = self.task;
        source.line(self.memory, [self.surface, row, part.input, part.axis.input])
    }

    /// The number of window lines outside the input.
    pub(super) fn outside(&self) -> usize {
        self.task.setup.vertical.kernel - self.rows().len()
    }
}

/// A thread's buffers: for the method that suits most lines, and for the method that computes the other lines again.
#[derive(Default)]
pub(super) struct LineBuffers {
    pub(super) first: Rows,
    pub(super) second: Rows,
}

impl LineBuffers {
    /// Discards all rows, because the next line does not follow the last one.
    pub(super) fn forget(&mut self) {
        for rows in [&mut self.first, &mut self.second] {
            rows.held = 0..0;
        }
    }
}

/// Results of input lines, which are kept until no further window covers them.
#[derive(Default)]
pub(super) struct Rows {
    /// Input lines reduced along their windows, for as many lines as a window has.
    pub(super) reduced: Aligned,
    pub(super) loaded: Aligned,
    pub(super) sums: Aligned,
    /// The input lines with results in the buffer.
    pub(super) held: Range<usize>,
    /// For each line in `reduced`, the largest mark of its elements, and the lanes with a negative element.
    pub(super) marks: [u16; KERNEL_MAX],
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only its vector code asks
    pub(super) signs: [u16; KERNEL_MAX],
}

/// The index of an input line's results in the buffers.
pub(super) fn slot(at: &OutputLine<'_>, row: usize) -> usize {
    let vertical = at.task.setup.vertical;
    row % vertical.kernel.min(vertical.input)
}
