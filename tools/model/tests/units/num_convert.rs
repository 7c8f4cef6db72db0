// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/num/convert.rs`.

#![allow(clippy::float_cmp)] // the conversions are exact

use nvdla_model::num::convert::*;
use nvdla_model::num::{Fp16, Fp17, Fp32};

/// fp16 by the definition of the format.
fn value(bits: u16) -> f64 {
    let (expo, mant) = (Fp16::expo(bits.into()) as i32, f64::from(Fp16::mant(bits.into())));
    let magnitude = if expo == 0 { mant * 2f64.powi(-24) } else { (1024.0 + mant) * 2f64.powi(expo - 25) };
    if bits & 0x8000 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

#[test]
fn every_fp16_survives_fp32_and_fp17() {
    for bits in 0..=u16::MAX {
        let wide = fp16_to_fp32(bits);
        if Fp16::is_infinite(bits.into()) {
            assert_eq!(wide, Fp32::largest(Fp16::sign(bits.into())));
            continue;
        }
        if !Fp16::is_nan(bits.into()) {
            assert_eq!(f64::from(f32::from_bits(wide)), value(bits), "{bits:#x}");
        }
        assert_eq!(fp32_to_fp16(wide), bits);
        assert_eq!(fp17_to_fp16(fp16_to_fp17(bits)), bits);
        if !Fp16::is_nan(bits.into()) {
            assert_eq!(fp17_to_fp32(fp16_to_fp17(bits)), wide);
        }
        assert_eq!(fp32_to_fp17(wide), fp16_to_fp17(bits));
    }
}

#[test]
fn fp32_narrows_to_the_nearest() {
    for step in 0..2_000_000u32 {
        let wide = step.wrapping_mul(2_147_483) & !0x8000_0000;
        if Fp32::expo(wide) == 255 {
            continue;
        }
        let real = f64::from(f32::from_bits(wide));
        let narrow = fp32_to_fp16(wide);
        if real >= 65520.0 {
            assert_eq!(narrow, 0x7bff);
            continue;
        }
        let error = (value(narrow) - real).abs();
        for neighbour in [narrow.saturating_sub(1), narrow + 1] {
            if neighbour < 0x7c00 && neighbour != narrow {
                let other = (value(neighbour) - real).abs();
                assert!(error < other || (error == other && narrow & 1 == 0), "{wide:#x} gives {narrow:#x}");
            }
        }
    }
}

#[test]
fn fp17_has_no_denormals() {
    assert_eq!(fp32_to_fp17((2f32).powi(-30).to_bits()), Fp17::pack(0, 1, 0));
    assert_eq!(fp32_to_fp17((2f32).powi(-31).to_bits()), 0);
    // The nearest value is the smallest normal one.
    assert_eq!(fp32_to_fp17(0x307f_ffff), Fp17::pack(0, 1, 0));
}

#[test]
fn integers_become_fp16() {
    for number in i16::MIN..=i16::MAX {
        let half = i17_to_fp16(number.into());
        assert_eq!(half, i16_to_fp16(number));
        assert_eq!(half, fp32_to_fp16(f32::from(number).to_bits()), "{number}");
    }
    assert_eq!(i17_to_fp16(65535), 0x7bff);
    assert_eq!(i17_to_fp16(-65536), 0xfbff);
}

#[test]
fn fp16_becomes_an_integer_half_away_from_zero() {
    for bits in 0..=u16::MAX {
        if Fp16::expo(bits.into()) == 31 {
            continue;
        }
        let expected = value(bits).round().clamp(-32768.0, 32767.0) as i16;
        assert_eq!(fp16_to_i16(bits), expected, "{bits:#x}");
    }
    assert_eq!(fp16_to_i16(0x7c00), i16::MAX);
    assert_eq!(fp16_to_i16(0x7c01), i16::MIN);
}

#[test]
fn fractions_become_fp17() {
    assert_eq!(u16_to_fp17(0x8000), fp16_to_fp17(0x3800));
    assert_eq!(u16_to_fp17(0xffff), fp16_to_fp17(0x3c00));
    assert_eq!(u16_to_fp17(1), fp32_to_fp17((2f32).powi(-16).to_bits()));
    assert_eq!(fraction_to_fp17::<35>(1), 0);
    assert_eq!(fraction_to_fp17::<35>(1 << 34), fp16_to_fp17(0x3800));
}

#[test]
fn table_positions() {
    assert_eq!(fp32_to_index(5.5f32.to_bits(), 0), (5, 1 << 34));
    assert_eq!(fp32_to_index(5.5f32.to_bits(), 1), (2, (1 << 34) | (1 << 33)));
    assert_eq!(fp32_to_index(5.5f32.to_bits(), -1), (11, 0));
    assert_eq!(fp32_to_index(1e30f32.to_bits(), 0), (511, 0));
}
