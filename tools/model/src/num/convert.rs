// SPDX-License-Identifier: MIT OR Apache-2.0

//! Conversions between fp16, fp17, fp32 and integers, on bit patterns.
//!
//! Narrowing rounds to nearest even and limits to the largest normal value; fp16 keeps its denormals, fp17 has none.
//! Infinite inputs become the largest normal value of the wider format. A NaN keeps the low bits of its mantissa,
//! not the high ones, so that fp16 to fp32 and back is the same NaN.
//! Source: the hardware project's arithmetic library (`cmod/hls/include/nvdla_float.h`).

use super::fixed;
use super::float::{round_even, Float, Fp16, Fp17, Fp32};

/// Widens `bits`; `DENORMAL` says whether the narrow format's denormals are numbers.
#[inline(always)]
const fn widen<const EI: u32, const MI: u32, const EO: u32, const MO: u32>(bits: u32, denormal: bool) -> u32 {
    let (sign, expo, mant) = (Float::<EI, MI>::sign(bits), Float::<EI, MI>::expo(bits), Float::<EI, MI>::mant(bits));
    let delta = Float::<EO, MO>::BIAS - Float::<EI, MI>::BIAS;
    if expo == Float::<EI, MI>::EXPO_MAX {
        return if mant == 0 {
            Float::<EO, MO>::largest(sign)
        } else {
            Float::<EO, MO>::pack(sign, Float::<EO, MO>::EXPO_MAX, mant)
        };
    }
    if expo == 0 && mant == 0 {
        return Float::<EO, MO>::pack(sign, 0, 0);
    }
    let wide = mant << (MO - MI);
    if expo == 0 && denormal {
        let zeros = wide.leading_zeros() - (32 - MO);
        return Float::<EO, MO>::pack(sign, delta - zeros, (wide << (zeros + 1)) & Float::<EO, MO>::MANT_MAX);
    }
    Float::<EO, MO>::pack(sign, expo + delta, wide)
}

/// Narrows `bits`; `denormal` says whether the narrow format has denormals.
#[inline(always)]
const fn narrow<const EI: u32, const MI: u32, const EO: u32, const MO: u32>(bits: u32, denormal: bool) -> u32 {
    let (sign, expo, mant) = (Float::<EI, MI>::sign(bits), Float::<EI, MI>::expo(bits), Float::<EI, MI>::mant(bits));
    let delta = Float::<EI, MI>::BIAS - Float::<EO, MO>::BIAS;
    if Float::<EI, MI>::is_nan(bits) {
        return Float::<EO, MO>::pack(sign, Float::<EO, MO>::EXPO_MAX, mant & Float::<EO, MO>::MANT_MAX);
    }
    if expo >= Float::<EO, MO>::EXPO_MAX + delta {
        return Float::<EO, MO>::largest(sign);
    }
    if expo < delta - MO {
        return Float::<EO, MO>::pack(sign, 0, 0);
    }
    let significand = ((1 << MI) | mant) as u64;
    if expo <= delta {
        // Below the smallest normal value: the rounded mantissa's carry is the smallest normal value itself.
        let rounded = round_even(significand, MI - MO + delta - expo + 1) as u32;
        let is_normal = rounded >> MO != 0;
        return Float::<EO, MO>::pack(sign, 0, if denormal || is_normal { rounded } else { 0 });
    }
    let rounded = round_even(significand, MI - MO) as u32;
    let expo = expo - delta + (rounded >> (MO + 1));
    if expo == Float::<EO, MO>::EXPO_MAX {
        return Float::<EO, MO>::largest(sign);
    }
    Float::<EO, MO>::pack(sign, expo, rounded & Float::<EO, MO>::MANT_MAX)
}

/// fp16 to fp32.
#[inline(always)]
pub const fn fp16_to_fp32(bits: u16) -> u32 {
    widen::<5, 10, 8, 23>(bits as u32, true)
}

/// fp32 to fp16.
#[inline(always)]
pub const fn fp32_to_fp16(bits: u32) -> u16 {
    narrow::<8, 23, 5, 10>(bits, true) as u16
}

/// fp16 to fp17.
#[inline(always)]
pub const fn fp16_to_fp17(bits: u16) -> u32 {
    widen::<5, 10, 6, 10>(bits as u32, true)
}

/// fp17 to fp16.
#[inline(always)]
pub const fn fp17_to_fp16(bits: u32) -> u16 {
    narrow::<6, 10, 5, 10>(bits, true) as u16
}

/// fp17 to fp32.
#[inline(always)]
pub const fn fp17_to_fp32(bits: u32) -> u32 {
    widen::<6, 10, 8, 23>(bits, false)
}

