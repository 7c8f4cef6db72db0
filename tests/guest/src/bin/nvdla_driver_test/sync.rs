// SPDX-License-Identifier: MIT OR Apache-2.0

//! What others wait for, and what waits for others: synchronisation objects of DRM, and the reservations of buffers that several
//! drivers use. Records that are longer or shorter than the driver's.

use std::fs;
use std::os::fd::AsRawFd;

use libtest_mimic::Failed;
use nix::errno::Errno;
use nvdla_guest::drm::{attach_fence, call, detach_fence, heap, read_write, sync_object, sync_signal, sync_wait};
use nvdla_guest::fence::{self, Timeline};
use nvdla_guest::node::{now_ns, record, Node, Options, SUBMIT};
use nvdla_guest::system::tracing;
use nvdla_guest::test_task::TestTask;
use nvdla_uapi::ioctl::MemHandle;
use nvdla_uapi::queue::{
    Address, Submit, Sync, Task, ACCESS_END, ACCESS_READ, ACCESS_WRITE, ADDRESS_READ, ADDRESS_WRITE,
};

use crate::expect::{ensure, equal, first, refused, works, Test};

pub(crate) const TESTS: &[Test] = &[
    ("a_timeline_is_waited_for_and_signalled", timeline),
    ("an_object_that_is_no_timeline_is_signalled", binary),
    ("synchronisation_objects_that_are_wrong_are_refused", wrong),
    ("a_camera_s_buffer_is_waited_for", implicit_in),
    ("others_wait_for_a_task_that_writes_their_buffer", implicit_out),
    ("the_processor_waits_for_a_task", processor),
    ("records_may_be_longer_and_shorter", growth),
    ("a_refused_task_is_named_in_the_answer_and_in_the_trace", refusal),
    ("nvidias_submit_makes_no_handles", no_handles),
];

const SECOND: u64 = 1_000_000_000;

fn timeline() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    let (before, after) = (sync_object(node.fd())?, sync_object(node.fd())?);
    let point = |handle, point| [Sync { handle, flags: 0, point }];
    // A fence for a point that is not there yet: the point is signalled by the processor.
    sync_signal(node.fd(), before, 3)?;
    for round in 1..4 {
        test_task.fill(round as u8);
        let (wait, end) = (point(before, 3), point(after, round));
        let options = Options { in_syncs: &wait, out_syncs: &end, ..Options::default() };
        test_task.submit(&node, options)?;
        sync_wait(node.fd(), after, round, now_ns() + 20 * SECOND)?;
        test_task.check(round as u8)?;
    }
    // One task's point is what the next one waits for.
    let gates = Timeline::new()?;
    let gate = gates.fence(1)?;
    let (end, wait) = (point(after, 10), point(after, 10));
    test_task.submit(&node, Options { in_fences: &[gate.as_raw_fd()], out_syncs: &end, ..Options::default() })?;
    let other = Node::open(node.path())?;
    let theirs = sync_object(other.fd())?;
    refused("a point before its task", sync_wait(node.fd(), after, 10, now_ns() + SECOND / 10), Errno::ETIME)?;
    let last = test_task.submit(&node, Options { in_syncs: &wait, ..Options::default() })?.sequence;
    gates.advance(1)?;
    equal("the last task's end", node.end(last)?, 0)?;
    sync_wait(node.fd(), after, 10, now_ns() + SECOND)?;
    // A handle is its client's only.
    refused("another client's object", sync_wait(other.fd(), theirs + 7, 10, 0), Errno::ENOENT)
}

fn binary() -> Result<(), Failed> {
    let node = first()?;
    let test_task = TestTask::copies(&node, 1)?;
    let sync = [Sync { handle: sync_object(node.fd())?, ..Sync::default() }];
    for _ in 0..3 {
        test_task.submit(&node, Options { out_syncs: &sync, ..Options::default() })?;
        let sequence = test_task.submit(&node, Options { in_syncs: &sync, ..Options::default() })?.sequence;
        equal("the second task's end", node.end(sequence)?, 0)?;
        sync_wait(node.fd(), sync[0].handle, 0, now_ns())?;
    }
    Ok(())
}

