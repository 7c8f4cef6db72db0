// SPDX-License-Identifier: MIT OR Apache-2.0

//! The lookup in plain code, as the registers define it.

use crate::lut::tables::{Counters, Position, Priorities, Tables};
use crate::memory::Stop;
use crate::num::convert::{fp16_to_fp17, fp16_to_fp32, fp32_to_fp17, u16_to_fp17};
use crate::num::fixed::{max, min, sign_extend};
use crate::num::{Fp17, Fp32};
use crate::registers::Registers;
use nvdla_uapi::reg::cdp as reg;
use nvdla_uapi::reg::values::{LutFunction, LutTable, Precision};

/// A slope beyond a table's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slope {
    pub(super) scale: i16,
    pub(super) shift: i32,
}

/// One table's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(super) start: i64,
    pub(super) end: i64,
    /// log2 of the distance between entries of a linear table.
    pub(super) select: i32,
    pub(super) under: Slope,
    pub(super) over: Slope,
}

/// CDP's lookup registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    pub(super) function: LutFunction,
    /// log2 of the first entry's distance from the start of an exponential LE table.
    pub(super) index_offset: i32,
    pub(super) le: Range,
    pub(super) lo: Range,
    pub(super) priorities: Priorities,
}

/// The result of one table.
struct Answer<T> {
    position: Position,
    value: T,
}

