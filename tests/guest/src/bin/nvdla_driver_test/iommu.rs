// SPDX-License-Identifier: MIT OR Apache-2.0

//! Behind an IOMMU the device can access its buffers, at any physical pages, and nothing else. While a client's task runs, it can
//! access that client's buffers only.

use std::os::fd::AsRawFd;
use std::time::Duration;

use libtest_mimic::Failed;
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::node::{Node, Options};
use nvdla_guest::system::{bind, is_translated, meminfo, node_of, unbind};
use nvdla_guest::test_task::TestTask;

use crate::edges::die;
use crate::expect::{ensure, equal, first, second, works, Test};
use crate::removal::insert;

const TESTS: &[Test] = &[
    ("the_device_reaches_its_buffers_and_nothing_else", reach),
    ("a_buffer_of_another_device_is_reached_while_it_is_imported", imported),
    ("a_task_reaches_its_clients_buffers_and_no_others", apart),
    ("a_shared_buffer_is_reached_by_both_clients", shared),
    ("a_task_reaches_buffers_whose_handles_are_closed", closed),
    ("clients_that_take_turns_get_their_own_results", turns),
    ("without_domains_of_their_own_a_task_reaches_all_clients_buffers", together),
    ("addresses_that_a_dead_device_may_write_are_not_given_to_others", lost),
];

/// The tests, if there is an IOMMU.
pub(crate) fn tests() -> Vec<Test> {
    let device = first().and_then(|node| Ok(node.device()?));
    if device.is_ok_and(|device| is_translated(&device)) {
        TESTS.to_vec()
    } else {
        Vec::new()
    }
}

/// KiB that the device can access when no client has buffers.
fn at_rest(node: &Node, control: &Control) -> Result<u32, Failed> {
    ensure!(node.usage("drm-engine-dla").is_ok(), "the node says nothing of its client");
    // The last client's buffers are freed shortly after its file is closed.
    settle();
    Ok(control.mapped_kib())
}

/// What a client has released is freed shortly after.
fn settle() {
    std::thread::sleep(Duration::from_millis(100));
}

fn reach() -> Result<(), Failed> {
    for node in [first()?, second()?] {
        let control = Control::open(&node.device()?)?;
        let before = at_rest(&node, &control)?;
        equal("KiB that a device without buffers reaches", before, 0)?;
        let (mut sizes, mut handles) = (0, Vec::new());
        for size in [4 << 10, 1 << 20, 5 << 20] {
            let mut buffer = node.buffer(size)?;
            sizes += (size >> 10) as u32;
            equal("KiB that it reaches", control.mapped_kib(), sizes)?;
            // The address is one of the IOMMU, which translates it to the page.
            println!("{} KiB at {:#x}", size >> 10, control.address(&mut buffer.map)?);
            handles.push(buffer.handle);
        }
        ensure!(u64::from(sizes) < meminfo("MemTotal")? / 16, "that is a good part of all memory");
        equal("a task's end", TestTask::copies(&node, 2)?.run(&node)?, 0)?;
        drop(node);
        settle();
        equal("KiB that it reaches after it", control.mapped_kib(), 0)?;
    }
    Ok(())
}

fn imported() -> Result<(), Failed> {
    let (node, owner) = (first()?, second()?);
    let control = Control::open(&node.device()?)?;
    let before = at_rest(&node, &control)?;
    let fd = owner.export(owner.create(1 << 20)?)?;
    equal("KiB that it reaches before the import", control.mapped_kib(), before)?;
    let handle = node.import(fd.as_raw_fd())?;
    equal("KiB that it reaches", control.mapped_kib(), before + 1024)?;
    node.destroy(handle)?;
    settle();
    equal("KiB that it reaches after it", control.mapped_kib(), before)
}

/// A client with some memory besides its task's, and the KiB of all its buffers.
struct Tenant {
    node: Node,
    test_task: TestTask,
    kib: u32,
}

impl Tenant {
    /// Opens the first device again, and measures the buffers while the device reaches those of all clients.
    fn new(control: &Control, bytes: usize) -> Result<Self, Failed> {
        let before = control.mapped_kib();
        let node = first()?;
        node.create(bytes as u64)?;
        let test_task = TestTask::copies(&node, 2)?;
        let kib = control.mapped_kib() - before;
        ensure!(kib as usize > bytes >> 10, "{kib} KiB are less than the buffers have");
        Ok(Self { node, test_task, kib })
    }

    /// Runs its task, after which its domain stays attached, and checks the result.
    fn run(&mut self, seed: u8) -> Result<(), Failed> {
        self.test_task.fill(seed);
        equal("the task's end", self.test_task.run(&self.node)?, 0)?;
        Ok(self.test_task.check(seed)?)
    }
}

