// SPDX-License-Identifier: MIT OR Apache-2.0

//! Stores a chunk of 32-bit values as bytes and samples.

use nvdla_uapi::reg::values::Precision;

use super::super::operation::Operation;
use super::super::tally::Tally;
use super::float;
use super::lanes::map;
use crate::num::convert::{fp16_to_fp32, i17_to_fp16};
use crate::stream::Samples;

/// Limits values to the output precision: int8 and int16 as integers, fp16 as its 16 bits.
#[inline(always)]
pub(super) fn narrow(values: &mut [i32], operation: &Operation, tally: &mut Tally) {
    match (operation.processing, operation.output) {
        // The result of the comparison is not converted.
        _ if operation.compares() => map(values, |value| i32::from(value as i16)),
        (Precision::Fp16, Precision::Int16) => map(values, |value| i32::from(float::to_i16(value as u32))),
        (Precision::Fp16, _) => map(values, |value| i32::from(float::narrow(value as u32) as i16)),
        (_, Precision::Int8) => map(values, |value| value.clamp(-128, 127)),
        (_, Precision::Int16) => map(values, |value| value.clamp(-32768, 32767)),
        (_, Precision::Fp16) => {
            map(values, |value| i32::from(i17_to_fp16(value.clamp(-65536, 65535)) as i16));
        }
    }
    if operation.output == Precision::Fp16 {
        if operation.count.saturation {
            let saturated: u32 = values.iter().map(|&value| u32::from(value & 0x7fff == 0x7bff)).sum();
            tally.saturated = tally.saturated.wrapping_add(saturated);
        }
        if operation.count.nan_output {
            let nan: u32 = values.iter().map(|&value| u32::from(value & 0x7fff > 0x7c00)).sum();
            tally.nan_output = tally.nan_output.wrapping_add(nan);
        }
    }
}

/// The low byte of each value.
#[inline(always)]
pub(super) fn bytes(values: &[i32], into: &mut [u8]) {
    for (byte, &value) in into.iter_mut().zip(values) {
        *byte = value as u8;
    }
}

/// The low two bytes of each value.
#[inline(always)]
pub(super) fn pairs(values: &[i32], into: &mut [u8]) {
    for (pair, &value) in into.chunks_exact_mut(2).zip(values) {
        pair.copy_from_slice(&(value as i16).to_le_bytes());
    }
}

/// The low two bytes of the values in half of each atom of `lanes` values.
#[inline(always)]
pub(super) fn half_pairs(values: &[i32], lanes: usize, half: usize, into: &mut [u8]) {
    let width = lanes / 2;
    for (bytes, atom) in into.chunks_exact_mut(lanes).zip(values.chunks_exact(lanes)) {
        pairs(&atom[half * width..(half + 1) * width], bytes);
    }
}

/// Samples for PDP.
pub(super) fn samples(values: &[i32], into: &mut Samples, at: usize) {
    match into {
        Samples::Int(samples) => samples[at..at + values.len()].copy_from_slice(values),
        Samples::Float(samples) => {
            for (sample, &value) in samples[at..].iter_mut().zip(values) {
                *sample = f32::from_bits(fp16_to_fp32(value as u16));
            }
        }
    }
}
