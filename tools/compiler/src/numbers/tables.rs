// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lookup tables of integers, and which steps share one.
//!
//! Loading a table takes 334 register writes while SDP is idle, so the steps with one function have one table where their outputs
//! allow it. X1 brings the arguments of all of them to the same unit, and the output converter takes the table's step.

use std::collections::HashMap;
use std::ops::Range;

use nvdla_uapi::desc::{Lut, LutSlope, LUT_LINEAR_EXP_ENTRIES, LUT_LINEAR_ONLY_ENTRIES};
use nvdla_uapi::reg::values::{LutFunction, LutTable};

use crate::net::step::{Tabulated, TensorId};
use crate::numbers::tails;
use crate::quantize::exponent;

/// Units between two entries of a shared table.
pub(crate) const UNITS: f64 = 1024.0;
/// The most units of a step of the arguments, which X1's factor of 16 bits makes.
const MOST_UNITS: f64 = 32_000.0;
/// The error of a shared table in steps of an output, up to which it takes the place of a table of its own. Rounding the output has
/// errors of up to half a step.
const ERROR: f64 = 0.125;
/// Arguments at which the error of a table is computed.
const SAMPLES: usize = 1024;

/// A function that jumps, as two curves: one up to the jump, which stays the same above it, and one above it.
pub(crate) struct Halves<'f> {
    function: &'f dyn Fn(f64) -> f64,
    /// The last argument of the first curve.
    pub(crate) jump: f64,
}

impl<'f> Halves<'f> {
    /// The function as halves; without a jump, all of it is the first curve.
    pub(crate) fn new(function: &'f dyn Fn(f64) -> f64, jump: Option<f64>) -> Self {
        Self { function, jump: jump.unwrap_or(f64::INFINITY) }
    }

    /// The argument in whose place the first curve is computed.
    pub(crate) fn below(&self, x: f64) -> f64 {
        x.min(self.jump)
    }

    /// The second curve. Functions are computed in single precision, so it begins with the next number.
    pub(crate) fn above(&self, x: f64) -> f64 {
        (self.function)(x.max(f64::from((self.jump as f32).next_up())))
    }
}

/// A table of integers.
pub(crate) struct Table {
    pub(crate) lut: Lut,
    /// The step of its entries.
    pub(crate) step: f64,
    /// The unit of its arguments.
    unit: f64,
    /// The number of steps between the arguments at which its error is computed.
    samples: usize,
    /// Where the function jumps; infinite if it does not.
    jump: f64,
}

