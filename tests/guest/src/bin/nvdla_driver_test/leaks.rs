// SPDX-License-Identifier: MIT OR Apache-2.0

//! No leaks: the kernel's memory before and after.

use std::fs;
use std::time::Instant;

use libtest_mimic::Failed;
use nvdla_guest::node::{Node, Options};
use nvdla_guest::system::{has_kmemleak, leaks, meminfo, slabs};
use nvdla_guest::test_task::TestTask;
use std::os::fd::AsRawFd;

use crate::expect::{ensure, equal, first, second, Test};

pub(crate) const TESTS: &[Test] = &[
    ("a_thousand_submissions", submissions),
    ("a_thousand_of_nvidias_submissions", submissions_first),
    ("a_thousand_buffers", buffers),
    ("a_thousand_clients", clients),
    ("a_thousand_imports", imports),
    ("a_thousand_refusals", refusals),
];

/// How often each action is repeated.
const TIMES: usize = 1000;
/// The same on a kernel with kmemleak, which reports every leaked object. There a contiguous buffer took 0.8 s, in a virtual
/// machine without hardware acceleration, and a submission 0.3 s.
const TIMES_WITH_KMEMLEAK: usize = 100;
/// kB by which slabs may grow, because caches of the kernel (dentries of descriptors, files) vary.
const SLAB_TOLERANCE: u64 = 400;

/// Does an action once to warm up, then repeats it, and compares the kernel's memory before and after.
fn repeat(what: &str, mut once: impl FnMut() -> Result<(), Failed>) -> Result<(), Failed> {
    for _ in 0..50 {
        once()?;
    }
    let figures = || -> Result<_, Failed> {
        settle();
        Ok((meminfo("Slab")?, meminfo("CmaFree")?, slabs()?))
    };
    let before = figures()?;
    let times = if has_kmemleak() { TIMES_WITH_KMEMLEAK } else { TIMES };
    let began = Instant::now();
    for _ in 0..times {
        once()?;
    }
    let each = began.elapsed() / times as u32;
    let after = figures()?;
    println!(
        "{times} {what}, {each:.1?} each: slab {} kB and then {}, CMA free {} kB and then {}",
        before.0, after.0, before.1, after.1
    );
    ensure!(after.1 + 64 >= before.1, "CMA had {} kB free and has {}", before.1, after.1);
    if has_kmemleak() {
        // That kernel's checks delay frees and keep their own records. kmemleak reports leaks itself.
        return Ok(());
    }
    // One object per repetition, in any cache, is a leak.
    for (name, count) in &after.2 {
        let earlier = before.2.iter().find(|(other, _)| other == name).map_or(0, |(_, count)| *count);
        ensure!(
            count.saturating_sub(earlier) < TIMES as u64 * 9 / 10,
            "the cache {name} had {earlier} objects and has {count}"
        );
    }
    ensure!(after.0 <= before.0 + SLAB_TOLERANCE, "slabs had {} kB and have {}", before.0, after.0);
    Ok(())
}

/// Waits for deferred frees and empties caches.
fn settle() {
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    std::thread::sleep(std::time::Duration::from_millis(300));
}

fn submissions() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    let mut seed = 0;
    repeat("submissions", || {
        seed = (seed + 1) % 100;
        test_task.fill(seed);
        let submitted = test_task.submit(&node, Options { out_fence: true, ..Options::default() })?;
        equal("a task's end", node.end(submitted.sequence)?, 0)?;
        Ok(test_task.check(seed)?)
    })
}

fn submissions_first() -> Result<(), Failed> {
    let node = first()?;
    let test_task = TestTask::copies(&node, 1)?;
    let (list, _fds) = test_task.exported(&node)?;
    repeat("NVIDIA's submissions", || Ok(node.submit_first(&list, 0)?))
}

fn buffers() -> Result<(), Failed> {
    let node = first()?;
    repeat("buffers", || {
        let mut buffer = node.buffer(1 << 16)?;
        buffer.map[0] = 1;
        let fd = node.export(buffer.handle)?;
        drop(fd);
        Ok(node.destroy(buffer.handle)?)
    })
}

fn clients() -> Result<(), Failed> {
    let path = first()?.path().to_owned();
    repeat("clients", || {
        let node = Node::open(&path)?;
        // Its handles are closed with it.
        node.create(8192)?;
        Ok(())
    })
}

fn imports() -> Result<(), Failed> {
    let (node, owner) = (first()?, second()?);
    let fd = owner.export(owner.create(1 << 16)?)?;
    repeat("imports", || {
        let handle = node.import(fd.as_raw_fd())?;
        Ok(node.destroy(handle)?)
    })
}

fn refusals() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    // The addresses are valid, but the descriptors are not.
    test_task.buffers[0].map.fill(0xee);
    repeat("refusals", || {
        ensure!(test_task.submit(&node, Options { out_fence: true, ..Options::default() }).is_err(), "it was taken");
        Ok(())
    })
}

/// On a kernel with kmemleak: checks that it has found nothing.
pub(crate) fn no_leak() -> Result<(), Failed> {
    match leaks()? {
        None => println!("this kernel has no kmemleak"),
        Some(found) if found.trim().is_empty() => println!("kmemleak found nothing"),
        Some(found) => return Err(format!("kmemleak:\n{found}").into()),
    }
    Ok(())
}
