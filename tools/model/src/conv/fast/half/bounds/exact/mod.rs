// SPDX-License-Identifier: MIT OR Apache-2.0

//! Single sums as CMAC and CACC compute them, a few at a time.
//!
//! The products of a step lie side by side; where a step has few products, several steps do. Products that are shifted
//! far are few; they are gathered and computed together after the others. CACC adds to several sums side by side.

#![allow(clippy::inline_always)]

use super::super::super::super::half::{self, Accumulators};
use super::super::super::Isa;
use super::Sums;

#[cfg(target_arch = "x86_64")]
mod avx512;
mod plain;

/// Most products of a step.
const LANES: usize = 64;
/// Steps side by side, at most: with 16 lanes each.
const TOGETHER: usize = 4;
/// Sums that are computed together.
pub(super) const MANY: usize = 8;
/// Quarters of a shift from which on nothing of a product is left.
const NOTHING: u8 = 8;
/// Quarters of a shift up to which eight bits say what is lost.
const NEAR: u8 = 2;

/// A kernel of the panel and a window.
pub(super) type Element = (usize, usize);

/// Room for some sums.
#[derive(Debug, Default)]
pub(super) struct Room {
    steps: Steps,
    far: Far,
}

/// What CMAC gives to CACC, step by step.
#[derive(Debug, Default)]
struct Steps {
    /// Largest exponents.
    exponents: Vec<[i8; MANY]>,
    /// Sums of the products.
    sums: Vec<[i64; MANY]>,
}

/// Products that are shifted far.
#[derive(Debug, Default)]
struct Far {
    weights: Vec<i16>,
    data: Vec<i16>,
    /// Quarters of the shift.
    distances: Vec<u8>,
    /// Numbers of the sums.
    places: Vec<u32>,
    count: usize,
}

/// What CACC delivers for [`MANY`] elements at most.
pub(super) fn sums(isa: Isa, sums: &Sums<'_>, room: &mut Room, elements: &[Element]) -> [f32; MANY] {
    room.steps.clear(sums.steps.len());
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller of `bounds::run` says that the machine has AVX-512.
        Isa::Avx512 => unsafe { avx512::each(sums, room, elements) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller of `bounds::run` says that the machine has AVX2.
        Isa::Avx2 => unsafe { avx2(sums, room, elements) },
        _ => each(sums, room, elements),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(sums: &Sums<'_>, room: &mut Room, elements: &[Element]) -> [f32; MANY] {
    each(sums, room, elements)
}

#[inline(always)]
fn each(sums: &Sums<'_>, room: &mut Room, elements: &[Element]) -> [f32; MANY] {
    for (number, &element) in elements.iter().enumerate() {
        plain::walk(sums, room, number, element);
    }
    room.finish(sums.steps.len())
}

impl Room {
    /// CACC's work, when all steps are known but for the far products.
    #[inline(always)]
    fn finish(&mut self, steps: usize) -> [f32; MANY] {
        let Self { steps: all, far } = self;
        far.settle(all.sums.as_flattened_mut());
        let mut accumulators = Accumulators::<MANY>::ZERO;
        for (exponents, sums) in all.exponents.iter().zip(&all.sums).take(steps) {
            accumulators.add_first(exponents, sums, MANY);
        }
        accumulators.to_fp32().map(f32::from_bits)
    }
}

impl Steps {
    /// Makes room for so many steps, and for what is computed beside the last.
    fn clear(&mut self, steps: usize) {
        let Self { exponents, sums } = self;
        exponents.clear();
        exponents.resize(steps + TOGETHER, [0; MANY]);
        sums.clear();
        sums.resize(steps + TOGETHER, [0; MANY]);
    }
}

impl Far {
    /// Room for as many products as may stand side by side.
    #[inline(always)]
    fn reserve(&mut self) {
        let Self { weights, data, distances, places, count } = self;
        let room = *count + LANES;
        if places.len() < room {
            // For some at once.
            let room = 2 * room;
            weights.resize(room, 0);
            data.resize(room, 0);
            distances.resize(room, 0);
            places.resize(room, 0);
        }
    }

    /// Adds these products to their sums, and forgets them.
    #[inline(always)]
    fn settle(&mut self, sums: &mut [i64]) {
        const WIDTH: usize = 16;
        let products = self.weights.as_chunks::<WIDTH>().0.iter().zip(self.data.as_chunks::<WIDTH>().0);
        let distances = self.distances.as_chunks::<WIDTH>().0;
        let places = self.places[..self.count].chunks(WIDTH);
        for (((weights, data), distances), places) in products.zip(distances).zip(places) {
            let mut shifted = [0i32; WIDTH];
            for (i, shifted) in shifted.iter_mut().enumerate() {
                let (weight, data) = (i32::from(weights[i]), i32::from(data[i]));
                let (sum, carry) = half::booth_lane((weight ^ data) < 0, weight.unsigned_abs(), data.unsigned_abs());
                let by = (4 * u32::from(distances[i])) & 31;
                *shifted = (sum >> by).wrapping_add(carry >> by).wrapping_sub(half::BOOTH_OFFSET >> by) as i32;
            }
            for (place, shifted) in places.iter().zip(shifted) {
                sums[*place as usize] += i64::from(shifted);
            }
        }
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            for isa in Isa::available() {
                compare::<16>(isa, &all_weights, &all_data)?;
                compare::<32>(isa, &all_weights, &all_data)?;
                compare::<64>(isa, &all_weights, &all_data)?;
            }
        }
    }

    fn compare<const W: usize>(isa: Isa, weights: &[u16; LANES], data: &[u16; LANES]) -> Result<(), TestCaseError> {
        let mut room = Room::default();
        room.steps.clear(LANES / W);
        match isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa::available` says that the machine has AVX-512.
            Isa::Avx512 => unsafe { avx512::steps::<W>(weights, data, &mut room, 0, 0) },
            _ => plain::steps_of::<W>(weights, data, &mut room, 0, 0),
        }
        room.far.settle(room.steps.sums.as_flattened_mut());
        let (weights, data) = (weights.as_chunks::<W>().0, data.as_chunks::<W>().0);
        for (step, (weights, data)) in weights.iter().zip(data).enumerate() {
            let (exponent, mantissa) = (4 * room.steps.exponents[step][0] as u32, room.steps.sums[step][0]);
            let given = half::Partial::Sum { exponent, mantissa };
            prop_assert_eq!(half::step(weights, data), given, "{}: step {} of {}", isa.name(), step, W);
        }
        Ok(())
    }
}
