// SPDX-License-Identifier: MIT OR Apache-2.0

//! The random actions of a thread.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nvdla_guest::drm::{raw, read_write, GEM_CLOSE, PRIME_FD_TO_HANDLE, PRIME_HANDLE_TO_FD};
use nvdla_guest::fence::{self, Timeline};
use nvdla_guest::node::{now_ns, record, ACCESS, QUERY, SUBMIT, WAIT};
use nvdla_tests::random::Random;
use nvdla_uapi::ioctl::{self as first, MemHandle, SubmitArgs, SubmitTask};
use nvdla_uapi::queue::{Address, Submit, Task, Wait, GEM_CREATE_SRAM, SUBMIT_OUT_FENCE, SUBMIT_URGENT};

use crate::program::{Program, LISTS};
use crate::tally::Count;
use crate::wrong::number;

/// Does one random action.
pub(crate) fn one(program: &Program, random: &mut Random) {
    match random.below(20) {
        0..=7 => {
            descriptors(program, random);
            submit(program, random);
        }
        8 | 9 => {
            descriptors(program, random);
            submit_first(program, random);
        }
        10 => mend(program),
        11 | 12 => wait(program, random),
        13 => anything(program, random),
        14 => buffers(program, random),
        15 => share(program, random),
        16 => {
            let _ = program.node.query();
            let _ = program.node.fdinfo();
        }
        17 => fenced(program, random),
        _ => descriptors(program, random),
    }
}

/// Restores the descriptors of the valid task.
fn mend(program: &Program) {
    for (list, good) in program.lists.iter().zip(&program.good).take(LISTS + 1) {
        list.write(0, good);
    }
}

/// Changes a few bytes of the descriptors, most often addresses and sizes.
fn descriptors(program: &Program, random: &mut Random) {
    if random.one_in(2) {
        mend(program);
    }
    for _ in 0..random.below(4) {
        let list = random.below(LISTS + 1);
        let length = program.good[list].len() as u64;
        if length == 0 {
            continue;
        }
        let width = random.pick(&[1, 2, 4, 8]);
        let offset = random.below(length) as usize / width * width;
        let value = number(random).to_le_bytes();
        program.lists[list].write(offset, &value[..width]);
    }
}

/// The addresses of a task, of which some are usually wrong.
fn addresses(program: &Program, random: &mut Random) -> Vec<Address> {
    let mut addresses = program.addresses.clone();
    if random.one_in(4) {
        let at = random.below(addresses.len());
        match random.below(5) {
            // Tasks must not name buffers that the virtual device does not know, so no handle is used that may become such a
            // buffer.
            0 => addresses[at].handle = random.pick(&[0, u32::MAX, 1 << 20]),
            1 => addresses[at].handle = random.pick(&program.addresses).handle,
            2 => addresses[at].offset = number(random),
            3 => addresses[at].offset = random.below(9) * 512,
            _ => addresses[at].flags = number(random) as u32,
        }
    }
    if random.one_in(20) {
        addresses.truncate(random.below(addresses.len() + 1));
    }
    addresses
}

/// Counts a submission.
fn taken<T, E>(program: &Program, result: &Result<T, E>) -> bool {
    program.tally.add(Count::Calls);
    program.tally.add(if result.is_ok() { Count::Taken } else { Count::Refused });
    result.is_ok()
}

/// Counts the end of a task.
fn ended(program: &Program, status: i32) {
    program.tally.add(if status == 0 { Count::Well } else { Count::Badly });
}

/// Calls an ioctl with plain data.
fn call<T: Copy>(program: &Program, number: u64, argument: &mut T) -> nvdla_guest::drm::Result<i32> {
    nvdla_guest::drm::call(program.node.fd(), number, argument)
}

