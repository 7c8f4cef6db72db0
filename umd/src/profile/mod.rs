// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long a network would take on hardware: an estimate from its operations, without running them.
//!
//! Each operation has three times, and takes the longest of them:
//!
//! - **compute**, the cycles that its unit needs (see [`estimate`]);
//! - **memory**, its bytes over the bandwidth, for DRAM and SRAM apart;
//! - **set-up**, the time to write its registers. Programming overlaps with what ran before (each unit has two register
//!   groups), so only what takes longer than everything else counts.
//!
//! Operations that hand data over on the fly (a convolution, its SDP, a PDP behind it) run together: the group takes
//! the longest compute time of its members, or the memory time of all their bytes. Groups follow one another, because
//! an operation waits for the data of the one before; what little the hardware overlaps there is left out, and so are
//! memory latencies and the time of software.
//!
//! The method is that of the hardware project's performance spreadsheet (nvdla/hw, `perf/`), which has convolutions only
//! and takes all else as hidden behind them. [`estimate`]'s tests compare with the figures published from it (2048 int8
//! MACs, 1 GHz, 10 GB/s): AlexNet 1178 frames a second, published 1117; GoogLeNet 717, published 818; ResNet-50 191,
//! published 141, or 139 when 1 x 1 weights are read four times at stride 2 as the spreadsheet has it.

pub mod estimate;
mod trace;

use std::fmt;

use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{ConvSurface, OpType, Operation, SdpOperandMode, SdpSubUnit, Surface};
use nvdla_uapi::desc::{DataCube, DataFormat, MemoryType};
use nvdla_uapi::layout::{self, Extents, Nest};
use nvdla_uapi::reg::values::Precision;

use crate::loadable::Loadable;
use crate::network::{self, NetworkOperation};
use crate::session::Error;
use estimate::{Bytes, Convolution};

/// What surrounds the hardware.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Clock in MHz.
    pub clock: f64,
    /// Bandwidth of DRAM, reads and writes together, in GB/s.
    pub dram: f64,
    /// Bandwidth of SRAM behind the secondary memory interface in GB/s.
    pub sram: f64,
    /// Time of a register write in ns.
    pub register_write: f64,
}

impl Default for Conditions {
    /// Those of the published figures; 100 ns a register write, a common value of embedded interconnects.
    fn default() -> Self {
        Self { clock: 1000.0, dram: 10.0, sram: 25.0, register_write: 100.0 }
    }
}

/// What an operation, or a group of them, waits for most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Multiply-accumulate cells.
    Macs,
    /// Another unit's throughput.
    Throughput,
    /// DRAM.
    Dram,
    /// SRAM.
    Sram,
    /// Writing registers.
    SetUp,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Macs => "MACs",
            Self::Throughput => "throughput",
            Self::Dram => "memory",
            Self::Sram => "SRAM",
            Self::SetUp => "set-up",
        })
    }
}

/// An operation's estimate.
#[derive(Clone, Debug)]
pub struct Row {
    /// The task's id.
    pub task: u16,
    /// Position in the task's operation list.
    pub operation: usize,
    /// The unit.
    pub unit: OpType,
    /// What goes in and comes out.
    pub shape: String,
    /// Multiply-accumulate steps of the algorithm.
    pub macs: u64,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Cycles that the unit computes.
    pub compute: u64,
    /// Cycles that the operation takes by itself.
    pub cycles: u64,
    /// What limits it.
    pub limit: Limit,
    /// The operation of the same task that hands its data over, and with which it runs together.
    pub source: Option<usize>,
    /// When its group starts, in cycles.
    pub start: u64,
    /// How long its group takes, in cycles.
    pub group: u64,
}

/// A network's estimate.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The configuration that it is for.
    pub config: &'static Config,
    /// What surrounds it.
    pub conditions: Conditions,
    /// A row an operation.
    pub rows: Vec<Row>,
}

impl Profile {
    /// Estimates the tasks for NVDLA of a loadable.
    ///
    /// # Errors
    ///
    /// When a descriptor is missing or cannot be read.
    pub fn new(loadable: &Loadable, config: &'static Config, conditions: Conditions) -> Result<Self, Error> {
        let operations = network::operations(loadable)?;
        let rows = operations.iter().map(|operation| row(operation, config, &conditions)).collect();
        let mut profile = Self { config, conditions, rows };
        profile.group();
        Ok(profile)
    }

