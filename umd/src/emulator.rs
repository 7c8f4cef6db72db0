// SPDX-License-Identifier: MIT OR Apache-2.0

//! Computes the operations that NVDLA lacks, softmax and power, between the hardware's tasks: [`nvdla_emulator`] with the
//! functions of the standard library, time limits and cancellation.

use std::time::{Duration, Instant};

pub use nvdla_emulator::{name, Error, Memory};
use nvdla_emulator::{Std, Stop};

use crate::cancel::Cancel;

/// Bytes between two looks at the time: some hundred microseconds of softmax.
const BYTES: usize = 1 << 14;

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
    // A limit that the clock cannot represent is no limit.
    let deadline = limit.and_then(|limit| Some((limit, Instant::now().checked_add(limit)?)));
    // The first call looks at the time.
    let mut since = BYTES;
    nvdla_emulator::run::<Std, M>(memory, |bytes| {
        since = since.saturating_add(bytes);
        if since < BYTES {
            return Ok(());
        }
        since = 0;
        if cancel.is_some_and(Cancel::is_cancelled) {
            return Err(Stop::Cancelled);
        }
        match deadline {
            Some((limit, end)) if Instant::now() >= end => Err(Stop::Late { limit }),
            _ => Ok(()),
        }
    })
}

/// The positions in the address list that a task writes.
pub(crate) fn targets<M: Memory + ?Sized>(memory: &M) -> Result<Vec<usize>, Error> {
    nvdla_emulator::targets(memory)?.collect()
}
