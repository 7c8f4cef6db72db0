// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which arguments of a function a lookup table covers, and how the function continues beyond them.
//!
//! Sigmoid, SiLU, ELU and similar functions approach a line on both sides. If a table also covered the arguments where they are
//! nearly a line, its entries would be too far apart where they bend.

use crate::quantize::exponent;

/// The largest error of a line in place of a function in fp16: the least normal number.
pub(crate) const ERROR: f64 = 1.0 / 16384.0;
/// The largest difference of the slopes of a line, taken at two distances.
const BEND: f64 = 1e-3;
/// The least distance from the end of a table to where the function is a line.
const FAR: f64 = 16.0;

/// The slope of the line that a function approaches beyond `end`, on the side that `length` points to; 0 if it approaches none.
pub(crate) fn slope(function: &dyn Fn(f64) -> f64, end: f64, length: f64) -> f64 {
    let length = length.abs().max(FAR).copysign(length);
    let between =
        |near: f64, far: f64| (function(end + far * length) - function(end + near * length)) / ((far - near) * length);
    let (near, far) = (between(1.0, 2.0), between(4.0, 8.0));
    if (near - far).abs() < BEND {
        far
    } else {
        0.0
    }
}

/// The value of a function; where it is infinite, its value at `distance` from there, on the side of `inside`.
pub(crate) fn finite(function: &dyn Fn(f64) -> f64, x: f64, distance: f64, inside: f64) -> f64 {
    let value = function(x);
    let value = if value.is_infinite() { function(x + distance.copysign(inside - x)) } else { value };
    if value.is_finite() {
        value
    } else {
        0.0
    }
}

/// The relative error of a line: functions are computed in single precision.
const SINGLE: f64 = 1.0 / (1 << 20) as f64;
/// The parts of its distance from 0 that an end keeps when it is moved: half where that is possible. Entries are a power of two
/// apart, so an end that is a little too far away can double the distance of all entries.
const PARTS: [f64; 2] = [0.5, 15.0 / 16.0];

/// Moves both ends of a range towards 0 while a line beyond them is as good as the function, and the range is not empty. Without
/// `sloped` the line has slope 0. `error` is the largest error of the line.
pub(crate) fn shortened(function: &dyn Fn(f64) -> f64, [low, high]: [f64; 2], sloped: bool, error: f64) -> [f64; 2] {
    let moved = |far: f64, other: f64| {
        let mut end = far;
        loop {
            let fits = |closer: &f64| {
                let empty = (other - closer) * (other - end) <= 0.0;
                let slope = if sloped { slope(function, *closer, *closer) } else { 0.0 };
                let near = |x: f64| {
                    let value = function(x);
                    (function(*closer) + (x - closer) * slope - value).abs() <= error + value.abs() * SINGLE
                };
                let all = |until: f64| (1..=64).all(|part| near(closer + (until - closer) * f64::from(part) / 64.0));
                closer.abs() >= 1.0 && !empty && all(end) && all(far)
            };
            match PARTS.map(|part| end * part).into_iter().find(fits) {
                Some(closer) => end = closer,
                None => return end,
            }
        }
    };
    let low = if low < 0.0 { moved(low, high) } else { low };
    [low, if high > 0.0 { moved(high, low) } else { high }]
}

/// The largest relative error of a line between two entries of a grown range: the last bit of half precision. The entries halve it.
const LAST_BIT: f64 = 1.0 / 2048.0;
/// How often lines may be halved where a function bends most.
const MOST_HALVINGS: u32 = 3;
/// How often a range grows at most.
const GROWTHS: usize = 8;

