// SPDX-License-Identifier: MIT OR Apache-2.0

//! Computes one row of int8 or int16.
//!
//! ```text
//! values  = limit((elements - offset) * scale >> shift)     9 bits for int8, 17 for int16
//! sums    = sums of squares around each value, or the values
//! factors = lookup(sums)
//! results = limit((factors * values - offset) * scale >> shift)
//! ```
//!
//! Values that do not fit 32 bits are computed in fp64, which holds all of them exactly: a product has 33 bits, 34
//! after the offset is subtracted, and 50 after the multiplication by the scale.

// Only code that is inlined into a loop is compiled for the loop's instruction set.
#![allow(clippy::inline_always)]
// A lazy operator would be a branch, which prevents vectorisation.
#![allow(clippy::needless_bitwise_bool)]

use super::factor_cache::FactorCache;
use super::operation::{Converter, Counts, Operation, REACH};
use super::strips::{Element, Engine};
use crate::lut::cdp::vector::{counters, Vectors, CLASSES, WIDTH};
use crate::lut::cdp::Lookup;
use crate::lut::{Counters, Tables};
use nvdla_uapi::isa::Isa;

/// A precision and its lookup.
pub(super) trait Form: Sync {
    type Element: Element + Into<i32>;
    /// A converted value.
    type Value: Copy + Default + Send + Into<i32>;
    /// A sum of squares.
    type Sum: Copy + Default + Send + std::ops::Add<Output = Self::Sum>;
    /// Bits of a converted value.
    const VALUE: u32;
    /// Bits of a result.
    const RESULT: u32;
    /// Keeps the low bits of a converted value.
    fn value(value: i32) -> Self::Value;
    fn sum(value: Self::Value) -> Self::Sum;
    fn square(value: Self::Value) -> Self::Sum;
    /// Stores the low bits of each result.
    fn store(results: &[i32], into: &mut [u8]);
    /// Looks up the factors of `sums`. `odd` is a buffer with one mark per sum.
    fn factors(
        &self,
        isa: Isa,
        lookup: (&Lookup, &Tables),
        sums: &[Self::Sum],
        factors: &mut [i16],
        odd: &mut [bool],
        counts: &mut Counters,
    );
}

/// int8, with a cache of the lookups.
pub(super) struct Int8<'o>(pub(super) &'o FactorCache);

impl Form for Int8<'_> {
    type Element = i8;
    type Value = i16;
    type Sum = i32;
    const VALUE: u32 = 9;
    const RESULT: u32 = 8;

    #[inline(always)]
    fn value(value: i32) -> i16 {
        value as i16
    }

    #[inline(always)]
    fn sum(value: i16) -> i32 {
        value.into()
    }

    #[inline(always)]
    fn square(value: i16) -> i32 {
        i32::from(value) * i32::from(value)
    }

    #[inline(always)]
    fn store(results: &[i32], into: &mut [u8]) {
        for (byte, &result) in into.iter_mut().zip(results) {
            *byte = result as u8;
        }
    }

    fn factors(
        &self,
        _: Isa,
        (lookup, tables): (&Lookup, &Tables),
        sums: &[i32],
        factors: &mut [i16],
        _: &mut [bool],
        counts: &mut Counters,
    ) {
        let mut classes = [0; CLASSES];
        self.0.factors(lookup, tables, sums, factors, &mut classes);
        *counts += counters(classes);
    }
}

/// int16. Without [`Vectors`], each sum is looked up separately.
pub(super) struct Int16<'o>(pub(super) Option<&'o Vectors<f64>>);

