// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDMA's input converter.
//!
//! An integer element is extended to 17 bits. The offset is subtracted, and the difference is multiplied, shifted right
//! (rounded half away from zero) and limited to 17 bits. Then it becomes int8, int16 or fp16. A float passes unchanged.
//! Source: `cmod/hls/cdma_libs`.

use nvdla_uapi::reg::values::Precision;

use super::operation::Converter;
use crate::num::convert::i17_to_fp16;
use crate::num::fixed::{saturate, shift_right};

impl Converter {
    /// Whether the converter leaves channel 0 unchanged, if the precision stays the same.
    pub fn is_identity(&self) -> bool {
        self.offsets[0] == 0 && self.truncate < 15 && self.scale == 1 << self.truncate
    }

    /// The converted value of each byte, for one channel.
    pub fn table(&self, channel: usize, signed: bool, to: Precision) -> [u16; 256] {
        std::array::from_fn(|byte| {
            let value = if signed { i32::from(byte as u8 as i8) } else { byte as i32 };
            self.convert(value, channel, to)
        })
    }

    /// Converts an element of channel `channel` (0 to 3); the result's low bits are the new element.
    pub fn convert(&self, value: i32, channel: usize, to: Precision) -> u16 {
        let scaled = (i64::from(value) - i64::from(self.offsets[channel])) * i64::from(self.scale);
        let limited = shift_right::<17>(scaled, self.truncate);
        match to {
            Precision::Int8 => saturate::<8>(limited) as u8 as u16,
            Precision::Int16 => saturate::<16>(limited) as u16,
            Precision::Fp16 => i17_to_fp16(limited as i32),
        }
    }
}
