// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP a line at a time, in loops that compile to vector instructions.
//!
//! Each input line is reduced along its windows once, into one of as many line buffers as the window has lines; an
//! output line then combines the buffers that its windows cover. One loop serves all methods and precisions
//! ([`Method`]); it is compiled once for AVX2 and once for what every processor has.

// A loop is compiled for an instruction set only with what is inlined into it.
#![allow(clippy::inline_always)]

use std::cell::Cell;
use std::ops::Range;

use nvdla_uapi::reg::values::{PoolingMethod, Precision};
use rayon::prelude::*;

#[cfg(target_arch = "x86_64")]
use super::average8;
use super::reference::{self, KERNEL_WIDTHS};
use super::{Axis, Emit, Part, Setup, Source};
use crate::conv::fast::aligned::{Aligned, Plain};
#[cfg(target_arch = "x86_64")]
use crate::conv::Isa;
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
        (Precision::Fp16, PoolingMethod::Max) => job.extreme_half::<true>(),
        (Precision::Fp16, PoolingMethod::Min) => job.extreme_half::<false>(),
        (Precision::Fp16, PoolingMethod::Average) => match AverageHalf::new(setup, part) {
            Some(method) => job.average_half(&method),
            None => reference::pool(setup, part, source, job.memory, job.emit),
        },
    }
}

/// Whether an fp16 is a NaN.
fn has_nan(line: &[u8]) -> bool {
    let nan = |half: &[u8]| u16::from_le_bytes([half[0], half[1]]) & 0x7fff > 0x7c00;
    line.chunks_exact(2).fold(false, |found, half| found | nan(half))
}