fn wrong() -> Result<(), Failed> {
    let node = first()?;
    let test_task = TestTask::copies(&node, 1)?;
    let handle = sync_object(node.fd())?;
    let submit = |options| test_task.submit(&node, options).map(|task| task.sequence);
    let of = |handle, flags, point| [Sync { handle, flags, point }];
    let list = of(999, 0, 0);
    refused("no object", submit(Options { in_syncs: &list, ..Options::default() }), Errno::ENOENT)?;
    refused("no object", submit(Options { out_syncs: &list, ..Options::default() }), Errno::ENOENT)?;
    let list = of(handle, 0, 0);
    refused("an object without a fence", submit(Options { in_syncs: &list, ..Options::default() }), Errno::EINVAL)?;
    let list = of(handle, 1, 0);
    refused("flags", submit(Options { out_syncs: &list, ..Options::default() }), Errno::EINVAL)?;
    let many = vec![Sync { handle, ..Sync::default() }; 65];
    refused("many objects", submit(Options { out_syncs: &many, ..Options::default() }), Errno::EINVAL)?;
    let (mut addresses, flags) = (test_task.addresses.clone(), 4);
    addresses[0].flags = flags;
    refused("an unknown flag", node.submit(&[&addresses], Options::default()).map(|_| ()), Errno::EINVAL)?;
    works(&node)
}

/// A task that also names the dma-buf, with flags.
fn with(node: &Node, buffer: i32, flags: u32) -> Result<TestTask, Failed> {
    let mut test_task = TestTask::copies(node, 1)?;
    test_task.addresses.push(Address { handle: node.import(buffer)?, flags, offset: 0 });
    Ok(test_task)
}

fn implicit_in() -> Result<(), Failed> {
    let node = first()?;
    // Who writes is waited for by all; who reads, by those who write.
    for (writes, flags, waits) in [
        (true, ADDRESS_READ, true),
        (true, ADDRESS_WRITE, true),
        (false, ADDRESS_READ, false),
        (false, ADDRESS_WRITE, true),
        (true, 0, false),
    ] {
        let buffer = heap("system", 4096)?;
        let gates = Timeline::new()?;
        attach_fence(buffer.as_raw_fd(), gates.fence(1)?.as_raw_fd(), writes)?;
        let test_task = with(&node, buffer.as_raw_fd(), flags)?;
        let sequence = test_task.submit(&node, Options::default())?.sequence;
        if waits {
            refused("the wait", node.wait_until(sequence, now_ns() + SECOND / 5), Errno::ETIMEDOUT)?;
            gates.advance(1)?;
        }
        equal("the task's end", node.end(sequence)?, 0)?;
    }
    Ok(())
}

fn implicit_out() -> Result<(), Failed> {
    let node = first()?;
    for (flags, readers_wait) in [(ADDRESS_READ, false), (ADDRESS_WRITE, true)] {
        let buffer = heap("system", 4096)?;
        let test_task = with(&node, buffer.as_raw_fd(), flags)?;
        let gates = Timeline::new()?;
        let gate = gates.fence(1)?;
        let options = Options { in_fences: &[gate.as_raw_fd()], ..Options::default() };
        let sequence = test_task.submit(&node, options)?.sequence;
        let (reader, writer) = (detach_fence(buffer.as_raw_fd(), false)?, detach_fence(buffer.as_raw_fd(), true)?);
        equal("a reader's fence", fence::status(&reader, 100)?, i32::from(!readers_wait))?;
        equal("a writer's fence", fence::status(&writer, 100)?, 0)?;
        gates.advance(1)?;
        equal("the task's end", node.end(sequence)?, 0)?;
        equal("a reader's fence", fence::end(&reader)?, 1)?;
        equal("a writer's fence", fence::end(&writer)?, 1)?;
        // The same buffer twice, and tasks one after another.
        let mut twice = with(&node, buffer.as_raw_fd(), flags)?;
        twice.addresses.extend(test_task.addresses.last().copied());
        let mut last = 0;
        for _ in 0..20 {
            last = twice.submit(&node, Options::default())?.sequence;
        }
        equal("the last task's end", node.end(last)?, 0)?;
    }
    Ok(())
}

fn processor() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    let last = test_task.addresses.len() - 1;
    test_task.addresses[last].flags = ADDRESS_WRITE;
    let handle = test_task.addresses[last].handle;
    node.access(handle, ACCESS_WRITE, 0)?;
    test_task.fill(9);
    node.access(handle, ACCESS_WRITE | ACCESS_END, 0)?;
    let gates = Timeline::new()?;
    let gate = gates.fence(1)?;
    test_task.submit(&node, Options { in_fences: &[gate.as_raw_fd()], ..Options::default() })?;
    refused("a read while the task waits", node.access(handle, ACCESS_READ, now_ns() + SECOND / 10), Errno::ETIMEDOUT)?;
    refused("the same at once", node.access(handle, ACCESS_READ, 0), Errno::ETIMEDOUT)?;
    gates.advance(1)?;
    node.access(handle, ACCESS_READ, now_ns() + 20 * SECOND)?;
    test_task.check(9)?;
    node.access(handle, ACCESS_READ | ACCESS_END, 0)?;
    for flags in [0, ACCESS_END, 8, ACCESS_READ | 16] {
        refused("flags", node.access(handle, flags, 0), Errno::EINVAL)?;
    }
    refused("no buffer", node.access(999, ACCESS_READ, 0), Errno::ENOENT)?;
    // A buffer of another driver.
    let buffer = heap("system", 4096)?;
    let handle = node.import(buffer.as_raw_fd())?;
    node.access(handle, ACCESS_READ | ACCESS_WRITE, now_ns())?;
    Ok(node.access(handle, ACCESS_READ | ACCESS_WRITE | ACCESS_END, 0)?)
}

