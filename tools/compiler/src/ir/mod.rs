// SPDX-License-Identifier: MIT OR Apache-2.0

//! The intermediate representation between the readers and the lowering: tensors with known shapes, nodes in an order of
//! execution, and few operators, each with one meaning.
//!
//! The operators follow ONNX's definitions (the operator reference of ONNX) if ONNX has the operator. Several operators of a
//! model format may be one operator here: `Gemm`, `MatMul` by a constant and `InnerProduct` are [`Op::Convolution`],
//! `GlobalAveragePool` is [`Op::Pool`].
//!
//! Every operator determines its output's shape from its inputs' shapes ([`infer`]). [`Graph::add`] applies this, so the shapes
//! of a graph are always consistent.

pub(crate) mod budget;
pub mod error;
mod ids;
pub mod infer;
pub mod op;
pub mod preprocess;
pub mod ranges;
pub mod resize;

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub use error::{Refusal, Unreadable};
pub use ids::{NodeId, TensorId, MAX_ELEMENTS};
pub use op::*;
pub use preprocess::{Color, Fit, Preprocess};
pub use ranges::{zero_point, Means, Range, Ranges};
pub use resize::Taps;

/// The scale and zero point that a quantized model gives to a tensor: real value = (integer - zero point) * scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantization {
    /// One scale for the tensor, or one per index along `axis`.
    pub scale: Vec<f32>,
    /// One zero point per scale.
    pub zero_point: Vec<i32>,
    /// The axis along which the scales differ. None: there is one scale.
    pub axis: Option<usize>,
    /// The smallest and the largest integer of the model's type: -128 and 127 for int8, 0 and 255 for uint8.
    pub limits: (i32, i32),
}

impl Quantization {
    /// Whether the model's integers have more than 8 bits.
    pub fn is_wide(&self) -> bool {
        i64::from(self.limits.1) - i64::from(self.limits.0) > 255
    }

    /// The real values of the smallest and the largest integer, for each scale.
    pub fn values(&self) -> Vec<(f32, f32)> {
        let value = |integer: i32, zero: i32, scale: f32| (integer as f32 - zero as f32) * scale;
        let both =
            |(&scale, &zero): (&f32, &i32)| (value(self.limits.0, zero, scale), value(self.limits.1, zero, scale));
        self.scale.iter().zip(&self.zero_point).map(both).collect()
    }
}

/// A tensor: an input, a constant, or the output of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name in the model. For tensors that the reader adds, a name derived from the node's.
    pub name: String,
    /// Its dimensions, outermost first. The batch is 1; four dimensions are N, C, H, W.
    pub shape: Vec<usize>,
    /// Its values, if they are known before the network runs: one per element of the shape, in row-major order.
    pub constant: Option<Arc<[f32]>>,
    /// The scale that a quantized model gives. None: the scale is measured.
    pub quantization: Option<Quantization>,
}

impl Tensor {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has a scale per index of an axis, which no other axis can have.
    pub(crate) fn has_scales_of_an_axis(&self) -> bool {
        self.quantization.as_ref().is_some_and(|quantization| quantization.axis.is_some())
    }

    /// The shape as N, C, H, W: `[C]` is `[1, C, 1, 1]`, `[N, C]` is `[N, C, 1, 1]`, `[N, C, L]` is `[N, C, 1, L]`.
    /// None if there are more than four dimensions.
    pub fn nchw(&self) -> Option<[usize; 4]> {
        match self.shape[..] {
            [] => Some([1; 4]),
            [c] => Some([1, c, 1, 1]),
            [n, c] => Some([n, c, 1, 1]),
            [n, c, l] => Some([n, c, 1, l]),
            [n, c, h, w] => Some([n, c, h, w]),
            _ => None,
        }
    }
}

/// A node: an operator applied to tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name in the model, or its first output's name if the model gives none.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// The tensors that it reads, in the order that [`Op`] states.
    pub inputs: Vec<TensorId>,
    /// The tensor that it computes. Every operator has one output.
    pub output: TensorId,
}

/// A network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The network's name.
    pub name: String,
    /// All tensors; [`TensorId`] is an index.
    pub tensors: Vec<Tensor>,
    /// All nodes, each after the nodes that compute its inputs; [`NodeId`] is an index.
    pub nodes: Vec<Node>,
    /// The tensors that the user gives.
    pub inputs: Vec<TensorId>,
    /// The tensors that the user receives.
    pub outputs: Vec<TensorId>,
    /// The names of the inputs whose channels are last in the model. In the graph they are first.
    pub channels_last: BTreeSet<String>,
    /// What the model may still make the compiler compute, and what ends the compilation.
    pub(crate) budget: budget::Budget,
}

