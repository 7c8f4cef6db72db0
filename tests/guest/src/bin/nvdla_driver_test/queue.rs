// SPDX-License-Identifier: MIT OR Apache-2.0

//! The queue of a client: order, limits, deadlines, waiting.

use std::fs;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nix::errno::Errno;
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::fence::{self, Timeline};
use nvdla_guest::node::{now_ns, Node, Options};
use nvdla_guest::system::{meminfo, tracing, HANG};
use nvdla_guest::test_task::{copying, TestTask};
use nvdla_uapi::queue::{MAX_IN_FENCES, MAX_QUEUED, MAX_TASKS};

use crate::expect::{ensure, equal, first, refused, works, Test};
use crate::removal::insert;

pub(crate) const TESTS: &[Test] = &[
    ("a_task_of_no_operations", empty),
    ("tasks_run_in_order", order),
    ("submit_does_not_wait_for_the_device", asynchronous),
    ("a_full_queue_refuses_and_recovers", full),
    ("a_deadline_in_the_past_ends_the_task_and_no_other", past),
    ("wait_gives_up_at_its_deadline", wait_deadline),
    ("a_signal_interrupts_a_wait", signal),
    ("a_signal_interrupts_nvidias_submit", signal_first),
    ("how_tasks_ended_is_remembered", remembered),
    ("statistics_are_written_when_asked_for", statistics),
    ("a_deadline_just_ahead_costs_no_reset", just_ahead),
    ("a_signal_ends_the_reading_of_a_long_task", signal_reading),
    ("a_submission_goes_on_after_a_signal_that_allows_it", restarted),
    ("tasks_of_a_client_have_a_budget", budget),
    ("tasks_that_have_ended_leave_room_for_the_next", room),
    ("tasks_that_have_ended_leave_room_for_the_fences_of_the_next", room_for_fences),
];

fn empty() -> Result<(), Failed> {
    let node = first()?;
    let (net, bytes) = copying(&node, 0)?;
    let test_task = TestTask::new(&node, &net, 0, bytes)?;
    let result = test_task.run(&node);
    ensure!(matches!(result, Ok(0) | Err(Errno::EINVAL)), "it gave {result:?}");
    Ok(())
}

fn order() -> Result<(), Failed> {
    let node = first()?;
    let mut test_tasks = Vec::new();
    let mut fences = Vec::new();
    for seed in 0..40 {
        let mut test_task = TestTask::copies(&node, 1 + usize::from(seed) % 3)?;
        test_task.fill(seed);
        let submitted = test_task.submit(&node, Options { out_fence: true, ..Options::default() })?;
        equal("sequence", submitted.sequence, u64::from(seed) + 1)?;
        fences.push(submitted.fence.ok_or("no fence")?);
        test_tasks.push(test_task);
    }
    equal("the last task's end", node.end(40)?, 0)?;
    let mut last = 0;
    for (seed, (test_task, fence)) in test_tasks.iter_mut().zip(&fences).enumerate() {
        test_task.check(seed as u8)?;
        let info = fence::info(fence.as_raw_fd())?;
        equal("a fence's status", info.status, 1)?;
        ensure!(info.timestamp_ns >= last, "task {} ended before the one before", seed + 1);
        last = info.timestamp_ns;
    }
    Ok(())
}

fn asynchronous() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    control.set(Knob::Hang, 1);
    let test_task = TestTask::copies(&node, 1)?;
    test_task.submit(&node, Options { deadline_ns: u64::MAX, ..Options::default() })?;
    for _ in 0..2 {
        test_task.submit(&node, Options::default())?;
    }
    for sequence in 1..=3 {
        refused("a wait for a task while the device hangs", node.wait_until(sequence, now_ns()), Errno::ETIMEDOUT)?;
    }
    // The driver ends the task a second after its client has gone.
    drop((test_task, node));
    works(&first()?)
}

