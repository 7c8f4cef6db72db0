// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP a line at a time, in loops that compile to vector instructions.
//!
//! Each input line is reduced along its windows once, into one of as many line buffers as the window has lines; an
//! output line then combines the buffers that its windows cover. One loop serves all methods and precisions
//! ([`Method`]); it is compiled once for AVX2 and once for what every processor has.

// A loop is compiled for an instruction set only with what is inlined into it.
#![allow(clippy::inline_always)]

use std::ops::Range;

use nvdla_uapi::reg::values::{PoolingMethod, Precision};

use super::reference::{self, KERNEL_WIDTHS};
use super::{Axis, Emit, Part, Setup, Source, KERNEL_MAX};
use crate::memory::{Memory, Stop};
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
            Some(method) => job.average_half(&method),
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
    /// As [`Self::store`], for an atom.
    #[inline(always)]
    fn store_atom(&self, sums: &[Self::Value], padded: usize, atom: &mut [u8]) {
        for (&sum, bytes) in sums.iter().zip(atom.chunks_exact_mut(Self::BYTES)) {
            self.store(sum, padded, bytes);
        }
    }
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

    /// Surfaces with a NaN go element by element.
    fn average_half(&mut self, method: &AverageHalf) -> Result<(), Stop> {
        for surface in 0..self.setup.surfaces {
            let mut has_nan = false;
            for row in 0..self.setup.vertical.input {
                let at = [surface, row, self.part.input, self.part.axis.input];
                let line = self.source.line(self.memory, self.setup.atom, at)?;
                let nan = |half: &[u8]| u16::from_le_bytes([half[0], half[1]]) & 0x7fff > 0x7c00;
                has_nan |= line.chunks_exact(2).fold(false, |found, half| found | nan(half));
            }
            if has_nan && !method.flush {
                reference::pool_surface(self.setup, self.part, self.source, self.memory, self.emit, surface)?;
            } else {
                self.surfaces::<_, 16>(method, surface..surface + 1)?;
            }
        }
        Ok(())
    }

    fn run<M: Method, const LANES: usize>(&mut self, method: &M) -> Result<(), Stop> {
        self.surfaces::<M, LANES>(method, 0..self.setup.surfaces)
    }

    fn surfaces<M: Method, const LANES: usize>(&mut self, method: &M, surfaces: Range<usize>) -> Result<(), Stop> {
        let Axis { input, output, kernel, .. } = self.setup.vertical;
        debug_assert_eq!(LANES, self.setup.lanes());
        let columns = self.part.axis.output;
        // A row's result stays until the windows that cover it have passed: as many rows as a window has.
        let mut rows = vec![[M::Value::default(); LANES]; kernel.min(input) * columns];
        let slots = kernel.min(input);
        let mut line = vec![0; columns * self.setup.atom];
        for surface in surfaces {
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
widest!(down, down_body, <M: Method>, <const LANES>, (method: &M, padded: usize, rows: &[[M::Value; LANES]], covered: Range<usize>, slots: usize, line: &mut [u8]));

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
        if padded != 0 {
            for value in &mut value {
                *value = method.pad_row(*value, padded);
            }
        }
        *out = value;
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
    covered: Range<usize>,
    slots: usize,
    line: &mut [u8],
) {
    let columns = rows.len() / slots;
    let atom = LANES * M::BYTES;
    let mut covering: [&[[M::Value; LANES]]; KERNEL_MAX] = [&[]; KERNEL_MAX];
    let covering = &mut covering[..covered.len()];
    for (slot, row) in covering.iter_mut().zip(covered) {
        *slot = &rows[row % slots * columns..][..columns];
    }
    let Some((first, others)) = covering.split_first() else { return };
    for (x, out) in line.chunks_exact_mut(atom).enumerate() {
        let mut sum = first[x];
        for row in others {
            let row = &row[x];
            for lane in 0..LANES {
                sum[lane] = method.down(sum[lane], row[lane]);
            }
        }
        method.store_atom(&sum, padded, out);
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
    /// Both factors, where they are at most one.
    narrow: Option<[u32; 2]>,
}

impl Average8 {
    fn new(setup: &Setup, part: &Part) -> Self {
        let factors = Factors::new(setup, part);
        let narrow = [factors.width, factors.height];
        Self { narrow: narrow.iter().all(|&factor| factor <= 1 << 16).then_some(narrow), factors }
    }
}

/// `value * factor / 2^16`, rounded half away from zero; the factor has 16 bits, and so does all that is computed.
#[inline(always)]
fn scale16(value: i16, factor: u16) -> i16 {
    let product = u32::from(value.unsigned_abs()) * u32::from(factor);
    let rounded = ((product >> 16) as u16).wrapping_add((product as u16) >> 15);
    if value < 0 {
        rounded.wrapping_neg() as i16
    } else {
        rounded as i16
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
        bytes[0] = self.factors.apply(sum) as u8;
    }
    #[inline(always)]
    fn store_atom(&self, sums: &[i16], padded: usize, atom: &mut [u8]) {
        let Some([width, height]) = self.narrow else {
            return sums.iter().zip(atom).for_each(|(&sum, byte)| self.store(sum, padded, std::slice::from_mut(byte)));
        };
        let lines = self.factors.lines[padded] as i16;
        let mut values = [0i16; 32];
        let values = &mut values[..sums.len()];
        values.iter_mut().zip(sums).for_each(|(value, &sum)| *value = sum.wrapping_add(lines));
        // A factor of one changes nothing; any other fits 16 bits.
        for factor in [width, height].into_iter().filter_map(|factor| u16::try_from(factor).ok()) {
            for value in values.iter_mut() {
                *value = scale16(*value, factor);
            }
        }
        atom.iter_mut().zip(values).for_each(|(byte, value)| *byte = *value as u8);
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

/// The average of fp16, summed in fp17; the input has no NaN.
///
/// An fp17 has 11 significant bits and every sum or product of two is rounded once: single precision, which has more
/// than twice as many, gives the same after rounding again.
struct AverageHalf {
    flush: bool,
    columns: [f32; 8],
    lines: [f32; 8],
    width: f32,
    height: f32,
}

impl AverageHalf {
    /// `None` where a register holds a number that only [`Fp17`] knows (its exponent is all zeros or all ones).
    fn new(setup: &Setup, part: &Part) -> Option<Self> {
        let columns: [u32; 8] = std::array::from_fn(|count| setup.pad_fp17(count));
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
    // An exponent that is 112 too small, and denormals where there are any.
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

impl Method for AverageHalf {
    type Value = f32;
    const BYTES: usize = 2;

    #[inline(always)]
    fn load(&self, bytes: &[u8]) -> f32 {
        let half = u16::from_le_bytes([bytes[0], bytes[1]]);
        widen(if self.flush && half & 0x7fff > 0x7c00 { 0 } else { half })
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
    fn store(&self, sum: f32, padded: usize, bytes: &mut [u8]) {
        let sum = add(sum, self.lines[padded]);
        let result = narrow(multiply(multiply(sum, self.width), self.height));
        bytes.copy_from_slice(&result.to_le_bytes());
    }
}
