// SPDX-License-Identifier: MIT OR Apache-2.0

//! What takes the sums of a convolution: a stream that keeps them, or SDP, while they are in the first-level cache.
//! fp16 sums may come as bounds.

/// Some elements of a surface, one after another, lines joined.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The cube.
    pub batch: usize,
    /// The surface.
    pub surface: usize,
    /// Number of the first element in its surface.
    pub first: usize,
    /// The surface's number in its part.
    pub index: usize,
}

/// What takes sums.
pub trait Sink: Sync {
    /// What becomes of a sum.
    type Out: Copy + Default + Send;

    /// A thread is about to give this surface's elements, some at a time.
    fn begin(&self, place: Place);

    /// Takes the sums of some elements, all lanes of each, and writes what becomes of them.
    fn take(&self, place: Place, sums: &[i32], out: &mut [Self::Out]);
}

/// Numbers between which sums lie.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'b> {
    /// None of the sums is lower than its number here.
    pub low: &'b [f32],
    /// Nor higher than its number here.
    pub high: &'b [f32],
}

/// Puts the sums of these numbers at their places.
pub type Exact<'e> = &'e mut dyn FnMut(&[u16], &mut [f32]);

/// What takes bounds of sums.
pub trait Between: Sync {
    /// What becomes of a sum.
    type Out: Copy + Default + Send;

    /// A thread is about to give this surface's elements, some at a time.
    fn begin(&self, place: Place);

    /// Takes the bounds of some elements' sums, all lanes of each, and writes what becomes of the sums; `exact` computes
    /// some of them.
    fn take(&self, place: Place, bounds: Bounds<'_>, exact: Exact<'_>, out: &mut [Self::Out]);
}

/// Keeps sums as they are.
#[derive(Debug)]
pub struct Keep;

impl Sink for Keep {
    type Out = i32;

    fn begin(&self, _: Place) {}

    fn take(&self, _: Place, sums: &[i32], out: &mut [i32]) {
        out.copy_from_slice(sums);
    }
}
