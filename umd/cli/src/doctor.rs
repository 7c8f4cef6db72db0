// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla doctor`: checks a device from its registers to its results, one step after another, and says what to change where a step
//! fails. The steps are those of a new board: the register window, the configuration, the interrupt, an operation that ends, the bytes
//! that the device reads and writes, the reset, and work after a task that was ended early.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use nvdla_compiler::compiler::Compiler;
use nvdla_compiler::import::model::Model;
use nvdla_compiler::ir::{Convolution, Graph, Op, Padding, Range, Ranges};
use nvdla_runtime::device::{Device, DirectDevice, InterruptCheck, KernelDevice, ModelDevice, ResetCheck, Selection};
use nvdla_runtime::loadable::{Loadable, Memory};
use nvdla_runtime::program::{print, sentence};
use nvdla_runtime::session::{Direction, RunOptions, Session};
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

/// What to change if registers read or hold other values than they should.
const WINDOW: &str = "If the registers read wrong numbers, compare the window's address with the device tree or with lspci, and look \
                      whether the clock runs and the reset is released. A window at a wrong address, or of another byte order, \
                      reads other numbers than expected.";
/// The trigger that the interrupt needs.
const TRIGGER: &str = "NVDLA's interrupt is a level, active high: the last cell of `interrupts` in a device tree is 4.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.device {
        Selection::Direct(selection) => {
            let device =
                DirectDevice::open(selection).map_err(|error| failed("registers", &sentence(&error), WINDOW))?;
            direct(args, device)
        }
        Selection::Path(path) => {
            let change = "`dmesg | grep nvdla` has the driver's reason; without the driver's node, `nvdla list` shows PCI functions.";
            let device = KernelDevice::open(path).map_err(|error| failed("registers", &sentence(&error), change))?;
            driven(args, device)
        }
        _ => Err(problem("--device must be hardware: a render node, vfio:, uio: or vfio-user:")),
    }
}

/// Checks a device that this process drives.
fn direct(args: &Args, mut device: DirectDevice) -> Result<(), Failure> {
    let config = known(&device)?;
    if let Some(wrong) = device.check_registers()? {
        return Err(failed("registers", &wrong.to_string(), WINDOW));
    }
    passed("registers", &format!("{} answers, and holds what is written", config.name))?;
    configuration(args, config)?;
    interrupt(&mut device)?;
    let mut case = Case::new(config)?;
    let polls = device.polls();
    operations(&mut case, &mut device, Some(&polls))?;
    let ends = ends(&mut case, &mut device)?;
    arrived(Some(&polls))?;
    passed("memory", &format!("{RUNS} runs give the model's bytes{ends}"))?;
    reset(&mut device)?;
    recovery(&mut case, &mut device, Some(&polls))
}

/// Checks a device of a kernel driver, whose registers only the driver accesses.
fn driven(args: &Args, mut device: KernelDevice) -> Result<(), Failure> {
    let config = known(&device)?;
    passed("registers", &format!("{} answers", config.name))?;
    configuration(args, config)?;
    passed("interrupt", "the driver has it: `nvdla_runtime -v` tells lost ones, /proc/interrupts the count")?;
    let mut case = Case::new(config)?;
    operations(&mut case, &mut device, None)?;
    passed("memory", &format!("{RUNS} runs give the model's bytes"))?;
    recovery(&mut case, &mut device, None)
}

/// The device's configuration.
fn known(device: &impl Device) -> Result<&'static Config, Failure> {
    device.info().config.ok_or_else(|| problem("the driver does not tell the device's configuration"))
}

/// Compares the device's configuration with the expected one.
fn configuration(args: &Args, config: &Config) -> Result<(), Failure> {
    if let Some(expected) = args.config.filter(|expected| expected.name != config.name) {
        let what = format!("the hardware has the registers of {}, not of {}", config.name, expected.name);
        let change = "Compile for the configuration that the hardware has, or change the `compatible` of its node.";
        return Err(failed("configuration", &what, change));
    }
    passed("configuration", config.name)
}

