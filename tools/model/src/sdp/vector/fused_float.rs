// SPDX-License-Identifier: MIT OR Apache-2.0

//! The most common fp16 operations in one loop, from data to fp16 without a store between steps:
//!
//! `[Add] [Multiply] [Relu] [Add [Relu]]`
//!
//! over fp16 data or CACC's sums. The loop uses the processor's arithmetic. A block with a result that may differ from
//! the hardware's (see [`float`]) is computed again with the bit-level functions.

use nvdla_uapi::reg::values::Precision;

use super::super::operation::{Destination, Operation};
use super::float;
use super::lanes::{Lanes, Shifts, Slot, SLOTS};
use super::plan::{Feed, Plan, Step};
use crate::num::convert::{fp16_to_fp32, fp32_to_fp16};
use crate::num::Fp32;

const SIGN: u32 = 0x8000_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;
const INFINITE: u32 = 0x7f80_0000;
const SMALLEST: u32 = 0x0080_0000;

/// The parameters of a fused loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct FusedFloat {
    /// Operands of the sums.
    pub(super) adds: [Option<Slot>; 2],
    /// Operand of the multiplier, between the sums.
    pub(super) mul: Option<Slot>,
    /// Values that are not negative skip the multiplier.
    pub(super) prelu: bool,
    /// ReLU before the second sum, and after it.
    pub(super) relus: [bool; 2],
    pub(super) flush: bool,
    /// Slots with operands that differ from element to element. Others repeat after an atom or sooner.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // the loop that asks is AVX-512's
    pub(super) each: [bool; SLOTS],
    /// Slots with operands that are read directly from memory, one fp16 per element.
    pub(super) direct: Shifts,
}

impl FusedFloat {
    /// The operation as a fused loop, if it is one.
    pub(super) fn new(operation: &Operation, plan: &Plan) -> Option<Self> {
        let count = operation.count;
        if operation.processing != Precision::Fp16
            || operation.output != Precision::Fp16
            || !matches!(operation.destination, Destination::Memory(_))
            || plan.strict
            || count.nan_output
            || count.saturation
        {
            return None;
        }
        let mut steps = plan.steps().peekable();
        let mut fused = Self {
            adds: [None; 2],
            mul: None,
            prelu: false,
            relus: [false; 2],
            flush: operation.nan_to_zero,
            each: plan.feeds.map(|feed| matches!(feed, Some(Feed::Memory { per_kernel: false, .. }))),
            direct: [None; SLOTS],
        };
        let add = |step: &Step| matches!(step, Step::FloatAdd(_));
        if let Some(Step::FloatAdd(slot)) = steps.next_if(add) {
            fused.adds[0] = Some(slot);
        }
        let multiply = |step: &Step| matches!(step, Step::FloatMultiply { .. });
        if let Some(Step::FloatMultiply { operand, prelu }) = steps.next_if(multiply) {
            fused.mul = Some(operand);
            fused.prelu = prelu;
        }
        fused.relus[0] = steps.next_if_eq(&Step::FloatRelu).is_some();
        if let Some(Step::FloatAdd(slot)) = steps.next_if(add) {
            fused.adds[1] = Some(slot);
            fused.relus[1] = steps.next_if_eq(&Step::FloatRelu).is_some();
        }
        if fused.adds[0].is_none() && fused.adds[1].is_some() {
            return None;
        }
        steps.next().is_none().then_some(fused)
    }

    /// Whether the result is monotonic in the data. (PReLU with a negative factor is not.)
    pub(super) fn is_monotonic(self) -> bool {
        !self.prelu
    }

    /// The slots from which the loop reads operands, one per element even if the layer has only one.
    pub(super) fn slots(self) -> impl Iterator<Item = Slot> {
        self.adds.into_iter().chain([self.mul]).flatten()
    }
}

/// Data that a fused loop can take.
pub(super) trait Element: Copy {
    /// The bits of an fp32, and whether the machine may interpret them differently from the hardware.
    fn widen(self) -> (u32, bool);
    /// The bits in the hardware's interpretation.
    fn exact(self) -> u32;
}

/// An fp16 in memory.
impl Element for [u8; 2] {
    #[inline(always)]
    fn widen(self) -> (u32, bool) {
        let bits = u16::from_le_bytes(self);
        (float::widen_finite(bits), bits & 0x7c00 == 0x7c00)
    }

    #[inline(always)]
    fn exact(self) -> u32 {
        fp16_to_fp32(u16::from_le_bytes(self))
    }
}

/// A sum of CACC.
impl Element for f32 {
    #[inline(always)]
    fn widen(self) -> (u32, bool) {
        let magnitude = self.to_bits() & MAGNITUDE;
        (self.to_bits(), magnitude != 0 && magnitude.wrapping_sub(SMALLEST) >= INFINITE - SMALLEST)
    }

    #[inline(always)]
    fn exact(self) -> u32 {
        self.to_bits()
    }
}

/// The number of values that are computed again together.
const BLOCK: usize = 64;

