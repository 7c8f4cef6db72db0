// SPDX-License-Identifier: MIT OR Apache-2.0

//! What operations cost: every estimate of time behind a decision of the compiler or in its report.

use std::collections::HashSet;
use std::ops::Range;

use nvdla_estimate::{
    self as estimate, Conditions, ConvShape, Host, Memory, PdpShape, Registers, SdpShape, Shape, Slot, Writes,
};
use nvdla_uapi::config::Config;

use super::program::{Operation, Program, Task, Unit};

/// The conditions of estimates: a configuration with its memories and its host.
#[derive(Clone, Debug)]
pub struct Cost {
    config: &'static Config,
    memory: Memory,
    host: Host,
}

/// SRAM in which buffers may lie.
#[derive(Clone, Debug)]
pub struct Sram {
    /// Bytes that may be used.
    pub size: u64,
    /// The conditions of estimates with it.
    pub(crate) cost: Cost,
}

impl Sram {
    /// Estimated cycles of all operations of NVDLA.
    pub(crate) fn cycles(&self, program: &Program) -> u64 {
        self.cost.cycles_again(program, |id| program.in_sram(id))
    }
}

/// The time of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepTime {
    /// Estimated cycles.
    pub(crate) cycles: u64,
    /// Operations; those with the same weights count as one.
    pub(crate) operations: u64,
    /// Bytes of weights.
    pub(crate) weights: u64,
}

impl Cost {
    /// The conditions for decisions and reports: those of the runtime's `--profile`.
    pub(crate) fn new(config: &'static Config, conditions: &Conditions) -> Self {
        Self { config, memory: conditions.memory(), host: conditions.host() }
    }

    /// Cycles from the end of an operation to the start of one that waits for it.
    pub(crate) fn hand_over(&self) -> u64 {
        self.host.hand_over
    }

    /// Cycles of the register writes of a further part of a layer.
    pub(crate) fn part_writes(&self) -> u64 {
        self.host.cycles(Writes::OF_PART.registers)
    }