fn full() -> Result<(), Failed> {
    let node = first()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let test_task = TestTask::copies(&node, 1)?;
    let gated = Options { in_fences: &[gate.as_raw_fd()], ..Options::default() };
    let many: Vec<_> = (0..MAX_TASKS).map(|_| test_task.addresses.as_slice()).collect();
    for _ in 0..MAX_QUEUED / MAX_TASKS {
        node.submit(&many, gated)?;
    }
    refused("one more", test_task.submit(&node, gated).map(|submitted| submitted.sequence), Errno::EBUSY)?;
    let out = test_task.submit(&node, Options { out_fence: true, ..gated }).map(|submitted| submitted.sequence);
    refused("one more with a fence", out, Errno::EBUSY)?;
    timeline.advance(1)?;
    equal("the last task's end", node.wait(MAX_QUEUED.into(), 200)?, 0)?;
    equal("sequence of the next", test_task.submit(&node, Options::default())?.sequence, u64::from(MAX_QUEUED) + 1)?;
    equal("its end", node.end(u64::from(MAX_QUEUED) + 1)?, 0)
}

fn past() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(1);
    let submitted = test_task.submit(&node, Options { deadline_ns: 1, out_fence: true, ..Options::default() })?;
    equal("the task's end", node.end(submitted.sequence)?, -libc::ETIMEDOUT)?;
    equal("its fence", fence::end(&submitted.fence.ok_or("no fence")?)?, -libc::ETIMEDOUT)?;
    test_task.fill(2);
    equal("the next task's end", test_task.run(&node)?, 0)?;
    Ok(test_task.check(2)?)
}

fn wait_deadline() -> Result<(), Failed> {
    let node = first()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let test_task = TestTask::copies(&node, 1)?;
    let sequence = test_task.submit(&node, Options { in_fences: &[gate.as_raw_fd()], ..Options::default() })?.sequence;
    for deadline in [0, 1, now_ns()] {
        refused("a wait for no time", node.wait_until(sequence, deadline), Errno::ETIMEDOUT)?;
    }
    let start = Instant::now();
    refused("a wait", node.wait_until(sequence, now_ns() + 200_000_000), Errno::ETIMEDOUT)?;
    let waited = start.elapsed();
    ensure!(waited >= Duration::from_millis(200), "it waited {waited:?}");
    timeline.advance(1)?;
    equal("the task's end", node.wait_until(sequence, u64::MAX)?, 0)
}

extern "C" fn nothing(_: libc::c_int) {}

/// Sends signals to this thread repeatedly, until told to stop.
fn interrupted<T>(flags: SaFlags, call: impl FnOnce() -> T) -> Result<T, Failed> {
    let action = SigAction::new(SigHandler::Handler(nothing), flags, SigSet::empty());
    // SAFETY: the handler does nothing.
    unsafe { sigaction(Signal::SIGUSR1, &action)? };
    let stop = AtomicBool::new(false);
    let thread = pthread_self();
    Ok(std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
                let _ = pthread_kill(thread, Signal::SIGUSR1);
            }
        });
        let result = call();
        stop.store(true, Ordering::Relaxed);
        result
    }))
}

fn signal() -> Result<(), Failed> {
    let node = first()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let test_task = TestTask::copies(&node, 1)?;
    let sequence = test_task.submit(&node, Options { in_fences: &[gate.as_raw_fd()], ..Options::default() })?.sequence;
    let result = interrupted(SaFlags::empty(), || node.end(sequence))?;
    refused("the wait", result, Errno::EINTR)?;
    timeline.advance(1)?;
    equal("the task's end", node.end(sequence)?, 0)
}

/// The task must not run twice because of a call that is restarted after the signal.
fn signal_first() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(5);
    let (list, _fds) = test_task.exported(&node)?;
    let starts = control.counts().starts;
    control.set(Knob::Delay, 500_000);
    let result = interrupted(SaFlags::SA_RESTART, || node.submit_first(&list, 0))?;
    refused("the submission", result, Errno::EINTR)?;
    // The task and the queue continue.
    control.set(Knob::Delay, 0);
    equal("the next task's end", test_task.run(&node)?, 0)?;
    equal("operations", control.counts().starts - starts, 2)?;
    Ok(test_task.check(5)?)
}

/// Queues tasks, one of which fails, and then reads the results of all.
fn remembered() -> Result<(), Failed> {
    let node = first()?;
    let test_task = TestTask::copies(&node, 1)?;
    for number in 1..=200u64 {
        let deadline_ns = u64::from(number == 7);
        test_task.submit(&node, Options { deadline_ns, ..Options::default() })?;
    }
    equal("the last task's end", node.wait(200, 100)?, 0)?;
    for number in 1..=200 {
        let wanted = if number == 7 { -libc::ETIMEDOUT } else { 0 };
        equal(&format!("task {number}"), node.wait_until(number, 0)?, wanted)?;
    }
    Ok(())
}