/// A pooling method on one element.
trait Method: Sync {
    /// An element on its way through the window.
    type Value: Plain;
    /// Bytes of an element in memory.
    const BYTES: usize;
    /// Elements may be taken in any order: columns of a window first, which are then shared by the windows beside it.
    const ANY_ORDER: bool = false;
    /// What [`super::average8`] needs, where it is the method's way.
    #[cfg(target_arch = "x86_64")]
    fn average8(&self) -> Option<(&Factors, [u16; 2])> {
        None
    }
    fn load(&self, bytes: &[u8]) -> Self::Value;
    /// Adds the next element of a row.
    fn along(&self, row: Self::Value, next: Self::Value) -> Self::Value;
    /// Ends a row of which `padded` columns lie outside.
    fn pad_row(&self, row: Self::Value, padded: usize) -> Self::Value;
    /// Adds the next row.
    fn down(&self, sum: Self::Value, row: Self::Value) -> Self::Value;
    /// Ends a window of which `padded` rows lie outside.
    fn store(&self, sum: Self::Value, padded: usize, bytes: &mut [u8]);
    /// As [`Self::store`], for a line.
    #[inline(always)]
    fn store_line(&self, sums: &[Self::Value], padded: usize, line: &mut [u8]) {
        for (&sum, bytes) in sums.iter().zip(line.chunks_exact_mut(Self::BYTES)) {
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
        match self.setup.atoms.bytes() {
            8 => self.run::<M, 8>(method),
            16 => self.run::<M, 16>(method),
            _ => self.run::<M, 32>(method),
        }
    }

    /// Surfaces with a NaN take the elements in order.
    fn extreme_half<const MAX: bool>(&mut self) -> Result<(), Stop> {
        let flush = self.setup.flush_nan;
        self.by_nan(
            flush,
            |job, surfaces| job.surfaces::<_, 16>(&OrderedHalf::<MAX> { flush }, surfaces),
            |job, surfaces| job.surfaces::<_, 16>(&ExtremeHalf::<MAX> { flush }, surfaces),
        )
    }

    /// Surfaces with a NaN go element by element.
    fn average_half(&mut self, method: &AverageHalf) -> Result<(), Stop> {
        self.by_nan(
            method.flush,
            |job, surfaces| job.surfaces::<_, 16>(method, surfaces),
            |job, surfaces| {
                for surface in surfaces {
                    reference::pool_surface(job.setup, job.part, job.source, job.memory, job.emit, surface)?;
                }
                Ok(())
            },
        )
    }

    /// Pools fp16 surfaces without a NaN in one way, and those with one that is not flushed in another.
    fn by_nan(
        &mut self,
        flush: bool,
        without: impl Fn(&mut Self, Range<usize>) -> Result<(), Stop>,
        with: impl Fn(&mut Self, Range<usize>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if flush {
            return without(self, 0..self.setup.surfaces);
        }
        let mut nans = Vec::with_capacity(self.setup.surfaces);
        for surface in 0..self.setup.surfaces {
            let mut found = false;
            for row in 0..self.setup.vertical.input {
                let at = [surface, row, self.part.input, self.part.axis.input];
                let line = self.source.line(self.memory, at)?;
                found |= has_nan(line);
            }
            nans.push(found);
        }
        let mut surface = 0;
        while let Some(&found) = nans.get(surface) {
            let end = surface + nans[surface..].iter().take_while(|&&other| other == found).count();
            if found {
                with(self, surface..end)?;
            } else {
                without(self, surface..end)?;
            }
            surface = end;
        }
        Ok(())
    }

    fn run<M: Method, const LANES: usize>(&mut self, method: &M) -> Result<(), Stop> {
        self.surfaces::<M, LANES>(method, 0..self.setup.surfaces)
    }

    fn surfaces<M: Method, const LANES: usize>(&mut self, method: &M, surfaces: Range<usize>) -> Result<(), Stop> {
        let Axis { input, output, .. } = self.setup.vertical;
        debug_assert_eq!(LANES, self.setup.lanes());
        let line = self.part.axis.output * LANES * M::BYTES;
        let threads = rayon::current_num_threads();
        let count = surfaces.len();
        let small = self.part.axis.input * input * LANES * count < PARALLEL;
        // Taken, not borrowed: while this thread waits for others it may pool for another device.
        let mut room = RESULTS.take();
        let bytes =
            room.get::<u8>(if threads == 1 || small { line } else { ROUND.min(count * output * line).max(line) });
        let result = if threads == 1 || small || output * line > ROUND {
            self.alone::<M, LANES>(method, surfaces, &mut bytes[..line])
        } else {
            self.together::<M, LANES>(method, surfaces, threads, bytes)
        };
        RESULTS.set(room);
        result
    }

    /// Pools surfaces line by line.
    fn alone<M: Method, const LANES: usize>(
        &mut self,
        method: &M,
        surfaces: Range<usize>,
        line: &mut [u8],
    ) -> Result<(), Stop> {
        let this = Shared { setup: self.setup, part: self.part, source: self.source };
        with_rows::<M::Value, LANES, _>(this, |rows| {
            for surface in surfaces {
                for y in 0..self.setup.vertical.output {
                    rows.line::<M, LANES>(method, this, self.memory, [surface, y], y > 0, line)?;
                    (self.emit)(self.memory, surface, y, line)?;
                }
            }
            Ok(())
        })
    }

    /// Pools surfaces by several threads, a round of results in `bytes` at a time.
    fn together<M: Method, const LANES: usize>(
        &mut self,
        method: &M,
        surfaces: Range<usize>,
        threads: usize,
        bytes: &mut [u8],
    ) -> Result<(), Stop> {
        let output = self.setup.vertical.output;
        let line = self.part.axis.output * LANES * M::BYTES;
        let this = Shared { setup: self.setup, part: self.part, source: self.source };
        // Bands of lines of as many surfaces as fit; the rows where bands meet are reduced twice.
        let round = (ROUND / (output * line)).clamp(1, surfaces.len());
        let bands = (2 * threads).div_ceil(round).min(output);
        let band = output.div_ceil(bands);
        for first in surfaces.clone().step_by(round) {
            let count = round.min(surfaces.end - first);
            let bytes = &mut bytes[..count * output * line];
            let shared: &dyn Memory = self.memory;
            let parts = bytes.par_chunks_mut(output * line).enumerate().flat_map(|(surface, bytes)| {
                bytes.par_chunks_mut(band * line).enumerate().map(move |part| (surface, part))
            });
            parts.try_for_each(|(surface, (number, bytes))| {
                with_rows::<M::Value, LANES, _>(this, |rows| {
                    for (y, line) in bytes.chunks_exact_mut(line).enumerate() {
                        let at = [first + surface, number * band + y];
                        rows.line::<M, LANES>(method, this, shared, at, y > 0, line)?;
                    }
                    Ok::<(), Stop>(())
                })
            })?;
            for (at, line) in bytes.chunks_exact(line).enumerate() {
                (self.emit)(self.memory, first + at / output, at % output, line)?;
            }
        }
        Ok(())
    }
}

/// What threads share of a [`Job`].
#[derive(Clone, Copy)]
struct Shared<'j> {
    setup: &'j Setup,
    part: &'j Part,
    source: &'j Source,
}

/// Room for [`Rows`].
#[derive(Default)]
struct Room {
    reduced: Aligned,
    loaded: Aligned,
    sums: Aligned,
    columns: Aligned,
}

thread_local! {
    /// A thread's rooms.
    static ROWS: Cell<Room> = Cell::default();
    static RESULTS: Cell<Aligned> = Cell::default();
}

/// Calls `f` with this thread's rows.
fn with_rows<V: Plain, const LANES: usize, R>(job: Shared<'_>, f: impl FnOnce(&mut Rows<'_, V>) -> R) -> R {
    let mut room = ROWS.take();
    let Axis { input, kernel, .. } = job.setup.vertical;
    let length = job.part.axis.output * LANES;
    let mut rows = Rows {
        reduced: room.reduced.get(kernel.min(input) * length),
        loaded: room.loaded.get(job.part.axis.input * LANES),
        sums: room.sums.get(length),
        next: 0,
        columns: room.columns.get(job.part.axis.input * LANES),
        summed: 0..0,
    };
    let result = f(&mut rows);
    ROWS.set(room);
    result
}

