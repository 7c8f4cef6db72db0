// SPDX-License-Identifier: MIT OR Apache-2.0

//! Steps on fp32 values, in the processor's own arithmetic where it agrees with the hardware's.
//!
//! The processor rounds as the hardware does. Where the two differ (see [`crate::num::float`]), the processor's result
//! shows it: it is zero, denormal, infinite or NaN. Such results are replaced without a branch. Inputs that the
//! hardware reads differently, which are infinities and denormals, come only from memory. A chunk with such an input is
//! computed by the bit-level functions.

use super::lanes::{map, zip, Each};
pub(super) use crate::num::plain::{narrow, widen, widen_finite};
use crate::num::{convert, Fp32};

const SIGN: u32 = 0x8000_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;
const INFINITE: u32 = 0x7f80_0000;
const LARGEST: u32 = 0x7f7f_ffff;
/// The smallest normal value.
const SMALLEST: u32 = 0x0080_0000;

#[inline(always)]
const fn is_nan(bits: u32) -> bool {
    bits & MAGNITUDE > INFINITE
}

/// Whether the machine interprets these bits differently from the hardware: an infinity or a denormal.
#[inline(always)]
pub(super) const fn is_foreign(bits: u32) -> bool {
    let magnitude = bits & MAGNITUDE;
    magnitude == INFINITE || (magnitude != 0 && magnitude < SMALLEST)
}

/// NaN operands have priority, the first operand's before the second's.
#[inline(always)]
const fn propagate(a: u32, b: u32, result: u32) -> u32 {
    if is_nan(a) {
        a
    } else if is_nan(b) {
        b
    } else {
        result
    }
}

/// `result` of finite operands, limited to the largest value, and zero with `zero`'s sign below the smallest.
#[inline(always)]
const fn limit(result: u32, zero: u32) -> u32 {
    let (magnitude, sign) = (result & MAGNITUDE, result & SIGN);
    if magnitude < SMALLEST {
        zero & SIGN
    } else if magnitude == INFINITE {
        sign | LARGEST
    } else {
        result
    }
}

#[inline(always)]
fn sum(a: u32, b: u32) -> u32 {
    let result = (f32::from_bits(a) + f32::from_bits(b)).to_bits();
    // An exact zero has the first operand's sign, one by underflow the result's.
    let zero = if result & MAGNITUDE == 0 { a } else { result };
    propagate(a, b, limit(result, zero))
}

/// The product, and whether it is so near the end of the normal range that rounding must be checked.
#[inline(always)]
fn product(a: u32, b: u32) -> (u32, bool) {
    let result = (f32::from_bits(a) * f32::from_bits(b)).to_bits();
    (propagate(a, b, limit(result, result)), result & MAGNITUDE == SMALLEST)
}

/// Orders bit patterns as the hardware does: by sign and magnitude, with -0 below +0.
#[inline(always)]
const fn key(bits: u32) -> i32 {
    (bits ^ (((bits as i32) >> 31) as u32 >> 1)) as i32
}

#[inline(always)]
fn zip_bits(values: &mut [i32], operand: Each, f: impl Fn(u32, u32) -> u32) {
    zip(values, operand, |value, operand| f(value as u32, operand as u32) as i32);
}

#[inline(always)]
pub(super) fn add(values: &mut [i32], operand: Each, strict: bool) {
    if strict {
        zip_bits(values, operand, Fp32::add);
    } else {
        zip_bits(values, operand, sum);
    }
}

#[inline(always)]
pub(super) fn max(values: &mut [i32], operand: Each) {
    zip_bits(values, operand, |a, b| propagate(a, b, if key(a) > key(b) { a } else { b }));
}

#[inline(always)]
pub(super) fn min(values: &mut [i32], operand: Each) {
    zip_bits(values, operand, |a, b| propagate(a, b, if key(a) > key(b) { b } else { a }));
}

/// The product; with `prelu`, values that are not negative stay unchanged.
#[inline(always)]
pub(super) fn multiply(values: &mut [i32], operand: Each, prelu: bool, strict: bool) {
    if strict {
        multiply_strict(values, operand, prelu);
    } else if prelu {
        multiply_fast::<true>(values, operand);
    } else {
        multiply_fast::<false>(values, operand);
    }
}

