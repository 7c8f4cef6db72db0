// SPDX-License-Identifier: MIT OR Apache-2.0

//! Computes the operations that NVDLA lacks, softmax and power, between the hardware's tasks.
//!
//! The results equal those of NVIDIA's runtime bit for bit: single precision inside, sums in the same order, half precision
//! rounded as in [`crate::half`], int8 scaled by the operation's factors, clamped, and truncated towards zero. NVIDIA's runtime
//! computes only the first pixel of a softmax; this one computes all. Source: nvdla/sw, `umd/core/src/runtime/Emulator.cpp`.
//! [`nvdla_uapi::emu`] has the descriptors.
//!
//! A task is given as a [`Memory`], which contains what its address list makes accessible. Nothing outside is accessed. A
//! descriptor that points outside is an error, which is found before anything is written.

mod arithmetic;
mod error;
mod memory;
mod surface;

use nvdla_uapi::emu::{Buffer, Form, Kind, Network, Operation, BUFFERS_SIZE, BUFFER_SIZE, NETWORK_SIZE};
use std::time::Duration;
use surface::{Clock, Surface};

use crate::cancel::Cancel;

pub use error::Error;
pub use memory::Memory;

/// Computes a task, and returns the number of its operations.
///
/// ```
/// use nvdla_runtime::emulator;
/// use nvdla_uapi::emu::{Buffer, Format, Kind, Network, Operation, Single};
///
/// let surface = |address_index| Buffer {
///     address_index, address_offset: 0, size: 8, format: Format::Int8x8, width: 1, height: 1, channels: 2,
///     line_stride: 8, surface_stride: 8,
/// };
/// let softmax = Operation {
///     kind: Kind::Softmax { axis: 1 }, input_scale: Single(0.1_f32.to_bits()), output_scale: Single(0.01_f32.to_bits()),
/// };
/// let mut memory = vec![
///     Network { operations: 1, buffers: 2, num_operations: 1 }.to_bytes().to_vec(),
///     softmax.to_bytes().to_vec(),
///     [surface(3).to_bytes(), surface(4).to_bytes()].concat(),
///     vec![20, 10, 0, 0, 0, 0, 0, 0],
///     vec![0; 8],
/// ];
/// assert_eq!(emulator::run(memory.as_mut_slice())?, 1);
/// assert_eq!(memory[4][..2], [73, 26]);
/// # Ok::<(), emulator::Error>(())
/// ```
pub fn run<M: Memory + ?Sized>(memory: &mut M) -> Result<u16, Error> {
    run_within(memory, None, None)
}

/// As [`run`]. A task that has not ended within `limit`, or when it is cancelled, is an error. What it has written until then
/// stays.
pub fn run_within<M: Memory + ?Sized>(
    memory: &mut M,
    limit: Option<Duration>,
    cancel: Option<&Cancel>,
) -> Result<u16, Error> {
    let clock = Clock::new(limit, cancel.cloned());
    let task = Task::read(memory)?;
    // Every descriptor is checked before anything is written.
    let planned = (0..task.network.num_operations).map(|n| task.plan(memory, n)).collect::<Result<Vec<_>, _>>()?;
    for step in planned {
        match step.operation.kind {
            Kind::Power { power, scale, shift } => {
                let apply = arithmetic::Power::new(&step.operation, power, scale, shift);
                surface::each_line(memory, &step.source, &step.destination, &clock, |format, values| {
                    apply.line(format, values);
                })
            }
            Kind::Softmax { .. } => {
                let apply = arithmetic::Softmax::new(&step.operation);
                surface::each_pixel(memory, &step.source, &step.destination, &clock, |format, channels| {
                    apply.pixel(format, channels);
                })
            }
        }
        .map_err(|broken| {
            let (operation, name) = (step.number, name(&step.operation));
            match broken {
                surface::Stopped::Outside { side, index, end } => {
                    Error::OutOfRange { side, operation, name, end, index, size: memory.size(index.into()) }
                }
                surface::Stopped::Cancelled => Error::Cancelled,
                surface::Stopped::Late => Error::TimedOut { limit: limit.unwrap_or_default(), operation, name },
            }
        })?;
    }
    Ok(task.network.num_operations)
}

