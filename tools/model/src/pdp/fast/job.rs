// SPDX-License-Identifier: MIT OR Apache-2.0

//! Through a part's lines: one after another, or bands of them by several threads.

use std::cell::Cell;

use super::{At, Lines, Rooms, Task};
use crate::conv::fast::aligned::Aligned;
use crate::memory::{Memory, Stop};
use crate::pdp::Emit;
use crate::share::share;

/// Bytes of results that wait for others.
const ROUND: usize = 2 << 20;

thread_local! {
    /// A thread's rooms.
    static ROOMS: Cell<Rooms> = Cell::default();
    static RESULTS: Cell<Aligned> = Cell::default();
}

/// One part's work.
pub(super) struct Job<'j, 'e> {
    pub(super) task: Task<'j>,
    pub(super) memory: &'j mut dyn Memory,
    pub(super) emit: &'j mut Emit<'e>,
}

/// Lines of a surface that one thread makes, from `first` on.
struct Band<'b> {
    surface: usize,
    first: usize,
    bytes: &'b mut [u8],
    done: &'b mut Result<usize, Stop>,
}

impl Job<'_, '_> {
    /// Pools all surfaces; the answer is the number of NaNs.
    pub(super) fn run<L: Lines>(&mut self, lines: &L) -> Result<usize, Stop> {
        let Task { setup, part, .. } = self.task;
        let threads = rayon::current_num_threads();
        let line = setup.atoms.span(part.axis.output);
        let (height, count) = (setup.vertical.output, setup.surfaces);
        let elements = part.axis.input * setup.vertical.input * setup.lanes() * count;
        let alone = threads == 1 || elements < L::PARALLEL || height * line > ROUND;
        // Taken, not borrowed: while this thread waits for others it may pool for another device.
        let mut room = RESULTS.take();
        let bytes = room.get::<u8>(if alone { line } else { ROUND.min(count * height * line) });
        let result = if alone { self.alone(lines, bytes) } else { self.together(lines, threads, bytes) };
        RESULTS.set(room);
        result
    }

    /// Line by line.
    fn alone<L: Lines>(&mut self, lines: &L, line: &mut [u8]) -> Result<usize, Stop> {
        let Self { task, memory, emit } = self;
        with_rooms(|rooms| {
            let mut nans = 0;
            for surface in 0..task.setup.surfaces {
                for y in 0..task.setup.vertical.output {
                    let at = At { task: *task, memory: *memory, surface, y, follows: y > 0 };
                    nans += lines.line(rooms, at, line)?;
                    emit(*memory, surface, y, line)?;
                }
            }
            Ok(nans)
        })
    }

    /// By several threads, a round of results in `bytes` at a time.
    fn together<L: Lines>(&mut self, lines: &L, threads: usize, bytes: &mut [u8]) -> Result<usize, Stop> {
        let Task { setup, part, .. } = self.task;
        let (height, line) = (setup.vertical.output, setup.atoms.span(part.axis.output));
        // Bands of lines of as many surfaces as fit; the rows where bands meet are reduced twice.
        let round = (ROUND / (height * line)).clamp(1, setup.surfaces);
        let band = height.div_ceil((4 * threads).div_ceil(round).min(height));
        let bands = height.div_ceil(band);
        let mut nans = 0;
        let mut done = Vec::with_capacity(round * bands);
        for surface in (0..setup.surfaces).step_by(round) {
            let count = round.min(setup.surfaces - surface);
            let bytes = &mut bytes[..count * height * line];
            done.clear();
            done.resize(count * bands, Ok(0));
            let each = bytes.chunks_mut(height * line).zip(done.chunks_mut(bands)).enumerate();
            let pieces = each.flat_map(|(number, (bytes, done))| {
                bytes.chunks_mut(band * line).zip(done).enumerate().map(move |(of_surface, (bytes, done))| Band {
                    surface: surface + number,
                    first: of_surface * band,
                    bytes,
                    done,
                })
            });
            let (task, memory): (_, &dyn Memory) = (self.task, self.memory);
            let make = |piece: Band<'_>| {
                *piece.done = with_rooms(|rooms| {
                    let mut nans = 0;
                    for (y, line) in piece.bytes.chunks_exact_mut(line).enumerate() {
                        let at = At { task, memory, surface: piece.surface, y: piece.first + y, follows: y > 0 };
                        nans += lines.line(rooms, at, line)?;
                    }
                    Ok(nans)
                });
            };
            share(threads, pieces, || (), |(), piece| make(piece));
            for done in &mut done {
                nans += std::mem::replace(done, Ok(0))?;
            }
            for (at, line) in bytes.chunks_exact(line).enumerate() {
                (self.emit)(self.memory, surface + at / height, at % height, line)?;
            }
        }
        Ok(nans)
    }
}

/// Calls `f` with this thread's rooms.
fn with_rooms<R>(f: impl FnOnce(&mut Rooms) -> R) -> R {
    let mut rooms = ROOMS.take();
    let result = f(&mut rooms);
    ROOMS.set(rooms);
    result
}
