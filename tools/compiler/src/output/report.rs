// SPDX-License-Identifier: MIT OR Apache-2.0

//! The report of a compilation, for users and programs.

use std::collections::HashSet;
use std::ops::Range;

use nvdla_estimate::{self as estimate, Host, Memory, Shape, Slot, Writes};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{DataCube, MemoryType};
use nvdla_uapi::reg::values::Precision;
use serde::Serialize;

use super::memory::Plan;
use super::program::{Base, Buffer, Cube, Operation, Program, StepInfo, Storage, Task, Unit};
use super::sram::Sram;
use crate::ir::{self, Graph};
use crate::lower::numbers::Scale;
use crate::lower::step::Net;
use crate::measure::Loss;

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperationReport {
    /// Number of its task.
    pub task: usize,
    /// Its number in the task.
    pub index: usize,
    /// The unit: CONV, SDP, PDP, CDP, or EMU for operations on the CPU.
    pub unit: &'static str,
    /// The nodes of the model that it computes, or a part of them.
    pub nodes: Vec<String>,
    /// The tensor that it writes, or writes a part of.
    pub tensor: String,
    /// Channels, height and width of its input in memory.
    pub input: [u32; 3],
    /// Channels, height and width of its output in memory.
    pub output: [u32; 3],
    /// Bytes of weights.
    pub weights: u64,
    /// Estimated cycles; 0 for operations on the CPU, and for those whose cycles are counted with the previous operation.
    pub cycles: u64,
    /// What limits it: MACs, throughput, memory, SRAM, latency, or register writes.
    pub limit: String,
    /// Estimated bytes that it moves.
    pub bytes: u64,
}

/// A node of the model, or of the simplified graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeReport {
    /// Its name in the model.
    pub name: String,
    /// The name of its operator.
    pub operator: String,
    /// The tensors that it reads, without constants.
    pub inputs: Vec<String>,
    /// The tensor that it computes.
    pub output: String,
    /// The tensor's shape.
    pub shape: Vec<usize>,
}

/// A step of the hardware: the nodes that one pass computes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepReport {
    /// The nodes; none if the compiler added the step.
    pub nodes: Vec<String>,
    /// The kind of its first part.
    pub kind: &'static str,
    /// The tensors that it reads.
    pub inputs: Vec<String>,
    /// The tensor that it computes.
    pub output: String,
    /// Channels, height and width.
    pub shape: [u32; 3],
    /// The scale of the tensor; 1 in fp16.
    pub scale: f64,
    /// The integer that represents 0: value = scale * (integer - zero point).
    pub zero_point: i32,
    /// The precision in which the step computes: int8, int16 or fp16.
    pub precision: &'static str,
    /// The ratio of the tensor's values to their error in decibels, if it was measured on the model.
    pub decibels: Option<f64>,
}

/// A buffer of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BufferReport {
    /// The tensor that it holds.
    pub tensor: String,
    /// Whether it is in the pool in SRAM.
    pub sram: bool,
    /// Bytes from the pool's start.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// The first operation that accesses it, counted over all tasks.
    pub first: usize,
    /// The last one.
    pub last: usize,
}

/// Steps that are computed in bands of lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// The number of the first step, in [`Report::steps`].
    pub first: usize,
    /// The number of the last step.
    pub last: usize,
    /// Bands.
    pub bands: usize,
}

/// The division of a network into bands of lines, for less memory, or so that tensors lie in SRAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Division {
    /// Bytes of the pools without the division.
    pub pool: u64,
    /// Estimated cycles without the division; with SRAM those of [`SramReport::cycles`].
    pub cycles: u64,
    /// The steps that are divided.
    pub runs: Vec<RunReport>,
}

/// The use of SRAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SramReport {
    /// Bytes that the compiler may use.
    pub limit: u64,
    /// Bytes of the pool in SRAM.
    pub pool: u64,
    /// The least size of this pool for its buffers and this order of operations.
    pub pool_bound: u64,
    /// Estimated cycles with the defaults of `nvdla_runtime --profile`.
    pub cycles: u64,
    /// The same with all tensors in DRAM.
    pub cycles_in_dram: u64,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The network's name.
    pub network: String,
    /// The configuration's name.
    pub configuration: &'static str,
    /// int8, fp16 or mixed.
    pub precision: &'static str,
    /// The nodes before they are joined.
    pub graph: Vec<NodeReport>,
    /// The steps that the nodes were joined to.
    pub steps: Vec<StepReport>,
    /// Every operation, in the order of the tasks.
    pub operations: Vec<OperationReport>,
    /// The buffers of the pools.
    pub buffers: Vec<BufferReport>,
    /// Bytes of the pool of activations.
    pub pool: u64,
    /// The least size of the pool for this order of operations.
    pub pool_bound: u64,
    /// The use of SRAM, if the network is compiled for a device with SRAM.
    pub sram: Option<SramReport>,
    /// The division into bands of lines, if the network is compiled for less memory or for SRAM.
    pub division: Option<Division>,
    /// Bytes of weights, operands and tables.
    pub constants: u64,
    /// Estimated cycles of all operations, one after another.
    pub cycles: u64,
    /// Largest error of each lookup table, in steps of the output, with the tensor's name.
    pub tables: Vec<(String, f64)>,
    /// Warnings about results that are less exact than the precision suggests.
    pub warnings: Vec<String>,
}

