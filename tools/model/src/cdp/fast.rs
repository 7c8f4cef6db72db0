// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP a position at a time: all channels of one column of one line, in loops that compile to vector instructions.
//!
//! The lookup is the part that stays scalar. For int8 its argument has 20 bits at most, so its answers are kept from
//! the first time that they are asked for; a cube has far fewer different sums than elements.

// A loop is compiled for an instruction set only with what is inlined into it.
#![allow(clippy::inline_always)]

use nvdla_uapi::layout::feature::View;
use nvdla_uapi::reg::values::Precision;

use super::reference::{self, outside};
use super::{Converter, Counts, Operation, REACH};
use crate::lut::{Counters, Tables};
use crate::memory::{Memory, Stop};
use crate::num::convert::{fp16_to_fp17, fp17_to_fp16, fp17_to_fp32};
use crate::num::{Fp16, Fp17};

pub(super) fn normalise(operation: &Operation, tables: &Tables, memory: &mut dyn Memory) -> Result<Counts, Stop> {
    match operation.precision {
        Precision::Int8 => line_by_line(&mut Int8::new(operation, tables), operation, memory),
        Precision::Int16 => line_by_line(&mut Int16::new(operation, tables), operation, memory),
        Precision::Fp16 => line_by_line(&mut Half::new(operation, tables), operation, memory),
    }
}

/// Normalises one position.
trait Position {
    /// Bytes of an element.
    const BYTES: usize;
    /// Takes the position's atoms, the same place in each of `lines`, and leaves results there.
    fn normalise(&mut self, lines: &mut [&mut [u8]]);
    fn counts(&self) -> Counts;
}

fn line_by_line<P: Position>(position: &mut P, operation: &Operation, memory: &mut dyn Memory) -> Result<Counts, Stop> {
    let atoms = operation.source.cube.atoms();
    let (atom, length) = (atoms.bytes(), atoms.span(operation.width));
    debug_assert_eq!(atom, operation.lanes * P::BYTES);
    let mut lines = vec![0; View::packed(operation.surfaces, 1, operation.width, atom).cube];
    for y in 0..operation.height {
        for (surface, line) in lines.chunks_exact_mut(length).enumerate() {
            line.copy_from_slice(operation.source.read(memory, surface, [y, 0], operation.width)?);
        }
        let mut columns: Vec<_> = lines.chunks_exact_mut(length).map(|line| line.chunks_exact_mut(atom)).collect();
        let mut atoms = Vec::with_capacity(operation.surfaces);
        for _ in 0..operation.width {
            atoms.clear();
            atoms.extend(columns.iter_mut().filter_map(Iterator::next));
            position.normalise(&mut atoms);
        }
        for (surface, line) in lines.chunks_exact(length).enumerate() {
            operation.destination.write(memory, surface, [y, 0], line)?;
        }
    }
    Ok(position.counts())
}

/// Defines a function whose loops are compiled twice: for AVX2, used where the processor has it, and for what every
/// processor of the target has.
macro_rules! vectorised {
    ($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$attribute])*
        fn $name($($argument: $type),*) {
            #[inline(always)]
            fn body($($argument: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($($argument: $type),*) {
                    body($($argument),*);
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2.
                    unsafe { wide($($argument),*) };
                    return;
                }
            }
            body($($argument),*);
        }
    };
}

/// Half of the last place that a right shift keeps.
const fn half(shift: u32) -> i64 {
    if shift == 0 {
        0
    } else {
        1 << (shift - 1)
    }
}

/// The most bits that an integer's offset from its converter's limits can have after a shift by `shift`.
const fn limit(limit: i64, shift: u32) -> i64 {
    if limit > i64::MAX >> shift {
        i64::MAX
    } else if limit < i64::MIN >> shift {
        i64::MIN
    } else {
        limit << shift
    }
}

vectorised! {
    /// The input converter of int8, in place; values have 9 bits and a product 25.
    fn convert8(converter: &Converter, values: &mut [i32]) {
        let (offset, scale, shift) = (converter.offset, i32::from(converter.scale), converter.shift);
        let half = half(shift) as u32;
        for value in values {
            let scaled = (*value).wrapping_sub(offset).wrapping_mul(scale);
            let rounded = (scaled.unsigned_abs().wrapping_add(half) >> shift) as i32;
            let rounded = if scaled < 0 { rounded.wrapping_neg() } else { rounded };
            *value = rounded.clamp(-256, 255);
        }
    }
}

