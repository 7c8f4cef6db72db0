// SPDX-License-Identifier: MIT OR Apache-2.0

//! Batch normalisation of int8: data plus and times operands that are the same for every atom.
//!
//! `(data + addend) * factor` is `data * factor + addend * factor`. The second term is computed once, and the first is
//! one 16-bit multiplication. The rounded shift leaves values that may be limited to 16 bits, and ReLU and converter
//! follow there.

use std::arch::x86_64::*;

use super::super::fused::Fused;
use super::super::lanes::PERIOD;
use super::super::operand::SlotOperands;
use super::convert::{Convert, Converter};
use super::operand::{padded, store, widen_step, STEP};

/// The operands of an atom, half of them per vector.
#[derive(Clone, Copy)]
pub(super) struct Scaled {
    /// In the lower halves of the lanes. The upper halves, in which data have copies of their signs, are zero.
    factors: [__m512i; 2],
    /// The product of each factor and its addend.
    products: [__m512i; 2],
    half: __m512i,
    shift: u32,
    floor: i32,
}

impl Scaled {
    /// The operation's parameters, if the plan has found that its products fit 32 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn new(fused: &Fused, first: SlotOperands, second: SlotOperands, factor: SlotOperands) -> Option<Self> {
        let repeats = matches!(first, SlotOperands::None) || first.repeated().is_some();
        if fused.saturating || !matches!(second, SlotOperands::None) || factor.repeated().is_none() || !repeats {
            return None;
        }
        let (low, high) = (factor.load(0), factor.load(PERIOD / 2));
        // Lanes without an element of the data may have any value.
        if beyond_short(low) | beyond_short(high) != 0 {
            return None;
        }
        let mask = _mm512_set1_epi32(0xffff);
        let round = fused.mul_round;
        Some(Self {
            factors: [_mm512_and_si512(low, mask), _mm512_and_si512(high, mask)],
            products: [_mm512_mullo_epi32(first.load(0), low), _mm512_mullo_epi32(first.load(PERIOD / 2), high)],
            half: _mm512_set1_epi32(round.half as i32),
            shift: round.shift,
            floor: fused.first_floor,
        })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn run<const CONVERT: u8, const POSITIVE: bool>(self, with: Convert, data: &[u8], into: &mut [u8]) {
        // Rounding up negative values has no effect, because ReLU follows.
        if self.floor >= 0 {
            self.all::<CONVERT, POSITIVE, true>(with, data, into);
        } else {
            self.all::<CONVERT, POSITIVE, false>(with, data, into);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn all<const CONVERT: u8, const POSITIVE: bool, const RELU: bool>(
        self,
        with: Convert,
        data: &[u8],
        into: &mut [u8],
    ) {
        let converter = Converter::<CONVERT, POSITIVE>::new(with);
        let Self { factors, mut products, half, .. } = self;
        if RELU {
            products = [_mm512_add_epi32(products[0], half), _mm512_add_epi32(products[1], half)];
        }
        let shift = _mm512_set1_epi32(self.shift as i32);
        // Without a shift there is no rounding.
        let sign = _mm512_set1_epi32(if self.shift == 0 { 0 } else { -1 });
        let floor = _mm512_set1_epi16(self.floor.max(i16::MIN.into()) as i16);
        // After packing twice, four values of each of the four vectors follow one another.
        let order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
        for (data, into) in data.chunks(STEP).zip(into.chunks_mut(STEP)) {
            let [a, b, c, d] = match data.first_chunk() {
                Some(data) => widen_step(data),
                None => widen_step(&padded(data)),
            };
            let value = |given, which: usize| {
                // The upper halves of the factors' lanes are cleared: there the data have copies of their signs.
                let mut product = _mm512_add_epi32(_mm512_madd_epi16(given, factors[which]), products[which]);
                if !RELU {
                    let below = _mm512_and_si512(_mm512_srai_epi32::<31>(product), sign);
                    product = _mm512_add_epi32(_mm512_add_epi32(product, half), below);
                }
                _mm512_srav_epi32(product, shift)
            };
            let values = [value(a, 0), value(b, 1), value(c, 0), value(d, 1)];
            let low = _mm512_max_epi16(_mm512_packs_epi32(values[0], values[1]), floor);
            let high = _mm512_max_epi16(_mm512_packs_epi32(values[2], values[3]), floor);
            let packed = _mm512_packs_epi16(converter.short(low), converter.short(high));
            store(into, _mm512_permutexvar_epi32(order, packed));
        }
    }
}

/// Which values have more than 16 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn beyond_short(values: __m512i) -> __mmask16 {
    let copies = _mm512_srai_epi32::<16>(_mm512_slli_epi32::<16>(values));
    _mm512_cmpneq_epi32_mask(copies, values)
}