/// Describes a program. The cycles are for the configuration's own memory interfaces with their latencies, at the full width of the
/// bus in every cycle.
pub(crate) fn report(program: &Program, plan: &Plan, sram: Option<&Sram>, tables: Vec<(String, f64)>) -> Report {
    let config = program.config;
    let mut memory = Memory::new(config, config.primary.latency, f64::from(config.primary.width / 8));
    memory.sram.latency = config.secondary.unwrap_or(config.primary).latency;
    let mut operations = Vec::new();
    for (task, list) in program.tasks.iter().enumerate() {
        let mut add = |index: usize, step: usize, unit: &'static str, source: &Cube, target: &Cube| {
            let sizes = |cube: &Cube| [cube.channels, cube.height, cube.width].map(u32::from);
            let StepInfo { nodes, tensor, .. } = &program.steps[step];
            operations.push(OperationReport {
                task,
                index,
                unit,
                nodes: nodes.clone(),
                tensor: tensor.clone(),
                input: sizes(source),
                output: sizes(target),
                weights: 0,
                cycles: 0,
                limit: String::new(),
                bytes: 0,
            });
        };
        let first = match list {
            Task::Dla(list) => {
                for (index, Operation { step, unit, .. }) in list.iter().enumerate() {
                    add(index, *step, unit.op_type().name(), unit.source(), unit.target());
                }
                operations.len() - list.len()
            }
            Task::Emulated(list) => {
                for (index, operation) in list.iter().enumerate() {
                    add(index, operation.step, "EMU", &operation.source, &operation.target);
                }
                continue;
            }
        };
        let Task::Dla(list) = list else { continue };
        // A cycle per register write.
        let slots = schedule(config, list, &memory, 1.0, |id| program.in_sram(id));
        for (at, slot) in slots.iter().enumerate() {
            let report = &mut operations[first + at];
            report.cycles = if slot.leader == at { slot.cycles } else { 0 };
            report.bytes = slot.estimate.bytes.total();
            report.limit = slot.estimate.limit.to_string();
            report.weights = list[at].unit.weights().map(|cube| u64::from(cube.size)).sum();
        }
    }
    Report {
        network: program.name.clone(),
        configuration: config.name,
        precision: program.precision_name(),
        cycles: operations.iter().map(|operation| operation.cycles).sum(),
        graph: Vec::new(),
        steps: Vec::new(),
        operations,
        buffers: buffers(program, plan),
        pool: plan.pool_size,
        pool_bound: plan.pool_bound,
        sram: sram.map(|sram| SramReport {
            limit: sram.size,
            pool: plan.sram_size,
            pool_bound: plan.sram_bound,
            cycles: sram.cycles(program),
            cycles_in_dram: sram.cycles_with(program, |_| false),
        }),
        division: None,
        constants: plan.constants_size,
        tables,
        warnings: Vec::new(),
    }
}

/// The times of operations of a task, the first of which does not take its input on the fly. `in_sram` says which buffers lie in
/// SRAM.
pub(crate) fn schedule(
    config: &Config,
    list: &[Operation],
    memory: &Memory,
    register_write: f64,
    in_sram: impl Fn(usize) -> bool,
) -> Vec<Slot> {
    let mut steps = Vec::new();
    let mut before: [&[Operation]; 2] = [&[]; 2];
    for group in groups(list) {
        // A unit has two register groups, so the values that stay are those of the last operation but one.
        let part = before[0].first().is_some_and(|first| first.step == group[0].step);
        let first = steps.len();
        for (index, operation) in group.iter().enumerate() {
            let (op, surface) = operation.unit.descriptors(|cube| plain(cube, &in_sram));
            let Some(shape) = Shape::from_descriptors(&op, &surface) else { continue };
            let writes = match &group[0].unit {
                Unit::Convolution { .. } if part && index == 0 => Writes::OF_PART,
                Unit::Convolution { .. } if part => Writes::default(),
                _ => Writes::of_layer(shape.unit()),
            };
            let source = (index > 0).then(|| steps.len() - 1);
            let waits_for = |earlier: &Operation| operation.waits_for(earlier, config.memory_atomic);
            steps.push(estimate::Step { shape, writes, source, waits: first == 0 || before[1].iter().any(waits_for) });
        }
        before = [before[1], group];
    }
    estimate::schedule(&steps, config, memory, Host::new(register_write))
}

