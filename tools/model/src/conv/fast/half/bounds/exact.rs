// SPDX-License-Identifier: MIT OR Apache-2.0

//! Single sums as CMAC and CACC compute them, a few at a time.
//!
//! A step's products stand side by side, those of several steps where it has few. What the hardware loses of products that
//! are shifted far is found for many steps at once, after them; CACC adds to several sums side by side.

#![allow(clippy::inline_always)]

use super::super::super::super::half::{self, Accumulators};
use super::super::super::Isa;
use super::super::panel::ZERO;
use super::Sums;

/// Most products of a step.
const LANES: usize = 64;
/// Fewest lanes that a step has to itself.
const NARROWEST: usize = 16;
/// Steps side by side, at most.
const TOGETHER: usize = LANES / NARROWEST;
/// Products of 28 bits and a sign that are summed in 32 bits.
const CHUNK: usize = 4;
/// Sums that are computed together.
pub(super) const MANY: usize = 8;
/// Quarters of a shift from which on nothing of a product is left.
const NOTHING: u8 = 8;
/// Quarters of a shift up to which bytes say what is lost.
const NEAR: u8 = 2;

/// A kernel of the panel and a window.
pub(super) type Element = (usize, usize);

/// Room for some sums.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Largest exponents and sums of products, step by step.
    exponents: Vec<[i8; MANY]>,
    sums: Vec<[i64; MANY]>,
    far: Far,
}

/// Products whose loss is not known yet.
#[derive(Debug, Default)]
struct Far {
    weights: Vec<i16>,
    data: Vec<i16>,
    /// Quarters of the shift.
    distances: Vec<u8>,
    /// Numbers of the sums.
    places: Vec<u32>,
}

