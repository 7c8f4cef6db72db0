// SPDX-License-Identifier: MIT OR Apache-2.0

//! The receivers of a convolution's sums: a stream that stores them, or SDP, which processes them while they are in the
//! first-level cache. fp16 sums may be passed as bounds.

/// The position of some adjacent elements of a surface, with lines joined.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The cube.
    pub batch: usize,
    /// The surface.
    pub surface: usize,
    /// Index of the first element in the surface.
    pub first: usize,
    /// Index of the surface in its part.
    pub index: usize,
}

/// A receiver of sums.
pub trait Sink: Sync {
    /// The result for one sum.
    type Out: Copy + Default + Send;

    /// Called by a thread before it passes elements of this surface.
    fn begin(&self, position: Position);

    /// Takes the sums of some elements, with all lanes of each, and writes the results.
    fn take(&self, position: Position, sums: &[i32], out: &mut [Self::Out]);

    /// Whether [`Sink::take_units`] takes units of this many kernels. There is then no [`Sink::begin`].
    fn takes_units(&self, kernels: usize) -> bool {
        let _ = kernels;
        false
    }

    /// Takes the sums of some elements of all surfaces in `out`, from the one at `position` on. A unit has the surfaces of `kernels`
    /// kernels; the sums are those of one unit after another, with all its kernels of each element. `skip` values of each
    /// surface come before those of the elements.
    fn take_units(&self, position: Position, sums: &[i32], kernels: usize, out: &mut [&mut [Self::Out]], skip: usize) {
        let _ = (position, sums, kernels, out, skip);
    }
}

/// The largest number of bounds that a sink takes at a time.
pub const MOST_BOUNDS: usize = 1024;

/// Lower and upper bounds of sums.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'b> {
    /// Lower bounds.
    pub low: &'b [f32],
    /// Upper bounds.
    pub high: &'b [f32],
}

/// Computes the exact sums with the given indices, and stores each at its index.
pub type Exact<'e> = &'e mut dyn FnMut(&[u16], &mut [f32]);

/// A receiver of bounds of sums.
pub trait BoundsSink: Sync {
    /// The result for one sum.
    type Out: Copy + Default + Send;

    /// Called by a thread before it passes elements of this surface.
    fn begin(&self, position: Position);

    /// Takes the bounds of some elements' sums, with all lanes of each, and writes the results. `exact` computes the
    /// sums that it needs exactly.
    fn take(&self, position: Position, bounds: Bounds<'_>, exact: Exact<'_>, out: &mut [Self::Out]);
}

/// Stores sums unchanged.
#[derive(Debug)]
pub struct Keep;

impl Sink for Keep {
    type Out = i32;

    fn begin(&self, _: Position) {}

    fn take(&self, _: Position, sums: &[i32], out: &mut [i32]) {
        out.copy_from_slice(sums);
    }
}