/// fp32 to fp17.
#[inline(always)]
pub const fn fp32_to_fp17(bits: u32) -> u32 {
    narrow::<8, 23, 6, 10>(bits, false)
}

/// A fraction of `WIDTH` bits below the point, to fp17.
pub const fn fraction_to_fp17<const WIDTH: u32>(fraction: u64) -> u32 {
    if fraction == 0 {
        return 0;
    }
    let zeros = fraction.leading_zeros() - (64 - WIDTH);
    // The leading one moves to bit WIDTH, one above the fraction's width.
    let rounded = round_even(fraction << (zeros + 1), WIDTH - 10) as u32;
    let carry = rounded >> 11;
    // The exponent is relative to the bias: the fraction's highest bit is one half.
    let below = zeros + 1 - carry;
    if Fp17::BIAS <= below {
        return 0;
    }
    Fp17::pack(0, Fp17::BIAS - below, if carry == 0 { rounded & Fp17::MANT_MAX } else { 0 })
}

/// An unsigned 16-bit fraction to fp17.
pub const fn u16_to_fp17(fraction: u16) -> u32 {
    fraction_to_fp17::<16>(fraction as u64)
}

/// An integer of `BITS` bits (at most 32) to a float.
const fn integer_to_float<const BITS: u32, const E: u32, const M: u32>(value: i32) -> u32 {
    if value == 0 {
        return 0;
    }
    let sign = (value < 0) as u32;
    let magnitude = value.unsigned_abs();
    let zeros = magnitude.leading_zeros() - (32 - BITS);
    let rounded = round_even((magnitude as u64) << zeros, BITS - 1 - M) as u32;
    let expo = BITS - 1 - zeros + Float::<E, M>::BIAS;
    if expo >= Float::<E, M>::EXPO_MAX {
        return Float::<E, M>::largest(sign);
    }
    let expo = expo + (rounded >> (M + 1));
    if expo == Float::<E, M>::EXPO_MAX {
        return Float::<E, M>::largest(sign);
    }
    Float::<E, M>::pack(sign, expo, rounded & Float::<E, M>::MANT_MAX)
}

/// A 17-bit integer to fp16.
pub const fn i17_to_fp16(value: i32) -> u16 {
    integer_to_float::<17, 5, 10>(value) as u16
}

/// A 16-bit integer to fp16.
pub const fn i16_to_fp16(value: i16) -> u16 {
    integer_to_float::<16, 5, 10>(value as i32) as u16
}

/// fp16 to a 16-bit integer, rounded half away from zero, limited; a NaN gives -32768.
pub const fn fp16_to_i16(bits: u16) -> i16 {
    let bits = bits as u32;
    if Fp16::is_nan(bits) {
        return i16::MIN;
    }
    // Denormals and zero get the implied one as well: they are too small for it to matter.
    let significand = (0x400 | Fp16::mant(bits)) as i64;
    let shift = 25 - Fp16::expo(bits) as i32;
    let magnitude = fixed::shift_right_signed::<27>(significand, shift);
    if magnitude > i16::MAX as i64 {
        return if Fp16::sign(bits) == 1 { i16::MIN } else { i16::MAX };
    }
    if Fp16::sign(bits) == 1 {
        -(magnitude as i16)
    } else {
        magnitude as i16
    }
}

/// What a lookup in a linear table needs of an fp32 value: the integer part of `value / 2^shift` (limited to 9 bits) and
/// 35 bits of fraction. The sign is not looked at.
pub const fn fp32_to_index(bits: u32, shift: i32) -> (u32, u64) {
    const FRACTION: i32 = 35;
    if Fp32::is_nan(bits) {
        return (0, 0);
    }
    let significand = ((1 << 23) | Fp32::mant(bits)) as u64;
    // The exponent is kept in 8 bits: that of infinity wraps around.
    let expo = fixed::sign_extend(Fp32::expo(bits).wrapping_sub(Fp32::BIAS), 8);
    let left = expo - shift - 23;
    let integer = if left >= 9 {
        511
    } else if left >= 0 {
        let integer = significand << left;
        if integer > 511 {
            511
        } else {
            integer
        }
    } else if left > -64 {
        let integer = significand >> -left;
        if integer > 511 {
            511
        } else {
            integer
        }
    } else {
        0
    };
    let mask = (1u64 << FRACTION) - 1;
    let fraction = if left >= 0 {
        0
    } else if FRACTION + left >= 0 {
        (significand << (FRACTION + left)) & mask
    } else if FRACTION + left > -64 {
        significand >> -(FRACTION + left)
    } else {
        0
    };
    (integer as u32, fraction)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the conversions are exact
mod tests {
    use super::*;

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
}
