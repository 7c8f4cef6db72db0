// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device that fails: the task gets an error, the kernel logs one line that names what hung, and the next task runs.

use std::fs;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nix::errno::Errno;
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::fence;
use nvdla_guest::node::{nodes, now_ns, Node, Options};
use nvdla_guest::system::{bind, node_of, tracing, unbind, Messages};
use nvdla_guest::test_task::{shape, TestTask};
use nvdla_tests::build::Net;

use crate::evidence::{self, Dump};
use crate::expect::{ensure, equal, first, met, refused, second, within, works, Test};
use crate::sleep::until;

pub(crate) const TESTS: &[Test] = &[
    ("a_hung_operation_is_named_and_the_next_task_runs", hung),
    ("a_hung_operation_leaves_evidence", evidence),
    ("a_lost_interrupt_is_named_and_the_next_task_runs", lost),
    ("refused_memory_ends_at_the_deadline", refused_memory),
    ("a_task_has_the_time_until_its_deadline", time_left),
    ("nvidias_submit_has_a_deadline_too", first_deadline),
    ("a_hang_among_clients_fails_one_task", among_clients),
    ("a_hang_of_one_device_leaves_the_other_alone", other_device),
    ("every_operation_hangs_once", often),
    ("spurious_interrupts_change_nothing", spurious),
    ("a_late_operation_is_not_taken_for_the_next_task", late),
    ("a_device_that_does_not_answer_takes_no_tasks_until_it_is_bound_anew", dead),
    ("a_device_that_does_not_answer_is_not_bound", no_device),
    ("messages_name_the_client_and_are_limited", messages),
    ("a_device_that_is_not_ready_is_looked_at_once_per_tick", unready),
];

/// The lines that the driver logged. PCI's own code also logs each reset, and steps of it that take long on a loaded machine.
fn driver_lines(messages: &mut Messages) -> Result<Vec<String>, Failed> {
    let is_of_pci = |line: &str| ["resetting", "reset done", " usecs"].iter().any(|end| line.ends_with(end));
    Ok(messages.read()?.into_iter().filter(|line| line.contains("nvdla") && !is_of_pci(line)).collect())
}

/// Injects a fault, lets a task of two operations exceed its deadline, and returns what the kernel logged.
fn failing(node: &Node, knob: Knob) -> Result<String, Failed> {
    let control = Control::open(&node.device()?)?;
    let mut test_task = TestTask::copies(node, 2)?;
    test_task.fill(1);
    let mut messages = met(&control, (knob, 1), 300, |milliseconds| {
        let messages = Messages::from_now()?;
        let submitted = test_task.submit(node, within(milliseconds))?;
        equal("the task's end", node.end(submitted.sequence)?, -libc::ETIMEDOUT)?;
        equal("its fence", fence::end(&submitted.fence.ok_or("no fence")?)?, -libc::ETIMEDOUT)?;
        Ok(messages)
    })?;
    test_task.fill(2);
    equal("the next task's end", test_task.run(node)?, 0)?;
    test_task.check(2)?;
    let lines = driver_lines(&mut messages)?;
    ensure!(lines.len() == 1, "the kernel said {lines:?}");
    println!("{}", lines[0]);
    Ok(lines[0].clone())
}

fn hung() -> Result<(), Failed> {
    let line = failing(&first()?, Knob::Hang)?;
    ensure!(line.contains("operation 0 (SDP"), "the operation has no name in: {line}");
    ensure!(line.contains("its interrupt did not come"), "nothing of the interrupt in: {line}");
    Ok(())
}

fn evidence() -> Result<(), Failed> {
    let node = evidence::bound_anew()?;
    failing(&node, Knob::Hang)?;
    let dump = Dump::take()?;
    dump.check("the deadline passed", 1)?;
    dump.check_operation()
}

fn lost() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    let mut messages = met(&control, (Knob::Lose, 1), 300, |milliseconds| {
        let messages = Messages::from_now()?;
        let sequence = test_task.submit(&node, within(milliseconds))?.sequence;
        equal("the task's end", node.end(sequence)?, -libc::ETIMEDOUT)?;
        Ok(messages)
    })?;
    equal("the next task's end", test_task.run(&node)?, 0)?;
    let lines = driver_lines(&mut messages)?;
    ensure!(lines.len() == 1, "the kernel said {lines:?}");
    println!("{}", lines[0]);
    ensure!(lines[0].contains("operation 0 (SDP"), "the operation has no name in: {}", lines[0]);
    ensure!(lines[0].contains("was not delivered"), "nothing of the interrupt in: {}", lines[0]);
    Ok(())
}

fn refused_memory() -> Result<(), Failed> {
    let line = failing(&first()?, Knob::Refuse)?;
    ensure!(line.contains("operation 0 (SDP"), "the operation has no name in: {line}");
    Ok(())
}

