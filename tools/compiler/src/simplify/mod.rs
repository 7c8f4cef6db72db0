// SPDX-License-Identifier: MIT OR Apache-2.0

//! Converts a graph to the form that the lowering expects: decomposed functions become one operator, constants are folded into
//! weights, and operators that only rename dimensions are removed.
//!
//! Each rule examines one node and the nodes that compute its inputs, and changes the node in place. Its output keeps
//! its id and meaning. Nodes with unused outputs are removed at the end. A tensor that a quantized model rounds is
//! never removed.

// Parameters are compared with the exact values that have no effect.
#![allow(clippy::float_cmp)]

mod columns;
mod ends;
mod functions;
mod groups;
mod heads;
mod moves;
mod outer;
mod pass;
mod products;
mod softmax;
mod waves;
mod weights;

pub use ends::simplify_ends;
pub(crate) use heads::joined_scores;
pub use outer::{outer_moves, Joined, Move, Reshaped};
pub use pass::{prune, simplify};

#[cfg(test)]
mod tests;