/// A range grown on both sides, as far as `entries` lines, a power of two long, are as good as half precision. Samples show which
/// arguments are usual, and not which are possible. `closer` lines may lie in the part where the function bends most.
pub(crate) fn widened(function: &dyn Fn(f64) -> f64, range: [f64; 2], [entries, closer]: [usize; 2]) -> [f64; 2] {
    let step = |[low, high]: [f64; 2]| exponent((high - low).max(1e-3) / entries as f64).exp2();
    let samples = (0..=64).map(|k| function(range[0] + (range[1] - range[0]) * f64::from(k) / 64.0).abs());
    let largest = samples.filter(|value| value.is_finite()).fold(0.0, f64::max);
    let near = (range[1] - range[0]) / 2.0;
    let fits = |[low, high]: &[f64; 2]| {
        let step = step([*low, *high]);
        let start = (low / step).floor() * step;
        // Half of the length on each side is worth errors relative to the largest result. More is only worth errors relative to each.
        let all = *low >= range[0] - near && *high <= range[1] + near;
        // The error of a line, as a multiple of what may be.
        let error = |k: usize| {
            let at = |part: f64| function(start + (k as f64 + part) * step);
            let [before, after] = [at(0.0), at(1.0)];
            let errors = [0.25, 0.5, 0.75].map(|part| {
                let value = at(part);
                let size = if all { largest.max(value.abs()) } else { largest.min(value.abs()) };
                let most = ERROR.max(size * LAST_BIT);
                (before + (after - before) * part - value).abs() / most
            });
            if errors.iter().all(|error| error.is_finite()) {
                errors.into_iter().fold(0.0, f64::max)
            } else {
                f64::INFINITY
            }
        };
        let errors: Vec<f64> = (0..((high - start) / step).ceil() as usize).map(error).collect();
        let bent = |error: &f64| *error > 1.0;
        let Some(first) = errors.iter().position(bent) else { return true };
        let lines = errors.iter().rposition(bent).map_or(0, |last| last + 1 - first);
        // Lines of half the length have a quarter of the error, unless there is no value between them.
        let halvings = (closer / lines).checked_ilog2().unwrap_or(0).min(MOST_HALVINGS);
        errors.iter().all(|error| *error <= f64::from(halvings).exp2().powi(2))
    };
    let grown = |[low, high]: [f64; 2]| {
        let parts = [0.5, 0.25, 0.125, 0.0625, 0.03125].map(|part| (high - low) * part);
        let both = parts.map(|more| [low - more, high + more]);
        let one = parts.into_iter().flat_map(|more| [[low, high + more], [low - more, high]]);
        both.into_iter().chain(one).find(fits)
    };
    let [low, high] = std::iter::successors(Some(range), |range| grown(*range)).take(GROWTHS).last().unwrap_or(range);
    // What the entries cover besides lies on both sides.
    let spare = ((step([low, high]) * (entries - 2) as f64 - (high - low)) / 2.0).max(0.0);
    let whole = [low - spare, high + spare];
    if fits(&whole) {
        whole
    } else {
        [low, high]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Unary;

    fn of(unary: Unary) -> impl Fn(f64) -> f64 {
        move |x| f64::from(unary.apply(x as f32))
    }

    #[test]
    fn lines_that_functions_approach() {
        let slopes = |unary| [-8.0, 8.0].map(|end: f64| slope(&of(unary), end, 2.0 * end));
        for (unary, expected) in [
            (Unary::Sigmoid, [0.0, 0.0]),
            (Unary::Silu, [0.0, 1.0]),
            (Unary::HardSwish, [0.0, 1.0]),
            (Unary::Softplus, [0.0, 1.0]),
            (Unary::Exp, [0.0, 0.0]),
            (Unary::Sqrt, [0.0, 0.0]),
        ] {
            let found = slopes(unary);
            assert!((0..2).all(|k| (found[k] - expected[k]).abs() < 1e-4), "{unary:?}: {found:?}");
        }
    }

    #[test]
    fn infinite_values_are_those_beside_them() {
        let at = |unary, x, inside| finite(&of(unary), x, 1.0 / 1024.0, inside);
        assert!((at(Unary::Log, 0.0, 1.0) + 6.931).abs() < 1e-3);
        assert!((at(Unary::Reciprocal, 0.0, -1.0) + 1024.0).abs() < 1e-3);
        assert!((at(Unary::Atanh, 1.0, 0.0) - 3.812).abs() < 1e-3);
        assert!(at(Unary::Log, -1.0, 0.0).abs() + at(Unary::Log, 1.0, 2.0).abs() < 1e-9);
    }

    #[test]
    fn tables_cover_what_bends() {
        // In halves, as integers.
        let ends = |unary, range, sloped| shortened(&of(unary), range, sloped, ERROR).map(|end| (2.0 * end) as i32);
        assert_eq!(ends(Unary::Sigmoid, [-512.0, 4.0], false), [-20, 8]);
        assert_eq!(ends(Unary::Silu, [-512.0, 512.0], false), [-24, 1024]);
        assert_eq!(ends(Unary::Silu, [-512.0, 512.0], true), [-24, 24]);
        assert_eq!(ends(Unary::Sigmoid, [-640.0, -39.0], true), [-80, -78]);
        assert_eq!(ends(Unary::Sqrt, [0.0, 100.0], true), [0, 200]);
        assert_eq!(ends(Unary::Sigmoid, [-0.5, 0.5], true), [-1, 1]);
    }

    #[test]
    fn tables_cover_arguments_beside_the_range() {
        for (unary, [low, high]) in [
            (Unary::Reciprocal, [3.0, 4.0]),
            (Unary::Reciprocal, [-4.0, -2.0]),
            (Unary::Sqrt, [1.0, 4.0]),
            (Unary::Log, [1.0, 4.0]),
            (Unary::Exp, [-8.0, 0.0]),
            (Unary::Sigmoid, [-1.0, 1.0]),
            (Unary::Atan, [-1.0, 1.0]),
            (Unary::Sinh, [-1.0, 1.0]),
            (Unary::Cos, [-3.0, 3.0]),
        ] {
            let [from, to] = widened(&of(unary), [low, high], [256, 64]);
            let quarter = (high - low) / 4.0;
            assert!(from <= low - quarter && to >= high + quarter, "{unary:?} of {low} to {high}: {from} to {to}");
        }
    }

    #[test]
    fn tables_end_where_a_function_does() {
        for (unary, [low, high]) in [(Unary::Log, [0.05, 4.0]), (Unary::Reciprocal, [0.1, 2.0])] {
            let [from, to] = widened(&of(unary), [low, high], [256, 64]);
            assert!(from > 0.0 && from <= low && to >= high, "{unary:?} of {low} to {high}: {from} to {to}");
        }
        let ends = |unary, range| widened(&of(unary), range, [256, 64]).map(|end| end as i32);
        assert_eq!(ends(Unary::Sqrt, [0.0, 256.0]), [0, 384]);
        assert_eq!(ends(Unary::Asin, [-1.0, 1.0]), [-1, 1]);
    }

    /// A range that samples give is never covered by entries that are farther apart than those of the range without samples.
    #[test]
    fn known_ranges_have_no_coarser_tables() {
        let functions = [
            Unary::Sigmoid,
            Unary::Tanh,
            Unary::Silu,
            Unary::Elu(1.0),
            Unary::Gelu,
            Unary::GeluTanh,
            Unary::Mish,
            Unary::Softplus,
            Unary::HardSwish,
            Unary::Erf,
        ];
        for unary in functions {
            let apart = |range| {
                let [low, high] = shortened(&of(unary), range, true, ERROR);
                crate::quantize::exponent((high - low) / 256.0)
            };
            let none = apart([-16.0, 16.0]);
            for end in [17.0, 20.0, 23.0, 24.0, 30.0, 33.0, 50.0, 100.0, 1000.0] {
                for range in [[-end, end + 1.0], [-end, 16.0], [-16.0, end]] {
                    assert!(apart(range) <= none, "{unary:?} of {range:?}: 2^{} instead of 2^{none}", apart(range));
                }
            }
        }
    }
}