impl Lookup {
    /// The lookup that the registers describe, for values of that precision (`D_DATA_FORMAT.INPUT_DATA_TYPE`).
    pub fn new(registers: &Registers, precision: Precision) -> Result<Self, Stop> {
        let get = |register| registers.get(register);
        // The C-model reads the selects with as many bits as the precision needs, and ignores higher bits.
        let select = |raw: u32| {
            let bits = match precision {
                Precision::Int8 => 6,
                Precision::Int16 => 7,
                Precision::Fp16 => 8,
            };
            if raw & (1 << (bits - 1)) != 0 {
                sign_extend(raw, bits)
            } else {
                raw as i32
            }
        };
        let limit = |high: u32, low: u32| (i64::from(sign_extend(high, 6)) << 32) | i64::from(low);
        Ok(Self {
            function: registers.field(reg::S_LUT_CFG::LUT_LE_FUNCTION)?,
            index_offset: sign_extend(registers.value(reg::S_LUT_INFO::LUT_LE_INDEX_OFFSET), 8),
            le: Range {
                start: limit(get(reg::S_LUT_LE_START_HIGH), get(reg::S_LUT_LE_START_LOW)),
                end: limit(get(reg::S_LUT_LE_END_HIGH), get(reg::S_LUT_LE_END_LOW)),
                select: select(registers.value(reg::S_LUT_INFO::LUT_LE_INDEX_SELECT)),
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
                start: limit(get(reg::S_LUT_LO_START_HIGH), get(reg::S_LUT_LO_START_LOW)),
                end: limit(get(reg::S_LUT_LO_END_HIGH), get(reg::S_LUT_LO_END_LOW)),
                select: select(registers.value(reg::S_LUT_INFO::LUT_LO_INDEX_SELECT)),
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

    /// Integer processing: the factor for `sum`.
    pub fn int(&self, tables: &Tables, sum: i64, counters: &mut Counters) -> i16 {
        let le = match self.function {
            LutFunction::Exponent => self.exponent_int(tables.le(), sum),
            LutFunction::Linear => linear_int(&self.le, tables.le(), sum),
        };
        let lo = linear_int(&self.lo, tables.lo(), sum);
        match self.pick(le.position, lo.position, counters) {
            LutTable::Le => le.value,
            LutTable::Lo => lo.value,
        }
    }

    /// fp16 processing: the factor for `sum`, an fp32. The result is an fp17.
    pub fn float(&self, tables: &Tables, sum: u32, counters: &mut Counters) -> u32 {
        let exponent = match self.function {
            LutFunction::Exponent => Some(self.index_offset),
            LutFunction::Linear => None,
        };
        let le = table_float(&self.le, tables.le(), sum, exponent);
        let lo = table_float(&self.lo, tables.lo(), sum, None);
        match self.pick(le.position, lo.position, counters) {
            LutTable::Le => le.value,
            LutTable::Lo => lo.value,
        }
    }

    /// Chooses a table. CDP counts each value once.
    fn pick(&self, le: Position, lo: Position, counters: &mut Counters) -> LutTable {
        let counter = match class(le, lo) {
            0 => &mut counters.under,
            1 => &mut counters.over,
            2 => &mut counters.hybrid,
            3 => &mut counters.le_hit,
            _ => &mut counters.lo_hit,
        };
        *counter = counter.wrapping_add(1);
        self.priorities.choose(le, lo)
    }

    fn exponent_int(&self, table: &[i16], sum: i64) -> Answer<i16> {
        let range = &self.le;
        let distance = sum.wrapping_sub(range.start);
        let log = if distance <= 0 { 0 } else { distance.ilog2() as i32 };
        let index = log - self.index_offset;
        if distance <= 0 || index < 0 {
            let first = if self.index_offset < 0 { 0 } else { 1i64.wrapping_shl(self.index_offset as u32) };
            return Answer {
                position: Position::Under,
                value: extend(table[0], distance.wrapping_sub(first), range.under),
            };
        }
        if index >= 64 {
            return Answer {
                position: Position::Over,
                value: extend(table[64], sum.wrapping_sub(range.end), range.over),
            };
        }
        let beyond = distance - (1 << log);
        let fraction = if log > 16 { beyond >> (log - 16) } else { beyond << (16 - log) };
        interpolate_int(table, index as usize, fraction)
    }
}

/// The index in [`crate::lut::Counters`] of the counter for these positions.
pub(super) const fn class(le: Position, lo: Position) -> usize {
    match (le, lo) {
        (Position::Under, Position::Under) => 0,
        (Position::Over, Position::Over) => 1,
        (Position::Hit { .. }, Position::Under | Position::Over) => 3,
        (Position::Under | Position::Over, Position::Hit { .. }) => 4,
        _ => 2,
    }
}

fn linear_int(range: &Range, table: &[i16], sum: i64) -> Answer<i16> {
    let last = table.len() as i64 - 1;
    let distance = sum.wrapping_sub(range.start);
    let index = if range.select < 0 {
        distance.wrapping_shl(range.select.unsigned_abs())
    } else {
        distance.wrapping_shr(range.select as u32)
    };
    if index < 0 || distance <= 0 {
        return Answer { position: Position::Under, value: extend(table[0], distance, range.under) };
    }
    if index >= last {
        return Answer {
            position: Position::Over,
            value: extend(table[last as usize], sum.wrapping_sub(range.end), range.over),
        };
    }
    let fraction = if range.select < 0 {
        0
    } else {
        let step = i64::from(1i32.wrapping_shl(range.select as u32));
        let beyond = distance % step;
        if range.select > 16 {
            beyond.wrapping_shr(range.select as u32 - 16)
        } else {
            beyond << (16 - range.select)
        }
    };
    interpolate_int(table, index as usize, fraction)
}

/// The table's end value, continued by a slope.
fn extend(entry: i16, distance: i64, slope: Slope) -> i16 {
    let rise = round::<56>(distance.wrapping_mul(i64::from(slope.scale)), slope.shift);
    round::<16>(i64::from(entry) + rise, 0) as i16
}

fn interpolate_int(table: &[i16], index: usize, fraction: i64) -> Answer<i16> {
    let (low, high) = (i64::from(table[index]), i64::from(table[index + 1]));
    let rise = round::<56>((high - low).wrapping_mul(fraction), 16);
    Answer { position: Position::Hit { index, fraction: fraction as u64 }, value: round::<16>(low + rise, 0) as i16 }
}

/// `2^exponent`, for exponents of at most ten bits.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// `value / 2^shift`, rounded half away from zero in double precision, limited to `BITS` bits.
fn round<const BITS: u32>(value: i64, shift: i32) -> i64 {
    let real = value as f64;
    let scaled = real * power_of_two(-shift);
    // A magnitude of 2^63 and more saturates, in the cast as in the hardware.
    let rounded = if real > 0.0 { scaled + 0.5 } else { scaled - 0.5 } as i64;
    rounded.clamp(min::<BITS>(), max::<BITS>())
}

/// `exponent` is the index offset of an exponential table.
fn table_float(range: &Range, table: &[i16], sum: u32, exponent: Option<i32>) -> Answer<u32> {
    let last = table.len() - 1;
    let entry = |index: usize| fp16_to_fp17(table[index] as u16);
    let start = range.start as u32;
    let distance = Fp32::sub(sum, start);
    let real = f32::from_bits(distance);
    let position = if real <= 0.0 || real.is_nan() {
        Position::Under
    } else if let Some(offset) = exponent {
        match Fp32::expo(distance) as i32 - Fp32::BIAS as i32 - offset {
            index if index < 0 => Position::Under,
            index if index as usize >= last => Position::Over,
            index => Position::Hit { index: index as usize, fraction: u64::from(distance >> 7) & 0xffff },
        }
    } else {
        let shifted = (f64::from(real) * power_of_two(-range.select)) as f32;
        if shifted >= last as f32 {
            Position::Over
        } else {
            let index = shifted as usize;
            Position::Hit { index, fraction: u64::from(((shifted - index as f32) * 65536.0) as u16) }
        }
    };
    let slope = |scale: i16, distance: u32, end: u32| {
        Fp17::add(Fp17::mul(fp32_to_fp17(distance), fp16_to_fp17(scale as u16)), end)
    };
    let value = match position {
        Position::Under => {
            let distance = match exponent {
                Some(offset) => {
                    let first = if offset <= -127 { 0f32 } else { 2f32.powi(offset) };
                    Fp32::sub(sum, Fp32::add(start, first.to_bits()))
                }
                None => distance,
            };
            slope(range.under.scale, distance, entry(0))
        }
        Position::Over => slope(range.over.scale, Fp32::sub(sum, range.end as u32), entry(last)),
        Position::Hit { index, fraction } => {
            let rise = Fp32::sub(fp16_to_fp32(table[index + 1] as u16), fp16_to_fp32(table[index] as u16));
            Fp17::add(Fp17::mul(fp32_to_fp17(rise), u16_to_fp17(fraction as u16)), entry(index))
        }
    };
    Answer { position, value }
}
