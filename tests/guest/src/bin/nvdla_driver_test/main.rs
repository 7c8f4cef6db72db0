// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_driver_test`: the tests of the kernel driver, one after another, named and counted as Cargo's.
//!
//! They run as root in the guest of `cargo xtask vm --test driver`, on two virtual devices with control windows. After each test
//! the kernel's messages are read: a warning of the kernel fails the test during which it was logged.

mod arguments;
mod buffers;
mod child;
mod clients;
mod edges;
mod evidence;
mod expect;
mod faults;
mod fences;
mod figures;
mod hostile;
mod identity;
mod iommu;
mod leaks;
mod queue;
mod recovery;
mod removal;
mod sharing;
mod sleep;
mod sram;
mod sync;
mod tree;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use nvdla_guest::control::Control;
use nvdla_guest::node::{lacking, nodes, Node};
use nvdla_guest::system::{self, Messages};

use expect::Test;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if let [_, flag, name, rest @ ..] = words.as_slice() {
        if flag == child::FLAG {
            return child::run(name, rest);
        }
    }
    let mut arguments = Arguments::from_args();
    // The tests examine the whole machine: its messages, its memory, its modules.
    arguments.test_threads = Some(1);
    // The output goes to a serial line, and may be stored.
    arguments.color.get_or_insert(libtest_mimic::ColorSetting::Never);
    // A device of the device tree cannot be removed.
    let on_pci = !expect::first().and_then(|node| Ok(node.device()?)).is_ok_and(|device| system::is_platform(&device));
    let (tree, iommu) = (tree::tests(), iommu::tests());
    let groups: [(&str, &[Test]); 22] = [
        ("identity", identity::TESTS),
        ("arguments", arguments::TESTS),
        ("buffers", buffers::TESTS),
        ("sharing", sharing::TESTS),
        ("sram", sram::tests()),
        ("queue", queue::TESTS),
        ("fences", fences::TESTS),
        ("sync", sync::TESTS),
        ("clients", clients::TESTS),
        ("faults", faults::TESTS),
        ("edges", edges::TESTS),
        ("edges", if on_pci { edges::ON_PCI } else { &[] }),
        ("recovery", recovery::tests()),
        ("tree", &tree),
        ("iommu", &iommu),
        ("hostile", hostile::TESTS),
        ("figures", figures::TESTS),
        ("leaks", leaks::TESTS),
        ("removal", removal::TESTS),
        ("sleep", sleep::TESTS),
        ("end", &[("kernel_has_no_complaint", kernel_has_no_complaint), ("no_memory_is_leaked", leaks::no_leak)]),
        ("end", &[("a_task_runs_when_the_machine_is_switched_off", left_running)]),
    ];
    let trials = groups
        .into_iter()
        .flat_map(|(group, tests)| tests.iter().map(move |&(name, test)| (format!("{group}::{name}"), test)))
        .filter(|(name, _)| on_pci || name != "removal::removing_the_device_from_the_bus_and_finding_it_again")
        .map(|(name, test)| {
            // The reason of a failure is printed at once, because a later test may crash the program.
            let shown = name.clone();
            Trial::ignorable_test(name, move || {
                watched(test).inspect_err(|failed| println!("{shown}: {}", failed.message().unwrap_or("failed")))
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs a test, and checks the kernel's log and the device's accesses during it.
fn watched(test: fn() -> Result<(), Failed>) -> Result<Completion, Failed> {
    // A test that failed may have left a device unbound.
    system::bind_all()?;
    let mut messages = Messages::from_now()?;
    lacking();
    let before = outside()?;
    let result = test();
    let messages = messages.read()?;
    if let Some(splat) = system::splats(&messages).first() {
        return Err(format!("the kernel complained: {splat}").into());
    }
    if lacking() && result.is_err() {
        return Ok(Completion::ignored_with("the driver has no NVDLA_SUBMIT"));
    }
    result?;
    let after = outside()?;
    if after != before {
        return Err(format!(
            "accesses outside memory, and accesses without a clock or during a reset: {before:?} and then {after:?}"
        )
        .into());
    }
    Ok(Completion::Completed)
}

/// For each device, the number of accesses outside its memory, and of accesses without a clock or during a reset. A binding may
/// exchange the names of the nodes.
fn outside() -> Result<BTreeMap<PathBuf, (u32, u32)>, Failed> {
    let counts = |path: &PathBuf| {
        let device = Node::open(path)?.device()?;
        let counts = Control::open(&device)?.counts();
        Ok((device, (counts.outside, counts.unanswered)))
    };
    nodes().iter().map(counts).collect()
}

/// Leaves a task running. The driver must stop the device when the machine is switched off: its server (`nvdla_vp --stopped`) fails
/// otherwise, and with it the run. The last test, because the task has at most the operator's limit.
fn left_running() -> Result<(), Failed> {
    let mut child = child::start("stay", &expect::first()?, std::process::Stdio::null())?;
    child::wait_ready(&mut child)
}

/// Checks that the kernel has logged no error since the machine started.
fn kernel_has_no_complaint() -> Result<(), Failed> {
    // The kernel shows only the first error of the use of DMA, and counts the others.
    if let Ok(count) = std::fs::read_to_string("/sys/kernel/debug/dma-api/error_count") {
        expect::equal("errors in the use of DMA", count.trim(), "0")?;
    }
    let messages = Messages::from_start()?.read()?;
    match system::splats(&messages).first() {
        Some(splat) => Err(format!("the kernel complained: {splat}").into()),
        None => Ok(()),
    }
}
