// SPDX-License-Identifier: MIT OR Apache-2.0

//! Any text and weights are an NCNN model or an error, and what is accepted is a consistent graph before and after
//! simplification. A zero byte separates the text from the weights.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvdla_compiler::model::Options;
use nvdla_compiler::{ncnn, simplify};

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let Ok(text) = std::str::from_utf8(&bytes[..end]) else { return };
    let weights = bytes.get(end + 1..).unwrap_or_default();
    let Ok(mut graph) = ncnn::read(text, weights, "fuzz", &Options::default()) else { return };
    graph.check().expect("a graph that was read is consistent");
    simplify::simplify(&mut graph);
    graph.check().expect("a graph that was simplified is consistent");
});
