// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP element by element. The fast implementation is compared with it.

use nvdla_uapi::layout;
use nvdla_uapi::reg::values::{PoolingMethod, Precision};

use super::setup::{nans, Emit, Part, Setup, Source};
use crate::memory::{Memory, Stop};
use crate::num::convert::{fp16_to_fp17, fp17_to_fp16};
use crate::num::fixed::round_shift_right;
use crate::num::{Fp16, Fp17};

/// Pools one part. Returns the number of NaNs.
pub(super) fn pool(
    setup: &Setup,
    part: &Part,
    source: &Source,
    memory: &mut dyn Memory,
    emit: &mut Emit,
) -> Result<usize, Stop> {
    let mut found = 0;
    for surface in 0..setup.surfaces {
        for y in 0..setup.vertical.output {
            let line = pool_line(setup, part, source, memory, [surface, y])?;
            if setup.precision == Precision::Fp16 {
                found += nans(&line);
            }
            emit(memory, surface, y, &line)?;
        }
    }
    Ok(found)
}

/// One line of the output.
pub(super) fn pool_line(
    setup: &Setup,
    part: &Part,
    source: &Source,
    memory: &dyn Memory,
    [surface, y]: [usize; 2],
) -> Result<Vec<u8>, Stop> {
    let width = layout::bytes(setup.precision) as usize;
    let (top, bottom) = setup.vertical.window(y);
    let mut rows = Vec::new();
    for row in top..bottom {
        let line = source.line(memory, [surface, row, part.input, part.axis.input])?;
        rows.push(line.chunks_exact(width).map(|bytes| element(setup, bytes)).collect());
    }
    let mut line = Vec::with_capacity(setup.atoms.span(part.axis.output));
    for x in 0..part.axis.output {
        for lane in 0..setup.lanes() {
            let result = window(setup, part, &rows, x, lane);
            line.extend_from_slice(&result.to_le_bytes()[..width]);
        }
    }
    Ok(line)
}

/// An input element: an integer, or the bits of an fp16.
fn element(setup: &Setup, bytes: &[u8]) -> i32 {
    match (setup.precision, bytes) {
        (Precision::Int16, &[low, high]) => i16::from_le_bytes([low, high]).into(),
        (_, &[low, high]) => Fp16::flush_nan(u16::from_le_bytes([low, high]).into(), setup.flush_nan) as i32,
        _ => i32::from(bytes[0] as i8),
    }
}

/// The result of the window with these rows, in column `x` of the output.
fn window(setup: &Setup, part: &Part, rows: &[Vec<i32>], x: usize, lane: usize) -> u16 {
    let lanes = setup.lanes();
    let (left, right) = part.axis.window(x);
    let padded = [part.axis.kernel - (right - left), setup.vertical.kernel - rows.len()];
    let elements = |row: &Vec<i32>| (left..right).map(|column| row[column * lanes + lane]).collect::<Vec<i32>>();
    let rows: Vec<Vec<i32>> = rows.iter().map(elements).collect();
    match (setup.method, setup.precision) {
        (PoolingMethod::Average, Precision::Fp16) => average_fp16(setup, part, &rows, padded),
        (PoolingMethod::Average, _) => average_int(setup, part, &rows, padded),
        // A row with a NaN has its first NaN as the result. A window with several such rows has the NaN of the last of these
        // rows.
        (method, Precision::Fp16) => {
            let better = |a: u32, b: u32| if method == PoolingMethod::Max { Fp16::max(a, b) } else { Fp16::min(a, b) };
            let row = |row: &Vec<i32>| row.iter().map(|&bits| bits as u32).reduce(better);
            rows.iter().filter_map(row).reduce(|so_far, row| better(row, so_far)).unwrap_or(0) as u16
        }
        (PoolingMethod::Max, _) => rows.iter().flatten().max().map_or(0, |&best| best as u16),
        (PoolingMethod::Min, _) => rows.iter().flatten().min().map_or(0, |&best| best as u16),
    }
}

fn average_int(setup: &Setup, part: &Part, rows: &[Vec<i32>], [columns, lines]: [usize; 2]) -> u16 {
    let mut sum = 0i32;
    for row in rows {
        let row = row.iter().fold(setup.pad_int(columns), |sum, &element| sum.wrapping_add(element));
        sum = sum.wrapping_add(row);
    }
    sum = sum.wrapping_add(setup.pad_int(lines).wrapping_mul(part.axis.kernel as i32));
    if setup.precision == Precision::Int8 {
        // int8 is summed in 16 bits.
        sum = i32::from(sum as i16);
    }
    let by_width = round_shift_right(i64::from(sum) * i64::from(setup.recip_width), 16) as i32;
    round_shift_right(i64::from(by_width) * i64::from(setup.recip_height), 16) as u16
}

fn average_fp16(setup: &Setup, part: &Part, rows: &[Vec<i32>], [columns, lines]: [usize; 2]) -> u16 {
    let mut sum = None;
    for row in rows {
        let elements = row.iter().map(|&bits| fp16_to_fp17(bits as u16));
        let row = elements.reduce(Fp17::add).unwrap_or(0);
        let row = Fp17::add(row, setup.pad_fp17(columns));
        sum = Some(sum.map_or(row, |sum| Fp17::add(row, sum)));
    }
    let lines = Fp17::mul(setup.pad_fp17(lines), KERNEL_WIDTHS[part.axis.kernel]);
    let sum = Fp17::add(sum.unwrap_or(0), lines);
    let by_width = Fp17::mul(sum, setup.recip_width & 0x1_ffff);
    fp17_to_fp16(Fp17::mul(by_width, setup.recip_height & 0x1_ffff))
}

/// 0 to 8 in fp17.
pub(super) const KERNEL_WIDTHS: [u32; 9] = [0, 0x7c00, 0x8000, 0x8200, 0x8400, 0x8500, 0x8600, 0x8700, 0x8800];
