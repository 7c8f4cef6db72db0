// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether the operations of a task may access the same bytes in no fixed order. The result of such a task depends on the time that
//! its operations take, so it proves nothing where the model and the RTL differ.
//!
//! The rules are those of `docs/races.md`, for whole footprints.

use nvdla_engine::footprint::Access;
use nvdla_engine::{Slot, Task, TaskMemory};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{CommonOp, Descriptor, Event, Network, Wire};

/// The first pair of operations, or the operation, whose accesses have no fixed order.
pub fn conflict(config: &Config, task: &Task<Vec<Slot>>, memory: &dyn TaskMemory) -> Option<(usize, usize)> {
    let operations: Vec<_> = task.iter().collect();
    let count = operations.len();
    let accesses: Vec<Vec<Access>> = operations
        .iter()
        .map(|operation| {
            let mut all = Vec::new();
            operation.accesses(config, |access| all.push(access));
            all
        })
        .collect();
    let meet = |a: &Access, b: &Access| a.start < b.end && b.start < a.end && (a.write || b.write);
    // An operation that writes over its own input, or that of the unit before it on the fly, with other bytes in between.
    for (index, own) in accesses.iter().enumerate() {
        let over = |(at, a): (usize, &Access)| {
            own[at + 1..].iter().any(|b| meet(a, b) && (a.start, a.end) != (b.start, b.end))
        };
        if own.iter().enumerate().any(over) {
            return Some((index, index));
        }
    }
    let before = before(memory, count)?;
    for a in 0..count {
        for b in a + 1..count {
            let shared = accesses[a].iter().any(|x| accesses[b].iter().any(|y| meet(x, y)));
            if shared && !before[a][b] && !before[b][a] {
                return Some((a, b));
            }
        }
    }
    None
}

/// For each pair of operations whether the first one completes before the second one is enabled.
fn before(memory: &dyn TaskMemory, count: usize) -> Option<Vec<Vec<bool>>> {
    let mut bytes = [0; Network::SIZE];
    memory.read(0, 0, &mut bytes).ok()?;
    let network = Network::parse(&bytes).ok()?;
    let mut entries = Vec::new();
    for index in 0..count {
        let mut bytes = [0; CommonOp::SIZE];
        memory.read(network.dependency_graph_index as usize, (index * CommonOp::SIZE) as u64, &mut bytes).ok()?;
        entries.push(CommonOp::parse(&bytes).ok()?);
    }
    // Points in time: operation i is enabled at 2 * i, and complete at 2 * i + 1.
    let mut reach = vec![vec![false; 2 * count]; 2 * count];
    for (index, entry) in entries.iter().enumerate() {
        reach[2 * index][2 * index + 1] = true;
        for consumer in entry.consumers.iter().flatten() {
            let Some(to) = usize::try_from(consumer.index).ok().filter(|&to| to < count) else { continue };
            match consumer.event {
                Event::OpCompleted => reach[2 * index + 1][2 * to] = true,
                Event::OpEnabled => reach[2 * index][2 * to] = true,
                _ => {}
            }
        }
        if let Some(parent) = entry.fused_parent.as_ref().and_then(|parent| usize::try_from(parent.index).ok()) {
            if parent < count {
                // The unit that gives its output on the fly starts after the one that takes it, and completes before it.
                reach[2 * index][2 * parent] = true;
                reach[2 * parent + 1][2 * index + 1] = true;
            }
        }
    }
    // A unit runs its operations one after another, and has two register groups.
    for (index, entry) in entries.iter().enumerate() {
        let of_unit = |(_, other): &(usize, &CommonOp)| other.op_type == entry.op_type;
        let mut later = entries.iter().enumerate().skip(index + 1).filter(of_unit).map(|(later, _)| later);
        if let Some(next) = later.next() {
            reach[2 * index][2 * next] = true;
            reach[2 * index + 1][2 * next + 1] = true;
        }
        if let Some(second) = later.next() {
            reach[2 * index + 1][2 * second] = true;
        }
    }
    for through in 0..2 * count {
        for from in 0..2 * count {
            if reach[from][through] {
                let further = reach[through].clone();
                reach[from].iter_mut().zip(further).for_each(|(to, reached)| *to |= reached);
            }
        }
    }
    Some((0..count).map(|a| (0..count).map(|b| reach[2 * a + 1][2 * b]).collect()).collect())
}
