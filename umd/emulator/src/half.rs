// SPDX-License-Identifier: MIT OR Apache-2.0

//! Conversion to half precision as in NVIDIA's runtime: to nearest, ties away from zero.
//!
//! The hardware rounds ties to even. The library in NVIDIA's runtime does not, and its images and emulated operations
//! must be matched bit for bit. Therefore these functions are used instead of `f16::from_f32`, which rounds ties to
//! even, and `f16::to_f32`, which changes signalling NaNs. Source: nvdla/sw, `umd/external/include/half.h` with its
//! defaults (`HALF_ROUND_STYLE` 1, `HALF_ROUND_TIES_TO_EVEN` 0).

pub use ::half::f16;

/// The half-precision number nearest to `value`. A tie is rounded away from zero; values that are too large become
/// infinity.
///
/// ```
/// use nvdla_emulator::half;
/// assert_eq!(half::from_f32(1.0), half::f16::ONE);
/// // Halfway between 2048 and 2050.
/// assert_eq!(half::from_f32(2049.0), half::from_f32(2050.0));
/// ```
pub fn from_f32(value: f32) -> f16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let exponent = (bits >> 23 & 0xff) as i32 - 127;
    let mantissa = bits & 0x7f_ffff;
    let magnitude = match exponent {
        // Infinity, and NaN with the upper bits of its payload.
        128 => 0x7c00 | mantissa >> 13,
        16..=127 => 0x7c00,
        // A carry from rounding may reach the exponent; 65520 then becomes infinity.
        -14..=15 => ((exponent + 15) as u32) << 10 | mantissa >> 13,
        -25..=-15 => (mantissa | 0x80_0000) >> (-1 - exponent),
        _ => 0,
    };
    let below = match exponent {
        -14..=15 => mantissa >> 12 & 1,
        -25..=-15 => (mantissa | 0x80_0000) >> (-2 - exponent) & 1,
        _ => 0,
    };
    f16::from_bits(sign | (magnitude + below) as u16)
}

/// The value of a half-precision number.
pub fn to_f32(number: f16) -> f32 {
    let bits = number.to_bits();
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let mantissa = u32::from(bits & 0x3ff);
    match exponent {
        // 2^-24 per step, which single precision holds exactly.
        0 => f32::from_bits(sign | (mantissa as f32 / 16_777_216.0).to_bits()),
        31 => f32::from_bits(sign | 0x7f80_0000 | mantissa << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | mantissa << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives() {
        for bits in 0..=u16::MAX {
            assert_eq!(from_f32(to_f32(f16::from_bits(bits))).to_bits(), bits, "{bits:#06x}");
        }
    }

    #[test]
    fn rounding_is_to_nearest_and_away_from_zero() {
        for bits in 0..0x7bff_u16 {
            let (low, high) = (to_f32(f16::from_bits(bits)), to_f32(f16::from_bits(bits + 1)));
            let middle = low.midpoint(high);
            assert_eq!(from_f32(middle).to_bits(), bits + 1, "{middle:e}");
            assert_eq!(from_f32(-middle).to_bits(), 0x8000 | (bits + 1), "-{middle:e}");
            let under = f32::from_bits(middle.to_bits() - 1);
            assert_eq!(from_f32(under).to_bits(), bits, "{under:e}");
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        assert_eq!(from_f32(65519.0).to_bits(), 0x7bff);
        assert_eq!(from_f32(65520.0).to_bits(), 0x7c00);
        assert_eq!(from_f32(1e30).to_bits(), 0x7c00);
        assert_eq!(from_f32(f32::NEG_INFINITY).to_bits(), 0xfc00);
        assert_eq!(from_f32(f32::NAN).to_bits(), 0x7e00);
        assert_eq!(from_f32(2.0_f32.powi(-25)).to_bits(), 1);
        assert_eq!(from_f32(2.0_f32.powi(-26)).to_bits(), 0);
        assert_eq!(from_f32(-0.0).to_bits(), 0x8000);
        assert_eq!(from_f32(f32::MIN_POSITIVE / 4.0).to_bits(), 0);
    }
}
