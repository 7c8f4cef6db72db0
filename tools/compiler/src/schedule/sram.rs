// SPDX-License-Identifier: MIT OR Apache-2.0

//! Chooses the buffers of the pool that lie in the device's SRAM.
//!
//! Each unit has a register per surface that selects the memory interface, so every buffer can lie in either memory. Inputs and
//! outputs stay in DRAM, because the application allocates them. So do buffers that the emulator accesses, as in NVIDIA's
//! loadables, because the CPU reads and writes them, and weights, which each operation reads once.
//!
//! A buffer's gain is the estimated cycles that the operations which access it take less, with the buffers chosen before it in
//! SRAM. The next one is that with the greatest gain per byte and operation of its lifetime. Where no cycles are gained, the bytes
//! that DRAM no longer moves decide. A buffer that no longer fits is left out, and so is one that would take more cycles.

use super::cost::{groups, together, Cost, Sram};
use super::pool::Pool;
use super::program::{Operation, Program, Task};

/// The estimated time of operations, and the bytes that DRAM moves for them.
#[derive(Clone, Copy, Default)]
struct Price {
    cycles: u64,
    dram: u64,
}

/// Operations that run together, because they are connected on the fly.
struct Group<'a> {
    operations: &'a [Operation],
    /// The buffers of the pool that they access.
    buffers: Vec<usize>,
}

/// The choice in progress.
struct Choice<'a> {
    cost: &'a Cost,
    groups: Vec<Group<'a>>,
    /// The groups that access each buffer of the pool.
    groups_of: Vec<Vec<usize>>,
    /// Whether each buffer of the program lies in SRAM.
    inside: Vec<bool>,
}

impl Choice<'_> {
    fn price(&self, group: usize) -> Price {
        let list = self.groups[group].operations;
        let slots = self.cost.slots(list, |id| self.inside[id]);
        Price { cycles: together(&slots), dram: slots.iter().map(|slot| slot.estimate.bytes.dram).sum() }
    }

    /// The cost of the groups that access a buffer.
    fn around(&self, buffer: usize) -> Price {
        let costs = self.groups_of[buffer].iter().map(|&group| self.price(group));
        costs.fold(Price::default(), |sum, cost| Price { cycles: sum.cycles + cost.cycles, dram: sum.dram + cost.dram })
    }

    /// What is gained by a buffer in SRAM, per byte and operation of its lifetime: cycles, and bytes of DRAM. `None` if nothing is.
    fn gain(&mut self, pool: &Pool, buffer: usize) -> Option<[f64; 2]> {
        let id = pool.buffers[buffer];
        let before = self.around(buffer);
        self.inside[id] = true;
        let after = self.around(buffer);
        self.inside[id] = false;
        let (first, last) = pool.span(buffer);
        let occupied = (pool.size(buffer) * (last + 1 - first) as u64) as f64;
        let saved = [(before.cycles, after.cycles), (before.dram, after.dram)];
        (after.cycles <= before.cycles && after.dram < before.dram)
            .then(|| saved.map(|(before, after)| (before - after) as f64 / occupied))
    }
}

/// The buffers of a pool that lie in SRAM, in ascending order.
pub(crate) fn choose(program: &Program, pool: &Pool, sram: &Sram) -> Vec<usize> {
    let Sram { size, cost } = sram;
    let size = *size;
    let mut choice = Choice {
        cost,
        groups: Vec::new(),
        groups_of: vec![Vec::new(); pool.buffers.len()],
        inside: vec![false; program.buffers.len()],
    };
    let at = |id: usize| pool.buffers.binary_search(&id).ok();
    let mut left: Vec<bool> = (0..pool.buffers.len()).map(|buffer| pool.size(buffer) <= size).collect();
    for task in &program.tasks {
        match task {
            Task::Dla(list) => {
                for operations in groups(list) {
                    let units = operations.iter().map(|operation| &operation.unit);
                    let cubes = units.flat_map(|unit| unit.reads().chain([unit.target()]));
                    let mut buffers: Vec<usize> = cubes.filter_map(|cube| at(cube.buffer()?)).collect();
                    buffers.sort_unstable();
                    buffers.dedup();
                    for &buffer in &buffers {
                        choice.groups_of[buffer].push(choice.groups.len());
                    }
                    choice.groups.push(Group { operations, buffers });
                }
            }
            Task::Emulated(list) => {
                let cubes = list.iter().flat_map(|operation| [&operation.source, &operation.target]);
                cubes.filter_map(|cube| at(cube.buffer()?)).for_each(|buffer| left[buffer] = false);
            }
        }
    }
    let mut chosen: Vec<usize> = Vec::new();
    let mut last = Vec::new();
    // A gain changes when another buffer of the same groups is chosen.
    let mut gains: Vec<Option<[f64; 2]>> = vec![None; left.len()];
    let mut old = vec![true; left.len()];
    loop {
        for buffer in (0..left.len()).filter(|&buffer| left[buffer]) {
            if std::mem::take(&mut old[buffer]) {
                gains[buffer] = choice.gain(pool, buffer);
            }
        }
        let known = (0..left.len()).filter(|&buffer| left[buffer]).filter_map(|buffer| Some((gains[buffer]?, buffer)));
        // Of equal ones the first.
        let order = |a: &([f64; 2], usize), b: &([f64; 2], usize)| {
            a.0[0].total_cmp(&b.0[0]).then(a.0[1].total_cmp(&b.0[1])).then(b.1.cmp(&a.1))
        };
        let Some((_, best)) = known.max_by(order) else { break };
        left[best] = false;
        let mut more = chosen.clone();
        more.insert(more.partition_point(|&buffer| buffer < best), best);
        if pool.bound(&more) <= size && pool.pack(&more, size).1 <= size {
            chosen = more;
            last.push(best);
            choice.inside[pool.buffers[best]] = true;
            for &group in &choice.groups_of[best] {
                choice.groups[group].buffers.iter().for_each(|&buffer| old[buffer] = true);
            }
        }
    }
    // A register that selects the memory is written when it changes, which only the whole program shows.
    let outside = cost.cycles_again(program, |_| false);
    while cost.cycles_again(program, |id| choice.inside[id]) > outside {
        let Some(buffer) = last.pop() else { break };
        choice.inside[pool.buffers[buffer]] = false;
        chosen.retain(|&other| other != buffer);
    }
    chosen
}
