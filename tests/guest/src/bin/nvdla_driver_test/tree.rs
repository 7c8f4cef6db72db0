// SPDX-License-Identifier: MIT OR Apache-2.0

//! The resources of a device tree besides registers and an interrupt: clock and supply are on only while they are needed, the clock
//! has the rate of the highest operating point, the reset line is used when it should be, and buffers are allocated in the reserved
//! memory and freed again. The device counts accesses to its registers without a clock or a supply, before the reset that must
//! follow a time without a supply, and during a reset. It also counts changes that make the clock too fast for the voltage. Every
//! test, here and elsewhere, fails on one.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;
use nix::errno::Errno;
use nvdla_guest::control::{Control, Knob, Lines};
use nvdla_guest::node::{Buffer, Node, Options};
use nvdla_guest::system::{bind, is_platform, node_of, stay_awake, unbind, Messages, HANG};
use nvdla_guest::test_task::TestTask;
use nvdla_guest::tree::{clock_enables, dma_offset, names, reserved, supply, Reserved};
use nvdla_uapi::queue::Address;

use crate::expect::{ensure, equal, first, met, refused, second, within, works, Test};

const CLOCK: &[Test] = &[
    ("clock_and_supply_are_on_while_the_device_is_used", clock),
    ("a_probe_that_fails_stops_the_clock", failed_probe),
    ("the_voltage_is_that_of_the_highest_operating_point", voltage),
    ("the_clock_rests_while_the_machine_sleeps", asleep),
];
const RESET: &[Test] = &[
    ("a_probe_resets_the_device", probe),
    ("a_hang_resets_the_device", hang),
    ("unbinding_resets_a_hung_device", hung),
];
const MEMORY: &[Test] = &[
    ("buffers_lie_in_the_reserved_memory", inside),
    ("buffers_go_back_to_the_reserved_memory", given_back),
    ("reserved_memory_that_is_used_up_is_said_so", used_up),
    ("a_new_binding_has_the_memory_that_old_buffers_hold", outlived),
    ("buffers_of_any_size_use_all_of_the_memory_that_only_the_device_uses", whole),
    ("memory_that_the_kernel_does_not_know_is_not_exported", unknown),
    ("an_iommu_beside_reserved_memory_is_refused", contradiction),
];

/// The tests for devices in a device tree; none for devices on PCI.
pub(crate) fn tests() -> Vec<Test> {
    let devices: Vec<PathBuf> =
        [first(), second()].into_iter().flatten().filter_map(|node| node.device().ok()).collect();
    let all =
        |property| !devices.is_empty() && devices.iter().all(|device| is_platform(device) && names(device, property));
    let groups = [("clocks", CLOCK), ("resets", RESET), ("memory-region", MEMORY)];
    groups.into_iter().filter(|(property, _)| all(property)).flat_map(|(_, tests)| tests.iter().copied()).collect()
}

/// Both devices, opened.
fn both() -> Result<[Node; 2], Failed> {
    Ok([first()?, second()?])
}

/// The lines of a bound and running device, and of an unused one.
///
/// The first probe has set rate and voltage of the highest operating point, and nothing lowers them.
const RUNS: Lines = Lines { clock: true, fast: true, reset: false, supply: true, high: true };
const RESTS: Lines = Lines { clock: false, supply: false, ..RUNS };

