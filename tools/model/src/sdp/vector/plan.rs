// SPDX-License-Identifier: MIT OR Apache-2.0

//! The steps of an operation, chosen before the first chunk.
//!
//! For integers the plan computes the range of values after each step, from the widths of data and operands, and uses the 32-bit
//! form of a step if no value can exceed it.

use nvdla_uapi::layout::operand::Component;
use nvdla_uapi::reg::values::{AluAlgorithm, OperandMode, Precision};

use super::super::operation::{Alu, Converter, Multiplier, OperandOrigin, OperandSurface, Operation, Source, X, Y};
use super::float;
use super::lanes::{Slot, SLOTS};
use crate::num::convert::fp16_to_fp32;
use crate::num::fixed::shift_left;
use crate::num::Fp16;

/// A step from one chunk of values to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Max(Slot),
    Min(Slot),
    /// Cannot overflow.
    Add(Slot),
    AddSaturating(Slot),
    Differ(Slot),
    MultiplyNarrow {
        operand: Slot,
        shift: u32,
        prelu: bool,
        /// The largest magnitude of a value.
        largest: i64,
    },
    MultiplyWide {
        operand: Slot,
        shift: u32,
        prelu: bool,
        /// The largest magnitude of a value.
        largest: i64,
        /// The shifted product is known to fit 32 bits.
        fits: bool,
    },
    /// The slot of the multiplier's operand is `None` where there is no multiplier.
    AddMultiplyWide {
        alu: Slot,
        mul: Option<Slot>,
        shift: u32,
        prelu: bool,
    },
    ShiftNarrow(u32),
    ShiftWide(u32),
    Relu,
    Lookup,
    CountSaturated,
    ConvertNarrow,
    ConvertWide {
        narrow_difference: bool,
        /// The shifted product is known to fit 32 bits.
        fits: bool,
    },
    FloatMax(Slot),
    FloatMin(Slot),
    FloatAdd(Slot),
    FloatMultiply {
        operand: Slot,
        prelu: bool,
    },
    FloatRelu,
    FloatLookup,
}

/// How an operand from memory is converted for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepare {
    /// Unchanged.
    Plain,
    /// Shifted left, saturating.
    Shift(u32),
    /// Converted.
    Convert(Converter),
    /// fp16 to fp32.
    Float,
}

/// The source of a slot's operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Feed {
    /// One for the layer.
    One(i32),
    /// From memory.
    Memory { operands: OperandSurface, component: Component, prepare: Prepare, per_kernel: bool },
}

impl Feed {
    /// The largest magnitude of an operand.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only a loop of AVX-512 asks
    pub(super) fn largest(&self) -> i64 {
        let bits = |operands: &OperandSurface| 8 * operands.layout.component_bytes() - 1;
        match self {
            Self::One(operand) => i64::from(*operand).abs(),
            Self::Memory { operands, prepare: Prepare::Plain, .. } => 1 << bits(operands),
            Self::Memory { operands, prepare: Prepare::Shift(shift), .. } => 1 << (bits(operands) + shift).min(31),
            Self::Memory { .. } => 1 << 31,
        }
    }
}

/// The greatest number of steps of an operation: three in each X, three in Y, two in the converter.
const STEPS: usize = 12;

/// An operation's steps and operands.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    steps: [Option<Step>; STEPS],
    length: usize,
    /// The operands by slot.
    pub feeds: [Option<Feed>; SLOTS],
    /// The output converter with the smallest factor that gives the same results.
    pub converter: Converter,
    /// The largest magnitude of a value that the converter multiplies, after the offset is subtracted.
    pub largest_difference: i64,
    /// Whether the machine's floats treat a register operand differently from the hardware.
    pub strict: bool,
}

/// The range of an integer.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: i64,
    high: i64,
}

impl Range {
    const I32: Self = Self { low: i32::MIN as i64, high: i32::MAX as i64 };

    const fn of(bits: u32) -> Self {
        Self { low: -(1 << (bits - 1)), high: (1 << (bits - 1)) - 1 }
    }

    fn largest(self) -> i64 {
        self.low.abs().max(self.high.abs())
    }

    fn fits_i32(self) -> bool {
        self.low >= Self::I32.low && self.high <= Self::I32.high
    }

