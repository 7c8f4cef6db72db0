// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! How the convolution's DMA converts a pixel: (pixel - offset) x scale, shifted, in the processing precision.
//!
//! The shift rounds half away from zero and saturates to 17 bits; int8 and int16 saturate, fp16 is the nearest value to
//! the 17-bit integer and saturates at 65504. fp16 pixels pass unchanged.
//!
//! Source: "In-memory data formats", section "Precision Conversion", equations 1 and 3; widths and rounding as the
//! reference model computes them.

use super::super::super::reg::values::Precision;
use super::super::half;
use super::format::Kind;

/// The converter's parameters: `D_CVT_CFG`, `D_CVT_OFFSET`, `D_CVT_SCALE` (or a channel's mean instead of the offset).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Converter {
    /// Subtracted first.
    pub offset: i16,
    /// Multiplied then.
    pub scale: i16,
    /// Bits shifted out, 0 to 63.
    pub truncate: u8,
}

impl Converter {
    /// The converter that changes only the width.
    pub const IDENTITY: Self = Self { offset: 0, scale: 1, truncate: 0 };

    /// An element's bits in the output precision, from a component's bits as the DMA fetched them (8 or 16 bits wide).
    ///
    /// ```
    /// use nvdla_uapi::layout::pixel::{Converter, Kind};
    /// use nvdla_uapi::reg::values::Precision;
    /// let centre = Converter { offset: 128, scale: 1, truncate: 0 };
    /// assert_eq!(centre.convert(0, 8, Kind::Unsigned, Precision::Int8) as i8, -128);
    /// assert_eq!(centre.convert(255, 8, Kind::Unsigned, Precision::Int8) as i8, 127);
    /// ```
    pub const fn convert(self, fetched: u16, bits: u8, kind: Kind, output: Precision) -> u16 {
        let value = match kind {
            Kind::Float => return fetched,
            Kind::Unsigned => fetched as i64,
            Kind::Signed if bits == 8 => fetched as i8 as i64,
            Kind::Signed => fetched as i16 as i64,
        };
        self.convert_integer(value, output)
    }

    /// The same for an integer of up to 17 bits, as between int8 and int16.
    pub const fn convert_integer(self, value: i64, output: Precision) -> u16 {
        let scaled = (value - self.offset as i64) * self.scale as i64;
        let shifted = saturating_shift(scaled, self.truncate, 17);
        match output {
            Precision::Int8 => clamp(shifted, 8) as u8 as u16,
            Precision::Int16 => clamp(shifted, 16) as u16,
            Precision::Fp16 => half::from_fixed(shifted, 0),
        }
    }
}

const fn clamp(value: i64, bits: u32) -> i64 {
    let max = (1 << (bits - 1)) - 1;
    if value > max {
        max
    } else if value < -max - 1 {
        -max - 1
    } else {
        value
    }
}

/// `value` shifted right, rounded half away from zero, and saturated to `bits` (2 to 63). A shift above 62 gives 0.
pub const fn saturating_shift(value: i64, shift: u8, bits: u32) -> i64 {
    let shifted = match shift {
        0 => value,
        1..=62 => {
            let half = 1 << (shift - 1);
            let magnitude = (value.unsigned_abs() + half) >> shift;
            if value < 0 {
                -(magnitude as i64)
            } else {
                magnitude as i64
            }
        }
        _ => 0,
    };
    clamp(shifted, bits)
}
