// SPDX-License-Identifier: GPL-2.0-only OR MIT

use nvdla_uapi::layout::pixel::{saturating_shift, Converter, Kind};
use nvdla_uapi::reg::values::Precision;
use proptest::prelude::*;

/// Equation 1 in wide arithmetic: subtract, scale, divide, and round half away from zero.
fn equation(value: i128, converter: Converter) -> i128 {
    let scaled = (value - i128::from(converter.offset)) * i128::from(converter.scale);
    let divisor = 1i128 << converter.truncate;
    let magnitude = (scaled.abs() * 2 + divisor) / (divisor * 2);
    if scaled < 0 {
        -magnitude
    } else {
        magnitude
    }
}

proptest! {
    #[test]
    fn integers_follow_equation_1(pixel in any::<u16>(), offset in any::<i16>(), scale in any::<i16>(), truncate in 0..63u8, bits in prop_oneof![Just(8u8), Just(16)]) {
        let converter = Converter { offset, scale, truncate };
        let pixel = if bits == 8 { pixel & 0xff } else { pixel };
        for kind in [Kind::Unsigned, Kind::Signed] {
            let value = match (kind, bits) {
                (Kind::Unsigned, _) => i128::from(pixel),
                (_, 8) => i128::from(pixel as i8),
                _ => i128::from(pixel as i16),
            };
            let exact = equation(value, converter);
            let int8 = converter.convert(pixel, bits, kind, Precision::Int8) as i8;
            prop_assert_eq!(i128::from(int8), exact.clamp(-128, 127));
            let int16 = converter.convert(pixel, bits, kind, Precision::Int16) as i16;
            prop_assert_eq!(i128::from(int16), exact.clamp(-32768, 32767));
        }
    }

    #[test]
    fn integers_become_the_nearest_half(pixel in any::<u16>(), offset in any::<i16>()) {
        let converter = Converter { offset, scale: 1, truncate: 0 };
        let value = i64::from(pixel) - i64::from(offset);
        let bits = converter.convert(pixel, 16, Kind::Unsigned, Precision::Fp16);
        let exact = value.clamp(-65536, 65535);
        let got = nvdla_uapi::layout::half::to_fixed(bits).unwrap() as f64 / f64::from(1 << 24);
        // Half the distance between neighbours, or the largest value.
        let step = (exact.unsigned_abs().max(1).ilog2() as i32 - 10).max(-24);
        prop_assert!((got - exact as f64).abs() <= 2f64.powi(step - 1) || (bits & 0x7fff == 0x7bff && exact.abs() > 65504));
    }

    #[test]
    fn between_int8_and_int16_the_equation_is_the_same(value in any::<i16>(), offset in any::<i16>(), scale in any::<i16>(), truncate in 0..40u8) {
        let converter = Converter { offset, scale, truncate };
        let exact = equation(i128::from(value), converter);
        prop_assert_eq!(i128::from(converter.convert_integer(i64::from(value), Precision::Int8) as i8), exact.clamp(-128, 127));
        let byte = value as i8;
        let exact = equation(i128::from(byte), converter);
        prop_assert_eq!(i128::from(converter.convert_integer(i64::from(byte), Precision::Int16) as i16), exact.clamp(-32768, 32767));
    }
}

#[test]
fn fp16_pixels_pass_unchanged() {
    let converter = Converter { offset: 7, scale: 3, truncate: 1 };
    for bits in [0u16, 0x3c00, 0x7c00, 0x7e01, 0xffff] {
        assert_eq!(converter.convert(bits, 16, Kind::Float, Precision::Fp16), bits);
    }
}

#[test]
fn shifts_round_half_away_from_zero() {
    let cases = [(5, 1, 3), (-5, 1, -3), (4, 3, 1), (-4, 3, -1), (3, 3, 0), (i64::MAX, 63, 0), (1 << 40, 0, 65535)];
    for (value, shift, expected) in cases {
        assert_eq!(saturating_shift(value, shift, 17), expected, "{value} >> {shift}");
    }
}
