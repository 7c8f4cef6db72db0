// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads an ONNX model whose nodes need not all be readable, for [`crate::partition`].
//!
//! The shapes behind a node that is not read come from the model's `value_info`, which ONNX's shape inference writes.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use bytes::Bytes;
use prost::Message as _;

use super::order::order;
use super::proto;
use super::reader::{written, Node, Reader, TensorValue};
use super::value::{self, types};
use crate::import::format::Failure;
use crate::import::options::Options;
use crate::ir::{Graph, Quantization};
use crate::survey::{self, Role, Survey, Value};

/// What the file says of the type of a tensor.
struct Declared<'a> {
    kind: i32,
    shape: Option<&'a proto::Shape>,
}

struct Surveyor<'a> {
    reader: Reader,
    declared: HashMap<&'a str, Declared<'a>>,
    /// The nodes that read each tensor.
    readers: HashMap<&'a str, Vec<&'a proto::Node>>,
    /// Why the value of a tensor is not known.
    unknown: HashMap<&'a str, String>,
    /// Whether a batch that the model does not fix is 1.
    open_batch: bool,
    /// Outputs of nodes that were not read and that an attribute fills with infinities.
    infinite: HashSet<String>,
}

/// Reads a model from a file's bytes. `folder` is the folder of external data files. A batch of unknown size becomes 1, as in
/// [`super::read`].
///
/// # Errors
///
/// If the bytes are not a model, or its parts contradict each other.
pub fn survey(bytes: Bytes, folder: Option<&Path>, options: &Options) -> Result<Survey, Failure> {
    let malformed = |error| Failure::Malformed(format!("not an ONNX model: {error}"));
    of_model(&proto::Model::decode(bytes).map_err(malformed)?, folder, options, true)
}

/// Reads a model. Without `open_batch`, each tensor with a size that the model does not fix is left out.
///
/// # Errors
///
/// If the parts of the model contradict each other.
pub fn of_model(
    model: &proto::Model,
    folder: Option<&Path>,
    options: &Options,
    open_batch: bool,
) -> Result<Survey, Failure> {
    let file =
        model.graph.as_ref().ok_or_else(|| Failure::Malformed("not an ONNX model: it has no graph".to_owned()))?;
    let opset = model.operator_set().map_err(Failure::Malformed)?;
    let mut outputs: Vec<String> = file.output.iter().map(|output| output.name.clone()).collect();
    if !options.outputs.is_empty() {
        outputs.clone_from(&options.outputs);
    }
    let order = order(file, &outputs, &options.inputs).map_err(Failure::Malformed)?;
    let mut counts: HashMap<String, usize> = HashMap::new();
    for name in order.iter().flat_map(|&k| &file.node[k].input).chain(&outputs) {
        *counts.entry(name.clone()).or_default() += 1;
    }
    let mut readers: HashMap<&str, Vec<&proto::Node>> = HashMap::new();
    for node in order.iter().map(|&k| &file.node[k]) {
        node.input.iter().for_each(|name| readers.entry(name).or_default().push(node));
    }
    let all = file.value_info.iter().chain(&file.input).chain(&file.output);
    let declared = all.filter_map(|info| {
        let tensor = info.r#type.as_ref()?.tensor_type.as_ref()?;
        Some((info.name.as_str(), Declared { kind: tensor.elem_type, shape: tensor.shape.as_ref() }))
    });
    let mut surveyor = Surveyor {
        reader: Reader { graph: Graph::new(file.name.clone()), tensors: HashMap::new(), opset, readers: counts },
        declared: declared.collect(),
        readers,
        unknown: HashMap::new(),
        open_batch,
        infinite: HashSet::new(),
    };
    surveyor.constants(file, folder)?;
    for input in &file.input {
        surveyor.declare(&input.name, options.shapes.get(&input.name).map(Vec::as_slice));
    }
    let mut taken = HashSet::new();
    let (mut nodes, mut origins) = (Vec::with_capacity(order.len()), Vec::new());
    for position in order {
        let proto = &file.node[position];
        let names = [Some(&proto.name), proto.output.iter().find(|name| !name.is_empty())];
        let free = |name: &&String| !name.is_empty() && !taken.contains(name.as_str());
        let name = names.into_iter().flatten().find(free).cloned().unwrap_or_else(|| format!("node {position}"));
        taken.insert(name.clone());
        let node = Node { proto, name, opset };
        let refusal = surveyor.node(&node, folder).err();
        if refusal.is_some() {
            proto.output.iter().for_each(|output| surveyor.declare(output, None));
            if proto.attribute.iter().filter_map(|attribute| attribute.t.as_ref()).any(|tensor| fills(tensor, folder)) {
                surveyor.infinite.extend(proto.output.iter().cloned());
            }
        }
        origins.resize(surveyor.reader.graph.nodes.len(), nodes.len());
        let given = |names: &[String]| names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>();
        nodes.push(survey::Node {
            role: surveyor.role(proto),
            operator: node.operator(),
            name: node.name,
            position,
            inputs: given(&proto.input),
            outputs: given(&proto.output),
            refusal,
        });
    }
    Ok(surveyor.finish(nodes, origins, outputs))
}

