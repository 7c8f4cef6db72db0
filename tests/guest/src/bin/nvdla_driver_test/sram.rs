// SPDX-License-Identifier: MIT OR Apache-2.0

//! The SRAM behind the secondary memory interface: one of the two devices has it, and the other one has no such interface.

use std::fs;
use std::os::fd::AsRawFd;
use std::time::Duration;

use libtest_mimic::Failed;
use memmap2::MmapOptions;
use nix::errno::Errno;
use nvdla_guest::node::{nodes, Node, Options};
use nvdla_guest::system::{bind, node_of, unbind};
use nvdla_guest::test_task::{copying, TestTask};
use nvdla_guest::tree::names;
use nvdla_runtime::device::{Device as _, KernelDevice};
use nvdla_tests::build::address;
use nvdla_uapi::config::Config;
use nvdla_uapi::queue::{GEM_CREATE_CACHED, GEM_CREATE_SRAM};

use crate::expect::{ensure, equal, refused, works, Test};
use crate::removal::insert;

/// The tests; none on a machine with a device tree, whose devices have no SRAM.
pub(crate) fn tests() -> &'static [Test] {
    let device = crate::expect::first().and_then(|node| Ok(node.device()?));
    if device.is_ok_and(|device| names(&device, "compatible")) {
        &[]
    } else {
        TESTS
    }
}

const TESTS: &[Test] = &[
    ("a_device_with_the_interface_has_sram_and_another_has_none", sizes),
    ("sram_is_given_out_and_given_back", exhaustion),
    ("a_new_buffer_in_sram_is_empty", empty),
    ("mappings_of_sram", mappings),
    ("sram_serves_only_who_has_the_handle", clients),
    ("a_task_works_in_sram", task),
    ("a_task_copies_from_one_memory_to_the_other", both_memories),
    ("descriptors_in_sram_are_refused", descriptors),
    ("a_queued_task_keeps_its_sram", queued),
    ("the_runtime_takes_sram_while_there_is_some", runtime),
    ("a_client_has_a_share_of_the_sram", share),
    ("sram_of_an_old_binding_is_not_that_of_a_new_one", binding),
    ("a_device_whose_sram_is_used_stays_awake", awake),
    ("sram_keeps_its_bytes_while_the_machine_sleeps", asleep),
];

const PAGE: usize = 4096;

/// The device with SRAM, opened, and its size.
fn with_sram() -> Result<(Node, u64), Failed> {
    for path in nodes() {
        let node = Node::open(&path)?;
        let size = node.query()?.sram_size;
        if size != 0 {
            return Ok((node, size));
        }
    }
    Err("no device has SRAM".into())
}

fn sizes() -> Result<(), Failed> {
    for path in nodes() {
        let node = Node::open(&path)?;
        let config = Config::by_name(&node.config()?).ok_or("an unknown configuration")?;
        let size = node.query()?.sram_size;
        equal(config.name, size != 0, config.secondary_memif)?;
        if size == 0 {
            refused("SRAM of a device without", node.create_with(4096, GEM_CREATE_SRAM), Errno::ENOSPC)?;
        }
        for flags in [4, GEM_CREATE_SRAM | GEM_CREATE_CACHED, 0x8000_0000, 0x8000_0001] {
            refused("unknown flags", node.create_with(4096, flags), Errno::EINVAL)?;
        }
        for size in [0, u64::MAX] {
            refused("size", node.create_with(size, GEM_CREATE_SRAM), Errno::EINVAL)?;
        }
        works(&node)?;
    }
    Ok(())
}

/// Bytes in use as debugfs and fdinfo say, which must agree if only this client has SRAM.
fn used(node: &Node, size: u64) -> Result<u64, Failed> {
    let bytes = node.usage("drm-total-sram")?;
    let text = node.state()?;
    let line = format!("sram: {} of {} KiB in use", bytes >> 10, size >> 10);
    ensure!(text.contains(&line), "no \"{line}\" in:\n{text}");
    Ok(bytes)
}

