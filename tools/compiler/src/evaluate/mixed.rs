// SPDX-License-Identifier: MIT OR Apache-2.0

//! The choice of the layers that compute in int16 in mixed precision.
//!
//! The network in int8 runs on the built-in model, and the ratio of noise to signal of each tensor is measured against the float
//! network, as for the report. The loss of a layer is what it adds to the largest ratio of the tensors that it reads. Networks in
//! which the layers with the greatest losses have int16 are then compiled and measured too. That whose outputs lose least is taken,
//! because the errors of layers are not independent: more layers in int16 are not always better.

use std::collections::{HashMap, HashSet};

use crate::error::Error;
use crate::evaluate::loss::Loss;
use crate::evaluate::measure::{expected, Measured};
use crate::ir::{Graph, Ranges, TensorId};
use crate::options::{Optimize, Options};
use crate::output::compiled::Compiled;
use crate::pipeline::compile;

/// The number of networks that are tried.
const TRIES: usize = 4;

/// Why no network is chosen.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A network cannot be compiled.
    #[error(transparent)]
    Lowering(#[from] Error),
    /// The losses cannot be measured.
    #[error("{0}")]
    Measuring(String),
}

/// The network in mixed precision. At most the given share of the layers has int16, rounded up. `options` are those of the
/// network in int8.
pub fn choose(
    graph: &Graph,
    ranges: &Ranges,
    options: &Options,
    samples: &[Vec<Vec<f32>>],
    share: f64,
) -> Result<Compiled, Failure> {
    let expected = expected(graph, samples).map_err(Failure::Measuring)?;
    let noise = |compiled: &Compiled| {
        let loss = Measured::new(compiled, &options.inputs)
            .and_then(|mut measured| measured.output_loss(samples, &expected))
            .map_err(Failure::Measuring)?;
        Ok::<_, Failure>(loss.noise / loss.signal.max(1e-30))
    };
    // In bands, not all tensors are in memory as a whole. Losses are measured with one picture per run.
    let whole = Options { optimize: Optimize::Time, pictures: 1, ..options.clone() };
    let mut best = compile(graph, ranges, &whole)?;
    let mut best_wide = HashSet::new();
    let mut least = noise(&best)?;
    let losses =
        Measured::new(&best, &options.inputs).and_then(|mut measured| measured.losses_by_number(graph, samples));
    let layers = layers(graph, &best, &losses.map_err(Failure::Measuring)?);
    let most = (share * layers.len() as f64).ceil() as usize;
    let mut counts: Vec<usize> = (1..=TRIES).map(|part| (most * part).div_ceil(TRIES)).collect();
    counts.dedup();
    for count in counts {
        let wide: HashSet<TensorId> = layers.iter().take(count).copied().collect();
        let compiled = compile(graph, ranges, &Options { wide: wide.clone(), ..whole.clone() })?;
        let noise = noise(&compiled)?;
        if noise < least {
            (least, best, best_wide) = (noise, compiled, wide);
        }
    }
    if (options.optimize, options.pictures) != (whole.optimize, whole.pictures) {
        best = compile(graph, ranges, &Options { wide: best_wide, ..options.clone() })?;
    }
    Ok(best)
}

/// The outputs of the layers of a network in int8. The layer that loses most comes first.
fn layers(graph: &Graph, compiled: &Compiled, losses: &HashMap<usize, Loss>) -> Vec<TensorId> {
    let mut layers = noises(graph, compiled, losses);
    layers.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0 .0.cmp(&b.0 .0)));
    layers.into_iter().map(|(output, ..)| output).collect()
}

/// The outputs of the layers of a network in the order in which they are computed. Each has the ratio of its noise to its signal,
/// and what the layer adds to the largest ratio of its inputs.
pub(crate) fn noises(graph: &Graph, compiled: &Compiled, losses: &HashMap<usize, Loss>) -> Vec<(TensorId, f64, f64)> {
    let noise = |id: &usize| losses.get(id).map(|loss| loss.noise / loss.signal.max(1e-30));
    let net = &compiled.steps.net;
    let mut ratios: HashMap<usize, f64> = HashMap::new();
    let mut layers = Vec::new();
    for step in &net.steps {
        let before = step.reads().filter_map(|id| ratios.get(&id)).copied().fold(0.0, f64::max);
        // What a pooling takes on the fly is not in memory. Then the pooling's output is measured.
        let mut readers = net.steps.iter().filter(|reader| reader.inputs.contains(&step.output));
        let after = noise(&step.output).or_else(|| readers.find_map(|reader| noise(&reader.output))).unwrap_or(before);
        ratios.insert(step.output, after);
        if step.kind.in_sdp() && step.output < graph.tensors.len() {
            layers.push((TensorId(step.output), after, after - before));
        }
    }
    layers
}
