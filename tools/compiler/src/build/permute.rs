// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reshapes and transpositions that move elements between channels, lines and columns, of tensors that are too large for a product
//! with a matrix.
//!
//! In one channel, elements can be in the order of any of a tensor's three axes: copies make lines of channels
//! ([`Kind::Spread`]), transpose lines and columns ([`Kind::Transpose`]), and divide the elements into other lines
//! ([`Kind::Pixels`]). A convolution whose kernels each read one line makes channels of lines.

use crate::build::nodes::Builder;
use crate::float;
use crate::ir::{self, Op};
use crate::net::step::{Convolution, Kind, Tensor, TensorId};
use crate::target::{LARGEST_EXTENT, MAX_FACTORS};

/// The most elements of one channel. Each takes an atom in memory.
const MOST_MOVED: usize = 1 << 20;

/// The most channels for which a unit matrix is stored.
const MOST_TURNED: u32 = 1024;

/// A part of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The lines of each channel become one line.
    Joined,
    /// Channel c of line h becomes line h * C + c of one channel.
    Unfolded,
    /// Lines become columns.
    Transposed,
}

use Part::{Joined, Transposed, Unfolded};

/// The parts that make one channel with the elements in an order of channels (0), lines (1) and columns (2), outermost first.
const ORDERS: [([usize; 3], &[Part]); 6] = [
    ([1, 0, 2], &[Unfolded]),
    ([0, 1, 2], &[Joined, Unfolded]),
    ([1, 2, 0], &[Joined, Unfolded, Transposed]),
    ([2, 0, 1], &[Transposed, Unfolded]),
    ([0, 2, 1], &[Transposed, Joined, Unfolded]),
    ([2, 1, 0], &[Transposed, Joined, Unfolded, Transposed]),
];

/// The parts of a move of a tensor of channels, lines and columns. `from` has the index of the element that each place gets.
fn parts([c, h, w]: [u32; 3], from: &[f32]) -> Option<&'static [Part]> {
    let extents = [c, h, w].map(|extent| extent as usize);
    let strides = [extents[1] * extents[2], extents[2], 1];
    let fits = |order: &[usize; 3]| {
        let mut next = from.iter();
        let mut same = |at: usize| next.next().is_some_and(|&from| from as usize == at);
        let [outer, middle, inner] = *order;
        (0..extents[outer]).all(|a| {
            (0..extents[middle]).all(|b| {
                let first = a * strides[outer] + b * strides[middle];
                (0..extents[inner]).all(|c| same(first + c * strides[inner]))
            })
        })
    };
    ORDERS.iter().find(|(order, _)| fits(order)).map(|(_, parts)| *parts)
}

