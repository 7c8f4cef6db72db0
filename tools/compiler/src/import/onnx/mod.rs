// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads ONNX models, from operator set 7 on.
//!
//! Each node becomes nodes of [`crate::ir`], or is computed immediately if all of its inputs are constant. This removes the
//! arithmetic on shapes that exported models contain. Nodes that cannot be read are collected, so that one run lists all of them.
//! Operators, attributes and defaults are those of ONNX's operator reference; `com.microsoft` operators are those of ONNX
//! Runtime.

// Parameters are compared with the exact values that have no effect. Directions are indices into several arrays.
#![allow(clippy::float_cmp, clippy::needless_range_loop)]

mod arithmetic;
mod convert;
mod pooling;
mod product;
pub mod proto;
mod quantized;
mod reduce;
mod shapes;
pub mod survey;
mod value;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use bytes::Bytes;
use prost::Message;

use crate::import::options::Options;
use crate::ir::{Graph, Op, Quantization, Refusal, TensorId, Unreadable};
use value::{Integers, Value};

/// Why a model cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not a model, or its parts contradict each other.
    #[error("{0}")]
    Malformed(String),
    /// Nodes that cannot be read.
    #[error(transparent)]
    Nodes(#[from] Unreadable),
}

/// The value of a tensor of the file.
#[derive(Clone, Debug)]
enum TensorValue {
    /// A tensor of real numbers, constant or not.
    Real(TensorId),
    /// The integers of a quantized model. The tensor has their real numbers.
    Quantized(TensorId, Quantization),
    /// Constant integers or booleans.
    Integers(Integers),
    /// A constant of real numbers without elements, or an omitted input.
    Nothing,
    /// The output of a node that cannot be read.
    Unknown,
}

struct Reader {
    graph: Graph,
    tensors: HashMap<String, TensorValue>,
    /// Version of the default operator set.
    opset: i64,
    /// For each tensor of the file, the number of nodes and outputs that read it.
    readers: HashMap<String, usize>,
}

/// A node of the file, with access to its attributes.
struct Node<'a> {
    proto: &'a proto::Node,
    name: String,
    opset: i64,
}

impl Node<'_> {
    fn attribute(&self, name: &str) -> Option<&proto::Attribute> {
        self.proto.attribute.iter().find(|attribute| attribute.name == name)
    }

    fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).map_or(default, |attribute| attribute.i)
    }

    fn float(&self, name: &str, default: f32) -> f32 {
        self.attribute(name).map_or(default, |attribute| attribute.f)
    }

    fn ints(&self, name: &str) -> Option<&[i64]> {
        self.attribute(name).map(|attribute| attribute.ints.as_slice())
    }

    fn text(&self, name: &str, default: &str) -> String {
        self.attribute(name).map_or(default.to_owned(), |a| String::from_utf8_lossy(&a.s).into_owned())
    }

    /// Whether an input is given.
    fn has(&self, k: usize) -> bool {
        self.proto.input.get(k).is_some_and(|name| !name.is_empty())
    }

    fn operator(&self) -> String {
        match self.proto.domain.as_str() {
            "" | "ai.onnx" => self.proto.op_type.clone(),
            domain => format!("{domain}.{}", self.proto.op_type),
        }
    }
}