/// What CACC delivers for [`MANY`] elements at most.
pub(super) fn sums(isa: Isa, sums: &Sums<'_>, room: &mut Room, elements: &[Element]) -> [f32; MANY] {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller of `bounds::run` says that the machine has AVX-512.
        Isa::Avx512 => unsafe { avx512(sums, room, elements) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller of `bounds::run` says that the machine has AVX2.
        Isa::Avx2 => unsafe { avx2(sums, room, elements) },
        _ => each(sums, room, elements),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
fn avx512(sums: &Sums<'_>, room: &mut Room, elements: &[Element]) -> [f32; MANY] {
    each(sums, room, elements)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(sums: &Sums<'_>, room: &mut Room, elements: &[Element]) -> [f32; MANY] {
    each(sums, room, elements)
}

#[inline(always)]
fn each(sums: &Sums<'_>, room: &mut Room, elements: &[Element]) -> [f32; MANY] {
    let steps = sums.steps.len();
    room.exponents.clear();
    room.exponents.resize(steps + TOGETHER, [0; MANY]);
    room.sums.clear();
    room.sums.resize(steps + TOGETHER, [0; MANY]);
    for (number, &element) in elements.iter().enumerate() {
        match sums.widest {
            ..=16 => walk::<16>(sums, room, number, element),
            17..=32 => walk::<32>(sums, room, number, element),
            _ => walk::<64>(sums, room, number, element),
        }
    }
    room.far.settle(room.sums.as_flattened_mut());
    let mut accumulators = Accumulators::<MANY>::ZERO;
    for (exponents, sums) in room.exponents.iter().zip(&room.sums).take(steps) {
        accumulators.add_first(exponents, sums, MANY);
    }
    accumulators.to_fp32().map(f32::from_bits)
}

/// All steps of an element, which have `W` products at most.
#[inline(always)]
fn walk<const W: usize>(sums: &Sums<'_>, room: &mut Room, number: usize, (kernel, window): Element) {
    for (first, steps) in (0..).step_by(LANES / W).zip(sums.steps.chunks(LANES / W)) {
        let (mut weights, mut data) = ([0; LANES], [0; LANES]);
        for (range, (weights, data)) in steps.iter().zip(weights.chunks_exact_mut(W).zip(data.chunks_exact_mut(W))) {
            let mut at = 0;
            for run in &sums.runs[range.clone()] {
                let (row, halves) =
                    (sums.panel.row(kernel, run), &sums.data.halves[window + run.offset..][..run.length]);
                // Of one length most times, which needs no loop.
                if let (Ok(row), Ok(halves)) = (<&[_; W]>::try_from(row), <&[_; W]>::try_from(halves)) {
                    for i in 0..W {
                        weights[i] = u16::from_le_bytes(row[i]);
                        data[i] = halves[i];
                    }
                    break;
                }
                for (i, (weight, datum)) in row.iter().zip(halves).enumerate() {
                    weights[at + i] = u16::from_le_bytes(*weight);
                    data[at + i] = *datum;
                }
                at += run.length;
            }
        }
        let (exponents, totals) = products::<W>(&weights, &data, |weight, datum, distance, step| {
            room.far.push(weight, datum, distance, ((first + step) * MANY + number) as u32);
        });
        for step in 0..LANES / W {
            room.exponents[first + step][number] = exponents[step];
            room.sums[first + step][number] = totals[step];
        }
    }
}

/// Signed significands and the exponents' high bits.
#[inline(always)]
fn split(halves: &[u16; LANES]) -> ([i16; LANES], [i8; LANES]) {
    let (mut significands, mut exponents) = ([0; LANES], [0; LANES]);
    for i in 0..LANES {
        let (expo, fraction) = (halves[i] >> 10 & 0x1f, halves[i] & 0x3ff);
        let significand = if expo == 0 { fraction << 1 } else { (fraction | 0x400) << (expo & 3) } as i16;
        significands[i] = if halves[i] >> 15 == 0 { significand } else { -significand };
        exponents[i] = if significand == 0 { ZERO } else { (expo >> 2) as i8 };
    }
    (significands, exponents)
}

/// The steps of `W` products each, without NaN: their largest exponents, and the sums of their products there
/// ([`half::step`]) but for what is lost of those that `far` gets.
#[inline(always)]
fn products<const W: usize>(
    weights: &[u16; LANES],
    data: &[u16; LANES],
    mut far: impl FnMut(i16, i16, u8, usize),
) -> ([i8; TOGETHER], [i64; TOGETHER]) {
    let ((weight, weight_exponents), (datum, data_exponents)) = (split(weights), split(data));
    let mut exponents = [0i8; LANES];
    for i in 0..LANES {
        exponents[i] = weight_exponents[i] + data_exponents[i];
    }
    let mut largest = [0; TOGETHER];
    let mut distances = [0u8; LANES];
    for (step, (exponents, distances)) in exponents.chunks_exact(W).zip(distances.chunks_exact_mut(W)).enumerate() {
        let top = exponents.iter().fold(0, |top, &exponent| exponent.max(top));
        for (distance, exponent) in distances.iter_mut().zip(exponents) {
            *distance = (top.wrapping_sub(*exponent) as u8).min(NOTHING);
        }
        largest[step] = top;
    }
    let mut lost = [0u8; LANES];
    let mut any_far = false;
    for i in 0..LANES {
        let negative = ((weight[i] ^ datum[i]) >> 15) as u8;
        let (sum, carry) = booth8(negative, weight[i].unsigned_abs() as u8, datum[i].unsigned_abs() as u8);
        let mask = if distances[i] == 1 { 0xf } else { 0xff };
        lost[i] = u8::from(distances[i].wrapping_sub(1) < NEAR && sum & mask > mask - (carry & mask));
        any_far |= distances[i].wrapping_sub(NEAR + 1) < NOTHING - NEAR - 1;
    }
    let mut totals = [0i64; TOGETHER];
    for (step, total) in totals.iter_mut().enumerate().take(LANES / W) {
        for first in (step * W..(step + 1) * W).step_by(CHUNK * NARROWEST) {
            let mut sums = [0i32; NARROWEST];
            for part in (first..(first + CHUNK * NARROWEST).min((step + 1) * W)).step_by(NARROWEST) {
                for (lane, sum) in sums.iter_mut().enumerate() {
                    let i = part + lane;
                    let product = i32::from(weight[i]) * i32::from(datum[i]);
                    let shifted = product >> ((4 * u32::from(distances[i])) & 31);
                    let counts = if distances[i] < NOTHING { shifted } else { 0 };
                    *sum += counts - i32::from(lost[i]);
                }
            }
            *total += sums.iter().map(|&sum| i64::from(sum)).sum::<i64>();
        }
    }
    if any_far {
        for i in 0..LANES {
            if distances[i] > NEAR && distances[i] < NOTHING {
                far(weight[i], datum[i], distances[i], i / W);
            }
        }
    }
    (largest, totals)
}

/// The low 8 bits of the Booth multiplier's sum and carry; `negative` is all ones or none.
#[inline(always)]
fn booth8(negative: u8, weight: u8, data: u8) -> (u8, u8) {
    let mut partial = [0u8; 4];
    let mut minus = [0u8; 4];
    // A digit's low bit is the one before its two.
    let (low_bits, bits) = ((weight << 1) ^ negative, weight ^ negative);
    for (i, (partial, minus)) in partial.iter_mut().zip(&mut minus).enumerate() {
        let (low, middle, high) = (low_bits >> (2 * i) & 1, bits >> (2 * i) & 1, bits >> (2 * i + 1) & 1);
        let once = 0u8.wrapping_sub(low ^ middle);
        let twice = 0u8.wrapping_sub(!(low ^ middle) & (middle ^ high) & 1);
        let negate = high & !(low & middle) & 1;
        let multiple = (data & once) | (data << 1 & twice);
        *partial = (multiple ^ 0u8.wrapping_sub(negate)) << (2 * i);
        *minus = negate << (2 * i);
    }
    let compress = |a: u8, b: u8, c: u8| (a ^ b ^ c, ((a & b) | (b & c) | (a & c)) << 1);
    // In the order of `half::booth`: other orders give another pair. What is above these bits is left out.
    let low = compress(partial[0], partial[1] | minus[0], partial[2] | minus[1]);
    let low = compress(low.0, low.1, partial[3] | minus[2]);
    let low = compress(low.0, low.1, minus[3]);
    let both = compress(low.0, low.1, 0);
    compress(both.0, both.1, 0)
}

impl Far {
    fn push(&mut self, weight: i16, datum: i16, distance: u8, place: u32) {
        self.weights.push(weight);
        self.data.push(datum);
        self.distances.push(distance);
        self.places.push(place);
    }

    /// Takes from the sums what is lost of these products, and forgets them.
    #[inline(always)]
    fn settle(&mut self, sums: &mut [i64]) {
        const WIDTH: usize = 16;
        let count = self.places.len().next_multiple_of(WIDTH);
        self.weights.resize(count, 0);
        self.data.resize(count, 0);
        self.distances.resize(count, NOTHING);
        let products = self.weights.as_chunks::<WIDTH>().0.iter().zip(self.data.as_chunks::<WIDTH>().0);
        let distances = self.distances.as_chunks::<WIDTH>().0;
        for (((weights, data), distances), places) in products.zip(distances).zip(self.places.chunks(WIDTH)) {
            let mut lost = [0i32; WIDTH];
            for (i, lost) in lost.iter_mut().enumerate() {
                let (weight, data) = (i32::from(weights[i]), i32::from(data[i]));
                let (sum, carry) = half::booth_lane((weight ^ data) < 0, weight.unsigned_abs(), data.unsigned_abs());
                let by = (4 * u32::from(distances[i])) & 31;
                let product = (sum >> by).wrapping_add(carry >> by).wrapping_sub(half::BOOTH_OFFSET >> by) as i32;
                *lost = ((weight * data) >> by) - product;
            }
            for (place, lost) in places.iter().zip(lost) {
                sums[*place as usize] -= i64::from(lost);
            }
        }
        self.weights.clear();
        self.data.clear();
        self.distances.clear();
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::super::super::half::Partial;
    use super::*;

    fn finite() -> impl Strategy<Value = u16> {
        // Exponents of all distances, zeros, denormals and infinities.
        prop_oneof![4 => any::<u16>(), 2 => any::<u16>().prop_map(|half| half & 0x87ff | 0x3000), 1 => Just(0x8000)]
            .prop_map(|half| if half::is_nan(half) { half & 0xfc00 } else { half })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn steps_are_the_plain_ones(
            weights in prop::array::uniform32(finite()),
            data in prop::array::uniform32(finite()),
        ) {
            let (mut all_weights, mut all_data) = ([0; LANES], [0; LANES]);
            all_weights[16..48].copy_from_slice(&weights);
            all_data[16..48].copy_from_slice(&data);
            compare::<16>(&all_weights, &all_data)?;
            compare::<32>(&all_weights, &all_data)?;
            compare::<64>(&all_weights, &all_data)?;
        }
    }

    fn compare<const W: usize>(weights: &[u16; LANES], data: &[u16; LANES]) -> Result<(), TestCaseError> {
        let mut far = Far::default();
        let (exponents, mut sums) = products::<W>(weights, data, |weight, datum, distance, step| {
            far.push(weight, datum, distance, step as u32)
        });
        far.settle(&mut sums);
        let (weights, data) = (weights.as_chunks::<W>().0, data.as_chunks::<W>().0);
        for (step, (weights, data)) in weights.iter().zip(data).enumerate() {
            let given = Partial::Sum { exponent: 4 * exponents[step] as u32, mantissa: sums[step] };
            prop_assert_eq!(half::step(weights, data), given, "step {} of {} products", step, W);
        }
        Ok(())
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
