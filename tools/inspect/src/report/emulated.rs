// SPDX-License-Identifier: MIT OR Apache-2.0

//! A task for the emulator.

use nvdla_runtime::loadable::Loadable;
use nvdla_uapi::emu::{self, Buffer, Form, Kind, Network};

use super::bytes;
use super::contents::{Operation, Surface, Task};

/// Reads the descriptors of `task` into it.
pub(super) fn read(loadable: &Loadable, task: &mut Task) -> Result<(), String> {
    let list = bytes::list(loadable, task, 0, "the network descriptor")?;
    task.descriptors = list.version.to_string();
    let network = Network::parse(&list.bytes).map_err(|error| error.to_string())?;
    let descriptors = bytes::list(loadable, task, network.operations.into(), "the operation list")?;
    let buffers = bytes::list(loadable, task, network.buffers.into(), "the buffer list")?;
    let form = Form::of(descriptors.bytes.len(), network.num_operations).map_err(|error| error.to_string())?;
    for index in 0..usize::from(network.num_operations) {
        let descriptor = descriptors.bytes.get(index * form.operation_size()..).unwrap_or_default();
        let pair = buffers.bytes.get(index * emu::BUFFERS_SIZE..).unwrap_or_default();
        let operation = match operation(loadable, task, descriptor, pair, form) {
            Ok(operation) => operation,
            Err(error) => Operation { unit: "?".to_owned(), problem: Some(error.to_string()), ..Default::default() },
        };
        task.operations.push(Operation { index, ..operation });
    }
    Ok(())
}

fn operation(
    loadable: &Loadable,
    task: &Task,
    descriptor: &[u8],
    buffers: &[u8],
    form: Form,
) -> Result<Operation, emu::Error> {
    let operation = emu::Operation::parse(descriptor, form)?;
    let source = Buffer::parse(buffers, form)?;
    let target = Buffer::parse(buffers.get(emu::BUFFER_SIZE..).unwrap_or_default(), form)?;
    let real = |single: emu::Single| f32::from_bits(single.0);
    let (unit, what) = match operation.kind {
        Kind::Power { power, scale, shift } => {
            ("POWER", format!("({} + {} x) ^ {}", real(shift), real(scale), real(power)))
        }
        Kind::Softmax { axis } => ("SOFTMAX", format!("axis {axis}")),
    };
    let mut parts = vec![what];
    for (name, scale) in [("input", operation.input_scale), ("output", operation.output_scale)] {
        if scale != emu::Single::ONE {
            parts.push(format!("{name} scale {}", real(scale)));
        }
    }
    let surface = |role, buffer: &Buffer| Surface {
        role,
        width: buffer.width.into(),
        height: buffer.height.into(),
        channels: buffer.channels.into(),
        size: buffer.size,
        line_stride: buffer.line_stride,
        surface_stride: buffer.surface_stride,
        place: bytes::place(loadable, task, buffer.address_index.into(), buffer.address_offset, buffer.size, false),
    };
    let precision = if source.format == target.format {
        format!("{:?}", source.format)
    } else {
        format!("{:?} to {:?}", source.format, target.format)
    };
    Ok(Operation {
        unit: unit.to_owned(),
        precision: precision.to_lowercase(),
        summary: parts.join(", "),
        surfaces: vec![surface("input", &source), surface("output", &target)],
        ..Default::default()
    })
}
