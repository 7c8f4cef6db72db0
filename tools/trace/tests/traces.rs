// SPDX-License-Identifier: MIT OR Apache-2.0

//! Every hardware trace of the reference data passes on the model, with its status counters where it lists them.
//!
//! The reference data is the folder that `NVDLA_REFERENCE` names, else `../shared/nvdla` beside the checkout. Without
//! it these tests say so and pass, unless `CI` is `true`.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nvdla_trace::{check_counters, find, play, Trace};
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};

/// Traces for which the reference model stores counters in the wrong register group. SDP's read DMA has two groups of
/// its own, and its counters belong to them. The C-model stores them under SDP's group number, which differs after an
/// operation that does not use the read DMA. See `tools/model/DISAGREEMENTS.md`.
const COUNTERS_OF_ANOTHER_GROUP: [&str; 2] = ["sequence_030", "sequence_068"];

/// Plays one trace, and returns what is wrong with it.
fn failure(folder: &Path, config: &'static Config) -> Option<String> {
    let trace = match Trace::read(folder) {
        Ok(trace) => trace,
        Err(error) => return Some(error.to_string()),
    };
    let mut played = match play(&trace, config) {
        Ok(played) => played,
        Err(failure) => return Some(failure.to_string()),
    };
    if COUNTERS_OF_ANOTHER_GROUP.contains(&trace.name.as_str()) {
        return None;
    }
    match check_counters(&trace, &mut played) {
        Ok(differing) => (!differing.is_empty()).then(|| differing.join("; ")),
        Err(error) => Some(error.to_string()),
    }
}

/// Plays all traces of a set, of which there must be `count`.
fn all_pass(set: &str, config: &'static Config, count: usize) {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let traces = find(&reference.join("hw-traces").join(set)).unwrap();
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut failures = Vec::new();
        while let Some(folder) = traces.get(next.fetch_add(1, Ordering::Relaxed)) {
            failures.extend(failure(folder, config).map(|why| (folder.clone(), why)));
        }
        failures
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut failures: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    failures.sort();
    let mut list = String::new();
    for (folder, why) in &failures {
        let _ = writeln!(list, "FAIL {}: {why}", folder.file_name().unwrap_or_default().to_string_lossy());
    }
    println!("{set}: {} of {} traces pass", traces.len() - failures.len(), traces.len());
    assert!(failures.is_empty(), "{} of {} traces of {set} fail:\n{list}", failures.len(), traces.len());
    assert_eq!(traces.len(), count, "traces of {set}");
}

#[test]
fn nv_small() {
    all_pass("nv_small", &NV_SMALL, 84);
}

#[test]
fn nv_large() {
    all_pass("nv_large", &NV_LARGE, 12);
}

#[test]
fn nv_full() {
    all_pass("nv_full", &NV_FULL, 9);
}

#[test]
fn nv_full_random() {
    all_pass("nv_full_random", &NV_FULL, 875);
}
