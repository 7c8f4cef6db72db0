// SPDX-License-Identifier: MIT OR Apache-2.0

//! The most common int8 operations in one loop, from data to bytes without a store between steps.
//! [`super::fused_float`] is the same for fp16.
//!
//! These are bias, batch normalisation, element-wise sums and ReLU in front of the output converter:
//!
//! `[Add] [Multiply] [Relu] [Add [Relu]] [Convert]`
//!
//! over int8 data or CACC's sums. A step that an operation does not have costs at most one instruction: a missing ReLU
//! has the smallest integer as its floor, and a shift by zero adds nothing before it.

use nvdla_uapi::reg::values::Precision;

use super::super::operation::{Destination, Operation, Source};
#[cfg(target_arch = "x86_64")]
use super::avx512::convert::Convert;
use super::lanes::{Lanes, Slot, SLOTS};
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
    /// Slots with operands that are read directly from memory, one int8 per element.
    pub(super) direct: [bool; SLOTS],
    /// The converter of the loops of AVX-512.
    #[cfg(target_arch = "x86_64")]
    pub(super) convert: Option<Convert>,
    /// Whether the loop of AVX2 is used.
    #[cfg(target_arch = "x86_64")]
    pub(super) avx2: bool,
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

/// A rounding right shift: rounds half away from zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) shift: u32,
    pub(super) half: i64,
    /// All ones where a negative value is lowered by one before the shift.
    pub(super) sign: i64,
}

impl Round {
    fn new(shift: u32) -> Self {
        if shift == 0 {
            Self { shift, half: 0, sign: 0 }
        } else {
            Self { shift, half: 1 << (shift - 1), sign: -1 }
        }
    }

    #[inline(always)]
    fn narrow(self, value: i32) -> i32 {
        value.wrapping_add(self.half as i32).wrapping_add((value >> 31) & self.sign as i32) >> self.shift
    }

    #[inline(always)]
    fn wide(self, value: i64) -> i64 {
        value.wrapping_add(self.half).wrapping_add((value >> 63) & self.sign) >> self.shift
    }
}

impl Fused {
    /// The operation as a fused loop, if it is one.
    pub(super) fn new(operation: &Operation, plan: &Plan) -> Option<Self> {
        if operation.processing != Precision::Int8
            || operation.output != Precision::Int8
            || !matches!(operation.destination, Destination::Memory(_))
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
            direct: [false; SLOTS],
            #[cfg(target_arch = "x86_64")]
            convert: None,
            #[cfg(target_arch = "x86_64")]
            avx2: false,
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
            Some(Step::MultiplyNarrow { operand, shift, .. }) => {
                fused.mul = Some(operand);
                fused.mul_round = Round::new(shift);
            }
            Some(Step::MultiplyWide { operand, shift, fits, .. }) => {
                fused.mul = Some(operand);
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
            if steps.next_if_eq(&Step::Relu).is_some() {
                fused.second_floor = 0;
            }
        }
        let convert =
            |step: &Step| matches!(step, Step::ConvertNarrow | Step::ConvertWide { narrow_difference: true, .. });
        if let Some(step) = steps.next_if(convert) {
            if operation.converter.shift >= 62 {
                return None;
            }
            fused.offset = operation.converter.offset;
            fused.scale = operation.converter.scale.into();
            fused.round = Round::new(operation.converter.shift);
            fused.wide = step != Step::ConvertNarrow;
            fused.fits = !matches!(step, Step::ConvertWide { fits: false, .. });
        }
        if fused.adds[0].is_none() && fused.adds[1].is_some() {
            return None;
        }
        fused.saturating = plan.steps().any(|step| matches!(step, Step::AddSaturating(_)));
        if steps.next().is_some() {
            return None;
        }
        Some(fused)
    }

    /// The slots from which the loop reads operands, one per element even if the layer has only one.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.adds.into_iter().chain([self.mul]).flatten()
    }
}

/// Data that a fused loop can take.
pub(super) trait Element: Copy {
    /// The data as a 32-bit integer.
    fn widen(self) -> i32;
}

impl Element for u8 {
    #[inline(always)]
    fn widen(self) -> i32 {
        i32::from(self as i8)
    }
}

impl Element for i32 {
    #[inline(always)]
    fn widen(self) -> i32 {
        self
    }
}

