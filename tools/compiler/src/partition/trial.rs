// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compiles a group on trial, and finds the nodes because of which that fails.

use super::extract::{Failure, Piece};
use crate::compiler::{self, Compiler};
use crate::ir::{Binary, Node, Op, Pool, PoolKind, Refusal, TensorId};
use crate::output::report::Report;
use crate::simplify::joined_scores;
use crate::survey::{Role, Survey};

/// A group that was compiled.
pub(super) struct Success {
    pub(super) loadable: Vec<u8>,
    pub(super) report: Report,
}

pub(super) type Tried = Result<Success, Failure>;

/// Why no group of a network can be compiled.
pub(super) fn warning(survey: &Survey, compiler: &Compiler) -> Option<String> {
    let quantized = survey.graph.tensors.iter().any(|tensor| tensor.quantization.is_some());
    (compiler.lacks_scales() && !quantized).then(|| {
        "int8 needs the range of each activation: give a table of scales (calibtable), a quantized model, or fp16 where the \
         configuration has it"
            .to_owned()
    })
}

/// Compiles groups of a survey.
pub(super) struct Trial<'a> {
    survey: &'a Survey,
    compiler: &'a Compiler,
}

impl<'a> Trial<'a> {
    pub(super) fn new(survey: &'a Survey, compiler: &'a Compiler) -> Self {
        Self { survey, compiler }
    }

    /// Finds the nodes of a group that the configuration cannot compute.
    pub(super) fn check(&self, nodes: &[usize], piece: &Piece) -> Result<(), Failure> {
        self.compiler.maps(&piece.model).map_err(|unreadable| self.refused(nodes, &unreadable.0))?;
        let unknown = if self.compiler.has_scales() { self.compiler.unknown(&piece.model.graph) } else { Vec::new() };
        if unknown.is_empty() {
            return Ok(());
        }
        Err(self.refused(nodes, &unknown))
    }

    /// Finds the softmaxes of what a group reads, or of its elements in another order, and the differences from the largest of them, with
    /// which functions write a softmax. The processor runs a softmax in any case, and the framework's own takes its input in the
    /// framework's precision. With scales, also the softmaxes in the middle of a network, because the emulator rounds their results down, so
    /// that all shares are too small, and the concatenations of scores and larger values at the end: the scores would be 0.
    pub(super) fn leave(&self, nodes: &[usize], piece: &Piece) -> Result<(), Failure> {
        let graph = &piece.model.graph;
        // The tensor outside the group whose elements, or with `largest` whose largest elements, a tensor has.
        let outer = |mut id: TensorId, largest: bool| loop {
            let Some(maker) = graph.producer(id) else { return graph.constant(id).is_none().then_some(id) };
            match &graph.nodes[maker.0] {
                Node { op: Op::Reshape { .. } | Op::Transpose { .. }, inputs, .. } => id = inputs[0],
                Node { op: Op::Pool(Pool { kind: PoolKind::Max, .. }), inputs, .. } if largest => id = inputs[0],
                _ => return None,
            }
        };
        let reason = |node: &Node| match node.op {
            Op::Softmax { .. } if outer(node.inputs[0], false).is_some() => {
                Some("it is a softmax, which the processor runs in any case, and NVDLA computes nothing before it")
            }
            Op::Softmax { .. } if self.compiler.has_scales() && self.is_read(nodes, &node.name) => {
                Some("it is a softmax whose shares other nodes compute with, and 8 bits would round all of them down")
            }
            Op::Binary(Binary::Sub) => {
                let from = outer(node.inputs[0], false)?;
                let reason =
                    "it computes differences from the largest element, and NVDLA would round the elements before";
                (outer(node.inputs[1], true) == Some(from)).then_some(reason)
            }
            _ => None,
        };
        let joined = if self.compiler.has_scales() { joined_scores(graph) } else { Vec::new() };
        let joined = joined.into_iter().map(|node| {
            let reason = "it joins scores with values that may be larger, and the integers of all would have one scale";
            (node.name.as_str(), reason)
        });
        let softmax = graph.nodes.iter().filter_map(|node| Some((node.name.as_str(), reason(node)?)));
        let found: Vec<_> = softmax.chain(joined).collect();
        let Some(&(_, first)) = found.first() else { return Ok(()) };
        let named = |(name, reason): (&str, &str)| Some((self.named(nodes, name)?, reason.to_owned()));
        Err(Failure { nodes: found.into_iter().filter_map(named).collect(), reason: first.to_owned() })
    }

