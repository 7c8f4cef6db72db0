// SPDX-License-Identifier: MIT OR Apache-2.0

//! Every ioctl with every kind of wrong argument: each gives the right error and starts no task, and a valid call works
//! afterwards.

use std::os::fd::AsRawFd;

use libtest_mimic::Failed;
use memmap2::MmapOptions;
use nix::errno::Errno;
use nix::sys::memfd::{memfd_create, MFdFlags};
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::drm::{call, raw, read_write};
use nvdla_guest::node::{record, Node, Options, QUERY, SUBMIT, WAIT};
use nvdla_guest::test_task::{copying, TestTask};
use nvdla_uapi::ioctl::{
    self as first_ioctl, GemCreateArgs, GemMapOffsetArgs, MemHandle, SubmitArgs, SubmitTask, MAX_BUFFERS_PER_TASK,
};
use nvdla_uapi::queue::{Address, Query, Submit, Task, Wait, MAX_IN_FENCES, MAX_TASKS};

use crate::expect::{ensure, equal, first, refused, Test};

pub(crate) const TESTS: &[Test] = &[
    ("unknown_ioctls_are_refused", unknown),
    ("pointers_that_lead_nowhere_give_efault", pointers),
    ("gem_create_checks_size_and_flags", create),
    ("gem_mmap_and_destroy_check_the_handle", handles),
    ("query_checks_that_it_is_empty", query),
    ("shorter_and_longer_structures_are_handled_as_drm_does", sizes),
    ("nvidias_submit_checks_its_arguments", submit_first),
    ("nvidias_submit_means_one_task_by_zero_and_leaves_the_timeout_undefined", submit_first_lenient),
    ("nvidias_submit_refuses_what_it_does_not_know", submit_first_unknown),
    ("nvidias_submit_runs_several_tasks", submit_first_several),
    ("nvidias_submit_reads_all_tasks_before_it_runs_one", submit_first_unreadable),
    ("submit_checks_its_arguments", submit),
    ("submit_checks_each_task", submit_task),
    ("submit_checks_each_address", submit_address),
    ("submit_takes_all_tasks_or_none", all_or_none),
    ("wait_checks_its_arguments", wait),
    ("bad_descriptors_are_refused_before_a_register_is_written", descriptors),
];

/// An address that is not mapped.
const NOWHERE: u64 = 0x1000;
/// An address of the kernel.
const KERNEL: u64 = 0xffff_8000_0000_0000;

fn unknown() -> Result<(), Failed> {
    let node = first()?;
    for number in 0x47..0x60u32 {
        let mut argument = [0u64; 8];
        let result = call(node.fd(), read_write(b'd', number, 16), &mut argument);
        ensure!(matches!(result, Err(Errno::EINVAL | Errno::ENOTTY)), "ioctl {number:#x}: {result:?}");
    }
    Ok(())
}

fn pointers() -> Result<(), Failed> {
    let node = first()?;
    let numbers = [first_ioctl::GEM_CREATE, first_ioctl::GEM_MMAP, first_ioctl::GEM_DESTROY].map(u64::from);
    let submit = node.has_first().then_some(first_ioctl::SUBMIT.into());
    for number in submit.into_iter().chain(numbers).chain([QUERY, SUBMIT, WAIT]) {
        for pointer in [0, NOWHERE, KERNEL, u64::MAX] {
            // SAFETY: nothing is mapped there.
            let result = unsafe { raw(node.fd(), number, pointer) };
            refused(&format!("ioctl {number:#x} with {pointer:#x}"), result, Errno::EFAULT)?;
        }
    }
    Ok(())
}

fn create() -> Result<(), Failed> {
    let node = first()?;
    for size in [0, u64::MAX, u64::MAX - 4095, u64::MAX - 4096] {
        let result = node.create(size);
        ensure!(matches!(result, Err(Errno::EINVAL | Errno::ENOMEM)), "{size:#x} bytes: {result:?}");
    }
    // Sizes that would be truncated in a 32-bit or signed number.
    for size in [1 << 32, (1 << 32) + 4096, 1 << 40, 1 << 63, (1 << 63) + 4096, 0x7fff_f000] {
        refused(&format!("{size:#x} bytes"), node.create(size), Errno::ENOMEM)?;
    }
    for flags in [4, 0x8000_0000] {
        let mut args = GemCreateArgs { flags, size: 4096, ..Default::default() };
        refused("flags", call(node.fd(), first_ioctl::GEM_CREATE.into(), &mut args), Errno::EINVAL)?;
    }
    // Odd sizes are rounded up to pages.
    let buffer = node.buffer(1)?;
    let whole = node.map(node.map_offset(buffer.handle)?, 4096)?;
    ensure!(whole.iter().all(|&byte| byte == 0), "a new buffer is not empty");
    Ok(())
}

