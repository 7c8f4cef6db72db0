// SPDX-License-Identifier: MIT OR Apache-2.0

//! CMAC's and CACC's fp16 arithmetic, one lane at a time.
//!
//! A step multiplies up to 64 pairs. Each exponent is split: its low two bits shift the significand left, and the high
//! bits of both operands add up to the product's exponent, in units of 4 bits. All products of a step are shifted right
//! to the largest exponent. The hardware shifts the sum and the carry of its Booth multiplier separately before it adds
//! them, so a product can be one below the shifted product. CACC adds the sums of the steps in order, in a float with 8
//! exponent bits (bias 63) and a two's complement mantissa of 40 bits, and rounds to fp32 at the end.
//!
//! Source: `cmod/cmac/NV_NVDLA_cmac.h` and `cmod/cacc/NV_NVDLA_cacc.cpp`, release nv_full.

/// Width of CACC's mantissa.
const MANTISSA: u32 = 40;
/// The sum of the constants that keep a Booth multiplier's partial products positive.
pub const BOOTH_OFFSET: u32 = 0x5555_0000;

/// Whether an fp16 is a NaN.
pub const fn is_nan(bits: u16) -> bool {
    bits & 0x7fff > 0x7c00
}

/// Whether an fp16 is infinite. CMAC treats infinity as 65536.
pub const fn is_infinite(bits: u16) -> bool {
    bits & 0x7fff == 0x7c00
}

/// Whether an fp16 is zero.
pub const fn is_zero(bits: u16) -> bool {
    bits << 1 == 0
}

/// Splits an operand into the significand, shifted left by the low bits of the exponent, and the exponent's high bits.
pub const fn split(bits: u16) -> (u32, u32) {
    let expo = (bits >> 10 & 0x1f) as u32;
    let fraction = (bits & 0x3ff) as u32;
    match expo {
        0 => (fraction << 1, 0),
        _ => ((fraction | 0x400) << (expo & 3), expo >> 2),
    }
}

/// A carry-save adder: the sum and carry of three numbers.
#[inline(always)]
#[allow(clippy::inline_always)]
const fn compress(a: u32, b: u32, c: u32) -> (u32, u32) {
    (a ^ b ^ c, ((a & b) | (b & c) | (a & c)) << 1)
}

/// Adds two trees of four partial products each, with the ones that complete the negations, and then both trees.
#[inline(always)]
#[allow(clippy::inline_always)]
const fn add_partials(partial: &[u32; 8], minus: &[u32; 8]) -> (u32, u32) {
    let low = compress(partial[0], partial[1] << 2 | minus[0], partial[2] << 4 | minus[1] << 2);
    let low = compress(low.0, low.1, partial[3] << 6 | minus[2] << 4);
    let low = compress(low.0, low.1, minus[3] << 6);
    let high = compress(partial[4] << 8, partial[5] << 10 | minus[4] << 8, partial[6] << 12 | minus[5] << 10);
    let high = compress(high.0, high.1, partial[7] << 14 | minus[6] << 12);
    let high = compress(high.0, high.1, minus[7] << 14);
    let both = compress(low.0, low.1, high.0);
    compress(both.0, both.1, high.1)
}

/// The Booth multiplier's sum and carry. They add up to the product plus [`BOOTH_OFFSET`].
pub const fn booth(negative: bool, weight: u32, data: u32) -> (u32, u32) {
    let recoded = if negative { !(weight << 1) } else { weight << 1 };
    let mut partial = [0; 8];
    let mut minus = [0; 8];
    let mut i = 0;
    while i < 8 {
        let (multiple, negate) = match recoded >> (2 * i) & 7 {
            1 | 2 => (data, false),
            3 => (data << 1, false),
            4 => (data << 1, true),
            5 | 6 => (data, true),
            _ => (0, false),
        };
        partial[i] = if negate { !multiple & 0xffff } else { multiple | 0x1_0000 };
        minus[i] = negate as u32;
        i += 1;
    }
    add_partials(&partial, &minus)
}

