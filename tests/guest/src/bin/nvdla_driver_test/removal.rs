// SPDX-License-Identifier: MIT OR Apache-2.0

//! The device or the driver is removed during use: waiters are notified, open files remain harmless, and everything works again
//! afterwards.

use std::fs;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nix::errno::Errno;
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::drm::{attach_fence, heap};
use nvdla_guest::fence::{self, Timeline};
use nvdla_guest::node::{nodes, Node, Options};
use nvdla_guest::system::{
    bind, failing_allocations, insert_module, is_platform, meminfo, node_of, remove_module, unbind, Messages, HANG,
};
use nvdla_guest::test_task::{copying, TestTask};
use nvdla_runtime::device::{AddressEntry, Device as _, KernelDevice};
use nvdla_uapi::ioctl::MemHandle;

use crate::expect::{ensure, equal, first, refused, second, works, Test};

pub(crate) const TESTS: &[Test] = &[
    ("rmmod_is_refused_while_the_node_is_open", module_in_use),
    ("rmmod_and_insmod", module),
    ("no_task_runs_for_longer_than_the_operator_allows", longest),
    ("unbinding_an_idle_device_with_the_node_open", idle),
    ("unbinding_with_tasks_running_and_queued", busy),
    ("unbinding_wakes_who_waits", waiting),
    ("unbinding_a_hung_device", hung),
    ("unbinding_with_a_task_that_waits_for_a_fence", gated),
    ("buffers_outlive_the_binding", buffers),
    ("buffers_that_outlive_the_binding_are_given_back", given_back),
    ("an_import_outlives_the_binding_of_its_exporter", import),
    ("removing_the_device_from_the_bus_and_finding_it_again", bus),
    ("binding_again_and_again", again),
    ("unbinding_a_device_while_another_is_waited_for", other_waited_for),
    ("unbinding_a_device_while_tasks_are_read_after_who_writes_them", other_read_for),
    ("unbinding_a_device_while_nvidias_tasks_are_read_after_who_writes_them", other_read_for_first),
    ("buffers_of_a_client_have_a_budget", buffer_budget),
    ("imports_of_a_client_have_a_budget", import_budget),
    ("each_allocation_of_a_probe_fails_in_turn", failing_probe),
];

fn module_in_use() -> Result<(), Failed> {
    let node = first()?;
    let result = remove_module();
    ensure!(matches!(result, Err(Errno::EAGAIN | Errno::EBUSY)), "rmmod: {result:?}");
    works(&node)
}