fn handles() -> Result<(), Failed> {
    let node = first()?;
    for handle in [0, 7, u32::MAX] {
        refused("mmap", node.map_offset(handle), Errno::ENOENT)?;
        refused("destroy", node.destroy(handle), Errno::EINVAL)?;
    }
    let handle = node.create(4096)?;
    // A client cannot use another client's handle.
    refused("another client's", Node::open(node.path())?.map_offset(handle), Errno::ENOENT)?;
    // Existing programs do not clear the padding.
    let mut args = GemMapOffsetArgs { handle, reserved: 5, offset: 9 };
    call(node.fd(), first_ioctl::GEM_MMAP.into(), &mut args)?;
    node.destroy(handle)?;
    refused("destroyed twice", node.destroy(handle), Errno::EINVAL)?;
    refused("mmap after destroy", node.map_offset(handle), Errno::ENOENT)
}

fn query() -> Result<(), Failed> {
    let node = first()?;
    let empty = Query::default();
    let mut config = empty;
    config.config[31] = 1;
    let wrong = [
        config,
        Query { hardware_version: 1, ..empty },
        Query { flags: 1, ..empty },
        Query { max_addresses: 1, ..empty },
        Query { max_tasks: 1, ..empty },
        Query { max_queued: 1, ..empty },
        Query { max_in_fences: 1, ..empty },
        Query { default_timeout_ns: 1, ..empty },
        Query { max_timeout_ns: 1, ..empty },
        Query { sram_size: 1, ..empty },
    ];
    for mut query in wrong {
        refused(&format!("{query:?}"), call(node.fd(), QUERY, &mut query), Errno::EINVAL)?;
    }
    Ok(())
}

/// A program that was compiled with another version of a structure: missing fields are zero, and additional ones are ignored.
fn sizes() -> Result<(), Failed> {
    let node = first()?;
    let mut short = [0u8; 36];
    call(node.fd(), read_write(b'd', 0x44, 36), &mut short)?;
    let name = node.config()?;
    ensure!(short.starts_with(name.as_bytes()), "a short query gives {short:?}");
    let mut long = [0u64; 12];
    call(node.fd(), read_write(b'd', 0x44, 96), &mut long)?;
    ensure!(long[0].to_le_bytes().starts_with(&name.as_bytes()[..4]), "a long query gives {long:x?}");
    // A submission without its last fields has no tasks to run.
    let mut empty = [0u8; 8];
    refused("a short submission", call(node.fd(), read_write(b'd', 0x45, 8), &mut empty), Errno::EINVAL)
}

/// NVIDIA's submission of one task, without changes.
fn call_first(node: &Node, task: &SubmitTask) -> Result<i32, Errno> {
    let mut args = SubmitArgs { tasks: std::ptr::from_ref(task) as u64, num_tasks: 1, ..Default::default() };
    call(node.fd(), first_ioctl::SUBMIT.into(), &mut args)
}

