// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loads bytes and samples into a chunk of 32-bit values, and converts operands in memory to the form that steps need.

use super::super::operation::Converter;
use super::lanes::map;
use super::plan::Prepare;
use super::{float, int};
use crate::num::fixed::shift_left;
use crate::num::Fp16;
use crate::simd::prefetch::prefetch_after;

/// The data of a chunk in its source.
#[derive(Clone, Copy)]
pub(super) enum Data<'d> {
    /// int8 atoms.
    Int8(&'d [u8]),
    /// int16 atoms.
    Int16(&'d [u8]),
    /// int16 atoms of two surfaces, each with half the channels.
    Int16Halves(&'d [u8], &'d [u8]),
    /// fp16 atoms.
    Fp16(&'d [u8]),
    /// CACC's integers.
    Ints(&'d [i32]),
    /// CACC's floats.
    Floats(&'d [f32]),
}

impl Data<'_> {
    /// Prefetches the next chunk's data.
    pub(super) fn fetch_next(&self) {
        match self {
            Self::Int8(bytes) | Self::Int16(bytes) | Self::Fp16(bytes) => prefetch_after(bytes),
            Self::Int16Halves(low, high) => [low, high].into_iter().for_each(|bytes| prefetch_after(bytes)),
            Self::Ints(samples) => prefetch_after(samples),
            Self::Floats(samples) => prefetch_after(samples),
        }
    }
}

#[inline(always)]
pub(super) fn int8(values: &mut [i32], bytes: &[u8]) {
    for (value, &byte) in values.iter_mut().zip(bytes) {
        *value = i32::from(byte as i8);
    }
}

#[inline(always)]
fn int16(values: &mut [i32], bytes: &[u8]) {
    for (value, pair) in values.iter_mut().zip(bytes.chunks_exact(2)) {
        *value = i32::from(i16::from_le_bytes([pair[0], pair[1]]));
    }
}

/// Fills `values` with the chunk's data; fp16 becomes fp32.
#[inline(always)]
pub(super) fn data(values: &mut [i32], data: Data, lanes: usize) {
    match data {
        Data::Int8(bytes) => int8(values, bytes),
        Data::Int16(bytes) => int16(values, bytes),
        Data::Int16Halves(low, high) => {
            let atoms = values.chunks_exact_mut(lanes).zip(low.chunks_exact(lanes)).zip(high.chunks_exact(lanes));
            for ((atom, low), high) in atoms {
                let (low_half, high_half) = atom.split_at_mut(lanes / 2);
                int16(low_half, low);
                int16(high_half, high);
            }
        }
        Data::Fp16(bytes) => {
            for (value, pair) in values.iter_mut().zip(bytes.chunks_exact(2)) {
                *value = float::widen(u16::from_le_bytes([pair[0], pair[1]])) as i32;
            }
        }
        Data::Ints(samples) => values.copy_from_slice(samples),
        Data::Floats(samples) => {
            for (value, sample) in values.iter_mut().zip(samples) {
                *value = sample.to_bits() as i32;
            }
        }
    }
}

/// Counts NaNs and infinities in fp16 data.
pub(super) fn count_special(bytes: &[u8]) -> (u32, u32) {
    bytes
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]])))
        .fold((0, 0), |(nan, infinite), bits| {
            (nan + u32::from(Fp16::is_nan(bits)), infinite + u32::from(Fp16::is_infinite(bits)))
        })
}

/// The layout of an operand's components in its bytes.
#[derive(Clone, Copy)]
pub(super) struct Format {
    /// Bytes of a component: 1 or 2.
    pub bytes: usize,
    /// Components per element: 1 or 2.
    pub components: usize,
    /// The component that is used.
    pub component: usize,
}

/// Fills `values` with one component of the elements in `bytes`.
#[inline(always)]
fn component(values: &mut [i32], bytes: &[u8], format: Format) {
    match (format.bytes, format.components) {
        (1, 1) => int8(values, bytes),
        (_, 1) => int16(values, bytes),
        (1, _) => {
            for (value, pair) in values.iter_mut().zip(bytes.chunks_exact(2)) {
                *value = i32::from(pair[format.component & 1] as i8);
            }
        }
        _ => {
            let shift = 16 * (format.component as u32 & 1);
            for (value, quad) in values.iter_mut().zip(bytes.chunks_exact(4)) {
                let both = u32::from_le_bytes([quad[0], quad[1], quad[2], quad[3]]);
                *value = i32::from((both >> shift) as i16);
            }
        }
    }
}

/// Fills `values` with operands in the form that a step takes.
#[inline(always)]
pub(super) fn operand(values: &mut [i32], bytes: &[u8], format: Format, prepare: Prepare, flush: bool) {
    component(values, bytes, format);
    match prepare {
        Prepare::Plain => {}
        // 16 bits shifted by 15 fit 32.
        Prepare::Shift(shift @ 0..=15) => map(values, |value| value << shift),
        Prepare::Shift(shift) => map(values, |value| shift_left::<32>(value.into(), shift) as i32),
        Prepare::Convert(Converter { offset, scale, shift }) if is_narrow(format, offset, scale, shift) => {
            int::convert_narrow(values, offset, scale.into(), shift);
        }
        Prepare::Convert(converter) => {
            int::convert_wide(values, converter.offset, converter.scale.into(), converter.shift, false);
        }
        Prepare::Float => {
            map(values, |value| float::widen(value as u16) as i32);
            if flush {
                float::flush_nan(values);
            }
        }
    }
}

/// Whether a converter of these operands stays within 32 bits.
fn is_narrow(format: Format, offset: i32, scale: i16, shift: u32) -> bool {
    let largest = (1i64 << (8 * format.bytes - 1)) + i64::from(offset.unsigned_abs());
    shift < 31 && largest * i64::from(scale.unsigned_abs()) + (1 << shift >> 1) <= i32::MAX.into()
}

/// Repeats the first `period` values to the end.
pub(super) fn repeat(values: &mut [i32], period: usize) {
    for at in (period..values.len()).step_by(period.max(1)) {
        let length = period.min(values.len() - at);
        values.copy_within(..length, at);
    }
}