impl Form for Int16<'_> {
    type Element = i16;
    type Value = i32;
    type Sum = f64;
    const VALUE: u32 = 17;
    const RESULT: u32 = 16;

    #[inline(always)]
    fn value(value: i32) -> i32 {
        value
    }

    #[inline(always)]
    fn sum(value: i32) -> f64 {
        value.into()
    }

    #[inline(always)]
    fn square(value: i32) -> f64 {
        f64::from(value) * f64::from(value)
    }

    #[inline(always)]
    fn store(results: &[i32], into: &mut [u8]) {
        for (bytes, &result) in into.as_chunks_mut::<2>().0.iter_mut().zip(results) {
            *bytes = (result as i16).to_le_bytes();
        }
    }

    fn factors(
        &self,
        isa: Isa,
        (lookup, tables): (&Lookup, &Tables),
        sums: &[f64],
        factors: &mut [i16],
        odd: &mut [bool],
        counts: &mut Counters,
    ) {
        let mut classes = [0; CLASSES];
        odd.fill(true);
        if let Some(vectors) = self.0 {
            look_up(isa, vectors, sums, factors, odd, &mut classes);
        }
        for ((factor, &sum), _) in factors.iter_mut().zip(sums).zip(&*odd).filter(|(_, &odd)| odd) {
            *factor = lookup.int(tables, sum as i64, counts);
        }
        *counts += counters(classes);
    }
}

vectorised! {
    /// Looks up factors in whole groups of [`WIDTH`]. Clears `odd` where the factor holds; the caller has set all of
    /// it.
    fn look_up(
        lookup: &Vectors<f64>,
        sums: &[f64],
        factors: &mut [i16],
        odd: &mut [bool],
        classes: &mut [u32; CLASSES],
    ) {
        #[inline(always)]
        fn all<const EXPONENT: bool>(
            lookup: &Vectors<f64>,
            sums: &[f64],
            factors: &mut [i16],
            odd: &mut [bool],
            classes: &mut [u32; CLASSES],
        ) {
            let (factors, odd) = (factors.as_chunks_mut::<WIDTH>().0, odd.as_chunks_mut::<WIDTH>().0);
            for ((factors, odd), sums) in factors.iter_mut().zip(odd).zip(sums.as_chunks::<WIDTH>().0) {
                let found = lookup.get::<EXPONENT>(sums);
                found.count(classes);
                for (factor, value) in factors.iter_mut().zip(found.factors) {
                    // SAFETY: factors are 16-bit integers.
                    let whole: i32 = unsafe { value.to_int_unchecked() };
                    *factor = whole as i16;
                }
                *odd = found.odd;
            }
        }
        if lookup.is_exponential {
            all::<true>(lookup, sums, factors, odd, classes);
        } else {
            all::<false>(lookup, sums, factors, odd, classes);
        }
    }
}

vectorised! {
    /// An input converter that only subtracts an offset, which never reaches the limits.
    fn shift<F: Form>(offset: i32, elements: &[F::Element], values: &mut [F::Value]) {
        for (value, &element) in values.iter_mut().zip(elements) {
            let element: i32 = element.into();
            *value = F::value(element - offset);
        }
    }
}

vectorised! {
    /// Any other input converter.
    fn convert<F: Form>(converter: &Scaling, elements: &[F::Element], values: &mut [F::Value]) {
        let scaling = *converter;
        for (value, &element) in values.iter_mut().zip(elements) {
            *value = F::value(scaling.apply(f64::from(element.into())).0);
        }
    }
}

vectorised! {
    /// Sums `2 * reach + 1` squares around each value except the first and last [`REACH`].
    fn windows<F: Form>(reach: usize, values: &[F::Value], squares: &mut [F::Sum], sums: &mut [F::Sum]) {
        for (square, &value) in squares.iter_mut().zip(values) {
            *square = F::square(value);
        }
        sums.copy_from_slice(&squares[REACH..][..sums.len()]);
        for distance in 1..=reach {
            let (before, after) = (&squares[REACH - distance..], &squares[REACH + distance..]);
            for ((sum, &before), &after) in sums.iter_mut().zip(before).zip(after) {
                *sum = *sum + (before + after);
            }
        }
    }
}

/// A converter in fp64.
#[derive(Clone, Copy, Debug)]
struct Scaling {
    offset: f64,
    scale: f64,
    /// 2^-shift.
    step: f64,
    minimum: f64,
    maximum: f64,
    /// The hardware counts a saturation below the first limit and from the second limit on. Without rounding, such
    /// values are more than one beyond the result's limits.
    counted: [f64; 2],
}

