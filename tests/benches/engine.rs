// SPDX-License-Identifier: MIT OR Apache-2.0

//! The engine on LeNet, beside the reference driver's register accesses: `cargo bench -p nvdla-tests --bench engine`.
//!
//! The device is a mock that answers at once. Instructions are counted by the example `count` under callgrind.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nvdla_runtime::loadable::Loadable;
use nvdla_tests::drive::Measure;
use nvdla_tests::tasks::HostTask;
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};

/// Writes and reads per operation of the reference driver on LeNet for nv_small.
const REFERENCE: (f64, f64) = (57.0, 7.0);
const TIME: Duration = Duration::from_millis(500);

/// The mean time of a call.
fn time(mut call: impl FnMut()) -> Duration {
    let (start, mut calls) = (Instant::now(), 0u32);
    while start.elapsed() < TIME {
        for _ in 0..16 {
            call();
        }
        calls += 16;
    }
    start.elapsed() / calls
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/nvdla");
    let reference = std::env::var_os("NVDLA_REFERENCE").map_or(beside, PathBuf::from);
    let cases: [(&'static Config, &str); 3] = [
        (&NV_SMALL, "lenet.nv_small.int8.default"),
        (&NV_LARGE, "lenet.nv_large.int8.nchw"),
        (&NV_FULL, "lenet.nv_full.fp16.default"),
    ];
    for (config, name) in cases {
        let path = reference.join("loadables").join(name).join("net.nvdla");
        if !path.is_file() {
            println!("{name}: skipped, there is no {}", path.display());
            continue;
        }
        let loadable = Loadable::open(&path)?;
        let task = HostTask::all(&loadable).into_iter().next().ok_or("the loadable has no task for NVDLA")?;
        let mut measure = Measure::new(config, task.parse(config)?);
        let operations = f64::from(measure.operations);
        println!("{name}: {operations} operations");
        for (run, (writes, reads)) in ["first run", "later runs"].into_iter().zip(measure.accesses) {
            let (writes, reads) = (writes as f64 / operations, reads as f64 / operations);
            let (w, r) = (writes / REFERENCE.0, reads / REFERENCE.1);
            println!(
                "  {run}: {writes:.1} writes per operation ({w:.2} of the reference driver's), {reads:.1} reads ({r:.2})"
            );
        }
        let run = time(|| measure.run()).as_nanos() as f64 / operations;
        let parse = time(|| drop(task.parse(config))).as_nanos() as f64 / operations;
        println!("  {run:.0} ns per operation to schedule, {parse:.0} ns to validate");
    }
    Ok(())
}
