// SPDX-License-Identifier: MIT OR Apache-2.0

//! Any bytes are a task that is refused or one that runs: what the engine takes, the device performs without reaching
//! outside the task's buffers, and to an end.
//!
//! The input is a configuration, then one buffer an address: its size, and its first bytes. `cargo run --bin seeds` makes
//! such inputs of a loadable's tasks.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use nvdla_model::memory::Stop;
use nvdla_runtime::device::{AddressEntry, Device, Error, ModelDevice};
use nvdla_uapi::config::Config;

/// Most addresses: a task of the reference compiler has some ten.
const ADDRESSES: usize = 32;
/// Largest buffer.
const SIZE: u64 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((&config, mut rest)) = input.split_first() else { return };
    let mut device = ModelDevice::new(Config::ALL[usize::from(config) % Config::ALL.len()]);
    let mut addresses = Vec::new();
    while let (true, Some((header, tail))) = (addresses.len() < ADDRESSES, rest.split_first_chunk::<6>()) {
        let size = u64::from(u32::from_le_bytes([header[0], header[1], header[2], 0])).clamp(1, SIZE);
        let given = usize::from(u16::from_le_bytes([header[3], header[4]])) | usize::from(header[5] & 1) << 16;
        let (bytes, after) = tail.split_at(given.min(tail.len()).min(size as usize));
        rest = after;
        let Ok(handle) = device.allocate(size) else { return };
        if let Some(to) = device.bytes_mut(handle).get_mut(..bytes.len()) {
            to.copy_from_slice(bytes);
        }
        addresses.push(AddressEntry { handle, offset: 0, size });
    }
    match device.submit(&addresses, Some(Duration::from_secs(10)), None) {
        Err(Error::Stopped { stop: Stop::Fault(fault), .. }) => panic!("a validated task: {fault}"),
        Err(error @ (Error::Stuck { .. } | Error::Deadline { .. })) => panic!("a validated task: {error}"),
        _ => {}
    }
});