vectorised! {
    /// The input converter of int16, in place; values have 17 bits and a product 33.
    fn convert16(converter: &Converter, values: &mut [i64]) {
        let (offset, scale, shift) = (i64::from(converter.offset), i64::from(converter.scale), converter.shift);
        let half = half(shift) as u64;
        for value in values {
            let scaled = (*value).wrapping_sub(offset).wrapping_mul(scale);
            let rounded = (scaled.unsigned_abs().wrapping_add(half) >> shift) as i64;
            let rounded = if scaled < 0 { rounded.wrapping_neg() } else { rounded };
            *value = rounded.clamp(-65_536, 65_535);
        }
    }
}

vectorised! {
    /// The sums of `2 * reach + 1` squares around each value but the first and last [`REACH`].
    fn windows8(reach: usize, values: &[i32], squares: &mut [i32], sums: &mut [i32]) {
        for (square, &value) in squares.iter_mut().zip(values) {
            *square = value.wrapping_mul(value);
        }
        sums.copy_from_slice(&squares[REACH..][..sums.len()]);
        for distance in 1..=reach {
            let (before, after) = (&squares[REACH - distance..], &squares[REACH + distance..]);
            for ((sum, &before), &after) in sums.iter_mut().zip(before).zip(after) {
                *sum = sum.wrapping_add(before.wrapping_add(after));
            }
        }
    }
}

vectorised! {
    /// As [`windows8`], for int16.
    fn windows16(reach: usize, values: &[i64], squares: &mut [i64], sums: &mut [i64]) {
        for (square, &value) in squares.iter_mut().zip(values) {
            *square = value.wrapping_mul(value);
        }
        sums.copy_from_slice(&squares[REACH..][..sums.len()]);
        for distance in 1..=reach {
            let (before, after) = (&squares[REACH - distance..], &squares[REACH + distance..]);
            for ((sum, &before), &after) in sums.iter_mut().zip(before).zip(after) {
                *sum = sum.wrapping_add(before.wrapping_add(after));
            }
        }
    }
}

vectorised! {
    /// As [`windows8`], for fp16: squares and sums in fp32, each pair of neighbours added before it joins the sum.
    ///
    /// The squares of fp17 numbers and sums of nine of them are far from the ends of fp32's range, where the hardware's
    /// arithmetic differs from the processor's.
    fn windows_half(reach: usize, values: &[f32], squares: &mut [f32], sums: &mut [f32]) {
        for (square, &value) in squares.iter_mut().zip(values) {
            *square = value * value;
        }
        let middle = &squares[REACH..];
        for (((sum, &middle), &before), &after) in
            sums.iter_mut().zip(middle).zip(&squares[REACH - 1..]).zip(&squares[REACH + 1..])
        {
            *sum = (before + after) + middle;
        }
        for distance in 2..=reach {
            let (before, after) = (&squares[REACH - distance..], &squares[REACH + distance..]);
            for ((sum, &before), &after) in sums.iter_mut().zip(before).zip(after) {
                *sum += before + after;
            }
        }
    }
}

/// The output converter with its limits as bounds of what goes into its shift.
struct Output {
    converter: Converter,
    minimum: i64,
    maximum: i64,
    /// Below and above these the hardware counts a saturation: more than one off without rounding.
    counted: [i64; 2],
}

impl Output {
    fn new(converter: Converter, bits: u32) -> Self {
        let (minimum, maximum) = (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1);
        let counted = [limit(minimum - 1, converter.shift), limit(maximum + 2, converter.shift)];
        Self { converter, minimum, maximum, counted }
    }
}

vectorised! {
    /// The output converter, in place; adds to `saturated` how many values it cut off.
    fn convert_output(output: &Output, values: &mut [i64], saturated: &mut u32) {
        let Output { converter, minimum, maximum, counted: [low, high] } = output;
        let (offset, scale, shift) = (i64::from(converter.offset), i64::from(converter.scale), converter.shift);
        let half = half(shift) as u64;
        let mut count = 0u64;
        for value in values {
            let scaled = (*value).wrapping_sub(offset).wrapping_mul(scale);
            count += u64::from(scaled < *low || scaled >= *high);
            let rounded = (scaled.unsigned_abs().wrapping_add(half) >> shift) as i64;
            let rounded = if scaled < 0 { rounded.wrapping_neg() } else { rounded };
            *value = rounded.max(*minimum).min(*maximum);
        }
        *saturated = saturated.wrapping_add(count as u32);
    }
}