/// Rows' results, which stay until the windows that cover them have passed: as many rows as a window has.
struct Rows<'r, V> {
    reduced: &'r mut [V],
    loaded: &'r mut [V],
    sums: &'r mut [V],
    /// The first row that no window has covered.
    next: usize,
    /// Columns' sums ([`super::average8`]) of the rows of a range.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    columns: &'r mut [i16],
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    summed: Range<usize>,
}

impl<V: Plain> Rows<'_, V> {
    /// Makes line `y` of the output; `follows` says that the line before was the one above.
    fn line<M: Method<Value = V>, const LANES: usize>(
        &mut self,
        method: &M,
        job: Shared<'_>,
        memory: &dyn Memory,
        [surface, y]: [usize; 2],
        follows: bool,
        line: &mut [u8],
    ) -> Result<(), Stop> {
        #[cfg(target_arch = "x86_64")]
        if let (average8::LANES, Isa::Avx512, Some((factors, by))) = (LANES, Isa::best(), method.average8()) {
            return self.average8(factors, by, job, memory, [surface, y], follows, line);
        }
        let Self { reduced: rows, loaded, sums, next, .. } = self;
        let Axis { input, kernel, .. } = job.setup.vertical;
        let (length, slots) = (sums.len(), kernel.min(input));
        let (top, bottom) = job.setup.vertical.window(y);
        if M::ANY_ORDER {
            for row in top..bottom {
                let at = [surface, row, job.part.input, job.part.axis.input];
                let bytes = job.source.line(memory, at)?;
                if row == top {
                    load(method, bytes, loaded);
                } else {
                    load_along(method, bytes, loaded);
                }
            }
            across::<M, LANES>(method, &job.part.axis, loaded, sums);
            store(method, sums, kernel - (bottom - top), line);
            return Ok(());
        }
        for row in if follows { top.max(*next) } else { top }..bottom {
            let at = [surface, row, job.part.input, job.part.axis.input];
            let bytes = job.source.line(memory, at)?;
            let row = &mut rows[row % slots * length..][..length];
            load(method, bytes, loaded);
            across::<M, LANES>(method, &job.part.axis, loaded, row);
        }
        *next = bottom;
        sums.copy_from_slice(&rows[top % slots * length..][..length]);
        for row in top + 1..bottom {
            down(method, &rows[row % slots * length..][..length], sums);
        }
        store(method, sums, kernel - (bottom - top), line);
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
impl<V> Rows<'_, V> {
    /// [`Self::line`] for int8 averages on a machine with AVX-512.
    fn average8(
        &mut self,
        factors: &Factors,
        by: [u16; 2],
        job: Shared<'_>,
        memory: &dyn Memory,
        [surface, y]: [usize; 2],
        follows: bool,
        line: &mut [u8],
    ) -> Result<(), Stop> {
        let Self { columns, summed: rows, .. } = self;
        let row = |row| job.source.line(memory, [surface, row, job.part.input, job.part.axis.input]);
        let (top, bottom) = job.setup.vertical.window(y);
        if !follows || top >= rows.end {
            columns.fill(0);
            *rows = top..top;
        }
        for leaving in rows.start..top {
            // SAFETY: the caller has found AVX-512.
            unsafe { average8::follow::<false>(row(leaving)?, columns) };
        }
        for entering in rows.end..bottom {
            // SAFETY: as above.
            unsafe { average8::follow::<true>(row(entering)?, columns) };
        }
        *rows = top..bottom;
        let inside = bottom - top;
        let lines = factors.lines[job.setup.vertical.kernel - inside];
        let ending = average8::Ending { columns: &factors.columns, lines, inside, factors: by };
        // SAFETY: as above.
        unsafe { average8::finish(&job.part.axis, ending, columns, line) };
        Ok(())
    }
}

