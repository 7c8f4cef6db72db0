// SPDX-License-Identifier: MIT OR Apache-2.0

//! Converts any bytes to register accesses, which the fuzzer and the property tests run on the model.
//!
//! Random register values would never pass the first check of a unit. The bytes therefore select small valid programs
//! of each unit, changes of single registers, and starts. Addresses and strides are drawn so that most accesses lie
//! near the bounds of memory, inside and outside.

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::layout::{align::weight_size, buffer, round_up};
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{
    bdma, cacc, cdma, cdp, cdp_rdma, cmac_a, cmac_b, csc, glb, pdp, pdp_rdma, rbk, sdp, sdp_rdma, Block, Register,
};

use nvdla_model::device::Model;
use nvdla_model::memory::{disjoint, Memory, Port, Span, Stop};

/// Bytes of each of the two memories.
const MEMORY: usize = 1 << 16;
/// Address of the first byte of each memory.
const BASE: u64 = 0x10_0000;

/// Two small memories.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Small {
    bytes: [Vec<u8>; 2],
    /// How often bytes were given to write beside the others; `None` for a memory that does not.
    pub(crate) beside: Option<usize>,
}

impl Small {
    fn new(beside: Option<usize>) -> Self {
        let one: Vec<u8> = (0..MEMORY).map(|at| ((at * 37) >> 3) as u8).collect();
        Self { bytes: [one.clone(), one], beside }
    }

    fn range(address: u64, length: usize) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        let end = start.checked_add(length)?;
        (end <= MEMORY).then_some(start..end)
    }
}

impl Memory for Small {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        self.bytes[port as usize].get(Self::range(address, length)?)
    }

    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        self.bytes[port as usize].get_mut(Self::range(address, length)?)
    }

    fn both(&mut self, read: Span, write: Span) -> Option<(&[u8], &mut [u8])> {
        let [from, to] = [read, write].map(|span| Self::range(span.address, span.length));
        let [primary, secondary] = &mut self.bytes;
        match (read.port, write.port) {
            (Port::Primary, Port::Primary) => disjoint(primary, from?, to?),
            (Port::Secondary, Port::Secondary) => disjoint(secondary, from?, to?),
            (Port::Primary, Port::Secondary) => Some((primary.get(from?)?, secondary.get_mut(to?)?)),
            (Port::Secondary, Port::Primary) => Some((secondary.get(from?)?, primary.get_mut(to?)?)),
        }
    }

    fn beside(&mut self, write: Span, work: &mut dyn FnMut(&dyn Memory, &mut [u8])) -> bool {
        let (Some(count), Some(range)) = (&mut self.beside, Self::range(write.address, write.length)) else {
            return false;
        };
        *count += 1;
        // The others do not see what is written, and the written bytes are zero for them.
        let mut rest = self.clone();
        let mut bytes = rest.bytes[write.port as usize][range.clone()].to_vec();
        rest.bytes[write.port as usize][range.clone()].fill(0);
        work(&rest, &mut bytes);
        self.bytes[write.port as usize][range].copy_from_slice(&bytes);
        true
    }
}

/// The result of [`play`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// How often [`Model::run`] has performed an operation.
    pub(crate) runs: usize,
    /// Why operations stopped.
    pub(crate) stops: Vec<Stop>,
}

/// Plays `bytes` as accesses to a fresh device of that configuration. The result must be the same whether units can write their
/// output while they read or not.
pub(crate) fn play(config: &'static Config, bytes: &[u8]) -> Outcome {
    let [(outcome, memory), (other, after)] = [Some(0), None].map(|beside| play_in(config, bytes, beside));
    assert_eq!(outcome, other);
    // An operation that stops may have written a part of its output.
    assert!(memory.bytes == after.bytes || !outcome.stops.is_empty(), "the order of reads and writes matters");
    outcome
}

/// Plays `bytes`, and returns also the memory after it, which writes `beside` others unless it is `None`.
pub(crate) fn play_in(config: &'static Config, bytes: &[u8], beside: Option<usize>) -> (Outcome, Small) {
    let mut driver = Driver {
        model: Model::new(config),
        memory: Small::new(beside),
        bytes: bytes.iter().copied(),
        outcome: Outcome::default(),
    };
    while driver.step().is_some() {}
    (driver.outcome, driver.memory)
}

struct Driver<'b> {
    model: Model,
    memory: Small,
    bytes: std::iter::Copied<std::slice::Iter<'b, u8>>,
    outcome: Outcome,
}

