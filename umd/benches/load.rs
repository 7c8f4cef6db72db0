// SPDX-License-Identifier: MIT OR Apache-2.0

//! The time to load a loadable, compared with reading the file.
//!
//! The loadable is made here, about as large as SqueezeNet's: 5 MB of weights in 100 blobs. `open` reads and verifies it;
//! `session` also allocates and fills its memories on a device of plain memory.

#![allow(missing_docs)] // criterion's macros

use std::{fs, hint::black_box, time::Instant};

use criterion::{criterion_group, criterion_main, Criterion};
use nvdla_runtime::device::ModelDevice;
use nvdla_runtime::loadable::{write, Interface, Loadable, MemoryFlags, Version};
use nvdla_runtime::session::Session;
use nvdla_uapi::config::NV_SMALL;

const BLOBS: usize = 100;
const BLOB: usize = 50_000;

/// A loadable of 5 MB whose task has no operation.
fn large() -> Vec<u8> {
    let names: Vec<String> = (0..BLOBS).map(|number| format!("tb-{number}")).collect();
    let blob = |name: &String| write::Blob { name: name.clone(), data: vec![7; BLOB], ..Default::default() };
    let mut blobs: Vec<_> = names.iter().map(blob).collect();
    let mut network = vec![0; 40];
    network[16..28].fill(0xff);
    blobs.push(write::Blob {
        name: "network".into(),
        interface: Interface::Dla1,
        version: Version([0, 12, 3]),
        data: network,
        ..Default::default()
    });
    let memory = |id, size, contents| write::Memory {
        id,
        flags: MemoryFlags::ALLOC | MemoryFlags::SET,
        size,
        contents,
        ..Default::default()
    };
    let weights = names.iter().enumerate().map(|(at, name)| (name.clone(), (at * BLOB) as u64)).collect();
    let contents = write::Contents {
        memories: vec![memory(0, 40, vec![("network".into(), 0)]), memory(1, (BLOBS * BLOB) as u64, weights)],
        addresses: (0..2).map(|id| write::Address { id, mem_id: id, offset: 0, size: 0 }).collect(),
        tasks: vec![write::Task { interface: Interface::Dla1, address_list: vec![0, 1], ..Default::default() }],
        submits: vec![write::Submit { id: 0, task_id: vec![0] }],
        blobs,
        ..Default::default()
    };
    contents.to_bytes().expect("5 MB fit")
}

/// The seconds of one call, averaged over many.
fn time(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let started = Instant::now();
        work();
        best = best.min(started.elapsed().as_secs_f64());
    }
    best
}

fn loading(criterion: &mut Criterion) {
    let path = std::env::temp_dir().join(format!("nvdla-bench-{}.nvdla", std::process::id()));
    fs::write(&path, large()).expect("a file in the temporary folder");
    let read = || drop(black_box(fs::read(&path).expect("readable")));
    let open = || drop(black_box(Loadable::open(&path).expect("a loadable")));
    let session = || {
        let loadable = Loadable::open(&path).expect("a loadable");
        drop(black_box(Session::new(loadable, ModelDevice::new(&NV_SMALL)).expect("a session")));
    };
    criterion.bench_function("read of the file", |bench| bench.iter(read));
    criterion.bench_function("open", |bench| bench.iter(open));
    criterion.bench_function("open and fill a session", |bench| bench.iter(session));
    let (read, open, session) = (time(read), time(open), time(session));
    println!("open takes {:.3} of a plain read of the file, open and fill {:.2}", open / read, session / read);
    let _ = fs::remove_file(&path);
}

criterion_group!(benches, loading);
criterion_main!(benches);
