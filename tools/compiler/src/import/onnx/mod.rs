// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads ONNX models.
//!
//! Each node becomes nodes of [`crate::ir`], or is computed immediately if all of its inputs are constant. This removes the
//! arithmetic on shapes that exported models contain. Nodes that cannot be read are collected, so that one run lists all of them.
//! Operators, attributes and defaults are those of ONNX's operator reference; `com.microsoft` operators are those of ONNX
//! Runtime.

// Parameters are compared with the exact values that have no effect. Directions are indices into several arrays.
#![allow(clippy::float_cmp, clippy::needless_range_loop)]

mod arithmetic;
mod convert;
mod einsum;
mod inline;
mod normalize;
mod old;
mod order;
mod pooling;
mod product;
pub mod proto;
mod quantized;
mod reader;
mod recurrent;
mod reduce;
mod resize;
mod shapes;
pub mod survey;
mod value;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use nvdla_runtime::files;
use prost::Message;

use crate::import::format::{Failure, Format, MAX_MODEL};
use crate::import::options::Options;
use crate::ir::budget::Budget;
use crate::ir::{Graph, Refusal, Unreadable};
use order::order;
use reader::{Node, Reader, TensorValue};

/// ONNX.
pub const FORMAT: Format = Format {
    extension: "onnx",
    read: |path, bytes, options| {
        let folder = path.parent().map(|folder| if folder == Path::new("") { Path::new(".") } else { folder });
        read(bytes.into(), folder, options)
    },
    others: |path| external_data(path).unwrap_or_default(),
};

/// The files with the external data of a model. None if the model cannot be read.
fn external_data(path: &Path) -> Option<Vec<PathBuf>> {
    let bytes = files::read_part(path, 0, None, MAX_MODEL).ok()?;
    let model = proto::Model::decode(Bytes::from(bytes)).ok()?;
    let mut tensors = Vec::new();
    tensors_of_graph(model.graph.as_ref()?, &mut tensors);
    model.functions.iter().for_each(|function| tensors_of_nodes(&function.node, &mut tensors));
    let entries = tensors.into_iter().flat_map(|tensor| &tensor.external_data);
    let locations = entries.filter(|entry| entry.key == "location");
    Some(locations.map(|entry| path.with_file_name(&entry.value)).collect())
}

/// The constants of a graph and of the graphs inside it, which are not deeper than messages may be (prost has a limit).
fn tensors_of_graph<'a>(graph: &'a proto::Graph, tensors: &mut Vec<&'a proto::Tensor>) {
    tensors.extend(&graph.initializer);
    tensors_of_nodes(&graph.node, tensors);
}

fn tensors_of_nodes<'a>(nodes: &'a [proto::Node], tensors: &mut Vec<&'a proto::Tensor>) {
    for attribute in nodes.iter().flat_map(|node| &node.attribute) {
        tensors.extend(&attribute.t);
        attribute.g.iter().for_each(|graph| tensors_of_graph(graph, tensors));
    }
}

/// The shapes of tensors that are to be inputs and whose shape the file does not have: those that their nodes give them. None of them if
/// a node before one of them cannot be read.
fn shapes_before(
    names: &[&String],
    bytes: Bytes,
    folder: Option<&Path>,
    options: &Options,
) -> HashMap<String, Vec<usize>> {
    if names.is_empty() {
        return HashMap::new();
    }
    let shapes = options.shapes.iter().filter(|(name, _)| !options.inputs.contains(name));
    let before = Options {
        shapes: shapes.map(|(name, shape)| (name.clone(), shape.clone())).collect(),
        inputs: Vec::new(),
        outputs: names.iter().map(|&name| name.clone()).collect(),
        cancel: options.cancel.clone(),
    };
    let Ok(graph) = read(bytes, folder, &before) else { return HashMap::new() };
    let shapes = graph.outputs.iter().map(|&id| graph.shape(id).to_vec());
    names.iter().map(|&name| name.clone()).zip(shapes).collect()
}

