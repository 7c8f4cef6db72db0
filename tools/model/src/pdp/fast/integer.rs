// SPDX-License-Identifier: MIT OR Apache-2.0

//! Averages of int8 and int16.

#[cfg(target_arch = "x86_64")]
use super::avx512::sums;
use super::factors::{Average, Factors};
use super::lines::{LineBuffers, Lines, OutputLine};
use super::portable::{Method, Portable};
use crate::memory::Stop;
use crate::pdp::setup::{Part, Setup};
use nvdla_uapi::isa::Isa;

/// The average of int8, summed in 16 bits.
pub(super) struct Average8 {
    factors: Factors,
    /// Both factors, where they are at most one.
    narrow: Option<[u32; 2]>,
}

impl Average8 {
    pub(super) fn new(setup: &Setup, part: &Part) -> Self {
        let factors = Factors::new(setup, part);
        let narrow = [factors.width, factors.height];
        Self { narrow: narrow.iter().all(|&factor| factor <= 1 << 16).then_some(narrow), factors }
    }
}

impl Average for Average8 {
    const SHORT: bool = false;
    fn factors(&self) -> &Factors {
        &self.factors
    }
}

/// `value * factor / 2^16`, rounded half away from zero. The factor and all intermediate values have 16 bits.
#[inline(always)]
fn scale16(value: i16, factor: u16) -> i16 {
    // The high and low halves separately, as vector instructions return them.
    let magnitude = value.unsigned_abs();
    let high = ((u32::from(magnitude) * u32::from(factor)) >> 16) as u16;
    let rounded = high.wrapping_add(magnitude.wrapping_mul(factor) >> 15);
    if value < 0 {
        rounded.wrapping_neg() as i16
    } else {
        rounded as i16
    }
}

impl Method for Average8 {
    type Element = [u8; 1];
    type Value = i16;

    #[inline(always)]
    fn load(&self, element: [u8; 1]) -> i16 {
        i8::from_le_bytes(element).into()
    }
    #[inline(always)]
    fn along(&self, row: i16, next: i16) -> i16 {
        row.wrapping_add(next)
    }
    #[inline(always)]
    fn pad_row(&self, row: i16, padded: usize) -> i16 {
        row.wrapping_add(self.factors.columns[padded] as i16)
    }
    #[inline(always)]
    fn store(&self, sum: i16, padded: usize) -> [u8; 1] {
        let sum = i32::from(sum.wrapping_add(self.factors.lines[padded] as i16));
        [self.factors.apply(sum) as u8]
    }
    #[inline(always)]
    fn store_line(&self, sums: &[i16], padded: usize, line: &mut [[u8; 1]]) {
        let lines = self.factors.lines[padded] as i16;
        match self.narrow.map(|factors| factors.map(u16::try_from)) {
            Some([Ok(width), Ok(height)]) => {
                for ([byte], &sum) in line.iter_mut().zip(sums) {
                    *byte = scale16(scale16(sum.wrapping_add(lines), width), height) as u8;
                }
            }
            // A factor of one.
            Some([Ok(factor), _] | [_, Ok(factor)]) => {
                for ([byte], &sum) in line.iter_mut().zip(sums) {
                    *byte = scale16(sum.wrapping_add(lines), factor) as u8;
                }
            }
            _ => {
                for ([byte], &sum) in line.iter_mut().zip(sums) {
                    *byte = self.factors.apply(i32::from(sum.wrapping_add(lines))) as u8;
                }
            }
        }
    }
}

/// The average of int16.
pub(super) struct Average16 {
    factors: Factors,
}

impl Average16 {
    pub(super) fn new(setup: &Setup, part: &Part) -> Self {
        Self { factors: Factors::new(setup, part) }
    }
}

impl Average for Average16 {
    const SHORT: bool = true;
    fn factors(&self) -> &Factors {
        &self.factors
    }
}

impl Method for Average16 {
    type Element = [u8; 2];
    type Value = i32;

    #[inline(always)]
    fn load(&self, element: [u8; 2]) -> i32 {
        i16::from_le_bytes(element).into()
    }
    #[inline(always)]
    fn along(&self, row: i32, next: i32) -> i32 {
        row.wrapping_add(next)
    }
    #[inline(always)]
    fn pad_row(&self, row: i32, padded: usize) -> i32 {
        row.wrapping_add(self.factors.columns[padded])
    }
    #[inline(always)]
    fn store(&self, sum: i32, padded: usize) -> [u8; 2] {
        let sum = sum.wrapping_add(self.factors.lines[padded]);
        (self.factors.apply(sum) as i16).to_le_bytes()
    }
}

/// An average of integers in atoms of 32 bytes.
pub(super) struct Integer<M, const LANES: usize> {
    portable: Portable<M, LANES>,
    /// The scaling of [`sums`], if it supports the factors and the machine has its instructions.
    #[cfg(target_arch = "x86_64")]
    scaling: Option<sums::Scaling>,
}

impl<M: Average, const LANES: usize> Integer<M, LANES> {
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))] // only its vector code asks
    pub(super) fn new(isa: Isa, portable: Portable<M, LANES>) -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            scaling: if isa.has_avx512() { sums::Scaling::new::<M>(portable.0.factors()) } else { None },
            portable,
        }
    }
}

impl<M: Average, const LANES: usize> Lines for Integer<M, LANES> {
    const PARALLEL: usize = <Portable<M, LANES> as Lines>::PARALLEL;

    fn line(&self, buffers: &mut LineBuffers, at: OutputLine<'_>, line: &mut [u8]) -> Result<usize, Stop> {
        #[cfg(target_arch = "x86_64")]
        if let Some(scaling) = self.scaling {
            sums::make::<M>(self.portable.0.factors(), scaling, &mut buffers.first, at, line)?;
            return Ok(0);
        }
        self.portable.line(buffers, at, line)
    }
}