/// Whether a tensor holds infinities.
fn fills(tensor: &proto::Tensor, folder: Option<&Path>) -> bool {
    matches!(value::tensor(tensor, folder), Ok(value::Value::Real(_, values)) if values.iter().any(|value| value.is_infinite()))
}

impl<'a> Surveyor<'a> {
    fn constants(&mut self, file: &'a proto::Graph, folder: Option<&Path>) -> Result<(), Failure> {
        for tensor in &file.initializer {
            if !self.reader.readers.contains_key(&tensor.name) {
                continue;
            }
            let read = value::tensor(tensor, folder).and_then(|value| self.reader.constant(&tensor.name, value));
            let value = read.unwrap_or_else(|reason| {
                self.unknown.insert(&tensor.name, reason);
                TensorValue::Unknown
            });
            if self.reader.tensors.insert(tensor.name.clone(), value).is_some() {
                return Err(Failure::Malformed(format!("two initializers have the name {:?}", tensor.name)));
            }
        }
        Ok(())
    }

    /// Makes a tensor that no read node computes an input of the graph, if its type and shape are known. `shape` is the shape
    /// that a user gives.
    fn declare(&mut self, name: &'a str, shape: Option<&[usize]>) {
        if name.is_empty() || self.reader.tensors.contains_key(name) {
            return;
        }
        let value = self.given(name, shape).unwrap_or_else(|reason| {
            self.unknown.insert(name, reason);
            TensorValue::Unknown
        });
        self.reader.tensors.insert(name.to_owned(), value);
    }

    fn given(&mut self, name: &str, shape: Option<&[usize]>) -> Result<TensorValue, String> {
        let Some(Declared { kind, shape: known }) = self.declared.get(name) else {
            return Err(
                "its type and shape are not known; ONNX's shape inference writes them into the model".to_owned()
            );
        };
        let shape = match (shape, known) {
            (Some(shape), _) => shape.to_vec(),
            (None, Some(known)) => self.extents(known)?,
            (None, None) => return Err("its shape is not known".to_owned()),
        };
        let quantization = self.dequantized(name, *kind);
        let all = |operator: &str| {
            self.readers.get(name).is_some_and(|nodes| nodes.iter().all(|node| node.op_type == operator))
        };
        let byte = matches!(*kind, types::UINT8 | types::INT8) && all("Cast");
        if !matches!(*kind, types::FLOAT | types::FLOAT16) && quantization.is_none() && !byte {
            return Err(format!("its elements are of type {kind}, and not real numbers of 16 or 32 bits"));
        }
        let id = self.reader.graph.input(name, &shape)?;
        self.reader.graph.tensors[id.0].quantization.clone_from(&quantization);
        Ok(quantization.map_or(TensorValue::Real(id), |quantization| TensorValue::Quantized(id, quantization)))
    }

    fn extents(&self, shape: &proto::Shape) -> Result<Vec<usize>, String> {
        let extent = |(axis, dim): (usize, &proto::Dimension)| match dim.dim_value {
            Some(value) if value > 0 => usize::try_from(value).ok(),
            None | Some(0 | -1) if self.open_batch && axis == 0 && shape.dim.len() > 1 => Some(1),
            _ => None,
        };
        let extents = shape.dim.iter().enumerate().map(extent).collect::<Option<Vec<usize>>>();
        extents.ok_or_else(|| format!("its shape {} is not fixed", written(shape)))
    }

    /// The quantization of integers that `DequantizeLinear` alone reads, with one scale.
    fn dequantized(&self, name: &str, kind: i32) -> Option<Quantization> {
        let limits = super::convert::limits(kind).ok()?;
        let mut found: Option<(f32, i32)> = None;
        for node in self.readers.get(name)? {
            let value = |k: usize| node.input.get(k).and_then(|name| self.reader.tensors.get(name));
            let Some(TensorValue::Real(scale)) = value(1) else { return None };
            let &[scale] = &self.reader.graph.constant(*scale)?[..] else { return None };
            let zero = match value(2) {
                Some(TensorValue::Integers(zero)) if zero.values.len() == 1 => i32::try_from(zero.values[0]).ok()?,
                None => 0,
                _ => return None,
            };
            let usable = node.op_type == "DequantizeLinear"
                && node.input.first().is_some_and(|first| first == name)
                && scale.is_finite()
                && scale > 0.0;
            if !usable || found.is_some_and(|found| (found.0.to_bits(), found.1) != (scale.to_bits(), zero)) {
                return None;
            }
            found = Some((scale, zero));
        }
        let (scale, zero) = found?;
        Some(Quantization { scale: vec![scale], zero_point: vec![zero], axis: None, limits })
    }