/// The driver's state says how much time the running task has left.
fn time_left() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    let (left, limit) = met(&control, (Knob::Hang, 1), 500, |milliseconds| {
        let sequence = test_task.submit(&node, within(milliseconds))?.sequence;
        let mut left = None;
        while node.wait_until(sequence, now_ns()) == Err(Errno::ETIMEDOUT) {
            let state = node.state()?;
            let line = state.lines().find(|line| line.starts_with("running: "));
            left =
                left.max(line.and_then(|line| line.strip_suffix(" us left")?.rsplit(' ').next()?.parse::<u64>().ok()));
        }
        equal("the task's end", node.end(sequence)?, -libc::ETIMEDOUT)?;
        Ok((left, 1000 * milliseconds))
    })?;
    println!("{left:?} of {limit} us were left");
    ensure!(left.is_some_and(|left| left > 0 && left <= limit), "{left:?} of {limit} us were left");
    works(&node)
}

fn first_deadline() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    let (list, _fds) = test_task.exported(&node)?;
    met(&control, (Knob::Hang, 1), 200, |milliseconds| {
        let start = Instant::now();
        refused("the submission", node.submit_first(&list, milliseconds as u32), Errno::ETIMEDOUT)?;
        ensure!(start.elapsed() >= Duration::from_millis(milliseconds), "it took {:?}", start.elapsed());
        Ok(())
    })?;
    Ok(node.submit_first(&list, 0)?)
}

fn among_clients() -> Result<(), Failed> {
    let nodes = [first()?, first()?, first()?];
    let control = Control::open(&nodes[0].device()?)?;
    let test_tasks = nodes.iter().map(|node| TestTask::copies(node, 1)).collect::<Result<Vec<_>, _>>()?;
    control.set(Knob::Delay, 5000);
    met(&control, (Knob::Hang, 1), 300, |milliseconds| {
        let mut tasks = Vec::new();
        for _ in 0..10 {
            for (node, test_task) in nodes.iter().zip(&test_tasks) {
                tasks.push((node, test_task.submit(node, within(milliseconds))?.sequence));
            }
        }
        let mut failures = 0;
        for (node, sequence) in tasks {
            match node.end(sequence)? {
                0 => {}
                error if error == -libc::ETIMEDOUT => failures += 1,
                other => return Err(format!("a task ended with {other}").into()),
            }
        }
        // The failed tasks are the hung one, and those whose deadline passed while it hung.
        ensure!(failures >= 1, "no task failed");
        Ok(())
    })?;
    for node in &nodes {
        equal("a task's end", TestTask::copies(node, 1)?.run(node)?, 0)?;
    }
    Ok(())
}

fn other_device() -> Result<(), Failed> {
    let (node, other) = (first()?, second()?);
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    let starts = control.counts().starts;
    control.set(Knob::Hang, 1);
    let sequence = test_task.submit(&node, Options { deadline_ns: u64::MAX, ..Options::default() })?.sequence;
    control.until_started(starts)?;
    let mut others = TestTask::copies(&other, 1)?;
    for seed in 0..10 {
        others.fill(seed);
        equal("the other device's task", others.run(&other)?, 0)?;
        others.check(seed)?;
    }
    refused("a wait for the task that hangs", node.wait_until(sequence, now_ns()), Errno::ETIMEDOUT)?;
    // The driver ends the task a second after its client has gone.
    drop((test_task, node));
    works(&first()?)
}

fn often() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let mut test_task = TestTask::copies(&node, 2)?;
    for round in 0..20 {
        let knob = [Knob::Hang, Knob::Lose, Knob::Refuse][round % 3];
        let end = met(&control, (knob, 1), 200, |milliseconds| {
            let sequence = test_task.submit(&node, within(milliseconds))?.sequence;
            Ok(node.end(sequence)?)
        })?;
        // If one of two interrupts is lost, the other one may be enough.
        ensure!(end == -libc::ETIMEDOUT || end == 0 && round % 3 == 1, "round {round}: {end}");
        test_task.fill(round as u8);
        equal("the next task's end", test_task.run(&node)?, 0)?;
        test_task.check(round as u8)?;
    }
    Ok(())
}

fn spurious() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    for _ in 0..200 {
        control.set(Knob::Spurious, 1);
    }
    let mut test_task = TestTask::copies(&node, 2)?;
    control.set(Knob::Delay, 20_000);
    for seed in 0..3 {
        test_task.fill(seed);
        let sequence = test_task.submit(&node, Options::default())?.sequence;
        for _ in 0..20 {
            control.set(Knob::Spurious, 1);
        }
        equal("the task's end", node.end(sequence)?, 0)?;
        test_task.check(seed)?;
    }
    Ok(())
}

/// The operation ends after its task's deadline, while the next task runs.
fn late() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let mut test_task = TestTask::copies(&node, 1)?;
    // Long after the deadline, because a loaded machine may end the task late.
    met(&control, (Knob::Delay, 1_000_000), 50, |milliseconds| {
        let sequence = test_task.submit(&node, within(milliseconds))?.sequence;
        equal("the task's end", node.end(sequence)?, -libc::ETIMEDOUT)
    })?;
    for seed in 0..3 {
        test_task.fill(seed);
        equal("the next task's end", test_task.run(&node)?, 0)?;
        test_task.check(seed)?;
    }
    Ok(())
}