    /// Cycles in which DRAM moves some bytes.
    pub(crate) fn moving(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.memory.dram.bandwidth) as u64
    }

    /// Cycles of operations that run together: a convolution, SDP, and a pooling on the fly.
    pub(crate) fn pipeline(&self, conv: &ConvShape, sdp: &SdpShape, pdp: Option<&PdpShape>) -> u64 {
        estimate::pipeline(Some(conv), Some(sdp), pdp, self.config, &self.memory).cycles
    }

    /// Cycles of a pooling from memory to memory.
    pub(crate) fn pooling(&self, shape: &PdpShape) -> u64 {
        estimate::pdp(shape, self.config, &self.memory).cycles
    }

    /// The times of operations of a task, the first of which does not take its input on the fly. `in_sram` says which buffers lie
    /// in SRAM.
    pub(crate) fn slots(&self, list: &[Operation], in_sram: impl Fn(usize) -> bool) -> Vec<Slot> {
        self.slots_after(&mut Registers::default(), list, in_sram)
    }

    /// The same, with what the registers hold before, and then hold.
    fn slots_after(&self, registers: &mut Registers, list: &[Operation], in_sram: impl Fn(usize) -> bool) -> Vec<Slot> {
        let mut steps = Vec::new();
        let mut before: [&[Operation]; 2] = [&[]; 2];
        for group in groups(list) {
            // A unit has two register groups, so the values that stay are those of the last operation but one.
            let part = before[0].first().is_some_and(|first| first.step == group[0].step);
            let first = steps.len();
            for (index, operation) in group.iter().enumerate() {
                let (op, surface) = operation.unit.descriptors(|cube| cube.placed(&in_sram));
                let Some(shape) = Shape::from_descriptors(&op, &surface) else { continue };
                let writes = match (registers.write(&op, &surface, self.config), &group[0].unit) {
                    (Some(registers), _) => Writes { registers, table: 0 },
                    (None, Unit::Convolution { .. }) if part && index == 0 => Writes::OF_PART,
                    (None, Unit::Convolution { .. }) if part => Writes::default(),
                    (None, _) => Writes::of_layer(shape.unit()),
                };
                let source = (index > 0).then(|| steps.len() - 1);
                let waits_for = |earlier: &Operation| operation.waits_for(earlier, self.config.memory_atomic);
                let waits = first == 0 || before[1].iter().any(waits_for);
                steps.push(estimate::Step { shape, writes, source, waits });
            }
            before = [before[1], group];
        }
        estimate::schedule(&steps, self.config, &self.memory, self.host)
    }

    /// The cycle in which the last of some operations of a task ends.
    pub(crate) fn end(&self, list: &[Operation], in_sram: impl Fn(usize) -> bool) -> u64 {
        end(&self.slots(list, in_sram))
    }

    /// What the registers hold after some operations.
    pub(crate) fn write(&self, registers: &mut Registers, list: &[Operation], in_sram: impl Fn(usize) -> bool) {
        for operation in list {
            let (op, surface) = operation.unit.descriptors(|cube| cube.placed(&in_sram));
            registers.write(&op, &surface, self.config);
        }
    }

    /// Estimated cycles of all operations of NVDLA, with these buffers in SRAM.
    pub(crate) fn cycles(&self, program: &Program, in_sram: impl Fn(usize) -> bool) -> u64 {
        lists(program).map(|list| self.end(list, &in_sram)).sum()
    }

    /// The same for a network that runs again: the registers hold what its last operations left there.
    pub(crate) fn cycles_again(&self, program: &Program, in_sram: impl Fn(usize) -> bool) -> u64 {
        let mut registers = Registers::default();
        lists(program).for_each(|list| self.write(&mut registers, list, &in_sram));
        lists(program).map(|list| end(&self.slots_after(&mut registers, list, &in_sram))).sum()
    }

    /// The time of each of some steps, with these buffers in SRAM.
    pub(crate) fn times(
        &self,
        program: &Program,
        steps: Range<usize>,
        in_sram: impl Fn(usize) -> bool,
    ) -> Vec<StepTime> {
        let mut times = vec![StepTime::default(); steps.len()];
        let mut seen = HashSet::new();
        for task in &program.tasks {
            let Task::Dla(list) = task else { continue };
            let mut previous = None;
            for group in groups(list) {
                // Parts of a layer do not wait for one another.
                let waits = previous.replace(group[0].step) != Some(group[0].step);
                if !steps.contains(&group[0].step) {
                    continue;
                }
                let time = &mut times[group[0].step - steps.start];
                time.cycles += together(&self.slots(group, &in_sram));
                time.cycles += if waits { self.hand_over() } else { 0 };
                if let Unit::Convolution { .. } = group[0].unit {
                    let weights = group[0].unit.weights().filter(|weights| seen.insert(weights.base));
                    let bytes: Vec<u64> = weights.map(|weights| weights.size.into()).collect();
                    time.operations += u64::from(!bytes.is_empty());
                    time.weights += bytes.iter().sum::<u64>();
                } else {
                    time.operations += 1;
                }
            }
        }
        times
    }
}

/// The lists of operations of a program.
fn lists(program: &Program) -> impl Iterator<Item = &Vec<Operation>> {
    program.tasks.iter().filter_map(|task| match task {
        Task::Dla(list) => Some(list),
        Task::Emulated(_) => None,
    })
}

/// The cycle in which the last operation ends.
fn end(slots: &[Slot]) -> u64 {
    slots.last().map_or(0, |slot| slot.start + slot.cycles)
}

/// The estimated cycles of operations that run together, if they are the only ones of a schedule. Their registers are written
/// while the operations before them run, so writes count only if they take longer.
pub(crate) fn together(slots: &[Slot]) -> u64 {
    slots.first().map_or(0, |slot| slot.cycles.max(slot.start))
}

/// Operations that run together, because they are connected on the fly.
pub(crate) fn groups(list: &[Operation]) -> impl Iterator<Item = &[Operation]> {
    list.chunk_by(|_, next| next.unit.takes_on_the_fly())
}
