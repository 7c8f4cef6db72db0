// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device that goes on after it was given up: a reset without effect, a reset by others, an unbinding during a task. Memory that
//! is not the task's must not be written.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nix::errno::Errno;
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::node::{now_ns, Buffer, Node, Options};
use nvdla_guest::system::{bind, bus_name, is_platform, node_of, tracing, unbind, Messages, HANG};
use nvdla_guest::test_task::TestTask;

use crate::evidence::{self, Dump};
use crate::expect::{ensure, equal, first, met, refused, second, within, works, Test};

pub(crate) const TESTS: &[Test] = &[
    ("a_reset_without_effect_is_not_believed", deaf),
    ("a_device_that_stays_busy_is_not_bound", busy),
    ("a_task_ends_before_its_device_is_said_to_be_suspended", order),
    ("a_dead_device_raises_no_interrupt", silent),
    ("a_sleep_revives_a_dead_device", slept),
    ("a_sleep_does_not_revive_a_dead_device_that_stays_busy", slept_busy),
    ("a_reset_that_fails_after_a_close_leaves_evidence", evidence_of_close),
    ("a_reset_that_fails_after_an_unbinding_leaves_evidence", evidence_of_unbinding),
    ("a_reset_that_fails_after_a_sleep_leaves_evidence", evidence_of_sleep),
];
/// Those for devices on PCI.
pub(crate) const ON_PCI: &[Test] = &[
    ("the_state_is_not_locked_during_a_reset", unlocked),
    ("a_reset_by_others_is_noticed", others),
    ("a_reset_by_others_ends_the_running_task", others_while_running),
    ("a_reset_by_others_revives_a_dead_device", revived),
    ("a_dead_device_masters_the_bus_again_after_a_sleep", mastering),
    ("an_interrupt_of_a_device_that_rests_does_not_repeat", resting),
];

/// Lets a task exceed its deadline on a device that resets have no effect on, and checks that the driver gives the device up.
pub(crate) fn die(node: &Node, control: &Control, knob: Knob, value: u32) -> Result<(), Failed> {
    control.set(Knob::Deaf, 1);
    let test_task = TestTask::copies(node, 1)?;
    met(control, (knob, value), 100, |milliseconds| {
        let sequence = test_task.submit(node, within(milliseconds))?.sequence;
        equal("the task's end", node.end(sequence)?, -libc::ETIMEDOUT)
    })?;
    control.set(knob, 0);
    refused("the next task", test_task.submit(node, Options::default()).map(|task| task.sequence), Errno::EIO)
}

/// The task's buffers are released while its operation still runs. Other buffers, which would get the same memory, do not change.
fn deaf() -> Result<(), Failed> {
    // On a loaded machine a short operation ends before its task.
    for seconds in [3, 30, 100] {
        if outlives(Duration::from_secs(seconds))? {
            return Ok(());
        }
    }
    Err("the operation has ended too early for this test".into())
}

/// The test with an operation that takes so long. Returns whether it was still running when the buffers were released.
fn outlives(long: Duration) -> Result<bool, Failed> {
    let node = first()?;
    let other = second()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let blocked = control.blocked();
    let start = now_ns();
    die(&node, &control, Knob::Delay, long.as_micros() as u32)?;
    drop(node);
    std::thread::sleep(Duration::from_millis(50));
    let runs = Duration::from_nanos(now_ns() - start) < long;
    let fresh = Node::open(&node_of(&device)?)?;
    let mut buffers: Vec<Buffer> = Vec::new();
    for node in [&fresh, &other] {
        for _ in 0..64 {
            let mut buffer = node.buffer(0x8000)?;
            buffer.map.fill(0xee);
            buffers.push(buffer);
        }
    }
    std::thread::sleep(long);
    if runs && !is_platform(&device) {
        let start = Instant::now();
        while control.blocked() == blocked {
            ensure!(start.elapsed() < HANG, "the device could still master the bus");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let changed = buffers.iter().filter(|buffer| buffer.map.iter().any(|&byte| byte != 0xee)).count();
    equal("buffers of others that the device has written", changed, 0)?;
    control.set(Knob::Deaf, 0);
    drop((buffers, fresh));
    unbind(&device)?;
    bind(&device)?;
    works(&Node::open(&node_of(&device)?)?)?;
    Ok(runs)
}

fn busy() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    die(&node, &control, Knob::Hang, 1)?;
    drop(node);
    unbind(&device)?;
    let mut messages = Messages::from_now()?;
    ensure!(bind(&device).is_err(), "a device that is busy and cannot be reset was bound");
    let lines = messages.read()?;
    ensure!(lines.iter().any(|line| line.contains("does not stop it")), "the kernel said {lines:?}");
    control.set(Knob::Deaf, 0);
    bind(&device)?;
    works(&Node::open(&node_of(&device)?)?)
}

/// The kernel traces each change of a device's runtime status. Suppliers may be switched off from that moment.
fn order() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let tracing = tracing().ok_or("the kernel has no trace events")?;
    let test_task = TestTask::copies(&node, 1)?;
    let starts = control.counts().starts;
    control.set(Knob::Hang, 1);
    fs::write(tracing.join("trace"), "")?;
    for events in ["events/rpm/rpm_status/enable", "events/nvdla/enable"] {
        fs::write(tracing.join(events), "1")?;
    }
    test_task.submit(&node, Options::default())?;
    control.until_started(starts)?;
    unbind(&device)?;
    for events in ["events/rpm/rpm_status/enable", "events/nvdla/enable"] {
        fs::write(tracing.join(events), "0")?;
    }
    let text = fs::read_to_string(tracing.join("trace"))?;
    drop((test_task, node));
    bind(&device)?;
    let name = bus_name(&device);
    let at = |what: &str, more: &str| {
        text.lines().position(|line| line.contains(what) && line.contains(more) && line.contains(&name))
    };
    let end = at("nvdla_task_end", "status -19").ok_or_else(|| format!("no end of the task in:\n{text}"))?;
    if let Some(suspended) = at("rpm_status", "RPM_SUSPENDED") {
        ensure!(end < suspended, "the device was said to be suspended while its task ran:\n{text}");
    }
    works(&Node::open(&node_of(&device)?)?)
}