/// The units, by the blocks that one of their operations uses.
pub(crate) const UNITS: [&[Block]; 7] = [
    &[Block::Sdp, Block::Cacc, Block::CmacA, Block::CmacB, Block::Csc, Block::Cdma],
    &[Block::SdpRdma, Block::Sdp],
    &[Block::PdpRdma, Block::Pdp],
    &[Block::CdpRdma, Block::Cdp],
    &[Block::Rbk],
    &[Block::Bdma],
    &[Block::Pdp, Block::SdpRdma, Block::Sdp],
];

impl Driver<'_> {
    /// Reads a few bytes and performs their action; `None` if no bytes are left.
    fn step(&mut self) -> Option<()> {
        match self.bytes.next()? {
            choice @ 0..=6 => self.program(choice.into()),
            choice @ 7..=13 => self.start(usize::from(choice) - 7),
            14 => {
                let group = self.bytes.next()?;
                for block in Block::ALL.into_iter().filter(|&block| block >= Block::Cdma) {
                    self.write(block, cdma::S_POINTER, u32::from(group & 1));
                }
            }
            15 => {
                self.model.reset();
            }
            16 => {
                let offset = self.number()?;
                self.model.write(offset, u32::from(self.bytes.next()?));
                self.model.read(offset);
                self.model.interrupt();
            }
            _ => self.change()?,
        }
        Some(())
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes([self.bytes.next()?, self.bytes.next()?, self.bytes.next()?, 0]))
    }

    /// Changes one register.
    fn change(&mut self) -> Option<()> {
        let block = Block::ALL[usize::from(self.bytes.next()?) % Block::ALL.len()];
        let registers = block.registers();
        let described = registers[usize::from(self.bytes.next()?) % registers.len()];
        let (shape, value) = (self.bytes.next()?, u32::from(self.bytes.next()?));
        let value = match shape {
            _ if described.name.contains("ADDR_LOW") => BASE as u32 + value * 0x101,
            0..=99 => {
                // One field; the others stay.
                let &(_, lsb, width) = described.fields.get(usize::from(shape) % described.fields.len().max(1))?;
                let mask = (u32::MAX >> (32 - width)) << lsb;
                let base = block.base(self.model.config().family)?;
                let old = self.model.read(base + u32::from(described.register.offset));
                (old & !mask) | ((value << lsb) & mask)
            }
            100..=159 => value * 8,
            160..=189 => value << 12,
            190..=219 => value * 0x0101_0101,
            _ => value.wrapping_neg(),
        };
        self.write(block, described.register, value);
        Some(())
    }

    fn write(&mut self, block: Block, register: Register, value: u32) {
        if let Some(base) = block.base(self.model.config().family) {
            self.model.write(base + u32::from(register.offset), value);
        }
    }

    /// Enables the unit's blocks, runs the device, and reads some registers back.
    fn start(&mut self, unit: usize) {
        for &block in UNITS[unit] {
            let enable = match block {
                Block::Cdma => cdma::D_OP_ENABLE,
                Block::Sdp => sdp::D_OP_ENABLE,
                Block::Cdp => cdp::D_OP_ENABLE,
                Block::Bdma => bdma::CFG_OP,
                _ => csc::D_OP_ENABLE,
            };
            self.write(block, enable, 1);
        }
        self.write(Block::Bdma, bdma::CFG_LAUNCH0, 1);
        self.outcome.runs += usize::from(self.model.run(&mut self.memory));
        self.outcome.stops.extend(std::iter::from_fn(|| self.model.take_stop()));
        self.write(Block::Glb, glb::S_INTR_STATUS, !0);
    }

    /// Writes a small valid program of the unit: 4x4 elements, one surface.
    fn program(&mut self, unit: usize) {
        let config = self.model.config();
        let atom = config.memory_atomic;
        let atoms = Atoms::of(config, Precision::Int8);
        let [line, surface] = atoms.packed_strides(4, 4).map(|stride| stride as u32);
        let [half_line, quarter] = atoms.packed_strides(2, 2).map(|stride| stride as u32);
        let [source, weights, target] = [BASE as u32, BASE as u32 + 0x4000, BASE as u32 + 0x8000];
        let size = 3 | 3 << 16;
        let channels = atom - 1;
        let mut writes: Vec<(Block, Register, u32)> = Vec::new();
        let mut put = |block: Block, list: &[(Register, u32)]| {
            writes.extend(list.iter().map(|&(register, value)| (block, register, value)));
        };
        match unit {
            0 => {
                let kernels = config.mac_atomic_k;
                let entries = buffer::feature_entries(config, 1, 4) as u32;
                let padding = weight_size(config).into();
                let bytes = round_up(u64::from(kernels) * atoms.elements() as u64, padding) as u32;
                put(
                    Block::Cdma,
                    &[
                        (cdma::D_MISC_CFG, 0),
                        (cdma::D_DATAIN_SIZE_0, size),
                        (cdma::D_DATAIN_SIZE_1, channels),
                        (cdma::D_DAIN_RAM_TYPE, 1),
                        (cdma::D_DAIN_ADDR_LOW_0, source),
                        (cdma::D_DAIN_ADDR_LOW_1, source),
                        (cdma::D_LINE_STRIDE, line),
                        (cdma::D_LINE_UV_STRIDE, line),
                        (cdma::D_SURF_STRIDE, surface),
                        (cdma::D_ENTRY_PER_SLICE, entries - 1),
                        (cdma::D_WEIGHT_SIZE_0, atom - 1),
                        (cdma::D_WEIGHT_SIZE_1, kernels - 1),
                        (cdma::D_WEIGHT_RAM_TYPE, 1),
                        (cdma::D_WEIGHT_ADDR_LOW, weights),
                        (cdma::D_WEIGHT_BYTES, bytes),
                        (cdma::D_BANK, 0x1_0001),
                    ],
                );
                put(
                    Block::Csc,
                    &[
                        (csc::D_MISC_CFG, 0),
                        (csc::D_DATAIN_SIZE_EXT_0, size),
                        (csc::D_DATAIN_SIZE_EXT_1, channels),
                        (csc::D_ENTRY_PER_SLICE, entries - 1),
                        (csc::D_WEIGHT_SIZE_EXT_1, channels | (kernels - 1) << 16),
                        (csc::D_WEIGHT_BYTES, bytes),
                        (csc::D_DATAOUT_SIZE_0, size),
                        (csc::D_DATAOUT_SIZE_1, kernels - 1),
                        (csc::D_ATOMICS, 15),
                        (csc::D_RELEASE, 3),
                        (csc::D_BANK, 0x1_0001),
                    ],
                );
                put(Block::CmacA, &[(cmac_a::D_MISC_CFG, 0)]);
                put(Block::CmacB, &[(cmac_b::D_MISC_CFG, 0)]);
                put(
                    Block::Cacc,
                    &[
                        (cacc::D_MISC_CFG, 0),
                        (cacc::D_DATAOUT_SIZE_0, size),
                        (cacc::D_DATAOUT_SIZE_1, kernels - 1),
                        (cacc::D_LINE_STRIDE, line),
                        (cacc::D_SURF_STRIDE, surface),
                    ],
                );
                put(Block::Sdp, &sdp_program(1, [kernels - 1, target, line, surface]));
            }
            1 | 6 => {
                put(
                    Block::SdpRdma,
                    &[
                        (sdp_rdma::D_DATA_CUBE_WIDTH, 3),
                        (sdp_rdma::D_DATA_CUBE_HEIGHT, 3),
                        (sdp_rdma::D_DATA_CUBE_CHANNEL, channels),
                        (sdp_rdma::D_SRC_BASE_ADDR_LOW, source),
                        (sdp_rdma::D_SRC_LINE_STRIDE, line),
                        (sdp_rdma::D_SRC_SURFACE_STRIDE, surface),
                        (sdp_rdma::D_BS_BASE_ADDR_LOW, weights),
                        (sdp_rdma::D_BN_BASE_ADDR_LOW, weights),
                        (sdp_rdma::D_EW_BASE_ADDR_LOW, weights),
                        (sdp_rdma::D_FEATURE_MODE_CFG, 0),
                        (sdp_rdma::D_SRC_DMA_CFG, 1),
                    ],
                );
                put(Block::Sdp, &sdp_program(if unit == 1 { 0 } else { 2 }, [channels, target, line, surface]));
            }
            3 => {
                put(
                    Block::CdpRdma,
                    &[
                        (cdp_rdma::D_DATA_CUBE_WIDTH, 3),
                        (cdp_rdma::D_DATA_CUBE_HEIGHT, 3),
                        (cdp_rdma::D_DATA_CUBE_CHANNEL, channels),
                        (cdp_rdma::D_SRC_BASE_ADDR_LOW, source),
                        (cdp_rdma::D_SRC_LINE_STRIDE, line),
                        (cdp_rdma::D_SRC_SURFACE_STRIDE, surface),
                        (cdp_rdma::D_SRC_DMA_CFG, 1),
                    ],
                );
                put(
                    Block::Cdp,
                    &[
                        (cdp::S_LUT_ACCESS_CFG, 0x2_0010),
                        (cdp::S_LUT_ACCESS_DATA, 0x1234),
                        (cdp::D_DATA_FORMAT, 0),
                        (cdp::D_DST_BASE_ADDR_LOW, target),
                        (cdp::D_DST_LINE_STRIDE, line),
                        (cdp::D_DST_SURFACE_STRIDE, surface),
                        (cdp::D_DST_DMA_CFG, 1),
                    ],
                );
            }
            4 => put(
                Block::Rbk,
                &[
                    (rbk::D_MISC_CFG, 0),
                    (rbk::D_DAIN_RAM_TYPE, 1),
                    (rbk::D_DATAIN_SIZE_0, size),
                    (rbk::D_DATAIN_SIZE_1, channels),
                    (rbk::D_DAIN_ADDR_LOW, source),
                    (rbk::D_DAIN_LINE_STRIDE, line),
                    (rbk::D_DAIN_SURF_STRIDE, surface),
                    (rbk::D_DAIN_PLANAR_STRIDE, line),
                    (rbk::D_DAOUT_RAM_TYPE, 1),
                    (rbk::D_DATAOUT_SIZE_1, channels),
                    (rbk::D_DAOUT_ADDR_LOW, target),
                    (rbk::D_DAOUT_LINE_STRIDE, line),
                    (rbk::D_CONTRACT_STRIDE_1, line),
                    (rbk::D_DAOUT_SURF_STRIDE, surface),
                    (rbk::D_DAOUT_PLANAR_STRIDE, line),
                ],
            ),
            5 => put(
                Block::Bdma,
                &[
                    (bdma::CFG_SRC_ADDR_LOW, source),
                    (bdma::CFG_DST_ADDR_LOW, target),
                    (bdma::CFG_LINE, 3),
                    (bdma::CFG_CMD, 3),
                    (bdma::CFG_LINE_REPEAT, 3),
                    (bdma::CFG_SRC_LINE, line),
                    (bdma::CFG_DST_LINE, line),
                ],
            ),
            _ => {}
        }
        if unit == 2 || unit == 6 {
            put(
                Block::PdpRdma,
                &[
                    (pdp_rdma::D_DATA_CUBE_IN_WIDTH, 3),
                    (pdp_rdma::D_DATA_CUBE_IN_HEIGHT, 3),
                    (pdp_rdma::D_DATA_CUBE_IN_CHANNEL, channels),
                    (pdp_rdma::D_FLYING_MODE, 1),
                    (pdp_rdma::D_SRC_BASE_ADDR_LOW, source),
                    (pdp_rdma::D_SRC_LINE_STRIDE, line),
                    (pdp_rdma::D_SRC_SURFACE_STRIDE, surface),
                    (pdp_rdma::D_SRC_RAM_CFG, 1),
                ],
            );
            put(
                Block::Pdp,
                &[
                    (pdp::D_DATA_CUBE_IN_WIDTH, 3),
                    (pdp::D_DATA_CUBE_IN_HEIGHT, 3),
                    (pdp::D_DATA_CUBE_IN_CHANNEL, channels),
                    (pdp::D_DATA_CUBE_OUT_WIDTH, 1),
                    (pdp::D_DATA_CUBE_OUT_HEIGHT, 1),
                    (pdp::D_DATA_CUBE_OUT_CHANNEL, channels),
                    (pdp::D_OPERATION_MODE_CFG, 1 | if unit == 2 { 1 << 4 } else { 0 }),
                    (pdp::D_POOLING_KERNEL_CFG, 0x11_0101),
                    (pdp::D_RECIP_KERNEL_WIDTH, 0x8000),
                    (pdp::D_RECIP_KERNEL_HEIGHT, 0x8000),
                    (pdp::D_DST_BASE_ADDR_LOW, target),
                    (pdp::D_DST_LINE_STRIDE, half_line),
                    (pdp::D_DST_SURFACE_STRIDE, quarter),
                    (pdp::D_DST_RAM_CFG, 1),
                ],
            );
        }
        for (block, register, value) in writes {
            self.write(block, register, value);
        }
    }
}

/// SDP passing its input through; `mode` is on flying (1) or to PDP (2).
fn sdp_program(mode: u32, [channels, target, line, surface]: [u32; 4]) -> [(Register, u32); 14] {
    [
        (sdp::S_LUT_ACCESS_CFG, 0x2_0010),
        (sdp::S_LUT_ACCESS_DATA, 0x1234),
        (sdp::D_DATA_CUBE_WIDTH, 3),
        (sdp::D_DATA_CUBE_HEIGHT, 3),
        (sdp::D_DATA_CUBE_CHANNEL, channels),
        (sdp::D_DST_BASE_ADDR_LOW, target),
        (sdp::D_DST_LINE_STRIDE, line),
        (sdp::D_DST_SURFACE_STRIDE, surface),
        (sdp::D_FEATURE_MODE_CFG, mode),
        (sdp::D_DST_DMA_CFG, 1),
        (sdp::D_DATA_FORMAT, 0),
        (sdp::D_CVT_OFFSET, 0),
        (sdp::D_CVT_SCALE, 1),
        (sdp::D_CVT_SHIFT, 0),
    ]
}