/// [`booth`] without branches, for vectorised loops.
#[inline(always)]
#[allow(clippy::inline_always)]
pub const fn booth_lane(negative: bool, weight: u32, data: u32) -> (u32, u32) {
    let recoded = (weight << 1) ^ (negative as u32).wrapping_neg();
    let mut partial = [0; 8];
    let mut minus = [0; 8];
    let mut i = 0;
    while i < 8 {
        let digit = recoded >> (2 * i);
        let (low, middle, high) = (digit & 1, digit >> 1 & 1, digit >> 2 & 1);
        // Twice the datum if the low two bits are equal and the high bit differs.
        let once = (low ^ middle).wrapping_neg();
        let twice = (!(low ^ middle) & (middle ^ high) & 1).wrapping_neg();
        let negate = high & !(low & middle) & 1;
        let multiple = (data & once) | (data << 1 & twice);
        partial[i] = (multiple ^ negate.wrapping_neg() & 0xffff) | (negate ^ 1) << 16;
        minus[i] = negate;
        i += 1;
    }
    add_partials(&partial, &minus)
}

/// A product, shifted right as in hardware. `shift` is a multiple of 4.
pub const fn product(negative: bool, weight: u32, data: u32, shift: u32) -> i32 {
    if shift >= 32 {
        return 0;
    }
    let (sum, carry) = booth(negative, weight, data);
    (sum >> shift).wrapping_add(carry >> shift).wrapping_sub(BOOTH_OFFSET >> shift) as i32
}

/// CMAC's result for CACC, for one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partial {
    /// A sum of products times 2^(`exponent` - 50).
    Sum {
        /// Exponent, a multiple of 4 below 60.
        exponent: u32,
        /// The sum.
        mantissa: i64,
    },
    /// A NaN with the sign and fraction of an operand.
    Nan {
        /// Sign and fraction: 11 bits.
        payload: u16,
    },
}

/// The payload of the first NaN of the weights, otherwise of the data.
pub fn first_nan(weights: &[u16], data: &[u16]) -> Option<u16> {
    let nan = weights.iter().chain(data).copied().find(|&bits| is_nan(bits))?;
    Some(nan >> 5 & 0x400 | nan & 0x3ff)
}

/// The largest exponent of a step's products, and the products shifted to it.
pub fn products<const N: usize>(weights: &[u16; N], data: &[u16; N]) -> (u32, [i32; N]) {
    let pairs = || weights.iter().zip(data).map(|(&w, &d)| (w, d, !is_zero(w) && !is_zero(d)));
    let largest = pairs().filter(|pair| pair.2).map(|(w, d, _)| split(w).1 + split(d).1).max().unwrap_or(0);
    let mut products = [0; N];
    for (product_out, (w, d, counts)) in products.iter_mut().zip(pairs()) {
        if counts {
            let ((wm, we), (dm, de)) = (split(w), split(d));
            *product_out = product((w ^ d) >> 15 != 0, wm, dm, 4 * (largest - we - de));
        }
    }
    (4 * largest, products)
}

/// One step of direct convolution.
pub fn step<const N: usize>(weights: &[u16; N], data: &[u16; N]) -> Partial {
    if let Some(payload) = first_nan(weights, data) {
        return Partial::Nan { payload };
    }
    let (exponent, products) = products(weights, data);
    Partial::Sum { exponent, mantissa: products.iter().map(|&product| i64::from(product)).sum() }
}

/// CACC's accumulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accumulator {
    /// 8 bits. 255 marks a NaN.
    exponent: u32,
    /// 40 bits, sign extended.
    mantissa: i64,
}

/// The low 40 bits, sign extended.
const fn wrap(value: i64) -> i64 {
    value << (64 - MANTISSA) >> (64 - MANTISSA)
}

/// The distance by which a two's complement number of `width` bits can shift left before its sign changes.
const fn redundant(value: i64, width: u32) -> u32 {
    // For 0 and -1 the result is one larger, as in hardware.
    let magnitude = (value ^ (value >> 63)) as u64;
    magnitude.leading_zeros() - (64 - width) - 1
}