/// The cycle in which the last of these operations ends.
pub(crate) fn end(slots: &[Slot]) -> u64 {
    slots.last().map_or(0, |slot| slot.start + slot.cycles)
}

impl Sram {
    /// Estimated cycles of all operations of NVDLA.
    pub(crate) fn cycles(&self, program: &Program) -> u64 {
        self.cycles_with(program, |id| program.in_sram(id))
    }

    /// The same with these buffers in SRAM.
    fn cycles_with(&self, program: &Program, in_sram: impl Fn(usize) -> bool) -> u64 {
        let time = |task: &Task| match task {
            Task::Dla(list) => end(&schedule(program.config, list, &self.memory, self.register_write, &in_sram)),
            Task::Emulated(_) => 0,
        };
        program.tasks.iter().map(time).sum()
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

/// The estimated cycles of operations that run together, if they are the only ones of a schedule. Their registers are written
/// while the operations before them run, so writes count only if they take longer.
pub(super) fn together(slots: &[Slot]) -> u64 {
    slots.first().map_or(0, |slot| slot.cycles.max(slot.start))
}

/// Operations that run together, because they are connected on the fly.
pub(crate) fn groups(list: &[Operation]) -> impl Iterator<Item = &[Operation]> {
    list.chunk_by(|_, next| next.unit.takes_on_the_fly())
}

/// The time of each of some steps, with these memories, these cycles per register write, and these buffers in SRAM.
pub(crate) fn times(
    program: &Program,
    steps: Range<usize>,
    memory: &Memory,
    register_write: f64,
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
            time.cycles += together(&schedule(program.config, group, memory, register_write, &in_sram));
            time.cycles += if waits { Host::new(register_write).hand_over } else { 0 };
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

fn buffers(program: &Program, plan: &Plan) -> Vec<BufferReport> {
    let report = |(id, buffer): (usize, &Buffer)| {
        let (first, last) = plan.spans[id].filter(|_| buffer.place.is_pool())?;
        let (tensor, sram) = (buffer.name.clone(), buffer.place == Storage::Sram);
        Some(BufferReport { tensor, sram, offset: plan.buffers[id], size: buffer.size, first, last })
    };
    program.buffers.iter().enumerate().filter_map(report).collect()
}

impl Report {
    /// Adds the nodes and tensors that the operations compute.
    pub(crate) fn describe(&mut self, graph: &Graph, net: &Net, scales: &[Scale], precision: Precision) {
        let name = |&id: &ir::TensorId| graph.tensor(id).name.clone();
        self.graph = graph
            .nodes
            .iter()
            .map(|node| NodeReport {
                name: node.name.clone(),
                operator: node.op.name().to_owned(),
                inputs: node.inputs.iter().filter(|id| graph.constant(**id).is_none()).map(name).collect(),
                output: name(&node.output),
                shape: graph.shape(node.output).to_vec(),
            })
            .collect();
        self.steps = net
            .steps
            .iter()
            .map(|step| StepReport {
                nodes: step.nodes.clone(),
                kind: step.kind.name(),
                inputs: step.reads().map(|id| net.tensors[id].name.clone()).collect(),
                output: net.tensors[step.output].name.clone(),
                shape: net.tensors[step.output].shape,
                scale: scales[step.output].scale,
                zero_point: scales[step.output].zero,
                precision: match net.computes(step, precision) {
                    Precision::Int8 => "int8",
                    Precision::Int16 => "int16",
                    Precision::Fp16 => "fp16",
                },
                decibels: None,
            })
            .collect();
    }

    /// Adds the losses of tensors.
    pub fn add_losses(&mut self, losses: &[(String, Loss)]) {
        for step in &mut self.steps {
            step.decibels = losses.iter().find(|(tensor, _)| *tensor == step.output).map(|(_, loss)| loss.decibels());
        }
    }

    /// The report as a page, with a picture of the pool over time.
    pub fn to_html(&self) -> String {
        super::html::page(self)
    }
}

/// A cube without its address.
fn plain(cube: &Cube, in_sram: impl Fn(usize) -> bool) -> DataCube {
    let mem_type = match cube.base {
        Base::OnTheFly => MemoryType::Hw,
        Base::Buffer(id) if in_sram(id) => MemoryType::Cv,
        Base::Buffer(_) | Base::Constant(_) => MemoryType::Mc,
    };
    DataCube {
        mem_type,
        size: cube.size,
        width: cube.width,
        height: cube.height,
        channel: cube.channels,
        line_stride: cube.line_stride,
        surf_stride: cube.surface_stride,
        ..Default::default()
    }
}
