// SPDX-License-Identifier: MIT OR Apache-2.0

//! Behind an IOMMU the device can access its buffers, at any physical pages, and nothing else.

use std::fs;
use std::path::Path;

use libtest_mimic::Failed;
use nvdla_guest::control::Control;
use nvdla_guest::node::Node;
use nvdla_guest::system::meminfo;
use nvdla_guest::test_task::TestTask;

use crate::expect::{ensure, equal, first, second, Test};

const TESTS: &[Test] = &[
    ("the_device_reaches_its_buffers_and_nothing_else", reach),
    ("a_buffer_of_another_device_is_reached_while_it_is_imported", imported),
];

/// Whether an IOMMU translates the device's addresses.
pub(crate) fn is_behind(device: &Path) -> bool {
    fs::read_to_string(device.join("iommu_group/type")).is_ok_and(|kind| kind.trim().starts_with("DMA"))
}

/// The tests, if there is an IOMMU.
pub(crate) fn tests() -> Vec<Test> {
    let device = first().and_then(|node| Ok(node.device()?));
    if device.is_ok_and(|device| is_behind(&device)) {
        TESTS.to_vec()
    } else {
        Vec::new()
    }
}

/// KiB that the device can access when no client has buffers.
fn at_rest(node: &Node, control: &Control) -> Result<u32, Failed> {
    ensure!(node.usage("drm-engine-dla").is_ok(), "the node says nothing of its client");
    // The last client's buffers are freed shortly after its file is closed.
    std::thread::sleep(std::time::Duration::from_millis(100));
    Ok(control.mapped_kib())
}

fn reach() -> Result<(), Failed> {
    for node in [first()?, second()?] {
        let control = Control::open(&node.device()?)?;
        let before = at_rest(&node, &control)?;
        equal("KiB that a device without buffers reaches", before, 0)?;
        let (mut sizes, mut handles) = (0, Vec::new());
        for size in [4 << 10, 1 << 20, 5 << 20] {
            let mut buffer = node.buffer(size)?;
            sizes += (size >> 10) as u32;
            equal("KiB that it reaches", control.mapped_kib(), sizes)?;
            // The address is one of the IOMMU, which translates it to the page.
            println!("{} KiB at {:#x}", size >> 10, control.address(&mut buffer.map)?);
            handles.push(buffer.handle);
        }
        ensure!(u64::from(sizes) < meminfo("MemTotal")? / 16, "that is a good part of all memory");
        equal("a task's end", TestTask::copies(&node, 2)?.run(&node)?, 0)?;
        drop(node);
        std::thread::sleep(std::time::Duration::from_millis(100));
        equal("KiB that it reaches after it", control.mapped_kib(), 0)?;
    }
    Ok(())
}

fn imported() -> Result<(), Failed> {
    use std::os::fd::AsRawFd;
    let (node, owner) = (first()?, second()?);
    let control = Control::open(&node.device()?)?;
    let before = at_rest(&node, &control)?;
    let fd = owner.export(owner.create(1 << 20)?)?;
    equal("KiB that it reaches before the import", control.mapped_kib(), before)?;
    let handle = node.import(fd.as_raw_fd())?;
    equal("KiB that it reaches", control.mapped_kib(), before + 1024)?;
    node.destroy(handle)?;
    std::thread::sleep(std::time::Duration::from_millis(100));
    equal("KiB that it reaches after it", control.mapped_kib(), before)
}
