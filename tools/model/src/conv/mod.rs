// SPDX-License-Identifier: MIT OR Apache-2.0

//! The convolution pipeline: CDMA, the convolution buffer, CSC, CMAC and CACC as one function from register values and
//! memory to a stream of sums for SDP.
//!
//! - [`operation`]: the registers of the five blocks as one checked value
//! - [`cbuf`]: the data that CDMA fetches, and those that stay in the convolution buffer for the next operation
//! - [`pixel`] and [`convert`]: pixel formats and the input converter
//! - [`mod@reference`]: the steps of CSC, CMAC and CACC in plain code
//! - [`fast`]: the same with the machine's vector instructions
//! - [`fp16`] and [`winograd`]: the arithmetic of fp16 and of Winograd convolution
//!
//! Source: "In-memory data formats" for the layouts; the C-model (`cmod/cdma`, `cmod/csc`, `cmod/cmac`, `cmod/cacc`)
//! for order and arithmetic.

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{cacc, cdma, Block};

use crate::memory::{Memory, Stop};
use crate::stream::{Done, Form, Status, Stream};
use nvdla_uapi::isa::Isa;

pub use self::operation::Blocks;
pub mod cbuf;
pub mod convert;
pub mod fast;
pub mod fp16;
pub mod operation;
pub mod pixel;
pub mod reference;
#[cfg(test)]
mod tests;
pub mod winograd;

use fast::sink::{BoundsSink, Sink};
pub(crate) use operation::Operation;
use operation::Size;

/// The convolution pipeline's state between operations.
#[derive(Debug, Default)]
pub struct State {
    /// The convolution buffer.
    buffer: cbuf::State,
    /// Buffers that are kept between operations.
    scratch: fast::Scratch,
}

impl State {
    /// The state after reset, with an empty convolution buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// The output of [`run_into`], in the order of a packed cube.
    pub(crate) fn bytes(&mut self, operation: &Operation) -> &[u8] {
        self.scratch.bytes(operation)
    }

    /// Takes back a stream that [`run`] returned, to reuse its memory.
    pub fn recycle(&mut self, stream: Stream) {
        self.scratch.recycle(stream);
    }
}

/// Performs one convolution.
///
/// The stream has as many lanes as a memory atom has elements (32 for int8, 16 for int16 and fp16, on nv_full). Lanes
/// without a kernel are zero.
pub fn run(state: &mut State, config: &Config, blocks: &Blocks<'_>, memory: &dyn Memory) -> Result<Done<Stream>, Stop> {
    run_with(Isa::in_use()?, state, config, blocks, memory)
}

/// [`run`] with an instruction set that the machine has.
pub fn run_with(
    isa: Isa,
    state: &mut State,
    config: &Config,
    blocks: &Blocks<'_>,
    memory: &dyn Memory,
) -> Result<Done<Stream>, Stop> {
    let operation = Operation::new(config, blocks)?;
    let weights = state.buffer.weights(&operation, memory)?;
    let input = state.buffer.input(isa, &operation, memory)?;
    let (output, saturated) = fast::run(&mut state.scratch, isa, &operation, &input, &weights);
    state.buffer.release(&operation, input, weights);
    Ok(Done { output, status: report(state, saturated) })
}

/// Reads an operation, if [`run_into`] can pass its sums on in parts. Also returns the shape of the sums' cube.
pub(crate) fn flying_sums(config: &Config, blocks: &Blocks<'_>) -> Option<(Operation, Form)> {
    let flies = |operation: &Operation| fast::is_fast(operation) || fast::fp16::bounds::suits(operation);
    let operation = Operation::new(config, blocks).ok().filter(flies)?;
    let Operation { output, batch, atomic_k: lanes, .. } = operation;
    let Size { width, height, channels } = output;
    let is_float = operation.precision == Precision::Fp16;
    // Products of two bytes have 14 bits and a sign.
    let largest = if is_float { 1 << 31 } else { (operation.kernel_bytes() << 14).min(1 << 31) as u32 };
    Some((operation, Form { width, height, channels, lanes, batch, is_float, largest }))
}

/// Performs an operation of [`flying_sums`]. `sink` takes the sums and converts them to bytes in the order of a packed cube, in `into`
/// or, without it, in [`State::bytes`]. Returns the sums if they could not be passed to the sink.
pub(crate) fn run_into(
    state: &mut State,
    operation: &Operation,
    memory: &dyn Memory,
    sink: &(impl Sink<Out = u8> + BoundsSink<Out = [u8; 2]>),
    into: Option<&mut [u8]>,
) -> Result<Done<Option<Stream>>, Stop> {
    let weights = state.buffer.weights(operation, memory)?;
    let isa = Isa::in_use()?;
    let input = state.buffer.input(isa, operation, memory)?;
    let scratch = &mut state.scratch;
    let mut sums = None;
    if operation.precision != Precision::Fp16 {
        fast::bytes(scratch, isa, operation, &input, &weights, sink, into);
    } else if !fast::fp16_bytes(scratch, isa, operation, &input, &weights, sink, into) {
        sums = Some(fast::run(scratch, isa, operation, &input, &weights).0);
    }
    state.buffer.release(operation, input, weights);
    Ok(Done { output: sums, status: report(state, 0) })
}

/// The status registers' new values.
fn report(state: &State, saturated: u32) -> Status {
    let counters = state.buffer.counters;
    [
        (Block::Cdma, cdma::D_NAN_INPUT_DATA_NUM, counters.nan_data),
        (Block::Cdma, cdma::D_NAN_INPUT_WEIGHT_NUM, counters.nan_weights),
        (Block::Cdma, cdma::D_INF_INPUT_DATA_NUM, counters.infinite_data),
        (Block::Cdma, cdma::D_INF_INPUT_WEIGHT_NUM, counters.infinite_weights),
        (Block::Cacc, cacc::D_OUT_SATURATION, saturated),
    ]
    .into()
}
