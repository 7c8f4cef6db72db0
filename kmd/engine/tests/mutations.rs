// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Descriptors with bytes changed at random: validation never panics, and what it takes runs to its end.

use nvdla_engine::{Engine, Slot, Task, TaskMemory};
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

/// Validates a task, and runs it when it is taken.
fn check(config: &'static Config, task: &HostTask) {
    let Ok(count) = Task::slots(task) else { return };
    let Ok(parsed) = Task::parse(config, task, vec![Slot::Empty; count]) else { return };
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
    fn noise(bytes in vec(vec(any::<u8>(), 0..800), 0..9)) {
        check(&NV_FULL, &HostTask::from_buffers(bytes));
    }
}

#[test]
fn too_few_slots_are_refused() {
    let task = base(&NV_SMALL).task();
    let needed = Task::slots(&task).unwrap();
    assert!(needed > 0 && task.count() > 0);
    let error = Task::parse(&NV_SMALL, &task, vec![Slot::Empty; needed - 1]).unwrap_err();
    assert_eq!(error.to_string(), format!("the task needs {needed} slots, but the caller provided {}", needed - 1));
}
