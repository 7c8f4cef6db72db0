// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cost of the driver: times of calls and tasks, the parts of a task's time, and register accesses per operation.
//!
//! Times are those of the virtual machine, in which a register read exits from the guest to the host. The device counts the
//! accesses.

use std::fs;
use std::time::Instant;

use libtest_mimic::Failed;
use nvdla_guest::control::Control;
use nvdla_guest::node::Node;
use nvdla_guest::system::{is_translated, tracing};
use nvdla_guest::test_task::{copying, TestTask};
use nvdla_tests::drive::Measure;
use nvdla_uapi::config::Config;

use crate::expect::{ensure, equal, first, Test};
use crate::removal::insert;

pub(crate) const TESTS: &[Test] = &[
    ("register_accesses_of_an_operation", accesses),
    ("times_of_calls_and_tasks", times),
    ("times_within_a_task", within),
    ("times_of_the_engine_alone", alone),
];

/// The driver's trace events.
const EVENTS: &str = "events/nvdla/enable";

/// Register reads and writes of a task.
fn task(node: &Node, control: &Control, copies: usize) -> Result<(u32, u32), Failed> {
    let test_task = TestTask::copies(node, copies)?;
    let before = control.counts();
    equal("a task's end", test_task.run(node)?, 0)?;
    let after = control.counts();
    Ok((after.reads - before.reads, after.writes - before.writes))
}

fn accesses() -> Result<(), Failed> {
    const MANY: usize = 17;
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    // After the first task the registers are in a known state for the next one.
    task(&node, &control, 1)?;
    let (one, many) = (task(&node, &control, 1)?, task(&node, &control, MANY)?);
    let each = |many: u32, one: u32| f64::from(many - one) / (MANY - 1) as f64;
    let (reads, writes) = (each(many.0, one.0), each(many.1, one.1));
    println!(
        "a task of one SDP operation: {} register reads, {} writes; each further operation: {reads:.1} reads, {writes:.1} \
         writes",
        one.0, one.1
    );
    ensure!(reads < 7.0 && writes < 57.0, "more than the first NVDLA driver: 7 reads and 57 writes");
    Ok(())
}

/// The median of times that a call takes, in microseconds.
fn median(mut call: impl FnMut() -> Result<(), Failed>) -> Result<u64, Failed> {
    let mut times = Vec::new();
    for _ in 0..201 {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2].div_ceil(1000))
}

fn times() -> Result<(), Failed> {
    let node = first()?;
    let query = median(|| Ok(node.query().map(drop)?))?;
    println!("QUERY: {query} us");
    for copies in [0, 1, 2] {
        let test_task = TestTask::copies(&node, copies)?;
        let time = median(|| equal("a task's end", test_task.run(&node)?, 0))?;
        print!("a task of {copies} operations, from SUBMIT to the end of WAIT: {time} us");
        if node.has_first() {
            let (list, _fds) = test_task.exported(&node)?;
            print!("; NVIDIA's SUBMIT: {} us", median(|| Ok(node.submit_first(&list, 0)?))?);
        }
        println!();
    }
    println!("each of two clients' tasks of 1 operation in turn: {} us", in_turn()?);
    if is_translated(&node.device()?) {
        drop(node);
        insert("client_domains=0")?;
        println!("the same, with one domain for all clients: {} us", in_turn()?);
        insert("")?;
    }
    Ok(())
}

/// The time from SUBMIT to the end of WAIT in microseconds, where each task is another client's than the one before.
fn in_turn() -> Result<u64, Failed> {
    let (node, other) = (first()?, first()?);
    let (one, two) = (TestTask::copies(&node, 1)?, TestTask::copies(&other, 1)?);
    let both = median(|| {
        equal("a task's end", one.run(&node)?, 0)?;
        equal("the end of the other client's task", two.run(&other)?, 0)
    })?;
    Ok(both / 2)
}

/// An event of the trace: its time in microseconds and its name.
fn event(line: &str) -> Option<(f64, &str)> {
    let (head, _) = line.split_once(": nvdla_")?;
    let time = head.split_whitespace().next_back()?.parse::<f64>().ok()?;
    let name = line.split_once(": nvdla_")?.1.split(':').next()?;
    Some((time * 1e6, name))
}

fn within() -> Result<(), Failed> {
    let node = first()?;
    let test_task = TestTask::copies(&node, 1)?;
    spans("one client", &[("submit", "task_start"), ("task_start", "interrupt"), ("interrupt", "task_end")], || {
        equal("a task's end", test_task.run(&node)?, 0)
    })?;
    let is_translated = is_translated(&node.device()?);
    drop((test_task, node));
    spans_in_turn("two clients in turn")?;
    if is_translated {
        insert("client_domains=0")?;
        spans_in_turn("two clients in turn, one domain for all")?;
        insert("")?;
    }
    Ok(())
}

fn spans_in_turn(what: &str) -> Result<(), Failed> {
    let (node, other) = (first()?, first()?);
    let (one, two) = (TestTask::copies(&node, 1)?, TestTask::copies(&other, 1)?);
    spans(what, &[("submit", "task_start")], || {
        equal("a task's end", one.run(&node)?, 0)?;
        equal("the end of the other client's task", two.run(&other)?, 0)
    })
}

/// Runs `call` a hundred times, and prints the times between events.
fn spans(what: &str, wanted: &[(&str, &str)], mut call: impl FnMut() -> Result<(), Failed>) -> Result<(), Failed> {
    let tracing = tracing().ok_or("the kernel has no trace events of the driver")?;
    fs::write(tracing.join("trace"), "")?;
    fs::write(tracing.join(EVENTS), "1")?;
    for _ in 0..100 {
        call()?;
    }
    fs::write(tracing.join(EVENTS), "0")?;
    let text = fs::read_to_string(tracing.join("trace"))?;
    // The end of an operation is between the interrupt and the end of the task.
    let events: Vec<_> = text.lines().filter_map(event).filter(|(_, name)| *name != "operation_end").collect();
    for (from, to) in wanted {
        let pairs = events.windows(2).filter(|pair| (pair[0].1, pair[1].1) == (*from, *to));
        let mut times: Vec<_> = pairs.map(|pair| pair[1].0 - pair[0].0).collect();
        let some = || text.lines().take(40).collect::<Vec<_>>().join("\n");
        ensure!(!times.is_empty(), "no {to} follows a {from}:\n{}", some());
        times.sort_by(f64::total_cmp);
        // The trace has whole microseconds, so the mean is finer than the median; the outer quarters are other interrupts.
        let inner = &times[times.len() / 4..times.len() * 3 / 4];
        println!("{what}, from {from} to {to}: {:.1} us", inner.iter().sum::<f64>() / inner.len() as f64);
    }
    Ok(())
}

/// The mean time of a call, in microseconds.
fn mean(mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 2000;
    let start = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
}

/// The part of those times without a kernel: the same tasks, in this program, on a device that answers at once.
fn alone() -> Result<(), Failed> {
    let node = first()?;
    let name = node.config()?;
    let config = Config::by_name(&name).ok_or_else(|| format!("there is no {name}"))?;
    for copies in [0, 1, 2] {
        let task = copying(&node, copies)?.0.task();
        let mut engine = Measure::new(config, task.parse(config)?);
        let (validation, run) = (mean(|| drop(task.parse(config))), mean(|| engine.run()));
        println!("the engine alone, a task of {copies} operations: {validation:.1} us to validate, {run:.1} us to run");
    }
    Ok(())
}
