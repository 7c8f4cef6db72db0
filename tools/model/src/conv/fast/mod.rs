// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fast implementation: convolution as blocked matrix products, by the instructions that the machine has.
//!
//! int8: products are summed in 32 bits that wrap. That is exact as long as the whole sum fits, which is so below
//! 2^17 products; deeper kernels are cut into parts that fit, whose sums are added in 64 bits. No sum of int8 products
//! that a kernel can have reaches the 48 bits at which CACC would saturate.

use nvdla_uapi::reg::values::Precision;

use super::cbuf::{Input, Weights};
use super::operation::{Mode, Operation};
use crate::stream::{Samples, Stream};

pub mod aligned;
#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
mod direct;
#[cfg(target_arch = "aarch64")]
pub mod dotprod;
pub mod half;
#[cfg(target_arch = "aarch64")]
pub mod i8mm;
#[cfg(target_arch = "aarch64")]
pub mod interleave;
pub mod isa;
mod kept;
#[cfg(target_arch = "aarch64")]
pub mod neon;
pub mod panel;
pub mod parts;
pub mod portable;
pub mod shape;
pub mod sink;
pub mod wide;

use aligned::Aligned;
use direct::InputRoom;
pub use isa::Isa;
use panel::Weight;
use shape::{Element, Run, Shape};
use sink::{Between, Keep, Sink};

/// Products of int8 whose sum cannot leave 32 bits.
const MAX_DEPTH: usize = (1 << 17) - 1;
/// Multiplications from which a second thread pays.
const PARALLEL_MACS: usize = 1_000_000;

/// Buffers that operations share.
#[derive(Debug, Default)]
pub struct Scratch {
    input: InputRoom,
    half: half::Room,
    bytes: Aligned,
    spare: Vec<i32>,
    spare_floats: Vec<f32>,
}

impl Scratch {
    /// Takes a finished operation's stream back, for its memory.
    pub fn recycle(&mut self, stream: Stream) {
        match stream.samples {
            Samples::Int(samples) if samples.capacity() > self.spare.capacity() => self.spare = samples,
            Samples::Float(samples) if samples.capacity() > self.spare_floats.capacity() => self.spare_floats = samples,
            Samples::Int(_) | Samples::Float(_) => {}
        }
    }

    /// What [`bytes`] or [`halves`] has made, in the order of a packed cube.
    pub fn bytes(&mut self, operation: &Operation) -> &[u8] {
        match operation.precision {
            Precision::Fp16 => self.bytes.get::<[u8; 2]>(operation.sums()).as_flattened(),
            Precision::Int8 | Precision::Int16 => self.bytes.get::<u8>(operation.sums()),
        }
    }

    /// `count` floats, all to be overwritten.
    fn floats(&mut self, count: usize) -> Vec<f32> {
        let mut sums = std::mem::take(&mut self.spare_floats);
        sums.truncate(count);
        sums.resize(count, 0.0);
        sums
    }

    /// `count` sums, all to be overwritten.
    fn sums(&mut self, count: usize) -> Vec<i32> {
        let mut sums = std::mem::take(&mut self.spare);
        sums.truncate(count);
        sums.resize(count, 0);
        sums
    }
}

/// What an inner loop computes: the sums of some windows with the kernels of a panel.
#[derive(Debug)]
pub struct Tile<'t, D, W, const N: usize> {
    /// The copied input, from the first window on.
    pub data: &'t [D],
    /// Elements from a window to the next.
    pub step: usize,
    /// What a window takes of the data.
    pub runs: &'t [Run],
    /// The weights.
    pub panel: &'t [W],
    /// What the sums begin at.
    pub start: &'t [i32; N],
    /// The sums, an array for each window.
    pub sums: &'t mut [[i32; N]],
}

/// Calls the loop `tile` that is compiled for as many windows as a tile has (for some at a time, `by` so many). Its
/// numbers are all that [`Kernel::tile`]'s condition leaves.
macro_rules! by_pixels {
    ($tile:ident: $($count:literal)+) => { by_pixels!($tile by 1: $($count)+) };
    ($tile:ident by $together:literal: $($count:literal)+) => {
        match $tile.sums.len().div_ceil($together) {
            $($count => tile::<$count>($tile),)+
            _ => {}
        }
    };
}
use by_pixels;

