// SPDX-License-Identifier: MIT OR Apache-2.0

//! Estimates how long a network would take on hardware, from its operations, without running them.
//!
//! The formulas are those of [`nvdla_estimate`], which the compiler also uses. Here they are applied to a loadable's operations,
//! in the order in which the runtime submits them to the device.

mod driver;
mod rows;
mod trace;

use std::fmt;

use nvdla_estimate::{schedule, Memory, Shape, Step, Writes};
pub use nvdla_estimate::{Bytes, Conditions, Limit};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{MemoryType, OpType, Operation, Surface};
pub use rows::{Bounds, Profile, Row};

use crate::device::Measured;
use crate::loadable::Loadable;
use crate::operations::{self, NetworkOperation};
use crate::session::{Completed, Error};

impl Profile {
    /// Estimates the tasks for NVDLA of a loadable.
    ///
    /// # Errors
    ///
    /// When a descriptor is missing or cannot be read.
    pub fn new(loadable: &Loadable, config: &'static Config, conditions: Conditions) -> Result<Self, Error> {
        let operations = operations::operations(loadable)?;
        let names = loadable.names();
        let compiled_for = names.as_ref().map(|names| names.conditions).filter(|known| *known != conditions);
        let names = names.unwrap_or_default();
        let writes = driver::writes(loadable, config);
        // The loadable's operations are in the order of tasks and lists. An operation that takes data on the fly comes after the
        // one that passes them.
        let mut steps: Vec<Step> = Vec::with_capacity(operations.len());
        let mut rows: Vec<Row> = Vec::with_capacity(operations.len());
        let after = driver::predecessors(&operations);
        let mut groups = driver::Groups::default();
        for operation in &operations {
            // An operation and its surface always are of the same unit.
            let Some(shape) = Shape::from_descriptors(&operation.operation, &operation.surface) else { continue };
            let source = handed_over(operation);
            let place = |row: &Row| row.task == operation.task && Some(row.operation) == source;
            // Every register counts if the driver would refuse the task.
            let writes = writes.get(&(operation.task, operation.index));
            let writes = writes.copied().unwrap_or_else(|| Writes::all(operation.unit));
            let source_step = source.and_then(|_| rows.iter().rposition(place));
            let waits = groups.waits(operation, source_step.is_some(), &after);
            steps.push(Step { shape, writes, source: source_step, waits });
            rows.push(Row {
                task: operation.task,
                operation: operation.index,
                unit: operation.unit,
                layer: names.layer(operation.task, operation.index).map(ToString::to_string),
                shape: text(operation, &shape),
                macs: shape.macs(),
                source,
                bytes: Bytes::default(),
                compute: 0,
                busy: match &shape {
                    Shape::Conv(shape) => shape.busy_cycles(config),
                    _ => 0,
                },
                cycles: 0,
                limit: Limit::Throughput,
                start: 0,
                group: 0,
                group_limit: Limit::Throughput,
                measured: None,
            });
        }
        let slots = schedule(&steps, config, &conditions.memory(), conditions.host());
        for (row, slot) in rows.iter_mut().zip(slots) {
            row.bytes = slot.estimate.bytes;
            row.compute = slot.estimate.compute;
            row.busy = if row.unit == OpType::Conv { row.busy } else { row.compute };
            row.cycles = slot.estimate.cycles;
            row.limit = slot.estimate.limit;
            row.start = slot.start;
            row.group = slot.cycles;
            row.group_limit = slot.limit;
        }
        let tensors = loadable.inputs().filter_map(|input| loadable.tensor(input.tensor_desc_id()));
        let pictures = tensors.map(|tensor| tensor.n().unsigned_abs()).max().unwrap_or(1).max(1);
        Ok(Self { config, conditions, compiled_for, pictures, rows })
    }

    /// Cycles from the first operation to the end of the last.
    pub fn cycles(&self) -> u64 {
        self.rows.iter().map(|row| row.start + row.group).max().unwrap_or(0)
    }

