// SPDX-License-Identifier: MIT OR Apache-2.0

//! The int8 scale of each activation: measured on samples, read from a table, or given by a quantized model.
//!
//! NVDLA's int8 is symmetric: value = integer * scale, integers from -128 to 127.

mod error;
mod histogram;
pub mod samples;
pub mod table;

pub use error::Error;

use std::path::Path;

use rayon::prelude::*;

use crate::bounds::bounds_from;
use crate::equalize::{Factors, Sets};
use crate::float;
use crate::ir::{Binary, Graph, Means, Node, Op, PadMode, PoolKind, Range, Ranges, ResizeMode, TensorId, Unary};
pub use histogram::Method;
use histogram::{Histogram, Summary, CHUNK};

/// The values of each activation on samples, from which a method chooses scales.
#[derive(Clone, Debug)]
pub struct Measured {
    histograms: Vec<Option<Histogram>>,
    /// The sum of each channel's values, and the number of values per channel.
    sums: Vec<Option<(Vec<f64>, usize)>>,
    /// The same of what rounding down takes from results of softmaxes. None for other tensors.
    losses: Vec<Option<Vec<f64>>>,
    /// The channels that can be equalised.
    sets: Sets,
    /// The histograms of the channels of tensors that can be equalised.
    channels: Vec<Vec<Histogram>>,
    /// Tensors of which only the least and the greatest value are measured.
    uncounted: Vec<bool>,
    /// The largest magnitude of each tensor on each sample.
    peaks: Vec<Vec<f32>>,
    /// Tensors that only softmaxes read.
    shares: Shares,
}

/// A value so far below the largest element of a softmax has a share of less than 1e-5 of the largest one.
const NO_SHARE: f32 = 12.0;

/// How far the values with a share reach, relative to all values, where those without saturate.
const COARSE: f32 = 0.5;

/// What rounding down to steps of 1/127 takes from a share: all of less than a step, and half a step of others on average.
fn lost(share: f32) -> f64 {
    let (share, step) = (f64::from(share), 1.0 / 127.0);
    if share < step {
        share.max(0.0)
    } else {
        step / 2.0
    }
}

/// The tensors that only softmaxes read, and the values below which elements have no share.
#[derive(Clone, Debug)]
struct Shares {
    /// The axis of the softmax that reads a tensor.
    axes: Vec<Option<usize>>,
    /// Tensors, each with one that is made of its elements, the last ones first.
    moved: Vec<(TensorId, TensorId)>,
    /// The least of these values on all samples.
    lows: Vec<Option<f32>>,
}

impl Shares {
    fn new(graph: &Graph) -> Self {
        let only = graph.only_for_softmax();
        let mut axes = vec![None; graph.tensors.len()];
        let mut moved = Vec::new();
        for node in graph.nodes.iter().rev() {
            for &id in node.inputs.iter().filter(|id| only[id.0]) {
                match node.op {
                    Op::Softmax { axis } => axes[id.0] = Some(axis),
                    _ => moved.push((id, node.output)),
                }
            }
        }
        Self { axes, moved, lows: vec![None; graph.tensors.len()] }
    }

