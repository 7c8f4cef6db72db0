// SPDX-License-Identifier: MIT OR Apache-2.0

//! SDP's lookup, the last step of sub-unit Y, in integers or floats.
//!
//! The fraction has 35 bits. Integer results have 32 bits; fp16 processing interpolates in fp17.
//! Source: register manual (SDP `S_LUT_*`), the hardware project's arithmetic (`cmod/hls/sdp`: index and interpolation).

use nvdla_uapi::reg::sdp as reg;
use nvdla_uapi::reg::values::{LutFunction, LutTable};

use super::tables::{Counters, Position, Priorities, Tables};
use crate::like::Like;
use crate::memory::Stop;
use crate::num::convert::{fp16_to_fp17, fp17_to_fp32, fp32_to_fp17, fp32_to_index, fraction_to_fp17};
use crate::num::fixed::{round_shift_right, saturate, shift_right_signed, sign_extend};
use crate::num::{Fp17, Fp32};
use crate::registers::Registers;

/// Bits of a fraction.
const FRACTION: u32 = 35;
const FRACTION_MASK: u64 = (1 << FRACTION) - 1;

/// A slope beyond a table's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slope {
    pub(crate) scale: i16,
    pub(crate) shift: i32,
}

/// One table's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Integer, or the bits of an fp32.
    pub(crate) start: i32,
    pub(crate) end: i32,
    /// log2 of the distance between entries of a linear table.
    pub(crate) select: i32,
    pub(crate) under: Slope,
    pub(crate) over: Slope,
}

/// SDP's lookup registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    pub(crate) function: LutFunction,
    /// log2 of the first entry's distance from the start of an exponential LE table.
    pub(crate) index_offset: i32,
    /// The distance of the first entry of an integer exponential table from its start, by which values below it are measured.
    pub(crate) first: i64,
    pub(crate) le: Range,
    pub(crate) lo: Range,
    pub(crate) priorities: Priorities,
}

impl Lookup {
    /// The lookup that the registers describe.
    pub fn new(registers: &Registers, like: Like) -> Result<Self, Stop> {
        let get = |register| registers.get(register);
        let index_offset = sign_extend(registers.value(reg::S_LUT_INFO::LUT_LE_INDEX_OFFSET), 8);
        // The C-model forgets the entry's distance if it is 1 (`out_bias0` of `NV_NVDLA_SDP_CORE_Y_lut.v`).
        let has_distance = index_offset > 0 || (index_offset == 0 && like == Like::Rtl);
        Ok(Self {
            first: if has_distance { i64::from(1u32.wrapping_shl(index_offset as u32)) } else { 0 },
            function: registers.field(reg::S_LUT_CFG::LUT_LE_FUNCTION)?,
            index_offset,
            le: Range {
                start: get(reg::S_LUT_LE_START) as i32,
                end: get(reg::S_LUT_LE_END) as i32,
                select: sign_extend(registers.value(reg::S_LUT_INFO::LUT_LE_INDEX_SELECT), 8),
                under: Slope {
                    scale: registers.value(reg::S_LUT_LE_SLOPE_SCALE::LUT_LE_SLOPE_UFLOW_SCALE) as i16,
                    shift: sign_extend(registers.value(reg::S_LUT_LE_SLOPE_SHIFT::LUT_LE_SLOPE_UFLOW_SHIFT), 5),
                },
                over: Slope {
                    scale: registers.value(reg::S_LUT_LE_SLOPE_SCALE::LUT_LE_SLOPE_OFLOW_SCALE) as i16,
                    shift: sign_extend(registers.value(reg::S_LUT_LE_SLOPE_SHIFT::LUT_LE_SLOPE_OFLOW_SHIFT), 5),
                },
            },
            lo: Range {
                start: get(reg::S_LUT_LO_START) as i32,
                end: get(reg::S_LUT_LO_END) as i32,
                select: sign_extend(registers.value(reg::S_LUT_INFO::LUT_LO_INDEX_SELECT), 8),
                under: Slope {
                    scale: registers.value(reg::S_LUT_LO_SLOPE_SCALE::LUT_LO_SLOPE_UFLOW_SCALE) as i16,
                    shift: sign_extend(registers.value(reg::S_LUT_LO_SLOPE_SHIFT::LUT_LO_SLOPE_UFLOW_SHIFT), 5),
                },
                over: Slope {
                    scale: registers.value(reg::S_LUT_LO_SLOPE_SCALE::LUT_LO_SLOPE_OFLOW_SCALE) as i16,
                    shift: sign_extend(registers.value(reg::S_LUT_LO_SLOPE_SHIFT::LUT_LO_SLOPE_OFLOW_SHIFT), 5),
                },
            },
            priorities: Priorities::from_register(get(reg::S_LUT_CFG)),
        })
    }

