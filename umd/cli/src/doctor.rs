// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla doctor`: checks a device from its registers to its results, one step after another, and says what to change where a step
//! fails. The steps are those of a new board: the register window, the configuration, an operation that ends, its interrupt, the
//! bytes that the device reads and writes, and the reset.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nvdla_compiler::compiler::Compiler;
use nvdla_compiler::import::model::Model;
use nvdla_compiler::ir::{Convolution, Graph, Op, Padding, Range, Ranges};
use nvdla_runtime::device::{Device, DirectDevice, KernelDevice, ModelDevice, Selection};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::program::{print, sentence};
use nvdla_runtime::session::{RunOptions, Session};
use nvdla_uapi::config::Config;

use crate::failure::{problem, Failure};

/// How many times the network runs: data of an earlier run in a cache shows only later.
const RUNS: usize = 8;
/// The time limit of a run of a network that takes microseconds on hardware.
const LIMIT: Duration = Duration::from_secs(10);
/// The time limit of a run that is to be ended by a reset: the device cannot end the network so soon.
const AT_ONCE: Duration = Duration::from_nanos(1);
/// Bytes of a cache line: stale data begins and ends at multiples of it.
const CACHE_LINE: usize = 32;

/// Options of `nvdla doctor`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The device: a render node, or a device that this process drives itself (vfio:, uio:, vfio-user:)
    #[arg(long, value_name = "DEVICE")]
    device: Selection,

    /// The configuration that the hardware should have
    #[arg(long, value_name = "CONFIG", value_parser = |name: &str| Config::named(name).map_err(|error| error.to_string()))]
    config: Option<&'static Config>,
}

/// Prints a step that has passed.
fn passed(step: &str, what: &str) -> Result<(), Failure> {
    Ok(print(&format!("ok    {step}: {what}\n"))?)
}

/// A step that has failed, and what to change.
fn failed(step: &str, what: &str, change: &str) -> Failure {
    match print(&format!("FAIL  {step}: {what}\n      {change}\n")) {
        Ok(()) => Box::new(Found(format!("{step}: {what}"))),
        Err(error) => error.into(),
    }
}

/// What is wrong with the device.
#[derive(Debug)]
pub(crate) struct Found(String);

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Found {}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let registers = "registers";
    let change = "If the registers read wrong numbers, compare the window's address with the device tree or with lspci, and look \
                  whether the clock runs and the reset is released. A window that is 4 bytes too high, or of another byte order, \
                  reads other numbers than expected.";
    match &args.device {
        Selection::Direct(selection) => {
            let device = DirectDevice::open(selection).map_err(|error| failed(registers, &sentence(&error), change))?;
            let polls = device.polls();
            examine(args, device, Some(&polls))
        }
        Selection::Path(path) => {
            let change = "`dmesg | grep nvdla` has the driver's reason; without the driver's node, `nvdla list` shows PCI functions.";
            let device = KernelDevice::open(path).map_err(|error| failed(registers, &sentence(&error), change))?;
            examine(args, device, None)
        }
        _ => Err(problem("--device must be hardware: a render node, vfio:, uio: or vfio-user:")),
    }
}

