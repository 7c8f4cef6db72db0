// SPDX-License-Identifier: MIT OR Apache-2.0

//! The state of a reader, and what all operators need of it.

use std::collections::{HashMap, HashSet};

use super::file::{File, Operator};
use super::operators;
use super::value::{last_axes, Known, Value};
use crate::import::at::At;
use crate::ir::{Graph, Op, Refusal, TensorId};

pub(super) struct Reader<'a> {
    pub(super) file: &'a File<'a>,
    pub(super) graph: Graph,
    /// For each tensor of the file, what is known of it so far.
    pub(super) known: Vec<Option<Known>>,
    /// For each tensor of the file, the operators that read it.
    pub(super) users: Vec<Vec<usize>>,
    /// Tensors of the graph that are another tensor with its axes in the other order.
    pub(super) turned: HashMap<TensorId, TensorId>,
    pub(super) names: HashSet<String>,
}

impl Reader<'_> {
    /// A name for a node and its output: that of the operator's output.
    pub(super) fn name(&mut self, operator: &Operator<'_>) -> String {
        let name = operator.outputs.first().map_or(operator.name.as_str(), |&output| &self.file.tensors[output].name);
        self.unique(name)
    }

    pub(super) fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        while !self.names.insert(unique.clone()) {
            unique = format!("{name}#{}", self.names.len());
        }
        unique
    }

    /// Adds an input of the network. Its channels are moved to the front at once, because most networks need them there.
    pub(super) fn input(&mut self, index: usize, shapes: &HashMap<String, Vec<usize>>) -> Result<Value, String> {
        let tensor = &self.file.tensors[index];
        let name = tensor.name.clone();
        let open = |extent: i32| extent <= 0;
        let shape: Vec<usize> = if let Some(given) = shapes.get(&name) {
            let agrees = |(&known, &given): (&i32, &usize)| open(known) || known as usize == given;
            if tensor.shape.len() != given.len() || !tensor.shape.iter().zip(given).all(agrees) {
                return Err(format!("the shape {given:?} is given, the model has {:?}", tensor.shape));
            }
            given.clone()
        } else {
            let extent = |(axis, &extent): (usize, &i32)| match extent {
                extent if !open(extent) => Some(extent as usize),
                // A batch of unknown size becomes 1.
                _ if axis == 0 && tensor.shape.len() > 1 => Some(1),
                _ => None,
            };
            let extents: Option<Vec<usize>> = tensor.shape.iter().enumerate().map(extent).collect();
            extents.ok_or_else(|| format!("its shape {:?} is open; give it as --shape {name}=…", tensor.shape))?
        };
        let name = self.unique(&name);
        let id = self.graph.input(name.as_str(), &shape)?;
        self.graph.tensors[id.0].quantization.clone_from(&tensor.quantization);
        let value = Value { id, shape, first: false };
        self.ordered(&name, &value, true)
    }

    /// Reads an operator. `Err(None)`: its inputs are unknown, because an earlier operator could not be read.
    pub(super) fn operator(&mut self, operator: &Operator<'_>, node: &str) -> Result<(), Option<Refusal>> {
        let refuse = |shapes: Vec<Vec<usize>>, reason: String| {
            Some(Refusal { node: node.to_owned(), operator: operator.name.clone(), shapes, reason })
        };
        let mut inputs = Vec::new();
        if operators::is_known(&operator.name) {
            for input in &operator.inputs {
                inputs.push(match *input {
                    None => None,
                    Some(index) => Some(self.lookup(node, index).map_err(|reason| refuse(Vec::new(), reason))?),
                });
            }
        }
        let shape = |known: &Known| match known {
            Known::Value(value) | Known::Divided(value, ..) => Some(value.shape.clone()),
            Known::Unknown => None,
        };
        let shapes: Vec<_> = inputs.iter().flatten().filter_map(shape).collect();
        if !operators::is_known(&operator.name) {
            let shapes = operator.inputs.iter().flatten().filter_map(|&k| self.known[k].as_ref().and_then(shape));
            return Err(refuse(shapes.collect(), operators::why_not(&operator.name)));
        }
        if inputs.iter().flatten().any(|known| matches!(known, Known::Unknown)) {
            return Err(None);
        }
        let before = self.graph.tensors.len();
        let outputs = self.convert(operator, node, &inputs).map_err(|reason| refuse(shapes.clone(), reason))?;
        if outputs.len() < operator.outputs.len() {
            let count = operator.outputs.len();
            return Err(refuse(shapes, format!("it has {count} outputs, {} are supported", outputs.len())));
        }
        for (k, (&index, known)) in operator.outputs.iter().zip(outputs).enumerate() {
            if let Known::Value(Value { id, .. }) | Known::Divided(Value { id, .. }, ..) = known {
                if id.0 >= before {
                    let name = if k == 0 { node.to_owned() } else { self.unique(&self.file.tensors[index].name) };
                    self.graph.tensors[id.0].name = name;
                }
            }
            self.known[index] = Some(known);
        }
        Ok(())
    }

    /// What is known of a tensor; constants are read when they are first needed.
    pub(super) fn lookup(&mut self, node: &str, index: usize) -> Result<Known, String> {
        if let Some(known) = &self.known[index] {
            return Ok(known.clone());
        }
        let known =
            Known::Value(self.constant(index).map_err(|reason| {
                format!("the constant \"{}\" of \"{node}\": {reason}", self.file.tensors[index].name)
            })?);
        self.known[index] = Some(known.clone());
        Ok(known)
    }

    /// Makes a tensor an output of the graph, in TFLite's order.
    pub(super) fn output(&mut self, index: usize) -> Result<(), String> {
        let name = &self.file.tensors[index].name;
        let value = match self.known[index].clone() {
            Some(Known::Value(value)) if self.graph.constant(value.id).is_none() => value,
            _ => return Err(format!("the output \"{name}\" does not depend on the inputs")),
        };
        let id = self.ordered(name, &value, false)?.id;
        // An operator that adds no node may have had the output's name.
        self.graph.add_output(id, name)
    }

    /// The names of the tensors that operators compute and that operators with unknown results read.
    pub(super) fn before(&self, order: &[usize]) -> Vec<String> {
        let unknown = |&k: &usize| matches!(self.known[k], Some(Known::Unknown));
        let made = |k: &usize| match &self.known[*k] {
            Some(Known::Value(value)) => self.graph.producer(value.id).is_some(),
            _ => false,
        };
        let operators = order.iter().map(|&k| &self.file.operators[k]);
        let refused = operators.filter(|operator| operator.outputs.iter().any(&unknown));
        let made_by = |k: usize| self.file.operators.iter().any(|operator| operator.outputs.contains(&k));
        let read = refused.flat_map(|operator| operator.inputs.iter().flatten().copied());
        let mut seen = HashSet::new();
        let names = read.filter(|k| made(k) && made_by(*k) && seen.insert(*k));
        names.map(|k| self.file.tensors[k].name.clone()).collect()
    }

    /// Adds a node, or a constant if all of its inputs are constant.
    pub(super) fn emit(&mut self, node: &str, op: Op, inputs: &[TensorId]) -> Result<TensorId, String> {
        At { graph: &mut self.graph, node }.emit(op, inputs)
    }

    /// Adds a constant of a node.
    pub(super) fn emit_constant(&mut self, node: &str, shape: &[usize], values: Vec<f32>) -> Result<TensorId, String> {
        At { graph: &mut self.graph, node }.constant(shape, values)
    }

    /// The numbers of an operand that must be a constant.
    pub(super) fn numbers(&self, value: &Value) -> Result<Vec<f32>, String> {
        let name = || self.graph.tensor(value.id).name.clone();
        let value = self.graph.constant(value.id).ok_or_else(|| format!("\"{}\" is not a constant", name()))?;
        Ok(value.to_vec())
    }

    /// The integers of an operand that must be a constant.
    pub(super) fn integers(&self, value: &Value) -> Result<Vec<i64>, String> {
        Ok(self.numbers(value)?.iter().map(|&value| value as i64).collect())
    }

    /// A tensor of the graph with the shape that it has in TFLite's order.
    pub(super) fn value(&self, id: TensorId, first: bool) -> Value {
        let shape = self.graph.shape(id);
        let shape = if first && shape.len() > 2 {
            last_axes(shape.len()).iter().map(|&axis| shape[axis]).collect()
        } else {
            shape.to_vec()
        };
        Value { id, shape, first }
    }
}
