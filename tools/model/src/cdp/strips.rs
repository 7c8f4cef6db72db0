// SPDX-License-Identifier: MIT OR Apache-2.0

//! Computes a cube in strips. A strip is a run of positions in a line that nearly fits the first-level cache. The next
//! strip is prefetched while the current one is computed. Threads share large cubes.
//!
//! ```text
//! for each strip, on any thread:
//!     for each surface: copy its atoms into rows (a row has all channels of a position)
//!     for each row: compute the results
//!     for each surface: copy parts of the result rows to its atoms
//! ```

use std::sync::Mutex;

use nvdla_uapi::layout::feature::Atoms;

use super::operation::{Counts, Operation, REACH};
use crate::memory::{Memory, Stop};
use crate::simd::prefetch::{prefetch_after, prefetch_write_after};
use crate::threads::share::{share, Parts};

/// Smallest number of elements for which a second thread is worth its cost.
const PARALLEL: usize = if cfg!(test) { 1 << 10 } else { 1 << 17 };
/// Approximate bytes of a strip in memory.
const STRIP: usize = 8192;
/// Strips that a thread computes at a time.
const RUN: usize = if cfg!(test) { 2 } else { 16 };

/// An element in memory.
pub(super) trait Element: Copy + Default + Send {
    const BYTES: usize;
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Keeps the low bits.
    fn low(value: i32) -> Self;
}

macro_rules! element {
    ($($type:ident)*) => {$(
        impl Element for $type {
            const BYTES: usize = size_of::<$type>();
            #[inline]
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$type>()];
                own.copy_from_slice(bytes);
                Self::from_le_bytes(own)
            }
            fn low(value: i32) -> Self {
                value as $type
            }
        }
    )*};
}
element!(i8 i16 u16);

/// Computes the rows of one operation.
pub(super) trait Engine: Sync {
    type Element: Element;
    /// A thread's buffers.
    type Buffers: Default + Send;
    /// The value that a window reads beyond the cube's channels.
    fn outside(&self) -> Self::Element;
    /// Resizes the buffers for rows of `elements` elements.
    fn prepare(&self, buffers: &mut Self::Buffers, elements: usize);
    /// Computes a row. `around` has its elements with [`REACH`] more on either side.
    fn row(&self, buffers: &mut Self::Buffers, around: &[Self::Element], into: &mut [u8]) -> Counts;
}

/// The buffers of all threads.
#[derive(Debug, Default)]
pub(super) struct ThreadBuffers<E, R>(Vec<Buffers<E, R>>);

/// A thread's buffers.
#[derive(Debug, Default)]
struct Buffers<E, R> {
    /// Rows, with [`REACH`] padding elements before each row and after the last one.
    elements: Vec<E>,
    /// Rows of results, without padding.
    results: Vec<u8>,
    own: R,
}

/// The positions of the strips, and the shape of their rows.
#[derive(Clone, Copy)]
struct Strips {
    /// Positions per strip. The last strip of a line may have fewer.
    positions: usize,
    each_line: usize,
    count: usize,
    width: usize,
    surfaces: usize,
    /// Elements per row, including padding lanes of the last surface.
    elements: usize,
    /// Elements per row without padding lanes.
    channels: usize,
    atoms: Atoms,
}

impl Strips {
    fn new(operation: &Operation, bytes: usize) -> Self {
        let Operation { width, height, surfaces, elements, channels, .. } = *operation;
        let longest = (STRIP / bytes / elements).clamp(1, width);
        // Strips of nearly equal length.
        let positions = width.div_ceil(width.div_ceil(longest));
        let each_line = width.div_ceil(positions);
        let atoms = operation.source.cube.atoms();
        Self { positions, each_line, count: each_line * height, width, surfaces, elements, channels, atoms }
    }

    /// A strip's first line and column, and its number of positions.
    const fn at(&self, strip: usize) -> ([usize; 2], usize) {
        let x = strip % self.each_line * self.positions;
        let left = self.width - x;
        ([strip / self.each_line, x], if left < self.positions { left } else { self.positions })
    }

    /// Distance between rows, in elements.
    const fn stride(&self) -> usize {
        REACH + self.elements
    }

    /// Copies a surface's atoms into rows.
    fn load<E: Element>(&self, surface: usize, atoms: &[u8], rows: &mut [E]) {
        let (first, lanes) = (REACH + self.atoms.channel(surface, 0), self.atoms.elements());
        for (row, atom) in rows.chunks_exact_mut(self.stride()).zip(atoms.chunks_exact(lanes * E::BYTES)) {
            for (element, bytes) in row[first..][..lanes].iter_mut().zip(atom.chunks_exact(E::BYTES)) {
                *element = E::from_bytes(bytes);
            }
        }
    }