    fn saturated(self) -> Self {
        self.map(|value| value.clamp(Self::I32.low, Self::I32.high))
    }

    /// Applies a monotonic function.
    fn map(self, f: impl Fn(i64) -> i64) -> Self {
        Self { low: f(self.low), high: f(self.high) }
    }

    fn times(self, other: Self) -> Self {
        let products = [self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high];
        let [first, rest @ ..] = products;
        rest.into_iter().fold(Self { low: first, high: first }, |range, product| Self {
            low: range.low.min(product),
            high: range.high.max(product),
        })
    }

    fn or(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Whether a rounding shift of these values stays in 32 bits.
    fn shifts_narrow(self, shift: u32) -> bool {
        let half = if shift == 0 { 0 } else { 1i64 << (shift.min(40) - 1) };
        shift < 31 && self.low > Self::I32.low && self.high + half <= Self::I32.high && half <= Self::I32.high
    }

    /// Whether a rounding shift leaves 32 bits without saturation.
    fn fits_shifted(self, shift: u32) -> bool {
        self.map(|value| crate::num::fixed::round_shift_right(value, shift)).fits_i32()
    }

    /// The range after a rounding shift and saturation.
    fn shifted(self, shift: u32) -> Self {
        self.map(|value| crate::num::fixed::round_shift_right(value, shift)).saturated()
    }
}

/// The converter without the powers of two that its factor and its shift have in common.
fn reduced(Converter { offset, scale, shift }: Converter) -> Converter {
    let common = scale.trailing_zeros().min(shift);
    Converter { offset, scale: scale.checked_shr(common).unwrap_or(0), shift: shift - common }
}

impl Plan {
    pub(super) fn new(operation: &Operation) -> Self {
        let converter = reduced(operation.converter);
        let (steps, feeds) = ([None; STEPS], [None; SLOTS]);
        let mut plan = Self { steps, length: 0, feeds, converter, largest_difference: 0, strict: false };
        if operation.processing == Precision::Fp16 {
            plan.floats(operation);
        } else {
            plan.integers(operation);
        }
        plan
    }

    /// The steps in order.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.steps.iter().copied().take(self.length).flatten()
    }

    fn push(&mut self, step: Step) {
        self.steps[self.length] = Some(step);
        self.length += 1;
    }

    /// Sets up an operand. Returns its range before it is prepared.
    fn feed(
        &mut self,
        slot: Slot,
        operand: OperandOrigin,
        register: impl FnOnce(i32) -> i32,
        operands: Option<OperandSurface>,
        component: Component,
        prepare: Prepare,
    ) -> Range {
        let (feed, range) = match (operand, operands) {
            (OperandOrigin::Memory, Some(operands)) => {
                let per_kernel = operands.layout.mode() == OperandMode::PerKernel;
                let bits = 8 * operands.layout.component_bytes();
                (Feed::Memory { operands, component, prepare, per_kernel }, Range::of(bits))
            }
            (OperandOrigin::Register(value), _) => {
                let value = register(value);
                (Feed::One(value), Range { low: value.into(), high: value.into() })
            }
            // An operation with an operand from memory has its surface.
            (OperandOrigin::Memory, None) => (Feed::One(0), Range { low: 0, high: 0 }),
        };
        self.feeds[slot as usize] = Some(feed);
        range
    }

    fn integers(&mut self, operation: &Operation) {
        let mut range = match (operation.source, operation.processing) {
            (Source::Stream { largest }, _) => Range { low: -i64::from(largest), high: i64::from(largest) }.saturated(),
            (Source::Memory(cube), _) if cube.layout.precision() == Precision::Int8 => Range::of(8),
            (Source::Memory(_), _) => Range::of(16),
        };
        if let Some(x) = &operation.x1 {
            range = self.x_int(x, range, [Slot::X1Alu, Slot::X1Mul]);
        }
        if let Some(x) = &operation.x2 {
            range = self.x_int(x, range, [Slot::X2Alu, Slot::X2Mul]);
        }
        if let Some(y) = &operation.y {
            range = self.y_int(y, range);
        }
        if operation.count.saturation && operation.output != Precision::Fp16 {
            self.push(Step::CountSaturated);
        }
        if !operation.compares() {
            self.convert(self.converter, range);
        }
    }

