// SPDX-License-Identifier: MIT OR Apache-2.0

//! The report of a compilation, for users and programs.

use nvdla_uapi::reg::values::Precision;
use serde::Serialize;

use crate::evaluate::loss::Loss;
use crate::ir::{self, Graph};
use crate::net::step::Net;
use crate::numbers::quantizer::Scale;
use crate::schedule::cost::{Cost, Sram};
use crate::schedule::memory::Plan;
use crate::schedule::program::{Buffer, Cube, Operation, Program, StepInfo, Storage, Task};

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

/// A convolution that Winograd's mode makes faster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FastLayer {
    /// The tensor that it computes.
    pub tensor: String,
    /// What the ratio of signal to noise of the worst output falls by if this convolution alone runs in the mode, in decibels.
    pub loss: f64,
    /// Whether it runs in the mode.
    pub taken: bool,
}

/// The choice of the convolutions that run in Winograd's mode, within a budget ([`crate::evaluate::budget`]).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WinogradReport {
    /// What the ratio of signal to noise of an output may fall by, in decibels.
    pub budget: f64,
    /// What that of the worst output falls by.
    pub loss: f64,
    /// That with the smallest loss per multiplication comes first.
    pub layers: Vec<FastLayer>,
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
    /// Pictures per run.
    pub pictures: u32,
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
    /// The choice of the convolutions in Winograd's mode, if it has a budget.
    pub winograd: Option<WinogradReport>,
    /// Bytes of weights, operands and tables.
    pub constants: u64,
    /// Estimated cycles of all operations of a run, one after another.
    pub cycles: u64,
    /// Largest error of each lookup table, in steps of the output, with the tensor's name.
    pub tables: Vec<(String, f64)>,
    /// Warnings about results that are less exact than the precision suggests.
    pub warnings: Vec<String>,
    /// The inputs and outputs that have another shape or order in the loadable than in the model, and how they differ.
    pub reshaped: Vec<String>,
}

/// Describes a program.
pub(crate) fn report(
    program: &Program,
    plan: &Plan,
    cost: &Cost,
    sram: Option<&Sram>,
    tables: Vec<(String, f64)>,
) -> Report {
    let config = program.config;
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
        let slots = cost.slots(list, |id| program.in_sram(id));
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
        pictures: program.buffers.iter().map(|buffer| buffer.pictures).max().unwrap_or(1),
        cycles: cost.cycles_again(program, |id| program.in_sram(id)),
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
            cycles_in_dram: sram.cost.cycles_again(program, |_| false),
        }),
        division: None,
        winograd: None,
        constants: plan.constants_size,
        tables,
        warnings: Vec::new(),
        reshaped: Vec::new(),
    }
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
    /// The report as JSON: the content of `report.json`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

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
}
