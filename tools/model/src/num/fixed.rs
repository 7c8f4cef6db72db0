// SPDX-License-Identifier: MIT OR Apache-2.0

//! Saturation and rounding shifts of integers.
//!
//! Every right shift in SDP, CDP and PDP rounds half away from zero and then saturates to the width of its output;
//! left shifts saturate. Source: the hardware project's arithmetic library (`cmod/hls/include/nvdla_int.h`).

/// The largest value of a signed integer of `BITS` bits.
pub const fn max<const BITS: u32>() -> i64 {
    i64::MAX >> (64 - BITS)
}

/// The smallest value of a signed integer of `BITS` bits.
pub const fn min<const BITS: u32>() -> i64 {
    i64::MIN >> (64 - BITS)
}

/// `value` limited to a signed integer of `BITS` bits.
#[inline(always)]
pub const fn saturate<const BITS: u32>(value: i64) -> i64 {
    if value > max::<BITS>() {
        max::<BITS>()
    } else if value < min::<BITS>() {
        min::<BITS>()
    } else {
        value
    }
}

/// The low `BITS` bits of `value` as a signed integer.
#[inline(always)]
pub const fn wrap<const BITS: u32>(value: i64) -> i64 {
    (value << (64 - BITS)) >> (64 - BITS)
}

/// `value / 2^shift`, rounded half away from zero. A value has at most 63 bits, so the sign bit of its magnitude is
/// free.
#[inline(always)]
pub const fn round_shift_right(value: i64, shift: u32) -> i64 {
    if shift == 0 {
        return value;
    }
    if shift > 63 {
        return 0;
    }
    // Adding one half, less one unit for a negative value, turns the shift's rounding down into half away from zero.
    // The sum is formed after a shift by all but one bit: it cannot overflow.
    let negative = value < 0;
    let magnitude = value.unsigned_abs();
    let rounded = ((magnitude >> (shift - 1)) + 1) >> 1;
    if negative {
        (rounded as i64).wrapping_neg()
    } else {
        rounded as i64
    }
}

/// `value / 2^shift`, rounded half away from zero, limited to `BITS` bits.
#[inline(always)]
pub const fn shift_right<const BITS: u32>(value: i64, shift: u32) -> i64 {
    saturate::<BITS>(round_shift_right(value, shift))
}

/// `value * 2^shift`, limited to `BITS` bits.
#[inline(always)]
pub const fn shift_left<const BITS: u32>(value: i64, shift: u32) -> i64 {
    if shift < BITS && value >= (min::<BITS>() >> shift) && value <= (max::<BITS>() >> shift) {
        value << shift
    } else if value > 0 {
        max::<BITS>()
    } else if value < 0 {
        min::<BITS>()
    } else {
        0
    }
}

/// [`shift_right`] for a `shift` that is signed: negative shifts left.
#[inline(always)]
pub const fn shift_right_signed<const BITS: u32>(value: i64, shift: i32) -> i64 {
    if shift < 0 {
        shift_left::<BITS>(value, shift.unsigned_abs())
    } else {
        shift_right::<BITS>(value, shift as u32)
    }
}

/// The low `bits` bits of `raw` as a signed integer (a register field in two's complement).
#[inline(always)]
pub const fn sign_extend(raw: u32, bits: u32) -> i32 {
    ((raw << (32 - bits)) as i32) >> (32 - bits)
}