    /// Cycles that no driver and no order of operations can go below, because each unit and each memory is busy for that long: of
    /// each layer by itself, and of the whole network.
    pub fn bounds(&self) -> Bounds {
        let memory = self.conditions.memory();
        let mut bounds = Bounds::default();
        let mut layer = Busy::default();
        let mut whole = Busy::default();
        let mut before = None;
        for row in &self.rows {
            // What runs together counts as one layer.
            if row.source.is_none() {
                let name = row.layer.as_deref();
                if name.is_none() || before != Some(name) {
                    bounds.layers += std::mem::take(&mut layer).cycles(&memory);
                }
                before = Some(name);
            }
            layer.add(row);
            whole.add(row);
        }
        bounds.layers += layer.cycles(&memory);
        bounds.whole = whole.cycles(&memory);
        bounds
    }

    /// Milliseconds from the first operation to the end of the last.
    pub fn milliseconds(&self) -> f64 {
        self.cycles() as f64 / self.conditions.clock / 1e3
    }

    /// Adds the measured values of a completed operation, if the device has counted them.
    pub fn measure(&mut self, completed: &Completed<'_>) {
        let place = |row: &&mut Row| (row.task, row.operation) == (completed.task, completed.operation);
        if let Some(row) = self.rows.iter_mut().find(place) {
            row.measured = completed.measured.or(row.measured);
        }
    }

    /// Measured cycles from the first operation's start to the last one's end.
    pub fn measured_cycles(&self) -> Option<u64> {
        let measured = || self.rows.iter().filter_map(|row| row.measured);
        Some(measured().map(|row| row.end).max()? - measured().map(|row| row.start).min()?)
    }

    /// Multiply-accumulate steps of all operations.
    pub fn macs(&self) -> u64 {
        self.rows.iter().map(|row| row.macs).sum()
    }

    /// Bytes that all operations move.
    pub fn bytes(&self) -> Bytes {
        self.rows.iter().fold(Bytes::default(), |sum, row| sum + row.bytes)
    }

    /// The estimate as a trace for Perfetto, with one track per unit.
    pub fn to_trace(&self) -> String {
        trace::json(self)
    }
}

/// What keeps the hardware busy.
#[derive(Default)]
struct Busy {
    /// Cycles of each unit.
    units: [u64; OpType::ALL.len()],
    bytes: Bytes,
}

impl Busy {
    fn add(&mut self, row: &Row) {
        self.units[row.unit as usize] += row.busy;
        self.bytes += row.bytes;
    }

    fn cycles(&self, memory: &Memory) -> u64 {
        let (dram, sram) = self.bytes.cycles(memory);
        self.units.iter().fold(dram.max(sram), |longest, &unit| longest.max(unit))
    }
}

/// The inputs and outputs as text.
fn text(operation: &NetworkOperation, shape: &Shape) -> String {
    let cube = |cube: &nvdla_estimate::Cube| format!("{}x{}x{}", cube.channels, cube.height, cube.width);
    match shape {
        Shape::Conv(shape) => {
            let kernel = format!("{}x{}", shape.kernel_height, shape.kernel_width);
            format!("{} * {kernel} > {}", cube(&shape.input), cube(&shape.output))
        }
        Shape::Sdp(shape) => format!("{} > {}", cube(&shape.input), cube(&shape.output)),
        Shape::Pdp(shape) => {
            let window = format!("{}x{}", shape.kernel_height, shape.kernel_width);
            format!("{} / {window} > {}", cube(&shape.input), cube(&shape.output))
        }
        Shape::Cdp(shape) => cube(&shape.input),
        Shape::Rubik(shape) => format!("{} > {}", cube(&shape.input), cube(&shape.output)),
        Shape::Bdma(_) => match &operation.operation {
            Operation::Bdma(bdma) if bdma.num_transfers == 1 => "1 transfer".to_string(),
            Operation::Bdma(bdma) => format!("{} transfers", bdma.num_transfers),
            _ => String::new(),
        },
    }
}

