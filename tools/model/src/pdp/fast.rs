// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP a line at a time, in loops that compile to vector instructions.
//!
//! Each input line is reduced along its windows once, into one of as many line buffers as the window has lines; an
//! output line then combines the buffers that its windows cover. One loop serves all methods and precisions
//! ([`Method`]); it is compiled once for AVX2 and once for what every processor has.

// A loop is compiled for an instruction set only with what is inlined into it.
#![allow(clippy::inline_always)]

use nvdla_uapi::reg::values::{PoolingMethod, Precision};

use super::reference::{self, KERNEL_WIDTHS};
use super::{Axis, Emit, Part, Setup, Source};
use crate::memory::{Memory, Stop};
use crate::num::convert::{fp16_to_fp17, fp17_to_fp16};
use crate::num::{Fp16, Fp17};

/// Pools one part.
pub(super) fn pool(
    setup: &Setup,
    part: &Part,
    source: &Source,
    memory: &mut dyn Memory,
    emit: &mut Emit,
) -> Result<(), Stop> {
    let mut job = Job { setup, part, source, memory, emit };
    match (setup.precision, setup.method) {
        (Precision::Int8, PoolingMethod::Max) => job.int8(&Extreme8::<true>),
        (Precision::Int8, PoolingMethod::Min) => job.int8(&Extreme8::<false>),
        (Precision::Int8, PoolingMethod::Average) => job.int8(&Average8::new(setup, part)),
        (Precision::Int16, PoolingMethod::Max) => job.run::<_, 16>(&Extreme16::<true>),
        (Precision::Int16, PoolingMethod::Min) => job.run::<_, 16>(&Extreme16::<false>),
        (Precision::Int16, PoolingMethod::Average) => job.run::<_, 16>(&Average16::new(setup, part)),
        (Precision::Fp16, PoolingMethod::Max) => job.run::<_, 16>(&ExtremeHalf::<true> { flush: setup.flush_nan }),
        (Precision::Fp16, PoolingMethod::Min) => job.run::<_, 16>(&ExtremeHalf::<false> { flush: setup.flush_nan }),
        (Precision::Fp16, PoolingMethod::Average) => match AverageHalf::new(setup, part) {
            Some(method) => job.run::<_, 16>(&method),
            None => reference::pool(setup, part, source, job.memory, job.emit),
        },
    }
}

/// A pooling method on one element.
trait Method {
    /// An element on its way through the window.
    type Value: Copy + Default;
    /// Bytes of an element in memory.
    const BYTES: usize;
    fn load(&self, bytes: &[u8]) -> Self::Value;
    /// Adds the next element of a row.
    fn along(&self, row: Self::Value, next: Self::Value) -> Self::Value;
    /// Ends a row of which `padded` columns lie outside.
    fn pad_row(&self, row: Self::Value, padded: usize) -> Self::Value;
    /// Adds the next row.
    fn down(&self, sum: Self::Value, row: Self::Value) -> Self::Value;
    /// Ends a window of which `padded` rows lie outside.
    fn store(&self, sum: Self::Value, padded: usize, bytes: &mut [u8]);
}

/// One part's work.
struct Job<'j, 'e> {
    setup: &'j Setup,
    part: &'j Part,
    source: &'j Source,
    memory: &'j mut dyn Memory,
    emit: &'j mut Emit<'e>,
}

impl Job<'_, '_> {
    fn int8<M: Method>(&mut self, method: &M) -> Result<(), Stop> {
        match self.setup.atom {
            8 => self.run::<M, 8>(method),
            16 => self.run::<M, 16>(method),
            _ => self.run::<M, 32>(method),
        }
    }

    fn run<M: Method, const LANES: usize>(&mut self, method: &M) -> Result<(), Stop> {
        let Axis { input, output, kernel, .. } = self.setup.vertical;
        debug_assert_eq!(LANES, self.setup.lanes());
        let columns = self.part.axis.output;
        // A row's result stays until the windows that cover it have passed: as many rows as a window has.
        let mut rows = vec![[M::Value::default(); LANES]; kernel.min(input) * columns];
        let slots = kernel.min(input);
        let mut line = vec![0; columns * self.setup.atom];
        for surface in 0..self.setup.surfaces {
            let mut next = 0;
            for y in 0..output {
                let (top, bottom) = self.setup.vertical.window(y);
                for row in top.max(next)..bottom {
                    let at = [surface, row, self.part.input, self.part.axis.input];
                    let bytes = self.source.line(self.memory, self.setup.atom, at)?;
                    along(method, &self.part.axis, bytes, &mut rows[row % slots * columns..][..columns]);
                }
                next = bottom;
                down(method, kernel - (bottom - top), &rows, top..bottom, slots, &mut line);
                (self.emit)(self.memory, surface, y, &line)?;
            }
        }
        Ok(())
    }
}