/// The positions in a task's address list that it writes.
pub(crate) fn targets<M: Memory + ?Sized>(memory: &M) -> Result<Vec<usize>, Error> {
    let task = Task::read(memory)?;
    let target = |number| Ok(task.buffers(memory, number)?[1].address_index.into());
    (0..task.network.num_operations).map(target).collect()
}

/// The name of an operation's unit, as in the dump of a network.
pub fn name(operation: &Operation) -> &'static str {
    match operation.kind {
        Kind::Power { .. } => "power",
        Kind::Softmax { .. } => "softmax",
    }
}

/// The lists of a task.
struct Task {
    network: Network,
    form: Form,
}

/// An operation with surfaces that lie inside their memories.
struct Step {
    number: u16,
    operation: Operation,
    source: Surface,
    destination: Surface,
}

impl Task {
    fn read<M: Memory + ?Sized>(memory: &M) -> Result<Self, Error> {
        let length = memory.size(0).map_or(0, |size| size.min(NETWORK_SIZE as u64)) as usize;
        let mut bytes = vec![0; length];
        list(memory, "network descriptor", 0, 0, &mut bytes)?;
        let network = Network::parse(&bytes).map_err(Error::Network)?;
        let operations = memory.size(network.operations.into());
        let form = Form::of(usize::try_from(operations.unwrap_or(0)).unwrap_or(usize::MAX), network.num_operations)
            .map_err(|_| Error::List {
                list: "operation list",
                index: network.operations.into(),
                needed: u64::from(network.num_operations) * nvdla_uapi::emu::OPERATION_SIZE as u64,
                size: operations,
            })?;
        Ok(Self { network, form })
    }

    /// The source and the destination of an operation.
    fn buffers<M: Memory + ?Sized>(&self, memory: &M, number: u16) -> Result<[Buffer; 2], Error> {
        let at = |error| Error::Descriptor { operation: number, cause: error };
        let mut bytes = [0; BUFFERS_SIZE];
        let entry = u64::from(number) * BUFFERS_SIZE as u64;
        list(memory, "buffer list", self.network.buffers.into(), entry, &mut bytes)?;
        let source = Buffer::parse(&bytes[..BUFFER_SIZE], self.form).map_err(at)?;
        let destination = Buffer::parse(&bytes[BUFFER_SIZE..], self.form).map_err(at)?;
        Ok([source, destination])
    }

    fn plan<M: Memory + ?Sized>(&self, memory: &M, number: u16) -> Result<Step, Error> {
        let at = |error| Error::Descriptor { operation: number, cause: error };
        let mut bytes = [0; nvdla_uapi::emu::OPERATION_SIZE];
        let size = self.form.operation_size();
        let entry = u64::from(number) * size as u64;
        list(memory, "operation list", self.network.operations.into(), entry, &mut bytes[..size])?;
        let operation = Operation::parse(&bytes[..size], self.form).map_err(at)?;

        let [source, destination] = self.buffers(memory, number)?;

        let name = name(&operation);
        let check = |side, buffer: Buffer| Surface::new(memory, side, number, name, buffer);
        let (from, to) = (check("the source", source)?, check("the destination", destination)?);
        if shape(&source) != shape(&destination) {
            return Err(Error::Mismatch {
                operation: number,
                name,
                source_shape: shape(&source),
                destination_shape: shape(&destination),
            });
        }
        Ok(Step { number, operation, source: from, destination: to })
    }
}

fn shape(buffer: &Buffer) -> String {
    format!("{} x {} pixels of {} channels in {:?}", buffer.width, buffer.height, buffer.channels, buffer.format)
}

fn list<M: Memory + ?Sized>(
    memory: &M,
    list: &'static str,
    index: usize,
    offset: u64,
    into: &mut [u8],
) -> Result<(), Error> {
    let needed = offset + into.len() as u64;
    memory.read(index, offset, into).then_some(()).ok_or_else(|| Error::List {
        list,
        index,
        needed,
        size: memory.size(index),
    })
}

#[cfg(test)]
mod tests;
