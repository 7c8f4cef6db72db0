// SPDX-License-Identifier: MIT OR Apache-2.0

//! The contents of a task's memory, by its address list, before it runs.

use nvdla_runtime::loadable::{Loadable, MemoryFlags, Version};

use super::contents::{Location, Task};

/// A list of descriptors.
pub(super) struct List {
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// The version of its descriptors.
    pub(super) version: Version,
}

/// The bytes at a position of the task's address list, as far as blobs fill them.
pub(super) fn list(loadable: &Loadable, task: &Task, position: i32, what: &str) -> Result<List, String> {
    let address =
        usize::try_from(position).ok().and_then(|position| task.addresses.get(position)).ok_or_else(|| {
            format!("{what} is at position {position} of the address list, which has {} entries", task.addresses.len())
        })?;
    let memory = loadable
        .memory(address.memory)
        .ok_or_else(|| format!("{what} is in memory {}, which does not exist", address.memory))?;
    let mut version = Version::default();
    let mut bytes = Vec::new();
    for (blob, offset) in loadable.contents(memory) {
        let data = blob.data();
        // The part of the blob that lies behind the address.
        let skip = address.offset.saturating_sub(offset).min(data.len() as u64) as usize;
        let Ok(begin) = usize::try_from(offset.saturating_sub(address.offset)) else { continue };
        let data = &data[skip..];
        if data.is_empty() {
            continue;
        }
        // The loadable is verified: blobs lie within memories of a sensible size.
        if bytes.len() < begin + data.len() {
            bytes.resize(begin + data.len(), 0);
        }
        bytes[begin..begin + data.len()].copy_from_slice(data);
        if begin == 0 {
            version = blob.version();
        }
    }
    if bytes.is_empty() {
        return Err(format!("{what} is in memory {}, which no blob fills there", address.memory));
    }
    Ok(List { bytes, version })
}

/// Where a surface of `size` bytes lies that starts `offset` bytes behind the address of position `address`.
pub(super) fn place(loadable: &Loadable, task: &Task, address: i32, offset: u32, size: u32, sram: bool) -> Location {
    let Some(entry) = usize::try_from(address).ok().and_then(|position| task.addresses.get(position)) else {
        return Location::Nowhere { address };
    };
    let offset = entry.offset.saturating_add(u64::from(offset));
    let memory = loadable.memory(entry.memory);
    let blob = memory.and_then(|memory| {
        let mut contents = loadable.contents(memory);
        contents.find(|(blob, at)| (*at..at.saturating_add(blob.data().len() as u64)).contains(&offset))
    });
    let tensor = || {
        let bound = memory.filter(|memory| {
            let flags = memory.flags();
            flags.has(MemoryFlags::INPUT) || flags.has(MemoryFlags::OUTPUT)
        })?;
        loadable.tensor(bound.tensor_desc_id()).map(|tensor| tensor.name().to_owned())
    };
    let end = offset.saturating_add(u64::from(size));
    let beyond = memory.map(|memory| end.saturating_sub(memory.size())).filter(|&beyond| beyond > 0);
    let holds = blob.map(|(blob, _)| blob.name().to_owned()).or_else(tensor);
    Location::Memory { address, memory: entry.memory, offset, holds, beyond, sram }
}
