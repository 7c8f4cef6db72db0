// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla bench`: how many runs per second, and how long each takes.
//!
//! Each concurrent run has its own context. A run's time is from its submission to its end. It therefore grows with the
//! number of concurrent runs if the device runs one after another. The time of the submitting call is shown beside the
//! time of the device's own calls in it, which on this project's driver are ioctls.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use hdrhistogram::Histogram;
use nvdla_compiler::arguments::{configuration, shape};
use nvdla_compiler::compiler::Compiler;
use nvdla_compiler::import::model::{Model, Options};
use nvdla_runtime::configuration::Board;
use nvdla_runtime::device::{self, Device as _, Selection, Shared};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::program::print;
use nvdla_runtime::{Context, Network, Pending};
use nvdla_uapi::reg::values;

use crate::failure::{problem, Failure};
use crate::json::{Bench, Distribution, Output, VERSION};
use crate::run;
use crate::timed::Timed;

/// Options of `nvdla bench`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A network (ONNX, TFLite or NCNN), which is compiled for --config. Without samples its values are not those of the network,
    /// and its times are
    #[arg(
        value_name = "MODEL",
        requires = "config",
        required_unless_present = "loadable",
        conflicts_with = "loadable"
    )]
    model: Option<PathBuf>,

    /// The loadable; "-" is the standard input
    #[arg(long, value_name = "FILE")]
    loadable: Option<PathBuf>,

    /// The configuration for which MODEL is compiled
    #[arg(long, value_name = "NAME", requires = "model", value_parser = configuration)]
    config: Option<Board>,

    /// The precision in which MODEL is compiled
    #[arg(long, value_enum, default_value_t = Precision::Int8, requires = "model")]
    precision: Precision,

    /// The shape of an input of MODEL with dimensions that it does not fix
    #[arg(long, value_name = "NAME=1x3x224x224", value_parser = shape, requires = "model")]
    shape: Vec<(String, Vec<usize>)>,

    /// The device, as for `nvdla run`
    #[arg(long, value_name = "DEVICE")]
    device: Option<Selection>,

    /// End after this many runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,

    /// End after this many seconds [default: 5, or no limit with --iterations]
    #[arg(long, value_name = "SECONDS", value_parser = nvdla_compiler::arguments::positive)]
    duration: Option<f64>,

    /// Runs per context before the measurement
    #[arg(long, value_name = "N", default_value_t = 3)]
    warmup: u32,

    /// The number of runs in flight at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    in_flight: u16,

    /// Print the results as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A precision in which a network can be compiled without samples.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Precision {
    Int8,
    Fp16,
}

/// A run in flight.
struct InFlight {
    context: Context,
    pending: Pending,
    since: Instant,
    /// How long the submitting call took.
    call: Duration,
}

fn submit(mut context: Context) -> Result<InFlight, Failure> {
    let since = Instant::now();
    let pending = context.submit()?;
    Ok(InFlight { context, pending, since, call: since.elapsed() })
}

/// Bytes of this process that are in memory.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<u64>().ok()? * 4096)
}

