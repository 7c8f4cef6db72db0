// SPDX-License-Identifier: MIT OR Apache-2.0

//! Register accesses and starts of operations, on any configuration: the model never panics, hangs, or accesses memory outside
//! the memory that it was given.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nvdla_uapi::config::Config;

#[path = "../../tools/model/tests/support/exercise.rs"]
mod exercise;

use exercise::play;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&first, rest)) = bytes.split_first() {
        play(Config::ALL[usize::from(first) % Config::ALL.len()], rest);
    }
});
