// SPDX-License-Identifier: MIT OR Apache-2.0

//! Converts real factors and biases to the integers of SDP.

use crate::error::Error;
use crate::vector::vectorised;

/// The largest left shift of the bias that a 32-bit sum allows.
const LARGEST_BIAS_SHIFT: u8 = 16;
/// The largest int8 that is used for weights.
pub(crate) const LARGEST: f64 = 127.0;

/// How weights are scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// A scale per kernel.
    #[default]
    Kernel,
    /// One scale per layer.
    Layer,
}

/// The int8 value that the runtime writes for an image's byte: `floor(byte * 127 / 255 + 0.5)`.
pub fn image_value(byte: u8) -> i8 {
    ((u32::from(byte) * 254 + 255) / 510) as i8
}

/// The exponent of the least power of two that is not below a value.
pub(crate) fn exponent(value: f64) -> f64 {
    value.log2().ceil()
}

/// A factor as an integer and a right shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// The integer.
    pub scale: i16,
    /// The shift.
    pub truncate: u8,
}

impl Factor {
    /// The least factor: 1 with the greatest shift.
    pub const LEAST: f64 = 1.0 / (1u64 << 63) as f64;
    /// The greatest factor.
    pub const MOST: f64 = 32767.0;

    /// The nearest value to `factor`, with as many bits as fit.
    pub fn nearest(layer: &str, factor: f64) -> Result<Self, Error> {
        let refuse =
            || Error::unsupported(layer, format!("its output needs a factor of {factor:e}, which does not fit int16"));
        if !(factor.is_finite() && factor > 0.0) {
            return Err(refuse());
        }
        // The largest shift for which the integer fits.
        let bits = (Self::MOST / factor).log2().floor().min(63.0);
        if bits < 0.0 {
            return Err(refuse());
        }
        let scale = (factor * bits.exp2()).round();
        if scale < 1.0 {
            return Err(refuse());
        }
        Ok(Self { scale: scale as i16, truncate: bits as u8 })
    }
}

/// The nearest integer of 32 bits, the one farther from 0 in the middle. `f64::round` is a function of the C library on processors of
/// which only SSE2 is known.
#[inline]
pub(crate) fn round(value: f64) -> i32 {
    let whole = value as i32;
    let rest = value - f64::from(whole);
    whole.wrapping_add(i32::from(rest >= 0.5)).wrapping_sub(i32::from(rest <= -0.5))
}

vectorised! {
    /// The largest magnitude, in parts that the compiler keeps in vector registers.
    pub(crate) fn largest_of(values: &[f64]) -> f64 {
        let larger = |a: f64, b: f64| if b.abs() > a { b.abs() } else { a };
        let mut parts = [0f64; 16];
        let (all, rest) = values.as_chunks::<16>();
        for values in all {
            for (part, value) in parts.iter_mut().zip(values) {
                *part = larger(*part, *value);
            }
        }
        let mut largest = 0.0;
        for value in rest.iter().chain(&parts) {
            largest = larger(largest, *value);
        }
        largest
    }
}

vectorised! {
    /// Divides real numbers by a step. The integers are as [`round`] of the results between two limits of int16, without a conversion:
    /// behind the sum, the last bits of a double are those of the nearest integer, the even one in the middle.
    pub(crate) fn round_all(reals: &mut [f64], step: f64, limits: [f64; 2], integers: &mut [i16]) {
        const WHOLE: f64 = (3u64 << 51) as f64;
        let [least, most] = limits;
        for (integer, real) in integers.iter_mut().zip(reals) {
            *real /= step;
            let real = real.max(least).min(most);
            let sum = real + WHOLE;
            let rest = real - (sum - WHOLE);
            let up = i16::from(rest >= 0.5 && real > 0.0);
            let down = i16::from(rest <= -0.5 && real < 0.0);
            *integer = sum.to_bits() as i16 + up - down;
        }
    }
}

/// Rounds the weights of a kernel for one channel, whose nearest integers up to `most` are given, so that their sum is nearly that of
/// the real weights. `errors` is memory for as many numbers.
///
/// The elements of a channel in a window are much alike, so the sum of the changes counts more than each of them. Rounding each
/// weight to the nearest integer may change the sum by several steps. The weights that are nearest to the middle between two
/// integers are then rounded to the other one.
#[inline(always)]
#[allow(clippy::inline_always)] // so that its code is compiled for each instruction set
fn keep_sum(weights: &[f64], most: f64, integers: &mut [i16], errors: &mut Vec<f64>) {
    let mut change = 0.0;
    for (weight, &integer) in weights.iter().zip(&*integers) {
        change += weight - f64::from(integer);
    }
    // A change of up to half a step stays. A single weight that changes more is beyond the largest integer.
    if change.abs() <= 0.5 || weights.len() == 1 {
        return;
    }
    let steps = (change.abs() - 0.5).ceil() as usize;
    errors.clear();
    errors.extend(weights.iter().zip(&*integers).map(|(weight, &integer)| (weight - f64::from(integer)) * change));
    for _ in 0..steps.min(weights.len()) {
        // The first of the greatest.
        let (mut at, mut greatest) = (0, f64::NEG_INFINITY);
        for (k, &error) in errors.iter().enumerate() {
            if error > greatest {
                (at, greatest) = (k, error);
            }
        }
        integers[at] = (f64::from(integers[at]) + change.signum()).clamp(-most, most) as i16;
        errors[at] = f64::NEG_INFINITY;
    }
}

