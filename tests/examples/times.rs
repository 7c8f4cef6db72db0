// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long compiled networks take, by the estimate of `nvdla_runtime --profile`, beside NVIDIA's loadables of the same
//! layers.
//!
//!     cargo run --release -p nvdla-tests --example times
//!     cargo run --release -p nvdla-tests --example times -- squeezenet nv_full
//!     cargo run --release -p nvdla-tests --example times -- --winograd
//!     cargo run --release -p nvdla-tests --example times -- --memory
//!
//! With a network and a configuration, each of its operations is shown. With `--winograd`, convolutions run in Winograd's mode where
//! that is faster. With `--memory`, runs of layers are computed in bands of lines where that shrinks the pool. The networks are
//! those of `nvdla_tests::zoo`, in int8; the conditions are the profile's defaults. NVIDIA's cycles are those of its fastest int8
//! loadable of a network among the reference data, and are missing without them. The conditions of both are the same.

use std::path::Path;
use std::time::Instant;

use nvdla_compiler::lower::{compile, Optimize, Options, Winograd};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::profile::{Conditions, Profile};
use nvdla_tests::{reference, zoo};
use nvdla_uapi::config::Config;

/// Network, side of the picture, configuration, and how the names of NVIDIA's loadables begin.
const ROWS: [(&str, usize, &str, &str); 15] = [
    ("resnet18", 224, "nv_full", "resnet18.nv_full.int8"),
    ("squeezenet", 127, "nv_full", "squeezenet.nv_full.int8"),
    ("squeezenet", 127, "nv_large", "squeezenet.nv_large.int8"),
    ("squeezenet", 127, "nv_small", "squeezenet.nv_small.int8"),
    ("unet", 32, "nv_full", "m_unet.nv_full.int8"),
    ("mnist_resnet", 28, "nv_full", "mnist_resnet.nv_full.int8"),
    ("mnist_resnet", 28, "nv_large", "mnist_resnet.nv_large.int8"),
    ("mnist_resnet", 28, "nv_small", "mnist_resnet.nv_small.int8"),
    ("resnet50_quarter", 64, "nv_full", "resnet50_quarter64.nv_full.int8"),
    ("resnet50_quarter", 64, "nv_large", "resnet50_quarter64.nv_large.int8"),
    ("resnet50_quarter", 64, "nv_small", "resnet50_quarter64.nv_small.int8"),
    ("mobilenet", 224, "nv_full", ""),
    ("mobilenet", 224, "nv_small", ""),
    ("squeezenet", 224, "nv_full", ""),
    ("resnet50", 224, "nv_full", ""),
];

fn profile(loadable: &Loadable, config: &'static Config) -> Result<Profile, String> {
    Profile::new(loadable, config, Conditions::default()).map_err(|error| error.to_string())
}

/// The cycles and the bytes of NVIDIA's fastest loadable of a network.
fn theirs(folder: &Path, begin: &str, config: &'static Config) -> Result<Option<(u64, u64)>, String> {
    let mut best: Option<(u64, u64)> = None;
    let entries = folder.join("loadables").read_dir().map_err(|error| error.to_string())?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Those of a batch of two take twice the time.
        if begin.is_empty() || !name.starts_with(begin) || name.ends_with(".b2") {
            continue;
        }
        let file = path.join("net.nvdla");
        let bytes = std::fs::metadata(&file).map_err(|error| error.to_string())?.len();
        let loadable = Loadable::open(&file).map_err(|error| error.to_string())?;
        let cycles = profile(&loadable, config)?.cycles();
        if best.is_none_or(|(least, _)| cycles < least) {
            best = Some((cycles, bytes));
        }
    }
    Ok(best)
}

fn main() -> Result<(), String> {
    let (options, arguments): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|a| a.starts_with("--"));
    let winograd = options.contains(&"--winograd".to_owned()).then_some(Winograd::Faster);
    let optimize = if options.contains(&"--memory".to_owned()) { Optimize::Memory } else { Optimize::Time };
    let wanted = |at: usize, value: &str| arguments.get(at).is_none_or(|wanted| wanted == value);
    let folder = match reference::find() {
        reference::Reference::Found(folder) => Some(folder),
        reference::Reference::Skipped(why) | reference::Reference::Missing(why) => {
            println!("{why}");
            None
        }
    };
    println!(
        "{:16} {:>4} {:9} {:>9} {:>9} {:>6} {:>10} {:>10} {:>10} {:>10} {:>9}",
        "network", "side", "", "cycles", "theirs", "ratio", "loadable", "theirs", "pool", "bound", "compiled"
    );
    for (name, side, config, begin) in ROWS {
        if !wanted(0, name) || !wanted(1, config) {
            continue;
        }
        let config = Config::by_name(config).ok_or("no such configuration")?;
        let graph = zoo::graph(name, side)?;
        let ranges = zoo::uniform(&graph, 6.0);
        let options = Options { inputs: vec![Some(zoo::preprocess())], winograd, optimize, ..Options::new(config) };
        let start = Instant::now();
        let compiled = compile(&graph, &ranges, &options).map_err(|error| format!("{name}: {error}"))?;
        let time = start.elapsed().as_secs_f64();
        let bytes = compiled.loadable.len();
        let loadable = Loadable::from_bytes(compiled.loadable).map_err(|error| error.to_string())?;
        let profile = profile(&loadable, config)?;
        let cycles = profile.cycles();
        let theirs = folder.as_ref().map(|folder| theirs(folder, begin, config)).transpose()?.flatten();
        let (their_cycles, ratio, their_bytes) = match theirs {
            Some((theirs, bytes)) => {
                (theirs.to_string(), format!("{:.2}", cycles as f64 / theirs as f64), bytes.to_string())
            }
            None => Default::default(),
        };
        println!(
            "{name:16} {side:>4} {:9} {cycles:>9} {their_cycles:>9} {ratio:>6} {bytes:>10} {their_bytes:>10} {:>10} \
             {:>10} {time:>7.2} s",
            config.name, compiled.report.pool, compiled.report.pool_bound
        );
        for run in compiled.report.division.iter().flat_map(|division| &division.runs) {
            let [first, last] = [run.first, run.last].map(|step| &compiled.report.steps[step].output);
            println!("    steps {} to {} (\"{first}\" to \"{last}\") in {} bands", run.first, run.last, run.bands);
        }
        if arguments.len() == 2 {
            for row in &profile.rows {
                println!(
                    "{:>4} {:>3} {:5} {:40} {:>9} {:>9} {:12} {}",
                    row.task,
                    row.operation,
                    format!("{:?}", row.unit),
                    row.shape,
                    row.cycles,
                    row.bytes.total(),
                    format!("{:?}", row.limit),
                    row.layer.as_deref().unwrap_or_default()
                );
            }
        }
    }
    Ok(())
}
