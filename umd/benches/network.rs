// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whole networks on the built-in model: the time of a run, and multiply-accumulate steps per second.
//!
//! The networks are the project's LeNet and, with the reference data (`NVDLA_REFERENCE`, else `../shared/nvdla` beside the
//! checkout), NVIDIA's LeNet, SqueezeNet and ResNet-18.

#![allow(missing_docs)] // criterion's macros

use std::path::{Path, PathBuf};
use std::time::Instant;

use criterion::{criterion_group, criterion_main, Criterion};
use nvdla_runtime::device::{recognise, ModelDevice};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::profile::{Conditions, Profile};
use nvdla_runtime::session::Session;

const REFERENCE: [&str; 5] = [
    "lenet.nv_small.int8.default",
    "squeezenet.nv_small.int8.per-filter",
    "squeezenet.nv_large.int8.per-kernel",
    "squeezenet.nv_full.fp16",
    "resnet18.nv_full.int8.per-filter",
];

fn networks() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut networks = vec![("lenet (ours)".to_string(), root.join("examples/lenet/lenet.nvdla"))];
    let reference = std::env::var_os("NVDLA_REFERENCE").map_or_else(|| root.join("../shared/nvdla"), PathBuf::from);
    for name in REFERENCE {
        let path = reference.join("loadables").join(name).join("net.nvdla");
        if path.exists() {
            networks.push((name.to_string(), path));
        }
    }
    networks
}

fn network(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("network");
    group.sample_size(10);
    println!("instruction set: {}", nvdla_model::Isa::in_use().expect("NVDLA_ISA").name());
    for (name, path) in networks() {
        let loadable = Loadable::open(path).expect("a loadable");
        let config = recognise(&loadable).config;
        let macs = Profile::new(&loadable, config, Conditions::default()).expect("its operations").macs();
        let mut session = Session::new(loadable, ModelDevice::new(config)).expect("a session");
        session.run().expect("a first run, which touches all memory");
        let best = (0..10)
            .map(|_| {
                let start = Instant::now();
                session.run().expect("a run");
                start.elapsed().as_secs_f64()
            })
            .fold(f64::INFINITY, f64::min);
        println!(
            "{name}: {:.3} ms, {} million MACs, {:.1} GMAC/s",
            best * 1e3,
            macs / 1_000_000,
            macs as f64 / best / 1e9
        );
        group.bench_function(&name, |bencher| bencher.iter(|| session.run().expect("a run")));
    }
    group.finish();
}

criterion_group!(benches, network);
criterion_main!(benches);