impl Accumulator {
    /// Adds a step.
    pub fn add(&mut self, partial: Partial) {
        let (exponent, mantissa) = match partial {
            Partial::Sum { mantissa: 0, .. } => return,
            _ if self.exponent == 255 => {
                self.mantissa &= -1 << (MANTISSA - 11);
                return;
            }
            Partial::Nan { payload } => {
                let payload = wrap(i64::from(payload) << (MANTISSA - 11));
                *self = Self { exponent: 255, mantissa: payload };
                return;
            }
            Partial::Sum { exponent, mantissa } => (exponent, mantissa),
        };
        let shift = redundant(mantissa, 38);
        let mac = wrap(mantissa << shift << 2);
        let mac_exponent = exponent + 49 - shift;
        let accumulator_exponent = if self.mantissa == 0 { 0 } else { self.exponent };

        // Shift both to the larger exponent. The bits that are shifted out decide the rounding.
        let larger = mac_exponent.max(accumulator_exponent);
        let align = |mantissa: i64, exponent: u32| match larger - exponent {
            0 => (mantissa, 0),
            distance @ 1..=40 => (mantissa >> distance, (mantissa as u64) << (64 - distance) >> (64 - MANTISSA)),
            _ => (0, 0),
        };
        let (mac, mac_lost) = align(mac, mac_exponent);
        let (own, own_lost) = align(self.mantissa, accumulator_exponent);
        let mut lost = mac_lost | own_lost;
        let exact = mac + own;

        let (sum, guard, sticky, expo);
        if exact == wrap(exact) {
            let shift = redundant(exact, MANTISSA);
            sum = wrap(exact << shift | (lost >> (MANTISSA - shift)) as i64);
            lost = (lost << shift) & ((1 << MANTISSA) - 1);
            guard = lost >> (MANTISSA - 1) != 0;
            sticky = lost << (64 - MANTISSA + 1) != 0;
            expo = i64::from(larger) - i64::from(shift);
        } else {
            sum = exact >> 1;
            guard = exact & 1 != 0;
            sticky = lost != 0;
            expo = i64::from(larger) + 1;
        }
        let up = guard && (sum >= 0 || sticky);
        let rounded = sum + i64::from(up);
        let (mantissa, expo) = if rounded == wrap(rounded) && (rounded < 0) == (sum < 0) {
            (rounded, expo)
        } else {
            overflow(sum, rounded, expo)
        };
        self.mantissa = mantissa;
        self.exponent = if mantissa == 0 { 0 } else { (expo & 0xff) as u32 };
    }

    /// The fp32 that CACC delivers, rounded half away from zero.
    pub const fn to_fp32(self) -> u32 {
        let sign = (self.mantissa < 0) as u32;
        if self.exponent == 255 {
            let fraction = (self.mantissa >> (MANTISSA - 11)) as u32 & 0x3ff;
            return sign << 31 | 0xff << 23 | fraction;
        }
        if self.mantissa == -1 << (MANTISSA - 1) {
            return 1 << 31 | ((self.exponent + 65) & 0xff) << 23;
        }
        let magnitude = self.mantissa.unsigned_abs();
        let mut expo = if magnitude == 0 { 0 } else { self.exponent + 64 };
        let mut fraction = (magnitude >> 15) as u32;
        if magnitude >> 14 & 1 != 0 {
            fraction += 1;
            if fraction >> 24 != 0 {
                fraction >>= 1;
                expo += 1;
            }
        }
        sign << 31 | (expo & 0xff) << 23 | fraction & 0x7f_ffff
    }
}

/// `N` accumulators, for vectorised loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accumulators<const N: usize> {
    exponents: [i64; N],
    mantissas: [i64; N],
}

impl<const N: usize> Accumulators<N> {
    /// Zeros.
    pub const ZERO: Self = Self { exponents: [0; N], mantissas: [0; N] };

    /// Returns one accumulator.
    pub const fn get(&self, index: usize) -> Accumulator {
        Accumulator { exponent: self.exponents[index] as u32, mantissa: self.mantissas[index] }
    }

    /// Adds a step to one accumulator.
    pub fn add(&mut self, index: usize, partial: Partial) {
        let mut one = self.get(index);
        one.add(partial);
        (self.exponents[index], self.mantissas[index]) = (i64::from(one.exponent), one.mantissa);
    }

    /// Adds a step's sums to at least the first `count` accumulators. `quarters` are the exponents divided by 4.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub fn add_first(&mut self, quarters: &[i8; N], sums: &[i64; N], count: usize) {
        const GROUP: usize = 16;
        for first in (0..count.min(N)).step_by(GROUP) {
            for i in first..N.min(first + GROUP) {
                let (exponent, own, sum) = (4 * i64::from(quarters[i]), self.mantissas[i], sums[i]);
                (self.exponents[i], self.mantissas[i]) = add_lane(self.exponents[i], own, exponent, sum);
            }
        }
    }

    /// [`Accumulator::to_fp32`] of all accumulators.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub fn to_fp32(&self) -> [u32; N] {
        let mut out = [0; N];
        for (out, (&exponent, &mantissa)) in out.iter_mut().zip(self.exponents.iter().zip(&self.mantissas)) {
            *out = fp32_lane(exponent, mantissa);
        }
        out
    }
}

