// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! fp16 as integers, for the few places where a layout computes: exact fixed point in, one rounding out.
//!
//! Source: "In-memory data formats", section "FP16 Supporting": nearest (ties to even), overflow to 65504, no infinity.

/// fp16's largest finite value.
const MAX: u16 = 0x7bff;

/// An fp16 in units of 2^-24, exactly; infinity counts as 65504. `None` for NaN.
pub const fn to_fixed(bits: u16) -> Option<i64> {
    let exponent = (bits >> 10) & 31;
    let fraction = (bits & 0x3ff) as i64;
    let magnitude = match exponent {
        0 => fraction,
        31 if fraction != 0 => return None,
        31 => 2047 << 29,
        _ => (1024 + fraction) << (exponent - 1),
    };
    Some(if bits & 0x8000 == 0 { magnitude } else { -magnitude })
}

/// The fp16 nearest to `value` x 2^-`unit`, with `unit` 0 to 127.
pub const fn from_fixed(value: i64, unit: u32) -> u16 {
    let sign = if value < 0 { 0x8000 } else { 0 };
    let magnitude = value.unsigned_abs();
    if magnitude == 0 {
        return 0;
    }
    let exponent = magnitude.ilog2() as i32 - unit as i32;
    if exponent > 15 {
        return sign | MAX;
    }
    // The exponent of the last bit kept: ten below the first, but no less than the smallest denormal.
    let last = if exponent - 10 > -24 { exponent - 10 } else { -24 };
    let kept = round_even(magnitude, last + unit as i32);
    let bits = if exponent >= -14 { ((exponent + 14) as u64) << 10 } else { 0 } + kept;
    if bits > MAX as u64 {
        sign | MAX
    } else {
        sign | bits as u16
    }
}

/// `value` / 2^`shift`, ties to even. A negative shift is exact.
const fn round_even(value: u64, shift: i32) -> u64 {
    match shift {
        i32::MIN..=0 => value << -shift,
        1..=63 => {
            let kept = value >> shift;
            let rest = value & ((1 << shift) - 1);
            let half = 1 << (shift - 1);
            kept + (rest > half || (rest == half && kept & 1 == 1)) as u64
        }
        64 => (value > 1 << 63) as u64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_half_survives_fixed_point() {
        for bits in 0..=u16::MAX {
            match to_fixed(bits) {
                None => assert!(bits & 0x7fff > 0x7c00),
                Some(_) if bits & 0x7fff == 0x7c00 => {}
                Some(0) => assert_eq!(bits & 0x7fff, 0),
                Some(value) => assert_eq!(from_fixed(value, 24), bits),
            }
        }
    }

    #[test]
    fn integers_round_to_even_and_saturate() {
        for (value, bits) in [
            (1, 0x3c00),
            (-2, 0xc000),
            (2049, 0x6800),
            (2051, 0x6802),
            (65504, 0x7bff),
            (65519, 0x7bff),
            (1 << 20, 0x7bff),
        ] {
            assert_eq!((value, from_fixed(value, 0)), (value, bits));
        }
        // Half of the smallest denormal is a tie to even zero; three quarters round up.
        assert_eq!(from_fixed(1, 25), 0);
        assert_eq!(from_fixed(3, 26), 1);
        // The largest denormal rounds up into the normal range.
        assert_eq!(from_fixed(2047, 25), 0x0400);
    }
}
