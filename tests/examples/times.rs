// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long compiled networks take, by the estimate of `nvdla_runtime --profile`, beside NVIDIA's loadables of the same
//! layers.
//!
//!     cargo run --release -p nvdla-tests --example times
//!     cargo run --release -p nvdla-tests --example times -- squeezenet nv_full
//!     cargo run --release -p nvdla-tests --example times -- --winograd
//!     cargo run --release -p nvdla-tests --example times -- --memory
//!     cargo run --release -p nvdla-tests --example times -- --size
//!     cargo run --release -p nvdla-tests --example times -- --size --layer
//!     cargo run --release -p nvdla-tests --example times -- --sram 512K
//!     cargo run --release -p nvdla-tests --example times -- --primer
//!     cargo run --release -p nvdla-tests --example times -- --primer --batch 4
//!
//! With a network and a configuration, each of its operations is shown. With `--winograd`, convolutions run in Winograd's mode where
//! that is faster. With `--memory`, runs of layers are computed in bands of lines where that shrinks the pool, and with `--size`
//! each layer is computed as a whole. With `--layer`, the weights of a layer have one scale, as in NVIDIA's loadable of SqueezeNet for
//! nv_large. The networks are those of `nvdla_tests::zoo`, in int8; the conditions are the profile's defaults. NVIDIA's cycles are
//! those of its fastest int8 loadable of a network among the reference data, and are missing without them. The conditions of both are
//! the same.
//!
//! With `--sram` and a size, the cycles of a few networks are shown without SRAM and with tensors in SRAM of that size, with DRAM
//! of 10 and of 2 GB/s.

//!
//! With `--primer`, frames per second of seven networks for the configurations and bandwidths of NVIDIA's primer at 1 GHz, with the
//! bounds of `--profile` beside them. NVIDIA's figures are those of the primer for ResNet-50 (`nvdla.org/primer.html`, "Performance
//! and area"). With `--batch`, a run computes that many pictures.

use std::path::Path;
use std::time::Instant;

use nvdla_compiler::options::size;
use nvdla_compiler::options::{Optimize, Options, Winograd};
use nvdla_compiler::pipeline::compile;
use nvdla_compiler::quantize::Granularity;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::profile::{Bounds, Conditions, Profile};
use nvdla_tests::{reference, zoo};
use nvdla_uapi::config::{Config, NV_FULL};

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

/// Networks, sides of the picture, and configurations that are compiled with SRAM.
const WITH_SRAM: [(&str, usize); 5] =
    [("resnet18", 224), ("resnet50", 224), ("mobilenet", 224), ("squeezenet", 224), ("squeezenet", 127)];
const SRAM_CONFIGURATIONS: [&str; 2] = ["nv_full", "nv_large"];
/// Bandwidths of DRAM in GB/s.
const BANDWIDTHS: [f64; 2] = [10.0, 2.0];

/// Configurations, bandwidths of DRAM in GB/s, and the frames per second of NVIDIA's primer.
const PRIMER: [(&str, f64, Option<f64>); 8] = [
    ("nv_full", 20.0, Some(269.0)),
    ("nv_large", 20.0, Some(269.0)),
    ("nv_medium_1024_full", 15.0, Some(153.0)),
    ("nv_medium_512", 10.0, Some(93.0)),
    ("nv_small_256_full", 5.0, Some(46.0)),
    ("nv_small_256", 5.0, Some(46.0)),
    ("nv_small", 1.0, Some(7.3)),
    ("nv_small", 4.0, None),
];
/// Networks and sides of the picture for the primer's configurations.
const PRIMER_NETWORKS: [(&str, usize); 7] = [
    ("resnet50_v1", 224),
    ("resnet50", 224),
    ("mobilenet", 224),
    ("squeezenet", 224),
    ("efficientnet_lite0", 224),
    ("yolov8n", 320),
    ("yolov8n_silu", 320),
];

/// Frames per second under the primer's conditions.
fn primer(options: &Options, wanted: impl Fn(usize, &str) -> bool) -> Result<(), String> {
    println!("frames per second, and the bounds of layers and of the network (their shares of the time); operations; NVIDIA's");
    for (name, side) in PRIMER_NETWORKS.into_iter().filter(|(name, _)| wanted(0, name)) {
        let graph = zoo::graph(name, side)?;
        let ranges = zoo::uniform(&graph, 6.0);
        for (config, dram, theirs) in PRIMER.into_iter().filter(|(config, ..)| wanted(1, config)) {
            let config = Config::by_name(config).ok_or("no such configuration")?;
            let conditions = Conditions { dram, ..Conditions::default() };
            let start = Instant::now();
            let compiled = compile(&graph, &ranges, &Options { config, conditions, ..options.clone() });
            let compiled = match compiled {
                Ok(compiled) => compiled,
                Err(error) => {
                    let error = error.to_string();
                    println!("{name:12} {:20} {}", config.name, error.lines().next().unwrap_or_default());
                    continue;
                }
            };
            let seconds = start.elapsed().as_secs_f64();
            let bytes = compiled.loadable.len();
            let loadable = Loadable::from_bytes(compiled.loadable).map_err(|error| error.to_string())?;
            let profile = Profile::new(&loadable, config, conditions).map_err(|error| error.to_string())?;
            let Bounds { layers, whole } = profile.bounds();
            let cycles = profile.cycles() as f64;
            let frames = |cycles: f64| 1e9 * f64::from(options.pictures) / cycles;
            print!(
                "{name:12} {:20} {dram:>4} GB/s {:>7.1} {:>7.1} ({:.2}) {:>7.1} ({:.2}) {:>5} {bytes:>10} bytes",
                config.name,
                frames(cycles),
                frames(layers as f64),
                cycles / layers as f64,
                frames(whole as f64),
                cycles / whole as f64,
                profile.rows.len()
            );
            let theirs = theirs.filter(|_| name == "resnet50_v1");
            let theirs = theirs.map_or(String::new(), |theirs| format!("{theirs}"));
            println!(" {theirs:>5} {seconds:>6.2} s");
            if !wanted(0, "") && !wanted(1, "") {
                rows(&profile);
            }
        }
    }
    Ok(())
}

