// SPDX-License-Identifier: MIT OR Apache-2.0

//! A cube in strips: as many positions of a line as nearly fit the first cache. The memory of each is asked for while the one
//! before is computed. Large cubes are shared out between threads.

use std::ops::Range;

use rayon::prelude::*;

use super::super::{Counts, Operation};
use super::rows::Rows;
use crate::ahead::{claim_after, fetch_after};
use crate::memory::{Memory, Stop};
use crate::share::share;

/// Elements from which a second thread pays.
const PARALLEL: usize = if cfg!(test) { 1 << 10 } else { 1 << 17 };
/// Bytes of a strip in memory, about.
const STRIP: usize = 8192;
/// Strips that a thread takes in a round, whose results wait for those of the strips before. Waking threads takes as long
/// as many strips.
const ROUND: usize = if cfg!(test) { 4 } else { 128 };

/// Computes strips.
pub(super) trait Engine: Sync {
    /// Bytes of an element.
    const BYTES: usize;
    /// What a thread works in.
    type Room: Default + Send;
    /// Makes room for strips of as many rows.
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
    let bytes = strips.rows.count * strips.rows.steps() * E::BYTES;
    let each = if threads == 1 { 1 } else { ROUND.min(strips.count.div_ceil(threads)) };
    let Rooms { each: rooms, results } = rooms;
    if rooms.len() < threads {
        rooms.resize_with(threads, Default::default);
    }
    let rooms = &mut rooms[..threads];
    for room in &mut *rooms {
        engine.prepare(room, strips.rows);
    }
    if results.len() < bytes * each * threads {
        results.resize(bytes * each * threads, 0);
    }
    let results = &mut results[..bytes * each * threads];
    let mut counts = Counts::default();
    for first in (0..strips.count).step_by(each * threads) {
        let last = strips.count.min(first + each * threads);
        if let [room] = &mut rooms[..] {
            counts += part(engine, room, operation, memory, &strips, first..last, results)?;
        } else {
            let shared: &dyn Memory = memory;
            counts += results
                .par_chunks_mut(bytes * each)
                .zip(rooms.par_iter_mut())
                .enumerate()
                .map(|(number, (results, room))| {
                    let first = first + number * each;
                    part(engine, room, operation, shared, &strips, first..last.min(first + each), results)
                })
                .try_reduce(Counts::default, |mut one, other| {
                    one += other;
                    Ok(one)
                })?;
        }
        write::<E>(operation, memory, &strips, first..last, results, threads)?;
    }
    Ok(counts)
}

/// Writes the results of strips; the surfaces of a cube without gaps by several threads.
fn write<E: Engine>(
    operation: &Operation,
    memory: &mut dyn Memory,
    strips: &Strips,
    which: Range<usize>,
    results: &[u8],
    threads: usize,
) -> Result<(), Stop> {
    let bytes = strips.rows.count * strips.rows.steps() * E::BYTES;
    let done = which.zip(results.chunks_exact(bytes)).map(|(strip, results)| {
        let (at, rows) = strips.at(strip);
        (at, rows, &results[..rows.count * rows.steps() * E::BYTES])
    });
    let destination = &operation.destination;
    if let Some(surfaces) = (threads > 1).then(|| destination.surfaces_mut(memory)).flatten() {
        let write = |(surface, bytes): (usize, &mut [u8])| {
            for (at, rows, results) in done.clone() {
                let into = &mut bytes[destination.in_surface(at, rows.count)];
                claim_after(into);
                rows.store(results, surface, into);
            }
        };
        share(threads, surfaces.enumerate(), || (), |(), surface| write(surface));
        return Ok(());
    }
    for (at, rows, results) in done {
        for surface in 0..operation.surfaces {
            let into = destination.write_to(memory, surface, at, rows.count)?;
            claim_after(into);
            rows.store(results, surface, into);
        }
    }
    Ok(())
}

/// Computes some strips into `results`.
fn part<E: Engine>(
    engine: &E,
    room: &mut E::Room,
    operation: &Operation,
    memory: &dyn Memory,
    strips: &Strips,
    which: Range<usize>,
    results: &mut [u8],
) -> Result<Counts, Stop> {
    let mut counts = Counts::default();
    let bytes = strips.rows.count * strips.rows.steps() * E::BYTES;
    for (strip, results) in which.zip(results.chunks_exact_mut(bytes)) {
        let (at, rows) = strips.at(strip);
        for surface in 0..operation.surfaces {
            let atoms = operation.source.read(memory, surface, at, rows.count)?;
            engine.load(room, rows, surface, atoms);
            fetch_after(atoms);
        }
        counts += engine.normalise(room, rows, &mut results[..rows.count * rows.steps() * E::BYTES]);
    }
    Ok(counts)
}