/// Elements from which a second thread pays.
const PARALLEL: usize = if cfg!(test) { 1 << 8 } else { 1 << 15 };
/// Bytes of results that wait for others.
const ROUND: usize = 8 << 20;

/// Defines a function whose loops are compiled for AVX-512 and AVX2, used where the processor has them, and for what every
/// processor of the target has.
///
/// The loops run over whole lines in memory. Sums in local arrays would be taken apart into single values, and never
/// put together again to vectors.
macro_rules! vectorised {
    (
        $(#[$attribute:meta])*
        fn $name:ident<$method:ident: Method $(, const $lanes:ident: usize)?>($($argument:ident: $type:ty),* $(,)?) $body:block
    ) => {
        $(#[$attribute])*
        fn $name<$method: Method $(, const $lanes: usize)?>($($argument: $type),*) {
            #[inline(always)]
            fn body<$method: Method $(, const $lanes: usize)?>($($argument: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn widest<$method: Method $(, const $lanes: usize)?>($($argument: $type),*) {
                    body::<$method $(, $lanes)?>($($argument),*);
                }
                #[target_feature(enable = "avx2")]
                fn wide<$method: Method $(, const $lanes: usize)?>($($argument: $type),*) {
                    body::<$method $(, $lanes)?>($($argument),*);
                }
                if Isa::best() == Isa::Avx512 {
                    // SAFETY: the processor has what `Isa::Avx512` stands for.
                    unsafe { widest::<$method $(, $lanes)?>($($argument),*) };
                    return;
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2.
                    unsafe { wide::<$method $(, $lanes)?>($($argument),*) };
                    return;
                }
            }
            body::<$method $(, $lanes)?>($($argument),*);
        }
    };
}

vectorised! {
    /// Loads an input line.
    fn load<M: Method>(method: &M, line: &[u8], loaded: &mut [M::Value]) {
        for (value, bytes) in loaded.iter_mut().zip(line.chunks_exact(M::BYTES)) {
            *value = method.load(bytes);
        }
    }
}

vectorised! {
    /// Adds an input line to others, element by element.
    fn load_along<M: Method>(method: &M, line: &[u8], loaded: &mut [M::Value]) {
        for (value, bytes) in loaded.iter_mut().zip(line.chunks_exact(M::BYTES)) {
            *value = method.along(*value, method.load(bytes));
        }
    }
}

vectorised! {
    /// Reduces a line along its windows.
    fn across<M: Method, const LANES: usize>(
        method: &M,
        axis: &Axis,
        loaded: &mut [M::Value],
        row: &mut [M::Value],
    ) {
        let Axis { input, output, kernel, stride, pad } = *axis;
        // Each window starts with its first element that is inside, and then takes the next ones.
        for (x, out) in row.chunks_exact_mut(LANES).enumerate() {
            out.copy_from_slice(&loaded[axis.window(x).0 * LANES..][..LANES]);
        }
        for step in 1..kernel {
            // The windows of which this step is inside and not the first: 1 <= x * stride + step - pad < input.
            let first = (pad + 1).saturating_sub(step).div_ceil(stride);
            let last = (input + pad).saturating_sub(step).div_ceil(stride).min(output);
            if first >= last {
                continue;
            }
            let next = &loaded[(first * stride + step - pad) * LANES..];
            let row = &mut row[first * LANES..last * LANES];
            if stride == 1 {
                for (value, &next) in row.iter_mut().zip(next) {
                    *value = method.along(*value, next);
                }
            } else {
                for (row, next) in row.chunks_exact_mut(LANES).zip(next.chunks(stride * LANES)) {
                    for (value, &next) in row.iter_mut().zip(&next[..LANES]) {
                        *value = method.along(*value, next);
                    }
                }
            }
        }
        for (x, out) in row.chunks_exact_mut(LANES).enumerate() {
            let (left, right) = axis.window(x);
            if right - left != kernel {
                for value in out {
                    *value = method.pad_row(*value, kernel - (right - left));
                }
            }
        }
    }
}

vectorised! {
    /// Adds a row's results to those of the rows above it.
    fn down<M: Method>(method: &M, row: &[M::Value], sums: &mut [M::Value]) {
        for (sum, &row) in sums.iter_mut().zip(row) {
            *sum = method.down(*sum, row);
        }
    }
}

vectorised! {
    /// Ends the windows of an output line.
    fn store<M: Method>(method: &M, sums: &[M::Value], padded: usize, line: &mut [u8]) {
        method.store_line(sums, padded, line);
    }
}

/// The largest (or smallest) int8.
struct Extreme8<const MAX: bool>;

impl<const MAX: bool> Method for Extreme8<MAX> {
    type Value = i8;
    const BYTES: usize = 1;
    const ANY_ORDER: bool = true;

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
    const ANY_ORDER: bool = true;

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

/// An fp16 that is no NaN as an integer that is ordered like the numbers, and back.
#[inline(always)]
const fn ordered(bits: u16) -> i16 {
    (bits ^ (((bits as i16) >> 15) as u16 & 0x7fff)) as i16
}

/// The largest (or smallest) fp16, where there is no NaN.
struct OrderedHalf<const MAX: bool> {
    flush: bool,
}

impl<const MAX: bool> Method for OrderedHalf<MAX> {
    type Value = i16;
    const BYTES: usize = 2;
    const ANY_ORDER: bool = true;

    #[inline(always)]
    fn load(&self, bytes: &[u8]) -> i16 {
        let bits = u16::from_le_bytes([bytes[0], bytes[1]]);
        ordered(if self.flush && bits & 0x7fff > 0x7c00 { 0 } else { bits })
    }
    #[inline(always)]
    fn along(&self, row: i16, next: i16) -> i16 {
        Extreme16::<MAX>.along(row, next)
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
        bytes.copy_from_slice(&(ordered(sum as u16) as u16).to_le_bytes());
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
        let nan = |bits: u16| bits & 0x7fff > 0x7c00;
        let second = if MAX { ordered(b) > ordered(a) } else { ordered(b) < ordered(a) };
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
    // High and low half apart, as vector instructions give them.
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
    type Value = i16;
    const BYTES: usize = 1;

    #[cfg(target_arch = "x86_64")]
    fn average8(&self) -> Option<(&Factors, [u16; 2])> {
        let [width, height] = self.narrow?.map(|factor| u16::try_from(factor).ok());
        Some((&self.factors, [width?, height?]))
    }

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
    fn store_line(&self, sums: &[i16], padded: usize, line: &mut [u8]) {
        let lines = self.factors.lines[padded] as i16;
        match self.narrow.map(|factors| factors.map(u16::try_from)) {
            Some([Ok(width), Ok(height)]) => {
                for (byte, &sum) in line.iter_mut().zip(sums) {
                    *byte = scale16(scale16(sum.wrapping_add(lines), width), height) as u8;
                }
            }
            // A factor of one.
            Some([Ok(factor), _] | [_, Ok(factor)]) => {
                for (byte, &sum) in line.iter_mut().zip(sums) {
                    *byte = scale16(sum.wrapping_add(lines), factor) as u8;
                }
            }
            _ => {
                for (byte, &sum) in line.iter_mut().zip(sums) {
                    *byte = self.factors.apply(i32::from(sum.wrapping_add(lines))) as u8;
                }
            }
        }
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
