// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cubes of operations, their bytes, and the transfer rate of memory interfaces.

use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{DataCube, MemoryType};
use nvdla_uapi::layout;
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::Family;
use std::ops::{Add, AddAssign};

/// A memory behind one of the two interfaces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interface {
    /// Cycles from a read request to its first data.
    pub latency: u32,
    /// Bytes per cycle, reads and writes together. At most the interface's width is used, and at least a byte per million cycles,
    /// because a memory that moves nothing has no time.
    pub bandwidth: f64,
}

/// The least bytes per cycle of an interface.
const LEAST_BANDWIDTH: f64 = 1e-6;

/// The memory around the hardware.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Memory on the primary interface.
    pub dram: Interface,
    /// Memory on the secondary interface.
    pub sram: Interface,
}

impl Memory {
    /// DRAM with this latency in cycles and this bandwidth in bytes per cycle. SRAM has the interface's full bandwidth
    /// and the same latency.
    pub fn new(config: &Config, latency: u32, bandwidth: f64) -> Self {
        let width = config.secondary.unwrap_or(config.primary).width;
        Self { dram: Interface { latency, bandwidth }, sram: Interface { latency, bandwidth: f64::from(width / 8) } }
    }
}

/// The interface of a memory.
pub(crate) fn interface(of: MemoryType, memory: &Memory) -> Interface {
    let Interface { latency, bandwidth } = match of {
        MemoryType::Mc => memory.dram,
        MemoryType::Cv => memory.sram,
        MemoryType::Hw => Interface { latency: 0, bandwidth: f64::INFINITY },
    };
    Interface { latency, bandwidth: bandwidth.max(LEAST_BANDWIDTH) }
}

/// The unit of a reader.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Sdp,
    Other,
}

/// A reader of SDP, PDP or CDP. Its requests are single atoms, and at most as many are outstanding as its latency FIFO holds
/// (`NV_NVDLA_MCIF_READ_IG_bpt.v`: `lat_fifo_free_slot`). So it reads memory with a long latency slowly.
///
/// The depth is that of the hardware project: the configuration's design latency times the bytes per cycle of the reader (at most
/// a quarter of the interface's width), divided by the width, and at least 4 (`spec/defs/projects.spec`:
/// `NVDLA_VMOD_…_LATENCY_FIFO_DEPTH`). nv_full has the depths of its own release (`NV_NVDLA_MCIF_READ_ig.v`).
pub(crate) struct Reader {
    depth: u64,
}

impl Reader {
    /// The reader of a unit's input.
    pub(crate) fn input(throughput: u32, unit: Unit, config: &Config) -> Self {
        match (config.family, unit) {
            (Family::NvFull, Unit::Sdp) => Self { depth: 80 },
            (Family::NvFull, Unit::Other) => Self { depth: 61 },
            (Family::NvSmall, _) => Self::new(throughput, config),
        }
    }

    /// The reader of an SDP sub-unit's operands, which may have four bytes per element.
    pub(crate) fn operands(throughput: u32, config: &Config) -> Self {
        match config.family {
            Family::NvFull => Self { depth: 160 },
            Family::NvSmall => Self::new(4 * throughput, config),
        }
    }

    fn new(throughput: u32, config: &Config) -> Self {
        let width = (config.primary.width / 8).max(4);
        Self { depth: (config.primary.latency * throughput.min(width / 4)).div_ceil(width).max(4).into() }
    }

    /// The cycles to read `bytes` bytes, which the unit processes in `compute` cycles. `turnaround` is the time from a request to
    /// the one that replaces it in the FIFO, without the latency. The FIFO is filled in rounds, and the atoms of the last round
    /// still pass through the unit.
    pub(crate) fn cycles(
        &self,
        bytes: u64,
        compute: u64,
        turnaround: u64,
        interface: Interface,
        config: &Config,
    ) -> u64 {
        let atoms = bytes / u64::from(config.memory_atomic.max(1));
        let rounds = atoms.saturating_sub(1) / self.depth;
        let last = atoms - rounds * self.depth;
        rounds * (u64::from(interface.latency) + turnaround) + (compute * last).div_ceil(atoms.max(1))
    }
}

/// Bytes that an operation moves, by memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Through the primary memory interface.
    pub dram: u64,
    /// Through the secondary memory interface.
    pub sram: u64,
}

impl Bytes {
    /// `bytes` bytes of that memory; none if another unit passes them on the fly.
    pub const fn of(memory: MemoryType, bytes: u64) -> Self {
        match memory {
            MemoryType::Mc => Self { dram: bytes, sram: 0 },
            MemoryType::Cv => Self { dram: 0, sram: bytes },
            MemoryType::Hw => Self { dram: 0, sram: 0 },
        }
    }

    /// The sum of both.
    pub const fn total(self) -> u64 {
        self.dram + self.sram
    }

    /// Cycles that DRAM and SRAM need.
    pub fn cycles(self, memory: &Memory) -> (u64, u64) {
        let cycles = |bytes: u64, interface: Interface| (bytes as f64 / interface.bandwidth).ceil() as u64;
        (cycles(self.dram, interface(MemoryType::Mc, memory)), cycles(self.sram, interface(MemoryType::Cv, memory)))
    }
}

impl Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { dram: self.dram + other.dram, sram: self.sram + other.sram }
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// A feature cube that a unit reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cube {
    /// Channels.
    pub channels: u32,
    /// Lines.
    pub height: u32,
    /// Elements of a line.
    pub width: u32,
    /// Precision of an element.
    pub precision: Precision,
    /// The memory that holds it; [`MemoryType::Hw`] if another unit passes it on the fly.
    pub memory: MemoryType,
}

impl Cube {
    /// A cube of int8 in DRAM.
    pub const fn int8(channels: u32, height: u32, width: u32) -> Self {
        Self { channels, height, width, precision: Precision::Int8, memory: MemoryType::Mc }
    }

    /// The same cube, passed on the fly by another unit.
    #[must_use]
    pub const fn on_the_fly(self) -> Self {
        Self { memory: MemoryType::Hw, ..self }
    }

    /// A descriptor's cube.
    pub fn from_descriptor(cube: &DataCube, precision: Precision) -> Self {
        Self {
            channels: cube.channel.into(),
            height: cube.height.into(),
            width: cube.width.into(),
            precision,
            memory: cube.mem_type,
        }
    }

    /// Number of surfaces.
    pub fn surfaces(&self, config: &Config) -> u64 {
        u64::from((self.channels * layout::bytes(self.precision)).div_ceil(config.memory_atomic.max(1)))
    }

    /// Number of elements per surface.
    pub const fn pixels(&self) -> u64 {
        self.height as u64 * self.width as u64
    }

    /// Bytes of its atoms.
    pub fn volume(&self, config: &Config) -> u64 {
        self.surfaces(config) * self.pixels() * u64::from(config.memory_atomic)
    }

    /// Elements that the unit processes, including unused channels of atoms.
    pub fn elements(&self, config: &Config) -> u64 {
        self.volume(config) / u64::from(layout::bytes(self.precision))
    }

    /// Bytes that are moved when it is read or written.
    pub fn bytes(&self, config: &Config) -> Bytes {
        Bytes::of(self.memory, self.volume(config))
    }
}