    /// Cycles from the first operation to the end of the last.
    pub fn cycles(&self) -> u64 {
        self.rows.iter().map(|row| row.start + row.group).max().unwrap_or(0)
    }

    /// The same in milliseconds.
    pub fn milliseconds(&self) -> f64 {
        self.cycles() as f64 / self.conditions.clock / 1e3
    }

    /// Multiply-accumulate steps of all operations.
    pub fn macs(&self) -> u64 {
        self.rows.iter().map(|row| row.macs).sum()
    }

    /// Bytes that all operations move.
    pub fn bytes(&self) -> Bytes {
        self.rows.iter().fold(Bytes::default(), |sum, row| sum + row.bytes)
    }

    /// A trace that opens in Perfetto: units as tracks.
    pub fn to_trace(&self) -> String {
        trace::json(self)
    }

    /// Lets operations that hand data over run together, and groups follow one another.
    fn group(&mut self) {
        // The first member of each row's group: operations come behind those that hand data to them.
        let mut leaders: Vec<usize> = Vec::with_capacity(self.rows.len());
        for (at, row) in self.rows.iter().enumerate() {
            let source = |other: &Row| other.task == row.task && Some(other.operation) == row.source;
            let leader = self.rows[..at].iter().position(source).map(|source| leaders[source]);
            leaders.push(leader.unwrap_or(at));
        }
        let mut now = 0;
        for leader in 0..self.rows.len() {
            let members: Vec<_> = (leader..self.rows.len()).filter(|&at| leaders[at] == leader).collect();
            let bytes = members.iter().fold(Bytes::default(), |sum, &at| sum + self.rows[at].bytes);
            let memory = bytes.cycles(&self.conditions);
            let longest = members.iter().map(|&at| self.rows[at].cycles).max().unwrap_or(0);
            let longest = if members.is_empty() { 0 } else { longest.max(memory.0).max(memory.1) };
            for at in members {
                self.rows[at].start = now;
                self.rows[at].group = longest;
            }
            now += longest;
        }
    }
}

/// Cubes of memory, not of a neighbour's hand.
fn moved(cube: &DataCube, bytes: u64) -> Bytes {
    match cube.mem_type {
        MemoryType::Mc => Bytes { dram: bytes, sram: 0 },
        MemoryType::Cv => Bytes { dram: 0, sram: bytes },
        MemoryType::Hw => Bytes::default(),
    }
}

fn cube(cube: &DataCube, precision: Precision, config: &Config) -> Bytes {
    moved(cube, volume(cube, precision, config))
}

/// Bytes of a cube's atoms.
fn volume(cube: &DataCube, precision: Precision, config: &Config) -> u64 {
    let extents = Extents::new(1, cube.channel.into(), cube.height.into(), cube.width.into());
    // A cube without elements has no layout, and no bytes.
    layout::feature::Cube::packed(extents, precision, config.memory_atomic).map_or(0, |cube| cube.volume())
}

/// Elements of a cube with the channels that fill its atoms: what passes a unit.
fn elements(cube: &DataCube, precision: Precision, config: &Config) -> u64 {
    volume(cube, precision, config) / u64::from(layout::bytes(precision))
}

fn shape(cube: &DataCube) -> String {
    format!("{}x{}x{}", cube.channel, cube.height, cube.width)
}

