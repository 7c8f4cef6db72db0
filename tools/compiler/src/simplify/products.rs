// SPDX-License-Identifier: MIT OR Apache-2.0

//! Moves around products of two tensors. A model divides channels into the heads of an attention, brings each head's rows behind one
//! another, and joins the results. Each head is a part of the channels, and each result has channels that are joined, so that most of
//! these moves need not be computed.

use super::pass::Pass;
use crate::ir::{Op, TensorId};

impl Pass<'_> {
    /// The products of which a tensor consists, one behind another in its channels.
    fn products(&self, x: TensorId) -> Option<Vec<usize>> {
        let maker = self.origin(x)?;
        let product = |k: &usize| self.graph.nodes[*k].op == Op::Product;
        match self.graph.nodes[maker].op {
            Op::Product => Some(vec![maker]),
            Op::Concat { axis: 1 } => {
                let parts: Option<Vec<usize>> = self.inputs(maker).iter().map(|&id| self.origin(id)).collect();
                parts.filter(|parts| parts.iter().all(product))
            }
            _ => None,
        }
    }

    /// Moves before or behind a product that together take channels one behind another, or that exchange channels and pixels of each
    /// product. The factors of a product then change places.
    pub(super) fn moves_of_products(&mut self, k: usize) -> bool {
        let y = self.output(k);
        let (mut x, mut moves) = (y, Vec::new());
        while let Some(m) = self.origin(x).filter(|_| x == y || !self.graph.outputs.contains(&x)) {
            if !matches!(self.graph.nodes[m].op, Op::Reshape { .. } | Op::Transpose { .. } | Op::Slice { .. }) {
                break;
            }
            moves.insert(0, m);
            x = self.inputs(m)[0];
        }
        let reshape = |m: &usize| matches!(self.graph.nodes[*m].op, Op::Reshape { .. });
        let taken = moves.first().is_some_and(|&m| match &self.graph.nodes[m].op {
            Op::Slice { starts, lengths, .. } => {
                (0..starts.len()).all(|axis| axis == 1 || lengths[axis] == self.graph.shape(x)[axis])
            }
            _ => false,
        });
        // What the rule makes.
        let rest = &moves[usize::from(taken)..];
        if rest.is_empty() || rest.len() == 1 && reshape(&rest[0]) {
            return false;
        }
        let products = self.products(x);
        let multiplied = self.graph.users(y).any(|user| self.graph.node(user).op == Op::Product);
        if products.is_none() && !multiplied || self.graph.tensor(y).has_scales_of_an_axis() {
            return false;
        }
        let (shape, from) = (self.graph.shape(y).to_vec(), self.graph.shape(x).to_vec());
        let (&[1, channels, ref pixels @ ..], &[1, own, ref plane @ ..]) = (&shape[..], &from[..]) else {
            return false;
        };
        let (pixels, plane): (usize, usize) = (pixels.iter().product(), plane.iter().product());
        let Some(values) = self.moved_indices(x, &moves, own * plane) else { return false };
        let places = |place: &dyn Fn(usize, usize) -> usize| {
            let each = (0..channels).flat_map(|c| (0..pixels).map(move |at| (c, at)));
            values.iter().zip(each).all(|(&value, (c, at))| value as usize == place(c, at))
        };
        let first = values[0] as usize / plane;
        if pixels == plane && places(&|c, at| (first + c) * plane + at) {
            let mut value = x;
            let mut at = k;
            if channels != own {
                let (mut starts, mut lengths) = (vec![0; from.len()], from.clone());
                (starts[1], lengths[1]) = (first, channels);
                let op = Op::Slice { steps: vec![1; starts.len()], starts, lengths };
                let Some(part) = self.before(at, op, &[value]) else { return false };
                (value, at) = (part, at + 1);
            }
            return self.replace(at, Op::Reshape { shape }, &[value]);
        }
        // Pixels of some channels become channels. Those of the others need not be moved.
        let turns = matches!(self.graph.nodes[k].op, Op::Transpose { .. });
        let fits = channels == plane && shape[2..] == [1, pixels] && first + pixels <= own;
        if multiplied && !turns && fits && places(&|c, at| (first + at) * plane + c) {
            let (mut starts, mut lengths) = (vec![0; from.len()], from.clone());
            (starts[1], lengths[1]) = (first, pixels);
            let op = Op::Slice { steps: vec![1; starts.len()], starts, lengths };
            let Some(part) = self.before(k, op, &[x]) else { return false };
            let op = Op::Reshape { shape: vec![1, pixels, 1, plane] };
            let Some(part) = self.before(k + 1, op, &[part]) else { return false };
            return self.replace(k + 2, Op::Transpose { perm: vec![0, 3, 2, 1] }, &[part]);
        }
        let Some(products) = products else { return false };
        let rows = own / products.len();
        let even = products.iter().all(|&m| self.graph.shape(self.output(m))[1] == rows);
        if !even || pixels != rows || !places(&|c, at| (c / plane * rows + at) * plane + c % plane) {
            return false;
        }
        let (mut at, mut turned) = (k, Vec::new());
        let factors: Vec<Vec<TensorId>> = products.iter().map(|&m| self.inputs(m).to_vec()).collect();
        for factors in factors {
            let Some(product) = self.before(at, Op::Product, &[factors[1], factors[0]]) else { return false };
            turned.push(product);
            at += 1;
        }
        let joined = if turned.len() == 1 {
            turned[0]
        } else {
            let Some(joined) = self.before(at, Op::Concat { axis: 1 }, &turned) else { return false };
            at += 1;
            joined
        };
        self.replace(at, Op::Reshape { shape }, &[joined])
    }
}