fn submit(program: &Program, random: &mut Random) {
    let lists: Vec<_> = (0..=random.below(4)).map(|_| addresses(program, random)).collect();
    let mut tasks: Vec<Task> = lists.iter().map(|list| record(list)).collect();
    if random.one_in(10) {
        let at = random.below(tasks.len());
        match random.below(5) {
            0 => tasks[at].addresses = number(random),
            1 => tasks[at].num_addresses = number(random) as u32,
            2 => tasks[at].address_size = number(random) as u32,
            3 => tasks[at].flags = number(random) as u32,
            _ => tasks[at].reserved = number(random) as u32,
        }
    }
    let mut submit = Submit {
        tasks: tasks.as_ptr() as u64,
        num_tasks: tasks.len() as u32,
        task_size: size_of::<Task>() as u32,
        flags: if random.one_in(3) { SUBMIT_OUT_FENCE } else { 0 } | if random.one_in(4) { SUBMIT_URGENT } else { 0 },
        deadline_ns: if random.one_in(3) { now_ns() + random.below(50_000_000) } else { 0 },
        ..Submit::default()
    };
    if random.one_in(10) {
        match random.below(14) {
            0 => submit.tasks = number(random),
            1 => submit.num_tasks = number(random) as u32,
            2 => submit.task_size = number(random) as u32,
            3 => submit.in_fences = number(random),
            4 => submit.num_in_fences = number(random) as u32,
            5 => submit.flags = number(random) as u32,
            6 => submit.deadline_ns = number(random),
            7 => submit.in_syncs = number(random),
            8 => submit.num_in_syncs = number(random) as u32,
            9 => submit.out_syncs = number(random),
            10 => submit.num_out_syncs = number(random) as u32,
            11 => submit.sync_size = number(random) as u32,
            12 => submit.out_fence = number(random) as i32,
            _ => submit.reserved = number(random) as u32,
        }
    }
    // If the list is longer than the vector, the kernel reads the memory after it: it gets a fault or random data.
    let asked = submit.flags & SUBMIT_OUT_FENCE != 0;
    let result = call(program, SUBMIT, &mut submit);
    if !taken(program, &result) {
        return;
    }
    let fence = asked.then(|| own(submit.out_fence)).flatten();
    if random.one_in(2) {
        let now = now_ns();
        let deadline_ns = now + random.below(400_000_000);
        let mut wait = Wait { sequence: submit.sequence, deadline_ns, ..Wait::default() };
        program.tally.add(Count::Calls);
        if call(program, WAIT, &mut wait).is_ok() {
            ended(program, wait.status);
        }
    }
    if let Some(fence) = fence {
        let _ = fence::poll_ms(fence.as_fd(), random.below(20) as u16);
        let _ = fence::info(fence.as_raw_fd());
    }
}

/// A descriptor that the kernel returned.
fn own(fd: i32) -> Option<OwnedFd> {
    // SAFETY: the ioctl that returned it succeeded, so it is new and has no other owner.
    (fd > 2).then(|| unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) })
}

fn submit_first(program: &Program, random: &mut Random) {
    let addresses = addresses(program, random);
    let mut fds = Vec::new();
    let mut list = Vec::new();
    for address in addresses {
        // The same buffer by its dma-buf.
        let fd = program.node.export(address.handle).ok();
        let handle = fd.as_ref().map_or(address.handle, |fd| fd.as_raw_fd() as u32);
        list.push(MemHandle { handle, reserved: address.flags, offset: address.offset });
        fds.extend(fd);
    }
    if !list.is_empty() && random.one_in(10) {
        let at = random.below(list.len());
        list[at].handle = random.pick(&[0, 1, u32::MAX, program.node.fd() as u32, 9999]);
    }
    let mut task = SubmitTask {
        num_addresses: list.len() as u32,
        timeout: random.below(100) as u32,
        address_list: list.as_ptr() as u64,
    };
    let mut args = SubmitArgs { num_tasks: 1, version: random.below(2) as u32, ..SubmitArgs::default() };
    if random.one_in(10) {
        match random.below(5) {
            0 => task.num_addresses = number(random) as u32,
            1 => task.address_list = number(random),
            2 => args.num_tasks = number(random) as u16,
            3 => args.version = number(random) as u32,
            _ => args.flags = number(random) as u16,
        }
    }
    args.tasks = std::ptr::from_ref(&task) as u64;
    if random.one_in(50) {
        args.tasks = number(random);
    }
    let result = call(program, first::SUBMIT.into(), &mut args);
    if taken(program, &result) {
        ended(program, 0);
    }
}

fn wait(program: &Program, random: &mut Random) {
    let mut wait =
        Wait { sequence: random.below(300), deadline_ns: now_ns() + random.below(20_000_000), ..Wait::default() };
    if random.one_in(10) {
        wait.sequence = number(random);
    }
    program.tally.add(Count::Calls);
    let _ = call(program, WAIT, &mut wait);
    let handle = random.pick(&program.addresses).handle;
    let flags = if random.one_in(8) { number(random) as u32 } else { random.below(8) as u32 };
    let _ = program.node.access(handle, flags, now_ns() + random.below(2_000_000));
}

