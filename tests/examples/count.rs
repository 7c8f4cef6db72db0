// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cost of the engine per operation: register accesses, and, under callgrind, instructions.
//!
//! ```text
//! cargo run --release -p nvdla-tests --example count -- nv_small lenet.nvdla 1
//! ```
//!
//! The last number is how often the task is run again, on a device that gives recorded answers; validation happens once,
//! before. Callgrind counts the instructions of those runs alone, and lists the device's functions (`Double` and `Replay`) apart:
//!
//! ```text
//! cargo build --release -p nvdla-tests --example count
//! valgrind --tool=callgrind --callgrind-out-file=count.out --toggle-collect='*Measure::run*' \
//!     target/release/examples/count nv_small lenet.nvdla 100
//! callgrind_annotate count.out
//! ```
//!
//! Instructions per operation are "PROGRAM TOTALS" divided by 100 and by the number of operations. With
//! `--toggle-collect='*HostTask*parse*'` they are those of validation, which happens once. The footprint's part is
//! `Builder::check_accesses` in the list of `callgrind_annotate --inclusive=yes --auto=no`, and with `--separate-callers=2` each
//! unit's part. `units` in place of a loadable is a task with an operation of each unit.

use nvdla_runtime::loadable::Loadable;
use nvdla_tests::build::every_unit;
use nvdla_tests::drive::Measure;
use nvdla_tests::tasks::HostTask;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [config, path, times] = arguments.as_slice() else {
        return Err("usage: count CONFIG LOADABLE|units TIMES".into());
    };
    let config = Config::by_name(config).ok_or("no such configuration")?;
    let times: u32 = times.parse()?;
    let tasks = if path == "units" {
        let precision = if config.has_feature_type(Precision::Fp16) { Precision::Fp16 } else { Precision::Int8 };
        vec![every_unit(config, precision).task()]
    } else {
        HostTask::all(&Loadable::open(path)?)
    };
    for (number, task) in tasks.iter().enumerate() {
        let mut measure = Measure::new(config, task.parse(config)?);
        println!("task {number}: {} operations, {} interrupts per run", measure.operations, measure.interrupts);
        for (name, (writes, reads)) in ["first run", "later runs"].into_iter().zip(measure.accesses) {
            let per_operation = |count: usize| count as f64 / f64::from(measure.operations);
            let (w, r) = (per_operation(writes), per_operation(reads));
            println!("{name}: {writes} writes and {reads} reads, {w:.1} and {r:.1} per operation");
        }
        for _ in 0..times {
            measure.run();
        }
    }
    Ok(())
}