/// An inner loop over `N` kernels.
pub trait Kernel<const N: usize> {
    /// An element of the copied input.
    type Data: Element + Sync;
    /// An element of a panel.
    type Weight: Weight;
    /// Elements of a step.
    const GROUP: usize;
    /// Most pixels of a tile.
    const PIXELS: usize;
    /// What the data is too high by.
    const BIAS: i32;

    /// The sums of the tile's windows with all kernels of the panel.
    ///
    /// # Safety
    /// The machine has the instructions. The tile has 1 to `PIXELS` windows; run offsets and lengths, plus all windows'
    /// steps but one, lie in its data; its panel has `N` weights for each element of the runs, whose lengths are
    /// multiples of `GROUP`.
    unsafe fn tile(tile: Tile<'_, Self::Data, Self::Weight, N>);

    /// Packs a panel, and gives what its sums begin at.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn pack(
        operation: &Operation,
        shape: &Shape,
        weights: &[u8],
        first: usize,
        panel: &mut [Self::Weight],
        start: &mut [i32; N],
    );
}

/// Whether [`sums`] computes the operation.
pub fn is_fast(operation: &Operation) -> bool {
    operation.precision == Precision::Int8
        && operation.placement.mode != Mode::Winograd
        && operation.kernel_bytes() <= MAX_DEPTH
}

/// The output cubes, and how many sums were limited to 32 bits.
pub fn run(
    scratch: &mut Scratch,
    isa: Isa,
    operation: &Operation,
    input: &Input<'_>,
    weights: &Weights<'_>,
) -> (Stream, u32) {
    if half::is_fast(operation) {
        return (half::run(scratch, isa, operation, input, weights), 0);
    }
    if wide::is_fast(operation) {
        return wide::run(scratch, isa, operation, input, weights);
    }
    if !is_fast(operation) {
        return super::reference::run(operation, input, weights);
    }
    let mut samples = scratch.sums(operation.sums());
    sums(&mut scratch.input, isa, operation, input, weights, &Keep, &mut samples);
    (super::stream(operation, Samples::Int(samples)), 0)
}

/// The sums of an operation that [`is_fast`], each given to `sink` once.
fn sums<S: Sink>(
    room: &mut InputRoom,
    isa: Isa,
    operation: &Operation,
    input: &Input<'_>,
    weights: &Weights<'_>,
    sink: &S,
    out: &mut [S::Out],
) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => direct::run::<avx512::Avx512, 32, S>(room, isa, operation, input, weights, sink, out),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => direct::run::<avx2::Avx2, 16, S>(room, isa, operation, input, weights, sink, out),
        #[cfg(target_arch = "aarch64")]
        Isa::I8mm => direct::run::<i8mm::I8mm, 16, S>(room, isa, operation, input, weights, sink, out),
        #[cfg(target_arch = "aarch64")]
        Isa::Dotprod => direct::run::<dotprod::Dotprod, 16, S>(room, isa, operation, input, weights, sink, out),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => direct::run::<neon::Neon, 16, S>(room, isa, operation, input, weights, sink, out),
        _ => direct::run::<portable::Portable, 16, S>(room, isa, operation, input, weights, sink, out),
    }
}

/// Gives the sums of an operation that [`is_fast`] to a sink that makes bytes of them: [`Scratch::bytes`].
pub fn bytes<S: Sink<Out = u8>>(
    scratch: &mut Scratch,
    isa: Isa,
    operation: &Operation,
    input: &Input<'_>,
    weights: &Weights<'_>,
    sink: &S,
) {
    let Scratch { input: room, bytes, .. } = scratch;
    sums(room, isa, operation, input, weights, sink, bytes.get::<u8>(operation.sums()));
}

/// Gives bounds of the sums of an operation that [`half::bounds::suits`] to a sink that makes fp16 of them:
/// [`Scratch::bytes`]. False where only the sums themselves will do.
pub fn halves<S: Between<Out = [u8; 2]>>(
    scratch: &mut Scratch,
    isa: Isa,
    operation: &Operation,
    input: &Input<'_>,
    weights: &[u8],
    sink: &S,
) -> bool {
    let Scratch { half: room, bytes, .. } = scratch;
    half::bounds::run(room, isa, operation, input, weights, sink, bytes.get::<[u8; 2]>(operation.sums()))
}
