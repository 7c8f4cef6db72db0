// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operations that hand data over on the fly: they run together, as long as the slowest of them or the memory time of all
//! their bytes.

use crate::{bdma, cdp, convolution, pdp, rubik, sdp};
use crate::{BdmaShape, Bytes, CdpShape, ConvShape, Estimate, Limit, Memory, PdpShape, RubikShape, SdpShape};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{OpType, Operation, Surface};

/// An operation of any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the units' names
pub enum Shape {
    Bdma(BdmaShape),
    Conv(ConvShape),
    Sdp(SdpShape),
    Pdp(PdpShape),
    Cdp(CdpShape),
    Rubik(RubikShape),
}

impl Shape {
    /// From an operation's descriptors; none when the two are of different units.
    pub fn from_descriptors(operation: &Operation, surface: &Surface) -> Option<Self> {
        Some(match (operation, surface) {
            (Operation::Bdma(_), Surface::Bdma(surface)) => Self::Bdma(BdmaShape::from_descriptors(surface)),
            (Operation::Conv(conv), Surface::Conv(surface)) => Self::Conv(ConvShape::from_descriptors(conv, surface)),
            (Operation::Sdp(sdp), Surface::Sdp(surface)) => Self::Sdp(SdpShape::from_descriptors(sdp, surface)),
            (Operation::Pdp(pdp), Surface::Pdp(surface)) => Self::Pdp(PdpShape::from_descriptors(pdp, surface)),
            (Operation::Cdp(cdp), Surface::Cdp(surface)) => Self::Cdp(CdpShape::from_descriptors(cdp, surface)),
            (Operation::Rubik(rubik), Surface::Rubik(surface)) => {
                Self::Rubik(RubikShape::from_descriptors(rubik, surface))
            }
            _ => return None,
        })
    }

    /// The time of the operation by itself.
    pub fn estimate(&self, config: &Config, memory: &Memory) -> Estimate {
        match self {
            Self::Bdma(shape) => bdma(shape, config, memory),
            Self::Conv(shape) => convolution(shape, config, memory),
            Self::Sdp(shape) => sdp(shape, config, memory),
            Self::Pdp(shape) => pdp(shape, config, memory),
            Self::Cdp(shape) => cdp(shape, config, memory),
            Self::Rubik(shape) => rubik(shape, config, memory),
        }
    }

    /// The unit that runs it.
    pub const fn unit(&self) -> OpType {
        match self {
            Self::Bdma(_) => OpType::Bdma,
            Self::Conv(_) => OpType::Conv,
            Self::Sdp(_) => OpType::Sdp,
            Self::Pdp(_) => OpType::Pdp,
            Self::Cdp(_) => OpType::Cdp,
            Self::Rubik(_) => OpType::Rubik,
        }
    }

    /// Multiply-accumulate steps of the algorithm; only convolutions have them.
    pub fn macs(&self) -> u64 {
        match self {
            Self::Conv(shape) => shape.macs(),
            _ => 0,
        }
    }
}

/// The time of operations that hand data over on the fly, in the order of the data: any of a convolution, an SDP and a PDP
/// operation. One alone is as its own function says.
pub fn pipeline(
    conv: Option<&ConvShape>,
    sdp: Option<&SdpShape>,
    pdp: Option<&PdpShape>,
    config: &Config,
    memory: &Memory,
) -> Estimate {
    let members = [
        (conv.map(|shape| convolution(shape, config, memory)), Limit::Macs),
        (sdp.map(|shape| crate::sdp(shape, config, memory)), Limit::Throughput),
        (pdp.map(|shape| crate::pdp(shape, config, memory)), Limit::Throughput),
    ];
    let mut bytes = Bytes::default();
    let mut slowest = (0, Limit::Throughput);
    for (member, busy) in members {
        let Some(member) = member else { continue };
        bytes += member.bytes;
        if member.compute > slowest.0 {
            slowest = (member.compute, busy);
        }
    }
    Estimate::new(slowest.0, slowest.1, bytes, memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cube, Operand};
    use nvdla_uapi::config::{NV_FULL, NV_SMALL};
    use nvdla_uapi::desc::{MemoryType, SdpOperandMode};

    #[test]
    fn one_operation_alone_is_as_its_own_function_says() {
        let cube = Cube::int8(16, 8, 8);
        let memory = Memory::new(&NV_SMALL, 50, 8.0);
        let shape = SdpShape::new(cube, cube);
        assert_eq!(pipeline(None, Some(&shape), None, &NV_SMALL, &memory), sdp(&shape, &NV_SMALL, &memory));
    }

    #[test]
    fn a_pipeline_takes_as_long_as_its_slowest_part_and_reads_what_they_all_read() {
        let memory = Memory::new(&NV_FULL, 50, 64.0);
        let output = Cube::int8(64, 28, 28);
        let conv = ConvShape::direct(Cube::int8(64, 30, 30), 64, (3, 3), output);
        // Element-wise: 4 elements per cycle.
        let y = Operand { mode: SdpOperandMode::PerPoint, bytes: 1, memory: MemoryType::Mc };
        let after = SdpShape { y: Some(y), ..SdpShape::new(output.on_the_fly(), output) };
        let (first, second) = (convolution(&conv, &NV_FULL, &memory), sdp(&after, &NV_FULL, &memory));
        let both = pipeline(Some(&conv), Some(&after), None, &NV_FULL, &memory);
        assert_eq!(both.bytes, first.bytes + second.bytes);
        assert!(both.cycles >= first.cycles.max(second.cycles));
        assert!(both.cycles <= first.cycles + second.cycles);
    }
}
