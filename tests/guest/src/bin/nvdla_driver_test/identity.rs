// SPDX-License-Identifier: MIT OR Apache-2.0

//! The identity of a device.

use std::fs;

use libtest_mimic::Failed;
use nvdla_guest::node::{nodes, Node};
use nvdla_guest::system::{bus_name, is_platform};
use nvdla_guest::test_task::TestTask;
use nvdla_uapi::config::Config;
use nvdla_uapi::ioctl::{DRIVER_NAME, MAX_BUFFERS_PER_TASK};
use nvdla_uapi::queue::{self, GEM_CREATE_SRAM};

use crate::expect::{ensure, equal, first, second, Test};

pub(crate) const TESTS: &[Test] = &[
    ("each_device_has_its_own_configuration", each_device),
    ("limits_are_those_of_the_interface", limits),
    ("the_user_space_library_finds_every_device", library),
    ("usage_figures_of_a_client", usage),
    ("memory_of_a_client_by_region", regions),
    ("a_client_has_one_number", one_number),
];

fn each_device() -> Result<(), Failed> {
    let (one, two) = (first()?, second()?);
    ensure!(one.config()? != two.config()?, "both are {}", one.config()?);
    for node in [one, two] {
        let name = node.config()?;
        ensure!(Config::by_name(&name).is_some(), "no configuration is called {name}");
        let mut test_task = TestTask::copies(&node, 2)?;
        test_task.fill(3);
        equal("a task's end", test_task.run(&node)?, 0)?;
        test_task.check(3)?;
    }
    Ok(())
}

fn limits() -> Result<(), Failed> {
    let query = first()?.query()?;
    equal("addresses", query.max_addresses, MAX_BUFFERS_PER_TASK)?;
    equal("tasks", query.max_tasks, queue::MAX_TASKS)?;
    equal("queued tasks", query.max_queued, queue::MAX_QUEUED)?;
    equal("fences", query.max_in_fences, queue::MAX_IN_FENCES)?;
    ensure!(query.default_timeout_ns > 0, "tasks have no time");
    ensure!(
        query.max_timeout_ns >= query.default_timeout_ns,
        "a task may run for {} ns at most, without a deadline for {} ns",
        query.max_timeout_ns,
        query.default_timeout_ns
    );
    ensure!(query.hardware_version > 0, "no version");
    Ok(())
}

fn library() -> Result<(), Failed> {
    equal("devices", nvdla_runtime::device::discover(), nodes())
}

/// fdinfo counts the device's time and the client's memory, and names the driver and the device.
fn usage() -> Result<(), Failed> {
    let node = first()?;
    let text = node.fdinfo()?;
    let device = bus_name(&node.device()?);
    ensure!(text.contains(&format!("drm-driver:\t{DRIVER_NAME}")), "no driver in:\n{text}");
    // DRM names the device only on PCI.
    ensure!(is_platform(&node.device()?) || text.contains(&device), "no {device} in:\n{text}");
    equal("time before", node.usage("drm-engine-dla")?, 0)?;
    let memory = text.lines().find_map(|line| line.strip_prefix("drm-total-")?.split_once(':')).map(|(name, _)| name);
    let key = format!("drm-total-{}", memory.ok_or("no drm-total- in fdinfo")?);
    equal("memory before", node.usage(&key)?, 0)?;
    let test_task = TestTask::copies(&node, 4)?;
    equal("a task's end", test_task.run(&node)?, 0)?;
    let text = node.fdinfo()?;
    ensure!(node.usage("drm-engine-dla")? > 0, "no time was counted:\n{text}");
    ensure!(node.usage(&key)? > 0, "no memory was counted:\n{text}");
    println!("{}", fs::read_to_string(format!("/proc/self/fdinfo/{}", node.fd()))?);
    Ok(())
}

/// The kernel's `drm-usage-stats.rst`: a region has the buffers of which the client has a handle, and buffers of which others have
/// handles too are shared.
fn regions() -> Result<(), Failed> {
    const KIB: u64 = 1 << 10;
    for path in nodes() {
        let (node, other) = (Node::open(&path)?, Node::open(&path)?);
        let sram = node.query()?.sram_size != 0;
        let figures = |node: &Node, region: &str| -> Result<[u64; 4], Failed> {
            let mut figures = [0; 4];
            for (figure, kind) in figures.iter_mut().zip(["total", "shared", "resident", "active"]) {
                *figure = node.usage(&format!("drm-{kind}-{region}"))?;
            }
            Ok(figures)
        };
        node.create(36 * KIB)?;
        let shared = node.create(20 * KIB)?;
        equal("memory", figures(&node, "memory")?, [56 * KIB, 0, 56 * KIB, 0])?;
        let theirs = other.import(std::os::fd::AsRawFd::as_raw_fd(&node.export(shared)?))?;
        equal("memory, a part shared", figures(&node, "memory")?, [56 * KIB, 20 * KIB, 56 * KIB, 0])?;
        equal("the other's memory", figures(&other, "memory")?, [20 * KIB, 20 * KIB, 20 * KIB, 0])?;
        node.destroy(shared)?;
        equal("memory without that part", figures(&node, "memory")?, [36 * KIB, 0, 36 * KIB, 0])?;
        other.destroy(theirs)?;
        if !sram {
            ensure!(!node.fdinfo()?.contains("-sram:"), "a device without SRAM has a region for it");
            continue;
        }
        let block = node.create_with(12 * KIB, GEM_CREATE_SRAM)?;
        equal("SRAM", figures(&node, "sram")?, [12 * KIB, 0, 12 * KIB, 0])?;
        equal("memory beside SRAM", figures(&node, "memory")?, [36 * KIB, 0, 36 * KIB, 0])?;
        node.destroy(block)?;
        equal("SRAM that was released", figures(&node, "sram")?, [0; 4])?;
    }
    Ok(())
}

/// fdinfo and debugfs use the same number for a client.
fn one_number() -> Result<(), Failed> {
    let nodes = [first()?, first()?];
    let test_task = TestTask::copies(&nodes[1], 1)?;
    for _ in 0..7 {
        equal("a task's end", test_task.run(&nodes[1])?, 0)?;
    }
    let text = nodes[0].state()?;
    for (node, ended) in nodes.iter().zip([0, 7]) {
        let line = format!("client {}: 0 tasks queued, {ended} submitted, {ended} ended", node.usage("drm-client-id")?);
        ensure!(text.contains(&line), "no \"{line}\" in:\n{text}");
    }
    Ok(())
}
