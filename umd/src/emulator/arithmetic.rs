// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arithmetic of the emulated operations, on bytes in place.

use crate::half;
use nvdla_uapi::emu::{Format, Operation, Single};

/// (shift + scale * x) ^ power.
pub(super) struct Power {
    exponent: f32,
    scale: f32,
    shift: f32,
    input_scale: f32,
    output_scale: f32,
}

impl Power {
    pub(super) fn new(operation: &Operation, power: Single, scale: Single, shift: Single) -> Self {
        Self {
            exponent: f32::from_bits(power.0),
            scale: f32::from_bits(scale.0),
            shift: f32::from_bits(shift.0),
            input_scale: f32::from_bits(operation.input_scale.0),
            output_scale: f32::from_bits(operation.output_scale.0),
        }
    }

    /// Computes every element of a line.
    pub(super) fn line(&self, format: Format, line: &mut [u8]) {
        if format == Format::Fp16 {
            for element in line.chunks_exact_mut(2) {
                let x = half::to_f32(half::f16::from_le_bytes([element[0], element[1]]));
                element.copy_from_slice(&half::from_f32(self.apply(x)).to_le_bytes());
            }
        } else {
            for element in line {
                let x = f32::from(*element as i8) * self.input_scale;
                *element = saturate(self.apply(x) / self.output_scale);
            }
        }
    }

    fn apply(&self, x: f32) -> f32 {
        // Two roundings, as in the reference: no fused multiply-add.
        (self.shift + self.scale * x).powf(self.exponent)
    }
}

/// e^x divided by the sum of e^x of all channels; the greatest x is subtracted from each x first.
pub(super) struct Softmax {
    input_scale: f32,
    output_scale: f32,
}

impl Softmax {
    pub(super) fn new(operation: &Operation) -> Self {
        Self {
            input_scale: f32::from_bits(operation.input_scale.0),
            output_scale: f32::from_bits(operation.output_scale.0),
        }
    }

    /// Computes the channels of one pixel. int8 values are converted to half precision before and back afterwards.
    pub(super) fn pixel(&self, format: Format, channels: &mut [u8]) {
        if format == Format::Fp16 {
            let mut values: Vec<_> =
                channels.chunks_exact(2).map(|b| half::to_f32(half::f16::from_le_bytes([b[0], b[1]]))).collect();
            softmax(&mut values);
            for (channel, value) in channels.chunks_exact_mut(2).zip(values) {
                channel.copy_from_slice(&half::from_f32(value).to_le_bytes());
            }
        } else {
            let mut values: Vec<_> = channels
                .iter()
                .map(|&byte| half::to_f32(half::from_f32(f32::from(byte as i8) * self.input_scale)))
                .collect();
            softmax(&mut values);
            for (channel, value) in channels.iter_mut().zip(values) {
                *channel = saturate(half::to_f32(half::from_f32(value)) / self.output_scale);
            }
        }
    }
}

fn softmax(values: &mut [f32]) {
    let greatest = values.iter().fold(f32::NEG_INFINITY, |greatest, &x| if x > greatest { x } else { greatest });
    let mut sum = 0.0_f32;
    for x in values.iter_mut() {
        *x = (*x - greatest).exp();
        sum += *x;
    }
    for x in values {
        *x /= sum;
    }
}

/// Clamps to int8 and truncates towards zero. NaN becomes 0.
fn saturate(value: f32) -> u8 {
    (value as i8) as u8
}
