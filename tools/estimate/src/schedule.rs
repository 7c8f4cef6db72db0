// SPDX-License-Identifier: MIT OR Apache-2.0

//! The start and end of each operation of a network.
//!
//! Operations that are connected on the fly run together (see [`pipeline`]). Groups of them run one after another, because an
//! operation waits for the data of the previous one. Between two groups the driver handles an interrupt and enables the next
//! operation ([`Host`]). Registers are written while the previous operation still runs, because each unit has two register
//! groups. Register writes count only if they take longer than everything else.

use crate::{pipeline, Estimate, Limit, Memory, Shape};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;
use nvdla_uapi::reg::Block;

/// An operation of a network, in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The shape of the operation.
    pub shape: Shape,
    /// The earlier step that passes it its data on the fly.
    pub source: Option<usize>,
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
    /// Register accesses between operations: the interrupt's status is read and cleared, and the next operation is enabled. The
    /// other registers of the operation are already written.
    const ACCESSES: f64 = 6.0;

    /// A host with this many cycles per register access.
    pub fn new(register_write: f64) -> Self {
        Self { register_write, hand_over: (Self::ACCESSES * register_write).ceil() as u64 }
    }
}

/// Computes the times of steps.
pub fn schedule(steps: &[Step], config: &Config, memory: &Memory, host: Host) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        // An operation comes after the one that passes it its data.
        let leader = step.source.and_then(|source| slots.get(source)).map_or(at, |source| source.leader);
        let mut estimate = step.shape.estimate(config, memory);
        let set_up = set_up(step.shape.unit(), host.register_write);
        if set_up > estimate.cycles {
            (estimate.cycles, estimate.limit) = (set_up, Limit::SetUp);
        }
        slots.push(Slot { estimate, start: 0, cycles: 0, limit: estimate.limit, leader });
    }
    let mut now = 0;
    for leader in 0..steps.len() {
        if slots[leader].leader != leader {
            continue;
        }
        let (mut conv, mut sdp, mut pdp) = (None, None, None);
        let mut writing = 0;
        for (step, _) in steps.iter().zip(&slots).skip(leader).filter(|(_, slot)| slot.leader == leader) {
            match &step.shape {
                Shape::Conv(shape) => conv = Some(shape),
                Shape::Sdp(shape) => sdp = Some(shape),
                Shape::Pdp(shape) => pdp = Some(shape),
                Shape::Bdma(_) | Shape::Cdp(_) | Shape::Rubik(_) => {}
            }
            writing = set_up(step.shape.unit(), host.register_write).max(writing);
        }
        let together = match (conv, sdp, pdp) {
            (None, None, None) => slots[leader].estimate,
            _ => pipeline(conv, sdp, pdp, config, memory),
        };
        let limit = if writing > together.cycles { Limit::SetUp } else { together.limit };
        let cycles = writing.max(together.cycles);
        for slot in slots.iter_mut().skip(leader).filter(|slot| slot.leader == leader) {
            (slot.start, slot.cycles, slot.limit) = (now, cycles, limit);
        }
        now += cycles + host.hand_over;
    }
    slots
}

/// Cycles to write all registers of an operation, at `register_write` cycles per write: all but the `S_` registers of its unit's
/// blocks.
pub fn set_up(unit: OpType, register_write: f64) -> u64 {
    let blocks: &[Block] = match unit {
        OpType::Bdma => &[Block::Bdma],
        OpType::Conv => &[Block::Cdma, Block::Csc, Block::CmacA, Block::CmacB, Block::Cacc],
        OpType::Sdp => &[Block::SdpRdma, Block::Sdp],
        OpType::Pdp => &[Block::PdpRdma, Block::Pdp],
        OpType::Cdp => &[Block::CdpRdma, Block::Cdp],
        OpType::Rubik => &[Block::Rbk],
    };
    let writes = blocks.iter().flat_map(|block| block.registers()).filter(|register| {
        // S_ registers select the group; statistics registers are read-only.
        !register.name.starts_with("S_") && register.register.writable != 0
    });
    (writes.count() as f64 * register_write).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConvShape, Cube, SdpShape};
    use nvdla_uapi::config::NV_SMALL;

    #[test]
    fn set_up_counts_writes() {
        for unit in OpType::ALL {
            let cycles = set_up(*unit, 5.0);
            assert_eq!(cycles % 5, 0, "{unit}");
            assert!((5..1000).contains(&cycles), "{unit}: {cycles}");
        }
    }

    #[test]
    fn groups_follow_one_another_and_their_members_run_together() {
        let memory = Memory::new(&NV_SMALL, 50, 8.0);
        let output = Cube::int8(16, 14, 14);
        let conv = ConvShape::direct(Cube::int8(16, 16, 16), 16, (3, 3), output);
        let sdp = SdpShape::new(output.on_the_fly(), output);
        let steps = [
            Step { shape: Shape::Conv(conv), source: None },
            Step { shape: Shape::Sdp(sdp), source: Some(0) },
            Step { shape: Shape::Conv(conv), source: None },
        ];
        let slots = schedule(&steps, &NV_SMALL, &memory, Host::new(0.0));
        assert_eq!((slots[0].start, slots[1].start), (0, 0));
        assert_eq!(slots[0].cycles, pipeline(Some(&conv), Some(&sdp), None, &NV_SMALL, &memory).cycles);
        assert_eq!(slots[2].start, slots[0].cycles);
        // Slow register writes take longer than the operation.
        let slow = schedule(&steps[2..], &NV_SMALL, &memory, Host::new(1000.0));
        assert_eq!(slow[0].estimate.limit, Limit::SetUp);
        assert_eq!(slow[0].cycles, set_up(OpType::Conv, 1000.0));
    }
}
