// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Descriptors with bytes changed at random: validation never panics, and an accepted task runs to its end.

use std::cell::RefCell;

use nvdla_engine::{Buffer, Engine, Error, OutOfRange, Slot, Task, TaskMemory};
use nvdla_tests::build::{address, table, Net, Shape};
use nvdla_tests::drive::finish;
use nvdla_tests::mock::Mock;
use nvdla_tests::tasks::HostTask;
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};
use nvdla_uapi::desc::Event;
use nvdla_uapi::reg::values::Precision;
use proptest::collection::vec;
use proptest::prelude::*;

fn base(config: &'static Config) -> Net {
    let shape = Shape { config, precision: Precision::Int8 };
    let mut net = Net::new();
    let (_, sdp) = net.convolution(shape, 0x2000);
    let pool = net.pooling(shape, 0x4000);
    net.edge(sdp, pool, Event::OpCompleted);
    let (conv, _) = net.convolution(shape, 0x2000);
    net.edge(pool, conv, Event::OpCompleted);
    net.copy(shape, 0x5000);
    if config.rubik {
        net.tables = vec![table()];
        net.normalisation(shape, 0x6000, 0);
        net.contraction(shape, 0x8000);
        net.transfers(3);
    }
    net.network.stat_list_index = address::STATISTICS;
    net
}

/// Memory that somebody else changes while it is read: a byte after each read. The reads are listed: entry, first byte and end.
struct Shared {
    task: HostTask,
    changes: RefCell<Vec<(usize, u64, u8)>>,
    reads: RefCell<Vec<(usize, u64, u64)>>,
}

impl Shared {
    fn new(task: HostTask, changes: Vec<(usize, u64, u8)>) -> Self {
        Self { task, changes: RefCell::new(changes), reads: RefCell::default() }
    }
}

impl TaskMemory for Shared {
    fn count(&self) -> usize {
        self.task.count()
    }

    fn buffer(&self, index: usize) -> Option<Buffer> {
        self.task.buffer(index)
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        self.reads.borrow_mut().push((index, offset, offset + into.len() as u64));
        let read = self.task.read(index, offset, into);
        if let Some((list, at, value)) = self.changes.borrow_mut().pop() {
            // The bytes are shared with the clone.
            let size = self.task.buffer(list).map_or(0, |buffer| buffer.size);
            if size != 0 {
                self.task.clone().write(list, at % size, &[value])?;
            }
        }
        read
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> Result<(), OutOfRange> {
        self.task.write(index, offset, from)
    }
}

#[allow(clippy::unnecessary_wraps)] // what `Task::parse` takes
fn slots(count: usize) -> Result<Vec<Slot>, Error> {
    Ok(vec![Slot::Empty; count])
}

/// Validates a task, and runs it if it is accepted.
fn check(config: &'static Config, task: &HostTask) {
    check_shared(config, task, task);
}

/// The same for a task that is read through `memory`. An accepted task touches nothing outside its buffers.
fn check_shared(config: &'static Config, memory: &impl TaskMemory, task: &HostTask) {
    let Ok(parsed) = Task::parse(config, memory, slots) else { return };
    let buffers: Vec<_> = (0..task.count()).filter_map(|index| task.buffer(index)).collect();
    for operation in parsed.iter() {
        operation.accesses(config, |access| {
            let within = |buffer: &Buffer| buffer.address <= access.start && access.end <= buffer.address + buffer.size;
            assert!(buffers.iter().any(within), "{access}");
        });
    }
    let (mut engine, mut mock) = (Engine::new(config), Mock::new(config));
    engine.submit(&mut mock, parsed, 0, u64::MAX).unwrap();
    let (ended, _) = finish(&mut engine, &mut mock);
    assert!(ended.is_some(), "{}", engine.abort(&mut mock).unwrap().1);
    ended.unwrap().write_statistics(&mut task.clone()).unwrap();
}

fn config() -> impl Strategy<Value = &'static Config> {
    prop_oneof![Just(&NV_FULL), Just(&NV_LARGE), Just(&NV_SMALL)]
}

/// Values that are wrong more often than others.
fn value() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), 0..8u8, Just(0xff)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes(config in config(), changes in vec((0..5usize, any::<prop::sample::Index>(), value()), 1..6)) {
        let mut buffers = base(config).buffers();
        for (list, at, value) in changes {
            let list = &mut buffers[list];
            if !list.is_empty() {
                let at = at.index(list.len());
                list[at] = value;
            }
        }
        check(config, &HostTask::from_buffers(buffers));
    }

    #[test]
    fn changed_graphs(config in config(), changes in vec((any::<prop::sample::Index>(), 0..36usize, value()), 1..4)) {
        let net = base(config);
        let mut buffers = net.buffers();
        for (operation, at, value) in changes {
            let operation = operation.index(net.ops.len());
            buffers[1][operation * 36 + at] = value;
        }
        check(config, &HostTask::from_buffers(buffers));
    }

    #[test]
    fn cut_buffers(config in config(), list in 0..8usize, length in any::<prop::sample::Index>()) {
        let mut buffers = base(config).buffers();
        let length = length.index(buffers[list].len() + 1);
        buffers[list].truncate(length);
        check(config, &HostTask::from_buffers(buffers));
    }

    #[test]
    fn changes_between_reads(
        config in config(),
        changes in vec((0..5usize, any::<prop::sample::Index>(), value()), 1..60),
    ) {
        let buffers = base(config).buffers();
        let place = |(list, at, value): (usize, prop::sample::Index, u8)| {
            (list, at.index(buffers[list].len().max(1)) as u64, value)
        };
        let changes = changes.into_iter().map(place).collect();
        let task = HostTask::from_buffers(buffers.clone());
        check_shared(config, &Shared::new(task.clone(), changes), &task);
    }

    #[test]
    fn noise(bytes in vec(vec(any::<u8>(), 0..800), 0..9)) {
        check(&NV_FULL, &HostTask::from_buffers(bytes));
    }
}

#[test]
fn too_few_slots_are_refused() {
    let task = base(&NV_SMALL).task();
    let mut needed = 0;
    let one_less = |count| {
        needed = count;
        slots(count - 1)
    };
    let error = Task::parse(&NV_SMALL, &task, one_less).unwrap_err();
    assert_eq!(error.to_string(), format!("the task needs {needed} slots, but the caller provided {}", needed - 1));
}

/// The checked bytes are the used ones: no byte of a descriptor is read a second time.
#[test]
fn validation_reads_each_byte_once() {
    for config in [&NV_FULL, &NV_LARGE, &NV_SMALL] {
        let memory = Shared::new(base(config).task(), Vec::new());
        // Of what is read before, only the network descriptor is used later: the rest gives the number of slots.
        let allocate = |count| {
            memory.reads.borrow_mut().retain(|read| read.0 == 0);
            slots(count)
        };
        Task::parse(config, &memory, allocate).unwrap();
        let mut reads = memory.reads.into_inner();
        assert!(reads.len() > 3 * base(config).ops.len());
        reads.sort_unstable();
        for pair in reads.windows(2) {
            assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{}: {pair:?}", config.name);
        }
    }
}