    fn x_int(&mut self, x: &X, range: Range, [alu_slot, mul_slot]: [Slot; 2]) -> Range {
        let mut range = range;
        // If the sum does not fit 32 bits, it must be multiplied and shifted before it is saturated.
        let mut wide = None;
        if let Some(Alu { algorithm, operand }) = x.alu {
            let shift = x.alu_shift;
            let register = |value: i32| shift_left::<32>(value.into(), shift) as i32;
            let prepare = if shift == 0 { Prepare::Plain } else { Prepare::Shift(shift) };
            let raw = self.feed(alu_slot, operand, register, x.operands, Component::Alu, prepare);
            let operand = match operand {
                OperandOrigin::Register(_) => raw,
                OperandOrigin::Memory => raw.map(|value| shift_left::<32>(value, shift)),
            };
            match algorithm {
                AluAlgorithm::Max => {
                    self.push(Step::Max(alu_slot));
                    range = Range { low: range.low.max(operand.low), high: range.high.max(operand.high) };
                }
                AluAlgorithm::Min => {
                    self.push(Step::Min(alu_slot));
                    range = Range { low: range.low.min(operand.low), high: range.high.min(operand.high) };
                }
                AluAlgorithm::Sum | AluAlgorithm::Eql => {
                    range = Range { low: range.low + operand.low, high: range.high + operand.high };
                    if range.fits_i32() {
                        self.push(Step::Add(alu_slot));
                    } else if x.multiplier.is_none() && x.shift == 0 {
                        self.push(Step::AddSaturating(alu_slot));
                        range = range.saturated();
                    } else {
                        wide = Some(alu_slot);
                    }
                }
            }
        }
        let factor = x.multiplier.map(|Multiplier { operand, .. }| {
            self.feed(mul_slot, operand, |value| value, x.operands, Component::Mul, Prepare::Plain)
        });
        let prelu = x.multiplier.is_some_and(|multiplier| multiplier.prelu);
        if let Some(alu) = wide {
            let mul = factor.map(|_| mul_slot);
            self.push(Step::AddMultiplyWide { alu, mul, shift: x.shift, prelu });
            range = Range::I32;
        } else if let Some(factor) = factor {
            range = self.multiply(range, factor, mul_slot, x.shift, prelu);
        } else if x.shift > 0 {
            self.push(if range.shifts_narrow(x.shift) { Step::ShiftNarrow(x.shift) } else { Step::ShiftWide(x.shift) });
            range = range.shifted(x.shift);
        }
        if x.relu {
            self.push(Step::Relu);
            range = range.map(|value| value.max(0));
        }
        range
    }

    /// A product of 32-bit values with its shift.
    fn multiply(&mut self, range: Range, factor: Range, operand: Slot, shift: u32, prelu: bool) -> Range {
        let (product, largest) = (range.times(factor), range.largest());
        self.push(if product.shifts_narrow(shift) {
            Step::MultiplyNarrow { operand, shift, prelu, largest }
        } else {
            Step::MultiplyWide { operand, shift, prelu, largest, fits: product.fits_shifted(shift) }
        });
        let shifted = product.shifted(shift);
        if prelu {
            shifted.or(range)
        } else {
            shifted
        }
    }

