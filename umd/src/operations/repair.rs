// SPDX-License-Identifier: MIT OR Apache-2.0

//! Changes poolings that PDP cannot compute to ones that it can, with the same output.
//!
//! A pooling whose windows end before its input spoils the next one: PDP does not take what no window reads. Such a pooling gets
//! fewer lines and columns, or less padding after them.
//!
//! NVIDIA's compiler splits the width of a pooling for a line buffer that is longer than the one of the small configurations
//! ([`Config::pdp_columns`]). Such a pooling never ends there, or writes wrong bytes, so a device refuses it. PDP divides the
//! width of a pooling itself: the operation has the number of parts (`split_num`) and the widths of the first, the last and the
//! other ones. Other parts give the same output.

use std::fmt;

use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{data_cube, pdp_surface, Descriptor, MemoryType, Operation, PdpOp, PdpSurface, Surface};

use super::error::Error;
use super::list::tasks;
use super::lists::{contents, Lists};
use crate::loadable::Loadable;

/// The most parts that a descriptor can name.
const MOST_PARTS: u32 = 255;
/// The widest part of an input or an output: the fields of `D_PARTIAL_WIDTH_IN` and `D_PARTIAL_WIDTH_OUT` have 10 bits.
const WIDEST_PART: u32 = 1024;

/// A loadable whose poolings PDP can compute.
#[derive(Debug)]
pub struct Repaired {
    /// The loadable. Only the listed poolings are changed.
    pub loadable: Loadable,
    /// The poolings that were changed.
    pub poolings: Vec<Pooling>,
}

/// A pooling that was changed.
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
    /// The lines and columns that no window reads, of the input and the padding, which it does not have any more.
    pub unread: [u16; 2],
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, operation, width, before, parts, unread: [lines, columns] } = self;
        write!(f, "task {task}: ")?;
        if before != parts {
            write!(f, "the {width} columns of pooling {operation} are divided into {parts} parts instead of {before}")?;
        }
        if lines + columns > 0 {
            let and = if before == parts { "" } else { "; " };
            write!(f, "{and}pooling {operation} has {lines} lines and {columns} columns less, which no window reads")?;
        }
        Ok(())
    }
}

/// Divides each pooling of a loadable that does not fit the line buffer of a configuration into parts that fit, and leaves out what
/// no window reads. A pooling that cannot be changed stays as it is, and a device refuses it: one that takes its input from SDP on the
/// fly, because SDP hands over all of it, and one that would need more than 255 parts.
///
/// # Errors
///
/// When a descriptor is missing or cannot be read.
pub fn repair(loadable: &Loadable, config: &Config) -> Result<Repaired, Error> {
    let (mut bytes, mut poolings) = (loadable.as_bytes().to_vec(), Vec::new());
    for task in tasks(loadable)? {
        let slot = |position: usize| contents(loadable, *task.slots.get(position)?);
        let lists = Lists::new(task.id, &slot)?;
        // The lists are parts of the file's bytes.
        let start = |list: &[u8]| (list.as_ptr() as usize).checked_sub(loadable.as_bytes().as_ptr() as usize);
        let places = [lists.operation_list(&slot)?, lists.surfaces(&slot)?].map(start);
        let [Some(operations), Some(surfaces)] = places else { continue };
        for operation in &task.operations {
            let (Operation::Pdp(op), Surface::Pdp(surface)) = (&operation.operation, &operation.surface) else {
                continue;
            };
            let (mut changed, mut cropped) = (*op, *surface);
            let unread = crop(&mut changed, &mut cropped);
            let divided = divide(&changed, &cropped, config);
            if divided.is_none() && unread == [0; 2] {
                continue;
            }
            let changed = divided.unwrap_or(changed);
            let at = operations + operation.index * Operation::SIZE;
            let Some(place) = bytes.get_mut(at..at + Operation::SIZE) else { continue };
            let failed =
                |problem| Error::Descriptor { task: task.id, list: "operation list", entry: operation.index, problem };
            changed.write(place).map_err(failed)?;
            // The older form of the descriptors has no offset in a cube.
            let absent = if task.is_old { data_cube::size - data_cube::offset } else { 0 };
            for (field, value) in
                [(data_cube::width, cropped.src_data.width), (data_cube::height, cropped.src_data.height)]
            {
                let at = surfaces + operation.index * Surface::SIZE + pdp_surface::src_data + field - absent;
                bytes.get_mut(at..at + 2).into_iter().for_each(|place| place.copy_from_slice(&value.to_le_bytes()));
            }
            let (width, before, parts) = (surface.dst_data.width, op.split_num, changed.split_num);
            poolings.push(Pooling { task: task.id, operation: operation.index, width, before, parts, unread });
        }
    }
    let loadable = Loadable::from_bytes(bytes)?;
    Ok(Repaired { loadable, poolings })
}

/// Leaves out the lines and columns after the last windows, first of the padding, then of the input, and returns their numbers. Columns
/// of the input are those of the last part.
fn crop(op: &mut PdpOp, surface: &mut PdpSurface) -> [u16; 2] {
    let on_the_fly = surface.src_data.mem_type == MemoryType::Hw;
    let (src, dst) = (&mut surface.src_data, &surface.dst_data);
    let split = op.split_num > 1;
    let mut part = if split { op.partial_in_width_last } else { src.width };
    let shared = src.width.saturating_sub(part);
    let axis = |size: &mut u16, out: u16, window: u8, stride: u8, before: u8, after: &mut u8, least: u16| {
        let read = (u32::from(out).saturating_sub(1)) * u32::from(stride) + u32::from(window) + 1;
        let padded = u32::from(*size) + u32::from(before) + u32::from(*after);
        let rest = padded.saturating_sub(read);
        let behind = rest.min(u32::from(*after));
        let unread = rest - behind;
        // With fewer windows than fit, or a part without columns, the pooling is wrong for another reason.
        if rest >= u32::from(stride) || unread > 0 && on_the_fly || u32::from(*size) <= unread + u32::from(least) {
            return 0;
        }
        *after -= behind as u8;
        *size -= unread as u16;
        rest as u16
    };
    let lines = axis(&mut src.height, dst.height, op.pool_height, op.stride_y, op.pad_top, &mut op.pad_bottom, 0);
    let columns = axis(&mut src.width, dst.width, op.pool_width, op.stride_x, op.pad_left, &mut op.pad_right, shared);
    if split {
        part = src.width - shared;
        op.partial_in_width_last = part;
    }
    [lines, columns]
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
