// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP element by element. Tests compare the fast implementation with it.

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

use super::operation::{done, Counts, Operation, REACH};
use crate::lut::Tables;
use crate::memory::{Memory, Stop};
use crate::num::convert::{fp16_to_fp17, fp17_to_fp16, fp17_to_fp32};
use crate::num::{Fp16, Fp17, Fp32};
use crate::registers::Registers;
use crate::stream::Done;

/// Like [`super::run`].
pub fn run(
    tables: &Tables,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    let operation = Operation::new(config, rdma, registers)?;
    let counts = normalise(&operation, tables, memory)?;
    Ok(done(counts))
}

pub(super) fn normalise(operation: &Operation, tables: &Tables, memory: &mut dyn Memory) -> Result<Counts, Stop> {
    let bytes = if operation.precision == Precision::Int8 { 1 } else { 2 };
    let mut counts = Counts::default();
    for y in 0..operation.height {
        for x in 0..operation.width {
            // All channels of the position, with padding for the windows on either side.
            let mut channels = vec![outside(operation); REACH];
            for surface in 0..operation.surfaces {
                let atom = operation.source.read(memory, surface, [y, x], 1)?;
                channels.extend(atom.chunks_exact(bytes).map(|bytes| element(operation, bytes)));
            }
            channels.truncate(REACH + operation.channels);
            channels.resize(operation.elements + 2 * REACH, outside(operation));
            for surface in 0..operation.surfaces {
                let mut atom = Vec::new();
                for lane in 0..operation.lanes {
                    let window = &channels[operation.source.cube.atoms().channel(surface, lane)..][..=2 * REACH];
                    let result = match operation.precision {
                        Precision::Int8 => int::<9, 8>(operation, tables, window, &mut counts),
                        Precision::Int16 => int::<17, 16>(operation, tables, window, &mut counts),
                        Precision::Fp16 => fp16(operation, tables, window, &mut counts),
                    };
                    atom.extend_from_slice(&result.to_le_bytes()[..bytes]);
                }
                operation.destination.write(memory, surface, [y, x], &atom)?;
            }
        }
    }
    Ok(counts)
}

/// The value that a window reads beyond the cube's channels.
pub(super) fn outside(operation: &Operation) -> i32 {
    if operation.precision == Precision::Fp16 {
        0
    } else {
        operation.input.offset
    }
}

/// An input element: an integer, or the bits of an fp16.
fn element(operation: &Operation, bytes: &[u8]) -> i32 {
    match (operation.precision, bytes) {
        (Precision::Int16, &[low, high]) => i16::from_le_bytes([low, high]).into(),
        (_, &[low, high]) => Fp16::flush_nan(u16::from_le_bytes([low, high]).into(), operation.flush_nan) as i32,
        _ => i32::from(bytes[0] as i8),
    }
}

fn int<const INPUT: u32, const OUTPUT: u32>(
    operation: &Operation,
    tables: &Tables,
    window: &[i32],
    counts: &mut Counts,
) -> u16 {
    let value = operation.input.apply::<INPUT>(window[REACH]);
    let sum = match operation.reach {
        None => i64::from(value),
        Some(reach) => {
            let values = window[REACH - reach..=REACH + reach].iter();
            values.map(|&element| i64::from(operation.input.apply::<INPUT>(element)).pow(2)).sum()
        }
    };
    let factor = i32::from(operation.lookup.int(tables, sum, &mut counts.lut));
    // A product has at most 33 bits.
    let product = if operation.skip_multiply { i64::from(factor) } else { i64::from(factor) * i64::from(value) };
    let (result, saturated) = operation.output.apply_counted::<OUTPUT>(product);
    counts.saturated += u32::from(saturated);
    result as u16
}

pub(super) fn fp16(operation: &Operation, tables: &Tables, window: &[i32], counts: &mut Counts) -> u16 {
    let value = fp16_to_fp17(window[REACH] as u16);
    let single = |at: usize| fp17_to_fp32(fp16_to_fp17(window[at] as u16));
    let sum = match operation.reach {
        None => single(REACH),
        Some(reach) => {
            let square = |at: usize| Fp32::mul(single(at), single(at));
            // From the middle outwards. The two squares at one distance are added before they are added to the sum.
            let pair = |distance: usize| Fp32::add(square(REACH - distance), square(REACH + distance));
            let first = Fp32::add(pair(1), square(REACH));
            (2..=reach).fold(first, |sum, distance| Fp32::add(sum, pair(distance)))
        }
    };
    let factor = operation.lookup.float(tables, sum, &mut counts.lut);
    let product = match operation.skip_multiply {
        true if Fp17::is_nan(value) => value,
        true => factor,
        false => Fp17::mul(value, factor),
    };
    let result = fp17_to_fp16(product);
    counts.nans += u32::from(Fp16::is_nan(result.into()));
    result
}
