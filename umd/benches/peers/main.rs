// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whole networks on the built-in model, compared with ONNX Runtime's CPU provider and with the machine's own limit, in one run
//! and with the same number of threads.
//!
//! The peer's network is made from the loadable: the same layers and shapes, random weights (`tools/peers`). The limit is the
//! time of the network's multiplications at the rate of a loop of only the int8 multiply instruction.
//!
//! Each time is the best of three rounds of one second: processor time with one thread, wall-clock time with several. The peer
//! and the model run alternately, because other work on the machine can slow either of them for seconds.
//!
//! Networks: the project's LeNet and a ResNet-50 that its compiler makes; with the reference data (`NVDLA_REFERENCE`, else
//! `../shared/nvdla` beside the checkout) those of NVIDIA's compiler too. Arguments choose networks by parts of names.
//! ONNX Runtime is installed from PyPI into `target/peers` the first time.

mod export;
#[path = "../../../tools/model/benches/peak/mod.rs"]
mod peak;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nvdla_model::num::convert::fp32_to_fp16;
use nvdla_model::Isa;
use nvdla_runtime::device::{recognise, ModelDevice};
use nvdla_runtime::loadable::{DataType, Loadable};
use nvdla_runtime::profile::{Conditions, Profile};
use nvdla_runtime::session::Session;
use nvdla_tests::resnet;
use nvdla_uapi::config::{Config, NV_FULL};
use serde_json::Value;

const REFERENCE: [&str; 7] = [
    "lenet.nv_small.int8.default",
    "lenet.nv_full.fp16.default",
    "mnist_resnet.nv_full.fp16.default",
    "squeezenet.nv_large.int8.per-kernel",
    "squeezenet.nv_full.fp16",
    "resnet50_quarter64.nv_full.int8.per-filter",
    "resnet18.nv_full.int8.per-filter",
];

/// The number of rounds in which the peer and the model alternate.
const TURNS: usize = 3;

struct Network {
    name: String,
    loadable: Loadable,
    /// The same network with an operation per layer, if the loadable's operations are not the network's layers.
    plain: Option<Loadable>,
    config: &'static Config,
}

/// A loadable that is compiled for nv_full.
fn own<E: ToString>(make: fn(&'static Config) -> Result<Vec<u8>, E>) -> Result<Loadable, String> {
    let bytes = make(&NV_FULL).map_err(|error| error.to_string())?;
    Loadable::from_bytes(bytes).map_err(|error| error.to_string())
}

fn networks(wanted: impl Fn(&str) -> bool) -> Result<Vec<Network>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let open = |path: &Path| Loadable::open(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut found = Vec::new();
    if wanted("lenet (ours)") {
        found.push(("lenet (ours)".to_string(), open(&root.join("examples/lenet/lenet.nvdla"))?));
    }
    if wanted("resnet50 (ours)") {
        found.push(("resnet50 (ours)".to_string(), own(resnet::loadable)?));
    }
    let reference = std::env::var_os("NVDLA_REFERENCE").map_or_else(|| root.join("../shared/nvdla"), PathBuf::from);
    for name in REFERENCE.into_iter().filter(|name| wanted(name)) {
        let path = reference.join("loadables").join(name).join("net.nvdla");
        if path.exists() {
            found.push((name.to_string(), open(&path)?));
        }
    }
    let network = |(name, loadable)| {
        let (config, plain) = if name == "resnet50 (ours)" {
            (&NV_FULL, Some(own(resnet::layers)?))
        } else {
            (recognise(&loadable).config, None)
        };
        Ok(Network { name, loadable, plain, config })
    };
    found.into_iter().map(network).collect()
}

/// Python with ONNX Runtime, which is installed if it is missing.
fn python() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let requirements = root.join("tools/peers/requirements.txt");
    let home = root.join("target/peers");
    let (python, installed) = (home.join("bin/python3"), home.join("requirements.txt"));
    let wanted = std::fs::read(&requirements).map_err(|error| format!("{}: {error}", requirements.display()))?;
    if std::fs::read(&installed).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    eprintln!("installing ONNX Runtime into {}", home.display());
    let run = |command: &mut Command, what: &str| match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(format!("{what}: {}", text.trim().lines().last().unwrap_or("it failed")))
        }
        Err(error) => Err(format!("{what}: {error}")),
    };
    run(Command::new("python3").args(["-m", "venv"]).arg(&home), "python3 -m venv (Python 3 with venv is needed)")?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&requirements);
    run(&mut pip, "pip install of onnxruntime (PyPI must be reachable)")?;
    std::fs::write(&installed, wanted).map_err(|error| format!("{}: {error}", installed.display()))?;
    Ok(python)
}