/// Reads a model from a file's bytes. `folder` is the folder of external data files.
pub fn read(bytes: Bytes, folder: Option<&Path>, options: &Options) -> Result<Graph, Error> {
    let malformed = |reason: String| Error::Malformed(reason);
    let model = proto::Model::decode(bytes).map_err(|error| malformed(format!("not an ONNX model: {error}")))?;
    let file = model.graph.ok_or_else(|| malformed("not an ONNX model: it has no graph".to_owned()))?;
    let default = |set: &&proto::OperatorSet| set.domain.is_empty() || set.domain == "ai.onnx";
    let opset = model.opset_import.iter().find(default).map_or(1, |set| set.version);
    if opset < 7 {
        return Err(malformed(format!("operator set {opset}: the oldest that is read is 7")));
    }

    let mut outputs: Vec<String> = file.output.iter().map(|output| output.name.clone()).collect();
    if !options.outputs.is_empty() {
        outputs.clone_from(&options.outputs);
    }
    let order = order(&file, &outputs).map_err(malformed)?;
    let mut readers: HashMap<String, usize> = HashMap::new();
    for name in order.iter().flat_map(|&k| &file.node[k].input).chain(&outputs) {
        *readers.entry(name.clone()).or_default() += 1;
    }

    let mut reader = Reader { graph: Graph::new(file.name.clone()), tensors: HashMap::new(), opset, readers };
    let mut refusals = Vec::new();
    for tensor in &file.initializer {
        if !reader.readers.contains_key(&tensor.name) {
            continue;
        }
        let value = value::tensor(tensor, folder).and_then(|value| reader.constant(&tensor.name, value));
        let value = value.unwrap_or_else(|reason| {
            let shapes = value::extents(&tensor.dims).into_iter().collect();
            refusals.push(Refusal { node: tensor.name.clone(), operator: "initializer".into(), shapes, reason });
            TensorValue::Unknown
        });
        if reader.tensors.insert(tensor.name.clone(), value).is_some() {
            return Err(malformed(format!("two initializers have the name \"{}\"", tensor.name)));
        }
    }
    for input in &file.input {
        // Before version 4 of the format, initializers were also listed as inputs.
        if reader.tensors.contains_key(&input.name) {
            continue;
        }
        let value = reader.input(input, options).unwrap_or_else(|reason| {
            refusals.push(Refusal { node: input.name.clone(), operator: "input".into(), shapes: vec![], reason });
            TensorValue::Unknown
        });
        reader.tensors.insert(input.name.clone(), value);
    }
    for name in options.shapes.keys() {
        if !file.input.iter().any(|input| input.name == *name) {
            let names: Vec<_> = file.input.iter().map(|input| input.name.as_str()).collect();
            return Err(malformed(format!("a shape is given for \"{name}\", the inputs are {}", names.join(", "))));
        }
    }
    for k in order {
        let proto = &file.node[k];
        let name = [&proto.name, proto.output.first().unwrap_or(&proto.name)];
        let name = name.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default();
        let node = Node { proto, name, opset: reader.opset };
        if let Err(refusal) = reader.node(&node, folder) {
            refusals.extend(refusal);
            for output in &proto.output {
                reader.tensors.insert(output.clone(), TensorValue::Unknown);
            }
        }
    }
    if !refusals.is_empty() {
        return Err(Unreadable(refusals, reader.before(&file.node)).into());
    }
    for name in &outputs {
        let id = match reader.tensors.get(name) {
            Some(TensorValue::Real(id) | TensorValue::Quantized(id, _)) if reader.graph.constant(*id).is_none() => *id,
            Some(_) => return Err(malformed(format!("the output \"{name}\" does not depend on the inputs"))),
            None => return Err(malformed(format!("no node computes the output \"{name}\""))),
        };
        let graph = &mut reader.graph;
        // A node that was removed (Identity, Dropout) may have had the output's name.
        if graph.producer(id).is_some() && !graph.outputs.contains(&id) {
            graph.tensors[id.0].name.clone_from(name);
        }
        graph.outputs.push(id);
    }
    if reader.graph.outputs.is_empty() {
        return Err(malformed("the model has no outputs".to_owned()));
    }
    reader.graph.check().map_err(malformed)?;
    Ok(reader.graph)
}

