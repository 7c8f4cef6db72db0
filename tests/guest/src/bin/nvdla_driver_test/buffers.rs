// SPDX-License-Identifier: MIT OR Apache-2.0

//! Buffers: their mappings, lifetimes and contents.

use std::fs;

use libtest_mimic::Failed;
use nix::errno::Errno;
use nvdla_guest::control::Control;
use nvdla_guest::fence::Timeline;
use nvdla_guest::node::{Node, Options};
use nvdla_guest::system::{bus_name, meminfo, tracing};
use nvdla_guest::test_task::{copying, TestTask};
use nvdla_runtime::device::{AddressEntry, Buffers as _, Device as _, KernelDevice};
use nvdla_uapi::queue::QUERY_UNCACHED;
use std::os::fd::AsRawFd;

use crate::expect::{ensure, equal, first, refused, second, Test};

pub(crate) const TESTS: &[Test] = &[
    ("a_mapping_stays_within_its_buffer", mapping),
    ("an_offset_serves_only_who_has_the_handle", offsets),
    ("a_mapping_outlives_the_handle", outlives_handle),
    ("a_mapping_outlives_the_file", outlives_file),
    ("a_private_mapping_is_refused", private),
    ("two_mappings_show_the_same_bytes", twice),
    ("a_new_buffer_is_empty", empty),
    ("large_buffers_are_contiguous", large),
    ("more_memory_than_there_is_is_refused", too_much),
    ("a_queued_task_keeps_its_buffers", queued),
    ("the_runtime_writes_back_and_invalidates_the_cache_no_more_than_is_needed", cached),
];

fn mapping() -> Result<(), Failed> {
    let node = first()?;
    let handle = node.create(8192)?;
    let offset = node.map_offset(handle)?;
    equal("the offset once more", node.map_offset(handle)?, offset)?;
    for (offset, length) in [(offset, 12288), (offset, 1 << 30), (offset + 8192, 4096), (0, 4096), (1 << 40, 4096)] {
        ensure!(node.map(offset, length).is_err(), "{length:#x} bytes at {offset:#x} were mapped");
    }
    // A part of the buffer, from its start or later.
    let mut whole = node.map(offset, 8192)?;
    whole[4096] = 77;
    equal("the first page", node.map(offset, 4096)?.len(), 4096)?;
    match node.map(offset + 4096, 4096) {
        Ok(second) => equal("the second page begins with", second[0], 77),
        // DRM maps objects only from their start.
        Err(_) => Ok(()),
    }
}

fn offsets() -> Result<(), Failed> {
    let node = first()?;
    let handle = node.create(4096)?;
    let offset = node.map_offset(handle)?;
    let other = Node::open(node.path())?;
    ensure!(other.map(offset, 4096).is_err(), "another client mapped the buffer");
    let fd = node.export(handle)?;
    let handle = other.import(fd.as_raw_fd())?;
    equal("the offset of the other's handle", other.map_offset(handle)?, offset)?;
    other.map(offset, 4096)?;
    other.destroy(handle)?;
    ensure!(other.map(offset, 4096).is_err(), "the offset serves without a handle");
    Ok(())
}

fn outlives_handle() -> Result<(), Failed> {
    let node = first()?;
    let mut buffer = node.buffer(1 << 20)?;
    buffer.map.fill(5);
    node.destroy(buffer.handle)?;
    // If the freed buffer's memory were free, it would be used here.
    let mut next = node.buffer(1 << 20)?;
    next.map.fill(6);
    ensure!(buffer.map.iter().all(|&byte| byte == 5), "the mapping changed");
    Ok(())
}

fn outlives_file() -> Result<(), Failed> {
    let node = first()?;
    let mut buffer = node.buffer(1 << 20)?;
    buffer.map.fill(5);
    drop(node);
    let node = first()?;
    node.buffer(1 << 20)?.map.fill(6);
    ensure!(buffer.map.iter().all(|&byte| byte == 5), "the mapping changed");
    buffer.map[77] = 1;
    Ok(())
}

fn private() -> Result<(), Failed> {
    let node = first()?;
    let offset = node.map_offset(node.create(4096)?)?;
    // SAFETY: a new mapping, which is removed at once.
    let copy = unsafe { memmap2::MmapOptions::new().offset(offset).len(4096).map_copy(node.as_file()) };
    ensure!(copy.is_err(), "a copy was mapped");
    Ok(())
}

fn twice() -> Result<(), Failed> {
    let node = first()?;
    let mut buffer = node.buffer(4096)?;
    let other = node.map(node.map_offset(buffer.handle)?, 4096)?;
    buffer.map[9] = 9;
    equal("a byte", other[9], 9)
}

fn empty() -> Result<(), Failed> {
    let node = first()?;
    for size in [4096, 65536, 1 << 20] {
        for _ in 0..4 {
            let mut buffer = node.buffer(size)?;
            ensure!(buffer.map.iter().all(|&byte| byte == 0), "{size} bytes are not empty");
            buffer.map.fill(0xaa);
            node.destroy(buffer.handle)?;
        }
    }
    Ok(())
}

