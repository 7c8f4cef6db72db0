// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several clients: each gets its own results and its share of the device, and one that ends does not affect others.

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nix::errno::Errno;
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::fence::{self, Timeline};
use nvdla_guest::node::{Node, Options};
use nvdla_guest::system::{allow_files, counts_instructions, has_kmemleak, meminfo, Group};
use nvdla_guest::test_task::TestTask;
use nvdla_uapi::queue::Address;

use crate::child::{start, wait_ready};
use crate::expect::{ensure, equal, first, met, refused, second, within, Test};
use crate::removal::insert;

pub(crate) const TESTS: &[Test] = &[
    ("each_of_many_clients_gets_its_own_answer", own_answers),
    ("two_devices_work_at_once", devices_at_once),
    ("the_device_is_shared_fairly", fair),
    ("urgent_tasks_run_before_those_of_others", urgent),
    ("urgent_tasks_need_a_capability", not_urgent),
    ("many_open_files_cost_others_nothing", many_files),
    ("many_clients_that_wait_for_a_fence_cost_others_nothing", many_waiting),
    ("a_client_whose_tasks_hang_loses_turns", lost_turns),
    ("a_client_whose_tasks_hang_is_refused_at_last", hanging),
    ("closing_a_file_cancels_what_it_queued", closing),
    ("closing_a_file_ends_what_it_runs", closing_running),
    ("kill_9_in_the_middle_of_a_task", killed),
    ("kill_9_with_tasks_queued", killed_queue),
    ("kill_9_while_an_operation_hangs", killed_hanging),
    ("a_client_in_a_small_control_group_costs_others_nothing", small_group),
];

/// Runs `rounds` tasks on a separate client and checks each.
fn run_tasks(node: &Node, seed: u8, rounds: u8) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let node = Node::open(node.path()).map_err(|error| failed(&error))?;
    let mut test_task = TestTask::copies(&node, 1 + usize::from(seed) % 3).map_err(|error| failed(&error))?;
    for round in 0..rounds {
        let pattern = seed.wrapping_mul(17).wrapping_add(round);
        test_task.fill(pattern);
        match test_task.run(&node) {
            Ok(0) => test_task.check(pattern)?,
            other => return Err(format!("client {seed}, round {round}: {other:?}")),
        }
    }
    Ok(())
}