/// ONNX Runtime's times of a network, as `tools/peers/peers.py` prints them.
fn peer(python: &Path, network: &Network, threads: &[usize]) -> Result<Value, String> {
    let layers = export::export(&network.name, network.plain.as_ref().unwrap_or(&network.loadable))?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/peers/peers.py");
    let mut command = Command::new(python);
    command.arg(script).args(threads.iter().map(ToString::to_string)).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    if let Some(mut input) = child.stdin.take() {
        // If the script ends early, its output has the reason.
        let _ = input.write_all(layers.to_string().as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text.trim().lines().last().unwrap_or("it failed").to_string());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// The current time in seconds: with one thread the processor time of the process, so that other work on the machine does not
/// count; with several the wall-clock time, which shows how well the threads share the work.
fn clock(threads: usize) -> f64 {
    let id = if threads == 1 { libc::CLOCK_PROCESS_CPUTIME_ID } else { libc::CLOCK_MONOTONIC };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists and `time` is written to.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Milliseconds of the model's best run with that many threads.
fn model(network: &Network, threads: usize) -> Result<f64, String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| error.to_string())?;
    pool.install(|| {
        let loadable = Loadable::from_bytes(network.loadable.as_bytes()).map_err(|error| error.to_string())?;
        let session = Session::new(loadable, ModelDevice::new(network.config));
        let mut session = session.map_err(|error| error.to_string())?;
        let half = session.inputs().next().is_some_and(|tensor| tensor.data_type == DataType::Half);
        let bytes = session.input_mut(0).map_err(|error| error.to_string())?;
        // Noise around zero, as input.
        let noise = |at: usize| (at.wrapping_mul(0x9e37_79b1) >> 11) as u8;
        if half {
            for (at, element) in bytes.chunks_exact_mut(2).enumerate() {
                let value = f32::from(noise(at) as i8) / 64.0;
                element.copy_from_slice(&fp32_to_fp16(value.to_bits()).to_le_bytes());
            }
        } else {
            bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = noise(at));
        }
        let mut best = f64::INFINITY;
        session.run().map_err(|error| error.to_string())?;
        let begin = Instant::now();
        for run in 0.. {
            if run >= 5 && begin.elapsed() > Duration::from_secs(1) {
                break;
            }
            let start = clock(threads);
            session.run().map_err(|error| error.to_string())?;
            best = best.min((clock(threads) - start) * 1e3);
        }
        Ok(best)
    })
}

fn run() -> Result<(), String> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let networks = networks(|name| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())))?;
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let threads: Vec<usize> = if all > 1 { vec![1, all] } else { vec![1] };
    let isa = Isa::in_use().map_err(|error| format!("NVDLA_ISA: {error}"))?;
    let peak = peak::peak(isa);
    match peak {
        Some(peak) => println!("one thread of {} multiplies {:.0} int8 GMAC/s at most", isa.name(), peak / 1e9),
        None => println!("no limit is known for {}", isa.name()),
    }
    let python = python().map_err(|error| eprintln!("only the model is measured: {error}")).ok();
    println!("| network | million MACs | threads | limit | the model | ONNX Runtime int8 | fp32 | to int8 | to fp32 |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut version = None;
    for network in &networks {
        let profile = Profile::new(&network.loadable, network.config, Conditions::default());
        let macs = profile.map_err(|error| error.to_string())?.macs();
        let turns = (0..TURNS).map(|_| {
            let peer = python.as_deref().map(|python| peer(python, network, &threads));
            let peer = peer.and_then(|peer| peer.map_err(|error| eprintln!("{}: no peer: {error}", network.name)).ok());
            let models = threads.iter().map(|&count| model(network, count)).collect::<Result<Vec<_>, _>>()?;
            Ok((peer, models))
        });
        let turns = turns.collect::<Result<Vec<_>, String>>()?;
        let best = |times: &mut dyn Iterator<Item = f64>| times.reduce(f64::min);
        for (index, &count) in threads.iter().enumerate() {
            let model = best(&mut turns.iter().map(|(_, models)| models[index])).unwrap_or(f64::NAN);
            let limit = peak.map(|peak| macs as f64 / peak / count as f64 * 1e3);
            let time_of = |peer: &Value, form: &str| peer.get(form)?.get(count.to_string())?.as_f64();
            let peers = || turns.iter().filter_map(|(peer, _)| peer.as_ref());
            let of = |form: &str| best(&mut peers().filter_map(|peer| time_of(peer, form)));
            let digits = |time: f64| if time < 1.0 { 3 } else { 2 };
            let time = |time: Option<f64>| time.map_or("-".into(), |time| format!("{time:.*} ms", digits(time)));
            let ratio = |time: Option<f64>| time.map_or("-".into(), |time| format!("{:.2}", model / time));
            println!(
                "| {} | {} | {count} | {} | {} | {} | {} | {} | {} |",
                network.name,
                macs / 1_000_000,
                time(limit),
                time(Some(model)),
                time(of("int8")),
                time(of("fp32")),
                ratio(of("int8")),
                ratio(of("fp32")),
            );
        }
        let found = || Some(turns.iter().find_map(|(peer, _)| peer.as_ref())?.get("version")?.as_str()?.to_string());
        version = version.or_else(found);
    }
    if let Some(version) = version {
        println!("ONNX Runtime {version}; \"to int8\" and \"to fp32\" are the model's time over its.");
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