/// Sets bits of the interrupt's status, and looks whether an interrupt arrives for each.
fn interrupt(device: &mut DirectDevice) -> Result<(), Failure> {
    let (what, change) = match device.check_interrupt()? {
        InterruptCheck::Arrives(time) => {
            return passed("interrupt", &format!("it arrives, {:.1} ms", time.as_secs_f64() * 1e3));
        }
        InterruptCheck::NotSet(wrong) => (wrong.to_string(), WINDOW.to_owned()),
        InterruptCheck::Once => (
            "the line stays high after an interrupt, and no second one arrives".to_owned(),
            format!("The trigger is an edge. {TRIGGER}"),
        ),
        InterruptCheck::WithoutCause => (
            "interrupts arrive while no bit of the status is set".to_owned(),
            format!("The trigger is a low level, or another device has the line. {TRIGGER}"),
        ),
        _ => (
            "none arrives for a bit of the status that was set".to_owned(),
            format!(
                "Compare its number with the device tree (`interrupts`) or with lspci, and watch its count in /proc/interrupts: a \
                 count that stays means another number, or a line that is not connected. Then the trigger: {TRIGGER}"
            ),
        ),
    };
    Err(failed("interrupt", &what, &change))
}

/// A network, and the model that computes its results.
struct Case {
    loadable: Arc<Loadable>,
    model: Session<ModelDevice>,
}

impl Case {
    fn new(config: &'static Config) -> Result<Self, Failure> {
        let loadable = Arc::new(Loadable::from_bytes(network(config)?)?);
        let model = Session::new(Arc::clone(&loadable), ModelDevice::new(config))?;
        Ok(Self { loadable, model })
    }

    /// Gives both an input, which depends on the number, and computes the model's output.
    fn fill<D: Device>(&mut self, session: &mut Session<D>, number: usize) -> Result<(), Failure> {
        for (at, byte) in session.input_mut(0)?.iter_mut().enumerate() {
            *byte = ((at * 31 + number * 17) % 101) as u8;
        }
        let input = session.input_mut(0)?.to_vec();
        self.model.set_input(0, &input)?;
        self.model.run()?;
        Ok(())
    }
}

/// The options of a run with that time limit.
fn within(timeout: Duration) -> RunOptions<'static> {
    RunOptions { timeout: Some(timeout), ..RunOptions::default() }
}

/// Fails if an operation was seen to end without an interrupt.
fn arrived(polls: Option<&AtomicBool>) -> Result<(), Failure> {
    if !polls.is_some_and(|polls| polls.load(Ordering::Relaxed)) {
        return Ok(());
    }
    let change = "The status register shows the end, and no interrupt arrives, although the interrupt came for a bit that software has set: \
                  interrupts get lost. Compare its trigger, and watch its count in /proc/interrupts.";
    Err(failed("interrupt", "none arrived for an operation that ended", &format!("{change} {TRIGGER}")))
}

/// Runs the network on several inputs. `polls` becomes true when an interrupt was lost.
fn operations(case: &mut Case, device: &mut impl Device, polls: Option<&AtomicBool>) -> Result<(), Failure> {
    let mut session = Session::new(Arc::clone(&case.loadable), device)?;
    for run in 0..RUNS {
        case.fill(&mut session, run)?;
        if let Err(error) = session.run_with(within(LIMIT)) {
            let change = if error.is_timeout() {
                "The device takes its registers and does not end the operation: it cannot read its memory, or a clock of its units \
                 does not run. Compare the addresses that the bus and the IOMMU allow (dma-ranges, iommus) with the start of the \
                 reserved memory; `dmesg` has the accesses that an IOMMU refuses. Then look at the clocks."
            } else {
                "The device was lost during an operation: look at power and clock domains, and at the kernel's messages."
            };
            return Err(failed("operation", &sentence(&error), change));
        }
        arrived(polls)?;
        if run == 0 {
            passed("operation", "it ends")?;
        }
        let (expected, found) = (case.model.output(0)?, session.output(0)?);
        if expected != found {
            return Err(differs(run, expected, found));
        }
    }
    Ok(())
}