impl Table {
    /// A table of a function from `low` to `high`, for arguments in steps of `unit`. The first table has closer entries in the part
    /// of the range where they reduce the largest error most. With `sloped` the function continues as a line beyond the range;
    /// otherwise it stays the same. Where the function jumps, the first table begins, so that no entries lie on both sides.
    pub(crate) fn new(
        function: &dyn Fn(f64) -> f64,
        jump: Option<f64>,
        [low, high]: [f64; 2],
        unit: f64,
        sloped: bool,
    ) -> Self {
        let entries = LUT_LINEAR_ONLY_ENTRIES - 1;
        let close = LUT_LINEAR_EXP_ENTRIES - 1;
        let select = exponent((high - low).max(1e-6) / unit / entries as f64 - 1e-9).max(0.0);
        let start = (low / unit).floor();
        // Half a unit from an argument lie the others that are rounded to it.
        let end = start + entries as f64 * select.exp2();
        let middle = f64::midpoint(low, high);
        let jump = jump.filter(|jump| (start..end).contains(&(jump / unit).floor()));
        let halves = Halves::new(function, jump);
        let at = |index: f64| {
            let x = halves.below((start + index * select.exp2()) * unit);
            tails::finite(function, x, unit / 2.0, middle)
        };
        let values: Vec<f64> = (0..=entries).map(|index| at(index as f64)).collect();
        let (begin, near, closer): (f64, f64, Vec<f64>) = if jump.is_some() {
            let begin = (halves.jump / unit).floor();
            // It ends at or behind the end of the other one.
            let near = exponent((end - begin) / close as f64).max(0.0).exp2();
            (begin, near, (0..=close).map(|index| halves.above((begin + index as f64 * near) * unit)).collect())
        } else {
            let (_, first, closer) = closest(&at, select as u32);
            let part = (-f64::from(closer)).exp2();
            let values = (0..=close).map(|index| at(first as f64 + index as f64 * part));
            (start + first as f64 * select.exp2(), select.exp2() * part, values.collect())
        };
        // Entries beyond the range, where a function may be far larger, are limited, unless arguments beyond the range count.
        let last = if sloped { f64::INFINITY } else { high / unit };
        let until = |begin: f64, step: f64| (((last - begin) / step).ceil().max(0.0) as usize).saturating_add(1);
        let used = values.iter().take(until(start, select.exp2())).chain(closer.iter().take(until(begin, near)));
        let largest = used.fold(1e-12f64, |largest, value| largest.max(value.abs()));
        let step = largest / f64::from(i16::MAX);
        let entry = |value: f64| (value / step).round() as i16;
        let slope = |end: f64, length: f64| {
            let rise = if sloped { tails::slope(function, end * unit, length * unit) * unit / step } else { 0.0 };
            let shift = (f64::from(i16::MAX) / rise.abs()).log2().floor().min(15.0);
            if rise == 0.0 || shift < 0.0 {
                return LutSlope::default();
            }
            LutSlope { scale: (rise * shift.exp2()).round() as i16, shifter: shift as i8 }
        };
        let close_end = begin + close as f64 * near;
        // Arguments beyond both tables belong to the last curve.
        let (last, close_slope) = match jump {
            Some(_) => (LutTable::Le, slope(close_end, end - start)),
            None => (LutTable::Lo, LutSlope::default()),
        };
        let mut lut = Lut {
            linear_exp_start: begin as i64 as u64,
            linear_exp_end: close_end as i64 as u64,
            linear_exp_overflow_slope: close_slope,
            linear_exp_offset: near.log2() as i8,
            linear_only_start: start as i64 as u64,
            linear_only_end: end as i64 as u64,
            linear_only_offset: select as i8,
            linear_only_underflow_slope: slope(start, start - end),
            linear_only_overflow_slope: slope(end, end - start),
            hybrid_priority: LutTable::Le,
            underflow_priority: LutTable::Lo,
            overflow_priority: last,
            method: LutFunction::Linear,
            ..Lut::default()
        };
        for (entry_of, value) in lut.linear_only_table.iter_mut().zip(&values) {
            *entry_of = entry(*value);
        }
        for (entry_of, value) in lut.linear_exp_table.iter_mut().zip(&closer) {
            *entry_of = entry(*value);
        }
        Self { lut, step, unit, samples: SAMPLES, jump: halves.jump }
    }

    /// A table with an entry for each integer of a tensor of 8 bits with that scale and zero. The first table has the first entries.
    pub(crate) fn per_integer(function: &dyn Fn(f64) -> f64, zero: i32, scale: f64) -> Self {
        let first = i64::from(-128 - zero);
        let (from, to) = (first as f64 * scale, (first + 255) as f64 * scale);
        let at = |index: usize| {
            let x = (first + index.min(255) as i64) as f64 * scale;
            tails::finite(function, x, scale / 2.0, f64::midpoint(from, to))
        };
        let largest = (0..256).fold(1e-12f64, |largest, index| largest.max(at(index).abs()));
        let step = largest / f64::from(i16::MAX);
        let end = |entries: usize| (first + entries as i64 - 1) as u64;
        let mut lut = Lut {
            linear_exp_start: first as u64,
            linear_exp_end: end(LUT_LINEAR_EXP_ENTRIES),
            linear_only_start: first as u64,
            linear_only_end: end(LUT_LINEAR_ONLY_ENTRIES),
            hybrid_priority: LutTable::Le,
            underflow_priority: LutTable::Lo,
            overflow_priority: LutTable::Lo,
            method: LutFunction::Linear,
            ..Lut::default()
        };
        for entries in [&mut lut.linear_exp_table[..], &mut lut.linear_only_table[..]] {
            entries.iter_mut().enumerate().for_each(|(index, entry)| *entry = (at(index) / step).round() as i16);
        }
        Self { lut, step, unit: scale, samples: 255, jump: f64::INFINITY }
    }