/// Calls `$body`, compiled for AVX2 where the processor has it.
macro_rules! widest {
    ($name:ident, $body:ident, <$($generic:ident $(: $bound:ident)?),*>, <const LANES>, ($($argument:ident: $type:ty),*)) => {
        fn $name<$($generic $(: $bound)?),*, const LANES: usize>($($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide<$($generic $(: $bound)?),*, const LANES: usize>($($argument: $type),*) {
                    $body::<$($generic),*, LANES>($($argument),*);
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2.
                    return unsafe { wide::<$($generic),*, LANES>($($argument),*) };
                }
            }
            $body::<$($generic),*, LANES>($($argument),*);
        }
    };
}

widest!(along, along_body, <M: Method>, <const LANES>, (method: &M, axis: &Axis, line: &[u8], row: &mut [[M::Value; LANES]]));
widest!(down, down_body, <M: Method>, <const LANES>, (method: &M, padded: usize, rows: &[[M::Value; LANES]], covered: std::ops::Range<usize>, slots: usize, line: &mut [u8]));

/// Reduces an input line along its windows.
#[inline(always)]
fn along_body<M: Method, const LANES: usize>(method: &M, axis: &Axis, line: &[u8], row: &mut [[M::Value; LANES]]) {
    let atom = LANES * M::BYTES;
    for (x, out) in row.iter_mut().enumerate() {
        let (left, right) = axis.window(x);
        let mut atoms = line[left * atom..right * atom].chunks_exact(atom);
        let Some(first) = atoms.next() else { continue };
        let mut value: [M::Value; LANES] = load(method, first);
        for next in atoms {
            let next: [M::Value; LANES] = load(method, next);
            for lane in 0..LANES {
                value[lane] = method.along(value[lane], next[lane]);
            }
        }
        let padded = axis.kernel - (right - left);
        for lane in 0..LANES {
            out[lane] = method.pad_row(value[lane], padded);
        }
    }
}

#[inline(always)]
fn load<M: Method, const LANES: usize>(method: &M, atom: &[u8]) -> [M::Value; LANES] {
    let mut values = [M::Value::default(); LANES];
    for (value, bytes) in values.iter_mut().zip(atom.chunks_exact(M::BYTES)) {
        *value = method.load(bytes);
    }
    values
}

/// Combines the rows that an output line's windows cover.
#[inline(always)]
fn down_body<M: Method, const LANES: usize>(
    method: &M,
    padded: usize,
    rows: &[[M::Value; LANES]],
    covered: std::ops::Range<usize>,
    slots: usize,
    line: &mut [u8],
) {
    let columns = rows.len() / slots;
    let atom = LANES * M::BYTES;
    for (x, out) in line.chunks_exact_mut(atom).enumerate() {
        let mut sum = rows[covered.start % slots * columns + x];
        for row in covered.start + 1..covered.end {
            let row = &rows[row % slots * columns + x];
            for lane in 0..LANES {
                sum[lane] = method.down(sum[lane], row[lane]);
            }
        }
        for (&sum, bytes) in sum.iter().zip(out.chunks_exact_mut(M::BYTES)) {
            method.store(sum, padded, bytes);
        }
    }
}

/// The largest (or smallest) int8.
struct Extreme8<const MAX: bool>;

impl<const MAX: bool> Method for Extreme8<MAX> {
    type Value = i8;
    const BYTES: usize = 1;

    #[inline(always)]
    fn load(&self, bytes: &[u8]) -> i8 {
        bytes[0] as i8
    }
    #[inline(always)]
    fn along(&self, row: i8, next: i8) -> i8 {
        if MAX {
            row.max(next)
        } else {
            row.min(next)
        }
    }
    #[inline(always)]
    fn pad_row(&self, row: i8, _: usize) -> i8 {
        row
    }
    #[inline(always)]
    fn down(&self, sum: i8, row: i8) -> i8 {
        self.along(sum, row)
    }
    #[inline(always)]
    fn store(&self, sum: i8, _: usize, bytes: &mut [u8]) {
        bytes[0] = sum as u8;
    }
}

/// The largest (or smallest) int16.
struct Extreme16<const MAX: bool>;

impl<const MAX: bool> Method for Extreme16<MAX> {
    type Value = i16;
    const BYTES: usize = 2;