/// [`Accumulator::to_fp32`] without branches, for vectorised loops.
#[inline(always)]
#[allow(clippy::inline_always)]
const fn fp32_lane(exponent: i64, mantissa: i64) -> u32 {
    let magnitude = mantissa.unsigned_abs();
    let fraction = (magnitude >> 15) + (magnitude >> 14 & 1);
    // The magnitude has 25 bits if it is the smallest mantissa's, or if rounding carried.
    let carry = fraction >> 24;
    let expo = if magnitude == 0 { 0 } else { exponent as u64 + 64 };
    let number = ((expo + carry) & 0xff) << 23 | (fraction >> carry) & 0x7f_ffff;
    let nan = 0xff << 23 | (mantissa >> (MANTISSA - 11)) as u64 & 0x3ff;
    let sign = (mantissa as u64) >> 63 << 31;
    (sign | if exponent == 255 { nan } else { number }) as u32
}

/// [`Accumulator::add`] of a sum without branches, for vectorised loops.
#[inline(always)]
#[allow(clippy::inline_always, clippy::needless_bitwise_bool)]
const fn add_lane(own_exponent: i64, own_mantissa: i64, exponent: i64, mantissa: i64) -> (i64, i64) {
    const MASK: i64 = (1 << MANTISSA) - 1;
    // Shift distances are masked, so that lanes whose values are not used compute a defined value.
    let room = ((mantissa ^ (mantissa >> 63)) as u64).leading_zeros() as i64 - 27;
    let mac = wrap(mantissa << ((room + 2) & 63));
    let mac_exponent = exponent + 49 - room;
    let accumulator_exponent = if own_mantissa == 0 { 0 } else { own_exponent };
    let larger = if mac_exponent > accumulator_exponent { mac_exponent } else { accumulator_exponent };
    // One of the two is already at the larger exponent.
    let distance = (larger - mac_exponent) | (larger - accumulator_exponent);
    let moves_mac = mac_exponent < larger;
    let (stays, moves) = if moves_mac { (own_mantissa, mac) } else { (mac, own_mantissa) };
    let near = distance <= 40;
    let moved = if near { moves >> (distance & 63) } else { 0 };
    let lost = if near && distance != 0 { ((moves as u64) << ((64 - distance) & 63) >> 24) as i64 } else { 0 };
    let exact = stays + moved;
    let fits = exact == wrap(exact);

    let shift = ((exact ^ (exact >> 63)) as u64).leading_zeros() as i64 - 25;
    let normal = wrap(exact << (shift & 63) | (lost as u64 >> ((40 - shift) & 63)) as i64);
    let left = (lost << (shift & 63)) & MASK;
    let (sum, guard, sticky, expo) = if fits {
        (normal, left >> 39 != 0, left & (MASK >> 1) != 0, larger - shift)
    } else {
        (exact >> 1, exact & 1 != 0, lost != 0, larger + 1)
    };
    let up = guard & (sticky | (sum >= 0));
    let rounded = sum + up as i64;
    let carried = rounded != wrap(rounded) || (rounded < 0) != (sum < 0);
    let sign = if sum < 0 { 1 << (MANTISSA - 1) } else { 0 };
    let halved = wrap(sign | (rounded & MASK) >> 1);
    let result = if carried { halved } else { rounded };
    let expo = if carried { expo + 1 } else { expo } & 0xff;
    let expo = if result == 0 { 0 } else { expo };
    if mantissa == 0 {
        (own_exponent, own_mantissa)
    } else if own_exponent == 255 {
        (own_exponent, own_mantissa & (-1 << (MANTISSA - 11)))
    } else {
        (expo, result)
    }
}

