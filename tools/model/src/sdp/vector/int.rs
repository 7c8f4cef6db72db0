// SPDX-License-Identifier: MIT OR Apache-2.0

//! Steps on integers.
//!
//! "Narrow" steps stay within 32 bits, which the plan has proved possible; "wide" ones use 64.

use super::lanes::{map, zip, Each};
use crate::num::fixed;

/// `value / 2^shift`, rounded half away from zero, for `shift` of 1 and more. `value` plus half a unit must fit.
#[inline(always)]
fn round_narrow(value: i32, shift: u32) -> i32 {
    value.wrapping_add(1 << (shift - 1)).wrapping_add(value >> 31) >> shift
}

/// As [`round_narrow`] for 64 bits.
#[inline(always)]
fn round_wide(value: i64, shift: u32) -> i64 {
    value.wrapping_add(1 << (shift - 1)).wrapping_add(value >> 63) >> shift
}

#[inline(always)]
fn saturate(value: i64) -> i32 {
    value.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

#[inline(always)]
pub(super) fn max(values: &mut [i32], operand: Each) {
    zip(values, operand, i32::max);
}

#[inline(always)]
pub(super) fn min(values: &mut [i32], operand: Each) {
    zip(values, operand, i32::min);
}

#[inline(always)]
pub(super) fn add(values: &mut [i32], operand: Each) {
    zip(values, operand, i32::wrapping_add);
}

#[inline(always)]
pub(super) fn add_saturating(values: &mut [i32], operand: Each) {
    zip(values, operand, i32::saturating_add);
}

/// 0 where equal, else 1.
#[inline(always)]
pub(super) fn differ(values: &mut [i32], operand: Each) {
    zip(values, operand, |value, operand| i32::from(value != operand));
}

#[inline(always)]
pub(super) fn relu(values: &mut [i32]) {
    map(values, |value| value.max(0));
}

/// Product and shift within 32 bits. With `PRELU`, values that are not negative stay unchanged.
#[inline(always)]
fn multiply_with<const PRELU: bool>(values: &mut [i32], operand: Each, multiply: impl Fn(i32, i32) -> i32) {
    zip(values, operand, |value, operand| {
        let product = multiply(value, operand);
        if PRELU && value >= 0 {
            value
        } else {
            product
        }
    });
}

#[inline(always)]
fn multiply(values: &mut [i32], operand: Each, prelu: bool, f: impl Fn(i32, i32) -> i32) {
    if prelu {
        multiply_with::<true>(values, operand, f);
    } else {
        multiply_with::<false>(values, operand, f);
    }
}

#[inline(always)]
pub(super) fn multiply_narrow(values: &mut [i32], operand: Each, shift: u32, prelu: bool) {
    if shift == 0 {
        multiply(values, operand, prelu, i32::wrapping_mul);
    } else {
        multiply(values, operand, prelu, |value, operand| round_narrow(value.wrapping_mul(operand), shift));
    }
}

/// A product of 64 bits, saturated to 32 after its shift.
#[inline(always)]
pub(super) fn multiply_wide(values: &mut [i32], operand: Each, shift: u32, prelu: bool) {
    let product = |value: i32, operand: i32| i64::from(value).wrapping_mul(i64::from(operand));
    if shift == 0 {
        multiply(values, operand, prelu, |value, operand| saturate(product(value, operand)));
    } else if shift < 62 {
        multiply(values, operand, prelu, |value, operand| saturate(round_wide(product(value, operand), shift)));
    } else {
        multiply(values, operand, prelu, |value, operand| {
            fixed::shift_right::<32>(product(value, operand), shift) as i32
        });
    }
}

#[inline(always)]
pub(super) fn shift_narrow(values: &mut [i32], shift: u32) {
    map(values, |value| round_narrow(value, shift));
}

#[inline(always)]
pub(super) fn shift_wide(values: &mut [i32], shift: u32) {
    if shift < 62 {
        map(values, |value| saturate(round_wide(value.into(), shift)));
    } else {
        map(values, |value| fixed::shift_right::<32>(value.into(), shift) as i32);
    }
}

/// A sum of 33 bits with its product and shift: X where the sum alone does not fit.
#[inline(always)]
pub(super) fn add_multiply_wide(values: &mut [i32], alu: Each, mul: Each, shift: u32, prelu: bool) {
    #[inline(always)]
    fn each(values: &mut [i32], alu: Each, mul: Each, f: impl Fn(i64, i32) -> i32) {
        match (alu, mul) {
            (Each::One(alu), Each::One(mul)) => {
                map(values, |value| f(i64::from(value) + i64::from(alu), mul));
            }
            (Each::Many(alu), Each::One(mul)) => {
                for (value, &alu) in values.iter_mut().zip(alu) {
                    *value = f(i64::from(*value) + i64::from(alu), mul);
                }
            }
            (Each::One(alu), Each::Many(mul)) => {
                for (value, &mul) in values.iter_mut().zip(mul) {
                    *value = f(i64::from(*value) + i64::from(alu), mul);
                }
            }
            (Each::Many(alu), Each::Many(mul)) => {
                for ((value, &alu), &mul) in values.iter_mut().zip(alu).zip(mul) {
                    *value = f(i64::from(*value) + i64::from(alu), mul);
                }
            }
        }
    }
    let product = |sum: i64, mul: i32| sum.wrapping_mul(i64::from(mul));
    // Values that PReLU passes keep only their low 32 bits.
    let pass = |sum: i64, product: i32| if prelu && sum >= 0 { sum as i32 } else { product };
    if shift == 0 {
        each(values, alu, mul, |sum, mul| pass(sum, saturate(product(sum, mul))));
    } else if shift < 62 {
        each(values, alu, mul, |sum, mul| pass(sum, saturate(round_wide(product(sum, mul), shift))));
    } else {
        each(values, alu, mul, |sum, mul| pass(sum, fixed::shift_right::<32>(product(sum, mul), shift) as i32));
    }
}

/// The output converter within 32 bits.
#[inline(always)]
pub(super) fn convert_narrow(values: &mut [i32], offset: i32, scale: i32, shift: u32) {
    if shift == 0 {
        map(values, |value| value.wrapping_sub(offset).wrapping_mul(scale));
    } else {
        map(values, |value| round_narrow(value.wrapping_sub(offset).wrapping_mul(scale), shift));
    }
}

/// The converter of data and operands: a difference of 33 bits, a product of 49, saturated to 32. If the difference fits 32 bits,
/// a simpler multiplication is used.
#[inline(always)]
pub(super) fn convert_wide(values: &mut [i32], offset: i32, scale: i32, shift: u32, narrow_difference: bool) {
    let (wide_offset, wide_scale) = (i64::from(offset), i64::from(scale));
    if shift >= 62 {
        map(values, |value| {
            fixed::shift_right::<32>((i64::from(value) - wide_offset).wrapping_mul(wide_scale), shift) as i32
        });
    } else if shift == 0 {
        map(values, |value| saturate((i64::from(value) - wide_offset).wrapping_mul(wide_scale)));
    } else if narrow_difference {
        map(values, |value| {
            saturate(round_wide(i64::from(value.wrapping_sub(offset)).wrapping_mul(wide_scale), shift))
        });
    } else {
        map(values, |value| saturate(round_wide((i64::from(value) - wide_offset).wrapping_mul(wide_scale), shift)));
    }
}

/// How many values the output converter saturates to 17 bits, in the hardware's way of counting.
#[inline(always)]
pub(super) fn count_saturated(values: &[i32], offset: i32, scale: i32, shift: u32) -> u32 {
    let (offset, scale) = (i64::from(offset), i64::from(scale));
    values
        .iter()
        .map(|&value| {
            let shifted = ((i64::from(value) - offset) * scale) >> shift;
            u32::from(!(-65537..=65536).contains(&shifted))
        })
        .sum()
}