fn statistics() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 2)?;
    equal("a task's end", test_task.run(&node)?, 0)?;
    ensure!(
        test_task.statistics(0).is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0)),
        "statistics were written without a request"
    );
    test_task = TestTask::counted(&node, 2)?;
    equal("a task's end", test_task.run(&node)?, 0)?;
    for operation in 0..2 {
        let bytes = test_task.statistics(operation).ok_or("no room for statistics")?;
        ensure!(bytes.iter().any(|&byte| byte != 0), "operation {operation} has no statistics");
    }
    Ok(())
}

/// Ending a task costs every client a reset. Therefore a started task has a minimum time, whatever its deadline is.
fn just_ahead() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let mut test_task = TestTask::copies(&node, 1)?;
    let resets = control.counts().resets;
    control.set(Knob::Delay, 20_000);
    for seed in 0..10 {
        test_task.fill(seed);
        let options = Options { deadline_ns: now_ns() + 5_000_000, ..Options::default() };
        let end = node.end(test_task.submit(&node, options)?.sequence)?;
        // On a busy machine the deadline may pass before the task starts; then the task does not run.
        ensure!(end == 0 || end == -libc::ETIMEDOUT && test_task.is_untouched(), "a task ended with {end}");
    }
    control.set(Knob::Delay, 0);
    equal("resets", control.counts().resets - resets, 0)?;
    equal("the next task's end", test_task.run(&node)?, 0)
}

/// A task of this many operations, which all copy the cube to the same place.
fn long(node: &Node, operations: usize) -> Result<TestTask, Failed> {
    let (mut net, bytes) = copying(node, 0)?;
    let shape = nvdla_guest::test_task::shape(node)?;
    for _ in 0..operations {
        net.copy(shape, 0x4000);
    }
    net.data = 0x8000;
    Ok(TestTask::new(node, &net, 1, bytes)?)
}

fn signal_reading() -> Result<(), Failed> {
    let node = first()?;
    let test_task = long(&node, 30_000)?;
    // Several tasks, so that reading them takes longer than the signal needs on any machine.
    let many = [test_task.addresses.as_slice(); 64];
    let result = interrupted(SaFlags::empty(), || node.submit(&many, Options::default()))?;
    refused("the submission", result.map(|submitted| submitted.sequence), Errno::EINTR)?;
    refused("a wait for what was not queued", node.wait_until(1, 0), Errno::EINVAL)
}

/// Nothing is queued when a signal comes, so a handler that lets calls go on does not make a submission fail. The freezer of a
/// sleeping machine interrupts in the same way.
fn restarted() -> Result<(), Failed> {
    let tracing = tracing().ok_or("the kernel has no trace events")?;
    let event = tracing.join("events/nvdla/nvdla_submit/enable");
    let gates = Timeline::new()?;
    let gate = gates.fence(1)?;
    let options = Options { in_fences: &[gate.as_raw_fd()], ..Options::default() };
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing.
    unsafe { sigaction(Signal::SIGUSR1, &action)? };
    let thread = pthread_self();
    for round in 0..50 {
        let node = first()?;
        let test_task = long(&node, 30_000)?;
        let many = [test_task.addresses.as_slice(); 3];
        fs::write(tracing.join("trace"), "")?;
        fs::write(&event, "1")?;
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                pthread_kill(thread, Signal::SIGUSR1)
            });
            node.submit(&many, options)
        });
        fs::write(&event, "0")?;
        equal("the last task's number", result?.sequence, 3)?;
        // The signal may also come before the call or after it.
        let calls = fs::read_to_string(tracing.join("trace"))?.matches("nvdla_submit:").count();
        if calls > 1 {
            println!("round {round}: the call was begun {calls} times");
            return Ok(());
        }
    }
    Err("no signal came during a call".into())
}