/// Calls any of the driver's ioctls, or a number that it does not have, with any bytes or an invalid pointer.
fn anything(program: &Program, random: &mut Random) {
    let known = random.pick(&[QUERY, SUBMIT, WAIT, ACCESS, first::SUBMIT.into(), first::GEM_MMAP.into(), 0, 0]);
    let request = if known == 0 { read_write(b'd', 0x40 + random.below(32) as u32, random.below(200)) } else { known };
    // ioctls that make or destroy handles are left out, because they would affect the other threads.
    let makes = [first::GEM_CREATE, first::GEM_DESTROY].map(|number| number & 0xff);
    if makes.contains(&(request as u32 & 0xff)) {
        return;
    }
    let mut bytes: [u64; 32] = std::array::from_fn(|_| if random.one_in(2) { 0 } else { number(random) });
    program.tally.add(Count::Calls);
    let pointer = match random.below(8) {
        0 => 0,
        1 => u64::MAX - random.below(64),
        2 => 0xffff_8000_0000_0000 + random.below(1 << 40),
        _ => bytes.as_mut_ptr() as u64,
    };
    // SAFETY: the argument has as many bytes as any of these ioctl numbers encodes, and the driver's ioctls write nothing beyond
    // their argument.
    let _ = unsafe { raw(program.node.fd(), request, pointer) };
}

/// Makes, maps and frees a buffer that no task names, and uses handles that do not exist.
fn buffers(program: &Program, random: &mut Random) {
    let size = if random.one_in(2) { number(random) } else { 1 + random.below(1 << 18) };
    // Large buffers that can be allocated would take memory from other programs.
    if !(1 << 22..1 << 31).contains(&size) {
        program.tally.add(Count::Calls);
        let flags = if random.one_in(3) { GEM_CREATE_SRAM } else { random.pick(&[0, 0, 2]) };
        if let Ok(handle) = program.node.create_with(size, flags) {
            if let Ok(offset) = program.node.map_offset(handle) {
                let length = if random.one_in(4) { random.below(1 << 20) as usize } else { 4096 };
                let offset = if random.one_in(8) { random.below(1 << 36) & !4095 } else { offset };
                if let Ok(mut map) = program.node.map(offset, length.max(1)) {
                    if !map.is_empty() && random.one_in(2) {
                        map[0] = 1;
                    }
                    // Sometimes the handle is closed first.
                    if random.one_in(2) {
                        let _ = program.node.destroy(handle);
                        return;
                    }
                }
            }
            let _ = program.node.destroy(handle);
        }
    }
    let _ = program.node.map_offset(number(random) as u32 | 1 << 20);
    let _ = program.node.destroy(number(random) as u32 | 1 << 20);
    let mut close = [(number(random) | 1 << 20) & 0xffff_ffff, 0];
    let _ = call(program, GEM_CLOSE, &mut close);
}

/// Exports and imports existing and missing buffers.
fn share(program: &Program, random: &mut Random) {
    program.tally.add(Count::Calls);
    if let Ok(fd) = program.node.export(random.pick(&program.addresses).handle) {
        let _ = program.node.import(fd.as_raw_fd());
    }
    for request in [PRIME_HANDLE_TO_FD, PRIME_FD_TO_HANDLE] {
        let mut prime =
            [(number(random) | 1 << 20) as u32, number(random) as u32, (number(random) as i32 | 1 << 20) as u32];
        let _ = call(program, request, &mut prime);
    }
}

/// Submits tasks that wait for a fence that is signalled, fails, or belongs to a task of the same program.
fn fenced(program: &Program, random: &mut Random) {
    let Ok(timeline) = Timeline::new() else { return };
    let Ok(gate) = timeline.fence(1) else { return };
    let task = record(&program.addresses);
    let fds = [gate.as_raw_fd(), if random.one_in(8) { number(random) as i32 } else { gate.as_raw_fd() }];
    let mut submit = Submit {
        tasks: std::ptr::from_ref(&task) as u64,
        num_tasks: 1,
        task_size: size_of::<Task>() as u32,
        in_fences: fds.as_ptr() as u64,
        num_in_fences: 1 + random.below(2) as u32,
        flags: SUBMIT_OUT_FENCE,
        ..Submit::default()
    };
    let result = call(program, SUBMIT, &mut submit);
    if !taken(program, &result) {
        return;
    }
    let Some(fence) = own(submit.out_fence) else { return };
    if random.one_in(2) {
        let _ = timeline.advance(1);
    }
    drop(timeline);
    let _ = fence::poll_ms(fence.as_fd(), random.below(30) as u16);
}