    fn y_int(&mut self, y: &Y, range: Range) -> Range {
        let mut range = range;
        let convert = |converter: Option<Converter>| converter.map_or(Prepare::Plain, Prepare::Convert);
        let converted = |raw: Range, operand: OperandOrigin, converter: Option<Converter>| match (operand, converter) {
            (OperandOrigin::Memory, Some(converter)) => {
                let factor = Range { low: converter.scale.into(), high: converter.scale.into() };
                raw.map(|value| value - i64::from(converter.offset)).times(factor).shifted(converter.shift)
            }
            _ => raw,
        };
        if let Some(Multiplier { operand, prelu }) = y.multiplier {
            let prepare = convert(y.multiplier_converter);
            let raw = self.feed(Slot::YMul, operand, |value| value, y.operands, Component::Mul, prepare);
            let factor = converted(raw, operand, y.multiplier_converter);
            range = self.multiply(range, factor, Slot::YMul, y.shift, prelu);
        }
        if let Some(Alu { algorithm, operand }) = y.alu {
            let prepare = convert(y.alu_converter);
            let raw = self.feed(Slot::YAlu, operand, |value| value, y.operands, Component::Alu, prepare);
            let operand = converted(raw, operand, y.alu_converter);
            match algorithm {
                AluAlgorithm::Max => {
                    self.push(Step::Max(Slot::YAlu));
                    range = Range { low: range.low.max(operand.low), high: range.high.max(operand.high) };
                }
                AluAlgorithm::Min => {
                    self.push(Step::Min(Slot::YAlu));
                    range = Range { low: range.low.min(operand.low), high: range.high.min(operand.high) };
                }
                AluAlgorithm::Sum => {
                    range = Range { low: range.low + operand.low, high: range.high + operand.high };
                    self.push(if range.fits_i32() { Step::Add(Slot::YAlu) } else { Step::AddSaturating(Slot::YAlu) });
                    range = range.saturated();
                }
                AluAlgorithm::Eql => {
                    self.push(Step::Differ(Slot::YAlu));
                    range = Range { low: 0, high: 1 };
                }
            }
        }
        if y.lookup.is_some() {
            self.push(Step::Lookup);
            range = Range::I32;
        }
        range
    }

    fn convert(&mut self, converter: Converter, range: Range) {
        if converter == (Converter { offset: 0, scale: 1, shift: 0 }) {
            return;
        }
        let difference = range.map(|value| value - i64::from(converter.offset));
        self.largest_difference = difference.largest();
        let scale = Range { low: converter.scale.into(), high: converter.scale.into() };
        let narrow_difference = difference.fits_i32();
        let product = difference.times(scale);
        self.push(if narrow_difference && product.shifts_narrow(converter.shift) {
            Step::ConvertNarrow
        } else {
            Step::ConvertWide { narrow_difference, fits: product.fits_shifted(converter.shift) }
        });
    }

    fn floats(&mut self, operation: &Operation) {
        let flush = operation.nan_to_zero;
        let half = |value: i32| fp16_to_fp32(Fp16::flush_nan(u32::from(value as u16), flush) as u16) as i32;
        for (x, [alu_slot, mul_slot]) in
            [(&operation.x1, [Slot::X1Alu, Slot::X1Mul]), (&operation.x2, [Slot::X2Alu, Slot::X2Mul])]
        {
            let Some(x) = x else { continue };
            if let Some(Alu { algorithm, operand }) = x.alu {
                self.feed(alu_slot, operand, half, x.operands, Component::Alu, Prepare::Float);
                self.alu_float(algorithm, alu_slot);
            }
            if let Some(Multiplier { operand, prelu }) = x.multiplier {
                self.feed(mul_slot, operand, half, x.operands, Component::Mul, Prepare::Float);
                self.push(Step::FloatMultiply { operand: mul_slot, prelu });
            }
            if x.relu {
                self.push(Step::FloatRelu);
            }
        }
        let Some(y) = &operation.y else { return };
        // Register operands of Y are fp32 and may have any bits.
        let mut foreign = |operand: OperandOrigin| {
            self.strict |= matches!(operand, OperandOrigin::Register(value) if float::is_foreign(value as u32));
        };
        if let Some(multiplier) = y.multiplier {
            foreign(multiplier.operand);
        }
        if let Some(alu) = y.alu {
            foreign(alu.operand);
        }
        if let Some(Multiplier { operand, prelu }) = y.multiplier {
            self.feed(Slot::YMul, operand, |value| value, y.operands, Component::Mul, Prepare::Float);
            self.push(Step::FloatMultiply { operand: Slot::YMul, prelu });
        }
        if let Some(Alu { algorithm, operand }) = y.alu {
            self.feed(Slot::YAlu, operand, |value| value, y.operands, Component::Alu, Prepare::Float);
            self.alu_float(algorithm, Slot::YAlu);
        }
        if y.lookup.is_some() {
            self.push(Step::FloatLookup);
        }
    }

    fn alu_float(&mut self, algorithm: AluAlgorithm, slot: Slot) {
        self.push(match algorithm {
            AluAlgorithm::Max => Step::FloatMax(slot),
            AluAlgorithm::Min => Step::FloatMin(slot),
            AluAlgorithm::Sum => Step::FloatAdd(slot),
            AluAlgorithm::Eql => Step::Differ(slot),
        });
    }
}