/// Waits until the device has no clock, which is some time after its last task.
fn rests(control: &Control) -> Result<(), Failed> {
    let start = std::time::Instant::now();
    while control.lines() != RESTS {
        ensure!(start.elapsed() < HANG, "the clock does not stop: {:?}", control.lines());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Ok(())
}

fn clock() -> Result<(), Failed> {
    for node in both()? {
        let device = node.device()?;
        let control = Control::open(&device)?;
        control.set(Knob::Delay, 300_000);
        let test_task = TestTask::copies(&node, 1)?;
        let sequence = test_task.submit(&node, Options::default())?.sequence;
        equal("the lines of a device with a task", control.lines(), RUNS)?;
        equal("the kernel's count", clock_enables(&device)?, 1)?;
        equal("the task's end", node.end(sequence)?, 0)?;
        let cycles = node.usage("drm-cycles-dla")?;
        let rate = node.usage("drm-maxfreq-dla")?;
        let busy_ns = node.usage("drm-engine-dla")?;
        equal("cycles", cycles, (u128::from(busy_ns) * u128::from(rate) / 1_000_000_000) as u64)?;
        control.set(Knob::Delay, 0);
        rests(&control)?;
        equal("the kernel's count", clock_enables(&device)?, 0)?;
        works(&node)?;
        unbind(&device)?;
        equal("the lines of a device without a driver", control.lines(), RESTS)?;
        equal("the kernel's count", clock_enables(&device)?, 0)?;
        bind(&device)?;
        rests(&control)?;
        works(&Node::open(&node_of(&device)?)?)?;
    }
    println!("{}", fs::read_to_string("/sys/kernel/debug/gpio")?);
    Ok(())
}

fn voltage() -> Result<(), Failed> {
    for node in both()? {
        let device = node.device()?;
        // The clock's highest rate, and not that of the start.
        equal("the clock's rate", node.usage("drm-maxfreq-dla")?, 1_000_000_000)?;
        let supply = supply(&device)?;
        stay_awake(&device, true)?;
        let read = |name: &str| fs::read_to_string(supply.join(name)).map(|text| text.trim().to_string());
        let now = (read("microvolts"), read("num_users"));
        stay_awake(&device, false)?;
        equal("microvolts", now.0?.as_str(), "900000")?;
        // The driver, and the operating points for it.
        equal("users of the supply", now.1?.as_str(), "2")?;
        rests(&Control::open(&device)?)?;
        equal("users of the supply of a device that rests", read("num_users")?.as_str(), "0")?;
        works(&node)?;
    }
    Ok(())
}

fn failed_probe() -> Result<(), Failed> {
    let device = first()?.device()?;
    let control = Control::open(&device)?;
    unbind(&device)?;
    control.set(Knob::Mute, 1);
    ensure!(bind(&device).is_err(), "a device that does not answer was bound");
    equal("the lines after it", control.lines(), RESTS)?;
    control.set(Knob::Mute, 0);
    bind(&device)?;
    works(&Node::open(&node_of(&device)?)?)
}

fn asleep() -> Result<(), Failed> {
    let nodes = both()?;
    let controls = nodes.iter().map(|node| Control::open(&node.device()?)).collect::<Result<Vec<_>, _>>()?;
    // Without a choice of the operator a device has no clock anyway before the machine sleeps.
    let choose = |awake| nodes.iter().try_for_each(|node| stay_awake(&node.device()?, awake));
    choose(true)?;
    let before: Vec<_> = controls.iter().map(|control| control.counts().stops).collect();
    let slept = crate::sleep::sleep();
    let after: Vec<_> = controls.iter().map(|control| (control.counts().stops, control.lines())).collect();
    choose(false)?;
    slept?;
    for ((node, before), (stops, lines)) in nodes.iter().zip(before).zip(after) {
        let name = node.device()?.display().to_string();
        equal(&format!("{name}: times that the clock has stopped"), stops - before, 1)?;
        equal(&format!("{name}: the lines after it"), lines, RUNS)?;
        works(node)?;
    }
    Ok(())
}

fn probe() -> Result<(), Failed> {
    for node in both()? {
        let device = node.device()?;
        let control = Control::open(&device)?;
        unbind(&device)?;
        let before = control.counts().resets;
        bind(&device)?;
        equal("resets of a probe", control.counts().resets - before, 1)?;
    }
    Ok(())
}

fn hang() -> Result<(), Failed> {
    for node in both()? {
        let device = node.device()?;
        let control = Control::open(&device)?;
        // A device that wakes is reset too.
        stay_awake(&device, true)?;
        let before = control.counts().resets;
        let test_task = TestTask::copies(&node, 1)?;
        let ended = met(&control, (Knob::Hang, 1), 200, |milliseconds| {
            let sequence = test_task.submit(&node, within(milliseconds))?.sequence;
            equal("the task's end", node.end(sequence)?, -libc::ETIMEDOUT)
        });
        let worked = works(&node);
        let resets = control.counts().resets - before;
        stay_awake(&device, false)?;
        ended?;
        worked?;
        equal("resets of a hang", resets, 1)?;
    }
    Ok(())
}

fn hung() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let starts = control.counts().starts;
    control.set(Knob::Hang, 1);
    let test_task = TestTask::copies(&node, 1)?;
    test_task.submit(&node, Options::default())?;
    control.until_started(starts)?;
    let before = control.counts().resets;
    unbind(&device)?;
    equal("resets of a device that hangs while it is unbound", control.counts().resets - before, 1)?;
    equal("the lines after it", control.lines(), RESTS)?;
    drop((test_task, node));
    bind(&device)?;
    works(&Node::open(&node_of(&device)?)?)
}