impl Scaling {
    /// The converter to results of `bits` bits.
    fn new(converter: Converter, bits: u32) -> Self {
        let (minimum, maximum) = limits(bits);
        let power = |exponent: u32| 2f64.powi(exponent as i32);
        let counted = [minimum - 1, maximum + 2].map(|limit| limit as f64 * power(converter.shift));
        Self {
            offset: converter.offset.into(),
            scale: converter.scale.into(),
            step: 1.0 / power(converter.shift),
            minimum: minimum as f64,
            maximum: maximum as f64,
            counted,
        }
    }

    /// Converts a value. Also returns whether the hardware counts it as saturated.
    #[inline(always)]
    fn apply(self, value: f64) -> (i32, bool) {
        let scaled = (value - self.offset) * self.scale;
        let is_counted = (scaled < self.counted[0]) | (scaled >= self.counted[1]);
        let real = scaled * self.step;
        // Round half away from zero.
        let rounded = real + 0.5f64.copysign(real);
        let rounded = if rounded < self.minimum { self.minimum } else { rounded };
        let rounded = if rounded > self.maximum { self.maximum } else { rounded };
        // SAFETY: it lies between the limits.
        (unsafe { rounded.to_int_unchecked() }, is_counted)
    }
}

/// The smallest and the largest signed integer of `bits` bits.
const fn limits(bits: u32) -> (i64, i64) {
    (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
}

/// An output converter whose intermediate values fit 32 bits.
#[derive(Clone, Copy, Debug)]
struct Narrow {
    offset: i32,
    scale: i32,
    shift: u32,
    /// Half of the last place that the shift keeps.
    half: u32,
    minimum: i32,
    maximum: i32,
    /// As [`Scaling::counted`].
    counted: [i32; 2],
}

impl Narrow {
    /// The converter of products up to `largest` in magnitude to results of `bits` bits. `None` if an intermediate
    /// value can exceed 32 bits.
    fn new(converter: Converter, bits: u32, largest: i64) -> Option<Self> {
        let Converter { offset, scale, shift } = converter;
        let (minimum, maximum) = limits(bits);
        let half = 1u32.checked_shl(shift)? >> 1;
        let scaled = (largest + i64::from(offset).abs()) * i64::from(scale).abs() + i64::from(half);
        let fit = |value: i64| i32::try_from(value).ok();
        fit(scaled)?;
        let counted = [fit((minimum - 1) << shift)?, fit((maximum + 2) << shift)?];
        Some(Self {
            offset,
            scale: scale.into(),
            shift,
            half,
            minimum: minimum as i32,
            maximum: maximum as i32,
            counted,
        })
    }

    /// As [`Scaling::apply`].
    #[inline(always)]
    fn apply(self, value: i32) -> (i32, bool) {
        let scaled = value.wrapping_sub(self.offset).wrapping_mul(self.scale);
        let is_counted = (scaled < self.counted[0]) | (scaled >= self.counted[1]);
        let magnitude = (scaled.unsigned_abs().wrapping_add(self.half) >> self.shift) as i32;
        let rounded = if scaled < 0 { magnitude.wrapping_neg() } else { magnitude };
        (rounded.max(self.minimum).min(self.maximum), is_counted)
    }
}

/// The factors and the values to multiply.
type Operands<'r, F> = (&'r [i16], &'r [<F as Form>::Value]);

vectorised! {
    /// Multiplies factors by values unless `skip_multiply` is set, and converts in 32 bits. Returns the saturation
    /// count.
    fn narrow_results<F: Form>(
        converter: &Narrow,
        skip_multiply: bool,
        operands: Operands<'_, F>,
        results: &mut [i32],
        into: &mut [u8],
    ) -> u32 {
        let (converter, mut count) = (*converter, 0);
        for ((result, &factor), &value) in results.iter_mut().zip(operands.0).zip(operands.1) {
            let factor = i32::from(factor);
            let product = if skip_multiply { factor } else { factor.wrapping_mul(value.into()) };
            let (converted, is_counted) = converter.apply(product);
            *result = converted;
            count += u32::from(is_counted);
        }
        F::store(results, into);
        count
    }
}

vectorised! {
    /// As [`narrow_results`], in fp64.
    fn wide_results<F: Form>(
        converter: &Scaling,
        skip_multiply: bool,
        operands: Operands<'_, F>,
        results: &mut [i32],
        into: &mut [u8],
    ) -> u32 {
        let (converter, mut count) = (*converter, 0);
        for ((result, &factor), &value) in results.iter_mut().zip(operands.0).zip(operands.1) {
            let factor = f64::from(factor);
            let product = if skip_multiply { factor } else { factor * f64::from(value.into()) };
            let (converted, is_counted) = converter.apply(product);
            *result = converted;
            count += u32::from(is_counted);
        }
        F::store(results, into);
        count
    }
}

/// A thread's buffers for one row.
#[derive(Debug, Default)]
pub(super) struct Buffers<V, S> {
    values: Vec<V>,
    squares: Vec<S>,
    sums: Vec<S>,
    factors: Vec<i16>,
    odd: Vec<bool>,
    results: Vec<i32>,
}

/// An int8 or int16 operation.
pub(super) struct Integer<'o, F> {
    isa: Isa,
    operation: &'o Operation,
    tables: &'o Tables,
    form: F,
    /// The input converter, unless it only subtracts its offset.
    input: Option<Scaling>,
    narrow: Option<Narrow>,
    wide: Scaling,
}