/// Converts `data` to int8 in `into`, which has the same length, as have the operands.
#[inline(always)]
pub(super) fn run<T: Element>(fused: &Fused, data: &[T], operands: &[Lanes; SLOTS], into: &mut [u8]) {
    let length = into.len();
    let of = |slot: Option<Slot>| slot.map_or(&[][..], |slot| &operands[slot as usize].0[..length]);
    let (first, second, factor) = (of(fused.adds[0]), of(fused.adds[1]), of(fused.mul));
    let mul = match (fused.mul, fused.mul_width) {
        (None, _) => NONE,
        (Some(_), MulWidth::Narrow) => NARROW,
        (Some(_), MulWidth::Product) => PRODUCT,
        (Some(_), MulWidth::Sum) => SUM,
    };
    match (fused.adds[0].is_some(), fused.adds[1].is_some(), mul) {
        (false, false, NONE) => by_width::<T, false, false, NONE>(fused, data, first, second, factor, into),
        (false, false, NARROW) => by_width::<T, false, false, NARROW>(fused, data, first, second, factor, into),
        (false, false, _) => by_width::<T, false, false, PRODUCT>(fused, data, first, second, factor, into),
        (true, false, NONE) => by_width::<T, true, false, NONE>(fused, data, first, second, factor, into),
        (true, false, NARROW) => by_width::<T, true, false, NARROW>(fused, data, first, second, factor, into),
        (true, false, PRODUCT) => by_width::<T, true, false, PRODUCT>(fused, data, first, second, factor, into),
        (true, false, _) => by_width::<T, true, false, SUM>(fused, data, first, second, factor, into),
        // There is no second sum without a first one.
        (_, true, NONE) => by_width::<T, true, true, NONE>(fused, data, first, second, factor, into),
        (_, true, NARROW) => by_width::<T, true, true, NARROW>(fused, data, first, second, factor, into),
        (_, true, PRODUCT) => by_width::<T, true, true, PRODUCT>(fused, data, first, second, factor, into),
        (_, true, _) => by_width::<T, true, true, SUM>(fused, data, first, second, factor, into),
    }
}

/// [`MulWidth`] as a parameter of the loop.
const NONE: u8 = 0;
const NARROW: u8 = 1;
const PRODUCT: u8 = 2;
const SUM: u8 = 3;

#[inline(always)]
fn by_width<T: Element, const FIRST: bool, const SECOND: bool, const MUL: u8>(
    fused: &Fused,
    data: &[T],
    first: &[i32],
    second: &[i32],
    factor: &[i32],
    into: &mut [u8],
) {
    match (fused.wide, fused.saturating) {
        (false, false) => each::<T, FIRST, SECOND, MUL, false, false>(fused, data, first, second, factor, into),
        (false, true) => each::<T, FIRST, SECOND, MUL, false, true>(fused, data, first, second, factor, into),
        (true, false) => each::<T, FIRST, SECOND, MUL, true, false>(fused, data, first, second, factor, into),
        (true, true) => each::<T, FIRST, SECOND, MUL, true, true>(fused, data, first, second, factor, into),
    }
}

#[inline(always)]
fn each<T: Element, const FIRST: bool, const SECOND: bool, const MUL: u8, const WIDE: bool, const SATURATING: bool>(
    fused: &Fused,
    data: &[T],
    first: &[i32],
    second: &[i32],
    factor: &[i32],
    into: &mut [u8],
) {
    let add = |value: i32, operand: i32| {
        if SATURATING {
            value.saturating_add(operand)
        } else {
            value.wrapping_add(operand)
        }
    };
    // A single length for all slices, so that the loop has no index checks.
    let length = into.len();
    let data = &data[..length];
    let first = if FIRST { &first[..length] } else { first };
    let second = if SECOND { &second[..length] } else { second };
    let factor = if MUL == NONE { factor } else { &factor[..length] };
    let Fused { mul_round, first_floor, second_floor, offset, scale, round, .. } = *fused;
    for index in 0..length {
        let given = data[index].widen();
        let mut value = if FIRST && MUL != SUM { add(given, first[index]) } else { given };
        if MUL == NARROW {
            value = mul_round.narrow(value.wrapping_mul(factor[index]));
        } else if MUL == PRODUCT {
            value = saturate(mul_round.wide(i64::from(value).wrapping_mul(factor[index].into())));
        } else if MUL == SUM {
            let sum = i64::from(given) + i64::from(first[index]);
            value = saturate(mul_round.wide(sum.wrapping_mul(factor[index].into())));
        }
        value = value.max(first_floor);
        if SECOND {
            value = add(value, second[index]).max(second_floor);
        }
        let difference = value.wrapping_sub(offset);
        into[index] = if WIDE {
            round.wide(i64::from(difference).wrapping_mul(scale.into())).clamp(-128, 127) as u8
        } else {
            round.narrow(difference.wrapping_mul(scale)).clamp(-128, 127) as u8
        };
    }
}

#[inline(always)]
fn saturate(value: i64) -> i32 {
    value.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}