#[inline(always)]
fn multiply_strict(values: &mut [i32], operand: Each, prelu: bool) {
    zip_bits(values, operand, |a, b| if prelu && a & SIGN == 0 { a } else { Fp32::mul(a, b) });
}

/// Blocks with all products far from the limits of the normal range need no second check. Nearly all blocks are such.
#[inline(always)]
fn multiply_fast<const PRELU: bool>(values: &mut [i32], operand: Each) {
    const BLOCK: usize = 64;
    let mut at = 0;
    for block in values.chunks_mut(BLOCK) {
        let operand = match operand {
            Each::One(operand) => Each::One(operand),
            Each::Many(operands) => Each::Many(&operands[at..at + block.len()]),
        };
        at += block.len();
        let mut before = [0; BLOCK];
        before[..block.len()].copy_from_slice(block);
        let mut edge = false;
        let mut each = |value: &mut i32, operand: i32| {
            let a = *value as u32;
            let (result, at_edge) = product(a, operand as u32);
            edge |= at_edge;
            *value = if PRELU && a & SIGN == 0 { a } else { result } as i32;
        };
        match operand {
            Each::One(operand) => block.iter_mut().for_each(|value| each(value, operand)),
            Each::Many(operands) => block.iter_mut().zip(operands).for_each(|(value, &operand)| each(value, operand)),
        }
        if edge {
            block.copy_from_slice(&before[..block.len()]);
            multiply_strict(block, operand, PRELU);
        }
    }
}

/// Zero for negative values, except NaN.
#[inline(always)]
pub(super) fn relu(values: &mut [i32]) {
    map(values, |value| if value < 0 && !is_nan(value as u32) { 0 } else { value });
}

/// Zero for NaNs.
#[inline(always)]
pub(super) fn flush_nan(values: &mut [i32]) {
    map(values, |value| if is_nan(value as u32) { 0 } else { value });
}

/// fp32 to a 16-bit integer by way of fp16.
#[inline(always)]
pub(super) const fn to_i16(bits: u32) -> i16 {
    convert::fp16_to_i16(narrow(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_that_of_the_bit_level_functions() {
        let mut state = 3u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 32) as u32
        };
        let mut interesting = || {
            let bits = next();
            let bits = match bits % 16 {
                0 => bits & SIGN,
                1 => (bits & SIGN) | INFINITE | 0x155,
                2 => (bits & SIGN) | LARGEST,
                3 => (bits & SIGN) | SMALLEST,
                4 => (bits & (SIGN | 0x007f_ffff)) | SMALLEST,
                5 => (bits & (SIGN | 0x007f_ffff)) | 0x7f00_0000,
                6..=9 => (bits & (SIGN | 0x01ff_ffff)) + 0x3f00_0000,
                _ => next(),
            };
            if is_foreign(bits) {
                SMALLEST
            } else {
                bits
            }
        };
        for _ in 0..500_000 {
            let (a, b) = (interesting(), interesting());
            let one = |f: &dyn Fn(&mut [i32], Each)| {
                let mut values = [a as i32];
                f(&mut values, Each::Many(&[b as i32]));
                values[0] as u32
            };
            assert_eq!(one(&|values, b| add(values, b, false)), Fp32::add(a, b), "{a:#x} + {b:#x}");
            assert_eq!(one(&|values, b| multiply(values, b, false, false)), Fp32::mul(a, b), "{a:#x} * {b:#x}");
            assert_eq!(one(&max), Fp32::max(a, b), "max {a:#x} {b:#x}");
            assert_eq!(one(&min), Fp32::min(a, b), "min {a:#x} {b:#x}");
            let mut values = [a as i32];
            relu(&mut values);
            assert_eq!(values[0] as u32, Fp32::relu(a));
        }
    }

    #[test]
    fn products_at_the_edge_of_the_normal_range() {
        for mant in (0..0x0080_0000u32).step_by(4099) {
            for other in 0x1fff_fff0..0x2000_0010u32 {
                let (a, b) = (0x2000_0000 | mant, other);
                let mut values = [a as i32; 3];
                multiply(&mut values, Each::One(b as i32), false, false);
                assert_eq!(values[2] as u32, Fp32::mul(a, b), "{a:#x} * {b:#x}");
            }
        }
    }
}