    /// What it gives for an argument, before the result is rounded.
    fn value(&self, x: f64) -> f64 {
        let Self { lut, step, unit, .. } = self;
        let position = |start: u64, select: i8| (x / unit - start as i64 as f64) / f64::from(select).exp2();
        let line = |entries: &[i16], position: f64| {
            let index = (position.floor() as usize).min(entries.len() - 2);
            let [low, high] = [index, index + 1].map(|index| f64::from(entries[index]));
            low + (high - low) * (position - index as f64)
        };
        let beyond = |entry: i16, end: u64, slope: LutSlope| {
            f64::from(entry) + (x / unit - end as i64 as f64) * f64::from(slope.scale) / f64::from(slope.shifter).exp2()
        };
        let near = position(lut.linear_exp_start, lut.linear_exp_offset);
        let far = position(lut.linear_only_start, lut.linear_only_offset);
        let (close, entries) = (&lut.linear_exp_table, &lut.linear_only_table);
        step * if near > 0.0 && near < (close.len() - 1) as f64 {
            line(close, near)
        } else if far < 0.0 {
            beyond(entries[0], lut.linear_only_start, lut.linear_only_underflow_slope)
        } else if far >= (entries.len() - 1) as f64 && lut.overflow_priority == LutTable::Le {
            beyond(close[close.len() - 1], lut.linear_exp_end, lut.linear_exp_overflow_slope)
        } else if far >= (entries.len() - 1) as f64 {
            beyond(entries[entries.len() - 1], lut.linear_only_end, lut.linear_only_overflow_slope)
        } else {
            line(entries, far)
        }
    }

    /// The largest error from `low` to `high`. An argument within a unit of a jump may be on either side of it.
    pub(crate) fn error(&self, function: &dyn Fn(f64) -> f64, [low, high]: [f64; 2]) -> f64 {
        let errors = (0..=self.samples).map(|at| {
            let x = low + (high - low) * at as f64 / self.samples as f64;
            let value = function(x);
            if value.is_finite() && (x - self.jump).abs() > self.unit {
                (self.value(x) - value).abs()
            } else {
                0.0
            }
        });
        errors.fold(0.0, f64::max)
    }
}

/// The largest error of the `lines` between entries. `at` gives the function at the position of an entry.
pub(crate) fn bend(at: &dyn Fn(f64) -> f64, entries: &dyn Fn(usize) -> f64, lines: Range<usize>) -> f64 {
    let errors = lines.flat_map(|index| {
        (0..4).map(move |quarter| {
            let part = f64::from(quarter) / 4.0;
            let line = entries(index) * (1.0 - part) + entries(index + 1) * part;
            (at(index as f64 + part) - line).abs()
        })
    });
    errors.fold(0f64, f64::max)
}

/// The entries at the ends of `count` lines, of which those between two lines lie off the function, so that it crosses each line. That
/// halves the largest error where the function bends, and takes away its mean. Where it bends on one side only, the entry is the function's.
pub(crate) fn crossed(at: &dyn Fn(f64) -> f64, count: usize) -> Vec<f64> {
    let mut entries: Vec<f64> = (0..=count).map(|index| at(index as f64)).collect();
    let above: Vec<f64> =
        entries.windows(2).enumerate().map(|(k, ends)| f64::midpoint(ends[0], ends[1]) - at(k as f64 + 0.5)).collect();
    for (entry, sides) in entries[1..].iter_mut().zip(above.windows(2)) {
        if sides[0] * sides[1] > 0.0 {
            *entry -= sides[0].abs().min(sides[1].abs()).copysign(sides[0]) / 2.0;
        }
    }
    entries
}

