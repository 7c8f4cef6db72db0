// SPDX-License-Identifier: MIT OR Apache-2.0

//! Processes a cube in strips: as many positions of a line as nearly fill the first-level cache. The next strip is
//! prefetched while the current one is computed. Threads share large cubes.

use std::ops::Range;
use std::sync::Mutex;

use rayon::prelude::*;

use super::super::operation::{Counts, Operation};
use super::rows::Rows;
use crate::memory::{Memory, Stop};
use crate::simd::prefetch::{prefetch_after, prefetch_write_after};
use crate::threads::share::{share, Parts};

/// Elements from which a second thread pays.
const PARALLEL: usize = if cfg!(test) { 1 << 10 } else { 1 << 17 };
/// Bytes of a strip in memory, about.
const STRIP: usize = 8192;
/// Strips per thread in a round. The results of a round are written at its end. Waking threads takes as long as many
/// strips.
const ROUND: usize = if cfg!(test) { 4 } else { 128 };

/// Strips that a thread takes at a time where it writes them itself.
const RUN: usize = if cfg!(test) { 2 } else { 16 };

/// Computes strips.
pub(super) trait Engine: Sync {
    /// Bytes of an element.
    const BYTES: usize;
    /// What a thread works in.
    type Room: Default + Send;
    /// Allocates memory for strips of this many rows.
    fn prepare(&self, room: &mut Self::Room, rows: Rows);
    /// Takes a surface's atoms.
    fn load(&self, room: &mut Self::Room, rows: Rows, surface: usize, atoms: &[u8]);
    /// Turns rows into rows of results, without margins.
    fn normalise(&self, room: &mut Self::Room, rows: Rows, into: &mut [u8]) -> Counts;
}

/// The memory of all threads.
#[derive(Debug, Default)]
pub(super) struct Rooms<R> {
    each: Vec<R>,
    results: Vec<u8>,
}

/// Where strips begin.
struct Strips {
    rows: Rows,
    each_line: usize,
    count: usize,
    width: usize,
}

impl Strips {
    fn new(operation: &Operation, bytes: usize) -> Self {
        let longest = (STRIP / bytes / operation.elements).clamp(1, operation.width);
        // All about as long.
        let count = operation.width.div_ceil(operation.width.div_ceil(longest));
        let each_line = operation.width.div_ceil(count);
        let rows = Rows::new(operation, count);
        Self { rows, each_line, count: each_line * operation.height, width: operation.width }
    }

    /// A strip's line and column, and its rows.
    fn at(&self, strip: usize) -> ([usize; 2], Rows) {
        let x = strip % self.each_line * self.rows.count;
        ([strip / self.each_line, x], Rows { count: self.rows.count.min(self.width - x), ..self.rows })
    }
}

/// Computes an operation.
pub(super) fn run<E: Engine>(
    engine: &E,
    rooms: &mut Rooms<E::Room>,
    operation: &Operation,
    memory: &mut dyn Memory,
) -> Result<Counts, Stop> {
    let strips = Strips::new(operation, E::BYTES);
    let elements = operation.elements * operation.width * operation.height;
    let threads = if elements < PARALLEL { 1 } else { rayon::current_num_threads().min(strips.count) };
    let Rooms { each: rooms, results } = rooms;
    if rooms.len() < threads {
        rooms.resize_with(threads, Default::default);
    }
    let rooms = &mut rooms[..threads];
    for room in &mut *rooms {
        engine.prepare(room, strips.rows);
    }
    let work = Work { engine, operation, strips: &strips, bytes: strips.rows.count * strips.rows.steps() * E::BYTES };
    let both = operation.source.all().zip(operation.destination.all());
    if let Some((from, to)) = both.and_then(|(from, to)| memory.both(from, to)) {
        return Ok(work.direct(rooms, results, from, to));
    }
    work.rounds(rooms, results, memory)
}

/// An operation's strips.
struct Work<'w, E> {
    engine: &'w E,
    operation: &'w Operation,
    strips: &'w Strips,
    /// Bytes of a strip's results.
    bytes: usize,
}

