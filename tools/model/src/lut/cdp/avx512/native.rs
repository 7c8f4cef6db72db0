// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16 processing in the machine's own fp16 (AVX512-FP16), 32 sums at a time.
//!
//! fp17 has fp16's 11 bits and more exponents. All of a table is multiplied by a power of two, so that entries have
//! magnitudes from four up: there an entry's rise is a whole number of fp16's smallest units though it is divided by 2^16,
//! for the fraction to be an integer; and a product of both that fp16 rounds in another way than fp17, which is one below
//! 2^-14, is far less than half of the last place of the number that it is added to.
//!
//! A product of a factor and an element is made in two steps of which one is exact: [`Native::product`].

pub(crate) mod arithmetic;
mod setup;
pub(crate) mod walk;
mod ways;

use std::arch::x86_64::*;

use arithmetic::{max, min, multiply};
use walk::Bound;
use ways::{Exponent, Linear, Near};

/// Regions behind the first.
const BOUNDS: usize = 4;

/// A table that answers.
#[derive(Clone, Debug)]
enum Table {
    Exponent(Exponent),
    Near(Near),
    Linear(Linear),
}

/// A lookup.
#[derive(Clone, Debug)]
pub(crate) struct Native {
    /// One or two, in the order of [`Table`].
    tables: Vec<Table>,
    /// End entries, multiplied.
    ends: Vec<i16>,
    /// Regions' answers are numbered: two tables, then the ends. This is the first region's.
    first: usize,
    /// Where the other regions begin.
    bounds: Vec<Bound>,
    /// The regions' counters.
    classes: [usize; BOUNDS + 1],
    /// All bounds are known by the upper halves of sums, and tables begin at zero.
    is_short: bool,
    /// No factor is above one.
    is_bounded: bool,
    /// The power of two in factors, and what takes it away, in fp16.
    power: i16,
    scale: i16,
}

impl Native {
    /// Factors of `walk` times elements, in fp16.
    ///
    /// Elements from two up lose the power of two before, in their exponents, and the product is no denormal. Others lose it
    /// after it: a product of fp17 is rounded again where it is a denormal of fp16.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(crate) fn product(&self, factors: __m512i, elements: __m512i) -> __m512i {
        let one = 0x3c00;
        let large = _mm512_test_epi16_mask(elements, _mm512_set1_epi16(0x4000));
        let after = _mm512_mask_mov_epi16(_mm512_set1_epi16(self.scale), large, _mm512_set1_epi16(one));
        let down = _mm512_set1_epi16(self.power << 10);
        let elements = _mm512_mask_sub_epi16(elements, large, elements, down);
        // SAFETY: there are factors only where the processor has AVX512-FP16.
        let product = unsafe { multiply(multiply(factors, elements), after) };
        if self.is_bounded {
            return product;
        }
        let largest = 0x7bff;
        // SAFETY: as above.
        unsafe { max(min(product, _mm512_set1_epi16(largest)), _mm512_set1_epi16(largest | i16::MIN)) }
    }

    /// Factors of `walk` in fp16.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(crate) fn alone(&self, factors: __m512i) -> __m512i {
        // SAFETY: as in `product`.
        unsafe { multiply(factors, _mm512_set1_epi16(self.scale)) }
    }
}

#[cfg(test)]
mod tests;