    /// Whether other nodes compute with what a node of a group computes.
    fn is_read(&self, nodes: &[usize], name: &str) -> bool {
        self.named(nodes, name)
            .is_some_and(|k| self.survey.nodes[k].outputs.iter().any(|name| self.is_computed_with(name)))
    }

    /// Whether nodes compute with a tensor, or with the integers or real numbers that it is converted to.
    fn is_computed_with(&self, name: &str) -> bool {
        let reads = |inputs: &[String]| inputs.iter().any(|input| input == name);
        self.survey.nodes.iter().filter(|node| reads(&node.inputs)).any(|node| match node.role {
            Role::Compute => true,
            Role::Quantize | Role::Dequantize => node.outputs.iter().any(|name| self.is_computed_with(name)),
            Role::Constant => false,
        })
    }

    /// Compiles a group.
    pub(super) fn run(&self, nodes: &[usize], piece: &Piece) -> Tried {
        let compiled = self.compiler.compile(&piece.model).map_err(|error| match error {
            compiler::Error::Lowering(crate::error::Error::Refused(unreadable)) => self.refused(nodes, &unreadable.0),
            compiler::Error::Lowering(crate::error::Error::Unsupported { layer, reason }) => {
                let found = self.named(nodes, &layer).into_iter().map(|k| (k, reason.clone())).collect();
                Failure { nodes: found, reason }
            }
            compiler::Error::Lowering(crate::error::Error::NoRange(tensors)) => {
                let mut found = Vec::new();
                for name in &tensors {
                    let reason = format!("no range is known for {name:?}");
                    found.extend(self.around(nodes, name).into_iter().map(|k| (k, reason.clone())));
                }
                Failure { nodes: found, reason: format!("no range is known for {}", tensors.join(", ")) }
            }
            other => Failure { nodes: Vec::new(), reason: other.to_string() },
        })?;
        Ok(Success { loadable: compiled.loadable, report: compiled.report })
    }

    /// The nodes of refusals, with their reasons.
    fn refused(&self, nodes: &[usize], refusals: &[Refusal]) -> Failure {
        let found =
            refusals.iter().filter_map(|refusal| Some((self.named(nodes, &refusal.node)?, refusal.reason.clone())));
        let found = found.collect();
        let reason = refusals.first().map(|refusal| refusal.reason.clone()).unwrap_or_default();
        Failure { nodes: found, reason }
    }

    /// The node of a group with that name, or the one that computes the tensor of that name.
    fn named(&self, nodes: &[usize], name: &str) -> Option<usize> {
        let named = nodes.iter().find(|&&k| self.survey.nodes[k].name == name);
        let makes = |k: &&usize| self.survey.nodes[**k].outputs.iter().any(|output| output == name);
        named.or_else(|| nodes.iter().find(makes)).copied().or_else(|| {
            let graph = &self.survey.graph;
            let maker = graph.nodes.iter().position(|node| graph.tensor(node.output).name == name)?;
            Some(self.survey.origins[maker]).filter(|k| nodes.contains(k))
        })
    }

    /// The node of a group that computes a tensor, else those that read it.
    fn around(&self, nodes: &[usize], name: &str) -> Vec<usize> {
        if let Some(maker) = self.named(nodes, name) {
            return vec![maker];
        }
        nodes.iter().copied().filter(|&k| self.survey.nodes[k].inputs.iter().any(|input| input == name)).collect()
    }
}
