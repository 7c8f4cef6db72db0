// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16 operands as the inner loops take them: taken apart into significand and exponent once.

use super::super::super::half;
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
    let (significand, exponent) = half::split(bits);
    if significand == 0 {
        return (0, ZERO);
    }
    let significand = significand as i16;
    (if bits >> 15 != 0 { -significand } else { significand }, exponent as i8)
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
        Self { significand, exponent, nan: half::is_nan(bits) }
    }
}

/// A datum that is not zero, and the lane of the panel that it meets.
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
