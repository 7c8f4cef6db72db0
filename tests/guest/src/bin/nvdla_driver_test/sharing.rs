// SPDX-License-Identifier: MIT OR Apache-2.0

//! Buffers that are shared between programs, clients, devices and drivers.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Stdio;

use libtest_mimic::Failed;
use nix::errno::Errno;
use nix::sys::memfd::{memfd_create, MFdFlags};
use nix::sys::socket::{socketpair, AddressFamily, SockFlag, SockType};
use nvdla_guest::drm::{attach_fence, heap, udmabuf};
use nvdla_guest::fence::Timeline;
use nvdla_guest::node::{Node, Options};
use nvdla_guest::system::{dma_bufs, failing_allocations, is_translated, HANG};
use nvdla_guest::test_task::TestTask;
use nvdla_uapi::ioctl::MemHandle;
use nvdla_uapi::queue::Address;

use crate::child::{send_fd, start};
use crate::expect::{ensure, equal, first, refused, second, Test};

pub(crate) const TESTS: &[Test] = &[
    ("a_buffer_comes_back_as_its_own_handle", round_trip),
    ("a_descriptor_passed_to_another_program_is_its_buffer", passed),
    ("a_buffer_of_another_device_is_imported", other_device),
    ("two_devices_read_descriptors_in_buffers_of_each_other", crosswise),
    ("an_import_outlives_its_exporter", exporter_gone),
    ("a_scattered_buffer_is_refused_but_behind_an_iommu", scattered),
    ("a_contiguous_buffer_of_another_driver_is_imported", one_page),
    ("a_mapping_of_a_dma_buf", dma_buf_mapping),
    ("a_mapping_of_a_heaps_buffer_ends_once", heap_mapping),
    ("an_import_that_fails_leaves_nothing", failing_import),
    ("a_task_may_hold_the_last_reference_to_a_foreign_buffer", last_reference),
    ("descriptors_in_a_foreign_buffer_are_read_after_who_writes_them", descriptors),
];

fn round_trip() -> Result<(), Failed> {
    let node = first()?;
    let handle = node.create(4096)?;
    let fd = node.export(handle)?;
    equal("the handle", node.import(fd.as_raw_fd())?, handle)?;
    let other = Node::open(node.path())?;
    let imported = other.import(fd.as_raw_fd())?;
    equal("the other's handle once more", other.import(fd.as_raw_fd())?, imported)?;
    refused("a closed descriptor", node.import(999), Errno::EBADF)?;
    refused("no dma-buf", node.import(node.fd()), Errno::EINVAL)?;
    refused("export of no handle", node.export(999), Errno::ENOENT)
}

fn passed() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(6);
    let data = node.export(test_task.addresses.last().ok_or("no addresses")?.handle)?;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
    let mut child = start("receive", &node, Stdio::from(theirs))?;
    send_fd(ours.as_raw_fd(), data.as_raw_fd())?;
    ensure!(child.wait()?.success(), "the other program failed");
    Ok(test_task.check(6)?)
}

/// Runs a task of `node` on cubes in the buffer behind `fd`.
fn run_on(node: &Node, fd: &OwnedFd) -> Result<(), Failed> {
    let mut test_task = TestTask::copies(node, 1)?;
    let handle = node.import(fd.as_raw_fd())?;
    *test_task.addresses.last_mut().ok_or("no addresses")? = Address { handle, flags: 0, offset: 0 };
    equal("the task's end", test_task.run(node)?, 0)
}

fn other_device() -> Result<(), Failed> {
    for (node, owner) in [(first()?, second()?), (second()?, first()?)] {
        // Cubes in the other device's memory.
        let mut test_task = TestTask::copies(&node, 1)?;
        let mut foreign = owner.buffer(test_task.data().len())?;
        test_task.fill(11);
        foreign.map.copy_from_slice(test_task.data());
        let fd = owner.export(foreign.handle)?;
        run_on(&node, &fd)?;
        test_task.data().copy_from_slice(&foreign.map);
        test_task.check(11)?;
        // The same through NVIDIA's submission.
        test_task.fill(12);
        foreign.map.copy_from_slice(test_task.data());
        let (mut list, _fds) = test_task.exported(&node)?;
        *list.last_mut().ok_or("no addresses")? = MemHandle { handle: fd.as_raw_fd() as u32, reserved: 0, offset: 0 };
        node.submit_first(&list, 0)?;
        test_task.data().copy_from_slice(&foreign.map);
        test_task.check(12)?;
    }
    Ok(())
}

