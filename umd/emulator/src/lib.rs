// SPDX-License-Identifier: MIT OR Apache-2.0

//! Computes the operations that NVDLA lacks, softmax and power, between the hardware's tasks. `no_std`, and without allocation:
//! the runtime library and the runtime for processors without an operating system share it.
//!
//! The results equal those of NVIDIA's runtime bit for bit: single precision inside, sums in the same order, half precision
//! rounded as in [`half`], int8 scaled by the operation's factors, clamped, and truncated towards zero. NVIDIA's runtime
//! computes only the first pixel of a softmax; this crate computes all. A softmax of int8 may have its results in half precision,
//! which NVIDIA's runtime refuses; its input is then not rounded to half precision. Source: nvdla/sw, `umd/core/src/runtime/Emulator.cpp`.
//! [`nvdla_uapi::emu`] has the descriptors.
//!
//! A task is given as a [`Memory`], which contains what its address list makes accessible. Nothing outside is accessed. A
//! descriptor that points outside is an error, which is found before anything is written.
#![cfg_attr(not(any(test, feature = "std")), no_std)]

mod arithmetic;
mod caller;
mod error;
pub mod half;
mod memory;
mod surface;

use nvdla_uapi::emu::{
    Buffer, Form, Format, Kind, Network, Operation, BUFFERS_SIZE, BUFFER_SIZE, NETWORK_SIZE, OPERATION_SIZE,
};
use surface::Surface;

#[cfg(any(test, feature = "std"))]
pub use caller::Std;
pub use caller::{Functions, Stop};
pub use error::{Error, Shape};
pub use memory::Memory;

/// Computes a task, and returns the number of its operations.
///
/// `watch` is called before some bytes are processed, with their number, and may end the task.
///
/// # Errors
///
/// When a descriptor is wrong or points outside its memory, and when `watch` ends the task.
pub fn run<F: Functions, M: Memory + ?Sized>(
    memory: &mut M,
    mut watch: impl FnMut(usize) -> Result<(), Stop>,
) -> Result<u16, Error> {
    let task = Task::read(memory)?;
    let count = task.network.num_operations;
    (0..count).try_for_each(|number| task.plan(memory, number).map(drop))?;
    for number in 0..count {
        // The operation before may have written into the lists.
        let Step { operation, source, destination } = task.plan(memory, number)?;
        let result = match operation.kind {
            Kind::Power { power, scale, shift } => {
                let power = arithmetic::Power::new(&operation, power, scale, shift);
                power.run::<F, M>(memory, &source, &destination, &mut watch)
            }
            Kind::Softmax { .. } => {
                arithmetic::Softmax::new(&operation).run::<F, M>(memory, &source, &destination, &mut watch)
            }
        };
        result.map_err(|broken| {
            let (operation, name) = (number, name(&operation));
            match broken {
                surface::Stopped::Outside { side, index, end } => {
                    Error::OutOfRange { side, operation, name, end, index, size: memory.size(index.into()) }
                }
                surface::Stopped::Watch(Stop::Cancelled) => Error::Cancelled,
                surface::Stopped::Watch(Stop::Late { limit }) => Error::TimedOut { limit, operation, name },
            }
        })?;
    }
    Ok(count)
}

/// The positions in the address list that a task writes, one per operation.
///
/// # Errors
///
/// When a list cannot be read.
pub fn targets<M: Memory + ?Sized>(memory: &M) -> Result<impl Iterator<Item = Result<usize, Error>> + '_, Error> {
    let task = Task::read(memory)?;
    let count = task.network.num_operations;
    Ok((0..count).map(move |number| Ok(task.buffers(memory, number)?[1].address_index.into())))
}

/// What an operation is called.
pub fn name(operation: &Operation) -> &'static str {
    match operation.kind {
        Kind::Power { .. } => "power",
        Kind::Softmax { .. } => "softmax",
    }
}

/// A task whose network descriptor has been read.
struct Task {
    network: Network,
    form: Form,
}

/// An operation whose surfaces lie in their memory.
struct Step {
    operation: Operation,
    source: Surface,
    destination: Surface,
}

impl Task {
    fn read<M: Memory + ?Sized>(memory: &M) -> Result<Self, Error> {
        let mut bytes = [0; NETWORK_SIZE];
        let length = memory.size(0).map_or(0, |size| size.min(NETWORK_SIZE as u64)) as usize;
        let bytes = &mut bytes[..length];
        list(memory, "network descriptor", 0, 0, bytes)?;
        let network = Network::parse(bytes).map_err(Error::Network)?;
        let operations = memory.size(network.operations.into());
        let form = Form::of(usize::try_from(operations.unwrap_or(0)).unwrap_or(usize::MAX), network.num_operations)
            .map_err(|_| Error::List {
                list: "operation list",
                index: network.operations.into(),
                needed: u64::from(network.num_operations) * OPERATION_SIZE as u64,
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
        let mut bytes = [0; OPERATION_SIZE];
        let size = self.form.operation_size();
        let entry = u64::from(number) * size as u64;
        list(memory, "operation list", self.network.operations.into(), entry, &mut bytes[..size])?;
        let operation = Operation::parse(&bytes[..size], self.form).map_err(at)?;

        let [source, destination] = self.buffers(memory, number)?;

        let name = name(&operation);
        let check = |side, buffer: Buffer| Surface::new(memory, side, number, name, buffer);
        let (from, to) = (check("the source", source)?, check("the destination", destination)?);
        let shapes = [Shape::of(&source), Shape::of(&destination)];
        let as_half = Shape { format: Format::Fp16, ..shapes[0] };
        let fits = shapes[0] == shapes[1] || matches!(operation.kind, Kind::Softmax { .. }) && as_half == shapes[1];
        if !fits {
            return Err(Error::Mismatch { operation: number, name, shapes });
        }
        Ok(Step { operation, source: from, destination: to })
    }
}

/// Reads bytes of one of the task's lists.
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