/// Converts `data` to fp16 in `into`, two bytes each; the operands have the same length.
#[inline(always)]
pub(super) fn run<T: Element>(fused: &FusedFloat, data: &[T], operands: &[Lanes; SLOTS], into: &mut [[u8; 2]]) {
    match (fused.adds[0].is_some(), fused.adds[1].is_some(), fused.mul.is_some()) {
        (false, false, false) => blocks::<T, false, false, false>(fused, data, operands, into),
        (true, false, false) => blocks::<T, true, false, false>(fused, data, operands, into),
        (true, true, false) => blocks::<T, true, true, false>(fused, data, operands, into),
        (true, false, true) => blocks::<T, true, false, true>(fused, data, operands, into),
        (false, false, true) => blocks::<T, false, false, true>(fused, data, operands, into),
        // There is no second sum without a first one.
        (_, true, _) => blocks::<T, true, true, true>(fused, data, operands, into),
    }
}

/// The operands of one block.
#[derive(Clone, Copy)]
pub(super) struct Operands<'o> {
    pub(super) first: &'o [i32],
    pub(super) second: &'o [i32],
    pub(super) factor: &'o [i32],
}

#[inline(always)]
fn blocks<T: Element, const FIRST: bool, const SECOND: bool, const MUL: bool>(
    fused: &FusedFloat,
    data: &[T],
    operands: &[Lanes; SLOTS],
    into: &mut [[u8; 2]],
) {
    for (number, (data, into)) in data.chunks(BLOCK).zip(into.chunks_mut(BLOCK)).enumerate() {
        let range = number * BLOCK..number * BLOCK + data.len();
        let of = |slot: Option<Slot>| slot.map_or(&[][..], |slot| &operands[slot as usize].0[range.clone()]);
        let operands = Operands { first: of(fused.adds[0]), second: of(fused.adds[1]), factor: of(fused.mul) };
        if block::<T, FIRST, SECOND, MUL>(fused, data, operands, into) {
            exactly(*fused, data, operands, into);
        }
    }
}

/// The sum, and whether the hardware's may differ: at the ends of the range, for NaN, and for the sign of zero.
#[inline(always)]
fn sum(a: u32, b: u32) -> (u32, bool) {
    let result = (f32::from_bits(a) + f32::from_bits(b)).to_bits();
    let outside = (result & MAGNITUDE).wrapping_sub(SMALLEST) >= INFINITE - SMALLEST;
    (result, outside && (result | (a & SIGN)) != 0)
}

/// The product, and whether the hardware's may differ.
#[inline(always)]
fn product(a: u32, b: u32) -> (u32, bool) {
    let result = (f32::from_bits(a) * f32::from_bits(b)).to_bits();
    let magnitude = result & MAGNITUDE;
    (result, magnitude != 0 && magnitude.wrapping_sub(SMALLEST + 1) >= INFINITE - SMALLEST - 1)
}

#[inline(always)]
fn block<T: Element, const FIRST: bool, const SECOND: bool, const MUL: bool>(
    fused: &FusedFloat,
    data: &[T],
    operands: Operands,
    into: &mut [[u8; 2]],
) -> bool {
    // One length for all, so that no index is checked in the loop.
    let length = into.len();
    let data = &data[..length];
    let first = if FIRST { &operands.first[..length] } else { operands.first };
    let second = if SECOND { &operands.second[..length] } else { operands.second };
    let factor = if MUL { &operands.factor[..length] } else { operands.factor };
    let skip = if fused.prelu { 0 } else { u32::MAX };
    let floors = fused.relus.map(|relu| if relu { 0 } else { i32::MIN });
    let mut again = false;
    for index in 0..length {
        let (mut value, mut differs) = data[index].widen();
        if FIRST {
            let (result, other) = sum(value, first[index] as u32);
            value = result;
            differs |= other;
        }
        if MUL {
            let (result, other) = product(value, factor[index] as u32);
            let passes = (value | skip) & SIGN == 0;
            value = if passes { value } else { result };
            differs |= other;
        }
        // As integers, positive floats lie above zero and negative ones below.
        value = (value as i32).max(floors[0]) as u32;
        if SECOND {
            let (result, other) = sum(value, second[index] as u32);
            value = (result as i32).max(floors[1]) as u32;
            differs |= other;
        }
        again |= differs;
        into[index] = float::narrow(value).to_le_bytes();
    }
    again
}

/// Computes a block with the bit-level functions.
#[inline(never)]
pub(super) fn exactly<T: Element>(fused: FusedFloat, data: &[T], operands: Operands, into: &mut [[u8; 2]]) {
    let relu = |relu: bool, value: u32| if relu { Fp32::relu(value) } else { value };
    for (index, (data, into)) in data.iter().zip(into).enumerate() {
        let operand = |operands: &[i32]| operands.get(index).map(|&operand| operand as u32);
        let mut value = Fp32::flush_nan(data.exact(), fused.flush);
        if let Some(operand) = operand(operands.first) {
            value = Fp32::add(value, operand);
        }
        if let Some(operand) = operand(operands.factor) {
            if !(fused.prelu && value & SIGN == 0) {
                value = Fp32::mul(value, operand);
            }
        }
        value = relu(fused.relus[0], value);
        if let Some(operand) = operand(operands.second) {
            value = relu(fused.relus[1], Fp32::add(value, operand));
        }
        *into = fp32_to_fp16(value).to_le_bytes();
    }
}
