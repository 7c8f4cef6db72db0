// SPDX-License-Identifier: MIT OR Apache-2.0

//! Conversions between fp16 and fp32 without branches, for loops that compile to vector code.

#[cfg(test)]
use super::convert;

const SIGN: u32 = 0x8000_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;
const INFINITE: u32 = 0x7f80_0000;
const LARGEST: u32 = 0x7f7f_ffff;

/// [`super::convert::fp16_to_fp32`] of a finite value, without a branch.
#[inline(always)]
pub(crate) const fn widen_finite(bits: u16) -> u32 {
    let (magnitude, sign) = (bits as u32 & 0x7fff, (bits as u32 & 0x8000) << 16);
    let normal = (magnitude << 13) + (112 << 23);
    // A denormal's mantissa becomes that of a normal value, whose leading one is then subtracted.
    const ONE: u32 = 113 << 23;
    let denormal = (f32::from_bits((magnitude << 13) | ONE) - f32::from_bits(ONE)).to_bits();
    sign | if magnitude < 0x400 { denormal } else { normal }
}

/// [`super::convert::fp16_to_fp32`] without a branch.
#[inline(always)]
pub(crate) const fn widen(bits: u16) -> u32 {
    let (magnitude, sign) = (bits as u32 & 0x7fff, (bits as u32 & 0x8000) << 16);
    let result = if magnitude < 0x7c00 {
        widen_finite(bits) & MAGNITUDE
    } else if magnitude == 0x7c00 {
        LARGEST
    } else {
        INFINITE | (magnitude & 0x3ff)
    };
    sign | result
}

/// [`super::convert::fp32_to_fp16`] without a branch.
#[inline(always)]
pub(crate) const fn narrow(bits: u32) -> u16 {
    let (magnitude, sign) = (bits & MAGNITUDE, (bits & SIGN) >> 16);
    let normal = (magnitude.wrapping_add(0xfff + ((magnitude >> 13) & 1)) >> 13).wrapping_sub(112 << 10);
    // Adding one half leaves the mantissa of a denormal in the low bits, rounded by the addition.
    const HALF: u32 = 0x3f00_0000;
    let denormal = (f32::from_bits(magnitude) + f32::from_bits(HALF)).to_bits().wrapping_sub(HALF);
    let result = if magnitude < 0x3880_0000 {
        denormal
    } else if magnitude < 0x477f_f000 {
        normal
    } else if magnitude <= INFINITE {
        0x7bff
    } else {
        0x7c00 | (magnitude & 0x3ff)
    };
    (sign | result) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_those_of_the_bit_level_functions() {
        for bits in 0..=u16::MAX {
            assert_eq!(widen(bits), convert::fp16_to_fp32(bits), "{bits:#x}");
        }
        for step in 0..=u32::MAX / 997 {
            let bits = step.wrapping_mul(997);
            assert_eq!(narrow(bits), convert::fp32_to_fp16(bits), "{bits:#x}");
        }
        for bits in (0x3300_0000..0x3900_0000).step_by(61).chain(0x477f_0000..0x4780_1000) {
            assert_eq!(narrow(bits), convert::fp32_to_fp16(bits), "{bits:#x}");
        }
    }
}
