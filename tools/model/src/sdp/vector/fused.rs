// SPDX-License-Identifier: MIT OR Apache-2.0

//! The most common int8 operations in one loop, from data to bytes without a store between steps. The loop is written once over
//! [`Eight`] integers.
//! [`super::fused_float`] is the same for fp16.
//!
//! These are bias, batch normalisation, element-wise sums and ReLU in front of the output converter:
//!
//! `[Add] [Multiply] [Relu] [Add [Multiply] [Relu]] [Convert]`
//!
//! over int8 data or CACC's sums. A step that an operation does not have costs at most one instruction: a missing ReLU
//! has the smallest integer as its floor.

use nvdla_uapi::reg::values::Precision;

use super::super::operation::{Converter, Destination, Operation, Source};
use super::eight::{Eight, Round};
use super::lanes::{Operands, Shifts, Slot, SLOTS};
use super::operand::SlotOperands;
use super::plan::{Feed, Plan, Step};

/// The parameters of a fused loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fused {
    /// Operands of the sums.
    pub(super) adds: [Option<Slot>; 2],
    /// Operand of the multiplier, between the sums.
    pub(super) mul: Option<Slot>,
    pub(super) mul_width: MulWidth,
    pub(super) mul_round: Round,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // the loop that asks is AVX-512's
    pub(super) largest: Largest,
    /// Operand of the multiplier after the second sum, whose products stay within 32 bits.
    pub(super) second_mul: Option<Slot>,
    pub(super) second_round: Round,
    /// Least value after the multiplier.
    pub(super) first_floor: i32,
    /// Least value after the second sum.
    pub(super) second_floor: i32,
    pub(super) offset: i32,
    pub(super) scale: i32,
    pub(super) round: Round,
    /// Whether the converter's product needs 64 bits.
    pub(super) wide: bool,
    /// Whether the shifted product fits 32 bits: of the multiplier, of the converter.
    pub(super) mul_fits: bool,
    pub(super) fits: bool,
    /// Whether a sum may exceed 32 bits.
    pub(super) saturating: bool,
    /// Slots with operands that differ from element to element. Others repeat after an atom or sooner.
    pub(super) each: [bool; SLOTS],
    /// Slots with operands that are read directly from memory, one int8 per element, and the left shift of each.
    pub(super) direct: Shifts,
}

/// The largest magnitudes of values in front of the multipliers and the converter.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // as above
pub(super) struct Largest {
    pub(super) first: i64,
    pub(super) second: i64,
    pub(super) converter: i64,
}

/// The width of the multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MulWidth {
    /// 32 bits.
    Narrow,
    /// A product of 64 bits.
    Product,
    /// The sum before it also has 64 bits.
    Sum,
}

