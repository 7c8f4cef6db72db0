// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares the estimate with measurements on the RTL: one table per kind of operation, and one for whole networks.
//!
//! ```text
//! cargo run --release -p nvdla-estimate --example accuracy [-- --all]
//! ```
//!
//! The measurements are `rtl/cycles.json` of the reference folder (`NVDLA_REFERENCE`, else `../shared/nvdla` beside the
//! checkout). The tables show two fixed sets of the shapes separately; the constants were derived from both. `--all` shows every
//! operation.
//!
//! ```text
//! cargo run --release -p nvdla-estimate --example accuracy -- --measure FILE PROGRAM[,OPTION=VALUE]... NAME...
//! cargo run --release -p nvdla-estimate --example accuracy -- [--all] --measured FILE...
//! ```
//!
//! The first command makes new measurements with a simulator that `cargo xtask rtl` has built: it runs traces and loadables of
//! the reference folder, compares their results with the golden ones, and adds their cycles to `FILE`. The second command
//! compares the estimate with such files.

mod cases;
mod measure;

use cases::{Case, Network, Summary};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(reference) = nvdla_tests::reference::folder() else { return ExitCode::SUCCESS };
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [option, file, program, names @ ..] = &words[..] {
        if option == "--measure" {
            return measure::measure(&reference, Path::new(file), program, names);
        }
    }
    let all = words.iter().any(|word| word == "--all");
    let files = words.iter().skip_while(|word| *word != "--measured").skip(1).filter(|word| !word.starts_with("--"));
    let (mut cases, mut networks) = (Vec::new(), Vec::new());
    for file in files {
        let (more, whole) = cases::read(&reference, Path::new(file));
        cases.extend(more);
        networks.extend(whole);
    }
    let own = !cases.is_empty();
    if !own {
        (cases, networks) = cases::read(&reference, &reference.join("rtl/cycles.json"));
    }
    show(&reference, &cases, &networks, all, own);
    ExitCode::SUCCESS
}

/// Prints the tables. The user's own measurements are not divided into two sets.
fn show(reference: &Path, cases: &[Case], networks: &[Network], all: bool, own: bool) {
    if all {
        println!(
            "{:8} {:>7} {:>5} {:4} {:>8} {:>8} {:>6}  operation",
            "config", "latency", "bytes", "half", "RTL", "estimate", "ratio"
        );
        for case in cases {
            let estimate = case.estimate();
            println!(
                "{:8} {:7} {:5} {:4} {:8} {:8} {:6.3}  {} ({}; {})",
                case.config.name,
                case.memory.dram.latency,
                case.memory.dram.bandwidth,
                if case.fitted() { "fit" } else { "held" },
                case.cycles,
                estimate.cycles,
                estimate.cycles as f64 / case.cycles as f64,
                case.text,
                case.name,
                estimate.limit
            );
        }
        println!();
    }
    for (half, fitted) in [("held out", false), ("fitted", true)] {
        if own && fitted {
            continue;
        }
        println!("{}: RTL cycles, estimate / RTL", if own { "measured" } else { half });
        println!(
            "{:8} {:>7} {:>6}  {:15} {:>5} {:>9} {:>7} {:>7} {:>7} {:>5}",
            "config", "latency", "bytes", "kind", "cases", "RTL", "sum", "median", "worst", ">15%"
        );
        let mut kinds: BTreeMap<_, Vec<&Case>> = BTreeMap::new();
        for case in cases.iter().filter(|case| own || case.fitted() == fitted) {
            let key = (case.config.name, case.memory.dram.latency, case.memory.dram.bandwidth as u32);
            for kind in [case.kind, "all"] {
                kinds.entry((std::cmp::Reverse(key), kind)).or_default().push(case);
            }
        }
        for ((key, kind), cases) in &kinds {
            let (config, latency, bandwidth) = key.0;
            let Summary { cycles, sum, median, worst, off } = Summary::new(cases);
            println!(
                "{config:8} {latency:7} {bandwidth:6}  {kind:15} {:5} {cycles:9} {sum:7.3} {median:7.3} {worst:7.3} {off:5}",
                cases.len()
            );
        }
        println!();
    }
    println!("whole networks: RTL cycles, estimate / RTL");
    for network in networks {
        let estimate = cases::network(reference, network);
        println!(
            "{:40} {:8} {:7} {:5} {:9} {estimate:9} {:7.3}",
            network.name,
            network.config.name,
            network.memory.dram.latency,
            network.memory.dram.bandwidth,
            network.cycles,
            estimate as f64 / network.cycles as f64
        );
    }
}
