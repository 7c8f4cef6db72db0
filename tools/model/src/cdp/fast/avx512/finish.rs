// SPDX-License-Identifier: MIT OR Apache-2.0

//! The results of one step or of two steps, by one of the output converters.

// What finishes is compiled for an instruction set only where it is inlined.
#![allow(clippy::inline_always)]

use std::arch::x86_64::*;

use super::super::rows::STEP;
use super::output::{products, products_of, Scaled};
use super::rounded::Rounded;
use super::shift::{Shift16, Shift8};

/// Makes results of factors and values, of which the first `left` count; answers how many are saturated.
///
/// All functions need a processor that has what [`Isa::Avx512`](crate::conv::Isa) stands for.
pub(super) trait Finish: Copy {
    /// Bytes of a result.
    const BYTES: usize;

    /// A step. The factors of even and odd elements are in the high halves of lanes.
    unsafe fn one(self, factors: [__m512i; 2], values: __m512i, left: usize, into: &mut [u8]) -> u32;

    /// Two steps; factors are in the elements' order.
    unsafe fn two(self, factors: [__m512i; 2], values: [__m512i; 2], left: usize, into: &mut [u8]) -> u32;
}

/// int8 by a shift.
impl Finish for &Shift8 {
    const BYTES: usize = 1;

    #[inline(always)]
    unsafe fn one(self, factors: [__m512i; 2], values: __m512i, left: usize, into: &mut [u8]) -> u32 {
        // SAFETY: the caller has the instructions.
        unsafe { self.bytes(factors, values, left, into) }
    }

    #[inline(always)]
    unsafe fn two(self, factors: [__m512i; 2], values: [__m512i; 2], left: usize, into: &mut [u8]) -> u32 {
        // SAFETY: as above.
        unsafe { self.twice(factors, values, left, into) }
    }
}

/// int8.
impl Finish for &Rounded {
    const BYTES: usize = 1;

    #[inline(always)]
    unsafe fn one(self, factors: [__m512i; 2], values: __m512i, left: usize, into: &mut [u8]) -> u32 {
        let scaled = self.scaled();
        // SAFETY: the caller has the instructions.
        unsafe {
            let products = products_of(factors, values);
            if scaled.is_limited() {
                scaled.bytes::<true>(products, left, into)
            } else {
                scaled.bytes::<false>(products, left, into)
            }
        }
    }

    #[inline(always)]
    unsafe fn two(self, factors: [__m512i; 2], values: [__m512i; 2], left: usize, into: &mut [u8]) -> u32 {
        // SAFETY: as above.
        unsafe { self.bytes(factors, values, left, into) }
    }
}

/// int16 from products.
trait Pairs: Copy {
    unsafe fn pairs(self, products: [__m512i; 2], left: usize, into: &mut [u8]) -> u32;
}

/// int16 by a shift.
#[derive(Clone, Copy)]
pub(super) struct Shifted<'s>(pub(super) &'s Shift16);

/// int16; whether the converter limits before its end.
#[derive(Clone, Copy)]
pub(super) struct Wide<'s, const LIMIT: bool>(pub(super) &'s Scaled);

impl Pairs for Shifted<'_> {
    #[inline(always)]
    unsafe fn pairs(self, products: [__m512i; 2], left: usize, into: &mut [u8]) -> u32 {
        // SAFETY: the caller has the instructions.
        unsafe { self.0.pairs(products, left, into) }
    }
}

impl<const LIMIT: bool> Pairs for Wide<'_, LIMIT> {
    #[inline(always)]
    unsafe fn pairs(self, products: [__m512i; 2], left: usize, into: &mut [u8]) -> u32 {
        // SAFETY: the caller has the instructions.
        unsafe { self.0.pairs::<LIMIT>(products, left, into) }
    }
}

impl<P: Pairs> Finish for P {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn one(self, factors: [__m512i; 2], values: __m512i, left: usize, into: &mut [u8]) -> u32 {
        // SAFETY: the caller has the instructions.
        unsafe { self.pairs(products_of(factors, values), left, into) }
    }

    #[inline(always)]
    unsafe fn two(self, factors: [__m512i; 2], values: [__m512i; 2], left: usize, into: &mut [u8]) -> u32 {
        let (first, second) = into.split_at_mut(Self::BYTES * STEP);
        let [one, other] = [0, 1].map(|step: usize| (factors[step], values[step]));
        // SAFETY: as above.
        unsafe {
            self.pairs(products(one.0, one.1), left.min(STEP), first)
                + self.pairs(products(other.0, other.1), left.saturating_sub(STEP), second)
        }
    }
}