/// For an operation that reads no memory, the operation of the same task that passes it its data.
fn handed_over(operation: &NetworkOperation) -> Option<usize> {
    let source = match &operation.surface {
        Surface::Sdp(surface) => &surface.src_data,
        Surface::Pdp(surface) => &surface.src_data,
        _ => return None,
    };
    if source.mem_type != MemoryType::Hw {
        return None;
    }
    operation.common.fused_parent.and_then(|parent| usize::try_from(parent.index).ok())
}

impl fmt::Display for Profile {
    /// Writes a table: one row per operation, then the totals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "estimate for {} at {}", self.config.name, self.conditions)?;
        if let Some(other) = self.compiled_for {
            writeln!(f, "the network was compiled for {other}")?;
        }
        let measured = self.measured_cycles();
        let width = self.rows.iter().map(|row| row.shape.len()).max().unwrap_or(0).max(5);
        writeln!(
            f,
            "{:>4} {:>5}   {:5} {:width$} {:>12} {:>11} {:>10}{}  limited by",
            "task",
            "op",
            "unit",
            "shape",
            "MACs",
            "bytes",
            "cycles",
            if measured.is_some() { format!(" {:>10}", "measured") } else { String::new() }
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:>4} {:>5} {} {:5} {:width$} {:>12} {:>11} {:>10}{}  {}{}",
                row.task,
                row.operation,
                if row.source.is_some() { '+' } else { ' ' },
                row.unit.name(),
                row.shape,
                row.macs,
                row.bytes.total(),
                row.cycles,
                match (measured, row.measured) {
                    (None, _) => String::new(),
                    (_, None) => format!(" {:>10}", "-"),
                    (_, Some(measured)) => format!(" {:>10}", measured.cycles()),
                },
                row.limit,
                row.layer.as_ref().map(|layer| format!("  {layer}")).unwrap_or_default()
            )?;
        }
        let cycles = self.cycles();
        let peak = u64::from(self.config.mac_atomic_c) * u64::from(self.config.mac_atomic_k);
        let busy = self.macs() as f64 / (cycles.max(1) * peak) as f64;
        writeln!(
            f,
            "total: {} MACs, {} bytes, {cycles} cycles, {:.3} ms, {:.1} {}per second, MACs {:.1}% busy",
            self.macs(),
            self.bytes().total(),
            self.milliseconds(),
            1e3 * f64::from(self.pictures) / self.milliseconds().max(f64::MIN_POSITIVE),
            if self.pictures > 1 { "pictures " } else { "" },
            100.0 * busy
        )?;
        let Bounds { layers, whole } = self.bounds();
        let over = |bound: u64| cycles as f64 / bound.max(1) as f64;
        writeln!(
            f,
            "bounds: {layers} cycles layer by layer ({:.2} times that), {whole} of the whole network ({:.2})",
            over(layers),
            over(whole)
        )?;
        if let Some(measured) = measured {
            let sum = |of: fn(Measured) -> u64| self.rows.iter().filter_map(|row| row.measured).map(of).sum::<u64>();
            writeln!(
                f,
                "measured: {measured} cycles from the first operation's start to the last one's end, {} bytes read, {} \
                 written, {} cycles waiting for reads",
                sum(|row| row.read),
                sum(|row| row.written),
                sum(|row| row.waited)
            )?;
        }
        // A group has one row that takes no data from another operation.
        let share = |limits: &[Limit]| {
            let groups = self.rows.iter().filter(|row| row.source.is_none() && limits.contains(&row.group_limit));
            100.0 * groups.map(|row| row.group).sum::<u64>() as f64 / cycles.max(1) as f64
        };
        write!(
            f,
            "time limited by MACs {:.0}%, throughput {:.0}%, memory {:.0}%, latency {:.0}%, set-up {:.0}%, between operations {:.0}% (\"+\" marks an operation that runs together with the one that passes it its data)",
            share(&[Limit::Macs]),
            share(&[Limit::Throughput]),
            share(&[Limit::Dram, Limit::Sram]),
            share(&[Limit::Latency]),
            share(&[Limit::SetUp]),
            100.0 - share(&[Limit::Macs, Limit::Throughput, Limit::Dram, Limit::Sram, Limit::Latency, Limit::SetUp])
        )
    }
}
