// SPDX-License-Identifier: MIT OR Apache-2.0

//! Any bytes are an ONNX model or an error, and what is accepted is a consistent graph before and after simplification.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvdla_compiler::model::Options;
use nvdla_compiler::{onnx, simplify};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut graph) = onnx::read(bytes.to_vec().into(), None, &Options::default()) else { return };
    graph.check().expect("a graph that was read is consistent");
    simplify::simplify(&mut graph);
    graph.check().expect("a graph that was simplified is consistent");
});
