// SPDX-License-Identifier: MIT OR Apache-2.0

//! Plays hardware traces with some register writes changed. The model may refuse them or compute something else, but it must not
//! panic, hang, or access memory outside of the memory that it was given.
//!
//! Such programs exercise the units more deeply than random ones. The reference data is found as in `traces.rs`.

use std::ops::Range;

use nvdla_model::device::Model;
use nvdla_model::memory::{Memory, Port};
use nvdla_tests::random::Random;
use nvdla_trace::{find, Command, Trace};
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};

/// The memory that a trace loads or compares, with a margin.
struct TraceMemory {
    parts: Vec<(Port, Range<u64>, Vec<u8>)>,
}

/// The size of the margin around each region in bytes.
const MARGIN: u64 = 1 << 12;

impl TraceMemory {
    fn new(trace: &Trace) -> Self {
        let regions = trace.commands.iter().filter_map(|(_, command)| match command {
            Command::Zero(region) | Command::Load(region, _) | Command::Compare(region, _) => Some(region),
            _ => None,
        });
        let mut ranges: Vec<_> = regions
            .map(|region| {
                let end = region.address.saturating_add(region.length as u64 + MARGIN);
                (region.port == Port::Secondary, region.address.saturating_sub(MARGIN)..end)
            })
            .collect();
        ranges.sort_by_key(|(port, range)| (*port, range.start));
        let mut parts: Vec<(Port, Range<u64>, Vec<u8>)> = Vec::new();
        for (port, range) in ranges {
            let port = if port { Port::Secondary } else { Port::Primary };
            match parts.last_mut() {
                Some((last, known, _)) if *last == port && known.end >= range.start => {
                    known.end = known.end.max(range.end);
                }
                _ => parts.push((port, range, Vec::new())),
            }
        }
        for (_, range, bytes) in &mut parts {
            bytes.resize((range.end - range.start) as usize, 0);
        }
        Self { parts }
    }
}

fn slice(part: &Range<u64>, address: u64, length: usize) -> Option<Range<usize>> {
    let end = address.checked_add(length as u64)?;
    (part.start <= address && end <= part.end)
        .then(|| (address - part.start) as usize..(address - part.start) as usize + length)
}

impl Memory for TraceMemory {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        self.parts
            .iter()
            .find_map(|(known, range, bytes)| bytes.get(slice(range, address, length).filter(|_| *known == port)?))
    }

    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        self.parts
            .iter_mut()
            .find_map(|(known, range, bytes)| bytes.get_mut(slice(range, address, length).filter(|_| *known == port)?))
    }
}

/// A register's value, sometimes changed.
fn change(random: &mut Random, value: u32, often: usize) -> u32 {
    if !random.one_in(often) {
        return value;
    }
    match random.below(6) {
        0 => value ^ (1 << random.below(32)),
        1 => value.wrapping_add(1),
        2 => value.wrapping_sub(1),
        3 => random.next() as u32,
        4 => 0,
        _ => value << random.below(8),
    }
}

/// Plays the trace's writes with changes, without waiting.
fn play_changed(trace: &Trace, config: &'static Config, random: &mut Random, often: usize) -> (usize, usize) {
    let mut memory = TraceMemory::new(trace);
    let mut model = Model::new(config);
    let (mut runs, mut stops) = (0, 0);
    for (_, command) in &trace.commands {
        match command {
            Command::Load(region, bytes) => {
                let target = memory.write(region.port, region.address, region.length).expect("the trace loads it");
                target.copy_from_slice(trace.bytes(region, bytes));
            }
            Command::Write(register, value) => {
                let Some(base) = register.block.base(config.family) else { continue };
                let value = change(random, *value, often);
                model.write(base + u32::from(register.register.register.offset), value);
                runs += usize::from(model.run(&mut memory));
                stops += std::iter::from_fn(|| model.take_stop()).count();
            }
            _ => {}
        }
    }
    (runs, stops)
}

#[test]
fn changed_traces_neither_panic_nor_reach_outside() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    // More rounds than one find more: `NVDLA_ROUNDS=100 cargo test -p nvdla-trace --test changed`.
    let rounds = std::env::var("NVDLA_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let mut random = Random::new(1);
    let (mut played, mut ran, mut stopped) = (0, 0, 0);
    for (set, config) in [("nv_small", &NV_SMALL), ("nv_large", &NV_LARGE), ("nv_full_random", &NV_FULL)] {
        for folder in find(&reference.join("hw-traces").join(set)).unwrap() {
            let trace = Trace::read(&folder).unwrap();
            for often in (0..rounds).flat_map(|_| [200, 50]) {
                let (runs, stops) = play_changed(&trace, config, &mut random, often);
                played += 1;
                ran += runs;
                stopped += stops;
            }
        }
    }
    println!("{played} changed traces: {ran} operations ran, {stopped} stopped");
    assert!(ran > stopped / 10, "{ran} operations ran, {stopped} stopped: the changes leave too little");
}