/// The nodes that the outputs need, each after the nodes that it reads. ONNX requires this order in the file; files that violate
/// it are sorted. Nodes that depend on each other in a cycle are an error.
fn order(file: &proto::Graph, outputs: &[String]) -> Result<Vec<usize>, String> {
    let mut producers: HashMap<&str, usize> = HashMap::new();
    for (k, node) in file.node.iter().enumerate() {
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            if producers.insert(output, k).is_some() {
                return Err(format!("two nodes compute \"{output}\""));
            }
        }
    }
    let given: HashSet<&str> = (file.input.iter().map(|input| input.name.as_str()))
        .chain(file.initializer.iter().map(|tensor| tensor.name.as_str()))
        .collect();
    // Depth first, with an explicit stack, because a long chain of nodes must not exhaust the thread's stack.
    let mut state = vec![0u8; file.node.len()];
    let mut order = Vec::new();
    let mut stack: Vec<(usize, usize)> = Vec::new();
    for output in outputs.iter().rev() {
        stack.extend(producers.get(output.as_str()).map(|&k| (k, 0)));
    }
    while let Some((k, next)) = stack.pop() {
        if state[k] == 2 || next == 0 && state[k] == 1 {
            continue;
        }
        state[k] = 1;
        let Some(input) = file.node[k].input.get(next) else {
            state[k] = 2;
            order.push(k);
            continue;
        };
        stack.push((k, next + 1));
        match producers.get(input.as_str()) {
            Some(&producer) if state[producer] == 1 => {
                return Err(format!("node \"{}\" depends on its own output, through \"{input}\"", file.node[k].name));
            }
            Some(&producer) => stack.push((producer, 0)),
            None if input.is_empty() || given.contains(input.as_str()) => {}
            None => return Err(format!("no node computes \"{input}\", which node \"{}\" reads", file.node[k].name)),
        }
    }
    // If the file's own order is valid, it is kept, so that names and reports follow the model.
    let mut sorted = order.clone();
    sorted.sort_unstable();
    let position: HashMap<usize, usize> = sorted.iter().enumerate().map(|(at, &k)| (k, at)).collect();
    let producer = |name: &String| producers.get(name.as_str()).map(|k| position[k]);
    let behind = |(at, &k): (usize, &usize)| file.node[k].input.iter().filter_map(producer).all(|from| from < at);
    Ok(if sorted.iter().enumerate().all(behind) { sorted } else { order })
}