/// Waits until the last open file is released, which may be shortly after its close.
fn remove() -> Result<(), Failed> {
    let start = Instant::now();
    loop {
        match remove_module() {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > HANG => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Removes the module and inserts it with these parameters. Waits for its nodes.
pub(crate) fn insert(parameters: &str) -> Result<(), Failed> {
    let before = nodes();
    remove()?;
    equal("nodes without the module", nodes(), Vec::new())?;
    insert_module(parameters)?;
    let start = Instant::now();
    while nodes().len() < before.len() {
        ensure!(start.elapsed() < HANG, "of {before:?} there are {:?} after the module was inserted", nodes());
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn module() -> Result<(), Failed> {
    for round in 0..3 {
        insert(if round == 1 { "timeout_ms=1234" } else { "" })?;
        let node = first()?;
        let timeout = node.query()?.default_timeout_ns;
        equal("the time of a task", timeout, if round == 1 { 1_234_000_000 } else { 10_000_000_000 })?;
        works(&node)?;
        works(&second()?)?;
    }
    Ok(())
}

/// The limit applies to a task with a long deadline and to one without; without a limit a task has the time that it requests.
fn longest() -> Result<(), Failed> {
    const FOREVER: Options<'static> = Options {
        deadline_ns: u64::MAX,
        in_fences: &[],
        in_syncs: &[],
        out_syncs: &[],
        out_fence: false,
        urgent: false,
    };
    insert("max_timeout_ms=400")?;
    {
        let node = first()?;
        let query = node.query()?;
        equal("the times of a task", (query.default_timeout_ns, query.max_timeout_ns), (400_000_000, 400_000_000))?;
        let control = Control::open(&node.device()?)?;
        let test_task = TestTask::copies(&node, 1)?;
        for options in [FOREVER, Options::default()] {
            control.set(Knob::Hang, 1);
            let sequence = test_task.submit(&node, options)?.sequence;
            // The driver ends the task, which has no limit of its own.
            equal("the task's end", node.end(sequence)?, -libc::ETIMEDOUT)?;
            let state = node.state()?;
            ensure!(state.contains("last failure: the deadline passed"), "the task has not met its limit:\n{state}");
        }
        // If a client allows more time than the limit, the error names the limit.
        let mut device = KernelDevice::open(node.path())?;
        let mut addresses = Vec::new();
        for content in copying(&node, 1)?.0.buffers() {
            let size = content.len().max(1) as u64;
            let handle = device.allocate(size)?;
            device.bytes_mut(handle)[..content.len()].copy_from_slice(&content);
            addresses.push(AddressEntry { handle, offset: 0, size });
        }
        control.set(Knob::Hang, 1);
        let told = match device.submit(&addresses, Some(Duration::from_secs(600)), None) {
            Err(error) => error.to_string(),
            Ok(_) => return Err("a task that hangs has ended well".into()),
        };
        println!("{told}");
        ensure!(told.contains("400ms"), "the runtime says: {told}");
    }
    insert("timeout_ms=100 max_timeout_ms=0")?;
    {
        let node = first()?;
        equal("the longest time of a task", node.query()?.max_timeout_ns, u64::MAX)?;
        let control = Control::open(&node.device()?)?;
        let test_task = TestTask::copies(&node, 1)?;
        control.set(Knob::Delay, 500_000);
        equal("a slow task's end", node.end(test_task.submit(&node, FOREVER)?.sequence)?, 0)?;
    }
    insert("")
}

/// Checks the results of calls on an open file after its device was removed.
fn gone(node: &Node, test_task: &TestTask) -> Result<(), Failed> {
    refused("query", node.query(), Errno::ENODEV)?;
    refused("create", node.create(4096), Errno::ENODEV)?;
    refused("map", node.map_offset(test_task.addresses[0].handle), Errno::ENODEV)?;
    refused("submit", test_task.submit(node, Options::default()).map(|submitted| submitted.sequence), Errno::ENODEV)?;
    refused("wait", node.wait(1, 1), Errno::ENODEV)?;
    refused("destroy", node.destroy(test_task.addresses[0].handle), Errno::ENODEV)
}

/// Binds the device and runs a task on it.
fn back(device: &std::path::Path) -> Result<(), Failed> {
    bind(device)?;
    works(&Node::open(&node_of(device)?)?)
}

fn idle() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    equal("a task's end", test_task.run(&node)?, 0)?;
    unbind(&device)?;
    gone(&node, &test_task)?;
    test_task.fill(3);
    back(&device)?;
    gone(&node, &test_task)?;
    // The old file is closed after the new device exists.
    drop((node, test_task));
    works(&first()?)
}

fn busy() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let test_task = TestTask::copies(&node, 1)?;
    control.set(Knob::Delay, 100_000);
    let mut fences = Vec::new();
    for _ in 0..20 {
        let options = Options { out_fence: true, ..Options::default() };
        fences.push(test_task.submit(&node, options)?.fence.ok_or("no fence")?);
    }
    unbind(&device)?;
    let ends = fences.iter().map(fence::end).collect::<Result<Vec<_>, _>>()?;
    ensure!(ends.iter().all(|&end| end == 1 || end < 0), "fences: {ends:?}");
    // The unbinding has not waited for the tasks that were queued.
    equal("the last one's fence", ends.last().copied(), Some(-libc::ENODEV))?;
    gone(&node, &test_task)?;
    control.set(Knob::Delay, 0);
    drop((node, test_task));
    back(&device)
}

fn waiting() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let test_task = TestTask::copies(&node, 1)?;
    let sequence = test_task.submit(&node, Options { in_fences: &[gate.as_raw_fd()], ..Options::default() })?.sequence;
    // NVIDIA's submission waits for its own task, which is queued after that one.
    let (list, _fds) = test_task.exported(&node)?;
    let result = std::thread::scope(|scope| -> Result<_, Failed> {
        let waiter = scope.spawn(|| node.end(sequence));
        let submitter = scope.spawn(|| node.submit_first(&list, 0));
        std::thread::sleep(Duration::from_millis(200));
        unbind(&device)?;
        let ends = [
            waiter.join().map_err(|_| "the waiter panicked")?,
            submitter.join().map_err(|_| "the submitter panicked")?.map(|()| 0),
        ];
        Ok(ends)
    });
    back(&device)?;
    for end in result? {
        ensure!(matches!(end, Err(Errno::ENODEV)) || end == Ok(-libc::ENODEV), "who waited got {end:?}");
    }
    Ok(())
}

/// A client that waits for a task must not hold anything that DRM waits for during the removal of this or another device.
fn other_waited_for() -> Result<(), Failed> {
    let (node, other) = (first()?, second()?);
    let device = other.device()?;
    drop(other);
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let test_task = TestTask::copies(&node, 1)?;
    let sequence = test_task.submit(&node, Options { in_fences: &[gate.as_raw_fd()], ..Options::default() })?.sequence;
    let waits = std::thread::scope(|scope| -> Result<_, Failed> {
        let waiter = scope.spawn(|| node.end(sequence));
        std::thread::sleep(Duration::from_millis(200));
        unbind(&device)?;
        let waits = !waiter.is_finished();
        timeline.advance(1)?;
        // An unbinding that waited for the waiter would end with the wait's limit.
        equal("the task's end", waiter.join().map_err(|_| "the waiter panicked")??, 0)?;
        Ok(waits)
    });
    back(&device)?;
    ensure!(waits?, "the wait ended before the other device was unbound");
    Ok(())
}

fn other_read_for() -> Result<(), Failed> {
    delays_no_unbinding(|node, test_task, network| {
        let mut list = test_task.addresses.clone();
        list[0].handle = node.import(network)?;
        let sequence = node.submit(&[&list], Options::default())?.sequence;
        equal("the task's end", node.end(sequence)?, 0)
    })
}

fn other_read_for_first() -> Result<(), Failed> {
    delays_no_unbinding(|node, test_task, network| {
        let (mut list, _fds) = test_task.exported(node)?;
        list[0].handle = network as u32;
        Ok(node.submit_first(&list, 0)?)
    })
}

/// The driver reads descriptors in another driver's buffer after those who write it, which may take any time. It must not hold
/// anything meanwhile that DRM waits for during the removal of another device.
///
/// `submit` runs a task whose network is in the buffer behind a descriptor.
fn delays_no_unbinding(submit: fn(&Node, &TestTask, RawFd) -> Result<(), Failed>) -> Result<(), Failed> {
    let (node, other) = (first()?, second()?);
    let device = other.device()?;
    drop(other);
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(8);
    let foreign = heap("system", test_task.buffers[0].map.len() as u64)?;
    // SAFETY: The buffer has these bytes, and nobody else uses it.
    let mut map = unsafe { memmap2::MmapOptions::new().len(test_task.buffers[0].map.len()).map_mut(&foreign)? };
    map.copy_from_slice(&test_task.buffers[0].map);
    let gates = Timeline::new()?;
    attach_fence(foreign.as_raw_fd(), gates.fence(1)?.as_raw_fd(), true)?;
    let (waits, unbound) = std::thread::scope(|scope| -> Result<_, Failed> {
        let submitter = scope.spawn(|| submit(&node, &test_task, foreign.as_raw_fd()));
        std::thread::sleep(Duration::from_millis(300));
        let remover = scope.spawn(|| unbind(&device));
        let start = Instant::now();
        while !remover.is_finished() && start.elapsed() < HANG {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (waits, unbound) = (!submitter.is_finished(), remover.is_finished());
        gates.advance(1)?;
        submitter.join().map_err(|_| "the submitter panicked")??;
        remover.join().map_err(|_| "the remover panicked")??;
        Ok((waits, unbound))
    })?;
    back(&device)?;
    ensure!(waits, "the descriptors were read while another wrote them");
    ensure!(unbound, "another device was not unbound before the descriptors were read");
    Ok(test_task.check(8)?)
}

fn hung() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let test_task = TestTask::copies(&node, 1)?;
    let starts = control.counts().starts;
    control.set(Knob::Hang, 1);
    let fence = test_task.submit(&node, Options { out_fence: true, ..Options::default() })?.fence.ok_or("no fence")?;
    control.until_started(starts)?;
    unbind(&device)?;
    // The unbinding has not waited for the task's deadline.
    equal("the task's fence", fence::end(&fence)?, -libc::ENODEV)?;
    drop((node, test_task));
    back(&device)
}

fn gated() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let test_task = TestTask::copies(&node, 1)?;
    let options = Options { in_fences: &[gate.as_raw_fd()], out_fence: true, ..Options::default() };
    let fence = test_task.submit(&node, options)?.fence.ok_or("no fence")?;
    unbind(&device)?;
    equal("the task's fence", fence::end(&fence)?, -libc::ENODEV)?;
    // The fence that the task waited for signals after all waiters have gone.
    timeline.advance(1)?;
    drop((node, test_task));
    back(&device)
}