    /// Integer processing.
    pub fn int(&self, tables: &Tables, value: i32, counters: &mut Counters) -> i32 {
        let le = match self.function {
            LutFunction::Exponent => exponent_int(value, self.le.start, self.index_offset),
            LutFunction::Linear => linear_int(value, &self.le, super::tables::LE_ENTRIES - 1, true),
        };
        let lo = linear_int(value, &self.lo, super::tables::LO_ENTRIES - 1, false);
        let table = self.priorities.choose(le, lo);
        let (position, range, entries) = self.select(table, le, lo, tables);
        count(counters, le, lo, position);
        let slope = |slope: Slope, entry: i16, origin: i64| {
            let rise = (i64::from(value) - origin) * i64::from(slope.scale);
            saturate::<32>(i64::from(entry) + shift_right_signed::<32>(rise, slope.shift)) as i32
        };
        match position {
            Position::Under => {
                // The first entry of an exponential table lies 2^offset above the start.
                let first = if self.is_exponent(table) { self.first } else { 0 };
                slope(range.under, entries[0], i64::from(range.start) + first)
            }
            Position::Over => slope(range.over, entries[entries.len() - 1], i64::from(range.end)),
            Position::Hit { index, fraction } => {
                let (low, high) = (i64::from(entries[index]), i64::from(entries[index + 1]));
                let sum = low * ((1 << FRACTION) - fraction as i64) + high * fraction as i64;
                round_shift_right(sum, FRACTION) as i32
            }
        }
    }

    /// fp16 processing: `value` and the result are fp32.
    pub fn float(&self, tables: &Tables, value: u32, counters: &mut Counters) -> u32 {
        let le = match self.function {
            LutFunction::Exponent => exponent_float(value, self.le.start as u32, self.index_offset),
            LutFunction::Linear => linear_float(value, &self.le, super::tables::LE_ENTRIES - 1),
        };
        let lo = linear_float(value, &self.lo, super::tables::LO_ENTRIES - 1);
        let table = self.priorities.choose(le, lo);
        let (position, range, entries) = self.select(table, le, lo, tables);
        count(counters, le, lo, position);
        let slope = |slope: Slope, entry: i16, first: u32, origin: i32| {
            let distance = fp32_to_fp17(Fp32::sub(value, Fp32::add(origin as u32, first)));
            let rise = Fp17::mul(distance, fp16_to_fp17(slope.scale as u16));
            fp17_to_fp32(Fp17::add(fp16_to_fp17(entry as u16), rise))
        };
        match position {
            Position::Under => {
                let first = if self.is_exponent(table) { 2f64.powi(self.index_offset) as f32 } else { 0.0 };
                slope(range.under, entries[0], first.to_bits(), range.start)
            }
            Position::Over => slope(range.over, entries[entries.len() - 1], 0, range.end),
            Position::Hit { index, fraction } => {
                let low_weight = if fraction == 0 {
                    Fp17::pack(0, Fp17::BIAS, 0)
                } else {
                    fraction_to_fp17::<FRACTION>((1 << FRACTION) - fraction)
                };
                let high_weight = fraction_to_fp17::<FRACTION>(fraction);
                let low = Fp17::mul(low_weight, fp16_to_fp17(entries[index] as u16));
                let high = Fp17::mul(high_weight, fp16_to_fp17(entries[index + 1] as u16));
                fp17_to_fp32(Fp17::add(low, high))
            }
        }
    }