fn exhaustion() -> Result<(), Failed> {
    let (node, size) = with_sram()?;
    let create = |size| node.create_with(size, GEM_CREATE_SRAM);
    equal("bytes in use", used(&node, size)?, 0)?;
    for too_much in [size + 1, size + 4096, 2 * size, 1 << 40, 1 << 63] {
        refused("more than there is", create(too_much), Errno::ENOSPC)?;
    }
    let whole = create(size)?;
    equal("bytes in use", used(&node, size)?, size)?;
    refused("one page more", create(1), Errno::ENOSPC)?;
    let other = Node::open(node.path())?;
    refused("a page for another client", other.create_with(4096, GEM_CREATE_SRAM), Errno::ENOSPC)?;
    works(&other)?;
    node.destroy(whole)?;
    let mut parts = Vec::new();
    while let Ok(part) = create(size / 8) {
        parts.push(part);
    }
    equal("eighths", parts.len(), 8)?;
    // Two eighths that do not lie together.
    node.destroy(parts[2])?;
    node.destroy(parts[5])?;
    equal("bytes in use", used(&node, size)?, size / 8 * 6)?;
    refused("two eighths in one piece", create(size / 4), Errno::ENOSPC)?;
    create(size / 8)?;
    create(size / 8 - 4095)?;
    refused("one page more", create(1), Errno::ENOSPC)?;
    drop((node, other));
    let (node, _) = with_sram()?;
    node.create_with(size, GEM_CREATE_SRAM)?;
    Ok(())
}

fn empty() -> Result<(), Failed> {
    let (node, size) = with_sram()?;
    for round in 0..2 {
        let mut buffer = node.buffer_with(size as usize, GEM_CREATE_SRAM)?;
        ensure!(buffer.map.iter().all(|&byte| byte == 0), "round {round}: a new buffer is not empty");
        buffer.map.fill(0xa5);
        ensure!(buffer.map.iter().all(|&byte| byte == 0xa5), "what was written is not read");
        node.destroy(buffer.handle)?;
    }
    let small = node.buffer_with(PAGE, GEM_CREATE_SRAM)?;
    ensure!(small.map.iter().all(|&byte| byte == 0), "a small buffer is not empty");
    Ok(())
}

fn mappings() -> Result<(), Failed> {
    let (node, size) = with_sram()?;
    let handle = node.create_with(2 * PAGE as u64, GEM_CREATE_SRAM)?;
    let offset = node.map_offset(handle)?;
    for (offset, length) in [(offset, 3 * PAGE), (offset, 1 << 30), (offset + 2 * PAGE as u64, PAGE)] {
        ensure!(node.map(offset, length).is_err(), "{length:#x} bytes at {offset:#x} were mapped");
    }
    // SAFETY: The mapping is refused.
    let private = unsafe { MmapOptions::new().offset(offset).len(PAGE).map_copy(node.as_file()) };
    ensure!(private.is_err(), "a private mapping was made");
    let (mut one, two) = (node.map(offset, 2 * PAGE)?, node.map(offset, 2 * PAGE)?);
    one[PAGE + 1] = 42;
    equal("a byte through the other mapping", two[PAGE + 1], 42)?;
    // Accesses of any alignment.
    one[1..10].copy_from_slice(b"unaligned");
    equal("bytes through the other mapping", &two[1..10], &b"unaligned"[..])?;
    node.destroy(handle)?;
    drop(two);
    let (path, whole) = (node.path().to_owned(), size);
    drop(node);
    // The mapping keeps the buffer.
    equal("a byte after the file is closed", one[PAGE + 1], 42)?;
    let node = Node::open(&path)?;
    refused("all of it", node.create_with(whole, GEM_CREATE_SRAM), Errno::ENOSPC)?;
    drop(one);
    node.create_with(whole, GEM_CREATE_SRAM)?;
    Ok(())
}