impl<E: Engine> Work<'_, E> {
    /// From the source's bytes to the destination's; each thread writes what it has computed.
    fn direct(&self, rooms: &mut [E::Room], results: &mut Vec<u8>, from: &[u8], to: &mut [u8]) -> Counts {
        let Self { operation, strips, bytes, .. } = *self;
        let threads = rooms.len();
        results.resize(results.len().max(bytes * threads), 0);
        let places = Mutex::new(rooms.iter_mut().zip(results.chunks_exact_mut(bytes)));
        let counts = Mutex::new(Counts::default());
        let to = Parts::new(to);
        let run = RUN.min(strips.count.div_ceil(threads));
        share(
            threads,
            (0..strips.count).step_by(run),
            || places.lock().ok().and_then(|mut places| places.next()),
            |place, first| {
                // There is one place per thread.
                let Some((room, results)) = place else { return };
                let mut own = Counts::default();
                for strip in first..strips.count.min(first + run) {
                    let (at, rows) = strips.at(strip);
                    let results = &mut results[..rows.count * rows.steps() * E::BYTES];
                    for surface in 0..operation.surfaces {
                        let atoms = &from[operation.source.within(surface, at, rows.count)];
                        self.engine.load(room, rows, surface, atoms);
                        prefetch_after(atoms);
                    }
                    own += self.engine.normalise(room, rows, results);
                    for surface in 0..operation.surfaces {
                        // SAFETY: no other strip has these atoms, and atoms of a cube without gaps do not overlap.
                        let into = unsafe { to.part(operation.destination.within(surface, at, rows.count)) };
                        prefetch_write_after(into);
                        rows.store(results, surface, into);
                    }
                }
                if let Ok(mut counts) = counts.lock() {
                    *counts += own;
                }
            },
        );
        counts.into_inner().unwrap_or_default()
    }

    /// Computes as many strips as fit the results, then writes them, and repeats this.
    fn rounds(&self, rooms: &mut [E::Room], results: &mut Vec<u8>, memory: &mut dyn Memory) -> Result<Counts, Stop> {
        let (count, bytes, threads) = (self.strips.count, self.bytes, rooms.len());
        let each = if threads == 1 { 1 } else { ROUND.min(count.div_ceil(threads)) };
        results.resize(results.len().max(bytes * each * threads), 0);
        let results = &mut results[..bytes * each * threads];
        let mut counts = Counts::default();
        for first in (0..count).step_by(each * threads) {
            let last = count.min(first + each * threads);
            if let [room] = rooms {
                counts += self.part(room, memory, first..last, results)?;
            } else {
                let shared: &dyn Memory = memory;
                counts += results
                    .par_chunks_mut(bytes * each)
                    .zip(rooms.par_iter_mut())
                    .enumerate()
                    .map(|(number, (results, room))| {
                        let first = first + number * each;
                        self.part(room, shared, first..last.min(first + each), results)
                    })
                    .try_reduce(Counts::default, |mut one, other| {
                        one += other;
                        Ok(one)
                    })?;
            }
            self.write(memory, first..last, results)?;
        }
        Ok(counts)
    }

    /// Computes some strips into `results`.
    fn part(
        &self,
        room: &mut E::Room,
        memory: &dyn Memory,
        which: Range<usize>,
        results: &mut [u8],
    ) -> Result<Counts, Stop> {
        let mut counts = Counts::default();
        for (strip, results) in which.zip(results.chunks_exact_mut(self.bytes)) {
            let (at, rows) = self.strips.at(strip);
            for surface in 0..self.operation.surfaces {
                let atoms = self.operation.source.read(memory, surface, at, rows.count)?;
                self.engine.load(room, rows, surface, atoms);
                prefetch_after(atoms);
            }
            counts += self.engine.normalise(room, rows, &mut results[..rows.count * rows.steps() * E::BYTES]);
        }
        Ok(counts)
    }

    /// Writes the results of strips.
    fn write(&self, memory: &mut dyn Memory, which: Range<usize>, results: &[u8]) -> Result<(), Stop> {
        for (strip, results) in which.zip(results.chunks_exact(self.bytes)) {
            let (at, rows) = self.strips.at(strip);
            let results = &results[..rows.count * rows.steps() * E::BYTES];
            for surface in 0..self.operation.surfaces {
                let into = self.operation.destination.write_to(memory, surface, at, rows.count)?;
                prefetch_write_after(into);
                rows.store(results, surface, into);
            }
        }
        Ok(())
    }
}