/// Runs the network with its input and its output at both ends of the device's memory, if it has a part of the machine's. Returns what
/// to say of that.
fn ends(case: &mut Case, device: &mut DirectDevice) -> Result<String, Failure> {
    let Some(memory) = device.reserved() else { return Ok(String::new()) };
    let change = "The bus reaches a part of the reserved memory only. Give the device less memory, or compare dma-ranges and the window \
                  of the port behind DBBIF with the memory's addresses.";
    let sizes = [
        (Direction::Input, case.loadable.inputs().next().map_or(0, Memory::size)),
        (Direction::Output, case.loadable.outputs().next().map_or(0, Memory::size)),
    ];
    let top_down = device.top_down();
    // The start of the memory has been used already. The other buffers lie at the other end.
    for (which, last, address) in [("last", true, memory.end - 1), ("first", false, memory.start)] {
        for (direction, size) in sizes {
            top_down.store(!last, Ordering::Relaxed);
            let mut session = Session::new(Arc::clone(&case.loadable), &mut *device)?;
            top_down.store(last, Ordering::Relaxed);
            let buffer = session.allocate(size)?;
            session.bind(direction, 0, buffer)?;
            case.fill(&mut session, RUNS)?;
            let place = format!("the {direction} at the {which} byte of the memory, {address:#x}");
            session
                .run_with(within(LIMIT))
                .map_err(|error| failed("memory", &format!("{place}: {}", sentence(&error)), change))?;
            if case.model.output(0)? != session.output(0)? {
                return Err(failed("memory", &format!("{place}: the output is not the model's"), change));
            }
        }
    }
    top_down.store(false, Ordering::Relaxed);
    Ok(format!(", also at the first and the last byte of {:#x}..{:#x}", memory.start, memory.end))
}

/// Looks whether a reset clears registers.
fn reset(device: &mut DirectDevice) -> Result<(), Failure> {
    let change = "The reset does not reach the NVDLA. On a PCI card the function-level reset of the endpoint must reset the NVDLA behind it \
                  (dla_reset_rstn); of a platform device compare `resets` and the polarity of the line. Until then the runtime waits \
                  until the device is idle and writes the registers' values itself: a device that hangs takes no more tasks \
                  until it is powered off.";
    match device.check_reset() {
        Ok(ResetCheck::Works) => passed("reset", "it clears registers"),
        Ok(ResetCheck::NotWritten(wrong)) => Err(failed("registers", &wrong.to_string(), WINDOW)),
        Ok(ResetCheck::WithoutEffect { kept, all, first }) => {
            let what = format!("{kept} of {all} registers hold after it what was written before: {first}");
            Err(failed("reset", &what, change))
        }
        Ok(_) => Ok(print(
            "none  reset: the kernel cannot reset this device, so one that hangs takes no more tasks until it is powered off\n",
        )?),
        Err(error) => Err(failed("reset", &sentence(&error), change)),
    }
}

/// Ends a run early, and runs the network again.
fn recovery(case: &mut Case, device: &mut impl Device, polls: Option<&AtomicBool>) -> Result<(), Failure> {
    let mut session = Session::new(Arc::clone(&case.loadable), device)?;
    case.fill(&mut session, RUNS)?;
    let ended = session.run_with(within(AT_ONCE)).is_err();
    session.run_with(within(LIMIT)).map_err(|error| {
        let change = "After a task that is ended early the device must be reset. Look at the reset line of its node (`resets`), \
                      or at the function-level reset of the PCI function.";
        failed("recovery", &sentence(&error), change)
    })?;
    let (expected, found) = (case.model.output(0)?, session.output(0)?);
    if expected != found {
        return Err(differs(RUNS, expected, found));
    }
    arrived(polls)?;
    passed(
        "recovery",
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

/// A network of one convolution with several surfaces, lines and columns. Its input and its output fill whole pages.
fn network(config: &'static Config) -> Result<Vec<u8>, Failure> {
    let mut graph = Graph::new("doctor");
    let input = graph.input("in", &[1, 16, 32, 32])?;
    let weights: Vec<f32> = (0..64 * 16 * 9).map(|at| ((at * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let weights = graph.add_constant("weights", &[64, 16, 3, 3], weights)?;
    let convolution = Convolution {
        kernel: [3, 3],
        stride: [1, 1],
        dilation: [1, 1],
        group: 1,
        padding: Padding { top: 1, left: 1, bottom: 1, right: 1 },
    };
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
