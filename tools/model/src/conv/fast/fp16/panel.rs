// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16 operands as the inner loops take them: split into significand and exponent once.

// A loop is compiled for an instruction set only with what is inlined into it.
#![allow(clippy::inline_always)]

use super::super::super::fp16;
use super::tables::place;

/// Kernels of a panel.
pub const KERNELS: usize = 64;
/// The exponent of a zero: far below that of any product that counts.
pub const ZERO: i8 = -64;

/// The weights of a panel's kernels for one channel at one position.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Lane {
    /// Signed significands, shifted by the low bits of the exponent.
    pub significand: [i16; KERNELS],
    /// High bits of the exponents; [`ZERO`] of zeros.
    pub exponent: [i8; KERNELS],
    /// Byte of the tables' rows.
    pub byte: [u8; KERNELS],
    /// Bit of that byte.
    pub bit: [u8; KERNELS],
}

impl Lane {
    /// No kernel has a weight here.
    pub const EMPTY: Self =
        Self { significand: [0; KERNELS], exponent: [ZERO; KERNELS], byte: [0; KERNELS], bit: [1; KERNELS] };

    /// Sets all kernels' weights, without a branch.
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

/// Signed significand and exponent of an operand.
pub const fn signed(bits: u16) -> (i16, i8) {
    let (significand, exponent) = fp16::split(bits);
    if significand == 0 {
        return (0, ZERO);
    }
    let significand = significand as i16;
    (if bits >> 15 != 0 { -significand } else { significand }, exponent as i8)
}

/// [`signed`] without a branch, for loops over lanes.
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
    /// High bits of the exponent; [`ZERO`] of zeros.
    pub exponent: i8,
    /// It is a NaN.
    pub nan: bool,
}

impl Datum {
    /// Takes an fp16 apart.
    pub const fn new(bits: u16) -> Self {
        let (significand, exponent) = signed(bits);
        Self { significand, exponent, nan: fp16::is_nan(bits) }
    }
}

/// For every pixel and block of channels the data that are not zero. All kernels and taps use them.
#[derive(Debug, Default)]
pub struct Lists {
    active: Vec<Active>,
    /// Where each list starts, pixel by pixel, and where the last one ends.
    starts: Vec<usize>,
    /// Whether it has a NaN.
    nan: Vec<bool>,
    blocks: usize,
}

impl Lists {
    /// Becomes the lists of pixels of that many channels, in blocks of `block`.
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
                    // Written in any case, kept where it is not zero.
                    active[count] = Active { lane: lane as u32, significand, exponent };
                    count += usize::from(significand != 0);
                }
                starts.push(count);
                nan.push(any_nan);
            }
        }
    }

    /// A pixel's data of a block, and whether one is a NaN.
    #[inline]
    pub fn get(&self, pixel: usize, block: usize) -> (&[Active], bool) {
        let at = pixel * self.blocks + block;
        (&self.active[self.starts[at]..self.starts[at + 1]], self.nan[at])
    }
}

/// A datum that is not zero, and the lane of the panel with its weights.
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
