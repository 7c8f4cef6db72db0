// SPDX-License-Identifier: MIT OR Apache-2.0

//! No accepted task makes a unit access memory outside the task's buffers. Descriptors are changed at random, and
//! accepted tasks run on the model, which checks the limits of its memory.

use nvdla_engine::{Engine, Progress, TaskMemory};
use nvdla_model::device::Model;
use nvdla_model::memory::{Memory, Port, Stop};
use nvdla_tests::build::every_unit;
use nvdla_tests::tasks::HostTask;
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};
use nvdla_uapi::reg::values::Precision;
use proptest::collection::vec;
use proptest::prelude::*;

/// The task's buffers, and nothing else.
struct Buffers(Vec<(u64, Vec<u8>)>);

impl Buffers {
    fn place(&self, address: u64, length: usize) -> Option<(usize, usize)> {
        let (at, (start, _)) = self.0.iter().enumerate().find(|(_, (start, bytes))| {
            address >= *start
                && address - start <= bytes.len() as u64
                && bytes.len() as u64 - (address - start) >= length as u64
        })?;
        Some((at, (address - start) as usize))
    }
}

impl Memory for Buffers {
    fn read(&self, _: Port, address: u64, length: usize) -> Option<&[u8]> {
        let (at, offset) = self.place(address, length)?;
        self.0[at].1.get(offset..offset + length)
    }

    fn write(&mut self, _: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        let (at, offset) = self.place(address, length)?;
        self.0[at].1.get_mut(offset..offset + length)
    }
}

/// The engine's device: the model's registers.
struct Registers<'a>(&'a mut Model);

impl nvdla_engine::Hardware for Registers<'_> {
    fn read(&mut self, offset: u32) -> u32 {
        self.0.read(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.0.write(offset, value);
    }
}

/// Runs a task that validation accepts. Returns whether it was accepted.
fn check(config: &'static Config, task: &HostTask) -> bool {
    let Ok(parsed) = task.parse(config) else { return false };
    let mut memory = Buffers(Vec::new());
    for index in 0..task.count() {
        let buffer = task.buffer(index).unwrap();
        let mut bytes = vec![0; buffer.size as usize];
        task.read(index, 0, &mut bytes).unwrap();
        memory.0.push((buffer.address, bytes));
    }
    let (mut engine, mut model) = (Engine::new(config), Model::new(config));
    engine.submit(&mut Registers(&mut model), parsed, 0, u64::MAX).unwrap();
    loop {
        match engine.process_events(&mut Registers(&mut model), 0) {
            Progress::Completed { .. } | Progress::Waiting { poll: true } => continue,
            Progress::Ended(_) | Progress::Idle => return true,
            Progress::Waiting { poll: false } => {}
        }
        model.run(&mut memory);
        while let Some(stop) = model.take_stop() {
            assert!(!matches!(stop, Stop::Fault(_)), "{}: {stop}", config.name);
        }
        // A combination that the hardware does not define never ends: that is for the deadline.
        if !engine.interrupt(&mut Registers(&mut model)) {
            return true;
        }
    }
}

fn config() -> impl Strategy<Value = (&'static Config, Precision)> {
    prop_oneof![
        Just((&NV_FULL, Precision::Int8)),
        Just((&NV_FULL, Precision::Fp16)),
        Just((&NV_LARGE, Precision::Int8)),
        Just((&NV_SMALL, Precision::Int8)),
    ]
}

#[test]
fn the_base_is_taken() {
    for (config, precision) in [(&NV_FULL, Precision::Int8), (&NV_FULL, Precision::Fp16), (&NV_SMALL, Precision::Int8)]
    {
        assert!(check(config, &every_unit(config, precision).task()), "{}", config.name);
    }
}

/// A change of a list: which list, which entry, which 16-bit half-word of it, and the value.
type Change = (usize, prop::sample::Index, usize, u16);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    // Small numbers, sizes of surfaces, and anything.
    let value = prop_oneof![4 => 0..40u16, 2 => any::<u16>(), 1 => (0..9u32).prop_map(|bit| 1 << (bit + 6))];
    vec((2..4usize, any::<prop::sample::Index>(), 0..88usize, value), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_touched_outside((config, precision) in config(), changes in changes()) {
        let net = every_unit(config, precision);
        let mut buffers = net.buffers();
        for (list, operation, half_word, value) in changes {
            let entry = [0, 0, 116, 644][list];
            let at = operation.index(net.ops.len()) * entry + half_word * 2 % entry;
            buffers[list][at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        check(config, &HostTask::from_buffers(buffers));
    }
}