fn own_answers() -> Result<(), Failed> {
    let node = first()?;
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|seed| {
                scope.spawn({
                    let node = &node;
                    move || run_tasks(node, seed, 25)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    Ok(results.into_iter().collect::<Result<(), String>>()?)
}

fn devices_at_once() -> Result<(), Failed> {
    let nodes = [first()?, second()?];
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = nodes
            .iter()
            .flat_map(|node| (0..2).map(move |seed| (node, seed)))
            .map(|(node, seed)| scope.spawn(move || run_tasks(node, seed, 25)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    Ok(results.into_iter().collect::<Result<(), String>>()?)
}

/// Waits for the fences of clients, and returns the clients in the order in which their tasks ended.
fn in_order(fences: &[(usize, OwnedFd)]) -> Result<Vec<usize>, Failed> {
    let mut order = Vec::new();
    for (client, fence) in fences {
        equal("a fence", fence::end(fence)?, 1)?;
        order.push((fence::info(fence.as_raw_fd())?.timestamp_ns, *client));
    }
    order.sort_unstable();
    Ok(order.into_iter().map(|(_, client)| client).collect())
}

/// Two clients queue the same number of tasks, one after the other. The device must then alternate between them.
fn fair() -> Result<(), Failed> {
    const TASKS_PER_CLIENT: usize = 40;
    /// The duration of a task in microseconds.
    const DELAY: u32 = 3000;
    let nodes = [first()?, first()?];
    let control = Control::open(&nodes[0].device()?)?;
    let test_tasks = [TestTask::copies(&nodes[0], 1)?, TestTask::copies(&nodes[1], 1)?];
    control.set(Knob::Delay, DELAY);
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let mut fences = Vec::new();
    for client in 0..2 {
        for _ in 0..TASKS_PER_CLIENT {
            let options = Options { in_fences: &[gate.as_raw_fd()], out_fence: true, ..Options::default() };
            let fence = test_tasks[client].submit(&nodes[client], options)?.fence.ok_or("no fence")?;
            fences.push((client, fence));
        }
    }
    let start = Instant::now();
    timeline.advance(1)?;
    let clients = in_order(&fences)?;
    let changes = clients.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let busy = [nodes[0].usage("drm-engine-dla")?, nodes[1].usage("drm-engine-dla")?];
    println!(
        "fairness: {changes} changes of client in {} tasks; {} and {} us of the device",
        2 * TASKS_PER_CLIENT,
        busy[0] / 1000,
        busy[1] / 1000
    );
    equal("changes of client", changes, 2 * TASKS_PER_CLIENT - 1)?;
    // Each client is charged the time of its own tasks, and no two tasks ran at the same time.
    let least = (TASKS_PER_CLIENT * DELAY as usize) as u64 * 1000;
    ensure!(busy.iter().all(|&time| time >= least), "the device worked {busy:?} ns for them, not {least} each");
    let passed = start.elapsed().as_nanos() as u64;
    ensure!(busy[0] + busy[1] <= passed, "the device worked {busy:?} ns for them in {passed}");
    Ok(())
}

/// Two clients have tasks, and the last tasks of one of them hung. It loses a turn for each.
fn lost_turns() -> Result<(), Failed> {
    const HANGS: usize = 3;
    let nodes = [first()?, first()?];
    let control = Control::open(&nodes[0].device()?)?;
    let test_tasks = [TestTask::copies(&nodes[0], 1)?, TestTask::copies(&nodes[1], 1)?];
    for _ in 0..HANGS {
        met(&control, (Knob::Hang, 1), 300, |milliseconds| {
            let sequence = test_tasks[0].submit(&nodes[0], within(milliseconds))?.sequence;
            equal("the end of a task that hangs", nodes[0].wait(sequence, 60)?, -libc::ETIMEDOUT)
        })?;
    }
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let mut fences = Vec::new();
    for client in [0, 1, 1, 1, 1, 1, 1] {
        let options = Options { in_fences: &[gate.as_raw_fd()], out_fence: true, ..Options::default() };
        let fence = test_tasks[client].submit(&nodes[client], options)?.fence.ok_or("no fence")?;
        fences.push((client, fence));
    }
    timeline.advance(1)?;
    let clients = in_order(&fences)?;
    let turn = clients.iter().position(|&client| client == 0).unwrap_or_default();
    // The other client may have the first turn anyway.
    ensure!(turn == HANGS || turn == HANGS + 1, "the tasks ended in the order {clients:?}");
    Ok(())
}

/// Two clients have tasks when a third one submits urgent ones. At most the running task ends before them.
fn urgent() -> Result<(), Failed> {
    let nodes = [first()?, first()?, first()?];
    let control = Control::open(&nodes[0].device()?)?;
    let test_tasks = nodes.iter().map(|node| TestTask::copies(node, 1)).collect::<Result<Vec<_>, _>>()?;
    control.set(Knob::Delay, 50_000);
    let mut fences = Vec::new();
    for (client, count) in [(0, 5), (1, 5), (2, 3)] {
        for _ in 0..count {
            let options = Options { out_fence: true, urgent: client == 2, ..Options::default() };
            let fence = test_tasks[client].submit(&nodes[client], options)?.fence.ok_or("no fence")?;
            fences.push((client, fence));
        }
    }
    let clients = in_order(&fences)?;
    // The submissions themselves may take as long as a task or two.
    let from = clients.iter().position(|&client| client == 2).unwrap_or_default();
    ensure!(from < 5, "the urgent tasks did not run before those of others: {clients:?}");
    equal("urgent tasks one after another", &clients[from..from + 3], &[2, 2, 2])?;
    // The others take turns as before.
    let rest: Vec<_> = clients.into_iter().filter(|&client| client != 2).collect();
    let changes = rest.windows(2).filter(|pair| pair[0] != pair[1]).count();
    ensure!(changes >= 7, "the others did not take turns: {rest:?}");
    Ok(())
}

/// A thread that is not root any more, with the file of one that is.
fn not_urgent() -> Result<(), Failed> {
    let node = first()?;
    let test_task = TestTask::copies(&node, 1)?;
    let result = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // The system call changes this thread only; the C library's function would change all.
            // SAFETY: No pointers.
            Errno::result(unsafe { libc::syscall(libc::SYS_setresuid, -1i64, 65534i64, -1i64) })?;
            let normal = test_task.submit(&node, Options::default()).map(|task| task.sequence);
            let urgent = test_task.submit(&node, Options { urgent: true, ..Options::default() });
            Ok::<_, Errno>((normal, urgent.map(|task| task.sequence)))
        });
        thread.join().map_err(|_| "the thread panicked")
    })??;
    equal("a task that is not urgent", result.0, Ok(1))?;
    refused("an urgent task", result.1, Errno::EACCES)?;
    equal("the task's end", node.end(1)?, 0)
}

/// The time of a client that opens the node, runs a task and closes the node: the shortest of many, because the load of the
/// machine adds to the others.
fn visit(node: &Node) -> Result<Duration, Failed> {
    let mut shortest = Duration::MAX;
    for _ in 0..40 {
        let start = Instant::now();
        let node = Node::open(node.path())?;
        equal("a visitor's task", TestTask::copies(&node, 1)?.run(&node)?, 0)?;
        drop(node);
        shortest = shortest.min(start.elapsed());
    }
    Ok(shortest)
}

/// Compares a visit with one without the others. Where the clock counts instructions, a visit must take less than four times as many.
/// Elsewhere the times depend on the load of the machine and are only shown.
fn unhindered(what: &str, node: &Node, alone: Duration) -> Result<(), Failed> {
    let among = visit(node)?;
    println!("a visit among {what}: {} us, alone {} us", among.as_micros(), alone.as_micros());
    ensure!(among < 4 * alone || !counts_instructions(), "a visit takes {among:?} among {what}, and {alone:?} alone");
    Ok(())
}

/// A program opens more files than any list in one piece of kernel memory can count: 4 MiB are the most.
fn many_files() -> Result<(), Failed> {
    let files = if has_kmemleak() { 2000 } else { 33_000 };
    let node = first()?;
    let alone = visit(&node)?;
    allow_files(files + 1000)?;
    let open = |number| std::fs::File::open(node.path()).map_err(|error| format!("file {number} of {files}: {error}"));
    let others = (0..files).map(open).collect::<Result<Vec<_>, _>>()?;
    unhindered(&format!("{files} open files"), &node, alone)?;
    drop(others);
    Ok(())
}

/// Many clients queue a task that waits for a fence. The search for the next task must not look at each of them.
fn many_waiting() -> Result<(), Failed> {
    let clients = if has_kmemleak() { 100 } else { 2000 };
    let node = first()?;
    let alone = visit(&node)?;
    allow_files(clients + 1000)?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let test_task = TestTask::copies(&node, 1)?;
    let shared = test_task.exported(&node)?.1;
    let mut others = Vec::new();
    for _ in 0..clients {
        let other = Node::open(node.path())?;
        let addresses =
            shared.iter().map(|fd| Ok(Address { handle: other.import(fd.as_raw_fd())?, flags: 0, offset: 0 }));
        let addresses = addresses.collect::<nvdla_guest::drm::Result<Vec<_>>>()?;
        let options = Options { in_fences: &[gate.as_raw_fd()], ..Options::default() };
        let sequence = other.submit(&[&addresses], options)?.sequence;
        others.push((other, sequence));
    }
    unhindered(&format!("{clients} clients that wait for a fence"), &node, alone)?;
    timeline.advance(1)?;
    for (other, sequence) in &others {
        equal("the end of a task that has waited", other.end(*sequence)?, 0)?;
    }
    Ok(())
}

fn closing() -> Result<(), Failed> {
    let node = first()?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let test_task = TestTask::copies(&node, 1)?;
    let options = Options { in_fences: &[gate.as_raw_fd()], out_fence: true, ..Options::default() };
    let mut fences = Vec::new();
    for _ in 0..10 {
        fences.push(test_task.submit(&node, options)?.fence.ok_or("no fence")?);
    }
    drop((test_task, node));
    for fence in &fences {
        equal("a cancelled task's fence", fence::end(fence)?, -libc::ECANCELED)?;
    }
    timeline.advance(1)?;
    let node = first()?;
    equal("the next client's task", TestTask::copies(&node, 1)?.run(&node)?, 0)
}

fn closing_running() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    control.set(Knob::Delay, 200_000);
    let (resets, starts) = (control.counts().resets, control.counts().starts);
    let options = Options { out_fence: true, ..Options::default() };
    let fences = [
        test_task.submit(&node, options)?.fence.ok_or("no fence")?,
        test_task.submit(&node, options)?.fence.ok_or("no fence")?,
    ];
    control.until_started(starts)?;
    drop((test_task, node));
    // A task without a fault may end normally, because ending it early would cost all clients a reset.
    equal("the running task's fence", fence::end(&fences[0])?, 1)?;
    equal("the queued task's fence", fence::end(&fences[1])?, -libc::ECANCELED)?;
    equal("resets", control.counts().resets - resets, 0)?;
    control.set(Knob::Delay, 0);
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 2)?;
    test_task.fill(1);
    equal("the next client's task", test_task.run(&node)?, 0)?;
    Ok(test_task.check(1)?)
}