fn submit_first() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    let (list, fds) = test_task.exported(&node)?;
    let good = SubmitTask { num_addresses: list.len() as u32, timeout: 0, address_list: list.as_ptr() as u64 };

    let mut args = SubmitArgs { tasks: std::ptr::from_ref(&good) as u64, num_tasks: 25, ..Default::default() };
    refused("25 tasks", call(node.fd(), first_ioctl::SUBMIT.into(), &mut args), Errno::EINVAL)?;
    for pointer in [0, NOWHERE, KERNEL, u64::MAX - 8] {
        let mut args = SubmitArgs { tasks: pointer, num_tasks: 1, ..Default::default() };
        let result = call(node.fd(), first_ioctl::SUBMIT.into(), &mut args);
        refused(&format!("tasks at {pointer:#x}"), result, Errno::EFAULT)?;
        let task = SubmitTask { address_list: pointer, ..good };
        refused(&format!("addresses at {pointer:#x}"), call_first(&node, &task), Errno::EFAULT)?;
    }
    for count in [0, MAX_BUFFERS_PER_TASK + 1, u32::MAX] {
        let task = SubmitTask { num_addresses: count, ..good };
        refused(&format!("{count} addresses"), call_first(&node, &task), Errno::EINVAL)?;
    }
    let null = std::fs::File::open("/dev/null")?;
    let spoiled = |at: usize, change: fn(&mut MemHandle, u32), value: u32| {
        let mut list = list.clone();
        change(&mut list[at], value);
        let task = SubmitTask { address_list: list.as_ptr() as u64, ..good };
        call_first(&node, &task)
    };
    let handle = |address: &mut MemHandle, value| address.handle = value;
    for at in [0, 4, list.len() - 1] {
        refused("a closed descriptor", spoiled(at, handle, 999), Errno::EBADF)?;
        refused("descriptor -1", spoiled(at, handle, u32::MAX), Errno::EBADF)?;
        refused("/dev/null", spoiled(at, handle, null.as_raw_fd() as u32), Errno::EINVAL)?;
        refused("the node", spoiled(at, handle, node.fd() as u32), Errno::EINVAL)?;
        for offset in [1u64 << 20, u64::MAX, u64::MAX - 4095, 1 << 32] {
            let mut list = list.clone();
            list[at].offset = offset;
            let task = SubmitTask { address_list: list.as_ptr() as u64, ..good };
            refused(&format!("address {at} at {offset:#x}"), call_first(&node, &task), Errno::EINVAL)?;
        }
    }
    // The descriptors that were used in refused calls are still valid.
    test_task.fill(9);
    node.submit_first(&list, 0)?;
    test_task.check(9)?;
    drop(fds);
    Ok(())
}

fn submit_first_lenient() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let mut test_task = TestTask::copies(&node, 1)?;
    let (list, _fds) = test_task.exported(&node)?;
    for (seed, (num_tasks, flags, version, timeout)) in
        // Version 0 leaves the timeout undefined: here 1 ms, which the driver must ignore.
        [(0, 0, 0, 0), (1, 1, 0, 1), (1, 0, 1, u32::MAX), (0, 0, 0, 1), (1, 1, 1, 5000)].into_iter().enumerate()
    {
        test_task.fill(seed as u8);
        let task = SubmitTask { num_addresses: list.len() as u32, timeout, address_list: list.as_ptr() as u64 };
        let mut args = SubmitArgs { tasks: std::ptr::from_ref(&task) as u64, num_tasks, flags, version };
        control.set(Knob::Delay, if version == 0 { 150_000 } else { 0 });
        call(node.fd(), first_ioctl::SUBMIT.into(), &mut args)?;
        test_task.check(seed as u8)?;
    }
    Ok(())
}

fn submit_first_unknown() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    let (list, _fds) = test_task.exported(&node)?;
    let task = SubmitTask { num_addresses: list.len() as u32, timeout: 0, address_list: list.as_ptr() as u64 };
    let starts = control.counts().starts;
    // The last case requests "all or none" for several tasks, which run one after another.
    for (num_tasks, flags, version) in [(1, 2, 0), (1, 0xfffe, 0), (0, 0, 2), (1, 0, u32::MAX), (2, 1, 0)] {
        let tasks = [task, task];
        let mut args = SubmitArgs { tasks: tasks.as_ptr() as u64, num_tasks, flags, version };
        let what = format!("{num_tasks} tasks with flags {flags:#x} and version {version}");
        refused(&what, call(node.fd(), first_ioctl::SUBMIT.into(), &mut args), Errno::EINVAL)?;
    }
    equal("operations", control.counts().starts - starts, 0)
}