/// Each submission imports all buffers, and maps those with descriptors for the kernel. Both devices do so at the same time, each in
/// buffers of the other.
fn crosswise() -> Result<(), Failed> {
    const ROUNDS: usize = 100;
    /// Makes the buffers that the driver maps large, so that the mapping takes long enough to meet the other's.
    const LARGE: usize = 1 << 20;
    let nodes = [first()?, second()?];
    let mut shared = Vec::new();
    for (node, owner) in [(&nodes[0], &nodes[1]), (&nodes[1], &nodes[0])] {
        let test_task = TestTask::copies(node, 1)?;
        let mut list = Vec::new();
        for buffer in &test_task.buffers {
            let mut foreign = owner.buffer(buffer.map.len().max(LARGE))?;
            foreign.map[..buffer.map.len()].copy_from_slice(&buffer.map);
            list.push(owner.export(foreign.handle)?);
        }
        shared.push(list);
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = nodes
            .iter()
            .zip(&shared)
            .map(|(node, buffers)| {
                scope.spawn(move || -> Result<(), Errno> {
                    let list: Vec<_> = buffers
                        .iter()
                        .map(|fd| MemHandle { handle: fd.as_raw_fd() as u32, reserved: 0, offset: 0 })
                        .collect();
                    (0..ROUNDS).try_for_each(|_| node.submit_first(&list, 0))
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| Ok(worker.join().map_err(|_| "a thread panicked")??))
    })
}

fn exporter_gone() -> Result<(), Failed> {
    let (node, owner) = (first()?, second()?);
    let size = 0x8000;
    let fd = owner.export(owner.create(size)?)?;
    let handle = node.import(fd.as_raw_fd())?;
    drop((owner, fd));
    let mut map = node.map(node.map_offset(handle)?, size as usize)?;
    map[0x2000..0x3000].fill(3);
    let mut test_task = TestTask::copies(&node, 1)?;
    *test_task.addresses.last_mut().ok_or("no addresses")? = Address { handle, flags: 0, offset: 0 };
    let submitted = test_task.submit(&node, Options::default())?;
    node.destroy(handle)?;
    equal("the task's end", node.end(submitted.sequence)?, 0)?;
    equal("the copy's first byte", map[0x4000], 3)
}

/// A buffer of pages of this program's memory.
fn of_pages(size: u64) -> Result<(OwnedFd, OwnedFd), Failed> {
    let memory = memfd_create(c"pages", MFdFlags::MFD_ALLOW_SEALING)?;
    nix::unistd::ftruncate(memory.as_fd(), size as i64)?;
    nix::fcntl::fcntl(memory.as_fd(), nix::fcntl::FcntlArg::F_ADD_SEALS(nix::fcntl::SealFlag::F_SEAL_SHRINK))?;
    let buffer = udmabuf(memory.as_raw_fd(), size)?;
    Ok((memory, buffer))
}

fn scattered() -> Result<(), Failed> {
    let node = first()?;
    // A few pages may happen to be contiguous; 64 are not.
    let (_memory, buffer) = of_pages(64 * 4096)?;
    if is_translated(&node.device()?) {
        // It is contiguous in the device's addresses, which is enough.
        let handle = node.import(buffer.as_raw_fd())?;
        let mut map = node.map(node.map_offset(handle)?, 64 * 4096)?;
        map[0x2000..0x3000].fill(3);
        let mut test_task = TestTask::copies(&node, 1)?;
        if let Some(last) = test_task.addresses.last_mut() {
            last.handle = handle;
        }
        equal("a task's end", test_task.run(&node)?, 0)?;
        return equal("the copy's first byte", map[0x4000], 3);
    }
    refused("import", node.import(buffer.as_raw_fd()), Errno::EINVAL)?;
    let list = vec![MemHandle { handle: buffer.as_raw_fd() as u32, reserved: 0, offset: 0 }; 8];
    refused("NVIDIA's submission", node.submit_first(&list, 0), Errno::EINVAL)
}

fn one_page() -> Result<(), Failed> {
    let node = first()?;
    let (_memory, buffer) = of_pages(4096)?;
    let handle = node.import(buffer.as_raw_fd())?;
    let mut map = node.map(node.map_offset(handle)?, 4096)?;
    map[5] = 5;
    equal("a byte", map[5], 5)?;
    // As the network descriptor: the driver reads the buffer, whose bytes are not a valid descriptor.
    map.fill(0xee);
    let addresses = [Address { handle, flags: 0, offset: 0 }];
    refused("a task", node.submit(&[&addresses], Options::default()).map(|_| ()), Errno::EINVAL)
}

/// The exporter's mapping operations cannot end the driver's mapping, so the driver must remove it itself.
fn heap_mapping() -> Result<(), Failed> {
    let node = first()?;
    for round in 0..20 {
        let fd = heap("system", 4096)?;
        let handle = node.import(fd.as_raw_fd())?;
        let offset = node.map_offset(handle)?;
        for _ in 0..3 {
            let mut map = node.map(offset, 4096)?;
            map[7] = round;
            drop(map);
        }
        let map = node.map(offset, 4096)?;
        // The object is freed while it is mapped.
        node.destroy(handle)?;
        drop(fd);
        equal("a byte", map[7], round)?;
    }
    Ok(())
}

fn failing_import() -> Result<(), Failed> {
    let node = first()?;
    let fd = heap("system", 4096)?;
    let before = dma_bufs()?;
    let failed = failing_allocations(|| {
        let result = node.import(fd.as_raw_fd());
        Some(result.is_ok_and(|handle| node.destroy(handle).is_ok()))
    })?;
    match failed {
        Some(count) => println!("{count} allocations failed in turn"),
        None => println!("this kernel's allocations cannot be made to fail"),
    }
    // It can still be imported, and is freed with its last descriptor.
    node.destroy(node.import(fd.as_raw_fd())?)?;
    equal("dma-bufs", dma_bufs()?, before)?;
    drop(fd);
    let start = std::time::Instant::now();
    while dma_bufs()? >= before && start.elapsed() < HANG {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    equal("dma-bufs without the descriptor", dma_bufs()?, before - 1)
}

/// Access of the processor to another driver's buffer begins with a wait for those who write it.
fn descriptors() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    let network = test_task.buffers[0].map.to_vec();
    equal("pages of the network's descriptor", network.len(), 4096)?;
    let foreign = heap("system", 4096)?;
    // SAFETY: the heap's buffer has a page, and nobody else uses it.
    let mut map = unsafe { memmap2::MmapOptions::new().len(4096).map_mut(&foreign)? };
    map.copy_from_slice(&network);
    test_task.addresses[0].handle = node.import(foreign.as_raw_fd())?;
    test_task.fill(4);
    let gates = Timeline::new()?;
    attach_fence(foreign.as_raw_fd(), gates.fence(1)?.as_raw_fd(), true)?;
    std::thread::scope(|scope| -> Result<(), Failed> {
        let submitter = scope.spawn(|| test_task.run(&node));
        std::thread::sleep(std::time::Duration::from_millis(300));
        let waits = !submitter.is_finished();
        gates.advance(1)?;
        equal("the task's end", submitter.join().map_err(|_| "the submitter panicked")??, 0)?;
        ensure!(waits, "the descriptors were read while another wrote them");
        Ok(())
    })?;
    Ok(test_task.check(4)?)
}

/// The last reference to a buffer of another driver is dropped with the task that used it. Its end frees a mapping, for which the
/// buffer's reservation lock is taken.
fn last_reference() -> Result<(), Failed> {
    let node = first()?;
    for _ in 0..10 {
        let fd = heap("system", 4096)?;
        let handle = node.import(fd.as_raw_fd())?;
        let mut test_task = TestTask::copies(&node, 1)?;
        // An address that no descriptor uses.
        test_task.addresses.push(Address { handle, flags: 0, offset: 0 });
        let submitted = test_task.submit(&node, Options { out_fence: true, ..Options::default() })?;
        node.destroy(handle)?;
        drop(fd);
        equal("the task's end", node.end(submitted.sequence)?, 0)?;
    }
    Ok(())
}

fn dma_buf_mapping() -> Result<(), Failed> {
    let node = first()?;
    let mut buffer = node.buffer(8192)?;
    let fd = node.export(buffer.handle)?;
    let file = std::fs::File::from(fd);
    // SAFETY: plain bytes.
    let mut map = unsafe { memmap2::MmapOptions::new().len(8192).map_mut(&file)? };
    buffer.map[5000] = 50;
    equal("a byte", map[5000], 50)?;
    map[1] = 1;
    equal("a byte", buffer.map[1], 1)?;
    // SAFETY: plain bytes.
    let longer = unsafe { memmap2::MmapOptions::new().len(12288).map_mut(&file) };
    ensure!(longer.is_err(), "more than the buffer was mapped");
    drop((node, file));
    map[2] = 2;
    equal("a byte", buffer.map[2], 2)
}