impl Fused {
    /// The operation as a fused loop, if it is one.
    pub(super) fn new(operation: &Operation, plan: &Plan) -> Option<Self> {
        if operation.processing != Precision::Int8
            || operation.output != Precision::Int8
            || matches!(operation.destination, Destination::Comparison)
            || matches!(operation.source, Source::Memory(cube) if cube.layout.precision() != Precision::Int8)
        {
            return None;
        }
        let mut steps = plan.steps().peekable();
        let mut fused = Self {
            adds: [None; 2],
            mul: None,
            mul_width: MulWidth::Narrow,
            mul_round: Round::new(0),
            largest: Largest { converter: plan.largest_difference, ..Largest::default() },
            second_mul: None,
            second_round: Round::new(0),
            first_floor: i32::MIN,
            second_floor: i32::MIN,
            offset: 0,
            scale: 1,
            round: Round::new(0),
            wide: false,
            mul_fits: false,
            fits: true,
            saturating: false,
            each: plan.feeds.map(|feed| matches!(feed, Some(Feed::Memory { per_kernel: false, .. }))),
            direct: [None; SLOTS],
        };
        let add = |step: &Step| matches!(step, Step::Add(_) | Step::AddSaturating(_));
        if let Some(Step::Add(slot) | Step::AddSaturating(slot)) = steps.next_if(add) {
            fused.adds[0] = Some(slot);
        }
        let multiply = |step: &Step| {
            matches!(
                step,
                Step::MultiplyNarrow { prelu: false, .. }
                    | Step::MultiplyWide { prelu: false, shift: 0..62, .. }
                    | Step::AddMultiplyWide { mul: Some(_), prelu: false, shift: 0..62, .. }
            )
        };
        match steps.next_if(multiply) {
            Some(Step::MultiplyNarrow { operand, shift, largest, .. }) => {
                fused.mul = Some(operand);
                fused.largest.first = largest;
                fused.mul_round = Round::new(shift);
            }
            Some(Step::MultiplyWide { operand, shift, largest, fits, .. }) => {
                fused.mul = Some(operand);
                fused.largest.first = largest;
                fused.mul_width = MulWidth::Product;
                fused.mul_fits = fits;
                fused.mul_round = Round::new(shift);
            }
            Some(Step::AddMultiplyWide { alu, mul, shift, .. }) => {
                // Its sum is the first one.
                if fused.adds[0].replace(alu).is_some() {
                    return None;
                }
                fused.mul = mul;
                fused.mul_width = MulWidth::Sum;
                fused.mul_round = Round::new(shift);
            }
            _ => {}
        }
        if steps.next_if_eq(&Step::Relu).is_some() {
            fused.first_floor = 0;
        }
        if let Some(Step::Add(slot) | Step::AddSaturating(slot)) = steps.next_if(add) {
            fused.adds[1] = Some(slot);
            let narrow = |step: &Step| matches!(step, Step::MultiplyNarrow { prelu: false, .. });
            if let Some(Step::MultiplyNarrow { operand, shift, largest, .. }) = steps.next_if(narrow) {
                fused.second_mul = Some(operand);
                fused.largest.second = largest;
                fused.second_round = Round::new(shift);
            }
            if steps.next_if_eq(&Step::Relu).is_some() {
                fused.second_floor = 0;
            }
        }
        let convert =
            |step: &Step| matches!(step, Step::ConvertNarrow | Step::ConvertWide { narrow_difference: true, .. });
        if let Some(step) = steps.next_if(convert) {
            let Converter { offset, scale, shift } = plan.converter;
            if shift >= 62 {
                return None;
            }
            (fused.offset, fused.scale, fused.round) = (offset, scale.into(), Round::new(shift));
            fused.wide = step != Step::ConvertNarrow;
            fused.fits = !matches!(step, Step::ConvertWide { fits: false, .. });
        }
        fused.saturating = plan.steps().any(|step| matches!(step, Step::AddSaturating(_)));
        if steps.next().is_some() {
            return None;
        }
        Some(fused)
    }

    /// The slots from which the loop reads operands, one per element even if the layer has only one.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.adds.into_iter().chain([self.mul, self.second_mul]).flatten()
    }
}

/// Data that the loop can take.
pub(super) trait Sample: Copy {
    fn eight<V: Eight>(data: &[Self; 8]) -> V;
}

impl Sample for u8 {
    #[inline(always)]
    fn eight<V: Eight>(data: &[Self; 8]) -> V {
        V::widen(*data)
    }
}

impl Sample for i32 {
    #[inline(always)]
    fn eight<V: Eight>(data: &[Self; 8]) -> V {
        V::load(data)
    }
}

/// How values are multiplied, by the operand and by the converter, as parameters of the loop: not at all, within 32 bits, with
/// products of 64 bits of which 32 remain, and with products that saturate.
const NONE: u8 = 0;
const NARROW: u8 = 1;
const PRODUCT: u8 = 2;
const SATURATED: u8 = 3;

/// Converts whole atoms to int8 in `into`, which has the same length, as have the operands.
#[inline(always)]
pub(super) fn run<V: Eight, T: Sample>(fused: &Fused, data: &[T], operands: &Operands, into: &mut [u8]) {
    let operand = |slot| SlotOperands::new(operands, fused.each, fused.direct, slot);
    let (first, second) = (operand(fused.adds[0]), operand(fused.adds[1]));
    let (factor, second_factor) = (operand(fused.mul), operand(fused.second_mul));
    let product = |fits: bool, round: Round| if fits && (1..=32).contains(&round.shift) { PRODUCT } else { SATURATED };
    let mul = match (fused.mul, fused.mul_width) {
        (None, _) => NONE,
        (_, MulWidth::Narrow) => NARROW,
        (_, MulWidth::Product) => product(fused.mul_fits, fused.mul_round),
        (_, MulWidth::Sum) => SATURATED,
    };
    let is_identity = fused.offset == 0 && fused.scale == 1 && fused.round.shift == 0;
    let convert = match (is_identity, fused.wide) {
        (true, _) => NONE,
        (_, false) => NARROW,
        (_, true) => product(fused.fits, fused.round),
    };
    let inputs = Inputs { fused, data, first, second, factor, second_factor };
    match mul {
        NONE => inputs.by_converter::<V, NONE>(convert, into),
        NARROW => inputs.by_converter::<V, NARROW>(convert, into),
        PRODUCT => inputs.by_converter::<V, PRODUCT>(convert, into),
        _ => inputs.by_converter::<V, SATURATED>(convert, into),
    }
}