fn buffers() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let mut buffer = node.buffer(1 << 20)?;
    let fd = node.export(buffer.handle)?;
    buffer.map.fill(7);
    unbind(&device)?;
    buffer.map[5] = 8;
    back(&device)?;
    // A client of the new binding maps the old buffer, and its device may use the buffer.
    let fresh = Node::open(&node_of(&device)?)?;
    let handle = fresh.import(fd.as_raw_fd())?;
    let map = fresh.map(fresh.map_offset(handle)?, 1 << 20)?;
    equal("bytes", (map[5], map[6]), (8, 7))?;
    drop(node);
    equal("a byte", buffer.map[6], 7)?;
    drop((buffer, fd));
    equal("a byte", map[6], 7)
}

/// When the last reference to a buffer is dropped after unbinding, the driver and the IOMMU's translation no longer exist. The
/// pages must still return to the kernel.
fn given_back() -> Result<(), Failed> {
    const SIZE: usize = 32 << 20;
    /// kB by which free memory may change for other reasons.
    const TOLERANCE: u64 = 8 << 10;
    let size = (SIZE >> 10) as u64;
    let free = || -> Result<u64, Failed> {
        fs::write("/proc/sys/vm/drop_caches", "3")?;
        std::thread::sleep(Duration::from_millis(300));
        Ok(meminfo("MemFree")?)
    };
    let node = first()?;
    let device = node.device()?;
    let buffer = node.buffer(SIZE)?;
    let fd = node.export(buffer.handle)?;
    unbind(&device)?;
    let held = free()?;
    drop((node, buffer, fd));
    let after = free()?;
    println!("{held} kB free with a buffer of {size}, {after} without it");
    // Memory that the device tree reserves does not count as free.
    if !is_platform(&device) {
        ensure!(after + TOLERANCE >= held + size, "of {size} kB {} returned", after.saturating_sub(held));
    }
    back(&device)
}

