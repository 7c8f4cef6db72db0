// SPDX-License-Identifier: MIT OR Apache-2.0

//! Arithmetic of one floating-point format, on bit patterns.
//!
//! Rounding is to nearest even. The differences from IEEE 754 are:
//!
//! - a result too large becomes the largest normal value, never infinity;
//! - a result below the smallest normal value becomes zero, with its sign;
//! - the exponent of all ones with a zero mantissa is an ordinary number (a power of two), not infinity;
//! - an exponent of zero with a mantissa is an ordinary number too, with the implied one;
//! - a NaN operand is the result, the first operand's before the second's, bit for bit;
//! - an exact sum of zero has the sign of the first operand.
//!
//! Source: the hardware project's arithmetic library (`cmod/hls/include/nvdla_float.h`).

/// A format with `E` bits of exponent and `M` bits of mantissa, in the low `1 + E + M` bits of a `u32`.
pub struct Float<const E: u32, const M: u32>;

/// Half precision, the format in memory.
pub type Fp16 = Float<5, 10>;
/// Half precision with one more bit of exponent: inside CDP, PDP and the lookup tables' interpolation.
pub type Fp17 = Float<6, 10>;
/// Single precision: SDP's data path.
pub type Fp32 = Float<8, 23>;

/// Rounds `value` to nearest even after dropping its `drop` low bits; the carry out may make it one bit longer.
#[inline(always)]
pub(super) const fn round_even(value: u64, drop: u32) -> u64 {
    if drop == 0 {
        return value;
    }
    let kept = value >> drop;
    let guard = (value >> (drop - 1)) & 1;
    let sticky = value & ((1 << (drop - 1)) - 1) != 0;
    kept + (guard & (sticky as u64 | (kept & 1)))
}

impl<const E: u32, const M: u32> Float<E, M> {
    /// Bits of a value.
    pub const WIDTH: u32 = 1 + E + M;
    /// The largest exponent field: infinity and NaN.
    pub const EXPO_MAX: u32 = (1 << E) - 1;
    /// The exponent field minus the exponent.
    pub const BIAS: u32 = (1 << (E - 1)) - 1;
    /// The mantissa field, all ones.
    pub const MANT_MAX: u32 = (1 << M) - 1;
    /// The sign bit.
    pub const SIGN: u32 = 1 << (E + M);

    /// The bits of a value.
    #[inline(always)]
    pub const fn pack(sign: u32, expo: u32, mant: u32) -> u32 {
        (sign << (E + M)) | (expo << M) | mant
    }

    /// The sign bit, 0 or 1.
    #[inline(always)]
    pub const fn sign(bits: u32) -> u32 {
        (bits >> (E + M)) & 1
    }

    /// The exponent field.
    #[inline(always)]
    pub const fn expo(bits: u32) -> u32 {
        (bits >> M) & Self::EXPO_MAX
    }

    /// The mantissa field.
    #[inline(always)]
    pub const fn mant(bits: u32) -> u32 {
        bits & Self::MANT_MAX
    }

    /// Whether `bits` is a NaN.
    #[inline(always)]
    pub const fn is_nan(bits: u32) -> bool {
        Self::expo(bits) == Self::EXPO_MAX && Self::mant(bits) != 0
    }

    /// Whether `bits` is infinite.
    #[inline(always)]
    pub const fn is_infinite(bits: u32) -> bool {
        Self::expo(bits) == Self::EXPO_MAX && Self::mant(bits) == 0
    }

    /// Whether `bits` is a zero of either sign.
    #[inline(always)]
    pub const fn is_zero(bits: u32) -> bool {
        bits & (Self::SIGN - 1) == 0
    }

    /// The largest normal value of that sign.
    #[inline(always)]
    pub const fn largest(sign: u32) -> u32 {
        Self::pack(sign, Self::EXPO_MAX - 1, Self::MANT_MAX)
    }

    /// Zero where `bits` is a NaN and `flush` is set, else `bits` (`NAN_TO_ZERO`).
    #[inline(always)]
    pub const fn flush_nan(bits: u32, flush: bool) -> u32 {
        if flush && Self::is_nan(bits) {
            0
        } else {
            bits
        }
    }

    /// The mantissa with its implied one.
    const fn significand(bits: u32) -> u64 {
        if Self::is_zero(bits) {
            0
        } else {
            ((1 << M) | Self::mant(bits)) as u64
        }
    }

