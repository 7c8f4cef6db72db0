// SPDX-License-Identifier: MIT OR Apache-2.0

//! Large operations on several threads.
//!
//! The cube is cut into strips of some chunks of a line. Threads compute a round of strips into memory of their own,
//! which stays in the caches, and then write the strips. All inputs of a round are read before its first output is
//! written, because an operation may work in place.

use std::cell::Cell;
use std::sync::Mutex;

use nvdla_uapi::layout::feature::Atoms;

use super::super::operation::DataCube;
use super::super::tally::Tally;
use super::addresses::feature_bytes_mut;
use super::addresses::ChunkPosition;
use super::lanes::Scratch;
use super::process::ChunkContext;
use super::walk::{emit, Walk};
use crate::memory::{Fault, Memory};
use crate::simd::aligned::Aligned;
use crate::simd::non_temporal::{copy_non_temporal, store_fence};
use crate::stream::Stream;
use crate::threads::share::share;

/// Chunks per strip.
const CHUNKS: usize = 32;
/// Strips per thread in a round. There are enough that the wait for the slowest thread at its end does not matter.
const STRIPS: usize = 24;

/// The number of bytes from which several threads write.
const SHARED: usize = 1 << 17;

thread_local! {
    /// Buffers for a round's output.
    static BUFFERS: Cell<Aligned> = Cell::default();
}

/// Computes the whole cube with this many threads. Each starts from a copy of `scratch`.
pub(super) fn run(
    walk: &Walk,
    context: &ChunkContext,
    scratch: &Scratch,
    (cube, threads): (&DataCube, usize),
    input: Option<&Stream>,
    memory: &mut dyn Memory,
    tally: &mut Tally,
) -> Result<(), Fault> {
    let atoms = cube.layout.atoms();
    let longest = CHUNKS * walk.chunk;
    let count = STRIPS * threads;
    // Taken, not borrowed: while this thread waits for others it may work for another device.
    let mut buffers = BUFFERS.take();
    let bytes = buffers.get::<u8>(atoms.span(count * longest));
    let mut strips = strips(context.operation.batch, walk, longest);
    let mut round: Vec<(ChunkPosition, Result<Tally, Fault>)> = Vec::with_capacity(count);
    let scratch_pool = ScratchPool { like: scratch, free: Mutex::default() };
    let aside = ChunkContext { non_temporal: false, ..*context };
    let result = loop {
        round.clear();
        round.extend(strips.by_ref().take(count).map(|strip| (strip, Ok(Tally::default()))));
        if round.is_empty() {
            break Ok(());
        }
        let shared: &dyn Memory = memory;
        share(
            threads,
            round.iter_mut().zip(bytes.chunks_mut(atoms.span(longest))),
            || scratch_pool.take(),
            |scratch, ((strip, done), into)| {
                *done = compute(walk, &aside, scratch.get(), *strip, input, shared, into, atoms);
            },
        );
        let mut first = 0;
        let written = round.chunk_by(|(a, _), (b, _)| (a.batch, a.surface, a.line) == (b.batch, b.surface, b.line));
        let written = written.into_iter().try_for_each(|strips| {
            let bytes = &bytes[atoms.span(first * longest)..];
            first += strips.len();
            for (_, done) in strips {
                tally.add(done.as_ref().map_err(|fault| *fault)?);
            }
            write(strips, bytes, (cube, threads), atoms.span(longest), context.non_temporal, memory)
        });
        if written.is_err() {
            break written;
        }
    };
    BUFFERS.set(buffers);
    result
}

/// Writes adjacent strips of one line.
fn write(
    strips: &[(ChunkPosition, Result<Tally, Fault>)],
    bytes: &[u8],
    (cube, threads): (&DataCube, usize),
    longest: usize,
    non_temporal: bool,
    memory: &mut dyn Memory,
) -> Result<(), Fault> {
    let Some(&(first, _)) = strips.first() else { return Ok(()) };
    let all = ChunkPosition { atoms: strips.iter().map(|(strip, _)| strip.atoms).sum(), ..first };
    let into = feature_bytes_mut(cube, all, memory)?;
    let threads = if into.len() < SHARED { 1 } else { threads };
    let pieces = into.chunks_mut(longest).zip(bytes.chunks(longest));
    share(
        threads,
        pieces,
        || (),
        |(), (into, bytes)| {
            let bytes = &bytes[..into.len()];
            if non_temporal {
                copy_non_temporal(into, bytes);
                store_fence();
            } else {
                into.copy_from_slice(bytes);
            }
        },
    );
    Ok(())
}

/// Scratch memory of threads, kept from round to round.
struct ScratchPool<'r> {
    like: &'r Scratch,
    free: Mutex<Vec<Box<Scratch>>>,
}

/// A thread's scratch memory. It is returned when the thread's share is done.
struct PooledScratch<'r> {
    pool: &'r ScratchPool<'r>,
    scratch: Option<Box<Scratch>>,
}

impl ScratchPool<'_> {
    fn take(&self) -> PooledScratch<'_> {
        let free = self.free.lock().ok().and_then(|mut free| free.pop());
        PooledScratch { pool: self, scratch: free }
    }
}

impl PooledScratch<'_> {
    fn get(&mut self) -> &mut Scratch {
        self.scratch.get_or_insert_with(|| Box::new(self.pool.like.clone()))
    }
}

impl Drop for PooledScratch<'_> {
    fn drop(&mut self) {
        if let (Some(scratch), Ok(mut free)) = (self.scratch.take(), self.pool.free.lock()) {
            free.push(scratch);
        }
    }
}

/// The strips in the order of the walk.
fn strips(batches: usize, walk: &Walk, longest: usize) -> impl Iterator<Item = ChunkPosition> {
    let Walk { surfaces, lines, atoms, .. } = *walk;
    (0..batches * surfaces * lines).flat_map(move |number| {
        let (line, surface) = (number % lines, number / lines % surfaces);
        let batch = number / lines / surfaces;
        (0..atoms).step_by(longest).map(move |x| ChunkPosition {
            batch,
            surface,
            line,
            x,
            atoms: longest.min(atoms - x),
        })
    })
}

/// Computes a strip.
fn compute(
    walk: &Walk,
    context: &ChunkContext,
    scratch: &mut Scratch,
    strip: ChunkPosition,
    input: Option<&Stream>,
    memory: &dyn Memory,
    into: &mut [u8],
    atoms: Atoms,
) -> Result<Tally, Fault> {
    let mut tally = Tally::default();
    walk.load_kernels(context, scratch, strip.surface, memory)?;
    let strip_bytes = &mut into[..atoms.span(strip.atoms)];
    for (number, into) in strip_bytes.chunks_mut(atoms.span(walk.chunk)).enumerate() {
        let done = number * walk.chunk;
        let at = ChunkPosition { x: strip.x + done, atoms: walk.chunk.min(strip.atoms - done), ..strip };
        walk.compute(context, scratch, at, input, memory, &mut tally)?;
        emit(context, scratch, into);
    }
    Ok(tally)
}
