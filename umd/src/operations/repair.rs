// SPDX-License-Identifier: MIT OR Apache-2.0

//! Divides poolings that do not fit PDP's line buffer into parts that fit.
//!
//! NVIDIA's compiler splits the width of a pooling for a line buffer that is longer than the one of the small configurations
//! ([`Config::pdp_columns`]). Such a pooling never ends there, or writes wrong bytes, so a device refuses it. PDP divides the
//! width of a pooling itself: the operation has the number of parts (`split_num`) and the widths of the first, the last and the
//! other ones. Other parts give the same output.

use std::fmt;

use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{Descriptor, MemoryType, Operation, PdpOp, PdpSurface, Surface};

use super::error::Error;
use super::list::tasks;
use super::lists::{contents, Lists};
use crate::loadable::Loadable;

/// The most parts that a descriptor can name.
const MOST_PARTS: u32 = 255;
/// The widest part of an input or an output: the fields of `D_PARTIAL_WIDTH_IN` and `D_PARTIAL_WIDTH_OUT` have 10 bits.
const WIDEST_PART: u32 = 1024;

/// A loadable whose poolings fit the line buffer.
#[derive(Debug)]
pub struct Repaired {
    /// The loadable. Only the parts of the listed poolings are changed.
    pub loadable: Loadable,
    /// The poolings that were changed.
    pub poolings: Vec<Pooling>,
}

/// A pooling whose width was divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// The task's id.
    pub task: u16,
    /// The position in the operation list.
    pub operation: usize,
    /// The columns of the output.
    pub width: u16,
    /// The parts that it had; 1 if it was not divided.
    pub before: u8,
    /// The parts that it has.
    pub parts: u8,
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, operation, width, before, parts } = self;
        write!(f, "task {task}: the {width} columns of pooling {operation} are divided into {parts} parts instead of {before}")
    }
}

/// Divides each pooling of a loadable that does not fit the line buffer of a configuration into parts that fit. A pooling that
/// cannot be divided stays as it is, and a device refuses it: one that takes its input from SDP on the fly, and one that would need
/// more than 255 parts.
///
/// # Errors
///
/// When a descriptor is missing or cannot be read.
pub fn repair(loadable: &Loadable, config: &Config) -> Result<Repaired, Error> {
    let (mut bytes, mut poolings) = (loadable.as_bytes().to_vec(), Vec::new());
    for task in tasks(loadable)? {
        let slot = |position: usize| contents(loadable, *task.slots.get(position)?);
        let list = Lists::new(task.id, &slot)?.operation_list(&slot)?;
        // The list is a part of the file's bytes.
        let Some(start) = (list.as_ptr() as usize).checked_sub(loadable.as_bytes().as_ptr() as usize) else { continue };
        for operation in &task.operations {
            let (Operation::Pdp(op), Surface::Pdp(surface)) = (&operation.operation, &operation.surface) else {
                continue;
            };
            let Some(divided) = divide(op, surface, config) else { continue };
            let at = start + operation.index * Operation::SIZE;
            let Some(place) = bytes.get_mut(at..at + Operation::SIZE) else { continue };
            let failed =
                |problem| Error::Descriptor { task: task.id, list: "operation list", entry: operation.index, problem };
            divided.write(place).map_err(failed)?;
            let (width, before, parts) = (surface.dst_data.width, op.split_num, divided.split_num);
            poolings.push(Pooling { task: task.id, operation: operation.index, width, before, parts });
        }
    }
    let loadable = Loadable::from_bytes(bytes)?;
    Ok(Repaired { loadable, poolings })
}

/// The pooling in fewer columns per part; `None` if it fits as it is, or cannot be divided.
fn divide(op: &PdpOp, surface: &PdpSurface, config: &Config) -> Option<PdpOp> {
    if surface.src_data.mem_type == MemoryType::Hw {
        return None;
    }
    let (window, stride) = (u32::from(op.pool_width) + 1, u32::from(op.stride_x).max(1));
    let (input, output) = (u32::from(surface.src_data.width), u32::from(surface.dst_data.width));
    let most = config.pdp_columns(u32::from(op.pool_height) + 1, op.stride_y.into());
    let widest = match op.split_num {
        0 | 1 => output,
        2 => u32::from(op.partial_width_first.max(op.partial_width_last)),
        _ => u32::from(op.partial_width_first.max(op.partial_width_last).max(op.partial_width_mid)),
    };
    if widest <= most {
        return None;
    }
    // The parts have equal numbers of columns, and the last one has what is left. A part's input is what the part before it
    // has not read.
    (output.div_ceil(most)..=MOST_PARTS.min(output)).find_map(|parts| {
        let columns = output.div_ceil(parts);
        let parts = output.div_ceil(columns);
        let first = ((columns - 1) * stride + window).checked_sub(op.pad_left.into())?;
        let before = first + (parts - 2) * columns * stride;
        let last = input.checked_sub(before)?;
        let inputs = [first, columns * stride, last];
        if inputs.iter().any(|width| !(1..=WIDEST_PART).contains(width)) {
            return None;
        }
        Some(PdpOp {
            split_num: parts as u8,
            partial_in_width_first: first as u16,
            partial_in_width_mid: (columns * stride) as u16,
            partial_in_width_last: last as u16,
            partial_width_first: columns as u16,
            partial_width_mid: columns as u16,
            partial_width_last: (output - (parts - 1) * columns) as u16,
            ..*op
        })
    })
}