/// The address range of a buffer, as the processor numbers it.
fn place(device: &Path, control: &Control, buffer: &mut Buffer) -> Result<Range<u64>, Failed> {
    let start = control.address(&mut buffer.map)? - dma_offset(device)?;
    Ok(start..start + buffer.map.len() as u64)
}

fn is_inside(buffer: &Range<u64>, memory: &Range<u64>) -> bool {
    memory.start <= buffer.start && buffer.end <= memory.end
}

fn inside() -> Result<(), Failed> {
    for node in both()? {
        let device = node.device()?;
        let (control, memory) = (Control::open(&device)?, reserved(&device)?);
        let mut places = Vec::new();
        let mut buffers = Vec::new();
        for size in [1 << 12, 1 << 16, 3 << 12, 1 << 20, 9 << 20] {
            let mut buffer = node.buffer(size)?;
            places.push(place(&device, &control, &mut buffer)?);
            buffers.push(buffer);
        }
        println!("{}: memory {:x?}, buffers {places:x?}", device.display(), memory.range);
        for (index, one) in places.iter().enumerate() {
            ensure!(is_inside(one, &memory.range), "the buffer at {one:x?} is not inside {:x?}", memory.range);
            let apart = |other: &Range<u64>| one.end <= other.start || other.end <= one.start;
            ensure!(places[..index].iter().all(apart), "buffers overlap: {places:x?}");
        }
        works(&node)?;
    }
    Ok(())
}