fn row(operation: &NetworkOperation, config: &Config, conditions: &Conditions) -> Row {
    let mut macs = 0;
    let mut source = None;
    let mut limit = Limit::Throughput;
    let (shape, bytes, compute) = match (&operation.operation, &operation.surface) {
        (Operation::Conv(conv), Surface::Conv(surface)) => {
            let convolution = Convolution::from_descriptor(conv, surface);
            macs = convolution.macs();
            limit = Limit::Macs;
            let kernel = format!("{}x{}", convolution.kernel_height, convolution.kernel_width);
            let shape = format!("{} * {kernel} > {}", self::shape(&surface.src_data), self::shape(&surface.dst_data));
            let mut bytes = Bytes::default();
            if !conv.data_reuse {
                bytes += input(conv.data_format, surface, conv.in_precision, config);
            }
            if !conv.weight_reuse {
                bytes += moved(&surface.weight_data, surface.weight_data.size.into());
            }
            (shape, bytes, convolution.cycles(config))
        }
        (Operation::Sdp(sdp), Surface::Sdp(surface)) => {
            source = handed_over(operation, &surface.src_data);
            let mut bytes = cube(&surface.src_data, sdp.src_precision, config);
            bytes += cube(&surface.dst_data, sdp.dst_precision, config);
            let stream = elements(&surface.dst_data, sdp.dst_precision, config);
            let mut slowest = config.sdp_bs_throughput.max(1);
            let units = [
                (&sdp.x1_op, &surface.x1_data, config.sdp_bs_throughput),
                (&sdp.x2_op, &surface.x2_data, config.sdp_bn_throughput),
                (&sdp.y_op, &surface.y_data, config.sdp_ew_throughput.unwrap_or(1)),
            ];
            for (unit, operands, throughput) in units {
                let Some(unit) = unit else { continue };
                slowest = slowest.min(throughput.max(1));
                bytes += moved(operands, operand_bytes(unit, operands, stream));
            }
            let shape = format!("{} > {}", self::shape(&surface.src_data), self::shape(&surface.dst_data));
            (shape, bytes, stream.div_ceil(slowest.into()))
        }
        (Operation::Pdp(pdp), Surface::Pdp(surface)) => {
            source = handed_over(operation, &surface.src_data);
            let mut bytes = cube(&surface.src_data, pdp.precision, config);
            bytes += cube(&surface.dst_data, pdp.precision, config);
            let (width, height) = (u16::from(pdp.pool_width) + 1, u16::from(pdp.pool_height) + 1);
            let shape =
                format!("{} / {height}x{width} > {}", self::shape(&surface.src_data), self::shape(&surface.dst_data));
            let stream = elements(&surface.src_data, pdp.precision, config);
            (shape, bytes, stream.div_ceil(config.pdp_throughput.max(1).into()))
        }
        (Operation::Cdp(cdp), Surface::Cdp(surface)) => {
            let mut bytes = cube(&surface.src_data, cdp.in_precision, config);
            bytes += cube(&surface.dst_data, cdp.out_precision, config);
            let stream = elements(&surface.src_data, cdp.in_precision, config);
            (self::shape(&surface.src_data), bytes, stream.div_ceil(config.cdp_throughput.max(1).into()))
        }
        (Operation::Rubik(rubik), Surface::Rubik(surface)) => {
            let mut bytes = cube(&surface.src_data, rubik.precision, config);
            bytes += cube(&surface.dst_data, rubik.precision, config);
            let shape = format!("{} > {}", self::shape(&surface.src_data), self::shape(&surface.dst_data));
            (shape, bytes, bytes.total().div_ceil(interface(config)))
        }
        (Operation::Bdma(_), Surface::Bdma(surface)) => {
            let mut bytes = Bytes::default();
            for transfer in surface.transfers.iter().take(surface.num_transfers.into()) {
                let lines = u64::from(transfer.line_repeat.max(1)) * u64::from(transfer.surface_repeat.max(1));
                for side in [surface.source_type, surface.destination_type] {
                    bytes += moved(
                        &DataCube { mem_type: side, ..DataCube::default() },
                        lines * u64::from(transfer.line_size),
                    );
                }
            }
            let plural = if surface.num_transfers == 1 { "" } else { "s" };
            let shape = format!("{} transfer{plural}", surface.num_transfers);
            (shape, bytes, bytes.total().div_ceil(interface(config)))
        }
        // An operation and its surface come from one type.
        _ => (String::new(), Bytes::default(), 0),
    };
    let (dram, sram) = bytes.cycles(conditions);
    let set_up = estimate::set_up(operation.unit, conditions);
    let cycles = compute.max(dram).max(sram).max(set_up);
    let limit = match cycles {
        cycles if cycles == compute => limit,
        cycles if cycles == dram => Limit::Dram,
        cycles if cycles == sram => Limit::Sram,
        _ => Limit::SetUp,
    };
    Row {
        task: operation.task,
        operation: operation.index,
        unit: operation.unit,
        shape,
        macs,
        bytes,
        compute,
        cycles,
        limit,
        source,
        start: 0,
        group: 0,
    }
}

