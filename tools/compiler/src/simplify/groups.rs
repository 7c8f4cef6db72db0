// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators on groups of channels. A detector's head has the numbers of a box, or the classes of an anchor, beside one another in the
//! channels: `[1, 4 * 16, L]` becomes `[1, 4, 16, L]`, and a softmax or a layer is along the 16. The moves need not be computed,
//! because each group is a part of the channels.

use super::heads::ends_with_scores;
use super::moves::indices;
use super::pass::Pass;
use crate::ir::{Convolution, Op, Padding, TensorId};
use crate::target::MAX_FACTORS;

/// The most groups. Each is a step of its own.
const GROUPS: usize = 16;

impl Pass<'_> {
    /// The tensor from which moves make a tensor, with the moves in order.
    pub(super) fn moved_from(&self, mut at: TensorId) -> (TensorId, Vec<usize>) {
        let mut moves = Vec::new();
        while let Some(m) = self.origin(at) {
            if !matches!(self.graph.nodes[m].op, Op::Reshape { .. } | Op::Transpose { .. }) {
                break;
            }
            moves.insert(0, m);
            at = self.inputs(m)[0];
        }
        (at, moves)
    }

    /// The index of each element of a tensor of so many elements, where moves bring it.
    pub(super) fn moved_indices(&self, x: TensorId, moves: &[usize], elements: usize) -> Option<Vec<f32>> {
        let (mut of, mut values) = (self.graph.shape(x), indices(elements)?);
        for &m in moves {
            let to = self.graph.shape(self.output(m));
            values = crate::float::apply(&self.graph.nodes[m].op, &[(of, &values)], to);
            of = to;
        }
        Some(values)
    }

    /// The channels of each element along an axis of a tensor that moves make of `[1, C, …]`, as the first channel of each group and the
    /// distance between a group's channels; `None` if they are not the same at all pixels.
    fn groups(&self, x: TensorId, moves: &[usize], axis: usize) -> Option<(Vec<usize>, usize)> {
        let shape = self.graph.shape(x);
        let &[1, channels, ref pixels @ ..] = shape else { return None };
        let pixels: usize = pixels.iter().product();
        let values = self.moved_indices(x, moves, channels * pixels)?;
        let of = moves.last().map_or(shape, |&m| self.graph.shape(self.output(m)));
        let (count, inner) = (of[axis], of[axis + 1..].iter().product::<usize>());
        let mut groups: Vec<usize> = Vec::new();
        let mut apart = None;
        for rows in values.chunks_exact(count * inner) {
            for at in 0..inner {
                let element = |k: usize| rows[k * inner + at] as usize;
                let first = element(0) / pixels;
                let distance = if count > 1 { (element(1) / pixels).checked_sub(first)? } else { 1 };
                let own = *apart.get_or_insert(distance);
                let along = (0..count).all(|k| element(k) == element(0) + k * own * pixels);
                if distance != own || !along {
                    return None;
                }
                if !groups.contains(&first) {
                    if groups.len() == GROUPS {
                        return None;
                    }
                    groups.push(first);
                }
            }
        }
        groups.sort_unstable();
        Some((groups, apart?))
    }

    /// The softmax of groups of channels is one softmax for each group, and the moves follow it.
    pub(super) fn softmax_of_groups(&mut self, k: usize) -> bool {
        let &Op::Softmax { axis } = &self.graph.nodes[k].op else { return false };
        let y = self.output(k);
        let (x, moves) = self.moved_from(self.inputs(k)[0]);
        if moves.is_empty() || self.graph.tensor(y).has_scales_of_an_axis() {
            return false;
        }
        let (shape, count) = (self.graph.shape(x).to_vec(), self.graph.shape(y)[axis]);
        // Before each element is looked at.
        if shape.len() < 2 || !shape[1].is_multiple_of(count) || !(2..=GROUPS).contains(&(shape[1] / count)) {
            return false;
        }
        let Some((groups, apart)) = self.groups(x, &moves, axis) else { return false };
        if groups.len() * count != shape[1] {
            return false;
        }
        let quantization = self.graph.tensor(y).quantization.clone();
        let (mut at, mut parts) = (k, Vec::new());
        for &first in &groups {
            let (mut starts, mut steps, mut lengths) = (vec![0; shape.len()], vec![1; shape.len()], shape.clone());
            (starts[1], steps[1], lengths[1]) = (first, apart as isize, count);
            let Some(part) = self.before(at, Op::Slice { starts, steps, lengths }, &[x]) else { return false };
            let Some(part) = self.before(at + 1, Op::Softmax { axis: 1 }, &[part]) else { return false };
            self.graph.tensors[part.0].quantization.clone_from(&quantization);
            parts.push(part);
            at += 2;
        }
        let Some(mut value) = self.before(at, Op::Concat { axis: 1 }, &parts) else { return false };
        at += 1;
        if apart != 1 {
            // Channel k of the model is channel k / apart of one group, and the groups are behind one another.
            let place = |channel: usize| {
                let group = groups.iter().position(|&first| {
                    channel >= first && (channel - first).is_multiple_of(apart) && (channel - first) / apart < count
                });
                group.map(|group| group * count + (channel - groups[group]) / apart)
            };
            let Some(from) = (0..shape[1]).map(place).collect::<Option<Vec<usize>>>() else { return false };
            let mut four = shape.clone();
            while four.len() < 4 {
                four.insert(2, 1);
            }
            for op in
                [Op::Reshape { shape: four }, Op::ChannelPermutation { from }, Op::Reshape { shape: shape.clone() }]
            {
                let Some(next) = self.before(at, op, &[value]) else { return false };
                (value, at) = (next, at + 1);
            }
        }
        let (last, others) = moves.split_last().expect("there are moves");
        for &m in others {
            let op = self.graph.nodes[m].op.clone();
            let Some(next) = self.before(at, op, &[value]) else { return false };
            (value, at) = (next, at + 1);
        }
        if !self.graph.outputs.contains(&y) {
            self.graph.tensors[y.0].quantization = None;
        }
        let op = self.graph.nodes[*last].op.clone();
        self.replace(at, op, &[value])
    }

    /// A layer of one pixel along the second axis of `[1, G, K, L]` is a layer of G groups of channels.
    pub(super) fn layer_of_groups(&mut self, k: usize) -> bool {
        let &Op::Convolution(Convolution { group: 1, kernel: [1, 1], stride: [1, 1], padding, .. }) =
            &self.graph.nodes[k].op
        else {
            return false;
        };
        if padding != Padding::default() {
            return false;
        }
        let (y, inputs) = (self.output(k), self.inputs(k).to_vec());
        let (x, moves) = self.moved_from(inputs[0]);
        let ops: Vec<&Op> = moves.iter().map(|&m| &self.graph.nodes[m].op).collect();
        let [.., Op::Reshape { shape: grouped }, Op::Transpose { perm }] = &ops[..] else { return false };
        let (&[1, groups, each, pixels], [0, 2, 1, 3]) = (&grouped[..], &perm[..]) else { return false };
        let fits = groups <= GROUPS && self.graph.tensor(x).elements() == groups * each * pixels;
        if !fits || self.graph.shape(x)[..2] != [1, groups * each] || self.graph.tensor(y).has_scales_of_an_axis() {
            return false;
        }
        let (weights, bias) = (inputs[1], inputs.get(2).copied());
        let kernels = self.graph.shape(weights)[0];
        let mut operands = Vec::new();
        for (id, shape) in [(weights, vec![groups * kernels, each, 1, 1])]
            .into_iter()
            .chain(bias.map(|bias| (bias, vec![groups * kernels])))
        {
            let tensor = self.graph.tensor(id);
            let Some(values) = tensor.constant.clone().filter(|_| !tensor.has_scales_of_an_axis()) else {
                return false;
            };
            let Some(id) = self.constant(id, &shape, values.repeat(groups)) else { return false };
            operands.push(id);
        }
        let op = Convolution { group: groups, ..Convolution::per_channel(groups, padding) };
        let mut value = x;
        let chain = [
            (Op::Reshape { shape: vec![1, groups * each, 1, pixels] }, true),
            (Op::Convolution(op), false),
            (Op::Reshape { shape: vec![1, groups, kernels, pixels] }, true),
        ];
        for (at, (op, alone)) in chain.into_iter().enumerate() {
            let inputs = if alone { vec![value] } else { [&[value], &operands[..]].concat() };
            let Some(next) = self.before(k + at, op, &inputs) else { return false };
            value = next;
        }
        self.rounds_before(value, y);
        self.replace(k + 3, Op::Transpose { perm: vec![0, 2, 1, 3] }, &[value])
    }

    /// A layer along the pixels of each channel, as `[1, C, H * W]` by a matrix, is one convolution of each channel with kernels as large
    /// as the picture, whose weights repeat.
    pub(super) fn layer_of_pixels(&mut self, k: usize) -> bool {
        let &Op::Convolution(Convolution { group: 1, kernel: [1, 1], stride: [1, 1], padding, .. }) =
            &self.graph.nodes[k].op
        else {
            return false;
        };
        let (y, inputs) = (self.output(k), self.inputs(k).to_vec());
        let (x, moves) = self.moved_from(inputs[0]);
        let (&[1, channels, height, width], &[1, pixels, 1, columns]) =
            (self.graph.shape(x), self.graph.shape(inputs[0]))
        else {
            return false;
        };
        let elements = channels * pixels;
        let fits = (columns, height * width) == (channels, pixels) && channels > 1 && pixels > 1;
        if !fits || padding != Padding::default() || elements * elements <= MAX_FACTORS {
            return false;
        }
        // The moves exchange channels and pixels.
        let Some(values) = self.moved_indices(x, &moves, elements) else { return false };
        let source = |at: usize| at % channels * pixels + at / channels;
        if values.iter().enumerate().any(|(at, &value)| value as usize != source(at)) {
            return false;
        }
        let kernels = self.graph.shape(inputs[1])[0];
        let mut operands = vec![x];
        let shapes = [vec![channels * kernels, 1, height, width], vec![channels * kernels]];
        for (&id, shape) in inputs[1..].iter().zip(&shapes) {
            let tensor = self.graph.tensor(id);
            let Some(values) = tensor.constant.clone().filter(|_| !tensor.has_scales_of_an_axis()) else {
                return false;
            };
            let Some(id) = self.constant(id, shape, values.repeat(channels)) else { return false };
            operands.push(id);
        }
        let op =
            Convolution { kernel: [height, width], group: channels, ..Convolution::per_channel(channels, padding) };
        let Some(mut value) = self.before(k, Op::Convolution(op), &operands) else { return false };
        self.rounds_before(value, y);
        for (at, op) in [Op::Reshape { shape: vec![1, channels, kernels] }, Op::Transpose { perm: vec![0, 2, 1] }]
            .into_iter()
            .enumerate()
        {
            let Some(next) = self.before(k + 1 + at, op, &[value]) else { return false };
            value = next;
        }
        self.replace(k + 3, Op::Reshape { shape: vec![1, kernels, 1, channels] }, &[value])
    }

    /// The tensor `[1, G * K, …]` that a reshape gives as `[1, G, K, …]`.
    fn grouped(&self, id: TensorId) -> Option<TensorId> {
        let node = &self.graph.nodes[self.origin(id)?];
        let (Op::Reshape { .. }, x) = (&node.op, node.inputs[0]) else { return None };
        let (&[1, channels, ref pixels @ ..], &[1, groups, each, ref inner @ ..]) =
            (self.graph.shape(x), self.graph.shape(id))
        else {
            return None;
        };
        let same = channels == groups * each && pixels.iter().product::<usize>() == inner.iter().product::<usize>();
        (same && groups > 1 && each > 1 && !inner.is_empty()).then_some(x)
    }

    /// A part of each group of channels is a choice of channels, and a concatenation of such parts is one of channels in another order.
    /// The heads of detectors of key points have their coordinates and their scores in such groups.
    pub(super) fn parts_of_groups(&mut self, k: usize) -> bool {
        let (y, inputs) = (self.output(k), self.inputs(k).to_vec());
        if self.graph.tensor(y).has_scales_of_an_axis() {
            return false;
        }
        let shape = self.graph.shape(y).to_vec();
        match self.graph.nodes[k].op.clone() {
            Op::Slice { starts, steps, lengths } => {
                let Some(x) = self.grouped(inputs[0]) else { return false };
                let whole = self.graph.shape(inputs[0]);
                let stays = |axis: usize| lengths[axis] == whole[axis] && steps[axis] == 1;
                if !(3..whole.len()).all(stays) {
                    return false;
                }
                let place = |axis: usize, at: usize| starts[axis].wrapping_add_signed(at as isize * steps[axis]);
                let each = whole[2];
                let channels = |group: usize| (0..lengths[2]).map(move |at| group * each + place(2, at));
                let from: Vec<usize> = (0..lengths[1]).flat_map(|group| channels(place(1, group))).collect();
                let op = if from.windows(2).all(|pair| pair[1] == pair[0] + 1) {
                    let (mut starts, mut lengths) = (vec![0; self.graph.shape(x).len()], self.graph.shape(x).to_vec());
                    (starts[1], lengths[1]) = (from[0], from.len());
                    Op::Slice { steps: vec![1; starts.len()], starts, lengths }
                } else {
                    Op::ChannelPermutation { from }
                };
                let Some(inner) = self.before(k, op, &[x]) else { return false };
                self.rounds_before(inner, y);
                self.replace(k + 1, Op::Reshape { shape }, &[inner])
            }
            Op::Concat { axis: 2 } => {
                // A part of one channel per group is the reshaped channels, too.
                let groups = shape[1];
                let pixels = |pass: &Self, id: TensorId| pass.graph.shape(id)[2..].to_vec();
                let mut parts = Vec::new();
                for &id in &inputs {
                    let Some(m) = self.origin(id) else { return false };
                    let x = self.inputs(m)[0];
                    let (&[1, channels, ..], Op::Reshape { .. }) = (self.graph.shape(x), &self.graph.nodes[m].op)
                    else {
                        return false;
                    };
                    if self.graph.shape(id)[..1] != [1] || channels != groups * self.graph.shape(id)[2] {
                        return false;
                    }
                    parts.push(x);
                }
                let grouped = parts.iter().any(|&x| self.graph.shape(x)[1] != groups);
                if !grouped || parts.iter().any(|&x| pixels(self, x) != pixels(self, parts[0])) {
                    return false;
                }
                // Scores beside boxes stay apart, because they become outputs of their own.
                if ends_with_scores(self.graph, y, &inputs) {
                    return false;
                }
                let mut first = 0;
                let mut places = vec![Vec::new(); groups];
                for &id in &inputs {
                    let each = self.graph.shape(id)[2];
                    for (group, places) in places.iter_mut().enumerate() {
                        places.extend((0..each).map(|at| first + group * each + at));
                    }
                    first += groups * each;
                }
                let Some(joined) = self.before(k, Op::Concat { axis: 1 }, &parts) else { return false };
                let op = Op::ChannelPermutation { from: places.concat() };
                let Some(inner) = self.before(k + 1, op, &[joined]) else { return false };
                self.rounds_before(inner, y);
                self.replace(k + 2, Op::Reshape { shape }, &[inner])
            }
            _ => false,
        }
    }
}
