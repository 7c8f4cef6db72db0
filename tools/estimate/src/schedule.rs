// SPDX-License-Identifier: MIT OR Apache-2.0

//! The start and end of each operation of a network.
//!
//! Operations that are connected on the fly run together (see [`pipeline`]). Groups of them run one after another, but CDMA fetches
//! input and weights of a convolution while the one before computes, if the two do not depend on one another; so do the readers of SDP
//! and PDP while their unit's operation before ends. Between two
//! groups the driver handles an interrupt and enables the next operation ([`Host`]), if that operation waits for a result of the
//! group before. Otherwise it is already enabled. Registers are written while the group before still runs, because each unit has
//! two register groups. These writes count only if they take longer than that group. A lookup table is written when its unit is
//! idle.

use crate::conv::{Begin, ConvShape};
use crate::estimate::{Estimate, Limit};
use crate::memory::Memory;
use crate::pipeline::{pipeline, Shape};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;
use nvdla_uapi::reg::Block;

/// The register writes of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Writes that program it, while the previous operation still runs.
    pub registers: u32,
    /// Writes that load its lookup table, for which its unit must be idle.
    pub table: u32,
}

impl Writes {
    /// All registers of a unit that an operation programs: all but the `S_` registers of its blocks.
    pub fn all(unit: OpType) -> Self {
        let blocks: &[Block] = match unit {
            OpType::Bdma => &[Block::Bdma],
            OpType::Conv => &[Block::Cdma, Block::Csc, Block::CmacA, Block::CmacB, Block::Cacc],
            OpType::Sdp => &[Block::SdpRdma, Block::Sdp],
            OpType::Pdp => &[Block::PdpRdma, Block::Pdp],
            OpType::Cdp => &[Block::CdpRdma, Block::Cdp],
            OpType::Rubik => &[Block::Rbk],
        };
        let registers = blocks.iter().flat_map(|block| block.registers()).filter(|register| {
            // S_ registers select the group; statistics registers are read-only.
            !register.name.starts_with("S_") && register.register.writable != 0
        });
        Self { registers: registers.count() as u32, table: 0 }
    }

    /// The writes of an operation of a new layer, which has many values in common with the layers before: medians over compiled
    /// ResNet-18, ResNet-50, SqueezeNet and MobileNet, counted by the driver's scheduler. CDP and Rubik have all of their writes,
    /// because few networks have more than one such operation.
    pub fn of_layer(unit: OpType) -> Self {
        let registers = match unit {
            OpType::Conv => 21,
            OpType::Sdp => 11,
            OpType::Pdp => 9,
            OpType::Bdma | OpType::Cdp | OpType::Rubik => return Self::all(unit),
        };
        Self { registers, table: 0 }
    }

    /// The writes of a convolution and its SDP for another part of the same layer: addresses of input, weights, operands and
    /// output, and the sizes that differ. Counted in the same way.
    pub const OF_PART: Self = Self { registers: 7 + 4, table: 0 };
}

/// An operation of a network, in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The shape of the operation.
    pub shape: Shape,
    /// Its register writes.
    pub writes: Writes,
    /// The earlier step that passes it its data on the fly.
    pub source: Option<usize>,
    /// It waits for the end of a step of the group before. Otherwise it is enabled while that group runs.
    pub waits: bool,
}

/// The time of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The estimate of the operation without others, including its set-up.
    pub estimate: Estimate,
    /// The start of its group, in cycles.
    pub start: u64,
    /// The duration of its group, in cycles.
    pub cycles: u64,
    /// What limits its group.
    pub limit: Limit,
    /// The first step of its group.
    pub leader: usize,
}

/// The cost of the driver's accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Cycles of a register write.
    pub register_write: f64,
    /// Cycles from an operation's interrupt to the next one's start.
    pub hand_over: u64,
}

impl Host {
    /// Register accesses between operations that wait for one another: the interrupt's status is read, cleared and read again, and the next
    /// operations are enabled, with the five blocks of a convolution, SDP and its reader. Their other registers are already written. NVIDIA's
    /// Verilog shows this and [`Self::FURTHER`] when the simulator's accesses take 100 cycles (`register=100`, `docs/rtl.md`).
    const ACCESSES: f64 = 10.0;
    /// Further accesses for operations that wait for none: the interrupt of the convolution before SDP's is read and cleared.
    const FURTHER: u32 = 2;

