// SPDX-License-Identifier: MIT OR Apache-2.0

//! The nodes that cannot be read or mapped. The error lists all of them, so that one run shows the user everything that must be
//! changed.

use std::fmt;

/// A node that cannot be read or mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The node's name in the model.
    pub node: String,
    /// Its operator, as the model spells it.
    pub operator: String,
    /// The shapes of its inputs, as far as they are known.
    pub shapes: Vec<Vec<usize>>,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {:?} ({}", self.node, self.operator.escape_debug())?;
        for (k, shape) in self.shapes.iter().enumerate() {
            let extents: Vec<_> = shape.iter().map(usize::to_string).collect();
            write!(
                f,
                "{} {}",
                if k == 0 { " of" } else { "," },
                if extents.is_empty() { "scalar".into() } else { extents.join("x") }
            )?;
        }
        write!(f, "): {}", self.reason)
    }
}

/// All nodes of a model that cannot be read or mapped, and the names of the tensors before them, up to which the model can be
/// compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable(pub Vec<Refusal>, pub Vec<String>);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = if self.0.len() == 1 { "node" } else { "nodes" };
        write!(f, "{} {nodes} cannot be compiled", self.0.len())?;
        for refusal in &self.0 {
            write!(f, "\n  {refusal}")?;
        }
        if !self.1.is_empty() {
            let names: Vec<_> = self.1.iter().map(|name| name.escape_debug().to_string()).collect();
            write!(f, "\n  the nodes before them can be compiled, with these outputs: {}", names.join(","))?;
        }
        Ok(())
    }
}

impl std::error::Error for Unreadable {}