    fn is_exponent(&self, table: LutTable) -> bool {
        table == LutTable::Le && self.function == LutFunction::Exponent
    }

    fn select<'t>(
        &self,
        table: LutTable,
        le: Position,
        lo: Position,
        tables: &'t Tables,
    ) -> (Position, &Range, &'t [i16]) {
        match table {
            LutTable::Le => (le, &self.le, tables.le()),
            LutTable::Lo => (lo, &self.lo, tables.lo()),
        }
    }
}

/// SDP counts the hits of each table and the misses of the table whose result is used. Results that are not misses count as
/// hybrid.
fn count(counters: &mut Counters, le: Position, lo: Position, answer: Position) {
    counters.le_hit = counters.le_hit.wrapping_add(u32::from(le.is_hit()));
    counters.lo_hit = counters.lo_hit.wrapping_add(u32::from(lo.is_hit()));
    let counter = match answer {
        Position::Under => &mut counters.under,
        Position::Over => &mut counters.over,
        Position::Hit { .. } => &mut counters.hybrid,
    };
    *counter = counter.wrapping_add(1);
}

fn exponent_int(value: i32, start: i32, offset: i32) -> Position {
    if value <= start {
        return Position::Under;
    }
    let distance = value.wrapping_sub(start) as u32;
    let log = distance.ilog2();
    let index = log as i32 - offset;
    if index < 0 {
        Position::Under
    } else if index as usize >= super::tables::LE_ENTRIES - 1 {
        Position::Over
    } else {
        let beyond = u64::from(distance) & ((1 << log) - 1);
        Position::Hit { index: index as usize, fraction: beyond << (FRACTION - log) }
    }
}

/// `signed` is a quirk of the LE table: the distance passes through a signed register before the fraction is computed, which has
/// an effect if entries are 2^33 or more apart.
fn linear_int(value: i32, range: &Range, last: usize, signed: bool) -> Position {
    if value <= range.start {
        return Position::Under;
    }
    let distance = value.wrapping_sub(range.start) as u32;
    let index = if range.select >= 32 {
        0
    } else if range.select >= 0 {
        u64::from(distance) >> range.select
    } else if range.select > -32 {
        u64::from(distance) << -range.select
    } else {
        // At least one entry per step of the distance, which is not zero.
        u64::MAX
    };
    if index >= last as u64 {
        return Position::Over;
    }
    let beyond = if (0..32).contains(&range.select) { distance & ((1 << range.select) - 1) } else { distance };
    let beyond = if signed { i64::from(beyond as i32) as u64 & FRACTION_MASK } else { u64::from(beyond) };
    let left = FRACTION as i32 - range.select;
    let fraction = if left >= FRACTION as i32 {
        // A whole number of entries.
        if left == FRACTION as i32 {
            (beyond << left) & FRACTION_MASK
        } else {
            0
        }
    } else if left >= 0 {
        (beyond << left) & FRACTION_MASK
    } else if left > -64 {
        beyond >> -left
    } else {
        0
    };
    Position::Hit { index: index as usize, fraction }
}

/// Whether the distance of a value from a table's start puts it below the table.
fn is_below(distance: u32) -> bool {
    Fp32::sign(distance) == 1 || Fp32::is_zero(distance) || Fp32::is_nan(distance)
}

fn exponent_float(value: u32, start: u32, offset: i32) -> Position {
    let distance = Fp32::sub(value, start);
    if is_below(distance) {
        return Position::Under;
    }
    let index = Fp32::expo(distance) as i32 - Fp32::BIAS as i32 - offset;
    if index < 0 {
        Position::Under
    } else if index as usize >= super::tables::LE_ENTRIES - 1 {
        Position::Over
    } else {
        Position::Hit { index: index as usize, fraction: u64::from(Fp32::mant(distance)) << (FRACTION - 23) }
    }
}

fn linear_float(value: u32, range: &Range, last: usize) -> Position {
    let distance = Fp32::sub(value, range.start as u32);
    if is_below(distance) {
        return Position::Under;
    }
    let (index, fraction) = fp32_to_index(distance, range.select);
    if index as usize >= last {
        Position::Over
    } else {
        Position::Hit { index: index as usize, fraction }
    }
}
