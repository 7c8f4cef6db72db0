// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16 operands in the form of the inner loops, split into significand and exponent.

// Only code that is inlined into a loop is compiled for the loop's instruction set.
#![allow(clippy::inline_always)]

use super::super::super::fp16;
use super::tables::place;

/// Kernels per panel.
pub const KERNELS: usize = 64;
/// The exponent of a zero, far below the exponent of any product that affects a sum.
pub const ZERO: i8 = -64;

/// The weights of a panel's kernels for one channel at one position.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Lane {
    /// Signed significands, shifted by the low bits of the exponent.
    pub significand: [i16; KERNELS],
    /// High bits of the exponents, [`ZERO`] for zeros.
    pub exponent: [i8; KERNELS],
    /// Byte in the tables' rows.
    pub byte: [u8; KERNELS],
    /// Bit in that byte, as a mask.
    pub bit: [u8; KERNELS],
}

impl Lane {
    /// A lane in which all weights are zero.
    pub const EMPTY: Self =
        Self { significand: [0; KERNELS], exponent: [ZERO; KERNELS], byte: [0; KERNELS], bit: [1; KERNELS] };

    /// Sets the weights of all kernels, without a branch.
    #[inline(always)]
    pub fn set_all(&mut self, weights: &[u16; KERNELS]) {
        for (kernel, &bits) in weights.iter().enumerate() {
            let (signed, exponent) = signed_lane(bits);
            let significand = signed.unsigned_abs();
            self.significand[kernel] = signed;
            self.exponent[kernel] = exponent;
            self.byte[kernel] = (significand >> 3 & 31) as u8 | ((signed < 0) as u8) << 5;
            self.bit[kernel] = (1u16 << (significand & 7)) as u8;
        }
    }

    /// Sets a kernel's weight.
    pub fn set(&mut self, kernel: usize, bits: u16) {
        let (significand, exponent) = signed(bits);
        self.significand[kernel] = significand;
        self.exponent[kernel] = exponent;
        (self.byte[kernel], self.bit[kernel]) = place(significand);
    }
}

/// Splits an operand into signed significand and exponent.
pub const fn signed(bits: u16) -> (i16, i8) {
    let (significand, exponent) = fp16::split(bits);
    if significand == 0 {
        return (0, ZERO);
    }
    let significand = significand as i16;
    (if bits >> 15 != 0 { -significand } else { significand }, exponent as i8)
}

/// [`signed`] without a branch, for vectorised loops.
#[inline(always)]
pub const fn signed_lane(bits: u16) -> (i16, i8) {
    let (expo, fraction) = (bits >> 10 & 0x1f, bits & 0x3ff);
    let significand = if expo == 0 { fraction << 1 } else { (fraction | 0x400) << (expo & 3) } as i16;
    let exponent = if significand == 0 { ZERO } else { (expo >> 2) as i8 };
    (if bits >> 15 == 0 { significand } else { -significand }, exponent)
}

/// A datum of the copied input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datum {
    /// Signed significand.
    pub significand: i16,
    /// High bits of the exponent, [`ZERO`] for zeros.
    pub exponent: i8,
    /// Whether it is a NaN.
    pub nan: bool,
}

impl Datum {
    /// Splits an fp16 value.
    pub const fn new(bits: u16) -> Self {
        let (significand, exponent) = signed(bits);
        Self { significand, exponent, nan: fp16::is_nan(bits) }
    }
}

/// The nonzero data of every pixel and block of channels. All kernels and taps use the same lists.
#[derive(Debug, Default)]
pub struct Lists {
    active: Vec<Active>,
    /// The start of each list, pixel by pixel, and the end of the last one.
    starts: Vec<usize>,
    /// Whether each list has a NaN.
    nan: Vec<bool>,
    blocks: usize,
}

impl Lists {
    /// Fills the lists from pixels of `channels` channels, in blocks of `block`.
    pub fn fill(&mut self, data: &[Datum], channels: usize, block: usize) {
        let Self { active, starts, nan, blocks } = self;
        *blocks = channels.div_ceil(block);
        if active.len() <= data.len() {
            active.resize(data.len() + 1, Active { lane: 0, significand: 0, exponent: 0 });
        }
        starts.clear();
        nan.clear();
        let mut count = 0;
        starts.push(count);
        for pixel in data.chunks_exact(channels) {
            for block in pixel.chunks(block) {
                let mut any_nan = false;
                for (lane, &Datum { significand, exponent, nan }) in block.iter().enumerate() {
                    any_nan |= nan;
                    // Always written, and overwritten by the next datum if it is zero.
                    active[count] = Active { lane: lane as u32, significand, exponent };
                    count += usize::from(significand != 0);
                }
                starts.push(count);
                nan.push(any_nan);
            }
        }
    }

    /// The nonzero data of a pixel's block, and whether the block has a NaN.
    #[inline]
    pub fn get(&self, pixel: usize, block: usize) -> (&[Active], bool) {
        let at = pixel * self.blocks + block;
        (&self.active[self.starts[at]..self.starts[at + 1]], self.nan[at])
    }
}

/// A nonzero datum, and the lane with its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// Index of the [`Lane`].
    pub lane: u32,
    /// Signed significand.
    pub significand: i16,
    /// High bits of the exponent.
    pub exponent: i8,
}

impl Active {
    /// Row of the tables for a shift by 4.
    pub const fn row_4(self) -> usize {
        (self.significand.unsigned_abs() & 15) as usize | ((self.significand < 0) as usize) << 4
    }

    /// Row of the tables for a shift by 8.
    pub const fn row_8(self) -> usize {
        (self.significand.unsigned_abs() & 255) as usize | ((self.significand < 0) as usize) << 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_weights_at_once_are_each_weight() {
        for first in (0..=u16::MAX).step_by(KERNELS) {
            let weights: [u16; KERNELS] = std::array::from_fn(|kernel| first + kernel as u16);
            let (mut all, mut each) = (Lane::EMPTY, Lane::EMPTY);
            all.set_all(&weights);
            for (kernel, &bits) in weights.iter().enumerate() {
                each.set(kernel, bits);
            }
            assert_eq!((all.significand, all.exponent), (each.significand, each.exponent), "{first:#x}");
            assert_eq!((all.byte, all.bit), (each.byte, each.bit), "{first:#x}");
        }
    }
}