/// The budget has room for one task and not for two. Each is submitted when the one before has ended.
fn room() -> Result<(), Failed> {
    insert("client_tasks_mib=1")?;
    let result = (|| {
        let node = first()?;
        let timeline = Timeline::new()?;
        let gate = timeline.fence(1)?;
        let test_task = long(&node, 500)?;
        for _ in 0..200 {
            ended(&node, &test_task, &[])?;
        }
        let gated = Options { in_fences: &[gate.as_raw_fd()], ..Options::default() };
        test_task.submit(&node, gated)?;
        refused("a second task", test_task.submit(&node, gated).map(|task| task.sequence), Errno::EBUSY)
    })();
    insert("")?;
    result
}

/// Submits a task that the driver ends without the device, and waits for its end.
fn ended(node: &Node, test_task: &TestTask, in_fences: &[RawFd]) -> Result<(), Failed> {
    let sequence = test_task.submit(node, Options { deadline_ns: 1, in_fences, ..Options::default() })?.sequence;
    equal("the task's end", node.end(sequence)?, -libc::ETIMEDOUT)
}

/// The budget has room for two tasks, and not for two and as many fences as a task may wait for. Each is submitted when the one before
/// has ended.
fn room_for_fences() -> Result<(), Failed> {
    insert("client_tasks_mib=1")?;
    let result = (|| {
        let node = first()?;
        let timeline = Timeline::new()?;
        let gate = timeline.fence(1)?;
        let fits = |operations| -> Result<bool, Failed> {
            let node = first()?;
            match long(&node, operations)?.submit(&node, Options { deadline_ns: 1, ..Options::default() }) {
                Ok(_) => Ok(true),
                Err(Errno::EBUSY) => Ok(false),
                Err(error) => Err(error.into()),
            }
        };
        let (mut most, mut too_many) = (1, 30_000);
        while too_many - most > 1 {
            let middle = usize::midpoint(most, too_many);
            *(if fits(middle)? { &mut most } else { &mut too_many }) = middle;
        }
        // What a task costs beside its operations is less than the operations that are left out here.
        let test_task = long(&node, most / 2 - 4)?;
        println!("a task of {most} operations fits");
        let gated = Options { in_fences: &[gate.as_raw_fd()], ..Options::default() };
        let held = test_task.submit(&node, gated)?.sequence;
        let all = [gate.as_raw_fd(); MAX_IN_FENCES as usize];
        let more = test_task.submit(&node, Options { in_fences: &all, ..Options::default() });
        refused("a second task with all fences", more.map(|task| task.sequence), Errno::EBUSY)?;
        timeline.advance(1)?;
        let sequence = test_task.submit(&node, Options { deadline_ns: 1, ..gated })?.sequence;
        equal("the second task's end", node.end(sequence)?, -libc::ETIMEDOUT)?;
        equal("the first task's end", node.end(held)?, 0)?;
        for _ in 0..200 {
            ended(&node, &test_task, &[])?;
            ended(&node, &test_task, &all)?;
        }
        Ok(())
    })();
    insert("")?;
    result
}

/// The kernel memory of queued tasks is limited even if they are few, and is freed when they end.
fn budget() -> Result<(), Failed> {
    let node = first()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let gated = Options { in_fences: &[gate.as_raw_fd()], ..Options::default() };
    let test_task = long(&node, 8000)?;
    let before = meminfo("MemAvailable")?;
    let mut last = 0;
    let result = loop {
        match test_task.submit(&node, gated) {
            Ok(submitted) => last = submitted.sequence,
            Err(error) => break error,
        }
        ensure!(last < 200, "{last} tasks of 8000 operations are queued");
    };
    let during = meminfo("MemAvailable")?;
    println!("{last} tasks of 8000 operations take {} kB", before.saturating_sub(during));
    equal("one more", result, Errno::EBUSY)?;
    ensure!(last >= 2, "{last} tasks are queued");
    ensure!(before.saturating_sub(during) < 160 << 10, "they take {} kB", before - during);
    // Another client has a separate budget.
    let other = first()?;
    equal("another client's task", TestTask::copies(&other, 1)?.run(&other)?, 0)?;
    drop(node);
    drop(timeline);
    let start = Instant::now();
    while meminfo("MemAvailable")? + (16 << 10) < before && start.elapsed() < HANG {
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = meminfo("MemAvailable")?;
    ensure!(after + (16 << 10) >= before, "{before} kB were available, and {after} when the tasks have gone");
    Ok(())
}
