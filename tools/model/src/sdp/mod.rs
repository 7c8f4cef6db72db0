// SPDX-License-Identifier: MIT OR Apache-2.0

//! SDP, the single data point processor, with its read DMA: bias, scale, activation, element-wise, conversion.
//!
//! Data comes from memory or from CACC, passes through the sub-units X1, X2 and Y that are not bypassed and through the output
//! converter, and goes to memory or to PDP. Every element is processed separately, so only operands and addresses depend on the
//! position of an element. The padding channels of the last atom are computed and written like the others.
//!
//! [`mod@reference`] defines the results element by element; [`run`] computes the same one line at a time with vector code.
//!
//! Source: register manual (SDP, SDP_RDMA), "In-memory data formats", and for widths and orders the hardware project's
//! C-model (`cmod/sdp`, `cmod/hls/sdp`).

#[cfg(test)]
mod extremes;
mod operation;
mod output;
mod read;
pub mod reference;
mod registers;
mod state;
mod tally;
#[cfg(test)]
mod tests;
mod vector;

pub use self::state::State;

use nvdla_uapi::config::Config;

use crate::memory::{Memory, Stop};
use crate::registers::Registers;
use crate::stream::{Done, Stream};
use vector::Settings;
pub(crate) use vector::{Decoded, OnFlying};

/// Performs the operation that the registers of SDP and its read DMA describe.
///
/// `input` is the output of CACC, `None` if SDP reads memory. Returns a cube for PDP if the registers select that: int8 and int16
/// unchanged, fp16 widened by [`fp16_to_fp32`](crate::num::convert::fp16_to_fp32).
pub fn run(
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    sdp: &Registers,
    input: Option<&Stream>,
    memory: &mut dyn Memory,
) -> Result<Done<Option<Stream>>, Stop> {
    vector::run(Settings::detect()?, state, config, rdma, sdp, input, memory)
}
