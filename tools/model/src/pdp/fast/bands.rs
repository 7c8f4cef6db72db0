// SPDX-License-Identifier: MIT OR Apache-2.0

//! Computes the lines of a part, one after another or in bands on several threads.

use std::cell::Cell;

use super::lines::{LineBuffers, Lines, OutputLine, PooledPart};
use crate::memory::{Memory, Stop};
use crate::pdp::setup::Emit;
use crate::simd::aligned::Aligned;
use crate::threads::keep_awake;

/// Bytes of results per round. A round has at least one line per thread.
const ROUND: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };
/// Smallest number of lines per band. Rows at the edges of bands are reduced twice; in larger bands this cost is small.
const BAND: usize = if cfg!(test) { 2 } else { 16 };

thread_local! {
    /// A thread's buffers.
    static BUFFERS: Cell<LineBuffers> = Cell::default();
    static RESULTS: Cell<Aligned> = Cell::default();
}

/// One part's work.
pub(super) struct PartPooling<'j, 'e> {
    pub(super) task: PooledPart<'j>,
    pub(super) memory: &'j mut dyn Memory,
    pub(super) emit: &'j mut Emit<'e>,
}

impl PartPooling<'_, '_> {
    /// Pools all surfaces. Returns the number of NaNs.
    pub(super) fn run<L: Lines>(&mut self, lines: &L) -> Result<usize, Stop> {
        let PooledPart { setup, part, .. } = self.task;
        let threads = rayon::current_num_threads();
        let line = setup.atoms.span(part.axis.output);
        let (height, count) = (setup.vertical.output, setup.surfaces);
        let elements = part.axis.input * setup.vertical.input * setup.lanes() * count;
        let alone = threads == 1 || elements < L::PARALLEL;
        let round = if alone { 1 } else { (ROUND / line).max(threads).min(count * height) };
        // Taken, not borrowed, because this thread may pool for another device while it waits.
        let mut buffers = RESULTS.take();
        let bytes = buffers.get::<u8>(round * line);
        if !alone {
            keep_awake::call();
        }
        let result = if alone { self.alone(lines, bytes) } else { self.together(lines, threads, bytes) };
        RESULTS.set(buffers);
        result
    }

    /// Line by line.
    fn alone<L: Lines>(&mut self, lines: &L, line: &mut [u8]) -> Result<usize, Stop> {
        let Self { task, memory, emit } = self;
        with_buffers(|buffers| {
            let mut nans = 0;
            for surface in 0..task.setup.surfaces {
                buffers.forget();
                for y in 0..task.setup.vertical.output {
                    let at = OutputLine { task: *task, memory: *memory, surface, y };
                    nans += lines.line(buffers, at, line)?;
                    emit(*memory, surface, y, line)?;
                }
            }
            Ok(nans)
        })
    }

    /// Pools with several threads, in rounds. A round has as many lines as fit the buffer.
    fn together<L: Lines>(&mut self, lines: &L, threads: usize, bytes: &mut [u8]) -> Result<usize, Stop> {
        let PooledPart { setup, part, .. } = self.task;
        let (height, line) = (setup.vertical.output, setup.atoms.span(part.axis.output));
        let (round, all) = (bytes.len() / line, height * setup.surfaces);
        let band = round.div_ceil(2 * threads).max(BAND.min(round.div_ceil(threads)));
        let mut nans = 0;
        for first in (0..all).step_by(round) {
            let bytes = &mut bytes[..round.min(all - first) * line];
            nans += Bands { task: self.task, memory: self.memory, lines, line, band }.make(first, bytes)?;
            let mut rest = &*bytes;
            let mut at = first;
            while !rest.is_empty() {
                let (surface, y) = (at / height, at % height);
                let (own, others) = rest.split_at(rest.len().min((height - y) * line));
                (self.emit)(self.memory, surface, y, own)?;
                at += own.len() / line;
                rest = others;
            }
        }
        Ok(nans)
    }
}

/// Lines that threads share.
struct Bands<'b, L> {
    task: PooledPart<'b>,
    memory: &'b dyn Memory,
    lines: &'b L,
    /// Bytes of a line.
    line: usize,
    /// Lines that one thread computes.
    band: usize,
}

impl<L: Lines> Bands<'_, L> {
    /// Computes lines from number `first` of all surfaces' lines on. If there are many, another thread computes half of
    /// them. Returns the number of NaNs.
    fn make(&self, first: usize, bytes: &mut [u8]) -> Result<usize, Stop> {
        let count = bytes.len() / self.line;
        if count > self.band {
            let half = count.div_ceil(self.band) / 2 * self.band;
            let (upper, lower) = bytes.split_at_mut(half * self.line);
            let (upper, lower) = rayon::join(|| self.make(first, upper), || self.make(first + half, lower));
            return Ok(upper? + lower?);
        }
        let Self { task, memory, lines, line, .. } = *self;
        let height = task.setup.vertical.output;
        with_buffers(|buffers| {
            let mut nans = 0;
            for (index, bytes) in bytes.chunks_exact_mut(line).enumerate() {
                let (surface, y) = ((first + index) / height, (first + index) % height);
                if index == 0 || y == 0 {
                    buffers.forget();
                }
                let at = OutputLine { task, memory, surface, y };
                nans += lines.line(buffers, at, bytes)?;
            }
            Ok(nans)
        })
    }
}

/// Calls `f` with this thread's buffers.
fn with_buffers<R>(f: impl FnOnce(&mut LineBuffers) -> R) -> R {
    let mut buffers = BUFFERS.take();
    let result = f(&mut buffers);
    BUFFERS.set(buffers);
    result
}
