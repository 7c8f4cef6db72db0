// SPDX-License-Identifier: MIT OR Apache-2.0

//! SDP, the single data point processor, with its read DMA: bias, scale, activation, element-wise, conversion.
//!
//! Data comes from memory or from CACC, passes through the sub-units X1, X2 and Y that are not bypassed and through the
//! output converter, and goes to memory or to PDP. Everything is done to single elements, so that only operands and
//! addresses depend on where an element lies. The padding channels of the last atom are computed and written like the
//! others.
//!
//! [`reference`] says element by element what happens; [`run`] does the same a line at a time with vector code.
//!
//! Source: register manual (SDP, SDP_RDMA), "In-memory data formats", and for widths and orders the hardware project's
//! C-model (`cmod/sdp`, `cmod/hls/sdp`).

#[cfg(test)]
mod extremes;
mod operation;
mod read;
pub mod reference;
mod registers;
#[cfg(test)]
mod tests;
mod vector;

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{sdp as reg, sdp_rdma as rdma_reg, Block};

use crate::lut::{Counters, Tables};
use crate::memory::{Memory, Stop};
use crate::num::convert::fp16_to_fp32;
use crate::registers::Registers;
use crate::stream::{Done, Samples, Status, Stream};
use operation::{Destination, Operation};
pub(crate) use vector::{OnFlying, Settings};

/// What SDP keeps from one operation to the next.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The lookup tables.
    pub tables: Tables,
    scratch: Option<Box<vector::Scratch>>,
    /// The last operation's lookup.
    joint: Option<vector::Joint>,
}

/// Performs the operation that the registers of SDP and its read DMA describe.
///
/// `input` is what CACC gives, `None` when SDP reads memory. The output is a cube for PDP where the registers say so:
/// int8 and int16 as they are, fp16 widened by [`fp16_to_fp32`].
pub fn run(
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    sdp: &Registers,
    input: Option<&Stream>,
    memory: &mut dyn Memory,
) -> Result<Done<Option<Stream>>, Stop> {
    vector::run(Settings::detect(), state, config, rdma, sdp, input, memory)
}

/// What is counted while an operation runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    lookups: Counters,
    saturated: u32,
    nan_output: u32,
    nan_input: u32,
    infinite_input: u32,
    unequal: bool,
}

impl Tally {
    /// Adds what another part of the operation has counted.
    fn add(&mut self, other: &Self) {
        self.lookups += other.lookups;
        self.saturated = self.saturated.wrapping_add(other.saturated);
        self.nan_output = self.nan_output.wrapping_add(other.nan_output);
        self.nan_input = self.nan_input.wrapping_add(other.nan_input);
        self.infinite_input = self.infinite_input.wrapping_add(other.infinite_input);
        self.unequal |= other.unequal;
    }

    /// The operation's status registers.
    fn finish(&self, operation: &Operation, output: Option<Stream>) -> Done<Option<Stream>> {
        let mut status = Status::EMPTY;
        let mut set = |block, register, value| status.push((block, register, value));
        if operation.compares() {
            set(Block::Sdp, reg::D_STATUS, u32::from(self.unequal));
        }
        if operation.count.lookups {
            set(Block::Sdp, reg::D_PERF_LUT_UFLOW, self.lookups.under);
            set(Block::Sdp, reg::D_PERF_LUT_OFLOW, self.lookups.over);
            set(Block::Sdp, reg::D_PERF_LUT_HYBRID, self.lookups.hybrid);
            set(Block::Sdp, reg::D_PERF_LUT_LE_HIT, self.lookups.le_hit);
            set(Block::Sdp, reg::D_PERF_LUT_LO_HIT, self.lookups.lo_hit);
        }
        if operation.count.saturation {
            set(Block::Sdp, reg::D_PERF_OUT_SATURATION, self.saturated);
        }
        if operation.count.nan_output {
            set(Block::Sdp, reg::D_STATUS_NAN_OUTPUT_NUM, self.nan_output);
        }
        if operation.count.nan_input {
            set(Block::SdpRdma, rdma_reg::D_STATUS_NAN_INPUT_NUM, self.nan_input);
            set(Block::SdpRdma, rdma_reg::D_STATUS_INF_INPUT_NUM, self.infinite_input);
        }
        Done { output, status }
    }
}

/// Largest cube for PDP, in samples: well beyond any network's, and small enough to be held.
const LARGEST_STREAM: usize = 1 << 28;

/// The cube for PDP, with room for its samples.
fn stream_for_pdp(operation: &Operation) -> Result<Option<Stream>, Stop> {
    if !matches!(operation.destination, Destination::Pdp) {
        return Ok(None);
    }
    let samples = operation.view().cube;
    if samples > LARGEST_STREAM {
        let Operation { width, height, channels, .. } = operation;
        return Err(Stop::unsupported(
            "SDP",
            format!("the cube {width}x{height}x{channels} is too large to be handed to PDP by this model"),
        ));
    }
    Ok(Some(Stream {
        width: operation.width,
        height: operation.height,
        channels: operation.channels,
        lanes: operation.lanes,
        batch: 1,
        samples: match operation.output {
            Precision::Fp16 => Samples::Float(vec![0.0; samples]),
            Precision::Int8 | Precision::Int16 => Samples::Int(vec![0; samples]),
        },
    }))
}

/// Puts an output value, 16 bits wide, where PDP finds it.
fn put_sample(samples: &mut Samples, index: usize, value: i16) {
    match samples {
        Samples::Int(samples) => samples[index] = value.into(),
        Samples::Float(samples) => samples[index] = f32::from_bits(fp16_to_fp32(value as u16)),
    }
}