/// Lookups of int8 by their argument: zero, or [`Cache::KNOWN`] with the counter's number and the factor.
struct Cache {
    entries: Vec<u32>,
    /// What is added to an argument: single values can be negative.
    bias: i64,
    /// Times that each counter was meant.
    counts: [u32; 5],
}

impl Cache {
    const KNOWN: u32 = 1 << 31;
    /// Nine squares of 9 bits.
    const LARGEST: usize = 9 << 16;

    fn new(operation: &Operation) -> Self {
        let (size, bias) = if operation.reach.is_some() { (Self::LARGEST + 1, 0) } else { (512, 256) };
        Self { entries: vec![0; size], bias, counts: [0; 5] }
    }

    #[inline(always)]
    fn get(&mut self, operation: &Operation, tables: &Tables, sum: i64) -> i16 {
        let entry = &mut self.entries[(sum + self.bias) as usize];
        if *entry == 0 {
            let mut counter = Counters::default();
            let factor = operation.lookup.int(tables, sum, &mut counter);
            let Counters { under, over, hybrid, le_hit, lo_hit } = counter;
            let which = [under, over, hybrid, le_hit, lo_hit].iter().position(|&count| count != 0).unwrap_or(0);
            *entry = Self::KNOWN | (which as u32) << 16 | u32::from(factor as u16);
        }
        self.counts[(*entry >> 16) as usize & 7] += 1;
        *entry as i16
    }

    fn counters(&self) -> Counters {
        let [under, over, hybrid, le_hit, lo_hit] = self.counts;
        Counters { under, over, hybrid, le_hit, lo_hit }
    }
}

struct Int8<'o> {
    operation: &'o Operation,
    tables: &'o Tables,
    cache: Cache,
    values: Vec<i32>,
    squares: Vec<i32>,
    sums: Vec<i32>,
    products: Vec<i64>,
    output: Output,
    saturated: u32,
}

impl<'o> Int8<'o> {
    fn new(operation: &'o Operation, tables: &'o Tables) -> Self {
        let count = operation.elements;
        Self {
            operation,
            tables,
            cache: Cache::new(operation),
            values: vec![0; count + 2 * REACH],
            squares: vec![0; count + 2 * REACH],
            sums: vec![0; count],
            products: vec![0; count],
            output: Output::new(operation.output, 8),
            saturated: 0,
        }
    }
}

impl Position for Int8<'_> {
    const BYTES: usize = 1;

    fn normalise(&mut self, atoms: &mut [&mut [u8]]) {
        let operation = self.operation;
        let lanes = operation.lanes;
        self.values.fill(outside(operation));
        for (values, atom) in self.values[REACH..].chunks_exact_mut(lanes).zip(atoms.iter()) {
            values.iter_mut().zip(atom.iter()).for_each(|(value, &byte)| *value = i32::from(byte as i8));
        }
        self.values[REACH + operation.channels..].fill(outside(operation));
        convert8(&operation.input, &mut self.values);
        match operation.reach {
            Some(reach) => windows8(reach, &self.values, &mut self.squares, &mut self.sums),
            None => self.sums.copy_from_slice(&self.values[REACH..REACH + operation.elements]),
        }
        for ((product, &sum), &value) in self.products.iter_mut().zip(&self.sums).zip(&self.values[REACH..]) {
            let factor = i64::from(self.cache.get(operation, self.tables, sum.into()));
            *product = if operation.skip_multiply { factor } else { factor * i64::from(value) };
        }
        convert_output(&self.output, &mut self.products, &mut self.saturated);
        for (products, atom) in self.products.chunks_exact(lanes).zip(atoms) {
            atom.iter_mut().zip(products).for_each(|(byte, &product)| *byte = product as u8);
        }
    }

    fn counts(&self) -> Counts {
        Counts { lut: self.cache.counters(), saturated: self.saturated, nans: 0 }
    }
}

struct Int16<'o> {
    operation: &'o Operation,
    tables: &'o Tables,
    counters: Counters,
    values: Vec<i64>,
    squares: Vec<i64>,
    sums: Vec<i64>,
    products: Vec<i64>,
    output: Output,
    saturated: u32,
}

impl<'o> Int16<'o> {
    fn new(operation: &'o Operation, tables: &'o Tables) -> Self {
        let count = operation.elements;
        Self {
            operation,
            tables,
            counters: Counters::default(),
            values: vec![0; count + 2 * REACH],
            squares: vec![0; count + 2 * REACH],
            sums: vec![0; count],
            products: vec![0; count],
            output: Output::new(operation.output, 16),
            saturated: 0,
        }
    }
}