vectorised! {
    /// Keeps the sums of all channels of a kernel ([`keep_sum`]), each of which has `window` weights.
    pub(crate) fn keep_sums(weights: &[f64], window: usize, most: f64, integers: &mut [i16], errors: &mut Vec<f64>) {
        for (plane, integers) in weights.chunks_exact(window).zip(integers.chunks_exact_mut(window)) {
            keep_sum(plane, most, integers, errors);
        }
    }
}

/// The sums as int16, and the smallest left shift with which all fit.
pub(crate) fn bias_values(layer: &str, sums: &[f64]) -> Result<(Vec<i16>, u8), Error> {
    let largest = sums.iter().fold(0f64, |largest, sum| largest.max(sum.abs()));
    let shift = (0..=LARGEST_BIAS_SHIFT)
        .find(|&shift| (largest / f64::from(shift).exp2()).round() <= f64::from(i16::MAX))
        .ok_or_else(|| {
            let reason = format!("a bias of {largest:.0} steps of its sums does not fit 16 bits and a shift of 16");
            Error::unsupported(layer, reason)
        })?;
    Ok((sums.iter().map(|sum| (sum / f64::from(shift).exp2()).round() as i16).collect(), shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_int8_as_in_the_runtime() {
        for byte in 0..=255u8 {
            let expected = (f64::from(byte) * 127.0 / 255.0 + 0.5).floor() as i8;
            assert_eq!(image_value(byte), expected, "{byte}");
        }
    }

    #[test]
    fn factors_use_fifteen_bits() {
        for factor in [1.0, 0.001_234, 3.9, 1e-6, 32767.0, 0.5] {
            let Factor { scale, truncate } = Factor::nearest("a", factor).unwrap();
            let found = f64::from(scale) / f64::from(truncate).exp2();
            assert!((found / factor - 1.0).abs() < 1.0 / 16384.0, "{factor}: {scale} >> {truncate}");
        }
        assert!(Factor::nearest("a", 40000.0).is_err());
        assert!(Factor::nearest("a", 0.0).is_err());
        assert!(Factor::nearest("a", f64::NAN).is_err());
        assert!(Factor::nearest("a", 1e-30).is_err());
    }

    #[test]
    fn a_plane_keeps_its_sum_and_single_weights_their_nearest_integer() {
        let rounded = |plane: &[f64]| {
            let mut integers: Vec<i16> = plane.iter().map(|&weight| round(weight) as i16).collect();
            keep_sum(plane, LARGEST, &mut integers, &mut Vec::new());
            integers.into_iter().map(i32::from).collect::<Vec<_>>()
        };
        assert_eq!(rounded(&[0.3; 9]).iter().sum::<i32>(), 3);
        assert_eq!(rounded(&[-0.4, -1.3, 5.0, -2.45, 0.0]), [0, -1, 5, -3, 0]);
        assert_eq!(rounded(&[126.6, 127.0, 127.0]), [127; 3]);
        for weight in [0.5, -0.5, 0.49, 0.51, -126.7, 127.0f64] {
            assert_eq!(rounded(&[weight]), [weight.round() as i32], "{weight}");
        }
        for size in 2..50 {
            let plane: Vec<f64> = (0..size).map(|at| f64::from((at * at * 37 + size) % 1000) / 8.0 - 60.0).collect();
            let rounded: Vec<f64> = rounded(&plane).into_iter().map(f64::from).collect();
            let change = plane.iter().sum::<f64>() - rounded.iter().sum::<f64>();
            assert!(change.abs() <= 0.5, "{size}: {change}");
            assert!(plane.iter().zip(&rounded).all(|(weight, rounded)| (weight - rounded).abs() < 1.0), "{size}");
        }
    }

    #[test]
    fn many_are_rounded_as_one() {
        let reals: Vec<f64> =
            (-520..520).flat_map(|k| [-1e-12, 0.0, 0.1, 1e-12].map(|by| f64::from(k) / 4.0 + by)).collect();
        let mut integers = vec![0; reals.len()];
        for limits in [[-LARGEST, LARGEST], [-128.0, LARGEST]] {
            round_all(&mut reals.clone(), 1.0, limits, &mut integers);
            for (real, &integer) in reals.iter().zip(&integers) {
                assert_eq!(i32::from(integer), round(real.max(limits[0]).min(limits[1])), "{real}");
            }
        }
    }

    #[test]
    fn large_biases_are_shifted_and_too_large_ones_refused() {
        let (values, shift) = bias_values("a", &[100_000.0, -3.0]).unwrap();
        assert_eq!((values, shift), (vec![25000, -1], 2));
        assert!(bias_values("a", &[1e12]).is_err());
    }
}
