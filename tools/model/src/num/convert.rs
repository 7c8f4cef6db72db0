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

/// The values for a lookup of an fp32 in a linear table: the integer part of `value / 2^shift` (limited to 9 bits) and 35 bits of
/// fraction. The sign is ignored.
pub const fn fp32_to_index(bits: u32, shift: i32) -> (u32, u64) {
    const FRACTION: i32 = 35;
    if Fp32::is_nan(bits) {
        return (0, 0);
    }
    let significand = ((1 << 23) | Fp32::mant(bits)) as u64;
    // The exponent is kept in 8 bits, so the exponent of infinity wraps around.
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