fn large() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let mut buffer = node.buffer(64 << 20)?;
    let start = control.address(&mut buffer.map)?;
    for page in [1, 100, 5000, 16383] {
        let offset = page * 4096;
        equal(&format!("page {page}"), control.address(&mut buffer.map[offset..])?, start + offset as u64)?;
    }
    Ok(())
}

fn too_much() -> Result<(), Failed> {
    let node = first()?;
    let before = meminfo("CmaFree")?;
    let mut handles = Vec::new();
    let error = loop {
        match node.create(32 << 20) {
            Ok(handle) => handles.push(handle),
            Err(error) => break error,
        }
        ensure!(handles.len() < 1000, "memory has no end");
    };
    equal("the error", error, Errno::ENOMEM)?;
    for handle in handles {
        node.destroy(handle)?;
    }
    let after = meminfo("CmaFree")?;
    ensure!(after + 4 >= before, "CMA had {before} kB free, and has {after}");
    Ok(())
}

/// A queued task whose handles and mappings are closed before it starts.
fn queued() -> Result<(), Failed> {
    let node = first()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(4);
    let data = node.export(test_task.addresses.last().ok_or("no addresses")?.handle)?;
    let submitted = test_task.submit(&node, Options { in_fences: &[gate.as_raw_fd()], ..Options::default() })?;
    for address in &test_task.addresses {
        node.destroy(address.handle)?;
    }
    refused("the handle", node.map_offset(test_task.addresses[0].handle), Errno::ENOENT)?;
    test_task.buffers.drain(..test_task.buffers.len() - 1);
    // If the memory were free, it would be taken and filled here.
    let mut others = Vec::new();
    for _ in 0..16 {
        let mut other = node.buffer(8192)?;
        other.map.fill(0xff);
        others.push(other);
    }
    timeline.advance(1)?;
    equal("the task's end", node.end(submitted.sequence)?, 0)?;
    let handle = node.import(data.as_raw_fd())?;
    let map = node.map(node.map_offset(handle)?, 0x8000)?;
    equal("the first byte of the copy", map[0x4000], 4)
}

/// A device of the machine that does not see the processor's cache. The kernel traces each write-back and each invalidation.
fn cached() -> Result<(), Failed> {
    let uncached = |node: &Node| Ok::<_, Failed>(node.query()?.flags & QUERY_UNCACHED != 0);
    let nodes = [first()?, second()?];
    let mut found = None;
    for node in &nodes {
        if uncached(node)? {
            found = Some(node);
        }
    }
    let Some(node) = found else {
        println!("the devices see the processor's cache, or have a pool that is not cached");
        return Ok(());
    };
    let tracing = tracing().ok_or("the kernel has no trace events")?;
    let name = bus_name(&node.device()?);
    let mut device = KernelDevice::open(node.path())?;
    let mut addresses = Vec::new();
    for content in copying(node, 1)?.0.buffers() {
        let size = content.len().max(1) as u64;
        let handle = device.allocate(size)?;
        device.bytes_mut(handle)[..content.len()].copy_from_slice(&content);
        addresses.push(AddressEntry { handle, offset: 0, size });
    }
    let data = addresses.last().ok_or("no addresses")?.handle;
    // Write-backs and invalidations of the device during a call.
    let counted = |device: &mut KernelDevice, call: &mut dyn FnMut(&mut KernelDevice) -> Result<(), Failed>| {
        fs::write(tracing.join("trace"), "")?;
        fs::write(tracing.join("events/dma/enable"), "1")?;
        let result = call(device);
        fs::write(tracing.join("events/dma/enable"), "0")?;
        result?;
        let text = fs::read_to_string(tracing.join("trace"))?;
        let count = |event: &str| text.lines().filter(|line| line.contains(event) && line.contains(&name)).count();
        Ok::<_, Failed>((count("dma_sync_sg_for_device:"), count("dma_sync_sg_for_cpu:")))
    };
    let run = &mut |device: &mut KernelDevice| -> Result<(), Failed> {
        device.submit(&addresses, None, None)?;
        Ok(())
    };
    let read = &mut |device: &mut KernelDevice| equal("the first byte", device.bytes(data)[0], 0);
    equal("a task after writes", counted(&mut device, run)?, (addresses.len(), 0))?;
    equal("a task without writes", counted(&mut device, run)?, (0, 0))?;
    equal("a read", counted(&mut device, read)?, (0, 1))?;
    equal("a second read", counted(&mut device, read)?, (0, 0))?;
    let write = &mut |device: &mut KernelDevice| -> Result<(), Failed> {
        device.bytes_mut(data)[0x2000..0x2010].fill(9);
        Ok(())
    };
    equal("a write", counted(&mut device, write)?, (0, 0))?;
    equal("a task after a write of one buffer", counted(&mut device, run)?, (1, 0))?;
    equal("a byte of the result", device.bytes(data)[0x4000], 9)
}