/// The interrupts so far on the lines for which `is_wanted` is true. Such a line ends with the names of the drivers that use it.
fn count(is_wanted: impl Fn(&str) -> bool) -> Result<u64, Failed> {
    let text = fs::read_to_string("/proc/interrupts")?;
    let lines = text.lines().filter(|line| is_wanted(line));
    Ok(lines.flat_map(|line| line.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok())).sum())
}

/// The interrupts of the driver's devices so far, on lines that no other driver uses.
fn interrupts() -> Result<u64, Failed> {
    count(|line| line.split_whitespace().last() == Some("nvdla") && !line.contains(','))
}

/// A line may be asserted when nothing has a cause any more: behind a virtual machine's bus it stays asserted until the next access to
/// the device. The driver accesses no register of a device that rests, so it must not leave the line to such a device.
fn resting() -> Result<(), Failed> {
    const ROUNDS: u64 = 5;
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    works(&node)?;
    crate::sleep::until(&device.join("power"), "suspended")?;
    let all = || count(|line| line.contains("nvdla"));
    let before = all()?;
    for _ in 0..ROUNDS {
        control.set(Knob::Spurious, 1);
        std::thread::sleep(Duration::from_millis(200));
    }
    let more = all()? - before;
    println!("{more} interrupts");
    // Those without a cause, and some of other devices on the line.
    ensure!(more <= 10 * ROUNDS, "{more} interrupts of a device that rests");
    works(&node)
}

fn silent() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let before = interrupts()?;
    control.set(Knob::Spurious, 1);
    std::thread::sleep(Duration::from_millis(50));
    let one = interrupts()?;
    if one == before {
        println!("another driver uses the line too");
        return Ok(());
    }
    die(&node, &control, Knob::Hang, 1)?;
    let before = interrupts()?;
    for _ in 0..10 {
        control.set(Knob::Spurious, 1);
        std::thread::sleep(Duration::from_millis(5));
    }
    equal("interrupts of a dead device", interrupts()? - before, 0)?;
    control.set(Knob::Deaf, 0);
    drop(node);
    unbind(&device)?;
    bind(&device)?;
    works(&Node::open(&node_of(&device)?)?)
}

/// A reset of PCI takes 100 ms, and clients must not wait for it. Whoever reads the state during a reset sees the task that was
/// ended.
fn unlocked() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    let mut states = met(&control, (Knob::Hang, 1), 500, |milliseconds| {
        let sequence = test_task.submit(&node, within(milliseconds))?.sequence;
        let mut states = Vec::new();
        while node.wait_until(sequence, now_ns()) == Err(Errno::ETIMEDOUT) {
            states.extend(node.state()?.lines().find_map(|line| Some(line.strip_prefix("state: ")?.to_owned())));
        }
        equal("the task's end", node.end(sequence)?, -libc::ETIMEDOUT)?;
        Ok(states)
    })?;
    let during = states.iter().filter(|state| *state == "waits for a reset").count();
    println!("{} reads of the state, {during} during the reset", states.len());
    states.dedup();
    ensure!(during > 0, "nobody could read the state during the reset, but {states:?}");
    works(&node)
}

/// Resets a PCI device as an administrator does.
fn reset(device: &Path) -> Result<(), Failed> {
    Ok(fs::write(device.join("reset"), "1")?)
}

/// The second of two equal tasks must not rely on registers that a reset has cleared.
fn others() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let mut test_task = TestTask::copies(&node, 2)?;
    for seed in 0..4 {
        test_task.fill(seed);
        equal("a task's end", test_task.run(&node)?, 0)?;
        test_task.check(seed)?;
        reset(&device)?;
    }
    Ok(())
}

