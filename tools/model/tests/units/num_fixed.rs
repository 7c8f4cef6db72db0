// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/num/fixed.rs`.

use nvdla_model::num::fixed::*;

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