fn submit_first_several() -> Result<(), Failed> {
    let node = first()?;
    let mut test_tasks = Vec::new();
    for seed in 0..24 {
        let mut test_task = TestTask::copies(&node, 1)?;
        test_task.fill(seed);
        test_tasks.push(test_task);
    }
    let exported = test_tasks.iter().map(|test_task| test_task.exported(&node)).collect::<Result<Vec<_>, _>>()?;
    let tasks: Vec<_> = exported
        .iter()
        .map(|(list, _)| SubmitTask {
            num_addresses: list.len() as u32,
            timeout: u32::MAX,
            address_list: list.as_ptr() as u64,
        })
        .collect();
    let mut args = SubmitArgs { tasks: tasks.as_ptr() as u64, num_tasks: 24, ..Default::default() };
    call(node.fd(), first_ioctl::SUBMIT.into(), &mut args)?;
    for (seed, test_task) in test_tasks.iter_mut().enumerate() {
        test_task.check(seed as u8)?;
    }
    Ok(())
}

fn submit_first_unreadable() -> Result<(), Failed> {
    const PAGE: usize = 4096;
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    let (list, _fds) = test_task.exported(&node)?;
    let task = SubmitTask { num_addresses: list.len() as u32, timeout: 0, address_list: list.as_ptr() as u64 };
    // The second page of the mapping lies behind the file's end, so it cannot be read.
    let file = std::fs::File::from(memfd_create(c"tasks", MFdFlags::empty())?);
    file.set_len(PAGE as u64)?;
    // SAFETY: The file is this test's own.
    let mut pages = unsafe { MmapOptions::new().len(2 * PAGE).map_mut(&file)? };
    let starts = control.counts().starts;
    for readable in [1, 8, 23] {
        let start = PAGE - readable * SubmitTask::SIZE;
        for record in pages[start..PAGE].chunks_exact_mut(SubmitTask::SIZE) {
            record.copy_from_slice(&task.to_bytes());
        }
        let tasks = pages.as_ptr() as u64 + start as u64;
        let mut args = SubmitArgs { tasks, num_tasks: 24, ..Default::default() };
        let result = call(node.fd(), first_ioctl::SUBMIT.into(), &mut args);
        refused(&format!("24 tasks, of which {readable} can be read"), result, Errno::EFAULT)?;
    }
    equal("operations", control.counts().starts - starts, 0)
}

/// A submission of the one task.
fn submission(tasks: &[Task]) -> Submit {
    Submit {
        tasks: tasks.as_ptr() as u64,
        num_tasks: tasks.len() as u32,
        task_size: size_of::<Task>() as u32,
        ..Submit::default()
    }
}

fn submit() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(1);
    let tasks = [record(&test_task.addresses)];
    let good = submission(&tasks);
    let many = vec![tasks[0]; MAX_TASKS as usize + 1];
    let fences = [-1i32; MAX_IN_FENCES as usize + 1];
    let null = std::fs::File::open("/dev/null")?;
    let fence = |fd: &i32| Submit { in_fences: std::ptr::from_ref(fd) as u64, num_in_fences: 1, ..good };
    let wrong = [
        ("reserved", Submit { reserved: 1, ..good }, Errno::EINVAL),
        ("sequence", Submit { sequence: 1, ..good }, Errno::EINVAL),
        ("out_fence", Submit { out_fence: -2, ..good }, Errno::EINVAL),
        ("refused_reason", Submit { refused_reason: 1, ..good }, Errno::EINVAL),
        ("unknown flag", Submit { flags: 4, ..good }, Errno::EINVAL),
        ("unknown flag beside a known one", Submit { flags: 0x8000_0001, ..good }, Errno::EINVAL),
        ("no tasks", Submit { num_tasks: 0, ..good }, Errno::EINVAL),
        ("65 tasks", submission(&many), Errno::EINVAL),
        ("2^32 - 1 tasks", Submit { num_tasks: u32::MAX, ..good }, Errno::EINVAL),
        ("task size 0", Submit { task_size: 0, ..good }, Errno::EINVAL),
        ("task size 16", Submit { task_size: 16, ..good }, Errno::EINVAL),
        ("task size 5000", Submit { task_size: 5000, ..good }, Errno::E2BIG),
        ("tasks nowhere", Submit { tasks: NOWHERE, ..good }, Errno::EFAULT),
        ("tasks in the kernel", Submit { tasks: KERNEL, ..good }, Errno::EFAULT),
        ("tasks at the end", Submit { tasks: u64::MAX - 4, ..good }, Errno::EFAULT),
        ("65 fences", Submit { in_fences: fences.as_ptr() as u64, num_in_fences: 65, ..good }, Errno::EINVAL),
        ("fences nowhere", Submit { in_fences: NOWHERE, num_in_fences: 2, ..good }, Errno::EFAULT),
        ("fence -1", fence(&-1), Errno::EBADF),
        ("a closed fence", fence(&999), Errno::EBADF),
    ];
    for (what, mut submit, error) in wrong {
        refused(what, call(node.fd(), SUBMIT, &mut submit), error)?;
        ensure!(test_task.is_untouched(), "{what}: it ran");
    }
    for fd in [null.as_raw_fd(), node.fd()] {
        let result = call(node.fd(), SUBMIT, &mut fence(&fd));
        ensure!(matches!(result, Err(Errno::EBADF | Errno::EINVAL)), "a descriptor that is not a fence: {result:?}");
    }
    // No descriptor is free for the requested fence.
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)?;
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, 3, limit.1)?;
    let result = call(node.fd(), SUBMIT, &mut Submit { flags: 1, ..good });
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, limit.0, limit.1)?;
    refused("no descriptor is left", result, Errno::EMFILE)?;
    ensure!(test_task.is_untouched(), "it ran");
    equal("a good one", test_task.run(&node)?, 0)?;
    Ok(test_task.check(1)?)
}