/// Where 65 entries between 257 others reduce the largest error of linear interpolation most: the largest error, the first of the
/// others, and by how many powers of two they are closer, at most `most`. `at` gives the function at a position among the others.
pub(crate) fn closest(at: &dyn Fn(f64) -> f64, most: u32) -> (f64, usize, u32) {
    let entries = LUT_LINEAR_ONLY_ENTRIES - 1;
    let close = LUT_LINEAR_EXP_ENTRIES - 1;
    let error = |first: f64, step: f64, count: usize| {
        let near = |position: f64| at(first + position * step);
        bend(&near, &|index| near(index as f64), 0..count)
    };
    let errors: Vec<f64> = (0..entries).map(|index| error(index as f64, 1.0, 1)).collect();
    let largest = |errors: &[f64]| errors.iter().copied().fold(0f64, f64::max);
    let worst = (0..entries).max_by(|&a, &b| errors[a].total_cmp(&errors[b])).unwrap_or(0);
    let mut best = (f64::INFINITY, 0, 0);
    for closer in 1..=close.ilog2().min(most) {
        let covered = close >> closer;
        for first in (worst + 1).saturating_sub(covered)..=worst.min(entries - covered) {
            let outside = largest(&errors[..first]).max(largest(&errors[first + covered..]));
            let within = error(first as f64, 1.0 / f64::from(1 << closer), close);
            if outside.max(within) < best.0 {
                best = (outside.max(within), first, closer);
            }
        }
    }
    best
}

/// A step that ends with a table whose arguments may have any unit.
pub(crate) struct User {
    pub(crate) output: TensorId,
    pub(crate) function: Tabulated,
    /// The range of its arguments.
    pub(crate) range: [f64; 2],
    /// The scale of its output.
    pub(crate) scale: f64,
    /// The step of the integers that X1 multiplies.
    pub(crate) step: f64,
}

/// The ranges of shared tables, by the tensors that are made with them.
pub(crate) fn shared(mut users: Vec<User>) -> HashMap<TensorId, [f64; 2]> {
    let mut ranges = HashMap::new();
    while let Some(function) = users.first().map(|user| user.function) {
        let (mut of_one, others): (Vec<User>, Vec<User>) =
            users.into_iter().partition(|user| user.function == function);
        users = others;
        let jump = function.jump();
        let function = |x: f64| function.at(x);
        let own = |user: &User| {
            let unit = (user.range[1] - user.range[0]) / 256.0 / UNITS;
            let table = Table::new(&function, jump, user.range, unit, false);
            (table.error(&function, user.range)).max(ERROR * user.scale)
        };
        let mut most: Vec<f64> = of_one.iter().map(own).collect();
        // A table for all, one for those whose outputs have too small steps for it, and so on.
        while of_one.len() > 1 {
            let [low, high] = of_one
                .iter()
                .fold([f64::MAX, f64::MIN], |[low, high], user| [low.min(user.range[0]), high.max(user.range[1])]);
            let finest = most.iter().copied().fold(f64::MAX, f64::min);
            let range = tails::shortened(&function, [low, high], true, finest / 2.0);
            // X1's factor brings each step to units.
            let largest = of_one.iter().map(|user| user.step).fold(0.0, f64::max);
            let missing = (largest / MOST_UNITS * 256.0 * UNITS - (range[1] - range[0])).max(0.0) / 2.0;
            let range = [range[0] - missing, range[1] + missing];
            let table = Table::new(&function, jump, range, (range[1] - range[0]) / 256.0 / UNITS, true);
            let fits = |(user, most): &(User, f64)| table.error(&function, user.range) <= *most;
            let (sharing, rest): (Vec<_>, Vec<_>) = of_one.into_iter().zip(most).partition(fits);
            let alone = sharing.len() < 2;
            ranges.extend(sharing.into_iter().filter(|_| !alone).map(|(user, _)| (user.output, range)));
            (of_one, most) = if alone { Default::default() } else { rest.into_iter().unzip() };
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Unary;

    #[test]
    fn crossed_lines_have_half_the_error() {
        for function in [Unary::Silu, Unary::Gelu, Unary::Sigmoid, Unary::Tanh, Unary::Softplus] {
            let at = |index: f64| f64::from(function.apply((index / 8.0 - 4.0) as f32));
            let entries = crossed(&at, 64);
            let half = bend(&at, &|index| entries[index], 0..64);
            let whole = bend(&at, &|index| at(index as f64), 0..64);
            assert!(half < 0.6 * whole, "{function:?}: {half} of {whole}");
            assert!((entries[0] - at(0.0)).abs() + (entries[64] - at(64.0)).abs() < 1e-12);
        }
    }

    #[test]
    fn entries_beside_a_kink_are_exact() {
        let at = |index: f64| (index - 8.3).max(0.0);
        assert_eq!(crossed(&at, 16), (0..=16).map(|index| at(f64::from(index))).collect::<Vec<_>>());
    }
}