/// Reads a model from a file's bytes. `folder` is the folder of external data files.
pub fn read(bytes: Bytes, folder: Option<&Path>, options: &Options) -> Result<Graph, Failure> {
    let malformed = |reason: String| Failure::Malformed(reason);
    let size = bytes.len() as u64;
    let mut model =
        proto::Model::decode(bytes.clone()).map_err(|error| malformed(format!("not an ONNX model: {error}")))?;
    let mut budget = Budget::new(size, options.cancel.clone());
    inline::inline(&mut model, &mut budget).map_err(malformed)?;
    let opset = model.operator_set();
    let file = model.graph.ok_or_else(|| malformed("not an ONNX model: it has no graph".to_owned()))?;
    let opset = opset.map_err(malformed)?;

    let mut outputs: Vec<String> = file.output.iter().map(|output| output.name.clone()).collect();
    if !options.outputs.is_empty() {
        outputs.clone_from(&options.outputs);
    }
    let cut = &options.inputs;
    let order = order(&file, &outputs, cut).map_err(malformed)?;
    let mut readers: HashMap<String, usize> = HashMap::new();
    let read = order.iter().flat_map(|&k| inline::all_reads(&file.node[k]));
    for name in read.chain(outputs.iter().map(String::as_str)) {
        *readers.entry(name.to_owned()).or_default() += 1;
    }

    let mut reader = Reader { graph: Graph::new(file.name.clone()), tensors: HashMap::new(), opset, readers };
    reader.graph.budget = budget;
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
            return Err(malformed(format!("two initializers have the name {:?}", tensor.name)));
        }
    }
    let mut inputs: Vec<Cow<'_, proto::ValueInfo>> = file.input.iter().map(Cow::Borrowed).collect();
    if !cut.is_empty() {
        let read = |input: &Cow<'_, proto::ValueInfo>| reader.readers.contains_key(&input.name);
        inputs.retain(|input| read(input) && !cut.contains(&input.name));
        let described = || file.value_info.iter().chain(&file.output).chain(&file.input);
        let open = |name: &&String| !options.shapes.contains_key(*name) && !described().any(|info| info.name == **name);
        let shapes = shapes_before(&cut.iter().filter(open).collect::<Vec<_>>(), bytes, folder, options);
        for name in cut {
            let made = file.node.iter().any(|node| node.output.contains(name));
            let known = described().find(|info| info.name == *name);
            if !made && known.is_none() || !reader.readers.contains_key(name) {
                return Err(malformed(format!(
                    "no node that the outputs need reads {name:?}, which is to be an input"
                )));
            }
            let extent = |&extent: &usize| proto::Dimension { dim_value: Some(extent as i64), ..Default::default() };
            let shape = shapes.get(name).map(|shape| proto::Shape { dim: shape.iter().map(extent).collect() });
            let kind = Some(proto::Type { tensor_type: Some(proto::TensorType { elem_type: 1, shape }) });
            let open = || Cow::Owned(proto::ValueInfo { name: name.clone(), r#type: kind });
            inputs.push(known.map_or_else(open, Cow::Borrowed));
        }
    }
    // Before version 4 of the format, initializers were also listed as inputs, and also those that no node reads.
    let initializers: HashSet<&str> = file.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    for input in inputs {
        if initializers.contains(input.name.as_str()) || reader.tensors.contains_key(&input.name) {
            continue;
        }
        let value = reader.input(&input, options).unwrap_or_else(|reason| {
            refusals.push(Refusal { node: input.name.clone(), operator: "input".into(), shapes: vec![], reason });
            TensorValue::Unknown
        });
        reader.tensors.insert(input.name.clone(), value);
    }
    for name in options.shapes.keys() {
        if !file.input.iter().any(|input| input.name == *name) && !cut.contains(name) {
            let names: Vec<_> = file.input.iter().map(|input| input.name.as_str()).collect();
            return Err(malformed(format!("a shape is given for {name:?}, the inputs are {}", names.join(", "))));
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
            Some(TensorValue::Real(id)) if reader.graph.constant(*id).is_none() => *id,
            Some(TensorValue::Quantized(id, quantization)) if reader.graph.constant(*id).is_none() => {
                // Integers that were only moved have their scale where they are computed.
                reader.graph.tensors[id.0].quantization.get_or_insert_with(|| quantization.clone());
                *id
            }
            Some(TensorValue::Measured(_)) => {
                return Err(malformed(format!(
                    "the output {name:?} has integers whose scale is measured while the network runs"
                )))
            }
            Some(_) => return Err(malformed(format!("the output {name:?} does not depend on the inputs"))),
            None => return Err(malformed(format!("no node computes the output {name:?}"))),
        };
        // A node that was removed (Identity, Dropout) may have had the output's name.
        reader.graph.add_output(id, name).map_err(malformed)?;
    }
    if reader.graph.outputs.is_empty() {
        return Err(malformed("the model has no outputs".to_owned()));
    }
    reader.graph.check().map_err(malformed)?;
    Ok(reader.graph)
}

impl Reader {
    /// Reads a node. `Err(None)`: its inputs are unknown, because an earlier node could not be read.
    fn node(&mut self, node: &Node<'_>, folder: Option<&Path>) -> Result<(), Option<Refusal>> {
        let inputs: Vec<TensorValue> = node.proto.input.iter().map(|name| self.lookup(name)).collect();
        let shape = |value: &TensorValue| self.shape_of(value);
        let shapes: Vec<_> = inputs.iter().filter_map(shape).collect();
        let refuse = |reason: String| {
            Some(Refusal { node: node.name.clone(), operator: node.operator(), shapes: shapes.clone(), reason })
        };
        let domain = node.proto.domain.as_str();
        if node.proto.op_type == "If" && proto::is_standard(domain) {
            return self.branch(node, &inputs, folder, &refuse);
        }
        if !convert::is_known(domain, &node.proto.op_type) {
            return Err(refuse(convert::why_not(&node.proto.op_type)));
        }
        if inputs.iter().any(|value| matches!(value, TensorValue::Unknown)) {
            return Err(None);
        }
        let before = self.graph.tensors.len();
        let outputs = self.convert(node, &inputs, folder).map_err(refuse)?;
        for (k, value) in outputs.into_iter().enumerate() {
            if let TensorValue::Integers(integers) = &value {
                self.graph.budget.spend(8 * integers.values.len() as u64, 0).map_err(refuse)?;
            }
            let Some(name) = node.proto.output.get(k).filter(|name| !name.is_empty()) else { continue };
            if let TensorValue::Real(id) | TensorValue::Quantized(id, _) | TensorValue::Measured(id) = value {
                if id.0 >= before {
                    self.graph.tensors[id.0].name.clone_from(name);
                }
            }
            self.tensors.insert(name.clone(), value);
        }
        for name in &node.proto.output {
            if !name.is_empty() && !self.tensors.contains_key(name) {
                if self.readers.contains_key(name) {
                    return Err(refuse(format!("its output {name:?} is not supported")));
                }
                self.tensors.insert(name.clone(), TensorValue::Unknown);
            }
        }
        Ok(())
    }

    /// Reads the branch of an `If` that its constant condition chooses. Its tensors have names of their own in a model.
    fn branch(
        &mut self,
        node: &Node<'_>,
        inputs: &[TensorValue],
        folder: Option<&Path>,
        refuse: &dyn Fn(String) -> Option<Refusal>,
    ) -> Result<(), Option<Refusal>> {
        let Some(TensorValue::Integers(condition)) = inputs.first().filter(|_| inputs.len() == 1) else {
            return Err(refuse("its condition is computed by the network".to_owned()));
        };
        let chosen = if condition.values.iter().all(|&value| value != 0) { "then_branch" } else { "else_branch" };
        let graph = node.attribute(chosen).and_then(|attribute| attribute.g.as_deref());
        let graph = graph.ok_or_else(|| refuse(format!("its {chosen} is missing")))?;
        for tensor in &graph.initializer {
            let value = value::tensor(tensor, folder).and_then(|value| self.constant(&tensor.name, value));
            self.tensors.insert(tensor.name.clone(), value.map_err(refuse)?);
        }
        for proto in &graph.node {
            let name = [&node.name, proto.output.first().unwrap_or(&proto.name)].map(String::as_str).join("/");
            self.node(&Node { proto, name, opset: node.opset }, folder)?;
        }
        for (inner, outer) in graph.output.iter().zip(&node.proto.output) {
            let value = self.lookup(&inner.name);
            if matches!(value, TensorValue::Unknown) {
                return Err(refuse(format!("no node computes {:?}", inner.name)));
            }
            self.tensors.insert(outer.clone(), value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