    /// A host with this many cycles per register access.
    pub fn new(register_write: f64) -> Self {
        Self { register_write, hand_over: (Self::ACCESSES * register_write).ceil() as u64 }
    }

    /// Cycles of this many register writes.
    pub fn cycles(&self, writes: u32) -> u64 {
        (f64::from(writes) * self.register_write).ceil() as u64
    }
}

/// Operations that are connected on the fly.
struct Group<'a> {
    /// The convolution among them.
    conv: Option<&'a ConvShape>,
    /// The last of them.
    last: &'a Shape,
    leader: usize,
    /// The time of its operations together.
    estimate: Estimate,
    /// Cycles of the register writes that happen while the previous group runs, and of those for which units are idle.
    ahead: u64,
    idle: u64,
    waits: bool,
}

/// Computes the times of steps.
pub fn schedule(steps: &[Step], config: &Config, memory: &Memory, host: Host) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        // An operation comes after the one that passes it its data.
        let leader = step.source.and_then(|source| slots.get(source)).map_or(at, |source| source.leader);
        let mut estimate = step.shape.estimate(config, memory);
        let set_up = host.cycles(step.writes.registers + step.writes.table);
        if set_up > estimate.cycles {
            (estimate.cycles, estimate.limit) = (set_up, Limit::SetUp);
        }
        slots.push(Slot { estimate, start: 0, cycles: 0, limit: estimate.limit, leader });
    }
    let leaders = (0..steps.len()).filter(|&at| slots[at].leader == at);
    let groups: Vec<Group> = leaders.map(|leader| group(leader, steps, &slots, config, memory, host)).collect();
    let mut now = groups.first().map_or(0, |first| first.ahead);
    let mut before: Option<(&Group, u64)> = None;
    for (at, group) in groups.iter().enumerate() {
        let Group { leader, estimate, idle, .. } = group;
        let next = groups.get(at + 1);
        let waits = next.is_none_or(|next| next.waits);
        let writing = next.map_or(0, |next| if waits { next.ahead } else { next.enabled(host) });
        let overlap = before.map_or(0, |(before, cycles)| group.beside(before, cycles, config, memory, host));
        let alone = estimate.cycles - overlap;
        let limit = if writing > alone { Limit::SetUp } else { estimate.limit };
        let cycles = writing.max(alone);
        before = Some((group, cycles));
        now += idle;
        for slot in slots.iter_mut().skip(*leader).filter(|slot| slot.leader == *leader) {
            (slot.start, slot.cycles, slot.limit) = (now, cycles, limit);
        }
        now += cycles + if waits { host.hand_over } else { 0 };
    }
    slots
}

impl Group<'_> {
    /// Cycles from the end of the group before the last until this one is enabled, if it waits for none.
    fn enabled(&self, host: Host) -> u64 {
        self.ahead + host.hand_over + host.cycles(Host::FURTHER)
    }

    /// The cycles of this group's start during which the group before still computes. That one takes `cycles` after the end of the group
    /// before it, which is when the driver begins to write this group's registers and then enables it. Memory serves that group first.
    fn beside(&self, before: &Self, cycles: u64, config: &Config, memory: &Memory, host: Host) -> u64 {
        if self.waits {
            return 0;
        }
        let enabled = cycles.saturating_sub(self.enabled(host));
        let (Some(conv), Some(other)) = (self.conv, before.conv) else {
            return self.last.beside(before.last, enabled, config, memory).min(self.estimate.cycles);
        };
        let [begin, other] = [conv, other].map(|shape| Begin::new(shape, config, memory));
        let computing = before.estimate.cycles.saturating_sub(other.cycles);
        let busy = before.estimate.memory.saturating_sub(other.filling);
        begin.beside(&other, config).min(computing.saturating_sub(busy)).min(enabled)
    }
}