/// Shifts right by one more bit if rounding carried into the sign.
const fn overflow(sum: i64, rounded: i64, expo: i64) -> (i64, i64) {
    let wrapped = wrap(rounded) as u64 & ((1 << MANTISSA) - 1);
    let sign = ((sum < 0) as u64) << (MANTISSA - 1);
    (wrap((sign | wrapped >> 1) as i64), expo + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_without_shift_is_exact() {
        for weight in (0..0x4000).step_by(37) {
            for data in (0..0x4000).step_by(41) {
                for negative in [false, true] {
                    let plain = (weight * data) as i32;
                    assert_eq!(product(negative, weight, data, 0), if negative { -plain } else { plain });
                }
            }
        }
    }

    #[test]
    fn booth_without_branches_is_the_same() {
        for weight in (0..0x4000).step_by(7) {
            for data in (0..0x4000).step_by(131) {
                for negative in [false, true] {
                    assert_eq!(booth_lane(negative, weight, data), booth(negative, weight, data));
                }
            }
        }
    }

    #[test]
    fn a_shifted_product_is_at_most_one_below() {
        let mut below = 0;
        for weight in (0x400..0x4000).step_by(61) {
            for data in (0x400..0x4000).step_by(53) {
                for shift in (0..32).step_by(4) {
                    for negative in [false, true] {
                        let plain = (weight * data) as i32;
                        let floor = if negative { -plain >> shift } else { plain >> shift };
                        let got = product(negative, weight, data, shift);
                        assert!((floor - got).abs() <= 1, "{weight} * {data} >> {shift}: {got}, {floor}");
                        below += u32::from(got != floor);
                    }
                }
            }
        }
        assert!(below > 0);
    }

    #[test]
    fn a_sum_of_small_integers_is_exact() {
        // 1 + 2 + … + 64, one product per lane, and its negative.
        let one = 0x3c00;
        let fp16 = |value: u16| crate::num::convert::i16_to_fp16(value as i16);
        let mut accumulator = Accumulator::default();
        let weights: [u16; 64] = std::array::from_fn(|lane| fp16(lane as u16 + 1));
        accumulator.add(step(&weights, &[one; 64]));
        assert_eq!(accumulator.to_fp32(), 2080f32.to_bits());
        accumulator.add(step(&weights.map(|bits| bits | 0x8000), &[one; 64]));
        accumulator.add(step(&weights.map(|bits| bits | 0x8000), &[one; 64]));
        assert_eq!(accumulator.to_fp32(), (-2080f32).to_bits());
    }

    #[test]
    fn accumulators_side_by_side_are_the_same() {
        let mut seed = 7u64;
        let mut next = || {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            seed >> 20
        };
        for _ in 0..2000 {
            let mut alone = [Accumulator::default(); 8];
            let mut together = Accumulators::<8>::ZERO;
            for _ in 0..12 {
                let quarters: [i8; 8] = std::array::from_fn(|_| (next() % 15) as i8);
                // Sums of all lengths and both signs, and sums that cancel.
                let sums: [i64; 8] = std::array::from_fn(|i| match next() % 8 {
                    0 => 0,
                    1 => -(alone[i].mantissa >> 3),
                    _ => ((next() as i64 & 0xf_ffff_ffff) - 0x8_0000_0000) >> (next() % 36),
                });
                for (alone, (sum, quarter)) in alone.iter_mut().zip(sums.iter().zip(quarters)) {
                    alone.add(Partial::Sum { exponent: 4 * quarter as u32, mantissa: *sum });
                }
                together.add_first(&quarters, &sums, 8);
                for (i, alone) in alone.iter().enumerate() {
                    assert_eq!(together.get(i), *alone, "{quarters:?} {sums:?}");
                }
                assert_eq!(together.to_fp32(), alone.map(Accumulator::to_fp32));
            }
        }
    }

    #[test]
    fn extreme_values_convert_as_single_accumulators_do() {
        let mantissas =
            [0, 1, -1, (1 << 39) - 1, -1 << 39, 1 - (1 << 39), (1 << 39) - (1 << 14), (1 << 38) + (1 << 14)];
        for exponent in [0, 1, 190, 191, 254, 255] {
            let all = Accumulators::<8> { exponents: [exponent; 8], mantissas };
            let each = mantissas.map(|mantissa| Accumulator { exponent: exponent as u32, mantissa }.to_fp32());
            assert_eq!(all.to_fp32(), each, "{exponent}");
        }
    }

    #[test]
    fn a_nan_goes_through_with_its_payload() {
        let mut weights = [0u16; 64];
        let mut data = [0u16; 64];
        data[7] = 0xfe01;
        let mut accumulator = Accumulator::default();
        accumulator.add(step(&weights, &data));
        assert_eq!(accumulator.to_fp32(), 0xff80_0201);
        weights[3] = 0x7c03;
        let mut accumulator = Accumulator::default();
        accumulator.add(step(&weights, &data));
        assert_eq!(accumulator.to_fp32(), 0x7f80_0003);
    }
}