/// The operation that hands over the data of one that reads no memory.
fn handed_over(operation: &NetworkOperation, source: &DataCube) -> Option<usize> {
    if source.mem_type != MemoryType::Hw {
        return None;
    }
    operation.common.fused_parent.and_then(|parent| usize::try_from(parent.index).ok())
}

/// Bytes a cycle of the memory interface.
fn interface(config: &Config) -> u64 {
    u64::from(config.primary.width / 8).max(1)
}

/// Bytes of a convolution's input.
fn input(format: DataFormat, surface: &ConvSurface, precision: Precision, config: &Config) -> Bytes {
    let source = &surface.src_data;
    match format {
        DataFormat::Feature => cube(source, precision, config),
        DataFormat::Pixel(_) => {
            let planes = [source.line_stride, surface.in_line_uv_stride].map(u64::from);
            moved(source, planes.map(|stride| Nest::of_strides([stride]).offset([source.height.into()])).iter().sum())
        }
    }
}

/// Bytes of an SDP sub-unit's operands for so many elements.
fn operand_bytes(unit: &SdpSubUnit, operands: &DataCube, elements: u64) -> u64 {
    let count = match unit.mode {
        SdpOperandMode::PerLayer => return 0,
        SdpOperandMode::PerKernel => u64::from(operands.channel),
        SdpOperandMode::PerPoint => elements,
    };
    let sides = match unit.op_type {
        nvdla_uapi::desc::SdpOperation::Both => 2,
        _ => 1,
    };
    count * sides * u64::from(layout::bytes(unit.precision))
}

impl fmt::Display for Profile {
    /// A table: a row an operation, then the totals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conditions { clock, dram, sram, register_write } = self.conditions;
        writeln!(
            f,
            "estimate for {} at {clock} MHz, DRAM {dram} GB/s, SRAM {sram} GB/s, {register_write} ns a register write",
            self.config.name
        )?;
        let width = self.rows.iter().map(|row| row.shape.len()).max().unwrap_or(0).max(5);
        writeln!(
            f,
            "{:>4} {:>5}   {:5} {:width$} {:>12} {:>11} {:>10}  limited by",
            "task", "op", "unit", "shape", "MACs", "bytes", "cycles"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:>4} {:>5} {} {:5} {:width$} {:>12} {:>11} {:>10}  {}",
                row.task,
                row.operation,
                if row.source.is_some() { '+' } else { ' ' },
                row.unit.name(),
                row.shape,
                row.macs,
                row.bytes.total(),
                row.cycles,
                row.limit
            )?;
        }
        let cycles = self.cycles();
        let peak = u64::from(self.config.mac_atomic_c) * u64::from(self.config.mac_atomic_k);
        let busy = self.macs() as f64 / (cycles.max(1) * peak) as f64;
        writeln!(
            f,
            "total: {} MACs, {} bytes, {cycles} cycles, {:.3} ms, {:.1} a second, MACs {:.1}% busy",
            self.macs(),
            self.bytes().total(),
            self.milliseconds(),
            1e3 / self.milliseconds().max(f64::MIN_POSITIVE),
            100.0 * busy
        )?;
        let share = |limit| {
            let mut last = u64::MAX;
            let mut sum = 0;
            for row in self.rows.iter().filter(|row| row.limit == limit && row.cycles == row.group) {
                if row.start != last {
                    sum += row.group;
                    last = row.start;
                }
            }
            100.0 * sum as f64 / cycles.max(1) as f64
        };
        write!(
            f,
            "time limited by MACs {:.0}%, throughput {:.0}%, memory {:.0}%, set-up {:.0}% (\"+\" runs with what hands it its data)",
            share(Limit::Macs),
            share(Limit::Throughput),
            100.0 - share(Limit::Macs) - share(Limit::Throughput) - share(Limit::SetUp),
            share(Limit::SetUp)
        )
    }
}