fn import() -> Result<(), Failed> {
    let (node, owner) = (first()?, second()?);
    let device = owner.device()?;
    let mut foreign = owner.buffer(0x8000)?;
    foreign.map[0x2000..0x3000].fill(3);
    let fd = owner.export(foreign.handle)?;
    let handle = node.import(fd.as_raw_fd())?;
    unbind(&device)?;
    let mut test_task = TestTask::copies(&node, 1)?;
    if let Some(last) = test_task.addresses.last_mut() {
        last.handle = handle;
    }
    equal("a task's end", test_task.run(&node)?, 0)?;
    equal("the copy's first byte", foreign.map[0x4000], 3)?;
    node.destroy(handle)?;
    drop((owner, foreign, fd));
    back(&device)
}

/// The second device has the BAR of an SRAM, for which the bus must find a place again.
fn bus() -> Result<(), Failed> {
    [first()?, second()?].into_iter().try_for_each(taken_and_found)
}

fn taken_and_found(node: Node) -> Result<(), Failed> {
    let device = node.device()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(9);
    let fence = test_task.submit(&node, Options { out_fence: true, ..Options::default() })?.fence.ok_or("no fence")?;
    fs::write(device.join("remove"), "1")?;
    // The mappings were removed, and are restored page by page, also if an IOMMU was removed with the device.
    equal("the first byte of a buffer", test_task.data()[0x2000], 9)?;
    let end = fence::end(&fence)?;
    ensure!(end == 1 || end == -libc::ENODEV, "the task's fence: {end}");
    gone(&node, &test_task)?;
    fs::write("/sys/bus/pci/rescan", "1")?;
    works(&Node::open(&node_of(&device)?)?)?;
    drop((node, test_task));
    works(&Node::open(&node_of(&device)?)?)
}

