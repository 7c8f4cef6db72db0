// SPDX-License-Identifier: MIT OR Apache-2.0

//! Any bytes are a task that is refused or one that runs. The device performs an accepted task to its end, without
//! access outside the task's buffers and the operations' footprints.
//!
//! The first byte is a configuration. Below 128 the rest has one buffer per address: its size, and its first bytes. `cargo run
//! --bin seeds` makes such inputs of a loadable's tasks. From 128 on the rest is the number of a valid task, and the choices of
//! its changes.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use nvdla_tests::hostile::base::corpus;
use nvdla_tests::hostile::mutate::mutate;
use nvdla_tests::hostile::{Base, Bench, ByteChoices, Choices};
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};

/// The greatest number of addresses. A task of NVIDIA's compiler has about ten.
const ADDRESSES: usize = 32;
/// Largest buffer.
const SIZE: u64 = 1 << 20;
/// The greatest number of the model's steps for a task.
const STEPS: u64 = 1 << 24;
/// The configurations with valid tasks to change.
const CONFIGS: [&Config; 3] = [&NV_SMALL, &NV_FULL, &NV_LARGE];

fuzz_target!(|input: &[u8]| {
    let Some((&config, rest)) = input.split_first() else { return };
    let mut bench = if config < 128 { any(config, rest) } else { changed(config, rest) };
    if let Err(violation) = bench.check(STEPS) {
        panic!("{violation}");
    }
});

/// Buffers of those bytes.
fn any(config: u8, mut rest: &[u8]) -> Bench {
    let mut buffers = Vec::new();
    while let (true, Some((header, tail))) = (buffers.len() < ADDRESSES, rest.split_first_chunk::<6>()) {
        let size = u64::from(u32::from_le_bytes([header[0], header[1], header[2], 0])).clamp(1, SIZE);
        let given = usize::from(u16::from_le_bytes([header[3], header[4]])) | usize::from(header[5] & 1) << 16;
        let (bytes, after) = tail.split_at(given.min(tail.len()).min(size as usize));
        rest = after;
        let mut buffer = vec![0; size as usize];
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffers.push(buffer);
    }
    Bench::of_buffers(Config::ALL[usize::from(config) % Config::ALL.len()], &buffers)
}

/// A valid task with changes.
fn changed(config: u8, rest: &[u8]) -> Bench {
    static CORPORA: OnceLock<[Vec<Base>; 3]> = OnceLock::new();
    let corpora = CORPORA.get_or_init(|| CONFIGS.map(|config| corpus(config, None).expect("no files are read")));
    let corpus = &corpora[usize::from(config) % CONFIGS.len()];
    let mut choices = ByteChoices(rest);
    let base = &corpus[choices.below(corpus.len())];
    let mut bench = Bench::new(base.config);
    bench.load(base);
    mutate(&mut bench, base, corpus, &mut choices);
    bench
}
