// SPDX-License-Identifier: MIT OR Apache-2.0

//! Items that fuzz targets share: changes of valid models that keep their structure, and the checks of a graph that was read.

pub mod message;
pub mod tables;
pub mod text;

use std::sync::atomic::{AtomicU64, Ordering};

use nvdla_compiler::ir::{Graph, Op};
use nvdla_compiler::pipeline::compile;
use nvdla_compiler::options::Options;
use nvdla_compiler::simplify;
pub use nvdla_tests::random::Random;
use nvdla_tests::zoo;
use nvdla_uapi::config::{NV_FULL, NV_SMALL};

/// Models that were tried, read, and compiled.
static COUNTS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// The number of models between two printed lines of counts.
const SHOWN: u64 = 1 << 12;
/// The greatest number of elements of a tensor in a graph that is compiled. Larger graphs take too long.
const ELEMENTS: usize = 4096;

fn count(what: usize) {
    let before = COUNTS[what].fetch_add(1, Ordering::Relaxed);
    if what == 0 && before % SHOWN == SHOWN - 1 {
        let [tried, read, compiled] = [0, 1, 2].map(|at: usize| COUNTS[at].load(Ordering::Relaxed));
        eprintln!("{tried} models, {read} read, {compiled} compiled");
    }
}

/// Checks what a reader made of a model: a graph that it accepts is consistent, also after simplification, and the compiler
/// accepts or refuses it.
pub fn check(read: Option<Graph>) {
    count(0);
    let Some(mut graph) = read else { return };
    count(1);
    graph.check().expect("a graph that was read is consistent");
    simplify::simplify_ends(&mut graph);
    graph.check().expect("a graph that was simplified is consistent");
    let large = graph.tensors.iter().any(|tensor| tensor.elements() > ELEMENTS);
    // Convolutions over many groups and large windows also take long.
    let long = graph.nodes.len() > 20 || graph.nodes.iter().any(|node| matches!(node.op, Op::Softmax { .. }));
    if large || long {
        return;
    }
    let config = if graph.nodes.len() % 2 == 0 { &NV_SMALL } else { &NV_FULL };
    if compile(&graph, &zoo::uniform(&graph, 6.0), &Options::new(config)).is_ok() {
        count(2);
    }
}

/// The result of a target's mutator: the changed bytes if there are any and they fit, else the result of the fuzzer's own
/// mutator.
pub fn mutate(changed: Option<Vec<u8>>, data: &mut [u8], size: usize, max_size: usize) -> usize {
    match changed.filter(|changed| changed.len() <= max_size) {
        Some(changed) => {
            data[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        None => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
    }
}

/// A number that a reader may handle badly.
pub fn number(random: &mut Random) -> i64 {
    let edge = [0, 1, 2, 3, 4, 7, 8, 9, 16, 31, 32, 33, 255, 8192, -1, -2, i64::MAX, i64::MIN, 1 << 60, 1 << 31];
    if random.one_in(3) { random.pick(&edge) } else { random.below(12) }
}