impl Builder<'_> {
    /// Whether a move alone reads a tensor, so that both are one.
    fn continues(&self, id: ir::TensorId) -> bool {
        let mut users = self.graph.users(id);
        let moves = |user| matches!(self.graph.node(user).op, Op::Reshape { .. } | Op::Transpose { .. });
        users.next().is_some_and(moves)
            && users.next().is_none()
            && !self.graph.outputs.contains(&id)
            && self.graph.tensor(id).quantization.is_none()
    }

    /// A reshape or transposition, with those before it that were left to it. If a move follows, this one is left to that.
    ///
    /// # Errors
    ///
    /// Why it cannot be computed. `reason` says why a move could not be computed otherwise; several moves have a reason of their own.
    pub(super) fn moved(&mut self, node: &ir::Node, reason: String) -> Result<(), String> {
        if self.continues(node.output) {
            self.left.insert(node.output);
            return Ok(());
        }
        let graph = self.graph;
        let mut chain = vec![node];
        while let Some(before) = chain.last().map(|node| node.inputs[0]).filter(|id| self.left.contains(id)) {
            chain.extend(graph.producer(before).map(|maker| graph.node(maker)));
        }
        let x = chain.last().map_or(node.inputs[0], |first| first.inputs[0]);
        let reason = if chain.len() == 1 {
            reason
        } else {
            let moves: Vec<String> = chain.iter().rev().map(|node| format!("{:?}", node.name)).collect();
            format!("{:?} as {:?} by {}", graph.shape(x), graph.shape(node.output), moves.join(", "))
        };
        let (before, after) = (self.net.tensors[x.0].clone(), self.net.tensors[node.output.0].shape);
        let elements = before.elements();
        if elements > MOST_MOVED {
            return Err(format!("{reason}, and {elements} elements are more than the {MOST_MOVED} that copies move"));
        }
        let mut from: Vec<f32> = (0..elements).map(|at| at as f32).collect();
        for node in chain.iter().rev() {
            from = float::apply(&node.op, &[(graph.shape(node.inputs[0]), &from)], graph.shape(node.output));
        }
        let Tensor { name, shape: [channels, height, width], range, .. } = before;
        // A single column is a single line.
        let mut at = [channels, height, width];
        if width == 1 {
            at = [channels, 1, height];
        }
        let parts = parts(at, &from).ok_or_else(|| reason.clone())?;
        // A product with a unit matrix moves all at once.
        let pixels = height * width;
        let turns = parts == [Joined, Unfolded, Transposed] && after == [pixels, 1, channels];
        if turns && channels <= MOST_TURNED && pixels <= LARGEST_EXTENT {
            self.step(node, Kind::Turn, &[x.0], Vec::new(), node.output.0);
            return Ok(());
        }
        let mut made = vec![(Kind::Pixels, at)];
        for part in parts {
            let [c, h, w] = at;
            let kind;
            (kind, at) = match part {
                Joined => (Kind::Pixels, [c, 1, h * w]),
                Unfolded => (Kind::Spread([c, 1]), [1, h * c, w]),
                Transposed => (Kind::Transpose, [c, w, h]),
            };
            made.push((kind, at));
        }
        let [kernels, lines, columns] = after;
        if kernels > 1 {
            if kernels as usize * kernels as usize > MAX_FACTORS {
                return Err(format!("{reason}, and {kernels} lines are too many to become channels"));
            }
            let conv = Convolution::element_each([1, kernels, 1]);
            made.push((Kind::Pixels, [1, kernels, lines * columns]));
            made.push((Kind::Convolution(Box::new(conv)), [kernels, 1, lines * columns]));
        }
        made.push((Kind::Pixels, after));
        if let Some((_, shape)) = made.iter().find(|(_, shape)| shape.iter().any(|&extent| extent > LARGEST_EXTENT)) {
            return Err(format!("{reason}, which is moved as {shape:?}, and a cube has up to {LARGEST_EXTENT}"));
        }
        if parts[0] == Unfolded && height > 1 && width > 1 && channels > self.most_unfolded() {
            return Err(format!("{reason}, and {channels} channels of {height} lines are too many to become lines"));
        }
        let mut current = x.0;
        for (kind, shape) in made {
            // Lines of the same length need no copy, and neither does a single channel.
            if self.net.tensors[current].shape == shape && kind != Kind::Transpose {
                continue;
            }
            let next = self.net.tensor(format!("{name} moved"), shape, range);
            match kind {
                Kind::Convolution(conv) => self.convolve(node, *conv, current, next)?,
                Kind::Spread(_) => self.unfolded(node, current, next),
                kind => self.step(node, kind, &[current], Vec::new(), next),
            }
            current = next;
        }
        self.step(node, Kind::Same, &[current], Vec::new(), node.output.0);
        Ok(())
    }

    /// The most channels that become lines at once. Each begins at an atom.
    fn most_unfolded(&self) -> u32 {
        LARGEST_EXTENT / self.filled(1) as u32
    }

    /// The channels of each line as lines of one channel. Those of a single line are moved in parts if they are many.
    fn unfolded(&mut self, node: &ir::Node, x: TensorId, output: TensorId) {
        let Tensor { name, shape: [channels, height, width], range, .. } = self.net.tensors[x].clone();
        let most = self.most_unfolded();
        if channels <= most || height > 1 {
            self.step(node, Kind::Spread([channels, 1]), &[x], Vec::new(), output);
            return;
        }
        let mut lines = Vec::new();
        for first in (0..channels).step_by(most as usize) {
            let count = most.min(channels - first);
            let part = self.net.tensor(format!("{name} part"), [count, 1, width], range);
            self.step(node, Kind::Slice { start: [first, 0, 0], step: [1; 2] }, &[x], Vec::new(), part);
            let made = self.net.tensor(format!("{name} lines"), [1, count, width], range);
            self.step(node, Kind::Spread([count, 1]), &[part], Vec::new(), made);
            lines.push(made);
        }
        self.step(node, Kind::Concat(1), &lines, Vec::new(), output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each order of axes of a tensor, and the parts that make it.
    #[test]
    fn the_parts_make_the_order() {
        let shape = [2, 3, 5];
        let [c, h, w] = shape;
        for (order, expected) in ORDERS {
            let mut from = Vec::new();
            for k in 0..c * h * w {
                let [outer, middle, inner] = order.map(|axis| shape[axis]);
                let index = [k / (middle * inner), k / inner % middle, k % inner];
                debug_assert!(index[0] < outer);
                let mut at = [0; 3];
                order.iter().zip(index).for_each(|(&axis, index)| at[axis] = index);
                from.push(((at[0] * h + at[1]) * w + at[2]) as f32);
            }
            assert_eq!(parts(shape, &from), Some(expected), "{order:?}");
            from.swap(1, 2);
            assert_eq!(parts(shape, &from), None, "{order:?}");
        }
        // Of several ways the shortest.
        let from: Vec<f32> = (0..10).map(|at| at as f32).collect();
        assert_eq!(parts([2, 1, 5], &from), Some(&[Unfolded][..]));
    }
}
