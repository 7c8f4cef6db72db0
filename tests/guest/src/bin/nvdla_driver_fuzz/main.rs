// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_driver_fuzz`: random ioctls and descriptors for the kernel driver, from several programs with several threads. From
//! time to time one program is killed, and the device fails.
//!
//! It runs as root in the guest of `cargo xtask vm --test fuzz -- --seconds N --seed S`. A program tells the virtual device about
//! every buffer that it makes before a task may name the buffer. The device counts accesses elsewhere. The run fails on such an
//! access, on a warning of the kernel, or if a valid task at the end does not complete. With `--structured` no faults are
//! injected and no program is killed, and each accepted task must complete.

mod actions;
mod arguments;
mod program;
mod structured;
mod tally;
mod worker;
mod wrong;

use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser as _;
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::node::{nodes, Node};
use nvdla_guest::system::{self, insert_module, remove_module, Messages};
use nvdla_guest::test_task::TestTask;
use nvdla_tests::random::Random;

use arguments::{Arguments, Outcome, RANGES};
use tally::{Count, Tally};

/// The time limit of a task in milliseconds, short because hung tasks must not use up the run.
const TIMEOUT_MS: u32 = 300;
/// The same for runs in which no task may hang.
const STRUCTURED_TIMEOUT_MS: u32 = 10_000;
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.worker {
        Some(number) if arguments.structured => structured::run(&arguments, number),
        Some(number) => worker::run(&arguments, number),
        None => supervise(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nvdla_driver_fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: &Arguments, number: usize, seed: u64) -> std::io::Result<Child> {
    Command::new("/proc/self/exe")
        .args(["--worker", &number.to_string(), "--seed", &seed.to_string()])
        .args(["--threads", &arguments.threads.to_string(), "--seconds", &arguments.seconds.to_string()])
        .args(arguments.structured.then_some("--structured"))
        .spawn()
}

/// Starts the programs, kills one or makes the device fail from time to time, and checks the result.
fn supervise(arguments: &Arguments) -> Outcome {
    remove_module()?;
    let timeout = if arguments.structured { STRUCTURED_TIMEOUT_MS } else { TIMEOUT_MS };
    insert_module(&format!("timeout_ms={timeout}"))?;
    let node = nodes().into_iter().next().ok_or("there is no device")?;
    let device = Node::open(&node)?.device()?;
    let control = Control::open(&device)?;
    let (before, memory) = (control.counts(), figures()?);
    let mut messages = Messages::from_now()?;
    let tally = Tally::create()?;
    let mut random = Random::new(arguments.seed);
    let mut programs = Vec::new();
    for number in 0..arguments.programs {
        programs.push(start(arguments, number, random.next())?);
    }
    let begin = Instant::now();
    let (mut kills, mut deaths, mut faults, mut shown) = (0, 0, 0, 0);
    let mut complaints = Vec::new();
    while begin.elapsed() < Duration::from_secs(arguments.seconds) && complaints.is_empty() {
        std::thread::sleep(Duration::from_millis(200 + random.below(800)));
        if !arguments.structured && random.one_in(3) {
            let number = random.below(programs.len());
            programs[number].kill()?;
            programs[number].wait()?;
            programs[number] = start(arguments, number, random.next())?;
            kills += 1;
        }
        for (number, program) in programs.iter_mut().enumerate() {
            if let Some(status) = program.try_wait()? {
                if arguments.structured {
                    if !status.success() {
                        return Err(format!("program {number} ended: {status}").into());
                    }
                    continue;
                }
                *program = start(arguments, number, random.next())?;
                deaths += 1;
            }
        }
        if !arguments.structured {
            control.set(Knob::Delay, if random.one_in(2) { 0 } else { random.below(3000) });
        }
        if !arguments.structured && random.one_in(4) {
            let knobs = [Knob::Hang, Knob::Lose, Knob::Refuse, Knob::Spurious];
            control.set(knobs[random.below(4)], 1);
            faults += 1;
        }
        let said = messages.read()?;
        complaints.extend(system::splats(&said));
        let elapsed = begin.elapsed().as_secs();
        if elapsed / 30 > shown {
            shown = elapsed / 30;
            println!("{elapsed} s: {tally}, {kills} programs killed, {faults} faults");
        }
    }
    for mut program in programs {
        // Otherwise the program ends by itself, after its last task.
        if !arguments.structured {
            program.kill()?;
        }
        program.wait()?;
    }
    for entry in 0..arguments.programs * RANGES {
        control.allow(entry, 0, 0);
    }
    for knob in [Knob::Hang, Knob::Lose, Knob::Refuse, Knob::Delay] {
        control.set(knob, 0);
    }
    println!("{} s, seed {}: {tally}", begin.elapsed().as_secs(), arguments.seed);
    println!("{kills} programs killed, {deaths} ended by themselves, {faults} faults of the device");
    let counts = control.counts();
    println!(
        "the device: {} operations, {} interrupts, {} register writes, {} accesses outside the programs' buffers",
        counts.starts.wrapping_sub(before.starts),
        counts.interrupts.wrapping_sub(before.interrupts),
        counts.writes.wrapping_sub(before.writes),
        counts.outside.wrapping_sub(before.outside)
    );
    last_task(&node)?;
    let after = figures()?;
    println!("slab {} kB and then {}, CMA free {} kB and then {}", memory.0, after.0, memory.1, after.1);
    complaints.extend(system::splats(&messages.read()?));
    if let Some(complaint) = complaints.first() {
        return Err(format!("the kernel complained: {complaint}").into());
    }
    if counts.outside != before.outside {
        return Err("the device reached outside the programs' buffers".into());
    }
    let badly = Count::Badly as usize;
    let expected = |index: usize| !arguments.structured || index != badly;
    if tally.values().into_iter().enumerate().any(|(index, value)| value == 0 && expected(index)) {
        return Err("something was never reached: the run says nothing".into());
    }
    if arguments.structured && tally.values()[badly] != 0 {
        return Err("tasks did not end as they must".into());
    }
    if after.1 + 1024 < memory.1 {
        return Err("buffers were leaked".into());
    }
    match system::leaks()? {
        Some(found) if !found.trim().is_empty() => Err(format!("kmemleak:\n{found}").into()),
        Some(_) => {
            println!("kmemleak found nothing");
            Ok(())
        }
        None => Ok(()),
    }
}

/// Slab and free CMA memory in kB, after deferred frees.
fn figures() -> std::io::Result<(u64, u64)> {
    std::thread::sleep(Duration::from_millis(500));
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
    Ok((system::meminfo("Slab")?, system::meminfo("CmaFree")?))
}

/// Checks that a valid task still completes.
fn last_task(path: &std::path::Path) -> Outcome {
    let node = Node::open(path)?;
    let mut test_task = TestTask::copies(&node, 3)?;
    test_task.fill(99);
    let end = test_task.run(&node)?;
    if end != 0 {
        return Err(format!("a good task at the end gave {end}").into());
    }
    Ok(test_task.check(99)?)
}
