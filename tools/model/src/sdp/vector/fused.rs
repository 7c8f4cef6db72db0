// SPDX-License-Identifier: MIT OR Apache-2.0

//! The commonest int8 operations in one loop, from data to bytes without a store between steps. ([`super::fused_float`]
//! is the same for fp16.)
//!
//! These are: bias, batch normalisation, element-wise sums and ReLU in front of the output converter, that is steps
//!
//! `[Add] [MultiplyNarrow] [Relu] [Add [Relu]] [Convert]`
//!
//! over int8 data or CACC's sums. What is not in an operation costs an instruction at most: a ReLU that is not there
//! has the smallest integer as its floor, a shift by zero adds nothing before it.

use nvdla_uapi::reg::values::Precision;

use super::super::operation::{Destination, Operation, Source};
use super::plan::{Plan, Step};
use super::{Lanes, Slot, SLOTS};

/// The parameters of a fused loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fused {
    /// Operands of the sums.
    adds: [Option<Slot>; 2],
    /// Operand of the multiplier, between the sums.
    mul: Option<Slot>,
    mul_round: Round,
    /// Least value after the multiplier.
    first_floor: i32,
    /// Least value after the second sum.
    second_floor: i32,
    offset: i32,
    scale: i32,
    round: Round,
    /// The converter's product needs 64 bits.
    wide: bool,
    /// A sum may leave 32 bits.
    saturating: bool,
}

/// A rounding right shift: half away from zero.
#[derive(Clone, Copy, Debug)]
struct Round {
    shift: u32,
    half: i64,
    /// All ones where a negative value is lowered by one before the shift.
    sign: i64,
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
            || matches!(operation.source, Source::Memory(place) if place.cube.precision() != Precision::Int8)
        {
            return None;
        }
        let mut steps = plan.steps().peekable();
        let mut fused = Self {
            adds: [None; 2],
            mul: None,
            mul_round: Round::new(0),
            first_floor: i32::MIN,
            second_floor: i32::MIN,
            offset: 0,
            scale: 1,
            round: Round::new(0),
            wide: false,
            saturating: false,
        };
        let add = |step: &Step| matches!(step, Step::Add(_) | Step::AddSaturating(_));
        if let Some(Step::Add(slot) | Step::AddSaturating(slot)) = steps.next_if(add) {
            fused.adds[0] = Some(slot);
        }
        let multiply = |step: &Step| matches!(step, Step::MultiplyNarrow { prelu: false, .. });
        if let Some(Step::MultiplyNarrow { operand, shift, .. }) = steps.next_if(multiply) {
            fused.mul = Some(operand);
            fused.mul_round = Round::new(shift);
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
        let convert = |step: &Step| matches!(step, Step::ConvertNarrow | Step::ConvertWide { narrow_difference: true });
        if let Some(step) = steps.next_if(convert) {
            if operation.converter.shift >= 62 {
                return None;
            }
            fused.offset = operation.converter.offset;
            fused.scale = operation.converter.scale.into();
            fused.round = Round::new(operation.converter.shift);
            fused.wide = step != Step::ConvertNarrow;
        }
        if fused.adds[0].is_none() && fused.adds[1].is_some() {
            return None;
        }
        fused.saturating = plan.steps().any(|step| matches!(step, Step::AddSaturating(_)));
        steps.next().is_none().then_some(fused)
    }

    /// The slots whose operands the loop takes, one an element even where the layer has only one.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.adds.into_iter().chain([self.mul]).flatten()
    }
}

/// Data that a fused loop can take.
pub(super) trait Element: Copy {
    /// As a 32-bit integer.
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

/// Takes `data` to int8 in `into`, which is as long; so are the operands.
#[inline(always)]
pub(super) fn run<T: Element>(fused: &Fused, data: &[T], operands: &[Lanes; SLOTS], into: &mut [u8]) {
    let length = into.len();
    let of = |slot: Option<Slot>| slot.map_or(&[][..], |slot| &operands[slot as usize].0[..length]);
    let (first, second, factor) = (of(fused.adds[0]), of(fused.adds[1]), of(fused.mul));
    match (fused.adds[0].is_some(), fused.adds[1].is_some(), fused.mul.is_some()) {
        (false, false, false) => by_width::<T, false, false, false>(fused, data, first, second, factor, into),
        (true, false, false) => by_width::<T, true, false, false>(fused, data, first, second, factor, into),
        (true, true, false) => by_width::<T, true, true, false>(fused, data, first, second, factor, into),
        (true, false, true) => by_width::<T, true, false, true>(fused, data, first, second, factor, into),
        (false, false, true) => by_width::<T, false, false, true>(fused, data, first, second, factor, into),
        // There is no second sum without a first one.
        (_, true, _) => by_width::<T, true, true, true>(fused, data, first, second, factor, into),
    }
}

#[inline(always)]
fn by_width<T: Element, const FIRST: bool, const SECOND: bool, const MUL: bool>(
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
fn each<
    T: Element,
    const FIRST: bool,
    const SECOND: bool,
    const MUL: bool,
    const WIDE: bool,
    const SATURATING: bool,
>(
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
    // One length for all, so that no index is checked in the loop.
    let length = into.len();
    let data = &data[..length];
    let first = if FIRST { &first[..length] } else { first };
    let second = if SECOND { &second[..length] } else { second };
    let factor = if MUL { &factor[..length] } else { factor };
    let Fused { mul_round, first_floor, second_floor, offset, scale, round, .. } = *fused;
    for index in 0..length {
        let mut value = data[index].widen();
        if FIRST {
            value = add(value, first[index]);
        }
        if MUL {
            value = mul_round.narrow(value.wrapping_mul(factor[index]));
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