fn others_while_running() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let mut test_task = TestTask::copies(&node, 1)?;
    let starts = control.counts().starts;
    control.set(Knob::Hang, 1);
    let running = test_task.submit(&node, Options::default())?.sequence;
    let queued = test_task.submit(&node, Options::default())?.sequence;
    control.until_started(starts)?;
    reset(&device)?;
    equal("the running task's end", node.end(running)?, -libc::EIO)?;
    equal("the queued task's end", node.end(queued)?, 0)?;
    test_task.fill(5);
    equal("the next task's end", test_task.run(&node)?, 0)?;
    Ok(test_task.check(5)?)
}

fn revived() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    die(&node, &control, Knob::Hang, 1)?;
    // A reset restores the state before it, here one in which something has let the device master the bus.
    let config = fs::File::options().read(true).write(true).open(device.join("config"))?;
    let mut command = [0; 1];
    config.read_exact_at(&mut command, 4)?;
    config.write_all_at(&[command[0] | MASTER], 4)?;
    reset(&device)?;
    ensure!(!master(&device)?, "a dead device masters the bus after a reset without effect");
    let test_task = TestTask::copies(&node, 1)?;
    let result = test_task.submit(&node, Options::default()).map(|task| task.sequence);
    refused("a task after a reset without effect", result, Errno::EIO)?;
    control.set(Knob::Deaf, 0);
    reset(&device)?;
    works(&node)
}

/// The bit of PCI's command register that lets a device master the bus.
const MASTER: u8 = 1 << 2;

/// Whether a PCI device's command register lets it master the bus.
pub(crate) fn master(device: &Path) -> Result<bool, Failed> {
    let mut command = [0; 1];
    fs::File::open(device.join("config"))?.read_exact_at(&mut command, 4)?;
    Ok(command[0] & MASTER != 0)
}

/// Calls a function with a dead device, once while the device is awake and once while it is runtime-suspended.
fn dead(test: impl Fn(&Node, &Control) -> Result<(), Failed>) -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let power = device.join("power");
    let control = Control::open(&device)?;
    for (choice, status) in [("on", "active"), ("auto", "suspended")] {
        fs::write(power.join("control"), choice)?;
        let result = die(&node, &control, Knob::Hang, 1)
            .and_then(|()| crate::sleep::until(&power, status))
            .and_then(|()| test(&node, &control));
        fs::write(power.join("control"), "auto")?;
        result.map_err(|failed| format!("a device that is {status}: {}", failed.message().unwrap_or("failed")))?;
    }
    Ok(())
}

fn slept() -> Result<(), Failed> {
    dead(|node, control| {
        control.set(Knob::Deaf, 0);
        crate::sleep::sleep()?;
        works(node)
    })
}

fn slept_busy() -> Result<(), Failed> {
    dead(|node, control| {
        crate::sleep::sleep()?;
        let test_task = TestTask::copies(node, 1)?;
        let result = test_task.submit(node, Options::default()).map(|task| task.sequence);
        refused("a task after a sleep", result, Errno::EIO)?;
        let device = node.device()?;
        ensure!(is_platform(&device) || !master(&device)?, "the device masters the bus");
        control.set(Knob::Deaf, 0);
        crate::sleep::sleep()?;
        works(node)
    })
}

/// What the driver says of a device that no reset stops.
const UNSTOPPABLE: &str = "nor can be reset";

/// Ends a task that hangs on a device that resets have no effect on, and checks the evidence.
fn evidence_of(end: impl FnOnce(Node, TestTask, &Path) -> Result<(), Failed>) -> Result<(), Failed> {
    let node = evidence::bound_anew()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    control.set(Knob::Deaf, 1);
    control.set(Knob::Hang, 1);
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(1);
    let starts = control.counts().starts;
    test_task.submit(&node, Options::default())?;
    control.until_started(starts)?;
    end(node, test_task, &device)?;
    let dump = Dump::take()?;
    dump.check(UNSTOPPABLE, 1)?;
    dump.check_operation()?;
    control.set(Knob::Deaf, 0);
    // After the end by an unbinding there is no driver.
    let _ = unbind(&device);
    bind(&device)?;
    works(&Node::open(&node_of(&device)?)?)
}

fn evidence_of_close() -> Result<(), Failed> {
    evidence_of(|node, test_task, _| {
        drop((node, test_task));
        Ok(())
    })
}

fn evidence_of_unbinding() -> Result<(), Failed> {
    evidence_of(|_node, _test_task, device| Ok(unbind(device)?))
}

/// The driver resets a dead device after a sleep.
fn evidence_of_sleep() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    die(&node, &control, Knob::Hang, 1)?;
    std::thread::sleep(evidence::INTERVAL);
    evidence::remove()?;
    crate::sleep::sleep()?;
    Dump::take()?.check(UNSTOPPABLE, 0)?;
    control.set(Knob::Deaf, 0);
    crate::sleep::sleep()?;
    works(&node)
}

/// The device is stopped by something that its driver does not see, here a write to its configuration space.
fn mastering() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    die(&node, &control, Knob::Hang, 1)?;
    control.set(Knob::Deaf, 0);
    let config = fs::File::options().read(true).write(true).open(device.join("config"))?;
    // The control byte of the capability "Advanced Features", whose bit 0 resets the function.
    config.write_all_at(&[1], 0x64)?;
    crate::sleep::sleep()?;
    works(&node)
}