fn submit_task() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(1);
    let good = record(&test_task.addresses);
    let wrong = [
        ("flags", Task { flags: 1, ..good }, Errno::EINVAL),
        ("reserved", Task { reserved: 1, ..good }, Errno::EINVAL),
        ("no addresses", Task { num_addresses: 0, ..good }, Errno::EINVAL),
        ("6145 addresses", Task { num_addresses: MAX_BUFFERS_PER_TASK + 1, ..good }, Errno::EINVAL),
        ("2^32 - 1 addresses", Task { num_addresses: u32::MAX, ..good }, Errno::EINVAL),
        ("address size 0", Task { address_size: 0, ..good }, Errno::EINVAL),
        ("address size 8", Task { address_size: 8, ..good }, Errno::EINVAL),
        ("address size 5000", Task { address_size: 5000, ..good }, Errno::E2BIG),
        ("addresses nowhere", Task { addresses: NOWHERE, ..good }, Errno::EFAULT),
        ("addresses in the kernel", Task { addresses: KERNEL, ..good }, Errno::EFAULT),
        ("fewer addresses than the network names", Task { num_addresses: 3, ..good }, Errno::EINVAL),
    ];
    for (what, task, error) in wrong {
        refused(what, call(node.fd(), SUBMIT, &mut submission(&[task])), error)?;
        ensure!(test_task.is_untouched(), "{what}: it ran");
    }
    Ok(())
}

fn submit_address() -> Result<(), Failed> {
    let node = first()?;
    let mut test_task = TestTask::copies(&node, 1)?;
    test_task.fill(1);
    for at in [0, 3, test_task.addresses.len() - 1] {
        let good = test_task.addresses[at];
        let wrong = [
            ("an unknown flag", Address { flags: 4, ..good }, Errno::EINVAL),
            ("handle 0", Address { handle: 0, ..good }, Errno::ENOENT),
            ("an unknown handle", Address { handle: 999, ..good }, Errno::ENOENT),
            ("an offset past the end", Address { offset: 1 << 20, ..good }, Errno::EINVAL),
            ("an offset of 2^32", Address { offset: 1 << 32, ..good }, Errno::EINVAL),
            ("an offset of 2^64 - 4096", Address { offset: u64::MAX - 4095, ..good }, Errno::EINVAL),
            ("an offset of 2^64 - 1", Address { offset: u64::MAX, ..good }, Errno::EINVAL),
        ];
        for (what, address, error) in wrong {
            let mut addresses = test_task.addresses.clone();
            addresses[at] = address;
            let result = call(node.fd(), SUBMIT, &mut submission(&[record(&addresses)]));
            refused(&format!("address {at}: {what}"), result, error)?;
            ensure!(test_task.is_untouched(), "{what}: it ran");
        }
    }
    // The end of a buffer is a valid address, but the list that should begin there is missing.
    for offset in [0x1000, 0x7ff8, 0x7fff] {
        let mut addresses = test_task.addresses.clone();
        if let Some(last) = addresses.last_mut() {
            last.offset = offset;
        }
        let result = call(node.fd(), SUBMIT, &mut submission(&[record(&addresses)]));
        ensure!(offset == 0x1000 || result == Err(Errno::EINVAL), "cubes at {offset:#x}: {result:?}");
    }
    Ok(())
}