    #[inline(always)]
    fn load(&self, bytes: &[u8]) -> i16 {
        i16::from_le_bytes([bytes[0], bytes[1]])
    }
    #[inline(always)]
    fn along(&self, row: i16, next: i16) -> i16 {
        if MAX {
            row.max(next)
        } else {
            row.min(next)
        }
    }
    #[inline(always)]
    fn pad_row(&self, row: i16, _: usize) -> i16 {
        row
    }
    #[inline(always)]
    fn down(&self, sum: i16, row: i16) -> i16 {
        self.along(sum, row)
    }
    #[inline(always)]
    fn store(&self, sum: i16, _: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&sum.to_le_bytes());
    }
}

/// The largest (or smallest) fp16.
struct ExtremeHalf<const MAX: bool> {
    flush: bool,
}

impl<const MAX: bool> ExtremeHalf<MAX> {
    /// The better of the two; a NaN is better than any number, and the first better than the second.
    #[inline(always)]
    fn better(a: u16, b: u16) -> u16 {
        // As integers that are ordered like the numbers.
        let order = |bits: u16| (bits ^ (((bits as i16) >> 15) as u16 & 0x7fff)) as i16;
        let nan = |bits: u16| bits & 0x7fff > 0x7c00;
        let second = if MAX { order(b) > order(a) } else { order(b) < order(a) };
        if !nan(a) & (nan(b) | second) {
            b
        } else {
            a
        }
    }
}

impl<const MAX: bool> Method for ExtremeHalf<MAX> {
    type Value = u16;
    const BYTES: usize = 2;

    #[inline(always)]
    fn load(&self, bytes: &[u8]) -> u16 {
        Fp16::flush_nan(u16::from_le_bytes([bytes[0], bytes[1]]).into(), self.flush) as u16
    }
    #[inline(always)]
    fn along(&self, row: u16, next: u16) -> u16 {
        Self::better(row, next)
    }
    #[inline(always)]
    fn pad_row(&self, row: u16, _: usize) -> u16 {
        row
    }
    #[inline(always)]
    fn down(&self, sum: u16, row: u16) -> u16 {
        Self::better(row, sum)
    }
    #[inline(always)]
    fn store(&self, sum: u16, _: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&sum.to_le_bytes());
    }
}

/// The padding that rows and windows add to an integer average, and its factors.
struct Factors {
    columns: [i32; 8],
    lines: [i32; 8],
    width: u32,
    height: u32,
}

impl Factors {
    fn new(setup: &Setup, part: &Part) -> Self {
        let columns = std::array::from_fn(|count| setup.pad_int(count));
        Self {
            columns,
            lines: columns.map(|value| value.wrapping_mul(part.axis.kernel as i32)),
            width: setup.recip_width,
            height: setup.recip_height,
        }
    }

    /// `sum` times both factors, rounded after each.
    #[inline(always)]
    fn apply(&self, sum: i32) -> i32 {
        let step = |value: i32, factor: u32| {
            let rounded = ((u64::from(value.unsigned_abs()) * u64::from(factor) + 0x8000) >> 16) as i32;
            if value < 0 {
                rounded.wrapping_neg()
            } else {
                rounded
            }
        };
        step(step(sum, self.width), self.height)
    }
}

/// The average of int8, summed in 16 bits.
struct Average8 {
    factors: Factors,
    /// Both factors are at most one: 32 bits hold the products.
    narrow: bool,
}

impl Average8 {
    fn new(setup: &Setup, part: &Part) -> Self {
        let factors = Factors::new(setup, part);
        let narrow = factors.width <= 1 << 16 && factors.height <= 1 << 16;
        Self { factors, narrow }
    }
}

impl Method for Average8 {
    type Value = i16;
    const BYTES: usize = 1;

    #[inline(always)]
    fn load(&self, bytes: &[u8]) -> i16 {
        i16::from(bytes[0] as i8)
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
    fn down(&self, sum: i16, row: i16) -> i16 {
        sum.wrapping_add(row)
    }
    #[inline(always)]
    fn store(&self, sum: i16, padded: usize, bytes: &mut [u8]) {
        let sum = i32::from(sum.wrapping_add(self.factors.lines[padded] as i16));
        bytes[0] = if self.narrow {
            let step = |value: i32, factor: u32| {
                let rounded = (value.unsigned_abs().wrapping_mul(factor).wrapping_add(0x8000) >> 16) as i32;
                if value < 0 {
                    -rounded
                } else {
                    rounded
                }
            };
            step(step(sum, self.factors.width), self.factors.height) as u8
        } else {
            self.factors.apply(sum) as u8
        };
    }
}

/// The average of int16.
struct Average16 {
    factors: Factors,
}

impl Average16 {
    fn new(setup: &Setup, part: &Part) -> Self {
        Self { factors: Factors::new(setup, part) }
    }
}

impl Method for Average16 {
    type Value = i32;
    const BYTES: usize = 2;

