// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads TFLite models (TensorFlow Lite, LiteRT), schema version 3.
//!
//! Operators, their options and the order of their operands are those of TensorFlow Lite's schema and of its operators' reference
//! kernels. Each operator becomes nodes of [`crate::ir`], or is computed immediately if all of its inputs are constant. Operators
//! that cannot be read are collected, so that one run lists all of them.
//!
//! TFLite's channels are last, `[N, H, W, C]`. The graph's are first, so a tensor of at least three dimensions has its axes in
//! another order . Nothing is moved between operators that compute in that order. A reshape that divides or
//! joins channels gives a tensor in TFLite's own order. [`crate::simplify::outer_moves`] leaves the moves beside inputs and
//! outputs to the user.
//!
//! Integers are represented by their real numbers. A tensor that the model quantizes has the scale, and a limit to its integers'
//! values makes it, because these limits are a part of the network's function.

// Parameters are compared with the exact values that have no effect.
#![allow(clippy::float_cmp)]

mod arithmetic;
mod constant;
mod convert;
pub mod file;
mod operators;
mod product;
mod reader;
mod shapes;
mod states;
pub mod survey;
mod table;
mod value;
mod windows;

use std::collections::{HashMap, HashSet};

use crate::import::format::{Failure, Format};
use crate::import::options::Options;
use crate::ir::budget::Budget;
use crate::ir::{Graph, Refusal, Unreadable};
use file::File;
use reader::Reader;
use value::Known;

/// The format.
pub const FORMAT: Format =
    Format { extension: "tflite", read: |_, bytes, options| read(&bytes, options), others: |_| Vec::new() };

/// Reads a model from a file's bytes.
pub fn read(bytes: &[u8], options: &Options) -> Result<Graph, Failure> {
    let malformed = |reason: String| Failure::Malformed(reason);
    let mut file = File::read(bytes).map_err(malformed)?;
    states::beside(&mut file).map_err(malformed)?;
    let outputs = file.ends(&options.outputs).map_err(malformed)?;
    let order = order(&file, &outputs).map_err(malformed)?;
    let mut users = vec![Vec::new(); file.tensors.len()];
    for &k in &order {
        file.operators[k].inputs.iter().flatten().for_each(|&input| users[input].push(k));
    }
    let mut reader = Reader {
        graph: Graph::new(if file.name.is_empty() { "main" } else { &file.name }),
        known: vec![None; file.tensors.len()],
        users,
        turned: HashMap::new(),
        names: HashSet::new(),
        file: &file,
    };
    reader.graph.budget = Budget::new(bytes.len() as u64, options.cancel.clone());
    let mut refusals = Vec::new();
    for &input in &file.inputs {
        if reader.known[input].is_some() {
            return Err(malformed(format!("the input \"{}\" is listed twice", file.tensors[input].name)));
        }
        let known = match reader.input(input, &options.shapes) {
            Ok(value) => Known::Value(value),
            Err(reason) => {
                let node = file.tensors[input].name.clone();
                refusals.push(Refusal { node, operator: "input".into(), shapes: vec![], reason });
                Known::Unknown
            }
        };
        reader.known[input] = Some(known);
    }
    for name in options.shapes.keys() {
        if !file.inputs.iter().any(|&input| file.tensors[input].name == *name) {
            let names: Vec<_> = file.inputs.iter().map(|&input| file.tensors[input].name.as_str()).collect();
            return Err(malformed(format!("a shape is given for \"{name}\", the inputs are {}", names.join(", "))));
        }
    }
    for &k in &order {
        let operator = &file.operators[k];
        let node = reader.name(operator);
        if let Err(refusal) = reader.operator(operator, &node) {
            refusals.extend(refusal);
            operator.outputs.iter().for_each(|&output| reader.known[output] = Some(Known::Unknown));
        }
    }
    if !refusals.is_empty() {
        return Err(Unreadable(refusals, reader.before(&order)).into());
    }
    for &output in &outputs {
        reader.output(output).map_err(malformed)?;
    }
    if reader.graph.outputs.is_empty() {
        return Err(malformed("the model has no outputs".to_owned()));
    }
    reader.graph.check().map_err(malformed)?;
    Ok(reader.graph)
}

/// The operators that the outputs need. The file lists them in an order of execution.
fn order(file: &File<'_>, outputs: &[usize]) -> Result<Vec<usize>, String> {
    let name = |tensor: usize| &file.tensors[tensor].name;
    let mut known: Vec<bool> = file.tensors.iter().map(|tensor| !tensor.data.is_empty()).collect();
    file.inputs.iter().for_each(|&input| known[input] = true);
    for operator in &file.operators {
        for &output in &operator.outputs {
            if std::mem::replace(&mut known[output], true) {
                return Err(format!("{} computes \"{}\", which is known before", operator.name, name(output)));
            }
        }
    }
    if let Some(&output) = outputs.iter().find(|&&output| !known[output]) {
        return Err(format!("no operator computes the output \"{}\"", name(output)));
    }
    let mut needed = vec![false; file.tensors.len()];
    for &output in outputs {
        needed[output] = true;
    }
    let mut order = Vec::new();
    let mut written = vec![false; file.tensors.len()];
    for (k, operator) in file.operators.iter().enumerate().rev() {
        operator.outputs.iter().for_each(|&output| written[output] = true);
        if !operator.outputs.iter().any(|&output| needed[output]) {
            continue;
        }
        order.push(k);
        for &input in operator.inputs.iter().flatten() {
            if written[input] {
                return Err(format!("{} reads \"{}\" before it is computed", operator.name, name(input)));
            }
            needed[input] = true;
        }
    }
    order.reverse();
    Ok(order)
}

#[cfg(test)]
mod tests;
