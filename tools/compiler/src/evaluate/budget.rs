// SPDX-License-Identifier: MIT OR Apache-2.0

//! The choice of the convolutions that run in Winograd's mode in int8, within a budget for the loss of accuracy.
//!
//! The network runs on the built-in model without Winograd's mode, and with each convolution alone in the mode that it makes faster.
//! The loss of a convolution is what the ratio of signal to noise of the worst output then falls by, per multiplication that it
//! saves. The convolutions with the smallest losses run in Winograd's mode, as many as the budget allows. The network with all of them
//! is measured, too, because the errors of layers are not independent.

use std::collections::HashSet;

use nvdla_uapi::reg::values::Precision;

use crate::error::Error;
use crate::evaluate::measure::{expected, Measured};
use crate::evaluate::mixed::Failure;
use crate::ir::{Graph, Ranges};
use crate::net::step::Kind;
use crate::options::{Optimize, Options, Winograd};
use crate::output::compiled::Compiled;
use crate::output::report::{FastLayer, WinogradReport};
use crate::pipeline::compile;

/// The network in which the ratio of signal to noise of no output is lower than without Winograd's mode by more than `budget`
/// decibels, on the samples. `tell` is told how many networks have been measured, and of how many at most.
pub fn choose(
    graph: &Graph,
    ranges: &Ranges,
    options: &Options,
    samples: &[Vec<Vec<f32>>],
    budget: f64,
    tell: &dyn Fn(usize, usize),
) -> Result<Compiled, Failure> {
    let expected = expected(graph, samples).map_err(Failure::Measuring)?;
    // In bands, not all tensors are in memory as a whole. Losses are measured with one picture per run.
    let whole = Options {
        optimize: Optimize::Time,
        pictures: 1,
        numbers: true,
        winograd: Some(Winograd::Faster),
        ..options.clone()
    };
    let with = |names: &[String], options: &Options| {
        let fast = Some(names.iter().cloned().collect::<HashSet<_>>());
        compile(graph, ranges, &Options { winograd: Some(Winograd::Faster), fast, ..options.clone() })
    };
    let losses = |compiled: &Compiled| {
        let measured = Measured::new(compiled, &options.inputs);
        measured.and_then(|mut measured| measured.output_losses(samples, &expected)).map_err(Failure::Measuring)
    };
    let before = losses(&with(&[], &whole)?)?;
    // The choice is by their losses, whatever the time of all together.
    let every: Vec<String> = graph.tensors.iter().map(|tensor| tensor.name.clone()).collect();
    let all = with(&every, &whole)?;
    let candidates = candidates(&all);
    // Each alone, all, and a search among the rest.
    let (mut number, of) = (0, candidates.len() + 2 + candidates.len().max(1).ilog2() as usize);
    // How much lower the ratio of an output is, where that is lowered most.
    let mut lost = |compiled: &Compiled| {
        tell(number, of);
        number += 1;
        let after = losses(compiled)?;
        let each = before.iter().zip(&after).map(|(before, after)| before.decibels() - after.decibels());
        Ok::<_, Failure>(each.fold(0.0, f64::max))
    };
    let mut layers = Vec::new();
    for (multiplications, name) in candidates {
        let loss = lost(&with(std::slice::from_ref(&name), &whole)?)?;
        layers.push((loss / multiplications, FastLayer { tensor: name, loss, taken: false }));
    }
    layers.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.tensor.cmp(&b.1.tensor)));
    let mut layers: Vec<FastLayer> = layers.into_iter().map(|(_, layer)| layer).collect();
    let names: Vec<String> = layers.iter().map(|layer| layer.tensor.clone()).collect();
    // The largest number of convolutions within the budget, if more of them always lose more.
    let (mut most, mut limit, mut loss) = (0, names.len(), 0.0);
    while most < limit {
        let count = if limit == names.len() && most == 0 { limit } else { (most + limit).div_ceil(2) };
        let now = lost(&with(&names[..count], &whole)?)?;
        if now <= budget {
            (most, loss) = (count, now);
        } else {
            limit = count - 1;
        }
    }
    let mut best = with(&names[..most], options)?;
    layers[..most].iter_mut().for_each(|layer| layer.taken = true);
    best.report.winograd = Some(WinogradReport { budget, loss, layers });
    Ok(best)
}

/// The multiplications of the convolutions in Winograd's mode, and the names of their outputs.
fn candidates(compiled: &Compiled) -> Vec<(f64, String)> {
    let steps = &compiled.steps;
    let fast = steps.net.steps.iter().zip(&steps.numbers).filter(|(_, numbers)| numbers.winograd);
    let found = fast.filter_map(|(step, _)| {
        let Kind::Convolution(conv) = &step.kind else { return None };
        let tensor = &steps.net.tensors[step.output];
        let multiplications = conv.weights.len() as f64 * f64::from(tensor.shape[1]) * f64::from(tensor.shape[2]);
        Some((multiplications, tensor.name.clone()))
    });
    found.collect()
}

/// Whether a budget goes with these options.
pub(crate) fn check(options: &Options, is_mixed: bool) -> Result<(), Error> {
    if is_mixed || options.precision != Precision::Int8 || options.winograd != Some(Winograd::Faster) {
        let what =
            "a budget for the loss by Winograd's mode goes with int8 and with Winograd's mode where it is faster";
        return Err(Error::Network(what.to_owned()));
    }
    Ok(())
}