fn again() -> Result<(), Failed> {
    let device = first()?.device()?;
    for _ in 0..30 {
        let node = Node::open(&node_of(&device)?)?;
        let test_task = TestTask::copies(&node, 1)?;
        test_task.submit(&node, Options::default())?;
        unbind(&device)?;
        drop((test_task, node));
        bind(&device)?;
    }
    works(&Node::open(&node_of(&device)?)?)
}

/// A client's buffers count until they are freed, also if they were exported.
fn buffer_budget() -> Result<(), Failed> {
    const MIB: u64 = 1 << 20;
    insert("client_buffers_mib=4")?;
    {
        let node = first()?;
        refused("a buffer of 5 MiB", node.create(5 * MIB), Errno::ENOMEM)?;
        let handles = [node.create(MIB)?, node.create(MIB)?, node.create(MIB)?];
        refused("a fourth MiB, with what each costs beside", node.create(MIB), Errno::ENOMEM)?;
        let fd = node.export(handles[0])?;
        node.destroy(handles[0])?;
        refused("it is exported", node.create(MIB), Errno::ENOMEM)?;
        drop(fd);
        node.create(MIB)?;
        // Another client has a separate budget.
        first()?.create(3 * MIB)?;
        works(&first()?)?;
    }
    insert("")
}

/// Another device's buffer counts for each client that imports it, until it is freed.
fn import_budget() -> Result<(), Failed> {
    const MIB: u64 = 1 << 20;
    insert("client_buffers_mib=4")?;
    {
        let (node, owner, another) = (first()?, second()?, second()?);
        let foreign = [owner.export(owner.create(3 * MIB)?)?, another.export(another.create(3 * MIB)?)?];
        let handle = node.import(foreign[0].as_raw_fd())?;
        refused("three MiB more", node.import(foreign[1].as_raw_fd()), Errno::ENOMEM)?;
        refused("a buffer of its own", node.create(2 * MIB), Errno::ENOMEM)?;
        // A second client of the device has an import of its own.
        let other = first()?;
        other.create(2 * MIB)?;
        refused("the import of another", other.import(foreign[0].as_raw_fd()), Errno::ENOMEM)?;
        drop(other);
        node.destroy(handle)?;
        node.import(foreign[1].as_raw_fd())?;
        // NVIDIA's submission imports without a handle.
        let test_task = TestTask::copies(&node, 1)?;
        let (mut list, _fds) = test_task.exported(&node)?;
        list.push(MemHandle { handle: foreign[0].as_raw_fd() as u32, reserved: 0, offset: 0 });
        refused("NVIDIA's submission", node.submit_first(&list, 0), Errno::ENOMEM)?;
        works(&first()?)?;
        // Each of these submissions imports the buffer anew, and the budget has room for one import.
        let node = first()?;
        let test_task = TestTask::copies(&node, 1)?;
        let (mut list, _fds) = test_task.exported(&node)?;
        list.push(MemHandle { handle: foreign[0].as_raw_fd() as u32, reserved: 0, offset: 0 });
        for _ in 0..200 {
            node.submit_first(&list, 0)?;
        }
    }
    insert("")
}

/// After a probe that fails nothing is left, and the next one succeeds.
///
/// Only the driver's own allocations fail. DRM of Linux 7.3 makes the device after them, and dereferences an error value
/// (`drm_minor_alloc_release`) when there is no memory for the device of a minor.
fn failing_probe() -> Result<(), Failed> {
    /// What the driver says when DRM's device is next.
    const OWN: &str = "hardware version";
    let device = first()?.device()?;
    unbind(&device)?;
    let mut messages = Messages::from_now()?;
    let failed = failing_allocations(|| {
        let well = bind(&device).is_ok();
        // The allocation that fails may be one of the unbinding.
        while device.join("driver").exists() {
            let _ = unbind(&device);
        }
        let lines = messages.read().unwrap_or_default();
        (well || !lines.iter().any(|line| line.contains(OWN))).then_some(well)
    });
    bind(&device)?;
    match failed? {
        Some(count) => println!("{count} allocations failed in turn"),
        None => println!("this kernel's allocations cannot be made to fail"),
    }
    works(&Node::open(&node_of(&device)?)?)
}