/// The inputs of the loop.
struct Inputs<'l, T> {
    fused: &'l Fused,
    data: &'l [T],
    first: SlotOperands<'l>,
    second: SlotOperands<'l>,
    factor: SlotOperands<'l>,
    second_factor: SlotOperands<'l>,
}

impl<T: Sample> Inputs<'_, T> {
    #[inline(always)]
    fn by_converter<V: Eight, const MUL: u8>(&self, convert: u8, into: &mut [u8]) {
        match (convert, self.fused.adds[1]) {
            (NONE, None) => self.each::<V, MUL, NONE, false>(into),
            (NARROW, None) => self.each::<V, MUL, NARROW, false>(into),
            (PRODUCT, None) => self.each::<V, MUL, PRODUCT, false>(into),
            (_, None) => self.each::<V, MUL, SATURATED, false>(into),
            (NONE, _) => self.each::<V, MUL, NONE, true>(into),
            (NARROW, _) => self.each::<V, MUL, NARROW, true>(into),
            (PRODUCT, _) => self.each::<V, MUL, PRODUCT, true>(into),
            (_, _) => self.each::<V, MUL, SATURATED, true>(into),
        }
    }

    #[inline(always)]
    fn each<V: Eight, const MUL: u8, const CONVERT: u8, const SECOND: bool>(&self, into: &mut [u8]) {
        let Fused { mul_round, mul_width, first_floor, second_floor, offset, scale, round, saturating, .. } =
            *self.fused;
        let [mul_rounding, second_rounding, rounding] =
            [mul_round, self.fused.second_round, round].map(V::Rounding::from);
        let [first_floor, second_floor, offset_of_all, scale_of_all] =
            [first_floor, second_floor, offset, scale].map(V::splat);
        let add = |value: V, operand: V| {
            if saturating {
                each_lane(value, operand, i32::saturating_add)
            } else {
                value.add(operand)
            }
        };
        for (number, (data, into)) in self.data.as_chunks().0.iter().zip(into.as_chunks_mut().0).enumerate() {
            let given: V = T::eight(data);
            let operand = self.first.load_8(number);
            let mut value = add(given, operand);
            if MUL == NARROW {
                value = value.multiply_narrow(self.factor.load_8(number), mul_rounding);
            } else if MUL == PRODUCT {
                value = value.multiply_product(self.factor.load_8(number), mul_rounding);
            } else if MUL == SATURATED {
                let factor = self.factor.load_8::<V>(number).array();
                let (sum, given, operand) = (value.array(), given.array(), operand.array());
                value = V::load(&std::array::from_fn(|lane| {
                    let value = match mul_width {
                        MulWidth::Sum => i64::from(given[lane]) + i64::from(operand[lane]),
                        _ => sum[lane].into(),
                    };
                    saturate(mul_round.wide(value.wrapping_mul(factor[lane].into())))
                }));
            }
            value = value.max(first_floor);
            if SECOND {
                value = add(value, self.second.load_8(number));
                if self.fused.second_mul.is_some() {
                    value = value.multiply_narrow(self.second_factor.load_8(number), second_rounding);
                }
                value = value.max(second_floor);
            }
            if CONVERT != NONE {
                value = value.sub(offset_of_all);
            }
            if CONVERT == NARROW {
                value = value.multiply_narrow(scale_of_all, rounding);
            } else if CONVERT == PRODUCT {
                value = value.multiply_product(scale_of_all, rounding);
            } else if CONVERT == SATURATED {
                let wide = |value: i32, scale: i32| saturate(round.wide(i64::from(value).wrapping_mul(scale.into())));
                value = each_lane(value, scale_of_all, wide);
            }
            *into = value.int8();
        }
    }
}

/// Applies `f` to each pair of integers.
#[inline(always)]
fn each_lane<V: Eight>(values: V, others: V, f: impl Fn(i32, i32) -> i32) -> V {
    let (values, others) = (values.array(), others.array());
    V::load(&std::array::from_fn(|lane| f(values[lane], others[lane])))
}

#[inline(always)]
fn saturate(value: i64) -> i32 {
    value.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}
