// SPDX-License-Identifier: MIT OR Apache-2.0

//! A graph of ONNX Runtime as the compiler's ONNX model.
//!
//! The graph has gone through ONNX Runtime's first optimisations: constants are computed, and shapes are inferred. A tensor with
//! a size that is not fixed has no shape here, so that the compiler leaves its nodes to the processor.

use std::collections::HashSet;

use bytes::Bytes;
use nvdla_compiler::import::onnx::proto;
use nvdla_frameworks::{Failure, Result};

use crate::api::{Api, Attribute, Graph, Node, Tensor, ValueInfo};
use crate::sys;

/// The greatest number of bytes of a model's constants: sizes of NVDLA's memories have 32 bits, and weights in half precision
/// have half of the bytes.
const MAX_CONSTANTS: usize = 1 << 31;

/// Reads a graph. The model's nodes are in the order of `nodes`.
pub(crate) fn model(api: Api, graph: Graph<'_>, nodes: &[Node<'_>]) -> Result<proto::Model> {
    check_size(api, nodes)?;
    let mut reader = Reader { api, graph: proto::Graph::default(), known: HashSet::new() };
    for value in api.graph_inputs(graph)? {
        reader.value(value)?;
    }
    for &node in nodes {
        let node = reader.node(node)?;
        reader.graph.node.push(node);
    }
    for value in api.graph_outputs(graph)? {
        reader.value(value)?;
        reader.graph.output.push(proto::ValueInfo { name: api.name(value)?, r#type: None });
    }
    // What no node computes is an input; in a nested graph these are also values of the outer one.
    let mut graph_proto = reader.graph;
    let made: HashSet<&String> = graph_proto.node.iter().flat_map(|node| &node.output).collect();
    let (inner, inputs) = graph_proto.value_info.into_iter().partition(|info| made.contains(&info.name));
    (graph_proto.value_info, graph_proto.input) = (inner, inputs);
    let sets = api.operator_sets(graph)?;
    let opset_import = sets.into_iter().map(|(domain, version)| proto::OperatorSet { domain, version }).collect();
    Ok(proto::Model { graph: Some(graph_proto), opset_import, functions: Vec::new() })
}

/// Refuses a model with too many constants before any is copied.
fn check_size(api: Api, nodes: &[Node<'_>]) -> Result<()> {
    let (mut seen, mut bytes) = (HashSet::new(), 0usize);
    for &node in nodes {
        for value in api.inputs(node)?.into_iter().flatten() {
            let Some(constant) = api.constant(value)? else { continue };
            if seen.insert(constant.pointer()) {
                bytes = bytes.saturating_add(api.tensor(constant).map_or(0, |tensor| tensor.bytes.len()));
            }
        }
    }
    if bytes > MAX_CONSTANTS {
        return Err(Failure(format!(
            "the model has {bytes} bytes of constants, more than {MAX_CONSTANTS}, which NVDLA's memories do not hold"
        )));
    }
    Ok(())
}

struct Reader {
    api: Api,
    graph: proto::Graph,
    known: HashSet<String>,
}

impl Reader {
    /// Takes a value into the model if it is new, and returns its name.
    fn value(&mut self, value: ValueInfo<'_>) -> Result<String> {
        let name = self.api.name(value)?;
        if name.is_empty() || !self.known.insert(name.clone()) {
            return Ok(name);
        }
        if let Some(constant) = self.api.constant(value)? {
            let tensor = self.api.tensor(constant);
            // Strings are no tensors of bytes; their readers are refused.
            if let Ok(tensor) = tensor {
                self.graph.initializer.push(constant_of(&name, &tensor));
                return Ok(name);
            }
        }
        let tensor_type = self.api.shape(value)?.map(|(elem_type, extents)| {
            let dim = |&extent: &i64| proto::Dimension {
                dim_value: (extent >= 0).then_some(extent),
                dim_param: String::new(),
            };
            // Version 23 of the interface gives no extents both for a scalar and for a tensor of unknown rank.
            let shape = (!extents.is_empty()).then(|| proto::Shape { dim: extents.iter().map(dim).collect() });
            proto::TensorType { elem_type, shape }
        });
        let info = proto::ValueInfo { name: name.clone(), r#type: Some(proto::Type { tensor_type }) };
        self.graph.value_info.push(info);
        Ok(name)
    }

    fn values(&mut self, values: Vec<Option<ValueInfo<'_>>>) -> Result<Vec<String>> {
        values.into_iter().map(|value| value.map_or(Ok(String::new()), |value| self.value(value))).collect()
    }

    fn node(&mut self, node: Node<'_>) -> Result<proto::Node> {
        let api = self.api;
        let domain = api.domain(node)?;
        // The compiler reads no node with graphs, so that the order of the inputs does not matter.
        let inputs = api.inputs(node)?.into_iter().chain(api.implicit_inputs(node)?).collect();
        Ok(proto::Node {
            input: self.values(inputs)?,
            output: self.values(api.outputs(node)?)?,
            name: api.node_name(node)?,
            op_type: api.operator(node)?,
            attribute: self.attributes(node)?,
            domain: if domain == "ai.onnx" { String::new() } else { domain },
            overload: String::new(),
        })
    }

    fn attributes(&self, node: Node<'_>) -> Result<Vec<proto::Attribute>> {
        let read = |attribute| self.attribute(attribute);
        self.api.attributes(node)?.into_iter().map(read).collect()
    }

    fn attribute(&self, attribute: Attribute<'_>) -> Result<proto::Attribute> {
        let api = self.api;
        let mut read = proto::Attribute { name: api.attribute_name(attribute)?, ..Default::default() };
        let kind = api.attribute_type(attribute)?;
        let i64s =
            |bytes: &[u8]| bytes.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes)).collect::<Vec<_>>();
        let f32s =
            |bytes: &[u8]| bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect::<Vec<_>>();
        match kind {
            sys::ORT_OP_ATTR_INT => {
                read.i = i64s(&api.attribute_bytes(attribute, kind)?).first().copied().unwrap_or_default();
            }
            sys::ORT_OP_ATTR_INTS => read.ints = i64s(&api.attribute_bytes(attribute, kind)?),
            sys::ORT_OP_ATTR_FLOAT => {
                read.f = f32s(&api.attribute_bytes(attribute, kind)?).first().copied().unwrap_or_default();
            }
            sys::ORT_OP_ATTR_FLOATS => read.floats = f32s(&api.attribute_bytes(attribute, kind)?),
            sys::ORT_OP_ATTR_STRING => read.s = Bytes::from(api.attribute_bytes(attribute, kind)?),
            sys::ORT_OP_ATTR_TENSOR => {
                read.t = Some(api.attribute_tensor(attribute, |tensor| constant_of("", &tensor))?);
            }
            // The compiler reads no operator that has such attributes.
            _ => {}
        }
        Ok(read)
    }
}

fn constant_of(name: &str, tensor: &Tensor<'_>) -> proto::Tensor {
    proto::Tensor {
        dims: tensor.shape.clone(),
        data_type: tensor.kind,
        name: name.to_owned(),
        raw_data: Bytes::copy_from_slice(tensor.bytes),
        ..Default::default()
    }
}
