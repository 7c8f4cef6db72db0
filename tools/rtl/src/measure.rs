// SPDX-License-Identifier: MIT OR Apache-2.0

//! Measures each operation, from the cycles in which software enabled it and from the unit's done pulses.

use std::collections::VecDeque;

use nvdla_model::glb::Source;
use nvdla_model::simulation::Measured;
use nvdla_uapi::desc::OpType;
use nvdla_uapi::reg::{bdma, cdma, cdp, pdp, rbk, sdp, Block, Family};

use crate::protocol::{Done, Traffic, CLIENTS};

/// A unit: its operations, the register whose write starts an operation, the pulse that ends one, and its DMA clients.
/// Their numbers are the hardware's AXI identifiers (`NV_NVDLA_MCIF_define.vh`).
const UNITS: [(OpType, Block, u16, Source, &[usize]); 6] = [
    (OpType::Bdma, Block::Bdma, bdma::CFG_LAUNCH0.offset, Source::Bdma, &[0]),
    (OpType::Conv, Block::Cdma, cdma::D_OP_ENABLE.offset, Source::Cacc, &[8, 9]),
    (OpType::Sdp, Block::Sdp, sdp::D_OP_ENABLE.offset, Source::Sdp, &[1, 5, 6, 7]),
    (OpType::Pdp, Block::Pdp, pdp::D_OP_ENABLE.offset, Source::Pdp, &[2]),
    (OpType::Cdp, Block::Cdp, cdp::D_OP_ENABLE.offset, Source::Cdp, &[3]),
    (OpType::Rubik, Block::Rbk, rbk::D_OP_ENABLE.offset, Source::Rubik, &[4]),
];

/// The unit of a DMA client, for messages.
pub(crate) fn client_name(client: u32) -> &'static str {
    match client {
        0 => "BDMA",
        1 => "SDP",
        2 => "PDP",
        3 => "CDP",
        4 => "Rubik",
        5 => "SDP's bias DMA",
        6 => "SDP's batch normalisation DMA",
        7 => "SDP's element-wise DMA",
        8 => "CDMA (data)",
        9 => "CDMA (weights)",
        _ => "an unknown DMA client",
    }
}

/// The measures of operations that have ended.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    units: [Unit; UNITS.len()],
}

#[derive(Debug, Default)]
struct Unit {
    enabled: VecDeque<u64>,
    /// The cycle of the previous done pulse.
    last: u64,
    traffic: [Traffic; CLIENTS],
    measured: VecDeque<Measured>,
}

impl Measures {
    /// Handles a register write of software, which took effect in that cycle.
    pub(crate) fn written(&mut self, family: Family, offset: u32, value: u32, cycle: u64) {
        for (unit, (_, block, register, ..)) in self.units.iter_mut().zip(UNITS) {
            let register = block.base(family).map(|base| base + u32::from(register));
            // BDMA's second group is launched by the register after the first group's.
            let second = block == Block::Bdma && register.is_some_and(|first| offset == first + 4);
            if value & 1 != 0 && (register == Some(offset) || second) {
                unit.enabled.push_back(cycle);
            }
        }
    }

    /// Whether a unit has an operation to complete.
    pub(crate) fn busy(&self) -> bool {
        self.units.iter().any(|unit| !unit.enabled.is_empty())
    }

    /// Handles done pulses.
    pub(crate) fn done(&mut self, done: &Done) {
        for (unit, (.., source, clients)) in self.units.iter_mut().zip(UNITS) {
            if done.bits & (source.bit(0) | source.bit(1)) == 0 {
                continue;
            }
            let enabled = unit.enabled.pop_front().unwrap_or(unit.last);
            let start = enabled.max(unit.last);
            let sum = |of: fn(&Traffic) -> u64| {
                clients.iter().map(|&client| of(&done.traffic[client]).saturating_sub(of(&unit.traffic[client]))).sum()
            };
            unit.measured.push_back(Measured {
                enabled,
                start,
                end: done.cycle,
                read: sum(|traffic| traffic.read),
                written: sum(|traffic| traffic.written),
                waited: sum(|traffic| traffic.waited),
            });
            unit.last = done.cycle;
            unit.traffic = done.traffic;
        }
    }

    /// Removes and returns the oldest measure of a unit's operations.
    pub(crate) fn take(&mut self, operation: OpType) -> Option<Measured> {
        let unit = UNITS.iter().position(|(of, ..)| *of == operation)?;
        self.units[unit].measured.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(cycle: u64, source: Source, group: usize, client: usize, read: u64) -> Done {
        let mut traffic = [Traffic::default(); CLIENTS];
        traffic[client] = Traffic { read, written: read / 2, waited: 3 };
        Done { cycle, bits: source.bit(group), traffic }
    }

    #[test]
    fn an_operation_starts_when_the_one_before_has_ended() {
        let mut measures = Measures::default();
        let enable = Block::Pdp.base(Family::NvSmall).unwrap() + u32::from(pdp::D_OP_ENABLE.offset);
        measures.written(Family::NvSmall, enable, 1, 100);
        measures.written(Family::NvSmall, enable, 1, 120);
        measures.written(Family::NvSmall, enable, 0, 130);
        measures.done(&done(500, Source::Pdp, 0, 2, 64));
        measures.done(&done(700, Source::Pdp, 1, 2, 96));
        measures.done(&done(800, Source::Cdp, 1, 3, 10));
        let first = Measured { enabled: 100, start: 100, end: 500, read: 64, written: 32, waited: 3 };
        assert_eq!(measures.take(OpType::Pdp), Some(first));
        let second = Measured { enabled: 120, start: 500, end: 700, read: 32, written: 16, waited: 0 };
        assert_eq!((measures.take(OpType::Pdp), measures.take(OpType::Pdp)), (Some(second), None));
        assert_eq!(second.cycles(), 200);
        assert_eq!(measures.take(OpType::Cdp).map(|cdp| (cdp.start, cdp.end)), Some((0, 800)));
    }
}