fn clients() -> Result<(), Failed> {
    let (node, _) = with_sram()?;
    let handle = node.create_with(4096, GEM_CREATE_SRAM)?;
    let offset = node.map_offset(handle)?;
    let other = Node::open(node.path())?;
    refused("another client's handle", other.map_offset(handle), Errno::ENOENT)?;
    ensure!(other.map(offset, 4096).is_err(), "another client mapped the buffer");
    let mut test_task = TestTask::copies(&other, 1)?;
    let data = test_task.addresses.last_mut().ok_or("no addresses")?;
    data.handle = u32::MAX;
    refused("a task with no handle", test_task.run(&other), Errno::ENOENT)?;
    refused("export", node.export(handle), Errno::EOPNOTSUPP)?;
    // After the refusal the buffer is as before.
    let map = node.map(offset, 4096)?;
    equal("a byte", map[0], 0)
}

/// A task whose buffer at a position of the address list is in SRAM.
fn placed(node: &Node, copies: usize, positions: &[usize]) -> Result<TestTask, Failed> {
    let mut test_task = TestTask::copies(node, copies)?;
    for &at in positions {
        let old = &test_task.buffers[at].map;
        let mut buffer = node.buffer_with(old.len(), GEM_CREATE_SRAM)?;
        buffer.map.copy_from_slice(old);
        test_task.addresses[at].handle = buffer.handle;
        test_task.buffers[at] = buffer;
    }
    Ok(test_task)
}

fn task() -> Result<(), Failed> {
    let (node, size) = with_sram()?;
    // The buffer's address behind the interface is 0 first, and then another one.
    for used in [0, size / 2] {
        let _before = if used > 0 { Some(node.create_with(used, GEM_CREATE_SRAM)?) } else { None };
        let mut test_task = placed(&node, 3, &[address::DATA as usize])?;
        for seed in 0..3 {
            test_task.fill(seed);
            equal("the task's end", test_task.run(&node)?, 0)?;
            test_task.check(seed)?;
        }
        node.destroy(test_task.addresses[address::DATA as usize].handle)?;
    }
    Ok(())
}

fn both_memories() -> Result<(), Failed> {
    let (node, _) = with_sram()?;
    for in_sram in [address::DATA, address::ROIS] {
        let (mut net, bytes) = copying(&node, 1)?;
        // The buffer of regions of interest is a second one for cubes.
        net.rois = vec![0; 0x8000];
        net.sdp(0).1.dst_data.address = address::ROIS;
        let mut test_task = TestTask::new(&node, &net, 1, bytes)?;
        let mut buffer = node.buffer_with(0x8000, GEM_CREATE_SRAM)?;
        let at = in_sram as usize;
        test_task.addresses[at].handle = buffer.handle;
        std::mem::swap(&mut test_task.buffers[at], &mut buffer);
        test_task.fill(17);
        equal("the task's end", test_task.run(&node)?, 0)?;
        ensure!(test_task.is_untouched(), "the copy went to the wrong memory");
        let copy = test_task.buffers[address::ROIS as usize].map[0x4000..0x5000].to_vec();
        test_task.data()[0x4000..0x5000].copy_from_slice(&copy);
        test_task.check(17)?;
        drop(buffer);
        let sram = test_task.addresses[at].handle;
        node.destroy(sram)?;
    }
    Ok(())
}

fn descriptors() -> Result<(), Failed> {
    let (node, _) = with_sram()?;
    for at in [address::NETWORK, address::GRAPH, address::OPERATIONS, address::SURFACES] {
        let test_task = placed(&node, 1, &[at as usize])?;
        refused(&format!("entry {at} in SRAM"), test_task.run(&node), Errno::EINVAL)?;
    }
    works(&node)
}

fn queued() -> Result<(), Failed> {
    let (node, size) = with_sram()?;
    let test_task = placed(&node, 1, &[address::DATA as usize])?;
    let gate = nvdla_guest::fence::Timeline::new()?;
    let fence = gate.fence(1)?;
    let options = Options { in_fences: &[fence.as_raw_fd()], ..Options::default() };
    let sequence = test_task.submit(&node, options)?.sequence;
    node.destroy(test_task.addresses[address::DATA as usize].handle)?;
    drop(test_task);
    refused("all of it", node.create_with(size, GEM_CREATE_SRAM), Errno::ENOSPC)?;
    gate.advance(1)?;
    equal("the task's end", node.end(sequence)?, 0)?;
    node.create_with(size, GEM_CREATE_SRAM)?;
    Ok(())
}