    /// Computes a strip whose atoms have been loaded.
    fn compute<E: Engine>(
        &self,
        engine: &E,
        positions: usize,
        buffers: &mut Buffers<E::Element, E::Buffers>,
    ) -> Counts {
        let Buffers { elements, results, own } = buffers;
        let mut counts = Counts::default();
        if self.channels < self.elements {
            for row in elements.chunks_exact_mut(self.stride()).take(positions) {
                row[REACH + self.channels..].fill(engine.outside());
            }
        }
        let into = results.chunks_exact_mut(self.elements * E::Element::BYTES);
        for (row, into) in into.enumerate().take(positions) {
            counts += engine.row(own, &elements[row * self.stride()..][..self.elements + 2 * REACH], into);
        }
        counts
    }

    /// Copies a surface's results to its atoms.
    fn store(&self, surface: usize, results: &[u8], into: &mut [u8]) {
        let (bytes, stride) = (self.atoms.bytes(), self.atoms.span(self.surfaces));
        let from = &results[self.atoms.span(surface)..];
        match bytes {
            32 => scatter::<32>(from, stride, into),
            16 => scatter::<16>(from, stride, into),
            _ => scatter::<8>(from, stride, into),
        }
    }
}

/// Copies pieces of `N` bytes that lie `stride` bytes apart in `from` to adjacent places.
fn scatter<const N: usize>(from: &[u8], stride: usize, into: &mut [u8]) {
    for (number, into) in into.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        into.copy_from_slice(&from[number * stride..][..N]);
    }
}

/// Computes an operation.
pub(super) fn run<E: Engine>(
    engine: &E,
    per_thread: &mut ThreadBuffers<E::Element, E::Buffers>,
    operation: &Operation,
    memory: &mut dyn Memory,
) -> Result<Counts, Stop> {
    let strips = Strips::new(operation, E::Element::BYTES);
    let elements = operation.elements * operation.width * operation.height;
    let threads = if elements < PARALLEL { 1 } else { rayon::current_num_threads().min(strips.count) };
    if per_thread.0.len() < threads {
        per_thread.0.resize_with(threads, Default::default);
    }
    let per_thread = &mut per_thread.0[..threads];
    for buffers in &mut *per_thread {
        buffers.elements.clear();
        buffers.elements.resize(strips.positions * strips.stride() + REACH, engine.outside());
        buffers.results.resize(strips.positions * strips.elements * E::Element::BYTES, 0);
        engine.prepare(&mut buffers.own, strips.elements);
    }
    let both = operation.source.all().zip(operation.destination.all());
    if let Some((from, to)) = both.and_then(|(from, to)| memory.both(from, to)) {
        return Ok(direct(engine, &strips, per_thread, operation, from, to));
    }
    let mut counts = Counts::default();
    let buffers = &mut per_thread[0];
    for strip in 0..strips.count {
        let (at, positions) = strips.at(strip);
        for surface in 0..strips.surfaces {
            let atoms = operation.source.read(memory, surface, at, positions)?;
            strips.load(surface, atoms, &mut buffers.elements);
            prefetch_after(atoms);
        }
        counts += strips.compute(engine, positions, buffers);
        for surface in 0..strips.surfaces {
            let into = operation.destination.write_to(memory, surface, at, positions)?;
            prefetch_write_after(into);
            strips.store(surface, &buffers.results, into);
        }
    }
    Ok(counts)
}

/// Computes from the source's bytes to the destination's. Each thread writes its own results.
fn direct<E: Engine>(
    engine: &E,
    strips: &Strips,
    per_thread: &mut [Buffers<E::Element, E::Buffers>],
    operation: &Operation,
    from: &[u8],
    to: &mut [u8],
) -> Counts {
    let threads = per_thread.len();
    let per_thread = Mutex::new(per_thread.iter_mut());
    let counts = Mutex::new(Counts::default());
    let to = Parts::new(to);
    let run = RUN.min(strips.count.div_ceil(threads));
    share(
        threads,
        (0..strips.count).step_by(run),
        || per_thread.lock().ok().and_then(|mut per_thread| per_thread.next()),
        |buffers, first| {
            // There are as many buffers as threads.
            let Some(buffers) = buffers else { return };
            let mut own = Counts::default();
            for strip in first..strips.count.min(first + run) {
                let (at, positions) = strips.at(strip);
                for surface in 0..strips.surfaces {
                    let atoms = &from[operation.source.within(surface, at, positions)];
                    strips.load(surface, atoms, &mut buffers.elements);
                    prefetch_after(atoms);
                }
                own += strips.compute(engine, positions, buffers);
                for surface in 0..strips.surfaces {
                    // SAFETY: no other strip has these atoms, and atoms of a cube without gaps do not overlap.
                    let into = unsafe { to.part(operation.destination.within(surface, at, positions)) };
                    prefetch_write_after(into);
                    strips.store(surface, &buffers.results, into);
                }
            }
            if let Ok(mut counts) = counts.lock() {
                *counts += own;
            }
        },
    );
    counts.into_inner().unwrap_or_default()
}
