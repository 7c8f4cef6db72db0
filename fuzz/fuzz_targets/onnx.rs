// SPDX-License-Identifier: MIT OR Apache-2.0

//! Any bytes are an ONNX model or an error, and what is accepted is a consistent graph before and after simplification, which
//! the compiler accepts or refuses. Models of the corpus are changed field by field, so that many are accepted; small
//! models, such as those that `tools/compiler/scripts/node_cases.py` writes, are good seeds.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use nvdla_compiler::import::model::Options;
use nvdla_compiler::import::onnx;
use nvdla_fuzz::{check, message, mutate, Random};

fuzz_target!(|bytes: &[u8]| check(onnx::read(bytes.to_vec().into(), None, &Options::default()).ok()));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Random::new(seed.into());
    let changed = if random.below(10) == 0 { None } else { message::change(&data[..size], &mut random) };
    mutate(changed, data, size, max_size)
});