fn runtime() -> Result<(), Failed> {
    let (node, size) = with_sram()?;
    let mut device = KernelDevice::open(node.path())?;
    let half = device.allocate_sram(size / 2)?.ok_or("no SRAM")?;
    device.bytes_mut(half).fill(3);
    let mut other = KernelDevice::open(node.path())?;
    let quarter = other.allocate_sram(size / 4)?.ok_or("no SRAM")?;
    ensure!(other.allocate_sram(size / 2)?.is_none(), "more SRAM than there is");
    device.free(half);
    let again = other.allocate_sram(size / 2)?.ok_or("no SRAM after it was given back")?;
    ensure!(other.bytes_mut(again).iter().all(|&byte| byte == 0), "it is not empty");
    ensure!(other.export(quarter).is_err(), "SRAM was exported");
    Ok(())
}

fn share() -> Result<(), Failed> {
    insert("client_sram_kib=64")?;
    let result = (|| {
        let (node, _) = with_sram()?;
        let create = |node: &Node, size| node.create_with(size, GEM_CREATE_SRAM);
        let most = create(&node, 64 << 10)?;
        refused("a page more than the share", create(&node, 4096), Errno::ENOSPC)?;
        let other = Node::open(node.path())?;
        create(&other, 60 << 10)?;
        refused("two pages more", create(&other, 8192), Errno::ENOSPC)?;
        create(&other, 4096)?;
        node.destroy(most)?;
        create(&node, 4096).map(drop)?;
        Ok(())
    })();
    insert("")?;
    result
}

fn binding() -> Result<(), Failed> {
    let (node, size) = with_sram()?;
    let device = node.device()?;
    let mut old = node.buffer_with(size as usize, GEM_CREATE_SRAM)?;
    old.map.fill(7);
    unbind(&device)?;
    // The mapping has lost its bytes, and stays harmless.
    old.map[5] = 8;
    bind(&device)?;
    let fresh = Node::open(&node_of(&device)?)?;
    let new = fresh.buffer_with(size as usize, GEM_CREATE_SRAM)?;
    ensure!(new.map.iter().all(|&byte| byte == 0), "a buffer of the new binding is not empty");
    old.map.fill(9);
    ensure!(new.map.iter().all(|&byte| byte == 0), "a buffer of the old binding is one of the new binding");
    fresh.destroy(new.handle)?;
    drop((new, old, node));
    let mut test_task = placed(&fresh, 1, &[address::DATA as usize])?;
    test_task.fill(1);
    equal("the task's end", test_task.run(&fresh)?, 0)?;
    Ok(test_task.check(1)?)
}

fn awake() -> Result<(), Failed> {
    let (node, _) = with_sram()?;
    let power = node.device()?.join("power");
    let status = || fs::read_to_string(power.join("runtime_status")).map(|text| text.trim().to_owned());
    works(&node)?;
    fs::write(power.join("control"), "auto")?;
    let result = (|| {
        let mut buffer = node.buffer_with(PAGE, GEM_CREATE_SRAM)?;
        std::thread::sleep(Duration::from_secs(1));
        equal("the device with a buffer", status()?, "active".to_owned())?;
        buffer.map.fill(1);
        node.destroy(buffer.handle)?;
        drop(buffer);
        std::thread::sleep(Duration::from_secs(1));
        equal("the device without one", status()?, "suspended".to_owned())?;
        // The allocation wakes the device.
        let buffer = node.buffer_with(PAGE, GEM_CREATE_SRAM)?;
        equal("a byte", buffer.map[7], 0)
    })();
    fs::write(power.join("control"), "on")?;
    result
}

fn asleep() -> Result<(), Failed> {
    let (node, size) = with_sram()?;
    let mut buffer = node.buffer_with(size as usize, GEM_CREATE_SRAM)?;
    for (at, byte) in buffer.map.iter_mut().enumerate() {
        *byte = ((at * 31) >> 4) as u8;
    }
    crate::sleep::sleep()?;
    let wrong = buffer.map.iter().enumerate().find(|&(at, &byte)| byte != ((at * 31) >> 4) as u8);
    equal("the first byte that differs", wrong, None)?;
    works(&node)
}