/// Checks an open device. `polls` becomes true when an interrupt was lost.
fn examine(args: &Args, device: impl Device, polls: Option<&AtomicBool>) -> Result<(), Failure> {
    let config = device.info().config.ok_or_else(|| problem("the driver does not tell the device's configuration"))?;
    passed("registers", &format!("{config_name} answers", config_name = config.name))?;
    if let Some(expected) = args.config.filter(|expected| expected.name != config.name) {
        let what = format!("the hardware has the registers of {}, not of {}", config.name, expected.name);
        let change = "Compile for the configuration that the hardware has, or change the `compatible` of its node.";
        return Err(failed("configuration", &what, change));
    }
    passed("configuration", config.name)?;

    let loadable = Arc::new(Loadable::from_bytes(network(config)?)?);
    let mut model = Session::new(Arc::clone(&loadable), ModelDevice::new(config))?;
    let mut session = Session::new(loadable, device)?;
    let options = |timeout| RunOptions { timeout: Some(timeout), ..RunOptions::default() };
    let began = Instant::now();
    for run in 0..RUNS {
        for (at, byte) in session.input_mut(0)?.iter_mut().enumerate() {
            *byte = ((at * 31 + run * 17) % 101) as u8;
        }
        let input = session.input_mut(0)?.to_vec();
        model.set_input(0, &input)?;
        model.run()?;
        if let Err(error) = session.run_with(options(LIMIT)) {
            let change = if error.is_timeout() {
                "The device takes its registers and does not end the operation: it cannot read its memory, or its core clock \
                 does not run. Look at the addresses that the bus and the IOMMU allow (dma-ranges, iommus), and at the clocks."
            } else {
                "The device was lost during an operation: look at power and clock domains, and at the kernel's messages."
            };
            return Err(failed("operation", &sentence(&error), change));
        }
        if run == 0 {
            passed("operation", "it ends")?;
            if polls.is_some_and(|polls| polls.load(Ordering::Relaxed)) {
                let change = "The status register shows the end, and no interrupt arrives. Compare number and trigger (level, high) \
                              with the device tree, and watch its count in /proc/interrupts.";
                return Err(failed("interrupt", "none arrived for an operation that ended", change));
            }
            match polls {
                Some(_) => passed("interrupt", &format!("it arrives, {:.1} ms", began.elapsed().as_secs_f64() * 1e3))?,
                None => passed(
                    "interrupt",
                    "the driver has it: `nvdla_runtime -v` tells lost ones, /proc/interrupts the count",
                )?,
            }
        }
        let (expected, found) = (model.output(0)?, session.output(0)?);
        if expected != found {
            return Err(differs(run, expected, found));
        }
    }
    passed("memory", &format!("{RUNS} runs give the model's bytes"))?;

    let ended = session.run_with(options(AT_ONCE)).is_err();
    session.run_with(options(LIMIT)).map_err(|error| {
        let change = "After a task that is ended early the device must be reset. Look at the reset line of its node (`resets`), \
                      or at the function-level reset of the PCI function.";
        failed("reset", &sentence(&error), change)
    })?;
    let (expected, found) = (model.output(0)?, session.output(0)?);
    if expected != found {
        return Err(differs(RUNS, expected, found));
    }
    passed(
        "reset",
        if ended {
            "the device works after a task that was ended early"
        } else {
            "not needed: no task could be ended early"
        },
    )
}

/// The failure of a run whose output is not the model's.
fn differs(run: usize, expected: &[u8], found: &[u8]) -> Failure {
    let wrong: Vec<usize> = (0..expected.len()).filter(|&at| expected[at] != found[at]).collect();
    let (count, all, first) = (wrong.len(), expected.len(), wrong.first().copied().unwrap_or_default());
    let what =
        format!("run {run}: {count} of {all} bytes of the output differ from the model's, the first at {first:#x}");
    failed("memory", &what, meaning(run, expected, found))
}

/// What the places of different bytes say, and what to change.
fn meaning(run: usize, expected: &[u8], found: &[u8]) -> &'static str {
    let pairs = expected.chunks(CACHE_LINE).zip(found.chunks(CACHE_LINE));
    let right = pairs.filter(|(expected, found)| expected == found).count();
    if found.iter().all(|&byte| byte == 0) {
        "The output is still empty: the device writes elsewhere. Its addresses are shifted (dma-ranges, the start of the reserved \
         memory), or its writes stay in a buffer of the bus."
    } else if run > 0 || right > 0 {
        "Some lines of a cache are old: the device does not see the processor's writes, or the processor not the device's. A node \
         must be `dma-coherent` only if the device is; without coherence use the module, or UIO, which copies."
    } else {
        "The device reads other memory than the processor has written: compare dma-ranges and the start of the reserved memory."
    }
}

/// A network of one convolution with several surfaces, lines and columns.
fn network(config: &'static Config) -> Result<Vec<u8>, Failure> {
    let mut graph = Graph::new("doctor");
    let input = graph.input("in", &[1, 16, 24, 24])?;
    let weights: Vec<f32> = (0..64 * 16 * 9).map(|at| ((at * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let weights = graph.add_constant("weights", &[64, 16, 3, 3], weights)?;
    let convolution =
        Convolution { kernel: [3, 3], stride: [1, 1], dilation: [1, 1], group: 1, padding: Padding::default() };
    let output = graph.add("conv", Op::Convolution(convolution), &[input, weights], "out")?;
    graph.outputs.push(output);
    let mut ranges = Ranges::new();
    ranges.set(input, Range::of(-1.0, 1.0));
    ranges.set(output, Range::of(-16.0, 16.0));
    let model = Model { graph, reshaped: Vec::new() };
    Ok(Compiler::new(config).compile_with(&model, &ranges)?.loadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_differ_tell_what_to_look_at() {
        let expected: Vec<u8> = (1..=128).collect();
        let mut stale = expected.clone();
        stale[40..64].fill(7);
        let other: Vec<u8> = expected.iter().map(|byte| byte ^ 0x55).collect();
        for (run, found, part) in [
            (0, &vec![0; 128], "writes elsewhere"),
            (0, &stale, "cache"),
            (1, &other, "cache"),
            (0, &other, "reads other memory"),
        ] {
            assert!(meaning(run, &expected, found).contains(part), "{part}");
        }
    }
}
