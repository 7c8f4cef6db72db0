// SPDX-License-Identifier: MIT OR Apache-2.0

//! An error of PCI Express at the port above the device: the kernel tells the driver, resets what is below the port, and lets the
//! driver go on.
//!
//! The kernel's own injector (`drivers/pci/pcie/aer_inject.c`) writes the error into the port's status and raises its interrupt.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nix::errno::Errno;
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::node::{Node, Options};
use nvdla_guest::system::{bus_name, node_of, stay_awake, Messages, HANG};
use nvdla_guest::test_task::TestTask;

use crate::edges::{die, master};
use crate::expect::{ensure, equal, first, refused, works, Test};

const TESTS: &[Test] = &[
    ("an_error_of_an_idle_device_is_recovered_from", idle),
    ("an_error_ends_the_running_task", running),
    ("a_recovery_revives_a_dead_device", revived),
    ("a_recovery_does_not_revive_a_dead_device_that_stays_busy", busy),
    ("a_recovery_enables_the_registers", registers),
    ("a_device_is_unbound_after_a_recovery", unbound),
];

const INJECTOR: &str = "/dev/aer_inject";

/// The tests where the first device is behind a port that can have errors.
pub(crate) fn tests() -> &'static [Test] {
    let port = first().and_then(|node| port(&node.device()?));
    if port.is_ok() && Path::new(INJECTOR).exists() {
        TESTS
    } else {
        &[]
    }
}

/// The port above a device.
fn port(device: &Path) -> Result<PathBuf, Failed> {
    let port = device.parent().ok_or("the device has no parent")?;
    ensure!(port.join("aer_dev_fatal").exists(), "{} reports no errors of PCI Express", port.display());
    Ok(port.to_owned())
}

/// An uncorrectable error, by its bit in the status register.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A data link protocol error, which is fatal: the link cannot be used any more.
    Fatal = 1 << 4,
    /// A completion timeout, which is not.
    NonFatal = 1 << 14,
}

/// Injects an error at the port above the device, and waits until the kernel has ended its recovery.
fn inject(device: &Path, fault: Fault) -> Result<(), Failed> {
    let name = bus_name(&port(device)?);
    let number = |text: &str| u32::from_str_radix(text, 16).map_err(|_| format!("the port's name is {name}"));
    let (domain, rest) = name.split_once(':').ok_or("no domain")?;
    let (bus, rest) = rest.split_once(':').ok_or("no bus")?;
    let (slot, function) = rest.split_once('.').ok_or("no function")?;
    // The injector's record: bus, device and function as bytes; status of uncorrectable and correctable errors, four words of a
    // header, and the domain.
    let mut record = vec![number(bus)? as u8, number(slot)? as u8, number(function)? as u8, 0];
    for word in [fault as u32, 0, 0, 0, 0, 0, number(domain)?] {
        record.extend(word.to_ne_bytes());
    }
    let mut messages = Messages::from_now()?;
    fs::write(INJECTOR, record)?;
    let start = Instant::now();
    let mut lines = Vec::new();
    loop {
        lines.extend(messages.read()?);
        ensure!(!lines.iter().any(|line| line.contains("recovery failed")), "the kernel said {lines:?}");
        if lines.iter().any(|line| line.contains(&name) && line.contains("recovery successful")) {
            return Ok(());
        }
        ensure!(start.elapsed() < HANG, "the recovery has not ended, and the kernel said {lines:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The task after the error is equal to the one before, and must not rely on registers that the reset has cleared.
fn idle() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let mut test_task = TestTask::copies(&node, 2)?;
    for (seed, fault) in [Fault::Fatal, Fault::NonFatal].into_iter().enumerate() {
        test_task.fill(seed as u8);
        equal("a task's end", test_task.run(&node)?, 0)?;
        let before = control.counts().resets;
        inject(&device, fault)?;
        equal("resets", control.counts().resets - before, 1)?;
        test_task.fill(seed as u8 + 7);
        equal("the next task's end", test_task.run(&node)?, 0)?;
        test_task.check(seed as u8 + 7)?;
    }
    Ok(())
}

fn running() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let mut test_task = TestTask::copies(&node, 1)?;
    for fault in [Fault::Fatal, Fault::NonFatal] {
        let starts = control.counts().starts;
        control.set(Knob::Hang, 1);
        let running = test_task.submit(&node, Options::default())?.sequence;
        let queued = test_task.submit(&node, Options::default())?.sequence;
        control.until_started(starts)?;
        inject(&device, fault)?;
        equal("the running task's end", node.end(running)?, -libc::EIO)?;
        equal("the queued task's end", node.end(queued)?, 0)?;
        test_task.fill(5);
        equal("the next task's end", test_task.run(&node)?, 0)?;
        test_task.check(5)?;
    }
    Ok(())
}

fn revived() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    die(&node, &control, Knob::Hang, 1)?;
    control.set(Knob::Deaf, 0);
    inject(&device, Fault::Fatal)?;
    works(&node)
}

/// The recovery restores the command register, also the bit by which the device masters the bus.
fn busy() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    stay_awake(&device, true)?;
    let result = (|| {
        works(&node)?;
        die(&node, &control, Knob::Hang, 1)?;
        inject(&device, Fault::Fatal)?;
        let result = TestTask::copies(&node, 1)?.submit(&node, Options::default()).map(|task| task.sequence);
        refused("a task after a reset without effect", result, Errno::EIO)?;
        equal("whether the device masters the bus", master(&device)?, false)?;
        control.set(Knob::Deaf, 0);
        inject(&device, Fault::Fatal)?;
        works(&node)
    })();
    stay_awake(&device, false)?;
    result
}

/// No firmware has enabled the registers of a device that is found later. The kernel remembers the state in which it found the device.
fn registers() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    drop(node);
    nvdla_guest::system::unbind(&device)?;
    fs::File::options().write(true).open(device.join("config"))?.write_all_at(&[0, 0], 4)?;
    fs::write(device.join("remove"), "1")?;
    fs::write("/sys/bus/pci/rescan", "1")?;
    let node = Node::open(&node_of(&device)?)?;
    // A runtime suspend would remember a later state.
    stay_awake(&device, true)?;
    let result = inject(&device, Fault::Fatal).and_then(|()| works(&node));
    stay_awake(&device, false)?;
    result
}

fn unbound() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    inject(&device, Fault::Fatal)?;
    drop(node);
    nvdla_guest::system::unbind(&device)?;
    nvdla_guest::system::bind(&device)?;
    works(&Node::open(&node_of(&device)?)?)
}