    #[inline(always)]
    fn load(&self, bytes: &[u8]) -> i32 {
        i16::from_le_bytes([bytes[0], bytes[1]]).into()
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
    fn down(&self, sum: i32, row: i32) -> i32 {
        sum.wrapping_add(row)
    }
    #[inline(always)]
    fn store(&self, sum: i32, padded: usize, bytes: &mut [u8]) {
        let sum = sum.wrapping_add(self.factors.lines[padded]);
        bytes.copy_from_slice(&(self.factors.apply(sum) as i16).to_le_bytes());
    }
}

/// The average of fp16, summed in fp17.
///
/// An fp17 has 11 significant bits and every sum or product of two is rounded once: single precision, which has more
/// than twice as many, gives the same after rounding again.
struct AverageHalf {
    flush: bool,
    columns: [u32; 8],
    lines: [u32; 8],
    width: u32,
    height: u32,
}

impl AverageHalf {
    /// `None` where a register holds a number that only [`Fp17`] knows (its exponent is all zeros or all ones).
    fn new(setup: &Setup, part: &Part) -> Option<Self> {
        let columns = std::array::from_fn(|count| setup.pad_fp17(count));
        let method = Self {
            flush: setup.flush_nan,
            columns,
            lines: columns.map(|value| Fp17::mul(value, KERNEL_WIDTHS[part.axis.kernel])),
            width: setup.recip_width & 0x1_ffff,
            height: setup.recip_height & 0x1_ffff,
        };
        let ordinary =
            |&bits: &u32| Fp17::is_zero(bits) || (Fp17::expo(bits) != 0 && Fp17::expo(bits) != Fp17::EXPO_MAX);
        let all = method.columns.iter().chain(&method.lines).chain([&method.width, &method.height]).all(ordinary);
        all.then_some(method)
    }
}

/// The fp17 as a single.
#[inline(always)]
fn single(bits: u32) -> f32 {
    let magnitude = bits & 0xffff;
    let wide = if magnitude == 0 { 0 } else { (magnitude << 13) + (96 << 23) };
    f32::from_bits(wide | (bits >> 16) << 31)
}

/// The single rounded to fp17; a result that is too small is zero with the sign of `zero`.
#[inline(always)]
fn rounded(value: f32, zero: u32) -> u32 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let magnitude = (magnitude + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    let sign = (bits >> 31) << 16;
    if magnitude < (97 << 10) {
        if magnitude == 0 {
            zero & 0x1_0000
        } else {
            sign
        }
    } else {
        sign | (magnitude - (96 << 10)).min(0xfbff)
    }
}

#[inline(always)]
fn nan(bits: u32) -> bool {
    bits & 0xffff > 0xfc00
}

#[inline(always)]
fn add(a: u32, b: u32) -> u32 {
    let sum = rounded(single(a) + single(b), a);
    if nan(a) {
        a
    } else if nan(b) {
        b
    } else {
        sum
    }
}

#[inline(always)]
fn multiply(a: u32, b: u32) -> u32 {
    let product = rounded(single(a) * single(b), a ^ b);
    if nan(a) {
        a
    } else if nan(b) {
        b
    } else {
        product
    }
}

impl Method for AverageHalf {
    type Value = u32;
    const BYTES: usize = 2;

    #[inline(always)]
    fn load(&self, bytes: &[u8]) -> u32 {
        fp16_to_fp17(Fp16::flush_nan(u16::from_le_bytes([bytes[0], bytes[1]]).into(), self.flush) as u16)
    }
    #[inline(always)]
    fn along(&self, row: u32, next: u32) -> u32 {
        add(row, next)
    }
    #[inline(always)]
    fn pad_row(&self, row: u32, padded: usize) -> u32 {
        add(row, self.columns[padded])
    }
    #[inline(always)]
    fn down(&self, sum: u32, row: u32) -> u32 {
        add(row, sum)
    }
    #[inline(always)]
    fn store(&self, sum: u32, padded: usize, bytes: &mut [u8]) {
        let sum = add(sum, self.lines[padded]);
        let result = fp17_to_fp16(multiply(multiply(sum, self.width), self.height));
        bytes.copy_from_slice(&result.to_le_bytes());
    }
}
