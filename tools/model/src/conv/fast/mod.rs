// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fast implementation: convolution as blocked matrix products, with the machine's vector instructions.
//!
//! int8 products are summed in 32 bits that wrap. This is exact as long as the final sum fits, which holds for fewer
//! than 2^17 products. Deeper kernels use the reference. No sum of int8 products reaches the 48 bits at which CACC
//! saturates.

use nvdla_uapi::reg::values::Precision;

use super::cbuf::{Input, Weights};
use super::operation::{Mode, Operation};
use crate::stream::{Samples, Stream};
use nvdla_uapi::isa::Isa;

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
#[cfg(target_arch = "x86_64")]
pub mod avx_vnni;
mod direct;
#[cfg(target_arch = "aarch64")]
pub mod dotprod;
pub mod fp16;
#[cfg(target_arch = "aarch64")]
pub mod i8mm;
#[cfg(target_arch = "aarch64")]
pub mod interleave;
mod kernel;
#[cfg(target_arch = "aarch64")]
pub mod neon;
pub mod panel;
pub mod parts;
pub mod portable;
mod scratch;
pub mod shape;
pub mod sink;
mod weight_cache;
pub mod wide;

use direct::InputBuffers;
use kernel::MAX_DEPTH;
pub use kernel::{Kernel, Tile};
pub use scratch::Scratch;
use sink::{BoundsSink, Keep, Sink};

/// Whether int8 products in 32-bit sums can compute the operation.
pub fn is_fast(operation: &Operation) -> bool {
    operation.precision == Precision::Int8
        && operation.placement.mode != Mode::Winograd
        && operation.kernel_bytes() <= MAX_DEPTH
}

/// Computes the output cubes. Also returns the number of sums that were limited to 32 bits.
pub fn run(
    scratch: &mut Scratch,
    isa: Isa,
    operation: &Operation,
    input: &Input<'_>,
    weights: &Weights<'_>,
) -> (Stream, u32) {
    if fp16::is_fast(operation) {
        return (fp16::run(scratch, isa, operation, input, weights), 0);
    }
    if wide::is_fast(operation) {
        return wide::run(scratch, isa, operation, input, weights);
    }
    if !is_fast(operation) {
        return super::reference::run(operation, input, weights);
    }
    let mut samples = scratch.sums(operation.sums());
    sums(&mut scratch.input, isa, operation, input, weights, &Keep, &mut samples);
    (super::operation::stream(operation, Samples::Int(samples)), 0)
}

/// Computes the sums of an operation that [`is_fast`]. Passes each sum to `sink` once.
fn sums<S: Sink>(
    buffers: &mut InputBuffers,
    isa: Isa,
    operation: &Operation,
    input: &Input<'_>,
    weights: &Weights<'_>,
    sink: &S,
    out: &mut [S::Out],
) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx512Vbmi => {
            direct::run::<avx512::Avx512, 32, S>(buffers, isa, operation, input, weights, sink, out);
        }
        #[cfg(target_arch = "x86_64")]
        Isa::AvxVnni if std::arch::is_x86_feature_detected!("avxvnni") => {
            direct::run::<avx_vnni::Vex, 16, S>(buffers, isa, operation, input, weights, sink, out);
        }
        #[cfg(target_arch = "x86_64")]
        Isa::AvxVnni => direct::run::<avx_vnni::Evex, 16, S>(buffers, isa, operation, input, weights, sink, out),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => direct::run::<avx2::Avx2, 16, S>(buffers, isa, operation, input, weights, sink, out),
        #[cfg(target_arch = "aarch64")]
        Isa::I8mm => direct::run::<i8mm::I8mm, 16, S>(buffers, isa, operation, input, weights, sink, out),
        #[cfg(target_arch = "aarch64")]
        Isa::Dotprod => direct::run::<dotprod::Dotprod, 16, S>(buffers, isa, operation, input, weights, sink, out),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => direct::run::<neon::Neon, 16, S>(buffers, isa, operation, input, weights, sink, out),
        _ => direct::run::<portable::Portable, 16, S>(buffers, isa, operation, input, weights, sink, out),
    }
}

/// Passes the sums of an operation that [`is_fast`] to `sink`, which converts them to bytes in `into` or [`Scratch::bytes`].
pub fn bytes<S: Sink<Out = u8>>(
    scratch: &mut Scratch,
    isa: Isa,
    operation: &Operation,
    input: &Input<'_>,
    weights: &Weights<'_>,
    sink: &S,
    into: Option<&mut [u8]>,
) {
    let Scratch { input: buffers, bytes, .. } = scratch;
    let out = into.unwrap_or_else(|| bytes.get::<u8>(operation.sums()));
    sums(buffers, isa, operation, input, weights, sink, out);
}

/// Passes bounds of the sums of an operation that [`fp16::bounds::suits`] to `sink`, which converts them to fp16 in `into` or
/// [`Scratch::bytes`]. Returns false if the sums themselves are needed.
pub fn fp16_bytes<S: BoundsSink<Out = [u8; 2]>>(
    scratch: &mut Scratch,
    isa: Isa,
    operation: &Operation,
    input: &Input<'_>,
    weights: &Weights<'_>,
    sink: &S,
    into: Option<&mut [u8]>,
) -> bool {
    let Scratch { fp16: buffers, bytes, .. } = scratch;
    let out = into.map_or_else(|| bytes.get(operation.sums()), |into| into.as_chunks_mut().0);
    fp16::bounds::run(buffers, isa, operation, input, weights, sink, out)
}
