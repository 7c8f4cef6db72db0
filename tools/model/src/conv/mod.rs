// SPDX-License-Identifier: MIT OR Apache-2.0

//! The convolution pipeline: CDMA, the convolution buffer, CSC, CMAC and CACC as one function from register values and
//! memory to a stream of sums for SDP.
//!
//! - [`operation`]: the registers of the five blocks as one checked value;
//! - [`cbuf`]: what CDMA fetches, and what stays in the convolution buffer for the next operation;
//! - [`pixel`] and [`convert`]: pixel formats and the input converter;
//! - [`reference`]: the steps of CSC, CMAC and CACC in plain code;
//! - [`fast`]: the same with the machine's vector instructions;
//! - [`program`]: registers from sizes, for tests and benchmarks;
//! - [`half`] and [`winograd`]: the arithmetic of fp16 and of Winograd convolution.
//!
//! Source: "In-memory data formats" for what lies in memory; the reference model (`cmod/cdma`, `cmod/csc`, `cmod/cmac`,
//! `cmod/cacc`) for order and arithmetic.

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::{cacc, cdma, Block};

use crate::memory::{Memory, Stop};
use crate::registers::Registers;
use crate::stream::{Done, Samples, Stream};

pub mod cbuf;
pub mod convert;
pub mod fast;
pub mod half;
pub mod operation;
pub mod pixel;
pub mod program;
pub mod reference;
#[cfg(test)]
mod tests;
pub mod winograd;

pub use cbuf::State;
pub use fast::Isa;
use operation::Operation;

/// The registers of the five blocks.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    /// Convolution DMA.
    pub cdma: &'a Registers,
    /// Sequence controller.
    pub csc: &'a Registers,
    /// First half of the multiply-accumulate array.
    pub cmac_a: &'a Registers,
    /// Second half of the multiply-accumulate array.
    pub cmac_b: &'a Registers,
    /// Accumulator.
    pub cacc: &'a Registers,
}

/// Performs one convolution.
///
/// The stream has as many lanes as an output surface has channels: those of a memory atom (32 for int8 and 16 for int16
/// and fp16 on nv_full). Lanes without a kernel are zero.
pub fn run(state: &mut State, config: &Config, blocks: &Blocks<'_>, memory: &dyn Memory) -> Result<Done<Stream>, Stop> {
    run_with(Isa::best(), state, config, blocks, memory)
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
    let weights = state.weights(&operation, memory)?;
    let input = state.input(&operation, memory)?;
    let (output, saturated) = fast::run(&mut state.scratch, isa, &operation, &input, &weights);
    state.release(&operation, input, weights);
    let counters = state.counters;
    let status = vec![
        (Block::Cdma, cdma::D_NAN_INPUT_DATA_NUM, counters.nan_data),
        (Block::Cdma, cdma::D_NAN_INPUT_WEIGHT_NUM, counters.nan_weights),
        (Block::Cdma, cdma::D_INF_INPUT_DATA_NUM, counters.infinite_data),
        (Block::Cdma, cdma::D_INF_INPUT_WEIGHT_NUM, counters.infinite_weights),
        (Block::Cacc, cacc::D_OUT_SATURATION, saturated),
    ];
    Ok(Done { output, status })
}

/// The operation's output.
fn stream(operation: &Operation, samples: Samples) -> Stream {
    let Operation { output, batch, atomic_k, .. } = *operation;
    Stream { width: output.width, height: output.height, channels: output.channels, lanes: atomic_k, batch, samples }
}
