// SPDX-License-Identifier: MIT OR Apache-2.0

//! Exact sums of single elements, as CMAC and CACC compute them, a few at a time.
//!
//! The products of a step are computed together. If steps have few products, several steps are computed together.
//! Products with large shifts are rare; they are gathered and computed after the others. CACC's additions are computed
//! for several elements together.

#![allow(clippy::inline_always)]

use super::sums::Sums;
use nvdla_uapi::isa::Isa;

#[cfg(target_arch = "x86_64")]
mod avx512;
mod buffers;
mod plain;

pub(super) use self::buffers::{Buffers, Element, MANY};

/// Computes the fp32 values that CACC delivers for up to [`MANY`] elements.
pub(super) fn sums(isa: Isa, sums: &Sums<'_>, buffers: &mut Buffers, elements: &[Element]) -> [f32; MANY] {
    buffers.steps.clear(sums.steps.len());
    // The first use of a row by a part is a load from the third-level cache or from memory.
    for &(kernel, _) in elements {
        sums.panel.prefetch(kernel);
    }
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller of `bounds::run` says that the machine has AVX-512 with VBMI2.
        Isa::Avx512Vbmi => unsafe { avx512::each(sums, buffers, elements) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller of `bounds::run` says that the machine has AVX2.
        Isa::Avx2 | Isa::AvxVnni | Isa::Avx512 => unsafe { avx2(sums, buffers, elements) },
        _ => each(sums, buffers, elements),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(sums: &Sums<'_>, buffers: &mut Buffers, elements: &[Element]) -> [f32; MANY] {
    each(sums, buffers, elements)
}

#[inline(always)]
fn each(sums: &Sums<'_>, buffers: &mut Buffers, elements: &[Element]) -> [f32; MANY] {
    for (number, &element) in elements.iter().enumerate() {
        plain::walk(sums, buffers, number, element);
    }
    buffers.finish(sums.steps.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::panel::signed;
    use super::buffers::{Lanes, LANES};
    use super::*;
    use crate::conv::fp16;

    /// The bounds rely on this: less than 2 units below the exact product, and less than 1/3 above.
    #[test]
    fn a_shifted_product_is_near_the_exact_one() {
        for weight in (0..0x4000).step_by(43) {
            for data in (0..0x4000).step_by(47) {
                for shift in (4..60).step_by(4) {
                    for negative in [false, true] {
                        let plain = if negative { -i64::from(weight * data) } else { i64::from(weight * data) };
                        let got = i64::from(fp16::product(negative, weight, data, shift)) << shift;
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
            .prop_map(|half| if fp16::is_nan(half) { half & 0xfc00 } else { half })
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
        let mut buffers = Buffers::default();
        buffers.steps.clear(LANES / W);
        let split = |halves: &[u16; LANES]| {
            let mut lanes = Lanes::EMPTY;
            for (at, &half) in halves.iter().enumerate() {
                (lanes.significands[at], lanes.exponents[at]) = signed(half);
            }
            lanes
        };
        let operands = (split(weights), split(data));
        match isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa::available` says that the machine has AVX-512.
            Isa::Avx512Vbmi => unsafe { avx512::steps::<W>(&operands.0, &operands.1, &mut buffers, 0, 0) },
            _ => plain::steps_of::<W>(&operands.0, &operands.1, &mut buffers, 0, 0),
        }
        buffers.far.settle(buffers.steps.sums.as_flattened_mut());
        let (weights, data) = (weights.as_chunks::<W>().0, data.as_chunks::<W>().0);
        for (step, (weights, data)) in weights.iter().zip(data).enumerate() {
            let (exponent, mantissa) = (4 * buffers.steps.exponents[step][0] as u32, buffers.steps.sums[step][0]);
            let given = fp16::Partial::Sum { exponent, mantissa };
            prop_assert_eq!(fp16::step(weights, data), given, "{}: step {} of {}", isa.name(), step, W);
        }
        Ok(())
    }
}