impl Reader {
    /// The names of the tensors that nodes compute and that nodes with unknown results read.
    fn before(&self, nodes: &[proto::Node]) -> Vec<String> {
        let unknown = |name: &String| matches!(self.tensors.get(name), Some(TensorValue::Unknown));
        let made = |name: &&String| match self.tensors.get(*name) {
            Some(TensorValue::Real(id) | TensorValue::Quantized(id, _)) => self.graph.producer(*id).is_some(),
            _ => false,
        };
        let refused = nodes.iter().filter(|node| node.output.iter().any(unknown));
        let mut names: Vec<String> = refused.flat_map(|node| &node.input).filter(made).cloned().collect();
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// Records a constant of the file.
    fn constant(&mut self, name: &str, value: Value) -> Result<TensorValue, String> {
        Ok(match value {
            Value::Real(_, values) if values.is_empty() => TensorValue::Nothing,
            Value::Real(shape, values) => {
                if let Some(at) = values.iter().position(|value| value.is_nan()) {
                    return Err(format!("its value {at} is not a number"));
                }
                TensorValue::Real(self.graph.add_constant(name, &shape, values)?)
            }
            Value::Integers(integers) => TensorValue::Integers(integers),
        })
    }

    fn input(&mut self, input: &proto::ValueInfo, options: &Options) -> Result<TensorValue, String> {
        let tensor = input.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
        let tensor = tensor.ok_or("it is not a tensor")?;
        let shape = match (options.shapes.get(&input.name), &tensor.shape) {
            (Some(given), Some(shape)) => {
                let known = shape.dim.iter().map(|dim| dim.dim_value.filter(|&value| value > 0));
                let agrees = |(given, known): (&usize, Option<i64>)| known.is_none_or(|known| known == *given as i64);
                if shape.dim.len() != given.len() || !given.iter().zip(known).all(agrees) {
                    return Err(format!("the shape {given:?} is given, the model has {}", written(shape)));
                }
                given.clone()
            }
            (Some(given), None) => given.clone(),
            (None, None) => return Err(format!("its shape is not known; give it as --shape {}=…", input.name)),
            (None, Some(shape)) => {
                let extent = |(axis, dim): (usize, &proto::Dimension)| match dim.dim_value {
                    Some(value) if value > 0 => usize::try_from(value).ok(),
                    // A batch of unknown size becomes 1.
                    None | Some(0 | -1) if axis == 0 && shape.dim.len() > 1 => Some(1),
                    _ => None,
                };
                let extents: Option<Vec<usize>> = shape.dim.iter().enumerate().map(extent).collect();
                let reason = || format!("its shape {} is open; give it as --shape {}=…", written(shape), input.name);
                extents.ok_or_else(reason)?
            }
        };
        Ok(TensorValue::Real(self.graph.input(input.name.clone(), &shape)?))
    }

    /// Reads a node. `Err(None)`: its inputs are unknown, because an earlier node could not be read.
    fn node(&mut self, node: &Node<'_>, folder: Option<&Path>) -> Result<(), Option<Refusal>> {
        let inputs: Vec<TensorValue> = node.proto.input.iter().map(|name| self.lookup(name)).collect();
        let shape = |value: &TensorValue| self.shape_of(value);
        let shapes: Vec<_> = inputs.iter().filter_map(shape).collect();
        let refuse = |reason: String| {
            Some(Refusal { node: node.name.clone(), operator: node.operator(), shapes: shapes.clone(), reason })
        };
        let domain = node.proto.domain.as_str();
        if !convert::is_known(domain, &node.proto.op_type) {
            return Err(refuse(convert::why_not(&node.proto.op_type)));
        }
        if inputs.iter().any(|value| matches!(value, TensorValue::Unknown)) {
            return Err(None);
        }
        let before = self.graph.tensors.len();
        let outputs = self.convert(node, &inputs, folder).map_err(refuse)?;
        for (k, value) in outputs.into_iter().enumerate() {
            let Some(name) = node.proto.output.get(k).filter(|name| !name.is_empty()) else { continue };
            if let TensorValue::Real(id) | TensorValue::Quantized(id, _) = value {
                if id.0 >= before {
                    self.graph.tensors[id.0].name.clone_from(name);
                }
            }
            self.tensors.insert(name.clone(), value);
        }
        for name in &node.proto.output {
            if !name.is_empty() && !self.tensors.contains_key(name) {
                if self.readers.contains_key(name) {
                    return Err(refuse(format!("its output \"{name}\" is not supported")));
                }
                self.tensors.insert(name.clone(), TensorValue::Unknown);
            }
        }
        Ok(())
    }

    fn lookup(&self, name: &str) -> TensorValue {
        if name.is_empty() {
            return TensorValue::Nothing;
        }
        self.tensors.get(name).cloned().unwrap_or(TensorValue::Unknown)
    }

    fn shape_of(&self, value: &TensorValue) -> Option<Vec<usize>> {
        match value {
            TensorValue::Real(id) | TensorValue::Quantized(id, _) => Some(self.graph.shape(*id).to_vec()),
            TensorValue::Integers(integers) => Some(integers.shape.clone()),
            TensorValue::Nothing | TensorValue::Unknown => None,
        }
    }

    /// Adds a node, or a constant if all of its inputs are constant.
    fn emit(&mut self, node: &Node<'_>, op: Op, inputs: &[TensorId]) -> Result<TensorId, String> {
        let name = format!("{}/{}", node.name, self.graph.tensors.len());
        crate::float::add(&mut self.graph, &node.name, op, inputs, &name)
    }

    /// Adds a constant of a node.
    fn emit_constant(
        &mut self,
        node: &Node<'_>,
        shape: &[usize],
        values: impl Into<std::sync::Arc<[f32]>>,
    ) -> Result<TensorId, String> {
        let name = format!("{}/{}", node.name, self.graph.tensors.len());
        self.graph.add_constant(name, shape, values)
    }
}

fn written(shape: &proto::Shape) -> String {
    let dim = |dim: &proto::Dimension| match dim.dim_value {
        Some(value) => value.to_string(),
        None if dim.dim_param.is_empty() => "?".to_owned(),
        None => dim.dim_param.clone(),
    };
    shape.dim.iter().map(dim).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests;