/// Starts a child in a role, kills it during a call, and checks that another client's task runs.
///
/// That the child's tasks are cancelled, and not waited for, is seen by what the device starts afterwards, and by why its last task was
/// ended.
fn kill(part: &str, arrange: impl FnOnce(&Control)) -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    arrange(&control);
    let starts = control.counts().starts;
    let mut child = start(part, &node, Stdio::null())?;
    wait_ready(&mut child)?;
    control.until_started(starts)?;
    std::thread::sleep(Duration::from_millis(30));
    ensure!(child.try_wait()?.is_none(), "the program ended by itself");
    child.kill()?;
    child.wait()?;
    // The program's file is closed by now.
    let at_death = control.counts().starts;
    control.set(Knob::Delay, 0);
    let mut test_task = TestTask::copies(&node, 2)?;
    test_task.fill(77);
    let sequence = test_task.submit(&node, Options { deadline_ns: u64::MAX, ..Options::default() })?.sequence;
    equal("another client's task", node.end(sequence)?, 0)?;
    // One task of the program may have been next already.
    let more = control.counts().starts - at_death;
    ensure!(more <= 3, "{more} operations were started after the program's end instead of 2");
    let state = node.state()?;
    ensure!(
        !state.contains("last failure: the deadline passed"),
        "the program's task ran until its deadline:\n{state}"
    );
    Ok(test_task.check(77)?)
}