fn group<'a>(
    leader: usize,
    steps: &'a [Step],
    slots: &[Slot],
    config: &Config,
    memory: &Memory,
    host: Host,
) -> Group<'a> {
    let (mut conv, mut sdp, mut pdp, mut other) = (None, None, None, None);
    let (mut ahead, mut idle, mut waits, mut last) = (0, 0, false, &steps[leader].shape);
    for (step, _) in steps.iter().zip(slots).skip(leader).filter(|(_, slot)| slot.leader == leader) {
        match &step.shape {
            Shape::Conv(shape) => conv = Some(shape),
            Shape::Sdp(shape) => sdp = Some(shape),
            Shape::Pdp(shape) => pdp = Some(shape),
            shape @ (Shape::Bdma(_) | Shape::Cdp(_) | Shape::Rubik(_)) => other = Some(shape),
        }
        last = &step.shape;
        waits |= step.waits;
        // An operation with a new table is programmed when its unit is idle.
        if step.writes.table > 0 {
            waits = true;
            idle += step.writes.registers + step.writes.table;
        } else {
            ahead += step.writes.registers;
        }
    }
    let estimate = match other {
        Some(shape) => shape.estimate(config, memory),
        None => pipeline(conv, sdp, pdp, config, memory),
    };
    Group { conv, last, leader, estimate, ahead: host.cycles(ahead), idle: host.cycles(idle), waits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Cube;
    use crate::sdp::SdpShape;
    use nvdla_uapi::config::NV_SMALL;

    #[test]
    fn every_unit_has_registers() {
        for unit in OpType::ALL {
            let Writes { registers, table } = Writes::all(*unit);
            assert!((5..100).contains(&registers), "{unit}: {registers}");
            assert_eq!(table, 0);
        }
    }

    #[test]
    fn groups_follow_one_another_and_their_members_run_together() {
        let memory = Memory::new(&NV_SMALL, 50, 8.0);
        let output = Cube::int8(16, 14, 14);
        let conv = ConvShape::direct(Cube::int8(16, 16, 16), 16, (3, 3), output);
        let sdp = SdpShape::new(output.on_the_fly(), output);
        let writes = Writes { registers: 10, table: 0 };
        let mut steps = [
            Step { shape: Shape::Conv(conv), writes, source: None, waits: true },
            Step { shape: Shape::Sdp(sdp), writes, source: Some(0), waits: false },
            Step { shape: Shape::Conv(conv), writes, source: None, waits: true },
        ];
        let slots = schedule(&steps, &NV_SMALL, &memory, Host::new(0.0));
        assert_eq!((slots[0].start, slots[1].start), (0, 0));
        assert_eq!(slots[0].cycles, pipeline(Some(&conv), Some(&sdp), None, &NV_SMALL, &memory).cycles);
        assert_eq!(slots[2].start, slots[0].cycles);
        // The first group's registers are written before it starts, the second group's while the first runs.
        let host = Host { register_write: 1e4, hand_over: 5 };
        let slow = schedule(&steps, &NV_SMALL, &memory, host);
        assert_eq!((slow[0].start, slow[0].cycles, slow[0].limit), (200_000, 100_000, Limit::SetUp));
        assert_eq!((slow[2].start, slow[2].cycles), (300_005, slots[2].cycles));
        // An operation that does not wait follows without the driver.
        steps[2].waits = false;
        let free = schedule(&steps, &NV_SMALL, &memory, Host { register_write: 0.0, hand_over: 5 });
        assert_eq!(free[2].start, slots[0].cycles);
        // It fetches while the convolution before computes, if the buffer is divided in the same way.
        let total = |first: ConvShape, second: ConvShape, waits: bool| {
            let mut steps =
                [first, second].map(|shape| Step { shape: Shape::Conv(shape), writes, source: None, waits });
            steps[0].waits = true;
            let slots = schedule(&steps, &NV_SMALL, &memory, Host::new(0.0));
            slots[1].start + slots[1].cycles
        };
        let [whole, other, full] =
            [(8, 8), (8, 9), (1, 8)].map(|(data_banks, weight_banks)| ConvShape { data_banks, weight_banks, ..conv });
        let apart = 2 * pipeline(Some(&conv), None, None, &NV_SMALL, &memory).cycles;
        assert!(total(whole, whole, false) < apart);
        assert!(total(full, full, false) > total(whole, whole, false));
        assert_eq!((total(whole, whole, true), total(whole, other, false)), (apart, apart));
        // A table is written between the groups, and so are the registers of its operation.
        steps[2].writes.table = 3;
        let table = schedule(&steps, &NV_SMALL, &memory, host);
        assert_eq!(table[2].start, 200_000 + slots[0].cycles + 5 + 130_000);
        // Convolutions that wait for none follow one another no faster than the driver writes their registers and enables them.
        let first =
            Step { shape: Shape::Conv(whole), writes: Writes { registers: 11, table: 0 }, source: None, waits: true };
        let short = [first, Step { waits: false, ..first }, Step { waits: false, ..first }];
        let slots = schedule(&short, &NV_SMALL, &memory, Host::new(1000.0));
        assert_eq!((slots[1].cycles, slots[1].limit), (23_000, Limit::SetUp));
    }
}
