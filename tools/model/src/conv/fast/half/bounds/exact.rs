// SPDX-License-Identifier: MIT OR Apache-2.0

//! One sum as CMAC and CACC compute it: a step's products side by side.

#![allow(clippy::inline_always)]

use super::super::super::super::half::{self, Accumulator, Partial};
use super::super::super::Isa;
use super::super::panel::ZERO;
use super::Sums;

/// Most products of a step.
const LANES: usize = 64;
/// Products of 28 bits and a sign that are summed in 32 bits.
const CHUNK: usize = 8;

/// What CACC delivers for a kernel of the panel and a window.
pub(super) fn sum(isa: Isa, sums: &Sums<'_>, kernel: usize, window: usize) -> f32 {
    let step = match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => |weights: &_, data: &_| {
            // SAFETY: the caller of `bounds::run` says that the machine has AVX-512.
            unsafe { avx512(weights, data) }
        },
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => |weights: &_, data: &_| {
            // SAFETY: the caller of `bounds::run` says that the machine has AVX2.
            unsafe { avx2(weights, data) }
        },
        _ => products,
    };
    let mut accumulator = Accumulator::default();
    for range in sums.steps {
        let (mut weights, mut data) = ([0; LANES], [0; LANES]);
        let mut at = 0;
        for run in &sums.runs[range.clone()] {
            let halves = &sums.data.halves[window + run.offset..][..run.length];
            for (to, from) in weights[at..].iter_mut().zip(sums.panel.row(kernel, run)) {
                *to = u16::from_le_bytes(*from);
            }
            for (to, from) in data[at..].iter_mut().zip(halves) {
                *to = *from;
            }
            at += run.length;
        }
        let (exponent, mantissa) = step(&weights, &data);
        accumulator.add(Partial::Sum { exponent, mantissa });
    }
    f32::from_bits(accumulator.to_fp32())
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512(weights: &[u16; LANES], data: &[u16; LANES]) -> (u32, i64) {
    products(weights, data)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(weights: &[u16; LANES], data: &[u16; LANES]) -> (u32, i64) {
    products(weights, data)
}

/// Significands and the exponents' high bits.
#[inline(always)]
fn split(halves: &[u16; LANES]) -> ([u16; LANES], [i8; LANES]) {
    let (mut significands, mut exponents) = ([0; LANES], [0; LANES]);
    for i in 0..LANES {
        let (expo, fraction) = (halves[i] >> 10 & 0x1f, halves[i] & 0x3ff);
        // Two shifts by constants: not every instruction set shifts 16 bits by a vector.
        let normal = fraction | 0x400;
        let once = if expo & 1 == 0 { normal } else { normal << 1 };
        let twice = if expo & 2 == 0 { once } else { once << 2 };
        let significand = if expo == 0 { fraction << 1 } else { twice };
        significands[i] = significand;
        exponents[i] = if significand == 0 { ZERO } else { (expo >> 2) as i8 };
    }
    (significands, exponents)
}

/// A step without NaN: its largest exponent, and the sum of its products there ([`half::step`]).
#[inline(always)]
fn products(weights: &[u16; LANES], data: &[u16; LANES]) -> (u32, i64) {
    let ((weight, weight_exponents), (datum, data_exponents)) = (split(weights), split(data));
    let mut exponents = [0i8; LANES];
    let mut largest = 0;
    for i in 0..LANES {
        exponents[i] = weight_exponents[i] + data_exponents[i];
        largest = largest.max(exponents[i]);
    }
    // Quarters of the shift: from 8 on, nothing is left.
    let mut distances = [0u8; LANES];
    let mut negative = [0u16; LANES];
    for i in 0..LANES {
        distances[i] = ((i16::from(largest) - i16::from(exponents[i])) as u8).min(8);
        negative[i] = 0u16.wrapping_sub((weights[i] ^ data[i]) >> 15);
    }
    let mut total = 0i64;
    let mut far = 0;
    for first in (0..LANES).step_by(CHUNK) {
        let mut chunk = 0i32;
        for i in first..first + CHUNK {
            let product = i32::from(weight[i]) * i32::from(datum[i]);
            let sign = i32::from(negative[i] as i16);
            let shifted = ((product ^ sign) - sign) >> ((4 * u32::from(distances[i])) & 31);
            chunk += if distances[i] < 8 { shifted } else { 0 };
        }
        total += i64::from(chunk);
    }
    let mut lost = 0u16;
    for i in 0..LANES {
        let (sum, carry) = booth16(negative[i], weight[i], datum[i]);
        let near = distances[i].wrapping_sub(1) < 4;
        // 4 bits, or 8, 12, 16.
        let two = if distances[i] & 1 == 0 { 0xff } else { 0xf };
        let four = if distances[i] == 3 { 0xfff } else { two };
        let mask = if distances[i] == 4 { 0xffff } else { four };
        lost += u16::from(near && sum & mask > mask - (carry & mask));
        far |= u8::from(distances[i].wrapping_sub(5) < 3);
    }
    total -= i64::from(lost);
    if far != 0 {
        for i in 0..LANES {
            if (5..8).contains(&distances[i]) {
                let (negative, shift) = (negative[i] != 0, 4 * u32::from(distances[i]));
                let plain = i32::from(weight[i]) * i32::from(datum[i]);
                let floor = if negative { -plain >> shift } else { plain >> shift };
                total += i64::from(half::product(negative, weight[i].into(), datum[i].into(), shift) - floor);
            }
        }
    }
    (4 * largest as u32, total)
}

/// The low 16 bits of the Booth multiplier's sum and carry; `negative` is all ones or none.
#[inline(always)]
fn booth16(negative: u16, weight: u16, data: u16) -> (u16, u16) {
    let recoded = (weight << 1) ^ negative;
    let mut partial = [0u16; 8];
    let mut minus = [0u16; 8];
    for (i, (partial, minus)) in partial.iter_mut().zip(&mut minus).enumerate() {
        // The last digit's high bit is the sign.
        let digit = (recoded as i16 >> (2 * i)) as u16;
        let (low, middle, high) = (digit & 1, digit >> 1 & 1, digit >> 2 & 1);
        let once = 0u16.wrapping_sub(low ^ middle);
        let twice = 0u16.wrapping_sub(!(low ^ middle) & (middle ^ high) & 1);
        let negate = high & !(low & middle) & 1;
        let multiple = (data & once) | (data << 1 & twice);
        *partial = (multiple ^ 0u16.wrapping_sub(negate)) << (2 * i);
        *minus = negate << (2 * i);
    }
    // The bit above a partial product, of those that are not negated, is beyond these 16 where it counts.
    let compress = |a: u16, b: u16, c: u16| (a ^ b ^ c, ((a & b) | (b & c) | (a & c)) << 1);
    let low = compress(partial[0], partial[1] | minus[0], partial[2] | minus[1]);
    let low = compress(low.0, low.1, partial[3] | minus[2]);
    let low = compress(low.0, low.1, minus[3]);
    let high = compress(partial[4], partial[5] | minus[4], partial[6] | minus[5]);
    let high = compress(high.0, high.1, partial[7] | minus[6]);
    let high = compress(high.0, high.1, minus[7]);
    let both = compress(low.0, low.1, high.0);
    compress(both.0, both.1, high.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finite() -> impl Strategy<Value = u16> {
        // Exponents of all distances, zeros, denormals and infinities.
        prop_oneof![4 => any::<u16>(), 2 => any::<u16>().prop_map(|half| half & 0x87ff | 0x3000), 1 => Just(0x8000)]
            .prop_map(|half| if half::is_nan(half) { half & 0xfc00 } else { half })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_step_is_the_plain_one(
            weights in prop::array::uniform32(finite()),
            data in prop::array::uniform32(finite()),
        ) {
            let (mut all_weights, mut all_data) = ([0; LANES], [0; LANES]);
            all_weights[..32].copy_from_slice(&weights);
            all_data[..32].copy_from_slice(&data);
            let (exponent, mantissa) = products(&all_weights, &all_data);
            prop_assert_eq!(half::step(&weights, &data), Partial::Sum { exponent, mantissa });
        }
    }

    /// What the bounds count on: less than 2 units below the exact product, less than 1/3 above.
    #[test]
    fn a_shifted_product_is_near_the_exact_one() {
        for weight in (0..0x4000).step_by(43) {
            for data in (0..0x4000).step_by(47) {
                for shift in (4..60).step_by(4) {
                    for negative in [false, true] {
                        let plain = if negative { -i64::from(weight * data) } else { i64::from(weight * data) };
                        let got = i64::from(half::product(negative, weight, data, shift)) << shift;
                        let unit = 1 << shift;
                        assert!(plain - got < 2 * unit && 3 * (got - plain) < unit, "{plain} >> {shift}: {got}");
                    }
                }
            }
        }
    }
}
