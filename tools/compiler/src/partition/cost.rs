// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long a group takes on NVDLA and on the processor.
//!
//! NVDLA's time is the estimate of the compiled group ([`crate::output::report`]). The processor's time and that of the
//! conversions between the two are rough, but only their order of magnitude matters: a group of a few additions between two nodes
//! of the processor costs more to hand over than to compute.

use serde::Serialize;

use crate::ir::{Graph, Op};

/// The speeds of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Cycles of NVDLA per second.
    pub clock: f64,
    /// Multiplications with addition of the processor per second, in convolutions and products.
    pub products: f64,
    /// Elements per second that the processor computes or copies otherwise.
    pub elements: f64,
    /// Elements per second that are converted between real numbers and the hardware's layout.
    pub converted: f64,
    /// Seconds per run of a loadable: the submission, the interrupt, and the wait.
    pub run: f64,
}

impl Default for Machine {
    /// NVDLA at 1 GHz beside four cores of an Arm Cortex-A72, on which ONNX Runtime takes about 60 ms for MobileNet-v1's 569 million
    /// products.
    fn default() -> Self {
        Self { clock: 1e9, products: 1e10, elements: 5e8, converted: 1e9, run: 30e-6 }
    }
}

/// Estimated seconds of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// NVDLA.
    pub nvdla: f64,
    /// Conversions of inputs and outputs, and the submission.
    pub handover: f64,
    /// The processor, if it computes the group instead.
    pub processor: f64,
}

impl Estimate {
    /// Of a network that takes `cycles` on NVDLA.
    pub fn new(graph: &Graph, cycles: u64, machine: &Machine) -> Self {
        let bound = graph.inputs.iter().chain(&graph.outputs);
        let converted: f64 = bound.map(|&id| graph.tensor(id).elements() as f64).sum();
        Self {
            nvdla: cycles as f64 / machine.clock,
            handover: machine.run + converted / machine.converted,
            processor: graph.nodes.iter().map(|node| processor(graph, node, machine)).sum(),
        }
    }

    /// The seconds that NVDLA saves; negative if it loses.
    pub fn gain(&self) -> f64 {
        self.processor - self.nvdla - self.handover
    }
}

/// The processor's seconds for a node.
fn processor(graph: &Graph, node: &crate::ir::Node, machine: &Machine) -> f64 {
    let elements = graph.tensor(node.output).elements() as f64;
    let per_weight = |data: f64| match node.inputs.get(1).map(|&id| graph.shape(id)) {
        Some([_, rest @ ..]) => data * rest.iter().product::<usize>() as f64,
        _ => 0.0,
    };
    match node.op {
        // Each element of the output is a sum over the weights of its kernel.
        Op::Convolution(_) => per_weight(elements) / machine.products,
        Op::Product => elements * graph.shape(node.inputs[0])[1] as f64 / machine.products,
        // Each element of the input meets the weights of its channel.
        Op::Deconvolution(..) => per_weight(graph.tensor(node.inputs[0]).elements() as f64) / machine.products,
        Op::Pool(pool) => elements * (pool.kernel[0] * pool.kernel[1]) as f64 / machine.elements / 4.0,
        Op::Reshape { .. } => 0.0,
        _ => elements / machine.elements,
    }
}
