// SPDX-License-Identifier: MIT OR Apache-2.0

//! Any text and weights are an NCNN model or an error, and what is accepted is a consistent graph before and after
//! simplification, which the compiler accepts or refuses. A zero byte separates the text from the weights. Texts of the
//! corpus are changed word by word, so that many are accepted.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use nvdla_compiler::import::model::Options;
use nvdla_compiler::import::ncnn;
use nvdla_fuzz::{check, mutate, text, Random};

/// The text and the weights.
fn parts(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Some((std::str::from_utf8(&bytes[..end]).ok()?, bytes.get(end + 1..).unwrap_or_default()))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((text, weights)) = parts(bytes) else { return };
    check(ncnn::read(text, weights, "fuzz", &Options::default()).ok());
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Random::new(seed.into());
    let changed = match parts(&data[..size]) {
        Some((text, weights)) if random.below(10) != 0 => {
            Some([text::change(text, &mut random).as_bytes(), &[0], weights].concat())
        }
        _ => None,
    };
    mutate(changed, data, size, max_size)
});