/// The loadable, and the file of which it is.
fn loadable(args: &Args) -> Result<(&Path, Loadable), Failure> {
    let (Some(path), Some(board)) = (&args.model, &args.config) else {
        let path = args.loadable.as_deref().ok_or_else(|| problem("neither MODEL nor --loadable is given"))?;
        return Ok((path, run::open_loadable(path)?));
    };
    let options = Options { shapes: args.shape.iter().cloned().collect(), ..Options::default() };
    let model = Model::open(path, &options)?;
    let compiler = Compiler::new(board.config).conditions(board.conditions).precision(match args.precision {
        Precision::Int8 => values::Precision::Int8,
        Precision::Fp16 => values::Precision::Fp16,
    });
    Ok((path, Loadable::from_bytes(compiler.uncalibrated(&model)?.loadable)?))
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (name, loadable) = loadable(args)?;
    let loadable = Arc::new(loadable);
    let opened = device::open(&run::or_environment(args.device.clone())?, &loadable)?;
    let (reason, queue) = (opened.reason, opened.device.has_queue());
    let (device, spent) = Timed::new(opened.device);
    let device = Shared::new(device);
    let network = Network::new(Arc::<Loadable>::clone(&loadable), &device)?;
    // More contexts than runs would only be made and warmed up.
    let contexts = args.iterations.map_or(args.in_flight.into(), |most| most.min(args.in_flight.into()));
    let mut idle = (0..contexts).map(|_| network.context()).collect::<Result<VecDeque<_>, _>>()?;
    for context in &mut idle {
        for _ in 0..args.warmup {
            context.run()?;
        }
    }
    let mut times = Histogram::<u64>::new(3).map_err(|error| problem(error.to_string()))?;
    let seconds = args.duration.or(if args.iterations.is_some() { None } else { Some(5.0) });
    let (began, warmed) = (Instant::now(), spent.load(Ordering::Relaxed));
    let mut calls = Duration::ZERO;
    // A time that the clock cannot represent is no limit.
    let end = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).and_then(|limit| began.checked_add(limit));
    let mut flying = VecDeque::new();
    let mut submitted = 0;
    loop {
        let more = args.iterations.is_none_or(|most| submitted < most) && end.is_none_or(|end| Instant::now() < end);
        if let (true, Some(context)) = (more, if more { idle.pop_front() } else { None }) {
            flying.push_back(submit(context)?);
            submitted += 1;
            continue;
        }
        // Runs of a device end in the order in which they were submitted.
        let Some(InFlight { context, pending, since, call }) = flying.pop_front() else { break };
        pending.wait(None)?;
        calls += call;
        times.record(since.elapsed().as_nanos() as u64).map_err(|error| problem(error.to_string()))?;
        idle.push_back(context);
    }
    let took = began.elapsed().as_secs_f64();
    let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    let at = |quantile| ms(times.value_at_quantile(quantile));
    let per_second = times.len() as f64 / took;
    let submit = calls.as_secs_f64() * 1e6 / times.len() as f64;
    let own = (spent.load(Ordering::Relaxed) - warmed) as f64 / 1e3 / times.len() as f64;
    if args.json {
        let milliseconds = Distribution {
            mean: times.mean() / 1e6,
            least: ms(times.min()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            greatest: ms(times.max()),
        };
        let bench = Output::Bench(Bench {
            version: VERSION,
            loadable: name.display().to_string(),
            device: device.info().to_string(),
            in_flight: args.in_flight,
            warmup: args.warmup,
            iterations: times.len(),
            seconds: took,
            per_second,
            milliseconds,
            submit_microseconds: submit,
            device_microseconds: own,
            queue,
            shared_bytes: network.shared_bytes(),
            resident_bytes: resident(),
        });
        return Ok(print(&(serde_json::to_string_pretty(&bench)? + "\n"))?);
    }
    let mut out = String::new();
    writeln!(out, "device: {}: {reason}", device.info())?;
    writeln!(out, "{} runs in {took:.3} s, {} in flight: {per_second:.1} per second", times.len(), args.in_flight)?;
    writeln!(
        out,
        "time of a run in ms: mean {:.3}, p50 {:.3}, p90 {:.3}, p99 {:.3}, least {:.3}, greatest {:.3}",
        times.mean() / 1e6,
        at(0.5),
        at(0.9),
        at(0.99),
        ms(times.min()),
        ms(times.max())
    )?;
    let what = if queue { "in the driver's ioctls" } else { "on the device" };
    writeln!(out, "submitting a run takes {submit:.1} us; each run spends {own:.1} us {what}")?;
    let resident = resident().map_or_else(|| "unknown".to_owned(), |bytes| format!("{} kB", bytes >> 10));
    writeln!(
        out,
        "memory: {} kB of constants, shared by all contexts; resident memory of this process: {resident}",
        network.shared_bytes() >> 10
    )?;
    Ok(print(&out)?)
}