fn apart() -> Result<(), Failed> {
    let control = Control::open(&first()?.device()?)?;
    settle();
    let before = control.mapped_kib();
    let mut one = Tenant::new(&control, 1 << 20)?;
    let mut two = Tenant::new(&control, 2 << 20)?;
    for seed in 0..3 {
        one.run(seed)?;
        equal("KiB that the first client's task reaches", control.mapped_kib(), one.kib)?;
        let other = control.address(two.test_task.data());
        ensure!(other.is_err(), "the first client's task reaches a buffer of the second at {other:?}");
        control.address(one.test_task.data())?;
        two.run(seed)?;
        equal("KiB that the second client's task reaches", control.mapped_kib(), two.kib)?;
    }
    // A new buffer of a client whose domain is attached, and of one whose domain is not.
    let handle = two.node.create(1 << 20)?;
    one.node.create(4 << 20)?;
    equal("KiB that it reaches with one buffer more", control.mapped_kib(), two.kib + 1024)?;
    two.node.destroy(handle)?;
    settle();
    equal("KiB that it reaches without it", control.mapped_kib(), two.kib)?;
    drop(two);
    settle();
    equal("KiB of the other client", control.mapped_kib(), before + one.kib + 4096)
}

fn shared() -> Result<(), Failed> {
    let control = Control::open(&first()?.device()?)?;
    settle();
    let mut one = Tenant::new(&control, 1 << 20)?;
    let mut two = Tenant::new(&control, 1 << 20)?;
    let fd = one.node.export(one.node.create(2 << 20)?)?;
    let handle = two.node.import(fd.as_raw_fd())?;
    for (tenant, kib) in [(&mut one, 2048), (&mut two, 2048)] {
        tenant.run(7)?;
        equal("KiB with the shared buffer", control.mapped_kib(), tenant.kib + kib)?;
    }
    two.node.destroy(handle)?;
    settle();
    equal("KiB without the handle", control.mapped_kib(), two.kib)?;
    one.run(8)?;
    equal("KiB of the owner", control.mapped_kib(), one.kib + 2048)
}

fn closed() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let outside = control.counts().outside;
    let mut test_task = TestTask::copies(&node, 4)?;
    test_task.fill(5);
    control.set(Knob::Delay, 50_000);
    let submitted = test_task.submit(&node, Options::default())?;
    for buffer in &test_task.buffers {
        node.destroy(buffer.handle)?;
    }
    equal("the task's end", node.end(submitted.sequence)?, 0)?;
    equal("accesses outside", control.counts().outside, outside)?;
    Ok(test_task.check(5)?)
}

/// Two clients queue tasks at the same time, so that the domain changes with each task.
fn turns() -> Result<(), Failed> {
    const TASKS: u8 = 20;
    let control = Control::open(&first()?.device()?)?;
    let outside = control.counts().outside;
    let results = std::thread::scope(|scope| {
        let client = |number: u8| {
            let node = first()?;
            let mut test_task = TestTask::copies(&node, 1)?;
            for seed in 0..TASKS {
                let seed = 4 * seed + number;
                test_task.fill(seed);
                equal("a task's end", test_task.run(&node)?, 0)?;
                test_task.check(seed)?;
            }
            Ok::<_, Failed>(())
        };
        let threads: Vec<_> = (0..3).map(|number| scope.spawn(move || client(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a client panicked")).collect::<Vec<_>>()
    });
    results.into_iter().collect::<Result<(), _>>()?;
    equal("accesses outside", control.counts().outside, outside)
}

/// The module's parameter says that clients have no domains of their own.
fn together() -> Result<(), Failed> {
    insert("client_domains=0")?;
    {
        let control = Control::open(&first()?.device()?)?;
        settle();
        let before = control.mapped_kib();
        let mut one = Tenant::new(&control, 1 << 20)?;
        let two = Tenant::new(&control, 1 << 20)?;
        one.run(3)?;
        equal("KiB that it reaches", control.mapped_kib(), before + one.kib + two.kib)?;
    }
    insert("")
}

/// The device goes on after it was given up. Its addresses stay those of the buffers that were lost.
fn lost() -> Result<(), Failed> {
    let node = first()?;
    let device = node.device()?;
    let control = Control::open(&device)?;
    let before = at_rest(&node, &control)?;
    die(&node, &control, Knob::Hang, 1)?;
    drop(node);
    settle();
    let kept = control.mapped_kib() - before;
    ensure!(kept >= 32, "{kept} KiB of the task that was lost are at their addresses");
    control.set(Knob::Deaf, 0);
    unbind(&device)?;
    bind(&device)?;
    let node = Node::open(&node_of(&device)?)?;
    let control = Control::open(&device)?;
    equal("KiB that the device reaches after it was bound again", at_rest(&node, &control)?, 0)?;
    works(&node)
}