    fn add(&mut self, graph: &Graph, id: TensorId, values: &[f32]) {
        let Some(axis) = self.axes[id.0] else { return };
        let shape = graph.shape(id);
        let (count, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        let groups = values.chunks_exact(count * inner).flat_map(|block| {
            (0..inner).map(move |at| block[at..].iter().step_by(inner).fold(f32::NEG_INFINITY, |most, &x| most.max(x)))
        });
        let low = groups.fold(f32::INFINITY, f32::min) - NO_SHARE;
        self.lows[id.0] = Some(self.lows[id.0].map_or(low, |least| least.min(low)));
    }

    fn without_values(&self) -> Self {
        Self { axes: self.axes.clone(), moved: self.moved.clone(), lows: vec![None; self.lows.len()] }
    }

    fn join(&mut self, other: &Self) {
        for (own, other) in self.lows.iter_mut().zip(&other.lows) {
            *own = match (*own, *other) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }

    /// The value below which each tensor's elements have no share.
    fn lows(&self) -> Vec<Option<f32>> {
        let mut lows = self.lows.clone();
        for &(id, made) in &self.moved {
            lows[id.0] = match (lows[id.0], lows[made.0]) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        lows
    }
}

/// A sample is uncommon if a tensor has values this many times those of most samples.
const UNCOMMON: f32 = 8.0;

/// With fewer samples none is uncommon.
const FEW: usize = 4;

/// How many samples a warning names.
const NAMED: usize = 4;

/// Samples on which a tensor has far larger values than on most.
pub struct Uncommon {
    /// The tensor with the largest ratio of them.
    pub tensor: TensorId,
    /// Its largest magnitude on the median sample.
    pub usual: f32,
    /// Its largest magnitude on all samples.
    pub largest: f32,
    /// The numbers of the samples, in the order in which they were run.
    pub samples: Vec<usize>,
}

impl Uncommon {
    /// A warning. `files` are those of the samples, in the order in which they were run.
    pub fn text(&self, graph: &Graph, files: &[&Path]) -> String {
        let Self { tensor, usual, largest, samples } = self;
        let mut names: Vec<_> = samples.iter().take(NAMED).map(|&at| files[at].display().to_string()).collect();
        if samples.len() > NAMED {
            names.push(format!("{} more", samples.len() - NAMED));
        }
        format!(
            "\"{}\" has values up to {largest} on {}, and up to {usual} on most samples, so that the steps of int8 may be too \
             coarse for most: leave out samples that are not typical",
            graph.tensor(*tensor).name,
            names.join(", ")
        )
    }
}

/// Tensors of which only the least and the greatest value count: of the graph's outputs the largest values matter most, so that these
/// do not saturate on the samples. Every other tensor has a scale in the table that a calibration writes.
fn uncounted(graph: &Graph) -> Vec<bool> {
    let mut uncounted = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|id| uncounted[id.0] = true);
    uncounted
}

impl Measured {
    /// Without values.
    pub fn empty(graph: &Graph) -> Self {
        let count = graph.tensors.len();
        let (histograms, sums) = (vec![None; count], vec![None; count]);
        let losses = graph.of_softmaxes().into_iter().map(|of| of.then(Vec::new)).collect();
        Self {
            histograms,
            sums,
            losses,
            sets: Sets::new(graph),
            channels: vec![Vec::new(); count],
            uncounted: uncounted(graph),
            peaks: vec![Vec::new(); count],
            shares: Shares::new(graph),
        }
    }

    /// Without values, for the least and the greatest values alone: what [`Method::Max`] needs.
    pub fn limits(graph: &Graph) -> Self {
        Self { uncounted: vec![true; graph.tensors.len()], ..Self::empty(graph) }
    }

    /// Without values, for other samples of the same graph, so that the two can be joined ([`Self::join`]).
    #[must_use]
    pub fn beside(&self) -> Self {
        let beside = |histogram: &Histogram| histogram.beside();
        let all = |histograms: &Vec<Histogram>| histograms.iter().map(beside).collect();
        let count = self.histograms.len();
        Self {
            histograms: self.histograms.iter().map(|histogram| histogram.as_ref().map(beside)).collect(),
            sums: vec![None; count],
            losses: self.losses.iter().map(|losses| losses.as_ref().map(|_| Vec::new())).collect(),
            sets: self.sets.clone(),
            channels: self.channels.iter().map(all).collect(),
            uncounted: self.uncounted.clone(),
            peaks: vec![Vec::new(); count],
            shares: self.shares.without_values(),
        }
    }

    /// Adds the values of others, which began [beside](Self::beside) these.
    pub fn join(&mut self, other: &Self) {
        for (own, other) in self.histograms.iter_mut().zip(&other.histograms) {
            if let (Some(own), Some(other)) = (own, other) {
                own.join(other);
            }
        }
        for (own, other) in self.channels.iter_mut().zip(&other.channels) {
            own.iter_mut().zip(other).for_each(|(own, other)| own.join(other));
        }
        for (own, other) in self.sums.iter_mut().zip(&other.sums) {
            if let (Some((own, count)), Some((sums, more))) = (own, other) {
                own.iter_mut().zip(sums).for_each(|(own, sum)| *own += sum);
                *count += more;
            }
        }
        for (own, other) in self.losses.iter_mut().zip(&other.losses) {
            if let (Some(own), Some(other)) = (own, other) {
                own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
            }
        }
        self.peaks.iter_mut().zip(&other.peaks).for_each(|(own, other)| own.extend(other));
        self.shares.join(&other.shares);
    }

    /// Runs the graph on samples: the values of the graph's inputs, in their order.
    pub fn new(graph: &Graph, samples: impl IntoIterator<Item = Result<Vec<Vec<f32>>, Error>>) -> Result<Self, Error> {
        Self::empty(graph).with(graph, samples)
    }

    /// These values and those of samples.
    pub fn with(
        mut self,
        graph: &Graph,
        samples: impl IntoIterator<Item = Result<Vec<Vec<f32>>, Error>>,
    ) -> Result<Self, Error> {
        for sample in samples {
            run(graph, &sample?, &mut self)?;
        }
        Ok(self)
    }

    /// The same values without those of single channels, so that it cannot be equalised any more.
    pub(crate) fn whole(&self) -> Self {
        let (histograms, sums, sets) = (self.histograms.clone(), self.sums.clone(), self.sets.clone());
        let (channels, uncounted, peaks) =
            (vec![Vec::new(); self.channels.len()], self.uncounted.clone(), self.peaks.clone());
        let (losses, shares) = (self.losses.clone(), self.shares.clone());
        Self { histograms, sums, losses, sets, channels, uncounted, peaks, shares }
    }

    /// The samples whose values make the steps of int8 too coarse for the others. Bounded functions such as a sigmoid are often near
    /// zero, so that only outputs of convolutions count.
    pub fn uncommon(&self, graph: &Graph) -> Option<Uncommon> {
        let convolutions =
            graph.nodes.iter().filter(|node| matches!(node.op, Op::Convolution(_) | Op::Deconvolution(..)));
        let found = convolutions.filter_map(|node| {
            let peaks = &self.peaks[node.output.0];
            let mut sorted = peaks.clone();
            sorted.sort_unstable_by(f32::total_cmp);
            let (usual, largest) = (*sorted.get(sorted.len() / 2)?, *sorted.last()?);
            let samples = (0..peaks.len()).filter(|&at| peaks[at] > UNCOMMON * usual).collect();
            let found = Uncommon { tensor: node.output, usual, largest, samples };
            (peaks.len() >= FEW && usual > 0.0 && largest > UNCOMMON * usual).then_some(found)
        });
        found.max_by(|a, b| (a.largest / a.usual).total_cmp(&(b.largest / b.usual)))
    }

    fn add(&mut self, graph: &Graph, id: TensorId, values: &[f32], summaries: &[Summary]) {
        let peak = |summary: &Summary| summary.max.max(-summary.min);
        self.peaks[id.0].push(summaries.iter().map(peak).fold(0.0, f32::max));
        let counted = !self.uncounted[id.0];
        self.histograms[id.0].get_or_insert_with(|| Histogram::of_tensor(counted)).add(values, summaries);
        self.shares.add(graph, id, values);
        let Some([1, channels, height, width]) = graph.tensor(id).nchw() else { return };
        let (sums, count) = self.sums[id.0].get_or_insert_with(|| (vec![0.0; channels], 0));
        sums.iter_mut().zip(summaries).for_each(|(sum, summary)| *sum += summary.sum);
        *count += height * width;
        if let Some(losses) = &mut self.losses[id.0] {
            losses.resize(channels, 0.0);
            let planes = values.chunks_exact(height * width);
            losses
                .iter_mut()
                .zip(planes)
                .for_each(|(loss, plane)| *loss += plane.iter().map(|&x| lost(x)).sum::<f64>());
        }
        if self.sets.free(id) {
            let histograms = &mut self.channels[id.0];
            histograms.resize_with(channels, || Histogram::of_channel(counted));
            let planes = values.par_chunks_exact(height * width).zip(summaries);
            let planes = histograms.par_iter_mut().zip(planes).with_min_len(16);
            planes.for_each(|(histogram, (plane, summary))| histogram.add_few(plane, *summary));
        }
    }

    /// The network with more even channels ([`crate::equalize`]), and the values of its activations. `None` if no channel of the
    /// network can have a factor.
    pub fn equalized(&self, graph: &Graph) -> Option<(Graph, Self)> {
        self.even(graph).map(|(factors, measured)| (factors.apply(graph), measured))
    }

    /// As [`Self::equalized`], with the factors in place of the network.
    pub(crate) fn even(&self, graph: &Graph) -> Option<(Factors, Self)> {
        let channels = |id: TensorId| Some(&self.channels[id.0]).filter(|channels| !channels.is_empty());
        let largest = |id| Some(channels(id)?.iter().map(Histogram::largest).collect());
        let factors = self.sets.factors(graph, largest);
        if factors.is_empty() {
            return None;
        }
        let mut measured = self.whole();
        let values = measured.histograms.par_iter_mut().zip(&mut measured.sums).enumerate();
        values.for_each(|(k, (histogram, sums))| {
            let (Some(channels), Some(factors)) = (channels(TensorId(k)), factors.of(TensorId(k))) else { return };
            *histogram = Some(Histogram::joined(channels, factors));
            let sums = sums.iter_mut().flat_map(|(sums, _)| sums);
            sums.zip(factors).for_each(|(sum, factor)| *sum /= f64::from(*factor));
        });
        Some((factors, measured))
    }

    /// The range of each activation according to a method.
    pub fn ranges(&self, method: Method) -> Ranges {
        let mut ranges = Ranges::new();
        let range = |histogram: &Option<Histogram>| histogram.as_ref().map(|histogram| histogram.range(method));
        let all: Vec<_> = self.histograms.par_iter().map(range).collect();
        let lows = self.shares.lows();
        for (k, range) in all.into_iter().enumerate() {
            if let Some(range) = range {
                // What has no share saturates where it would make the steps of the others coarse.
                let reach = |low: f32| low.abs().max(range.max.abs());
                let low = lows.get(k).copied().flatten().map(|low| low.min(0.0));
                let low = low.filter(|&low| reach(low) < COARSE * reach(range.min));
                ranges.set(TensorId(k), low.map_or(range, |low| Range::of(low, range.max)));
            }
            if let Some((sums, count)) = &self.sums[k] {
                let mean = |sum: &f64| (sum / *count as f64) as f32;
                let losses = self.losses.get(k).and_then(Option::as_ref);
                let losses = losses.map(|losses| losses.iter().map(mean).collect());
                ranges.set_means(TensorId(k), Means { values: sums.iter().map(mean).collect(), losses });
            }
        }
        ranges
    }
}

/// Runs a graph on a sample, the values of the graph's inputs, and adds the values of its activations. Returns its outputs.
pub fn run(graph: &Graph, sample: &[Vec<f32>], to: &mut Measured) -> Result<Vec<Vec<f32>>, Error> {
    let mut visit = |id: TensorId, values: &[f32]| {
        // Per channel, if there are channels.
        let part = match graph.tensor(id).nchw() {
            Some([1, _, height, width]) => height * width,
            _ => CHUNK,
        };
        let parts = values.par_chunks(part).with_min_len(CHUNK.div_ceil(part));
        let summaries: Vec<Summary> = parts.map(Summary::of).collect();
        to.add(graph, id, values, &summaries);
    };
    let outputs = float::run(graph, sample, &mut visit).map_err(Error::Sample)?;
    for (k, tensor) in graph.tensors.iter().enumerate() {
        if to.histograms[k].as_ref().is_some_and(|histogram| !histogram.is_finite()) {
            return Err(Error::NotFinite(tensor.name.clone()));
        }
    }
    Ok(outputs)
}

/// Measures the range of each activation on samples.
pub fn measure(
    graph: &Graph,
    samples: impl IntoIterator<Item = Result<Vec<Vec<f32>>, Error>>,
    method: Method,
) -> Result<Ranges, Error> {
    Ok(Measured::new(graph, samples)?.ranges(method))
}

/// The methods that are tried by default.
pub const METHODS: [Method; 4] = [Method::Mse, Method::Max, Method::Percentile(99.99), Method::Entropy];

/// The ranges that a quantized model gives. Scales and zero points of 8 bits are used unchanged where a tensor may have a zero
/// point. Elsewhere scales without a zero point are unchanged, and others become the symmetric scale that can represent the same
/// values.
pub fn of_model(graph: &Graph) -> Ranges {
    let mut ranges = Ranges::new();
    for (k, tensor) in graph.tensors.iter().enumerate() {
        let (Some(q), None) = (&tensor.quantization, &tensor.constant) else { continue };
        let ends = |(low, high): (f32, f32), (min, max): (f32, f32)| (low.min(min), high.max(max));
        let (min, max) = q.values().into_iter().fold((0.0, 0.0), ends);
        let mut range = Range::of(min, max);
        if let (255, &[scale], &[zero]) = (q.limits.1 - q.limits.0, &q.scale[..], &q.zero_point[..]) {
            (range.span, range.given) = ((range.min, range.max), true);
            if zero - q.limits.0 == 128 {
                range.scale = scale;
            }
        }
        ranges.set(TensorId(k), range);
    }
    ranges
}

/// Whether an operator's output has only values of its input, so that both can share one range.
fn keeps_values(op: &Op) -> bool {
    match op {
        Op::Pool(pool) => pool.kind == PoolKind::Max,
        Op::Unary(unary) => matches!(unary, Unary::Relu | Unary::Clip(..) | Unary::Round),
        // Every range includes 0.
        Op::Pad { mode, .. } => !matches!(mode, PadMode::Constant(value) if *value != 0.0),
        Op::DepthToSpace { .. }
        | Op::SpaceToDepth { .. }
        | Op::Slice { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::ChannelPermutation { .. } => true,
        Op::Resize(resize) => matches!(resize.mode, ResizeMode::Nearest(_)),
        _ => false,
    }
}

/// Whether an operator only limits or chooses values, so that its inputs need only the range of its output.
fn limits_values(op: &Op) -> bool {
    keeps_values(op) || matches!(op, Op::Concat { .. })
}

/// Derives ranges from those of neighbours, where operators only move or limit values.
fn derive(graph: &Graph, ranges: &mut Ranges) {
    for node in &graph.nodes {
        if keeps_values(&node.op) && ranges.get(node.output).is_none() {
            // Limits that are beyond all values become the only value, which the range does not have.
            let within = |range: &Range| match node.op {
                Op::Unary(Unary::Clip(low, high)) => low <= range.max && range.min <= high,
                _ => true,
            };
            if let Some(range) = ranges.get(node.inputs[0]).copied().filter(within) {
                ranges.set(node.output, range);
            }
        }
    }
    // A tensor that only limits use needs only the ranges of their outputs.
    for &x in graph.nodes.iter().rev().flat_map(|node| &node.inputs) {
        if ranges.get(x).is_some() || graph.outputs.contains(&x) || graph.constant(x).is_some() {
            continue;
        }
        let limited = |user: crate::ir::NodeId| {
            let user = graph.node(user);
            let range = ranges.get(user.output).copied();
            if limits_values(&user.op) {
                return range;
            }
            range
                .filter(|_| graph.inputs.contains(&x) && user.inputs[0] == x)
                .and_then(|range| before(graph, user, range))
        };
        let all: Option<Vec<Range>> = graph.users(x).map(limited).collect();
        let range = all.and_then(|all| {
            all.into_iter().reduce(|a, b| {
                let mut both = Range::of(a.min.min(b.min), a.max.max(b.max));
                both.span = (a.span.0.min(b.span.0), a.span.1.max(b.span.1));
                if a == b {
                    a
                } else {
                    both
                }
            })
        });
        if let Some(range) = range {
            ranges.set(x, range);
        }
    }
}

/// The range of an input of the network with which a sum or a product with constants has a range.
fn before(graph: &Graph, node: &Node, range: Range) -> Option<Range> {
    let Op::Binary(op) = node.op else { return None };
    let values = graph.constant(*node.inputs.get(1)?)?;
    let (low, high) = range.span;
    let of = |end: f32| {
        values.iter().map(move |value| match op {
            Binary::Add => end - value,
            Binary::Sub => end + value,
            Binary::Mul => end / value,
            Binary::Div => end * value,
            _ => f32::NAN,
        })
    };
    let ends = || of(low).chain(of(high));
    let (least, most) = ends().fold((0f32, 0f32), |(least, most), end| (least.min(end), most.max(end)));
    ends().all(f32::is_finite).then(|| {
        let mut own = Range::of(least, most);
        own.span = (least, most);
        own
    })
}

/// The magnitude from which on all functions of a tensor have their last value, within half a step of 8 bits. `None` if something
/// else reads the tensor.
fn level(graph: &Graph, id: TensorId) -> Option<f32> {
    let of = |user| match graph.node(user).op {
        // 1 - sigmoid(6.25) is half of 1/255, and 1 - tanh(3.125) half of 1/127.
        Op::Unary(Unary::Sigmoid) => Some(6.25),
        Op::Unary(Unary::Tanh) => Some(3.125),
        _ => None,
    };
    let ends: Option<Vec<f32>> = graph.users(id).map(of).collect();
    ends.filter(|_| !graph.outputs.contains(&id))?.into_iter().reduce(f32::max)
}

/// Replaces the ranges of softmaxes that a quantized model gives by measured ones. Its integers reach to 1, and NVDLA's emulated
/// softmax has half as many of them, because it has no zero point: the values of a softmax of many elements would be few steps.
fn softmaxes(graph: &Graph, ranges: &mut Ranges, measured: &Ranges) {
    let softmax = |node: &&Node| matches!(node.op, Op::Softmax { .. });
    for id in graph.nodes.iter().filter(softmax).flat_map(|node| kept(graph, node.output)) {
        if let (Some(given), Some(own)) = (ranges.get(id), measured.get(id)) {
            if given.given && own.scale < given.scale && !graph.outputs.contains(&id) {
                ranges.set(id, *own);
            }
        }
    }
}

/// A tensor, and those that only keep its values one after another: it is moved, limited and rounded.
pub(crate) fn kept(graph: &Graph, mut id: TensorId) -> Vec<TensorId> {
    let mut all = vec![id];
    loop {
        let mut users = graph.users(id).map(|user| graph.node(user));
        let (Some(user), None) = (users.next(), users.next()) else { return all };
        if !keeps_values(&user.op) {
            return all;
        }
        id = user.output;
        all.push(id);
    }
}

/// Completes the ranges of a graph. Those in `given` stay, but for those of softmaxes that are measured, and those of operators that only
/// move or limit values are derived. Others come from `measured`, or are those that the operators allow (`bounds_from`). Sums of
/// convolutions have no range if they are not measured: those that are possible are far larger than those that occur.
pub fn complete(graph: &Graph, given: Ranges, measured: Option<&Ranges>) -> Ranges {
    let mut ranges = given;
    if let Some(measured) = measured {
        softmaxes(graph, &mut ranges, measured);
    }
    derive(graph, &mut ranges);
    if let Some(measured) = measured {
        for k in 0..graph.tensors.len() {
            if let (None, Some(&(mut range))) = (ranges.get(TensorId(k)), measured.get(TensorId(k))) {
                match level(graph, TensorId(k)) {
                    Some(end) if range.scale * 127.0 > end => range.reach(end),
                    _ => {}
                }
                ranges.set(TensorId(k), range);
            }
            if let Some(means) = measured.means(TensorId(k)) {
                ranges.set_means(TensorId(k), means.clone());
            }
        }
        derive(graph, &mut ranges);
    }
    let limits = bounds_from(graph, |id| ranges.get(id).map(|range| (range.min, range.max)), false);
    for node in &graph.nodes {
        let (low, high) = limits[node.output.0];
        if ranges.get(node.output).is_none() && low.is_finite() && high.is_finite() {
            ranges.set(node.output, Range::of(low.min(0.0), high.max(0.0)));
        }
    }
    ranges
}

#[cfg(test)]
mod tests;