/// Shows the operations of a network.
fn rows(profile: &Profile) {
    for row in &profile.rows {
        println!(
            "{:>4} {:>3} {:5} {:40} {:>9} {:>9} {:>9} {:>9} {:12} {}",
            row.task,
            row.operation,
            format!("{:?}", row.unit),
            row.shape,
            row.group,
            row.cycles,
            row.busy,
            row.bytes.total(),
            format!("{:?}", row.group_limit),
            row.layer.as_deref().unwrap_or_default()
        );
    }
}

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

/// The cycles of networks without SRAM and with that many bytes of it.
fn with_sram(sram: u64, options: &Options, wanted: impl Fn(usize, &str) -> bool) -> Result<(), String> {
    println!("DRAM of {BANDWIDTHS:?} GB/s, SRAM of {sram} bytes; cycles without SRAM, with SRAM, and their ratio");
    for (name, side) in WITH_SRAM {
        for config in SRAM_CONFIGURATIONS {
            if !wanted(0, name) || !wanted(1, config) {
                continue;
            }
            let config = Config::by_name(config).ok_or("no such configuration")?;
            let graph = zoo::graph(name, side)?;
            let ranges = zoo::uniform(&graph, 6.0);
            let mut cycles = Vec::new();
            let mut reports = Vec::new();
            for sram in [0, sram] {
                let options = Options { config, sram, ..options.clone() };
                let compiled = compile(&graph, &ranges, &options).map_err(|error| format!("{name}: {error}"))?;
                let loadable = Loadable::from_bytes(compiled.loadable).map_err(|error| error.to_string())?;
                for dram in BANDWIDTHS {
                    let conditions = Conditions { dram, ..Conditions::default() };
                    let profile = Profile::new(&loadable, config, conditions).map_err(|error| error.to_string())?;
                    cycles.push(profile.cycles());
                }
                reports.push(compiled.report);
            }
            print!("{name:16} {side:>4} {:9}", config.name);
            for (without, with) in cycles.iter().zip(&cycles[BANDWIDTHS.len()..]) {
                print!(" {without:>9} {with:>9} {:.3}", *with as f64 / *without as f64);
            }
            let [before, after] = [&reports[0], &reports[1]];
            let count = |sram| after.buffers.iter().filter(|buffer| buffer.sram == sram).count();
            let (inside, outside) = (count(true), count(false));
            let used = after.sram.as_ref().map_or(0, |sram| sram.pool);
            print!("; pool {} -> {}, SRAM {used}; tensors {outside} + {inside}", before.pool, after.pool);
            match &after.division {
                Some(division) => println!("; {} runs, without them {}", division.runs.len(), division.cycles),
                None => println!(),
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), String> {
    let mut given: Vec<String> = std::env::args().skip(1).collect();
    let mut value_of = |name: &str| {
        let at = given.iter().position(|argument| argument == name)?;
        given.remove(at);
        Some(size(&if at < given.len() { given.remove(at) } else { String::new() }))
    };
    let sram = value_of("--sram").transpose()?;
    let pictures = value_of("--batch").transpose()?.map_or(1, |pictures| pictures as u32);
    let (options, arguments): (Vec<String>, Vec<String>) = given.into_iter().partition(|a| a.starts_with("--"));
    let winograd = options.contains(&"--winograd".to_owned()).then_some(Winograd::Faster);
    let optimize = if options.contains(&"--memory".to_owned()) {
        Optimize::Memory
    } else if options.contains(&"--size".to_owned()) {
        Optimize::Size
    } else {
        Optimize::Time
    };
    let layer = options.contains(&"--layer".to_owned());
    let granularity = if layer { Granularity::Layer } else { Granularity::Kernel };
    let wanted = |at: usize, value: &str| arguments.get(at).is_none_or(|wanted| wanted == value);
    if options.contains(&"--primer".to_owned()) {
        let inputs = vec![Some(zoo::preprocess())];
        let options = Options { inputs, winograd, optimize, granularity, pictures, ..Options::new(&NV_FULL) };
        return primer(&options, wanted);
    }
    if let Some(sram) = sram {
        let inputs = vec![Some(zoo::preprocess())];
        return with_sram(sram, &Options { inputs, winograd, optimize, granularity, ..Options::new(&NV_FULL) }, wanted);
    }
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
        let inputs = vec![Some(zoo::preprocess())];
        let options = Options { inputs, winograd, optimize, granularity, ..Options::new(config) };
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
            rows(&profile);
        }
    }
    Ok(())
}
