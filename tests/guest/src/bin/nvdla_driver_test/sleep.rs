// SPDX-License-Identifier: MIT OR Apache-2.0

//! The machine sleeps while the device is used: the running task ends first, queued tasks run afterwards, and waiters
//! do not notice.
//!
//! The kernel's own test of suspend is used (`/sys/power/pm_test`): all programs are frozen and all devices suspended, and a
//! second later they are resumed. A virtual machine has no other wake-up source.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::node::{now_ns, Node, Options};
use nvdla_guest::system::{bind, node_of, tracing, unbind, HANG};
use nvdla_guest::test_task::TestTask;

use crate::expect::{ensure, equal, first, met, second, within, works, Test};
use crate::removal::insert;

pub(crate) const TESTS: &[Test] = &[
    ("an_idle_device_sleeps_and_works_after_it", idle),
    ("queued_tasks_go_on_after_the_sleep", queued),
    ("who_waits_is_answered_after_the_sleep", waiting),
    ("a_task_that_hangs_is_ended_before_the_sleep", hung),
    ("the_sleep_is_called_off_while_a_task_runs_on", called_off),
    ("a_device_without_tasks_rests", rests),
    ("a_device_does_not_rest_if_the_operator_forbids_it", forbidden),
];

/// The duration of a sleep in seconds.
const SECONDS: u64 = 1;

/// Suspends the machine, and returns when it is resumed.
pub(crate) fn sleep() -> io::Result<()> {
    fs::write("/sys/module/suspend/parameters/pm_test_delay", SECONDS.to_string())?;
    let power = Path::new("/sys/power");
    fs::write(power.join("pm_test"), "devices")?;
    let result = fs::write(power.join("state"), "freeze");
    fs::write(power.join("pm_test"), "none")?;
    result
}

/// After a sleep both devices work as before.
fn both_work() -> Result<(), Failed> {
    works(&first()?)?;
    works(&second()?)
}

fn idle() -> Result<(), Failed> {
    both_work()?;
    for _ in 0..2 {
        sleep()?;
        both_work()?;
    }
    Ok(())
}

/// The running task ends before the devices sleep, and no other starts until they are awake: the order is that of the trace.
fn queued() -> Result<(), Failed> {
    const EVENTS: [&str; 2] = ["events/power/suspend_resume/enable", "events/nvdla/enable"];
    let tracing = tracing().ok_or("the kernel has no trace events")?;
    // On a loaded machine short tasks end before the sleep begins.
    for milliseconds in [500, 5000] {
        let node = first()?;
        let control = Control::open(&node.device()?)?;
        control.set(Knob::Delay, milliseconds * 1000);
        let mut test_tasks = Vec::new();
        let starts = control.counts().starts;
        fs::write(tracing.join("trace"), "")?;
        for event in EVENTS {
            fs::write(tracing.join(event), "1")?;
        }
        for seed in 0..3 {
            let mut test_task = TestTask::copies(&node, 1)?;
            test_task.fill(seed);
            test_task.submit(&node, Options { deadline_ns: u64::MAX, ..Options::default() })?;
            test_tasks.push(test_task);
        }
        control.until_started(starts)?;
        let slept = sleep();
        let end = node.end(3);
        for event in EVENTS {
            fs::write(tracing.join(event), "0")?;
        }
        slept?;
        equal("the last task's end", end?, 0)?;
        for (seed, test_task) in test_tasks.iter_mut().enumerate() {
            test_task.check(seed as u8)?;
        }
        let text = fs::read_to_string(tracing.join("trace"))?;
        let at = |what: &str, end: &str| text.lines().position(|line| line.contains(what) && line.ends_with(end));
        let asleep = at("suspend_resume: dpm_suspend[", "end").ok_or_else(|| format!("no sleep in:\n{text}"))?;
        let awake =
            at("suspend_resume: dpm_resume[", "begin").ok_or_else(|| format!("no end of the sleep in:\n{text}"))?;
        let count = |lines: std::ops::Range<usize>, what: &str| {
            text.lines().take(lines.end).skip(lines.start).filter(|line| line.contains(what)).count()
        };
        let before = ["nvdla_task_start:", "nvdla_task_end:"].map(|what| count(0..asleep, what));
        equal("tasks that had started and ended before the devices slept", before[1], before[0])?;
        equal("tasks that started while the devices slept", count(asleep..awake, "nvdla_task_start:"), 0)?;
        println!("of 3 tasks {} ended before the sleep", before[0]);
        if before[0] < 3 {
            return both_work();
        }
    }
    Err("all tasks ended before the sleep".into())
}

