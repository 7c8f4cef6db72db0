// SPDX-License-Identifier: MIT OR Apache-2.0

//! The range of each activation tensor from calibration, and the int8 scale chosen for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Graph, Node, Tensor, TensorId};

/// The range of a tensor's values, and its scales.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The smallest value on the samples.
    pub min: f32,
    /// The largest value on the samples.
    pub max: f32,
    /// The real value of one step if 0 is the integer 0: value = int8 * scale. Positive. Values beyond 127 steps saturate.
    pub scale: f32,
    /// The real values of the integers -128 and 127 if another integer may be 0 ([`zero_point`]). They include 0.
    pub span: (f32, f32),
}

/// The step and the integer of 0 with which the integers from -128 to 127 reach from `low` to `high`, which include 0.
pub fn zero_point((low, high): (f32, f32)) -> (f64, i32) {
    let (low, high) = (f64::from(low), f64::from(high));
    let scale = (high - low) / 255.0;
    (scale, (-128.0 - low / scale).round() as i32)
}

/// The largest step of an asymmetric span, relative to that of a symmetric one. A zero that is not 0 has to be worth it.
const WORTH: f32 = 0.95;

/// How far a span reaches on its smaller side, relative to the value on the samples that is farthest from 0 there. Other data
/// have larger values; with a symmetric scale this side has more room.
pub(crate) const HEADROOM: f32 = 1.25;

impl Range {
    /// A range with the smallest scales that can represent both values.
    pub fn of(min: f32, max: f32) -> Self {
        let largest = min.abs().max(max.abs());
        let mut range = Self { min, max, scale: 1.0, span: (0.0, 0.0) };
        range.reach(if largest > 0.0 { largest } else { 1.0 });
        range
    }

    /// Sets the scales so that values beyond `threshold` saturate.
    pub fn reach(&mut self, threshold: f32) {
        self.scale = threshold / 127.0;
        self.span_to(threshold);
    }

    /// Sets the span so that values beyond `threshold` saturate.
    pub fn span_to(&mut self, threshold: f32) {
        let (low, high) = if self.min >= 0.0 {
            (0.0, threshold)
        } else {
            let reach = |side: f32| (side.max(0.0) * HEADROOM).min(threshold);
            (-reach(-self.min), reach(self.max))
        };
        self.span = (low, high);
        if (high - low) / 255.0 > WORTH * self.scale {
            *self = self.symmetric();
        }
    }

    /// The range with 0 as the integer 0.
    #[must_use]
    pub fn symmetric(self) -> Self {
        Self { span: (-128.0 * self.scale, 127.0 * self.scale), ..self }
    }
}

/// The weights and the biases of a convolution, rounded for int8. Weights times the scale of the input's channel are integers
/// times a step of their kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundedLayer {
    /// As many as the graph's weights, in the same order.
    pub weights: Arc<[f32]>,
    /// One per kernel.
    pub bias: Arc<[f32]>,
}

/// The range of each tensor of a graph, the mean of each channel if it was measured, and rounded weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges {
    ranges: Vec<Option<Range>>,
    means: Vec<Option<Arc<[f32]>>>,
    rounded: BTreeMap<usize, RoundedLayer>,
}

impl Ranges {
    /// No range for any tensor.
    pub fn new() -> Self {
        Self::default()
    }

    /// The range of a tensor. None for constants, and for tensors that were not measured.
    pub fn get(&self, id: TensorId) -> Option<&Range> {
        self.ranges.get(id.0)?.as_ref()
    }

    /// Sets the range of a tensor.
    pub fn set(&mut self, id: TensorId, range: Range) {
        put(&mut self.ranges, id, range);
    }

    /// The mean of each channel of a tensor.
    pub fn means(&self, id: TensorId) -> Option<&Arc<[f32]>> {
        self.means.get(id.0)?.as_ref()
    }

    /// Sets the mean of each channel of a tensor.
    pub fn set_means(&mut self, id: TensorId, means: Arc<[f32]>) {
        put(&mut self.means, id, means);
    }

    /// Sets the weights that int8 uses in place of the graph's, by the numbers of the nodes.
    pub fn set_rounded(&mut self, rounded: BTreeMap<usize, RoundedLayer>) {
        self.rounded = rounded;
    }

    /// The graph with rounded weights in the nodes for which `rounds` holds.
    pub fn rounded(&self, graph: &Graph, rounds: impl Fn(&Node) -> bool) -> Graph {
        with_rounded(graph, &self.rounded, rounds)
    }

    /// The ranges without the means and the rounded weights.
    #[must_use]
    pub fn without_means(self) -> Self {
        Self { means: Vec::new(), rounded: BTreeMap::new(), ..self }
    }
}

/// The graph with rounded weights in the nodes for which `rounds` holds.
pub(crate) fn with_rounded(
    graph: &Graph,
    layers: &BTreeMap<usize, RoundedLayer>,
    rounds: impl Fn(&Node) -> bool,
) -> Graph {
    let mut rounded = graph.clone();
    for (&k, layer) in layers.iter().filter(|(k, _)| rounds(&graph.nodes[**k])) {
        let node = &graph.nodes[k];
        let mut constant = |shape: &[usize], values: &Arc<[f32]>| {
            let (name, shape, constant) = (String::new(), shape.to_vec(), Some(values.clone()));
            rounded.tensors.push(Tensor { name, shape, constant, quantization: None });
            TensorId(rounded.tensors.len() - 1)
        };
        let weights = constant(graph.shape(node.inputs[1]), &layer.weights);
        let bias = constant(&[layer.bias.len()], &layer.bias);
        rounded.nodes[k].inputs = vec![node.inputs[0], weights, bias];
    }
    rounded
}

fn put<T: Clone>(list: &mut Vec<Option<T>>, id: TensorId, value: T) {
    if list.len() <= id.0 {
        list.resize(id.0 + 1, None);
    }
    list[id.0] = Some(value);
}