impl Graph {
    /// A graph without nodes.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The tensor of that id.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0]
    }

    /// The node of that id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// The shape of a tensor.
    pub fn shape(&self, id: TensorId) -> &[usize] {
        &self.tensors[id.0].shape
    }

    /// The values of a constant tensor.
    pub fn constant(&self, id: TensorId) -> Option<&Arc<[f32]>> {
        self.tensors[id.0].constant.as_ref()
    }

    /// The tensor of that name.
    pub fn find(&self, name: &str) -> Option<TensorId> {
        self.tensors.iter().position(|tensor| tensor.name == name).map(TensorId)
    }

    /// The node that computes a tensor. None for inputs and constants.
    pub fn producer(&self, id: TensorId) -> Option<NodeId> {
        self.nodes.iter().position(|node| node.output == id).map(NodeId)
    }

    /// The nodes that read a tensor, in order.
    pub fn users(&self, id: TensorId) -> impl Iterator<Item = NodeId> + '_ {
        let reads = move |(_, node): &(usize, &Node)| node.inputs.contains(&id);
        self.nodes.iter().enumerate().filter(reads).map(|(k, _)| NodeId(k))
    }

    /// The nodes that read each tensor, in order; a node that reads it twice is there twice.
    pub(crate) fn readers(&self) -> Vec<Vec<usize>> {
        let mut readers = vec![Vec::new(); self.tensors.len()];
        for (k, node) in self.nodes.iter().enumerate() {
            node.inputs.iter().for_each(|id| readers[id.0].push(k));
        }
        readers
    }

    /// Whether each tensor has results of softmaxes alone, perhaps in other places.
    pub(crate) fn of_softmaxes(&self) -> Vec<bool> {
        let mut of = vec![false; self.tensors.len()];
        for Node { op, inputs, output, .. } in &self.nodes {
            of[output.0] = match op {
                Op::Softmax { .. } => true,
                Op::Slice { .. } | Op::Reshape { .. } | Op::Transpose { .. } | Op::Concat { .. } => {
                    inputs.iter().all(|id| of[id.0])
                }
                _ => false,
            };
        }
        of
    }

    /// Whether each tensor is read by softmaxes and by moves before them alone. Only the differences of its values from the largest
    /// element count, and those that are far below it have no share.
    pub(crate) fn only_for_softmax(&self) -> Vec<bool> {
        let readers = self.readers();
        let mut only = vec![false; self.tensors.len()];
        let made = self.nodes.iter().rev().map(|node| node.output);
        for id in made.chain(self.inputs.iter().copied()) {
            let for_softmax = |&k: &usize| match &self.nodes[k] {
                Node { op: Op::Softmax { .. }, .. } => true,
                Node {
                    op: Op::Slice { .. } | Op::Reshape { .. } | Op::Transpose { .. } | Op::Concat { .. },
                    output,
                    ..
                } => only[output.0],
                _ => false,
            };
            let all = !readers[id.0].is_empty() && readers[id.0].iter().all(for_softmax);
            only[id.0] = all && !self.outputs.contains(&id) && self.tensor(id).quantization.is_none();
        }
        only
    }

    /// A graph of some nodes alone, in order, and its tensor for each of theirs. Its outputs are the tensors that none of them reads.
    pub(crate) fn part(&self, nodes: &[usize]) -> Result<(Self, HashMap<TensorId, TensorId>), String> {
        let (mut part, mut known) = (Self::new("part"), HashMap::new());
        for node in nodes.iter().map(|&k| &self.nodes[k]) {
            let mut inputs = Vec::new();
            for &id in &node.inputs {
                inputs.push(match known.entry(id) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(place) => *place.insert(match self.constant(id) {
                        Some(values) => part.add_constant(&self.tensor(id).name, self.shape(id), values.clone())?,
                        None => part.input(&self.tensor(id).name, self.shape(id))?,
                    }),
                });
            }
            let output = part.add(&node.name, node.op.clone(), &inputs, &self.tensor(node.output).name)?;
            known.insert(node.output, output);
        }
        let readers = part.readers();
        part.outputs = part.nodes.iter().map(|node| node.output).filter(|id| readers[id.0].is_empty()).collect();
        Ok((part, known))
    }

    /// Adds an input.
    pub fn input(&mut self, name: impl Into<String>, shape: &[usize]) -> Result<TensorId, String> {
        let id = self.push(name.into(), shape.to_vec(), None)?;
        self.inputs.push(id);
        Ok(id)
    }

    /// Adds a constant with one value per element of the shape.
    pub fn add_constant(
        &mut self,
        name: impl Into<String>,
        shape: &[usize],
        values: impl Into<Arc<[f32]>>,
    ) -> Result<TensorId, String> {
        let (name, values) = (name.into(), values.into());
        if infer::elements(shape)? != values.len() {
            return Err(format!("{name:?} has {} values for the shape {shape:?}", values.len()));
        }
        self.push(name, shape.to_vec(), Some(values))
    }

    /// Adds a node after all others. Its output's shape follows from the shapes of its inputs. Parameters that contradict these
    /// shapes are refused with the reason.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        op: Op,
        inputs: &[TensorId],
        output: impl Into<String>,
    ) -> Result<TensorId, String> {
        let shape = infer::infer(&op, &inputs.iter().map(|&id| self.shape(id)).collect::<Vec<_>>())?;
        let output = self.push(output.into(), shape, None)?;
        self.nodes.push(Node { name: name.into(), op, inputs: inputs.to_vec(), output });
        Ok(output)
    }

    /// Makes a tensor an output of a name. A tensor that has a name which the user knows, because it is an input or an output already,
    /// keeps it; the output is then a copy.
    pub fn add_output(&mut self, id: TensorId, name: &str) -> Result<(), String> {
        let known = self.producer(id).is_none() || self.outputs.contains(&id);
        let id = if known && self.tensor(id).name != name {
            let nothing = Op::Unary(Unary::Clip(f32::NEG_INFINITY, f32::INFINITY));
            let quantization = self.tensor(id).quantization.clone();
            let copy = self.add(name, nothing, &[id], name)?;
            self.tensors[copy.0].quantization = quantization;
            copy
        } else {
            id
        };
        if let Some(other) = self.find(name).filter(|&other| other != id) {
            self.tensors[other.0].name = format!("{name}'");
        }
        if !known {
            name.clone_into(&mut self.tensors[id.0].name);
        }
        self.outputs.push(id);
        Ok(())
    }

    /// Checks the properties that [`Graph::add`] ensures, for a graph that a pass has changed: each node comes after the nodes
    /// that compute its inputs, every shape is the one that its operator gives, and a tensor has at most one origin.
    pub fn check(&self) -> Result<(), String> {
        let mut known = vec![false; self.tensors.len()];
        for (k, tensor) in self.tensors.iter().enumerate() {
            known[k] = tensor.constant.is_some();
            let elements = infer::elements(&tensor.shape).map_err(|reason| format!("{:?}: {reason}", tensor.name))?;
            if tensor.constant.as_ref().is_some_and(|values| values.len() != elements) {
                return Err(format!("constant {:?} does not have {elements} values", tensor.name));
            }
        }
        for &id in &self.inputs {
            if std::mem::replace(&mut known[id.0], true) {
                return Err(format!("input {:?} is a constant, or is listed twice", self.tensor(id).name));
            }
        }
        for node in &self.nodes {
            if let Some(&id) = node.inputs.iter().find(|id| !known[id.0]) {
                return Err(format!("node {:?} reads {:?} before it is known", node.name, self.tensor(id).name));
            }
            let shapes: Vec<_> = node.inputs.iter().map(|&id| self.shape(id)).collect();
            let shape = infer::infer(&node.op, &shapes).map_err(|reason| format!("node {:?}: {reason}", node.name))?;
            if shape != self.shape(node.output) {
                let stored = self.shape(node.output);
                return Err(format!("node {:?} makes {shape:?}, its output has {stored:?}", node.name));
            }
            if std::mem::replace(&mut known[node.output.0], true) {
                return Err(format!("{:?} has two origins", self.tensor(node.output).name));
            }
        }
        match self.outputs.iter().find(|id| !known[id.0]) {
            Some(&id) => Err(format!("output {:?} is computed by no node", self.tensor(id).name)),
            None => Ok(()),
        }
    }

    fn push(&mut self, name: String, shape: Vec<usize>, constant: Option<Arc<[f32]>>) -> Result<TensorId, String> {
        infer::elements(&shape).map_err(|reason| format!("{name:?}: {reason}"))?;
        self.tensors.push(Tensor { name, shape, constant, quantization: None });
        Ok(TensorId(self.tensors.len() - 1))
    }
}