fn waiting() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    let (list, _fds) = test_task.exported(&node)?;
    control.set(Knob::Delay, 500_000);
    test_task.submit(&node, Options::default())?;
    let last = test_task.submit(&node, Options::default())?.sequence;
    std::thread::scope(|scope| -> Result<(), Failed> {
        let waiter = scope.spawn(|| node.end(last));
        let other = scope.spawn(|| node.submit_first(&list, 0));
        // Both calls are in the driver by now.
        std::thread::sleep(Duration::from_millis(100));
        sleep()?;
        equal("the wait's answer", waiter.join().map_err(|_| "the waiter panicked")??, 0)?;
        Ok(other.join().map_err(|_| "the submitter panicked")??)
    })?;
    drop(control);
    both_work()
}

fn hung() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    met(&control, (Knob::Hang, 1), 400, |milliseconds| {
        let sequence = test_task.submit(&node, within(milliseconds))?.sequence;
        sleep()?;
        equal("the task's end", node.wait(sequence, 0)?, -libc::ETIMEDOUT)
    })?;
    both_work()
}

/// A suspend waits for a running task no longer than a task without a deadline may run.
fn called_off() -> Result<(), Failed> {
    insert("timeout_ms=300")?;
    let result = (|| {
        let node = first()?;
        let control = Control::open(&node.device()?)?;
        let test_task = TestTask::copies(&node, 1)?;
        control.set(Knob::Delay, 2_000_000);
        let options = Options { deadline_ns: now_ns() + 100_000_000_000, ..Options::default() };
        let sequence = test_task.submit(&node, options)?.sequence;
        let result = sleep();
        let error = result.as_ref().err().and_then(io::Error::raw_os_error);
        ensure!(error == Some(libc::EBUSY), "going to sleep gave {result:?}");
        // It has not waited for the task's end.
        equal("the task's end", node.end(sequence)?, 0)
    })();
    insert("")?;
    result?;
    both_work()
}

/// Waits until the kernel reports this runtime state of the device.
pub(crate) fn until(power: &Path, wanted: &str) -> Result<(), Failed> {
    let start = Instant::now();
    loop {
        let status = fs::read_to_string(power.join("runtime_status"))?;
        if status.trim() == wanted {
            return Ok(());
        }
        ensure!(start.elapsed() < HANG, "the device is {} and not {wanted}", status.trim());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn rests() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let power = device.join("power");
    works(&node)?;
    equal("the choice", fs::read_to_string(power.join("control"))?.trim(), "auto")?;
    for _ in 0..3 {
        until(&power, "suspended")?;
        // These calls read no register.
        node.query()?;
        node.fdinfo()?;
        works(&node)?;
    }
    until(&power, "suspended")?;
    sleep()?;
    works(&node)?;
    until(&power, "suspended")?;
    unbind(&device)?;
    bind(&device)?;
    until(&power, "suspended")?;
    works(&Node::open(&node_of(&device)?)?)
}

fn forbidden() -> Result<(), Failed> {
    let node = first()?;
    let power = node.device()?.join("power");
    fs::write(power.join("control"), "on")?;
    let result = (|| {
        works(&node)?;
        std::thread::sleep(Duration::from_secs(1));
        until(&power, "active")?;
        works(&node)
    })();
    fs::write(power.join("control"), "auto")?;
    result?;
    until(&power, "suspended")?;
    works(&node)
}