fn all_or_none() -> Result<(), Failed> {
    let node = first()?;
    let mut test_tasks = [TestTask::copies(&node, 1)?, TestTask::copies(&node, 1)?];
    for test_task in &mut test_tasks {
        test_task.fill(1);
    }
    let mut bad = test_tasks[1].addresses.clone();
    bad[0].handle = 0;
    let tasks = [record(&test_tasks[0].addresses), record(&bad)];
    refused("the second task", call(node.fd(), SUBMIT, &mut submission(&tasks)), Errno::ENOENT)?;
    std::thread::sleep(std::time::Duration::from_millis(20));
    ensure!(test_tasks[0].is_untouched(), "the first task ran");
    equal("sequence of the next", test_tasks[0].submit(&node, Options::default())?.sequence, 1)
}

fn wait() -> Result<(), Failed> {
    let node = first()?;
    let test_task = TestTask::copies(&node, 1)?;
    let good = Wait { sequence: 1, ..Wait::default() };
    refused("nothing was submitted", call(node.fd(), WAIT, &mut { good }), Errno::EINVAL)?;
    equal("a task's end", test_task.run(&node)?, 0)?;
    let wrong = [
        ("reserved", Wait { reserved: 1, ..good }),
        ("status", Wait { status: 1, ..good }),
        ("sequence 0", Wait { sequence: 0, ..good }),
        ("sequence 2", Wait { sequence: 2, ..good }),
        ("sequence 2^64 - 1", Wait { sequence: u64::MAX, ..good }),
    ];
    for (what, mut wait) in wrong {
        refused(what, call(node.fd(), WAIT, &mut wait), Errno::EINVAL)?;
    }
    // A wait for a task that has ended needs no time.
    equal("the end once more", node.wait_until(1, 0)?, 0)?;
    // Another client has no such task.
    refused("another client's", Node::open(node.path())?.wait(1, 1), Errno::EINVAL)
}

/// Invalid descriptors: no register of the device is accessed.
fn descriptors() -> Result<(), Failed> {
    let node = first()?;
    let control = Control::open(&node.device()?)?;
    let before = control.counts();
    let (net, bytes) = copying(&node, 2)?;
    let mut nets = Vec::new();
    let mut spoil = |what: &'static str, change: fn(&mut nvdla_tests::build::Net)| {
        let mut net = net.clone();
        change(&mut net);
        nets.push((what, net));
    };
    spoil("an operation list outside the addresses", |net| net.network.operation_desc_index = 99);
    spoil("a graph outside the addresses", |net| net.network.dependency_graph_index = -1);
    spoil("more operations than the list has", |net| net.network.num_operations = 2000);
    spoil("a first operation outside the list", |net| net.network.op_head[2] = 7);
    spoil("an operation that waits forever", |net| net.ops[0].common.dependency_count = 1);
    spoil("a cube of another address", |net| net.sdp(0).1.src_data.address = 50);
    spoil("a cube past the end", |net| net.sdp(0).1.dst_data.offset = 0x7fff_fff0);
    spoil("a cube that wraps around", |net| net.sdp(0).1.dst_data.offset = 0xffff_ffe0);
    spoil("a line stride without end", |net| net.sdp(0).1.src_data.line_stride = 0xffff_ffe0);
    spoil("more channels than fit", |net| net.sdp(1).1.dst_data.channel = 8191);
    spoil("a width of nothing", |net| net.sdp(0).1.src_data.width = 0);
    for (what, net) in nets {
        let test_task = TestTask::new(&node, &net, 2, bytes)?;
        refused(what, test_task.submit(&node, Options::default()).map(|submitted| submitted.sequence), Errno::EINVAL)?;
    }
    let after = control.counts();
    equal("register accesses", (after.reads, after.writes), (before.reads, before.writes))
}
