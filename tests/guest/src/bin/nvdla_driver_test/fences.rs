// SPDX-License-Identifier: MIT OR Apache-2.0

//! Input and output fences.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libtest_mimic::Failed;
use nvdla_guest::fence::{self, poll_ms, Timeline};
use nvdla_guest::node::{Node, Options};
use nvdla_guest::test_task::TestTask;

use crate::expect::{ensure, equal, first, second, Test};

pub(crate) const TESTS: &[Test] = &[
    ("a_fence_polls_readable_when_its_task_has_ended", out),
    ("a_task_waits_for_a_fence", waits),
    ("a_task_waits_for_every_fence", every),
    ("a_fence_that_has_signalled_holds_nothing_up", signalled),
    ("a_fence_that_fails_fails_the_task", fails),
    ("who_waits_for_a_fence_holds_no_other_up", others_go_on),
    ("devices_wait_for_one_another", chain),
    ("a_fence_outlives_its_file_and_descriptor", outlives),
];

fn out() -> Result<(), Failed> {
    let node = first()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let test_task = TestTask::copies(&node, 1)?;
    let options = Options { in_fences: &[gate.as_raw_fd()], out_fence: true, ..Options::default() };
    let fence = test_task.submit(&node, options)?.fence.ok_or("no fence")?;
    let info = fence::info(fence.as_raw_fd())?;
    equal("its status", info.status, 0)?;
    equal("its driver", info.driver.as_str(), "nvdla")?;
    ensure!(!poll_ms(fence.as_fd(), 20)?, "it is readable before the task has started");
    timeline.advance(1)?;
    ensure!(poll_ms(fence.as_fd(), 60_000)?, "it is not readable after a minute");
    let info = fence::info(fence.as_raw_fd())?;
    equal("its status", info.status, 1)?;
    ensure!(info.timestamp_ns > 0, "it has no time");
    Ok(())
}

fn waits() -> Result<(), Failed> {
    let node = first()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(2)?;
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(8);
    let sequence = test_task.submit(&node, Options { in_fences: &[gate.as_raw_fd()], ..Options::default() })?.sequence;
    drop(gate);
    timeline.advance(1)?;
    std::thread::sleep(std::time::Duration::from_millis(50));
    ensure!(test_task.is_untouched(), "it ran before its fence");
    timeline.advance(1)?;
    equal("the task's end", node.end(sequence)?, 0)?;
    Ok(test_task.check(8)?)
}

fn every() -> Result<(), Failed> {
    let node = first()?;
    let timelines = (0..64).map(|_| Timeline::new()).collect::<Result<Vec<_>, _>>()?;
    let gates = timelines.iter().map(|timeline| timeline.fence(1)).collect::<Result<Vec<OwnedFd>, _>>()?;
    let fds: Vec<_> = gates.iter().map(AsRawFd::as_raw_fd).collect();
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(8);
    let sequence = test_task.submit(&node, Options { in_fences: &fds, ..Options::default() })?.sequence;
    for (number, timeline) in timelines.iter().enumerate() {
        ensure!(test_task.is_untouched(), "it ran after {number} of 64 fences");
        timeline.advance(1)?;
    }
    equal("the task's end", node.end(sequence)?, 0)?;
    Ok(test_task.check(8)?)
}

fn signalled() -> Result<(), Failed> {
    let node = first()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    timeline.advance(1)?;
    let test_task = TestTask::copies(&node, 1)?;
    let options = Options { in_fences: &[gate.as_raw_fd()], ..Options::default() };
    let sequence = test_task.submit(&node, options)?.sequence;
    equal("the task's end", node.end(sequence)?, 0)
}

fn fails() -> Result<(), Failed> {
    let node = first()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(1);
    let options = Options { in_fences: &[gate.as_raw_fd()], out_fence: true, ..Options::default() };
    let submitted = test_task.submit(&node, options)?;
    // Closing a timeline fails its pending fences.
    drop(timeline);
    let status = node.end(submitted.sequence)?;
    equal("the task's end", status, -libc::ENOENT)?;
    equal("its fence", fence::end(&submitted.fence.ok_or("no fence")?)?, status)?;
    ensure!(test_task.is_untouched(), "it ran");
    equal("the next task's end", test_task.run(&node)?, 0)?;
    Ok(test_task.check(1)?)
}

fn others_go_on() -> Result<(), Failed> {
    let node = first()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let stuck = TestTask::copies(&node, 1)?;
    let sequence = stuck.submit(&node, Options { in_fences: &[gate.as_raw_fd()], ..Options::default() })?.sequence;
    let other = Node::open(node.path())?;
    let mut test_task = TestTask::copies(&other, 1)?;
    for seed in 0..10 {
        test_task.fill(seed);
        equal("another's task", test_task.run(&other)?, 0)?;
        test_task.check(seed)?;
    }
    timeline.advance(1)?;
    equal("the task's end", node.end(sequence)?, 0)
}

/// Each task waits for the previous one, on the other device.
fn chain() -> Result<(), Failed> {
    let nodes = [first()?, second()?];
    let timeline = Timeline::new()?;
    let mut gate = timeline.fence(1)?;
    let test_tasks = [TestTask::copies(&nodes[0], 1)?, TestTask::copies(&nodes[1], 1)?];
    let mut fences = Vec::new();
    for step in 0..20 {
        let options = Options { in_fences: &[gate.as_raw_fd()], out_fence: true, ..Options::default() };
        let fence = test_tasks[step % 2].submit(&nodes[step % 2], options)?.fence.ok_or("no fence")?;
        fences.push(std::mem::replace(&mut gate, fence));
    }
    ensure!(!poll_ms(gate.as_fd(), 20)?, "the last has ended before the first began");
    timeline.advance(1)?;
    equal("the last one's fence", fence::end(&gate)?, 1)?;
    fences.push(gate);
    let mut last = 0;
    for fence in &fences[1..] {
        let time = fence::info(fence.as_raw_fd())?.timestamp_ns;
        ensure!(time > last, "one ended before the one that it waited for");
        last = time;
    }
    Ok(())
}

fn outlives() -> Result<(), Failed> {
    let node = first()?;
    let test_task = TestTask::copies(&node, 1)?;
    for _ in 0..10 {
        drop(test_task.submit(&node, Options { out_fence: true, ..Options::default() })?.fence);
    }
    let submitted = test_task.submit(&node, Options { out_fence: true, ..Options::default() })?;
    equal("the task's end", node.end(submitted.sequence)?, 0)?;
    drop((test_task, node));
    equal("its fence", fence::info(submitted.fence.ok_or("no fence")?.as_raw_fd())?.status, 1)
}