impl<'o, F: Form> Integer<'o, F> {
    pub(super) fn new(isa: Isa, operation: &'o Operation, tables: &'o Tables, form: F) -> Self {
        let Operation { input, output, skip_multiply, .. } = *operation;
        let shifts = input.scale == 1 && input.shift == 0;
        let largest = if skip_multiply { 1 << 15 } else { 1 << (15 + F::VALUE - 1) };
        Self {
            isa,
            operation,
            tables,
            form,
            input: (!shifts).then(|| Scaling::new(input, F::VALUE)),
            narrow: Narrow::new(output, F::RESULT, largest),
            wide: Scaling::new(output, F::RESULT),
        }
    }
}

impl<F: Form> Engine for Integer<'_, F> {
    type Element = F::Element;
    type Buffers = Buffers<F::Value, F::Sum>;

    fn outside(&self) -> F::Element {
        F::Element::low(self.operation.input.offset)
    }

    fn prepare(&self, buffers: &mut Self::Buffers, elements: usize) {
        let around = elements + 2 * REACH;
        buffers.values.resize(around, F::Value::default());
        buffers.squares.resize(around, F::Sum::default());
        buffers.sums.resize(elements, F::Sum::default());
        buffers.factors.resize(elements, 0);
        buffers.odd.resize(elements, true);
        buffers.results.resize(elements, 0);
    }

    fn row(&self, buffers: &mut Self::Buffers, around: &[F::Element], into: &mut [u8]) -> Counts {
        let Buffers { values, squares, sums, factors, odd, results } = buffers;
        let Operation { reach, skip_multiply, input, ref lookup, .. } = *self.operation;
        let mut counts = Counts::default();
        match &self.input {
            None => shift::<F>(self.isa, input.offset, around, values),
            Some(scaling) => convert::<F>(self.isa, scaling, around, values),
        }
        match reach {
            Some(reach) => windows::<F>(self.isa, reach, values, squares, sums),
            None => sums.iter_mut().zip(&values[REACH..]).for_each(|(sum, &value)| *sum = F::sum(value)),
        }
        self.form.factors(self.isa, (lookup, self.tables), sums, factors, odd, &mut counts.lut);
        let operands = (&factors[..], &values[REACH..]);
        counts.saturated = match &self.narrow {
            Some(narrow) => narrow_results::<F>(self.isa, narrow, skip_multiply, operands, results, into),
            None => wide_results::<F>(self.isa, &self.wide, skip_multiply, operands, results, into),
        };
        counts
    }
}
