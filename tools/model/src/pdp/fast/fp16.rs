// SPDX-License-Identifier: MIT OR Apache-2.0

//! The average of fp16.

#[cfg(target_arch = "x86_64")]
use super::avx512::fp16::Avx512Pooling;
use super::lines::{LineBuffers, Lines, OutputLine, PooledPart};
use super::portable::{Method, Portable};
use crate::memory::Stop;
use crate::num::Fp17;
use crate::pdp::reference::{self, KERNEL_WIDTHS};
use crate::pdp::setup::{nans, Part, Setup, KERNEL_MAX};

/// The average of fp16. Lines that the fast method cannot compute are computed again by a slower one.
pub(super) struct Fp16Average {
    /// The method for lines whose numbers are all ordinary.
    #[cfg(target_arch = "x86_64")]
    pooling: Option<Avx512Pooling>,
    /// The method for lines without NaNs.
    portable: Portable<Average, 16>,
}

impl Fp16Average {
    /// `None` if a register holds a number that only [`Fp17`] can represent (its exponent is all zeros or all ones).
    pub(super) fn new(setup: &Setup, part: &Part) -> Option<Self> {
        let average = Average::new(setup, part)?;
        #[cfg(target_arch = "x86_64")]
        let pooling = {
            let Average { flush, columns, lines, width, height } = average;
            let pooling = || Avx512Pooling::new(flush, columns, lines, [width, height]);
            setup.isa.has_avx512().then(pooling).flatten()
        };
        Some(Self {
            #[cfg(target_arch = "x86_64")]
            pooling,
            portable: Portable(average),
        })
    }
}

impl Lines for Fp16Average {
    const PARALLEL: usize = if cfg!(test) { 1 << 8 } else { 1 << 18 };

    fn line(&self, buffers: &mut LineBuffers, at: OutputLine<'_>, line: &mut [u8]) -> Result<usize, Stop> {
        #[cfg(target_arch = "x86_64")]
        if let Some(pooling) = &self.pooling {
            if pooling.make(&mut buffers.first, at, line)? {
                return Ok(0);
            }
        }
        if self.portable.make(&mut buffers.second, at, line)? <= INFINITE || self.portable.0.flush {
            return Ok(0);
        }
        let PooledPart { setup, part, source } = at.task;
        line.copy_from_slice(&reference::pool_line(setup, part, source, at.memory, [at.surface, at.y])?);
        Ok(nans(line))
    }
}

/// The average of fp16, summed in fp17; the input has no NaN.
///
/// An fp17 has 11 significant bits and every sum or product of two is rounded once: single precision, which has more
/// than twice as many, gives the same after rounding again.
struct Average {
    flush: bool,
    columns: [f32; KERNEL_MAX],
    lines: [f32; KERNEL_MAX],
    width: f32,
    height: f32,
}

impl Average {
    /// `None` if a register holds a number that only [`Fp17`] can represent (its exponent is all zeros or all ones).
    fn new(setup: &Setup, part: &Part) -> Option<Self> {
        let columns: [u32; KERNEL_MAX] = std::array::from_fn(|count| setup.pad_fp17(count));
        let lines = columns.map(|value| Fp17::mul(value, KERNEL_WIDTHS[part.axis.kernel]));
        let factors = [setup.recip_width & 0x1_ffff, setup.recip_height & 0x1_ffff];
        let ordinary =
            |&bits: &u32| Fp17::is_zero(bits) || (Fp17::expo(bits) != 0 && Fp17::expo(bits) != Fp17::EXPO_MAX);
        let all = columns.iter().chain(&lines).chain(&factors).all(ordinary);
        all.then(|| Self {
            flush: setup.flush_nan,
            columns: columns.map(single),
            lines: lines.map(single),
            width: single(factors[0]),
            height: single(factors[1]),
        })
    }
}

/// An fp16's infinity; greater bit patterns are NaNs.
const INFINITE: u16 = 0x7c00;
/// The bits of fp17's largest and smallest normal numbers as singles.
const LARGEST: u32 = (158 << 23) | (0x3ff << 13);
const SMALLEST: u32 = 97 << 23;

/// The fp17 as a single.
fn single(bits: u32) -> f32 {
    let magnitude = bits & 0xffff;
    let wide = if magnitude == 0 { 0 } else { (magnitude << 13) + (96 << 23) };
    f32::from_bits(wide | (bits >> 16) << 31)
}

/// The single with the bits of the result's magnitude rounded to fp17 and its sign.
#[inline(always)]
fn rounded(value: f32) -> u32 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let magnitude = (magnitude + 0xfff + ((magnitude >> 13) & 1)) & !0x1fff;
    let magnitude = if magnitude > LARGEST { LARGEST } else { magnitude };
    let magnitude = if magnitude < SMALLEST { 0 } else { magnitude };
    magnitude | (bits & 0x8000_0000)
}

/// `a + b`; an exact sum of zero has the sign of `a`.
#[inline(always)]
fn add(a: f32, b: f32) -> f32 {
    let sum = a + b;
    let bits = rounded(sum);
    f32::from_bits(if sum == 0.0 { a.to_bits() & 0x8000_0000 } else { bits })
}

#[inline(always)]
fn multiply(a: f32, b: f32) -> f32 {
    f32::from_bits(rounded(a * b))
}

/// An fp16 that is no NaN, infinity being the largest fp17.
#[inline(always)]
fn widen(half: u16) -> f32 {
    let magnitude = u32::from(half & 0x7fff);
    // The exponent is 112 too small, also for denormals.
    let value = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
    let bits = if magnitude == 0x7c00 { LARGEST } else { value.to_bits() };
    f32::from_bits(bits | u32::from(half >> 15) << 31)
}

/// To fp16, limited to its largest number; the value has no more significant bits than that.
#[inline(always)]
fn narrow(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal = magnitude.wrapping_sub(112 << 23) >> 13;
    // Adding one half leaves a denormal's rounded mantissa in the low bits.
    let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let half = if magnitude < 113 << 23 { denormal } else { normal };
    let half = if magnitude >= 143 << 23 { 0x7bff } else { half };
    (half | (bits >> 31) << 15) as u16
}

impl Method for Average {
    type Element = [u8; 2];
    type Value = f32;

    #[inline(always)]
    fn load(&self, element: [u8; 2]) -> f32 {
        let half = u16::from_le_bytes(element);
        widen(if self.flush && half & 0x7fff > INFINITE { 0 } else { half })
    }
    #[inline(always)]
    fn mark(element: [u8; 2]) -> u16 {
        u16::from_le_bytes(element) & 0x7fff
    }
    #[inline(always)]
    fn along(&self, row: f32, next: f32) -> f32 {
        add(row, next)
    }
    #[inline(always)]
    fn pad_row(&self, row: f32, padded: usize) -> f32 {
        add(row, self.columns[padded])
    }
    #[inline(always)]
    fn down(&self, sum: f32, row: f32) -> f32 {
        add(row, sum)
    }
    #[inline(always)]
    fn store(&self, sum: f32, padded: usize) -> [u8; 2] {
        let sum = add(sum, self.lines[padded]);
        let result = narrow(multiply(multiply(sum, self.width), self.height));
        result.to_le_bytes()
    }
}
