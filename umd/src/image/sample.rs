// SPDX-License-Identifier: MIT OR Apache-2.0

//! The value that one sample of 0..255 has in memory.

use crate::half;

/// How samples are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    /// A signed byte that holds 0..127.
    Byte,
    /// The sample itself.
    Sample,
    /// Half precision.
    Half,
    /// An integer of `bits` bits.
    Integer { bits: u8, signed: bool },
}

impl Store {
    /// The stored bits.
    pub(super) fn encode(self, sample: u8, mean: f32, normalize: f32) -> u16 {
        match self {
            // Double precision, as the existing program computes it.
            Self::Byte => (f64::from(sample) * 127.0 / 255.0 + 0.5).floor() as u16,
            Self::Sample => sample.into(),
            Self::Half => half::from_f32((f32::from(sample) - mean) / normalize).to_bits(),
            Self::Integer { bits, signed } => {
                let value = ((f32::from(sample) - mean) / normalize + 0.5).floor();
                if signed {
                    let most = f32::from(i16::MAX >> (16 - bits));
                    value.clamp(-most - 1.0, most) as i16 as u16
                } else {
                    value.clamp(0.0, f32::from(u16::MAX >> (16 - bits))) as u16
                }
            }
        }
    }
}

/// Luma of a colour, with JPEG's weights.
pub(super) fn luma([r, g, b]: [u8; 3]) -> u8 {
    ((u32::from(r) * 19595 + u32::from(g) * 38470 + u32::from(b) * 7471 + 0x8000) >> 16) as u8
}

/// Full-range Y, Cb, Cr of a colour, as in JPEG files.
pub(super) fn yuv([r, g, b]: [u8; 3]) -> [u8; 3] {
    let [red, green, blue] = [r, g, b].map(i32::from);
    // The factors times 2^16; the last term is 128 and half a unit.
    let chroma = |weighted: i32| ((weighted + (128 << 16) + 0x7fff) >> 16).clamp(0, 255) as u8;
    [
        luma([r, g, b]),
        chroma(-11059 * red - 21709 * green + 32768 * blue),
        chroma(32768 * red - 27439 * green - 5329 * blue),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_scaled_to_seven_bits() {
        let encode = |sample| Store::Byte.encode(sample, 50.0, 3.0);
        assert_eq!([0, 1, 2, 128, 254, 255].map(encode), [0, 0, 1, 64, 127, 127]);
    }

    #[test]
    fn halves_take_fractions() {
        assert_eq!(Store::Half.encode(200, 0.0, 1.0), half::from_f32(200.0).to_bits());
        assert_eq!(Store::Half.encode(200, 103.5, 0.5), half::from_f32(193.0).to_bits());
        assert_eq!(Store::Half.encode(0, 127.5, 127.5), half::from_f32(-1.0).to_bits());
    }

    #[test]
    fn integers_stay_in_their_format() {
        let ten = Store::Integer { bits: 10, signed: false };
        assert_eq!(ten.encode(200, 0.0, 1.0), 200);
        assert_eq!(ten.encode(255, 0.0, 0.1), 1023);
        assert_eq!(ten.encode(10, 20.0, 1.0), 0);
        let signed = Store::Integer { bits: 16, signed: true };
        assert_eq!(signed.encode(10, 20.0, 1.0) as i16, -10);
        assert_eq!(signed.encode(0, 255.0, 0.001) as i16, i16::MIN);
        assert_eq!(signed.encode(255, 0.0, 0.001) as i16, i16::MAX);
    }

    #[test]
    fn colours() {
        assert_eq!(luma([255, 255, 255]), 255);
        assert_eq!(yuv([255, 255, 255]), [255, 128, 128]);
        assert_eq!(yuv([0, 0, 0]), [0, 128, 128]);
        assert_eq!(yuv([255, 0, 0]), [76, 85, 255]);
        assert_eq!(yuv([0, 0, 255]), [29, 255, 107]);
    }
}