impl Position for Int16<'_> {
    const BYTES: usize = 2;

    fn normalise(&mut self, atoms: &mut [&mut [u8]]) {
        let operation = self.operation;
        let lanes = operation.lanes;
        self.values.fill(outside(operation).into());
        for (values, atom) in self.values[REACH..].chunks_exact_mut(lanes).zip(atoms.iter()) {
            for (value, bytes) in values.iter_mut().zip(atom.chunks_exact(2)) {
                *value = i16::from_le_bytes([bytes[0], bytes[1]]).into();
            }
        }
        self.values[REACH + operation.channels..].fill(outside(operation).into());
        convert16(&operation.input, &mut self.values);
        match operation.reach {
            Some(reach) => windows16(reach, &self.values, &mut self.squares, &mut self.sums),
            None => self.sums.copy_from_slice(&self.values[REACH..REACH + operation.elements]),
        }
        for ((product, &sum), &value) in self.products.iter_mut().zip(&self.sums).zip(&self.values[REACH..]) {
            let factor = i64::from(operation.lookup.int(self.tables, sum, &mut self.counters));
            *product = if operation.skip_multiply { factor } else { factor * value };
        }
        convert_output(&self.output, &mut self.products, &mut self.saturated);
        for (products, atom) in self.products.chunks_exact(lanes).zip(atoms) {
            for (bytes, &product) in atom.chunks_exact_mut(2).zip(products) {
                bytes.copy_from_slice(&(product as i16).to_le_bytes());
            }
        }
    }

    fn counts(&self) -> Counts {
        Counts { lut: self.counters, saturated: self.saturated, nans: 0 }
    }
}

struct Half<'o> {
    operation: &'o Operation,
    tables: &'o Tables,
    /// The elements, NaN flushed where that is asked for.
    raw: Vec<i32>,
    values: Vec<f32>,
    squares: Vec<f32>,
    sums: Vec<f32>,
    counts: Counts,
}

impl<'o> Half<'o> {
    fn new(operation: &'o Operation, tables: &'o Tables) -> Self {
        let count = operation.elements;
        Self {
            operation,
            tables,
            raw: vec![0; count + 2 * REACH],
            values: vec![0.0; count + 2 * REACH],
            squares: vec![0.0; count + 2 * REACH],
            sums: vec![0.0; count],
            counts: Counts::default(),
        }
    }

    /// The result at `channel` where no NaN is near.
    fn result(&mut self, channel: usize) -> u16 {
        let operation = self.operation;
        let value = fp16_to_fp17(self.raw[REACH + channel] as u16);
        let factor = operation.lookup.float(self.tables, self.sums[channel].to_bits(), &mut self.counts.lut);
        let product = if operation.skip_multiply { factor } else { Fp17::mul(value, factor) };
        let result = fp17_to_fp16(product);
        self.counts.nans += u32::from(Fp16::is_nan(result.into()));
        result
    }
}

impl Position for Half<'_> {
    const BYTES: usize = 2;

    fn normalise(&mut self, atoms: &mut [&mut [u8]]) {
        let operation = self.operation;
        let lanes = operation.lanes;
        for (values, atom) in self.raw[REACH..].chunks_exact_mut(lanes).zip(atoms.iter()) {
            for (value, bytes) in values.iter_mut().zip(atom.chunks_exact(2)) {
                let bits = u16::from_le_bytes([bytes[0], bytes[1]]).into();
                *value = Fp16::flush_nan(bits, operation.flush_nan) as i32;
            }
        }
        self.raw[REACH + operation.channels..].fill(outside(operation));
        let has_nan = self.raw.iter().any(|&bits| Fp16::is_nan(bits as u32));
        if !has_nan {
            for (value, &bits) in self.values.iter_mut().zip(&self.raw) {
                *value = f32::from_bits(fp17_to_fp32(fp16_to_fp17(bits as u16)));
            }
            match operation.reach {
                Some(reach) => windows_half(reach, &self.values, &mut self.squares, &mut self.sums),
                None => self.sums.copy_from_slice(&self.values[REACH..REACH + operation.elements]),
            }
        }
        for (surface, atom) in atoms.iter_mut().enumerate() {
            for (lane, bytes) in atom.chunks_exact_mut(2).enumerate() {
                let channel = operation.source.cube.atoms().channel(surface, lane);
                let result = if has_nan {
                    let window = &self.raw[channel..][..=2 * REACH];
                    reference::fp16(operation, self.tables, window, &mut self.counts)
                } else {
                    self.result(channel)
                };
                bytes.copy_from_slice(&result.to_le_bytes());
            }
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