fn killed() -> Result<(), Failed> {
    kill("first", |control| control.set(Knob::Delay, 1_000_000))
}

fn killed_queue() -> Result<(), Failed> {
    kill("queue", |control| control.set(Knob::Delay, 100_000))
}

fn killed_hanging() -> Result<(), Failed> {
    kill("first", |control| control.set(Knob::Hang, 1))
}

/// A program with a small memory limit queues as many tasks as it can. Their memory must count against its own limit.
fn small_group() -> Result<(), Failed> {
    const LIMIT: u64 = 64 << 20;
    /// The memory that may change for other reasons, and that all programs share.
    const TOLERANCE: u64 = 24 << 20;
    let node = first()?;
    let group = Group::with_memory("small", LIMIT)?;
    let before = meminfo("MemAvailable")? << 10;
    let mut child = start("hoard", &node, Stdio::piped())?;
    group.add(child.id())?;
    // The child continues once it is in the group.
    drop(child.stdin.take());
    let mut output = child.stdout.take().ok_or("no output")?;
    // The kernel may also end the child because of its memory limit.
    let reader = std::thread::spawn(move || output.read_exact(&mut [0; 6]).is_ok());
    let (mut taken, mut most) = (0, 0);
    while !reader.is_finished() {
        taken = before.saturating_sub(meminfo("MemAvailable")? << 10).max(taken);
        most = group.used()?.max(most);
        std::thread::sleep(Duration::from_millis(5));
    }
    let held = reader.join().map_err(|_| "the reader panicked")?;
    println!("it took {} kB, its group had {} kB; it was refused more: {held}", taken >> 10, most >> 10);
    equal("another client's task", TestTask::copies(&node, 2)?.run(&node)?, 0)?;
    child.kill()?;
    child.wait()?;
    ensure!(most > LIMIT / 4, "its group had no more than {} kB: what it queued was not counted", most >> 10);
    ensure!(taken < LIMIT + TOLERANCE, "it made the kernel hold {} kB", taken >> 10);
    Ok(())
}

/// A client whose tasks hang, beside one whose tasks end well.
fn hanging() -> Result<(), Failed> {
    const HANGS: u64 = 4;
    insert(&format!("max_hangs={HANGS} timeout_ms=100"))?;
    let result = (|| {
        let node = first()?;
        let control = Control::open(&node.device()?)?;
        let test_task = TestTask::copies(&node, 1)?;
        for _ in 0..HANGS {
            control.set(Knob::Hang, 1);
            equal("the end of a task that hangs", test_task.run(&node)?, -libc::ETIMEDOUT)?;
        }
        refused(
            "the next task",
            test_task.submit(&node, Options::default()).map(|task| task.sequence),
            Errno::ECANCELED,
        )?;
        // Another client is not concerned. Its task that ends well begins the count anew.
        let other = Node::open(node.path())?;
        let theirs = TestTask::copies(&other, 1)?;
        for _ in 0..3 {
            for _ in 1..HANGS {
                control.set(Knob::Hang, 1);
                equal("the end of a task that hangs", theirs.run(&other)?, -libc::ETIMEDOUT)?;
            }
            equal("the end of a task", theirs.run(&other)?, 0)?;
        }
        Ok(())
    })();
    insert("")?;
    result
}
