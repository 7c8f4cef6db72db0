// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP a position at a time: all channels of one column of one line, in loops that compile to vector instructions. Large
//! cubes are shared out by lines between threads.

// A loop is compiled for an instruction set only with what is inlined into it.
#![allow(clippy::inline_always)]
// A lazy operator is a branch, which vectors do not have.
#![allow(clippy::needless_bitwise_bool)]

use nvdla_uapi::layout::feature::View;
use nvdla_uapi::reg::values::Precision;

use rayon::prelude::*;

use super::{Converter, Counts, Operation, State};
use crate::lut::Counters;
use crate::memory::{Memory, Stop};

/// Defines a function whose loops are compiled for AVX-512 and AVX2, used where the processor has them, and for what every
/// processor of the target has.
macro_rules! vectorised {
    ($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$attribute])*
        fn $name($($argument: $type),*) {
            #[inline(always)]
            fn body($($argument: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                use crate::conv::Isa;
                #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
                fn widest($($argument: $type),*) {
                    body($($argument),*);
                }
                #[target_feature(enable = "avx2,lzcnt")]
                fn wide($($argument: $type),*) {
                    body($($argument),*);
                }
                if Isa::best() == Isa::Avx512 {
                    // SAFETY: the processor has what `Isa::Avx512` stands for.
                    unsafe { widest($($argument),*) };
                    return;
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("lzcnt") {
                    // SAFETY: the processor has AVX2 and LZCNT.
                    unsafe { wide($($argument),*) };
                    return;
                }
            }
            body($($argument),*);
        }
    };
}

mod half;
mod int16;
pub(super) mod int8;

/// Elements from which a second thread pays.
const PARALLEL: usize = if cfg!(test) { 1 << 10 } else { 1 << 14 };
/// Lines that a thread takes in a round, whose results wait for those of the lines before.
const LINES: usize = 4;
/// Bytes of a round at most, but for a single line.
const ROUND: usize = 8 << 20;

pub(super) fn normalise(operation: &Operation, state: &mut State, memory: &mut dyn Memory) -> Result<Counts, Stop> {
    let State { tables, cache } = state;
    match operation.precision {
        Precision::Int8 => {
            let cache = cache.of(operation, tables);
            line_by_line(|| int8::Int8::new(operation, tables, cache), operation, memory)
        }
        Precision::Int16 => {
            let lookup = int16::lookup(operation, tables);
            line_by_line(|| int16::Int16::new(operation, tables, lookup.as_ref()), operation, memory)
        }
        Precision::Fp16 => {
            let lookup = half::lookup(operation, tables);
            line_by_line(|| half::Half::new(operation, tables, lookup.as_ref()), operation, memory)
        }
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

fn line_by_line<P: Position>(
    new: impl Fn() -> P + Sync,
    operation: &Operation,
    memory: &mut dyn Memory,
) -> Result<Counts, Stop> {
    let atoms = operation.source.cube.atoms();
    let length = atoms.span(operation.width);
    debug_assert_eq!(atoms.bytes(), operation.lanes * P::BYTES);
    let bytes = View::packed(operation.surfaces, 1, operation.width, atoms.bytes()).cube;
    let elements = bytes / P::BYTES * operation.height;
    let threads = if elements < PARALLEL { 1 } else { rayon::current_num_threads() };
    // Results of a round wait in memory.
    let round = (ROUND / bytes).clamp(1, threads * LINES);
    let each = round.div_ceil(threads);
    let mut buffer = vec![0; bytes * round.min(operation.height)];
    let mut counts = Counts::default();
    let mut position = (threads == 1).then(&new);
    for first in (0..operation.height).step_by(round) {
        let count = (operation.height - first).min(round);
        let buffer = &mut buffer[..count * bytes];
        if let Some(position) = &mut position {
            for (y, lines) in buffer.chunks_exact_mut(bytes).enumerate() {
                line(position, operation, memory, first + y, lines)?;
            }
        } else {
            let shared: &dyn Memory = memory;
            let done: Vec<Result<Counts, Stop>> = buffer
                .par_chunks_mut(bytes * each)
                .enumerate()
                .map(|(part, part_lines)| {
                    let mut position = new();
                    for (y, lines) in part_lines.chunks_exact_mut(bytes).enumerate() {
                        line(&mut position, operation, shared, first + part * each + y, lines)?;
                    }
                    Ok(position.counts())
                })
                .collect();
            for part in done {
                counts += part?;
            }
        }
        for (y, lines) in buffer.chunks_exact(bytes).enumerate() {
            for (surface, line) in lines.chunks_exact(length).enumerate() {
                operation.destination.write(memory, surface, [first + y, 0], line)?;
            }
        }
    }
    Ok(position.map_or(counts, |position| position.counts()))
}

/// Reads a line of all surfaces and normalises it.
fn line<P: Position>(
    position: &mut P,
    operation: &Operation,
    memory: &dyn Memory,
    y: usize,
    lines: &mut [u8],
) -> Result<(), Stop> {
    let atoms = operation.source.cube.atoms();
    let (atom, length) = (atoms.bytes(), atoms.span(operation.width));
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
    Ok(())
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
        let Output { converter, minimum, maximum, counted: [low, high] } = *output;
        let (offset, scale, shift) = (i64::from(converter.offset), i64::from(converter.scale), converter.shift);
        let half = half(shift) as u64;
        let mut count = 0u64;
        for value in values {
            let scaled = (*value).wrapping_sub(offset).wrapping_mul(scale);
            count += u64::from((scaled < low) | (scaled >= high));
            let rounded = (scaled.unsigned_abs().wrapping_add(half) >> shift) as i64;
            let rounded = if scaled < 0 { rounded.wrapping_neg() } else { rounded };
            *value = rounded.max(minimum).min(maximum);
        }
        *saturated = saturated.wrapping_add(count as u32);
    }
}

/// Counters of as many lookups of each class.
fn counters(counts: [u32; 5]) -> Counters {
    let [under, over, hybrid, le_hit, lo_hit] = counts;
    Counters { under, over, hybrid, le_hit, lo_hit }
}
