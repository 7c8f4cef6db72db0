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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_width() {
        assert_eq!((min::<8>(), max::<8>()), (-128, 127));
        assert_eq!((min::<32>(), max::<32>()), (i64::from(i32::MIN), i64::from(i32::MAX)));
        assert_eq!(saturate::<16>(40_000), 32_767);
        assert_eq!(saturate::<16>(-40_000), -32_768);
        assert_eq!(wrap::<8>(200), -56);
    }

    #[test]
    fn right_shifts_round_half_away_from_zero() {
        for (value, shift, result) in
            [(5, 1, 3), (-5, 1, -3), (4, 1, 2), (7, 2, 2), (-6, 2, -2), (-7, 2, -2), (6, 2, 2), (1, 40, 0)]
        {
            assert_eq!(round_shift_right(value, shift), result, "{value} >> {shift}");
        }
        assert_eq!(round_shift_right(1 << 62, 63), 1);
        assert_eq!(round_shift_right(-(1 << 62), 63), -1);
        assert_eq!(round_shift_right(1 << 62, 64), 0);
        assert_eq!(round_shift_right(i64::from(i32::MIN), 1023), 0);
    }

    #[test]
    fn right_shifts_agree_with_wide_arithmetic() {
        let mut value = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..10_000 {
            value = value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let (number, shift) = ((value as i64) >> (value % 60) >> 1, (value >> 58) as u32);
            let half = if shift == 0 { 0 } else { 1i128 << (shift - 1) };
            let magnitude = (i128::from(number).abs() + half) >> shift;
            assert_eq!(i128::from(round_shift_right(number, shift)), magnitude * i128::from(number.signum()));
        }
    }

    #[test]
    fn left_shifts_saturate() {
        assert_eq!(shift_left::<32>(-3, 63), i64::from(i32::MIN));
        assert_eq!(shift_left::<32>(1, 30), 1 << 30);
        assert_eq!(shift_left::<32>(1, 31), i64::from(i32::MAX));
        assert_eq!(shift_left::<32>(-1, 31), i64::from(i32::MIN));
        assert_eq!(shift_left::<32>(-1, 56), i64::from(i32::MIN));
        assert_eq!(shift_left::<32>(0, 200), 0);
        assert_eq!(shift_right_signed::<32>(3, -2), 12);
    }

    #[test]
    fn fields_extend_their_sign() {
        assert_eq!(sign_extend(0x1f, 5), -1);
        assert_eq!(sign_extend(0x0f, 5), 15);
        assert_eq!(sign_extend(0xffff_ffff, 32), -1);
    }
}
