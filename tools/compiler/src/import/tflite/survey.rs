// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads a TFLite model whose operators need not all be readable, for [`crate::partition`].
//!
//! Every tensor of the file is a tensor of the graph with its axes in the file's order, because operators on both of its sides may
//! run elsewhere. The moves to the graph's order and back belong to the operators that need them; those between two operators
//! of a group cancel each other.

use std::collections::{HashMap, HashSet};

use super::file::{File, Kind, Operator};
use super::reader::Reader;
use super::value::{Known, Value};
use crate::import::format::Failure;
use crate::import::options::Options;
use crate::ir::budget::Budget;
use crate::ir::Graph;
use crate::survey::{self, Role, Survey};

/// Reads a model from a file's bytes.
///
/// # Errors
///
/// If the bytes are not a model, or its parts contradict each other.
pub fn survey(bytes: &[u8], options: &Options) -> Result<Survey, Failure> {
    let mut file = File::read(bytes).map_err(Failure::Malformed)?;
    file.outputs = file.ends(&options.outputs).map_err(Failure::Malformed)?;
    file.name_apart();
    of_file(&file, bytes.len() as u64, options)
}

/// Reads a model whose tensors have different names. `size` is the number of bytes of its constants.
///
/// # Errors
///
/// If its parts contradict each other.
pub fn of_file(file: &File<'_>, size: u64, options: &Options) -> Result<Survey, Failure> {
    let makers = makers(file).map_err(Failure::Malformed)?;
    let mut users = vec![Vec::new(); file.tensors.len()];
    for (k, operator) in file.operators.iter().enumerate() {
        operator.inputs.iter().flatten().for_each(|&input| users[input].push(k));
    }
    let mut surveyor = Surveyor {
        reader: Reader {
            graph: Graph::new(if file.name.is_empty() { "main" } else { &file.name }),
            known: vec![None; file.tensors.len()],
            users,
            turned: HashMap::new(),
            names: HashSet::new(),
            file,
        },
        unknown: HashMap::new(),
        first: vec![true; file.tensors.len()],
    };
    surveyor.reader.graph.budget = Budget::new(size, options.cancel.clone());
    for (k, tensor) in file.tensors.iter().enumerate() {
        if makers[k].is_none() && tensor.data.is_empty() && !surveyor.reader.users[k].is_empty() {
            surveyor.declare(k, options);
        }
    }
    let (mut nodes, mut origins) = (Vec::new(), Vec::new());
    for (position, operator) in file.operators.iter().enumerate() {
        let name = surveyor.reader.name(operator);
        let refusal = surveyor.operator(operator, &name).err();
        if refusal.is_some() {
            operator.outputs.iter().for_each(|&output| surveyor.declare(output, options));
        }
        origins.resize(surveyor.reader.graph.nodes.len(), nodes.len());
        let name_of = |&index: &usize| file.tensors[index].name.clone();
        nodes.push(survey::Node {
            role: surveyor.role(operator),
            operator: operator.name.clone(),
            name,
            position,
            inputs: operator.inputs.iter().flatten().map(name_of).collect(),
            outputs: operator.outputs.iter().map(name_of).collect(),
            refusal,
        });
    }
    Ok(surveyor.finish(nodes, origins))
}

/// The operator that computes each tensor.
fn makers(file: &File<'_>) -> Result<Vec<Option<usize>>, String> {
    let mut makers = vec![None; file.tensors.len()];
    for (k, operator) in file.operators.iter().enumerate() {
        for &output in &operator.outputs {
            if makers[output].replace(k).is_some() || !file.tensors[output].data.is_empty() {
                let name = &file.tensors[output].name;
                return Err(format!("{} computes \"{name}\", which is known before", operator.name));
            }
        }
    }
    for (k, operator) in file.operators.iter().enumerate() {
        if let Some(&input) = operator.inputs.iter().flatten().find(|&&input| makers[input] >= Some(k)) {
            let name = &file.tensors[input].name;
            return Err(format!("{} reads \"{name}\" before it is computed", operator.name));
        }
    }
    Ok(makers)
}

struct Surveyor<'a> {
    reader: Reader<'a>,
    /// Why the value of a tensor is not known.
    unknown: HashMap<usize, String>,
    /// The tensors whose operators give them in the graph's order; their readers take them in it.
    first: Vec<bool>,
}