fn growth() -> Result<(), Failed> {
    /// An element that a later header may have.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Longer<T> {
        known: T,
        more: [u64; 5],
    }
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(3);
    let size = |size: usize| size as u32;
    for more in [0, 1] {
        let addresses: Vec<_> =
            test_task.addresses.iter().map(|&known| Longer { known, more: [0, 0, 0, 0, more] }).collect();
        let task = Task {
            addresses: addresses.as_ptr() as u64,
            address_size: size(size_of::<Longer<Address>>()),
            ..record(&test_task.addresses)
        };
        let tasks = [Longer { known: task, more: [0; 5] }];
        let known = Submit {
            tasks: tasks.as_ptr() as u64,
            num_tasks: 1,
            task_size: size(size_of::<Longer<Task>>()),
            out_fence: -1,
            ..Submit::default()
        };
        let mut submit = Longer { known, more: [0; 5] };
        let number = read_write(b'd', 0x45, size_of_val(&submit));
        let result = call(node.fd(), number, &mut submit).map(drop);
        if more == 0 {
            result?;
            equal("the task's end", node.end(submit.known.sequence)?, 0)?;
            equal("a fence that was not asked for", submit.known.out_fence, -1)?;
            test_task.check(3)?;
        } else {
            refused("an element with something unknown", result, Errno::E2BIG)?;
        }
    }
    // The structure as it was before its last fields.
    let task = [record(&test_task.addresses)];
    let mut submit =
        Submit { tasks: task.as_ptr() as u64, num_tasks: 1, task_size: size(size_of::<Task>()), ..Submit::default() };
    call(node.fd(), read_write(b'd', 0x45, 56), &mut submit)?;
    equal("the task's end", node.end(submit.sequence)?, 0)?;
    for task_size in [0, 23, 4097] {
        let mut submit = Submit { task_size, sequence: 0, out_fence: 0, ..submit };
        let result = call(node.fd(), SUBMIT, &mut submit).map(drop);
        refused("an element's size", result, if task_size > 4096 { Errno::E2BIG } else { Errno::EINVAL })?;
    }
    Ok(())
}

fn refusal() -> Result<(), Failed> {
    let node = first()?;
    let tracing = tracing().ok_or("the kernel has no trace events")?;
    let good = TestTask::copies(&node, 2)?;
    let bad = TestTask::copies(&node, 2)?;
    // The second operation's bytes, behind the first one's.
    let mut buffers: Vec<_> = bad.buffers.iter().map(|buffer| buffer.handle).collect();
    buffers.dedup();
    let mut addresses = bad.addresses.clone();
    // A surface's buffer ends too early.
    let last = addresses.len() - 1;
    addresses[last].offset = bad.buffers[last].map.len() as u64;
    let tasks = [record(&good.addresses), record(&addresses)];
    let mut submit =
        Submit { tasks: tasks.as_ptr() as u64, num_tasks: 2, task_size: size_of::<Task>() as u32, ..Submit::default() };
    fs::write(tracing.join("trace"), "")?;
    fs::write(tracing.join("events/nvdla/nvdla_refused/enable"), "1")?;
    let result = call(node.fd(), SUBMIT, &mut submit).map(drop);
    fs::write(tracing.join("events/nvdla/nvdla_refused/enable"), "0")?;
    refused("the submission", result, Errno::EINVAL)?;
    ensure!(submit.refused_reason != 0, "the answer has no reason");
    equal("the task", submit.refused_task, 1)?;
    equal("the operation", submit.refused_operation, 0)?;
    let text = fs::read_to_string(tracing.join("trace"))?;
    let line = text.lines().find(|line| line.contains("nvdla_refused:")).ok_or("the trace has no event")?;
    println!("reason {}: {line}", submit.refused_reason);
    ensure!(line.contains("task 1 of the submission: operation 0 (SDP)"), "the event is: {line}");
    Ok(())
}

fn no_handles() -> Result<(), Failed> {
    let node = first()?;
    let test_task = TestTask::copies(&node, 1)?;
    let (mut list, _fds) = test_task.exported(&node)?;
    let foreign = heap("system", 4096)?;
    list.push(MemHandle { handle: foreign.as_raw_fd() as u32, reserved: 0, offset: 0 });
    let before = node.create(4096)?;
    for _ in 0..50 {
        node.submit_first(&list, 0)?;
    }
    let after = node.create(4096)?;
    equal("new handles beside the buffer's own", after - before - 1, 0)
}
