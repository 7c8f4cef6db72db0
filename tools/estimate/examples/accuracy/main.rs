// SPDX-License-Identifier: MIT OR Apache-2.0

//! Holds the estimate to what was measured on the RTL: a table per kind of operation, and whole networks.
//!
//! ```text
//! cargo run --release -p nvdla-estimate --example accuracy [-- --all]
//! ```
//!
//! The measurements are `rtl/cycles.json` of the reference folder (`NVDLA_REFERENCE`, else `../shared/nvdla` beside the
//! checkout). The table shows two fixed halves of the shapes; the constants were found with both in
//! sight. `--all` shows every operation.

mod cases;

use cases::{Case, Summary};
use std::collections::BTreeMap;

fn main() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let all = std::env::args().any(|word| word == "--all");
    let (cases, networks) = cases::read(&reference);
    if all {
        println!(
            "{:8} {:>7} {:>5} {:4} {:>8} {:>8} {:>6}  operation",
            "config", "latency", "bytes", "half", "RTL", "estimate", "ratio"
        );
        for case in &cases {
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
        println!("{half}: RTL cycles, estimate / RTL");
        println!(
            "{:8} {:>7} {:>6}  {:15} {:>5} {:>9} {:>7} {:>7} {:>7} {:>5}",
            "config", "latency", "bytes", "kind", "cases", "RTL", "sum", "median", "worst", ">15%"
        );
        let mut kinds: BTreeMap<_, Vec<&Case>> = BTreeMap::new();
        for case in cases.iter().filter(|case| case.fitted() == fitted) {
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
    println!("whole networks (latency 50): RTL cycles, estimate / RTL");
    for network in &networks {
        let estimate = cases::network(&reference, network);
        println!(
            "{:40} {:8} {:9} {estimate:9} {:7.3}",
            network.name,
            network.config.name,
            network.cycles,
            estimate as f64 / network.cycles as f64
        );
    }
}