impl Surveyor<'_> {
    /// Makes a tensor that no read operator computes an input of the graph, if its type and shape are known.
    fn declare(&mut self, index: usize, options: &Options) {
        let shape = options.shapes.get(&self.reader.file.tensors[index].name);
        let known = self.given(index, shape).map(Known::Value).unwrap_or_else(|reason| {
            self.unknown.insert(index, reason);
            Known::Unknown
        });
        self.reader.known[index] = Some(known);
    }

    fn given(&mut self, index: usize, shape: Option<&Vec<usize>>) -> Result<Value, String> {
        let file = self.reader.file;
        let tensor = &file.tensors[index];
        let casts = self.reader.users[index].iter().all(|&user| file.operators[user].name == "CAST");
        if !(passes(file, index) || casts && matches!(tensor.kind, Kind::Uint8 | Kind::Int8)) {
            return Err(format!("its elements are {:?}, and neither real nor quantized with one scale", tensor.kind));
        }
        let extent = |(axis, &extent): (usize, &i32)| match usize::try_from(extent) {
            Ok(extent) if extent > 0 => Some(extent),
            // A batch of unknown size becomes 1.
            _ if axis == 0 && tensor.shape.len() > 1 => Some(1),
            _ => None,
        };
        // A file has no dimensions both for a single number and for a tensor of unknown rank.
        let fixed =
            || tensor.shape.iter().enumerate().map(extent).collect::<Option<_>>().filter(|_| !tensor.shape.is_empty());
        let shape: Option<Vec<usize>> = shape.cloned().or_else(fixed);
        let shape = shape.ok_or_else(|| format!("its shape {:?} is not fixed", tensor.shape))?;
        let name = self.reader.unique(&tensor.name);
        let id = self.reader.graph.input(name, &shape)?;
        self.reader.graph.tensors[id.0].quantization.clone_from(&tensor.quantization);
        Ok(Value { id, shape, first: false })
    }

    /// Reads an operator. The error says why it cannot be read.
    fn operator(&mut self, operator: &Operator<'_>, name: &str) -> Result<(), String> {
        let before = self.reader.graph.nodes.len();
        // Another operator may be in another group, so it turns a tensor by itself.
        self.reader.turned.clear();
        let kept = self.offer(operator, name)?;
        let read = self.reader.operator(operator, name);
        for (index, known) in kept {
            self.reader.known[index] = Some(known);
        }
        let read = match read {
            Ok(()) => operator.outputs.iter().try_for_each(|&output| self.turn(output)),
            Err(Some(refusal)) => Err(refusal.reason),
            Err(None) => Err(self.missing(operator)),
        };
        if read.is_err() {
            self.reader.graph.nodes.truncate(before);
        }
        read
    }

    /// Turns an operator's inputs to the graph's order. Returns what they were.
    fn offer(&mut self, operator: &Operator<'_>, name: &str) -> Result<Vec<(usize, Known)>, String> {
        let mut kept = Vec::new();
        for &index in operator.inputs.iter().flatten() {
            let Some(Known::Value(value)) = self.reader.known[index].clone() else { continue };
            if self.first[index] && !value.first && self.reader.graph.constant(value.id).is_none() {
                let turned = self.reader.ordered(name, &value, true)?;
                self.reader.known[index] = Some(Known::Value(turned));
                kept.push((index, Known::Value(value)));
            }
        }
        Ok(kept)
    }

    /// Turns an operator's output to the file's order.
    fn turn(&mut self, output: usize) -> Result<(), String> {
        let Some(Known::Value(value)) = self.reader.known[output].clone() else { return Ok(()) };
        if self.reader.graph.constant(value.id).is_some() {
            return Ok(());
        }
        let tensor = &self.reader.file.tensors[output];
        if !passes(self.reader.file, output) {
            return Err(format!("the elements of its output \"{}\" are {:?}", tensor.name, tensor.kind));
        }
        self.first[output] = value.first;
        let turned = self.reader.ordered(&tensor.name, &value, false)?;
        self.reader.known[output] = Some(Known::Value(turned));
        Ok(())
    }

    /// Why an input of an operator is not known.
    fn missing(&self, operator: &Operator<'_>) -> String {
        let name = |index: usize| &self.reader.file.tensors[index].name;
        let reason = |&index: &usize| Some(format!("its input \"{}\": {}", name(index), self.unknown.get(&index)?));
        operator.inputs.iter().flatten().find_map(reason).unwrap_or_else(|| "an input is not known".to_owned())
    }

    fn is_constant(&self, index: usize) -> bool {
        match &self.reader.known[index] {
            Some(Known::Value(value)) => self.reader.graph.constant(value.id).is_some(),
            _ => false,
        }
    }

    fn role(&self, operator: &Operator<'_>) -> Role {
        if operator.outputs.iter().all(|&output| self.is_constant(output)) {
            return Role::Constant;
        }
        let real = |index: Option<&usize>| index.is_some_and(|&index| self.reader.file.tensors[index].kind.is_real());
        match operator.name.as_str() {
            "QUANTIZE" if real(operator.inputs.iter().flatten().next()) => Role::Quantize,
            "DEQUANTIZE" => Role::Dequantize,
            _ => Role::Compute,
        }
    }

    fn finish(self, nodes: Vec<survey::Node>, origins: Vec<usize>) -> Survey {
        let file = self.reader.file;
        let mut values = HashMap::new();
        for (index, tensor) in file.tensors.iter().enumerate() {
            let value = match &self.reader.known[index] {
                _ if self.is_constant(index) => survey::Value::Constant,
                Some(Known::Value(value)) => survey::Value::Activation(value.id, tensor.quantization.clone()),
                _ => continue,
            };
            values.insert(tensor.name.clone(), value);
        }
        let outputs = file.outputs.iter().map(|&output| file.tensors[output].name.clone()).collect();
        let constants = file.tensors.iter().zip(&self.reader.known).filter_map(|(tensor, known)| match known {
            Some(Known::Value(value)) => Some((tensor, self.reader.graph.constant(value.id)?)),
            _ => None,
        });
        let infinite = constants.filter(|(_, values)| values.iter().any(|value| value.is_infinite()));
        let infinite = infinite.map(|(tensor, _)| tensor.name.clone()).collect();
        Survey { graph: self.reader.graph, nodes, origins, values, outputs, infinite }
    }
}

/// Whether a tensor's elements can be given from a group to the processor and back.
fn passes(file: &File<'_>, index: usize) -> bool {
    let tensor = &file.tensors[index];
    let scaled = tensor.quantization.as_ref().is_some_and(|quantization| quantization.scale.len() == 1);
    match tensor.kind {
        Kind::Float32 | Kind::Float16 => true,
        Kind::Int8 | Kind::Uint8 | Kind::Int16 => scaled,
        _ => false,
    }
}