    /// Reads a node. The error says why it cannot be read.
    fn node(&mut self, node: &Node<'_>, folder: Option<&Path>) -> Result<(), String> {
        let before = self.reader.graph.nodes.len();
        let read = match self.reader.node(node, folder) {
            Ok(()) => self.typed(node),
            Err(Some(refusal)) => Err(refusal.reason),
            Err(None) => Err(self.missing(node)),
        };
        if read.is_err() {
            self.reader.graph.nodes.truncate(before);
            node.proto.output.iter().for_each(|output| drop(self.reader.tensors.remove(output)));
        }
        read
    }

    /// Why an input of a node is not known.
    fn missing(&self, node: &Node<'_>) -> String {
        let reason = |name: &String| Some(format!("its input {name:?}: {}", self.unknown.get(name.as_str())?));
        node.proto.input.iter().find_map(reason).unwrap_or_else(|| "an input is not known".to_owned())
    }

    /// Refuses outputs of another type than the reader gives them.
    fn typed(&self, node: &Node<'_>) -> Result<(), String> {
        if matches!(node.proto.op_type.as_str(), "GRU" | "LSTM" | "RNN") {
            return Err("the processor computes its steps, one after another, sooner".to_owned());
        }
        let booleans = ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "And", "Or", "Not"];
        for output in &node.proto.output {
            if let Some(TensorValue::Real(id)) = self.reader.tensors.get(output) {
                if booleans.contains(&node.proto.op_type.as_str()) && self.reader.graph.constant(*id).is_none() {
                    return Err(format!("the elements of its output {output:?} are booleans"));
                }
            }
            if let Some(TensorValue::Measured(_)) = self.reader.tensors.get(output) {
                return Err(format!(
                    "the scale of the integers of its output {output:?} is measured while the network runs"
                ));
            }
            let Some(Declared { kind, .. }) = self.declared.get(output.as_str()) else { continue };
            let real = matches!(*kind, types::FLOAT | types::FLOAT16);
            match self.reader.tensors.get(output) {
                Some(TensorValue::Real(id)) if !real && self.reader.graph.constant(*id).is_none() => {
                    return Err(format!("the elements of its output {output:?} are of type {kind}"));
                }
                Some(TensorValue::Quantized(_, q)) if super::convert::limits(*kind) != Ok(q.limits) => {
                    return Err(format!("the elements of its output {output:?} are of type {kind}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_constant(&self, name: &str) -> bool {
        match self.reader.tensors.get(name) {
            Some(TensorValue::Real(id) | TensorValue::Quantized(id, _)) => self.reader.graph.constant(*id).is_some(),
            Some(TensorValue::Integers(_) | TensorValue::Nothing) => true,
            Some(TensorValue::Measured(_) | TensorValue::Unknown) | None => false,
        }
    }

    fn role(&self, node: &proto::Node) -> Role {
        if node.output.iter().filter(|name| !name.is_empty()).all(|name| self.is_constant(name)) {
            return Role::Constant;
        }
        match node.op_type.as_str() {
            "QuantizeLinear" => Role::Quantize,
            "DequantizeLinear" => Role::Dequantize,
            _ => Role::Compute,
        }
    }

    fn finish(self, nodes: Vec<survey::Node>, origins: Vec<usize>, outputs: Vec<String>) -> Survey {
        let mut values = HashMap::new();
        for (name, value) in &self.reader.tensors {
            let value = match value {
                _ if self.is_constant(name) => Value::Constant,
                TensorValue::Real(id) => Value::Activation(*id, None),
                TensorValue::Quantized(id, quantization) => Value::Activation(*id, Some(quantization.clone())),
                _ => continue,
            };
            values.insert(name.clone(), value);
        }
        let constants = self.reader.tensors.iter().filter_map(|(name, value)| match value {
            TensorValue::Real(id) => Some((name, self.reader.graph.constant(*id)?)),
            _ => None,
        });
        let mut infinite = self.infinite;
        let constants = constants.filter(|(_, values)| values.iter().any(|value| value.is_infinite()));
        infinite.extend(constants.map(|(name, _)| name.clone()));
        Survey { graph: self.reader.graph, nodes, origins, values, outputs, infinite }
    }
}
