// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes that may read an infinity.
//!
//! Masks of attentions are sums with infinities: a softmax gives such an element no share, and a row of nothing else is no number,
//! which the model's next nodes look for. NVDLA's largest number in its place would be an element like others. An infinity comes
//! from a constant, because the operators that NVDLA has give none for numbers of its range. A choice that replaces such a row
//! is arithmetic on NVDLA, in which what is no number stays none, so it is a reader as well.

use std::collections::HashSet;

use crate::survey::{Role, Survey, Value};

/// Operators whose outputs are finite.
const FINITE: [&str; 9] =
    ["Softmax", "Sigmoid", "Tanh", "HardSigmoid", "Erf", "Softsign", "SOFTMAX", "LOGISTIC", "TANH"];
/// Operators for which an infinite constant is a limit that limits nothing, or a padding of a pooling.
const LIMITS: [&str; 9] = ["Clip", "Max", "Min", "Pad", "MaxPool", "MAXIMUM", "MINIMUM", "PADV2", "MAX_POOL_2D"];
/// Operators that choose among elements.
const CHOICES: [&str; 4] = ["Where", "IsNaN", "SELECT", "SELECT_V2"];
/// Operators that keep the elements.
const SAME: [&str; 7] = ["Cast", "CastLike", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"];

/// The nodes that read a tensor which may hold infinities, or choose of rows that may be no numbers, each with that tensor.
pub(super) fn readers(survey: &Survey) -> Vec<(usize, &str)> {
    let constant = |name: &str| matches!(survey.values.get(name), Some(Value::Constant));
    let [mut infinite, mut rows]: [HashSet<&str>; 2] = Default::default();
    let mut found = Vec::new();
    for (k, node) in survey.nodes.iter().enumerate().filter(|(_, node)| node.role != Role::Constant) {
        let operator = node.operator.as_str();
        let activation = node.inputs.iter().map(String::as_str).find(|name| infinite.contains(name));
        found.extend(activation.map(|name| (k, name)));
        let row = node.inputs.iter().map(String::as_str).find(|name| rows.contains(name));
        if activation.is_some() && matches!(operator, "Softmax" | "SOFTMAX")
            || row.is_some() && SAME.contains(&operator)
        {
            rows.extend(node.outputs.iter().map(String::as_str));
        } else if CHOICES.contains(&operator) {
            found.extend(row.map(|name| (k, name)));
        }
        let given = || node.inputs.iter().any(|name| survey.infinite.contains(name) && constant(name));
        let made = || node.outputs.iter().any(|name| survey.infinite.contains(name));
        let source = activation.is_some() || (!LIMITS.contains(&operator) && given()) || made();
        if source && !FINITE.contains(&operator) {
            infinite.extend(node.outputs.iter().map(String::as_str));
        }
    }
    found
}
