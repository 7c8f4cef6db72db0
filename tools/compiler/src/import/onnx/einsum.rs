// SPDX-License-Identifier: MIT OR Apache-2.0

//! `Einsum` of a tensor and a constant: a product of matrices between transpositions.

use super::reader::{Node, Reader, TensorValue};
use crate::ir::TensorId;

impl Reader {
    pub(super) fn einsum(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let equation: String = n.text("equation", "").split_whitespace().collect();
        let refused = |why: &str| format!("the equation {equation:?}: {why}");
        let (terms, out) = equation.split_once("->").ok_or_else(|| refused("it has no arrow"))?;
        let (first, second) = terms.split_once(',').ok_or_else(|| refused("products of two operands are supported"))?;
        let (mut x, mut constant) = (self.real(n, inputs, 0)?, self.real(n, inputs, 1)?);
        let [mut of, mut with, out] = [first, second, out].map(|term| term.chars().collect::<Vec<char>>());
        if self.graph.constant(constant).is_none() {
            ((x, of), (constant, with)) = ((constant, with), (x, of));
        }
        for (term, id) in [(&of, x), (&with, constant)] {
            let repeats = (1..term.len()).any(|at| term[..at].contains(&term[at]));
            if repeats || !term.iter().all(char::is_ascii_alphabetic) || term.len() != self.graph.shape(id).len() {
                return Err(refused("each operand needs one letter per dimension, each once"));
            }
        }
        let inner: Vec<char> = of.iter().copied().filter(|c| with.contains(c) && !out.contains(c)).collect();
        let outside = |term: &[char]| term.iter().copied().filter(|c| !inner.contains(c)).collect::<Vec<char>>();
        let (lines, columns) = (outside(&of), outside(&with));
        let made: Vec<char> = lines.iter().chain(&columns).copied().collect();
        if made.len() != out.len() || !made.iter().all(|c| out.contains(c)) {
            return Err(refused("each letter must be in the result or in both operands, and in no more of them"));
        }
        let order = |wanted: &[char], of: &[char]| -> Vec<usize> {
            wanted.iter().filter_map(|c| of.iter().position(|other| other == c)).collect()
        };
        x = self.transpose(n, x, &order(&[&lines[..], &inner].concat(), &of))?;
        constant = self.transpose(n, constant, &order(&[&inner[..], &columns].concat(), &with))?;
        let outer = self.graph.shape(x)[..lines.len()].to_vec();
        let free = self.graph.shape(constant)[inner.len()..].to_vec();
        let depth: usize = self.graph.shape(constant)[..inner.len()].iter().product();
        x = self.reshape(n, x, &[&outer[..], &[depth]].concat())?;
        constant = self.reshape(n, constant, &[depth, free.iter().product()])?;
        let mut y = self.product(n, x, constant, None)?;
        y = self.reshape(n, y, &[outer, free].concat())?;
        self.transpose(n, y, &order(&out, &made))
    }
}
