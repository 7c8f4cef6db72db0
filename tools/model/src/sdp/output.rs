// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cube that SDP passes to PDP.

use super::operation::{Destination, Operation};
use crate::memory::Stop;
use crate::num::convert::fp16_to_fp32;
use crate::stream::{Samples, Stream};
use nvdla_uapi::reg::values::Precision;

/// Largest cube for PDP, in samples: well beyond any network's, and small enough to be held.
pub(super) const LARGEST_STREAM: usize = 1 << 28;

/// The cube for PDP, with memory for its samples.
pub(super) fn stream_for_pdp(operation: &Operation) -> Result<Option<Stream>, Stop> {
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

/// Stores an output value, 16 bits wide, in the cube for PDP.
pub(super) fn put_sample(samples: &mut Samples, index: usize, value: i16) {
    match samples {
        Samples::Int(samples) => samples[index] = value.into(),
        Samples::Float(samples) => samples[index] = f32::from_bits(fp16_to_fp32(value as u16)),
    }
}
