// SPDX-License-Identifier: MIT OR Apache-2.0

//! Large operations by several threads.
//!
//! The cube is cut into strips of some chunks of a line. Threads compute a round of strips into memory of their own,
//! which stays in the caches; then the strips are written in order. Every input of a round is read before its first
//! output is written, as an operation in place needs it.

use nvdla_uapi::layout::feature::Atoms;
use rayon::prelude::*;

use super::super::operation::Place;
use super::super::Tally;
use super::process::Job;
use super::walk::{emit, feature_bytes_mut, At, Walk};
use super::Scratch;
use crate::memory::{Fault, Memory};
use crate::stream::Stream;

/// Chunks of a strip.
const CHUNKS: usize = 32;
/// Strips of a round, for each thread.
const STRIPS: usize = 8;

/// Computes the whole cube. `scratch` is what each thread starts from.
pub(super) fn run(
    walk: &Walk,
    job: &Job,
    scratch: &Scratch,
    place: &Place,
    input: Option<&Stream>,
    memory: &mut dyn Memory,
    tally: &mut Tally,
) -> Result<(), Fault> {
    let atoms = place.cube.atoms();
    let longest = CHUNKS * walk.chunk;
    let round = STRIPS * rayon::current_num_threads();
    let mut bytes = vec![0; atoms.span(round * longest)];
    let mut strips = strips(job.operation.batch, walk, longest);
    let mut batch = Vec::with_capacity(round);
    loop {
        batch.clear();
        batch.extend(strips.by_ref().take(round));
        if batch.is_empty() {
            return Ok(());
        }
        let shared: &dyn Memory = memory;
        let done: Vec<Result<Tally, Fault>> = bytes
            .par_chunks_mut(atoms.span(longest))
            .zip(batch.par_iter())
            .map_init(
                || scratch.clone(),
                |scratch, (into, &strip)| compute(walk, job, scratch, strip, input, shared, into, atoms),
            )
            .collect();
        for ((strip, done), bytes) in batch.iter().zip(done).zip(bytes.chunks(atoms.span(longest))) {
            tally.add(&done?);
            feature_bytes_mut(place, *strip, memory)?.copy_from_slice(&bytes[..atoms.span(strip.atoms)]);
        }
    }
}

/// The strips in the order of the walk.
fn strips(batches: usize, walk: &Walk, longest: usize) -> impl Iterator<Item = At> {
    let Walk { surfaces, lines, atoms, .. } = *walk;
    (0..batches * surfaces * lines).flat_map(move |number| {
        let (line, surface) = (number % lines, number / lines % surfaces);
        let batch = number / lines / surfaces;
        (0..atoms).step_by(longest).map(move |x| At { batch, surface, line, x, atoms: longest.min(atoms - x) })
    })
}

/// Computes a strip.
fn compute(
    walk: &Walk,
    job: &Job,
    scratch: &mut Scratch,
    strip: At,
    input: Option<&Stream>,
    memory: &dyn Memory,
    into: &mut [u8],
    atoms: Atoms,
) -> Result<Tally, Fault> {
    let mut tally = Tally::default();
    walk.load_kernels(job, scratch, strip.surface, memory)?;
    let strip_bytes = &mut into[..atoms.span(strip.atoms)];
    for (number, into) in strip_bytes.chunks_mut(atoms.span(walk.chunk)).enumerate() {
        let done = number * walk.chunk;
        let at = At { x: strip.x + done, atoms: walk.chunk.min(strip.atoms - done), ..strip };
        walk.compute(job, scratch, at, input, memory, &mut tally)?;
        emit(job, scratch, into);
    }
    Ok(tally)
}