/// The number of buffers of a size that the node can allocate, at most `limit`.
fn count(node: &Node, size: u64, limit: usize) -> Result<usize, Failed> {
    for number in 0..limit {
        match node.create(size) {
            Ok(_) => {}
            Err(Errno::ENOMEM) => return Ok(number),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(limit)
}

fn given_back() -> Result<(), Failed> {
    const SIZE: u64 = 1 << 20;
    for node in both()? {
        let memory = reserved(&node.device()?)?;
        let path = node.path().to_owned();
        drop(node);
        let whole = ((memory.range.end - memory.range.start) / SIZE) as usize;
        let before = memory.available().transpose()?;
        let mut first = None;
        for _ in 0..3 {
            // The last client's buffers are freed shortly after its file is closed.
            std::thread::sleep(std::time::Duration::from_millis(50));
            let node = Node::open(&path)?;
            if let Some(before) = before {
                equal("free pages", memory.available().transpose()?, Some(before))?;
                equal("buffers", count(&node, SIZE, 16)?, 16)?;
                equal("pages of 16 MiB", memory.available().transpose()?, Some(before - 4096))?;
            } else {
                // Devices that could not be stopped keep their buffers, which are a few pages of earlier tests.
                let count = count(&node, SIZE, 2 * whole)?;
                ensure!(
                    count + 1 >= whole,
                    "{count} buffers of 1 MiB in {} bytes",
                    memory.range.end - memory.range.start
                );
                equal("buffers of 1 MiB", count, *first.get_or_insert(count))?;
            }
        }
    }
    Ok(())
}

fn used_up() -> Result<(), Failed> {
    for node in both()? {
        let memory = reserved(&node.device()?)?;
        let whole = memory.range.end - memory.range.start;
        equal("a buffer larger than all of it", node.create(2 * whole), Err(Errno::ENOMEM))?;
        works(&node)?;
    }
    Ok(())
}

fn outlived() -> Result<(), Failed> {
    for node in both()? {
        let device = node.device()?;
        let (control, memory) = (Control::open(&device)?, reserved(&device)?);
        let mut old = node.buffer(1 << 20)?;
        old.map.fill(7);
        let old_place = place(&device, &control, &mut old)?;
        unbind(&device)?;
        bind(&device)?;
        let fresh = Node::open(&node_of(&device)?)?;
        let mut new = fresh.buffer(1 << 20)?;
        let new_place = place(&device, &control, &mut new)?;
        ensure!(
            is_inside(&new_place, &memory.range),
            "the new buffer at {new_place:x?} is not inside {:x?}",
            memory.range
        );
        ensure!(
            new_place.end <= old_place.start || old_place.end <= new_place.start,
            "the new buffer {new_place:x?} lies in the old {old_place:x?}"
        );
        equal("a byte of the old buffer", old.map[9], 7)?;
        // The old binding's last buffer is freed; the new binding keeps the memory.
        drop((old, node));
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut last = fresh.buffer(1 << 20)?;
        let last_place = place(&device, &control, &mut last)?;
        ensure!(
            is_inside(&last_place, &memory.range),
            "the last buffer at {last_place:x?} is not inside {:x?}",
            memory.range
        );
        works(&fresh)?;
    }
    Ok(())
}

/// The device whose memory the kernel does not use, and that memory.
fn exclusive() -> Result<(Node, Reserved), Failed> {
    for node in both()? {
        let memory = reserved(&node.device()?)?;
        if memory.available().is_none() {
            return Ok((node, memory));
        }
    }
    Err("the kernel uses the memory of both devices".into())
}

/// No size of buffers wastes memory, as powers of two would.
fn whole() -> Result<(), Failed> {
    const SIZE: u64 = 5 << 20;
    let (node, memory) = exclusive()?;
    let most = ((memory.range.end - memory.range.start) / SIZE) as usize;
    let path = node.path().to_owned();
    drop(node);
    // The last client's buffers are freed shortly after its file is closed.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let count = count(&Node::open(&path)?, SIZE, 2 * most)?;
    // Devices that could not be stopped keep a few pages.
    ensure!(count + 1 >= most, "{count} buffers of {SIZE} bytes in {:x?}", memory.range);
    Ok(())
}

/// The kernel does not know the second half of the memory, so it has no descriptions of those pages. The device and programs use
/// them, and other drivers cannot.
fn unknown() -> Result<(), Failed> {
    let (node, memory) = exclusive()?;
    let half = ((memory.range.end - memory.range.start) / 2) as usize;
    node.export(node.create(4096)?)?;
    let mut large = node.buffer(half + (1 << 20))?;
    refused("its export", node.export(large.handle), Errno::EOPNOTSUPP)?;
    let mut test_task = TestTask::copies(&node, 1)?;
    let at = half + (1 << 19);
    test_task.fill(4);
    let cubes = test_task.data().to_vec();
    large.map[at..at + cubes.len()].copy_from_slice(&cubes);
    *test_task.addresses.last_mut().ok_or("no addresses")? =
        Address { handle: large.handle, flags: 0, offset: at as u64 };
    equal("the task's end", test_task.run(&node)?, 0)?;
    test_task.data().copy_from_slice(&large.map[at..at + cubes.len()]);
    Ok(test_task.check(4)?)
}

/// The tree has a node that names both.
fn contradiction() -> Result<(), Failed> {
    let mut found = 0;
    for entry in fs::read_dir("/sys/bus/platform/devices")? {
        let device = fs::canonicalize(entry?.path())?;
        if names(&device, "iommus") && names(&device, "memory-region") {
            found += 1;
            let mut messages = Messages::from_now()?;
            ensure!(bind(&device).is_err() && !device.join("driver").exists(), "{} is bound", device.display());
            let lines = messages.read()?;
            let said = lines.iter().any(|line| line.contains("iommus and memory-region exclude each other"));
            ensure!(said, "the kernel said {lines:?}");
        }
    }
    equal("nodes with both", found, 1)
}
