// SPDX-License-Identifier: MIT OR Apache-2.0

//! A node of the file, the values of its tensors, and the graph that is built of them.

use std::collections::HashMap;

use super::proto;
use super::value::{Integers, Value};
use crate::import::at::At;
use crate::import::options::Options;
use crate::ir::{Graph, Op, Quantization, TensorId};

/// The value of a tensor of the file.
#[derive(Clone, Debug)]
pub(super) enum TensorValue {
    /// A tensor of real numbers, constant or not.
    Real(TensorId),
    /// The integers of a quantized model. The tensor has their real numbers.
    Quantized(TensorId, Quantization),
    /// Integers whose scale the network measures while it runs. The tensor has their real numbers, and the scale counts as 1.
    Measured(TensorId),
    /// Constant integers or booleans.
    Integers(Integers),
    /// A constant of real numbers without elements, or an omitted input.
    Nothing,
    /// The output of a node that cannot be read.
    Unknown,
}

pub(super) struct Reader {
    pub(super) graph: Graph,
    pub(super) tensors: HashMap<String, TensorValue>,
    /// Version of the default operator set.
    pub(super) opset: i64,
    /// For each tensor of the file, the number of nodes and outputs that read it.
    pub(super) readers: HashMap<String, usize>,
}

/// A node of the file, with access to its attributes.
pub(super) struct Node<'a> {
    pub(super) proto: &'a proto::Node,
    pub(super) name: String,
    pub(super) opset: i64,
}

impl Node<'_> {
    pub(super) fn attribute(&self, name: &str) -> Option<&proto::Attribute> {
        self.proto.attribute.iter().find(|attribute| attribute.name == name)
    }

    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).map_or(default, |attribute| attribute.i)
    }

    pub(super) fn float(&self, name: &str, default: f32) -> f32 {
        self.attribute(name).map_or(default, |attribute| attribute.f)
    }

    pub(super) fn ints(&self, name: &str) -> Option<&[i64]> {
        self.attribute(name).map(|attribute| attribute.ints.as_slice())
    }

    pub(super) fn text(&self, name: &str, default: &str) -> String {
        self.attribute(name).map_or(default.to_owned(), |a| String::from_utf8_lossy(&a.s).into_owned())
    }

    /// Whether an input is given.
    pub(super) fn has(&self, k: usize) -> bool {
        self.proto.input.get(k).is_some_and(|name| !name.is_empty())
    }

    pub(super) fn operator(&self) -> String {
        match self.proto.domain.as_str() {
            domain if proto::is_standard(domain) => self.proto.op_type.clone(),
            domain => format!("{domain}.{}", self.proto.op_type),
        }
    }
}

impl Reader {
    /// The names of the tensors that nodes compute and that nodes with unknown results read.
    pub(super) fn before(&self, nodes: &[proto::Node]) -> Vec<String> {
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
    pub(super) fn constant(&mut self, name: &str, value: Value) -> Result<TensorValue, String> {
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

    pub(super) fn input(&mut self, input: &proto::ValueInfo, options: &Options) -> Result<TensorValue, String> {
        let tensor = input.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
        let tensor = tensor.ok_or("it is not a tensor")?;
        let shape = match (options.shapes.get(&input.name), &tensor.shape) {
            (Some(given), Some(shape)) => {
                // Sizes that the model fixes may be others, such as the batch. Operators that do not allow them are refused.
                if shape.dim.len() != given.len() {
                    return Err(format!("the shape {given:?} is given, the model has {}", written(shape)));
                }
                given.clone()
            }
            (Some(given), None) => given.clone(),
            (None, None) => {
                return Err(format!(
                    "its shape is not known; give it with the option shape, as {}=1x3x224x224",
                    input.name.escape_debug()
                ))
            }
            (None, Some(shape)) => {
                let extent = |(axis, dim): (usize, &proto::Dimension)| match dim.dim_value {
                    Some(value) if value > 0 => usize::try_from(value).ok(),
                    // A batch of unknown size becomes 1.
                    None | Some(0 | -1) if axis == 0 && shape.dim.len() > 1 => Some(1),
                    _ => None,
                };
                let extents: Option<Vec<usize>> = shape.dim.iter().enumerate().map(extent).collect();
                let reason = || {
                    format!(
                        "its shape {} is open; give it with the option shape, as {}=1x3x224x224",
                        written(shape),
                        input.name.escape_debug()
                    )
                };
                extents.ok_or_else(reason)?
            }
        };
        Ok(TensorValue::Real(self.graph.input(input.name.clone(), &shape)?))
    }

    pub(super) fn lookup(&self, name: &str) -> TensorValue {
        if name.is_empty() {
            return TensorValue::Nothing;
        }
        self.tensors.get(name).cloned().unwrap_or(TensorValue::Unknown)
    }

    pub(super) fn shape_of(&self, value: &TensorValue) -> Option<Vec<usize>> {
        match value {
            TensorValue::Real(id) | TensorValue::Quantized(id, _) | TensorValue::Measured(id) => {
                Some(self.graph.shape(*id).to_vec())
            }
            TensorValue::Integers(integers) => Some(integers.shape.clone()),
            TensorValue::Nothing | TensorValue::Unknown => None,
        }
    }

    /// Adds a node, or a constant if all of its inputs are constant.
    pub(super) fn emit(&mut self, node: &Node<'_>, op: Op, inputs: &[TensorId]) -> Result<TensorId, String> {
        At { graph: &mut self.graph, node: &node.name }.emit(op, inputs)
    }

    /// Adds a constant of a node.
    pub(super) fn emit_constant(
        &mut self,
        node: &Node<'_>,
        shape: &[usize],
        values: impl Into<std::sync::Arc<[f32]>>,
    ) -> Result<TensorId, String> {
        At { graph: &mut self.graph, node: &node.name }.constant(shape, values)
    }
}

pub(super) fn written(shape: &proto::Shape) -> String {
    let dim = |dim: &proto::Dimension| match dim.dim_value {
        Some(value) => value.to_string(),
        None if dim.dim_param.is_empty() => "?".to_owned(),
        None => dim.dim_param.escape_debug().to_string(),
    };
    shape.dim.iter().map(dim).collect::<Vec<_>>().join("x")
}