    /// `a + b`.
    pub const fn add(a: u32, b: u32) -> u32 {
        if Self::is_nan(a) {
            return a;
        }
        if Self::is_nan(b) {
            return b;
        }
        let magnitude = Self::SIGN - 1;
        let (larger, smaller) = if a & magnitude >= b & magnitude { (a, b) } else { (b, a) };
        // Enough guard bits for the part of the smaller operand that can have an effect: the mantissa's width and two bits
        // below the last place.
        let guard = M + 2;
        let width = guard + M + 1;
        let distance = Self::expo(larger) - Self::expo(smaller);
        let large = Self::significand(larger) << guard;
        let small = if distance > guard {
            let right = distance - guard;
            if right > 63 {
                0
            } else {
                Self::significand(smaller) >> right
            }
        } else {
            Self::significand(smaller) << (guard - distance)
        };
        let sign = Self::sign(larger);
        let mut expo = Self::expo(larger);
        let sum = if Self::sign(a) == Self::sign(b) { large + small } else { large - small };
        let significand = if sum >> width != 0 {
            if expo >= Self::EXPO_MAX - 1 {
                return Self::largest(sign);
            }
            expo += 1;
            sum >> 1
        } else {
            let zeros = sum.leading_zeros() - (64 - width);
            if sum == 0 || expo <= zeros {
                return Self::pack(sign, 0, 0);
            }
            expo -= zeros;
            sum << zeros
        };
        let rounded = round_even(significand, guard);
        if rounded >> (M + 1) != 0 {
            if expo >= Self::EXPO_MAX - 1 {
                return Self::largest(sign);
            }
            expo += 1;
        }
        Self::pack(sign, expo, rounded as u32 & Self::MANT_MAX)
    }

    /// `a - b`.
    pub const fn sub(a: u32, b: u32) -> u32 {
        Self::add(a, b ^ Self::SIGN)
    }

    /// `a * b`.
    pub const fn mul(a: u32, b: u32) -> u32 {
        if Self::is_nan(a) {
            return a;
        }
        if Self::is_nan(b) {
            return b;
        }
        let sign = Self::sign(a) ^ Self::sign(b);
        let sum = Self::expo(a) + Self::expo(b);
        if Self::is_zero(a) || Self::is_zero(b) || sum < Self::BIAS {
            return Self::pack(sign, 0, 0);
        }
        if sum >= Self::EXPO_MAX + Self::BIAS {
            return Self::largest(sign);
        }
        let mut expo = sum - Self::BIAS;
        let mut product = Self::significand(a) * Self::significand(b);
        if product >> (2 * M + 1) != 0 {
            if expo >= Self::EXPO_MAX - 1 {
                return Self::largest(sign);
            }
            expo += 1;
        } else {
            product <<= 1;
        }
        let rounded = round_even(product, M + 1);
        if rounded >> (M + 1) != 0 {
            expo += 1;
            if expo == Self::EXPO_MAX {
                return Self::largest(sign);
            }
        }
        if expo == 0 {
            return Self::pack(sign, 0, 0);
        }
        Self::pack(sign, expo, rounded as u32 & Self::MANT_MAX)
    }

    /// Whether `a > b`, comparing sign and magnitude (zeros are ordered: +0 > -0).
    ///
    /// For two equal negative values the result is true, which has no effect because they have the same bits.
    const fn greater(a: u32, b: u32) -> bool {
        let magnitude = Self::SIGN - 1;
        match (Self::sign(a), Self::sign(b)) {
            (0, 0) => a & magnitude > b & magnitude,
            (0, _) => true,
            (_, 0) => false,
            _ => a & magnitude <= b & magnitude,
        }
    }

    /// The larger of the two.
    pub const fn max(a: u32, b: u32) -> u32 {
        if Self::is_nan(a) {
            a
        } else if Self::is_nan(b) || !Self::greater(a, b) {
            b
        } else {
            a
        }
    }

    /// The smaller of the two.
    pub const fn min(a: u32, b: u32) -> u32 {
        if Self::is_nan(a) {
            a
        } else if Self::is_nan(b) || Self::greater(a, b) {
            b
        } else {
            a
        }
    }

    /// Zero where `bits` is negative and no NaN.
    pub const fn relu(bits: u32) -> u32 {
        if Self::sign(bits) == 0 || Self::is_nan(bits) {
            bits
        } else {
            0
        }
    }
}