fn dead() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let test_task = TestTask::copies(&node, 1)?;
    let starts = control.counts().starts;
    met(&control, (Knob::Hang, 1), 300, |milliseconds| {
        let first = test_task.submit(&node, within(milliseconds))?.sequence;
        let second = test_task.submit(&node, within(milliseconds + 100))?.sequence;
        while control.counts().starts == starts && node.wait_until(second, now_ns()) == Err(Errno::ETIMEDOUT) {
            std::thread::sleep(Duration::from_millis(1));
        }
        control.set(Knob::Mute, 1);
        let ends = [node.end(first)?, node.end(second)?];
        control.set(Knob::Mute, 0);
        ensure!(ends.iter().all(|&end| end < 0), "the tasks ended with {ends:?}");
        Ok(())
    })?;
    // In whatever state the driver is now, the device works again once it answers and is bound again.
    drop((test_task, node));
    unbind(&device)?;
    bind(&device)?;
    let node = Node::open(&node_of(&device)?)?;
    equal("a task's end", TestTask::copies(&node, 1)?.run(&node)?, 0)
}

fn no_device() -> Result<(), Failed> {
    let device = first()?.device()?;
    let control = Control::open(&device)?;
    unbind(&device)?;
    control.set(Knob::Mute, 1);
    let mut messages = Messages::from_now()?;
    ensure!(bind(&device).is_err(), "a device that does not answer was bound");
    let lines = messages.read()?;
    ensure!(lines.iter().any(|line| line.contains("register 0 reads")), "the kernel said {lines:?}");
    ensure!(!device.join("driver").exists(), "it has a driver");
    equal("nodes", nodes().len(), 1)?;
    control.set(Knob::Mute, 0);
    bind(&device)?;
    let node = Node::open(&node_of(&device)?)?;
    equal("a task's end", TestTask::copies(&node, 1)?.run(&node)?, 0)
}

/// A client whose tasks hang causes at most ten log lines in five seconds, and each names the client.
fn messages() -> Result<(), Failed> {
    const TASKS: usize = 30;
    // Each binding has its own limit, so earlier tests do not affect it.
    let node = evidence::bound_anew()?;
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    let mut messages = Messages::from_now()?;
    let start = Instant::now();
    for _ in 0..TASKS {
        met(&control, (Knob::Hang, 1), 20, |milliseconds| {
            let sequence = test_task.submit(&node, within(milliseconds))?.sequence;
            equal("the task's end", node.end(sequence)?, -libc::ETIMEDOUT)
        })?;
    }
    let lines: Vec<_> = messages.read()?.into_iter().filter(|line| line.contains("ended by the driver")).collect();
    let who = format!("client {} (nvdla_driver_te[{}]): task ", node.usage("drm-client-id")?, std::process::id());
    let line = lines.first().ok_or("the kernel said nothing")?;
    println!("{} lines for {TASKS} tasks: {line}", lines.len());
    ensure!(line.contains(&who), "no \"{who}\" in: {line}");
    let most = 10 * (1 + start.elapsed().as_secs() as usize / 5);
    ensure!(lines.len() <= most, "the kernel said {lines:?}");
    Ok(())
}

/// After a reset the convolution buffer is not clear for a while. The work that waits for it does not occupy a processor meanwhile.
fn unready() -> Result<(), Failed> {
    const EVENT: &str = "events/workqueue/workqueue_execute_start";
    /// The kernel's timer ticks at most this often in a second, with some more for a tick that comes late.
    const TICKS: u64 = 300;
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let tracing = tracing().ok_or("the kernel has no trace events")?;
    let mut net = Net::new();
    net.convolution(shape(&node)?, 0x4000);
    net.data = 0x8000;
    let test_task = TestTask::new(&node, &net, 0, 0)?;
    // The driver believes nothing of a device that it wakes.
    until(&device.join("power"), "suspended")?;
    control.set(Knob::Unclear, 1);
    let sequence = test_task.submit(&node, Options::default())?.sequence;
    fs::write(tracing.join("trace"), "")?;
    let start = Instant::now();
    fs::write(tracing.join(EVENT).join("enable"), "1")?;
    std::thread::sleep(Duration::from_millis(500));
    fs::write(tracing.join(EVENT).join("enable"), "0")?;
    let ticks = start.elapsed().as_millis() as u64 * TICKS / 1000;
    let text = fs::read_to_string(tracing.join("trace"))?;
    let looks = text.lines().filter(|line| line.contains("nvdla_worker_run")).count() as u64;
    println!("{looks} looks in {:?}", start.elapsed());
    ensure!(looks > 0, "the device is not looked at:\n{text}");
    ensure!(looks <= ticks, "{looks} looks in {:?}", start.elapsed());
    control.set(Knob::Unclear, 0);
    equal("the task's end", node.end(sequence)?, 0)
}
