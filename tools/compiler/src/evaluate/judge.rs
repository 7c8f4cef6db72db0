// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which scales and which form of a network change its outputs least: candidates are compiled, and run on samples on the model. The float
//! network with rounded numbers does not show it: SDP and PDP round between the tensors of the graph, too, and a tensor has the scale of
//! those that it is joined with.

use std::sync::{Mutex, PoisonError};

use nvdla_runtime::device::ModelDevice;

use super::loss::Loss;
use super::measure::Measured;
use crate::ir::{Graph, Ranges};
use crate::options::{Optimize, Options};
use crate::pipeline;

/// The values of the inputs of a sample, and the outputs of the float network.
pub type Known = (Vec<Vec<f32>>, Vec<Vec<f32>>);

/// The samples on which compiled networks are compared.
pub struct Judge {
    samples: Vec<Known>,
    options: Options,
}

impl Judge {
    /// `options` are those of the compilation.
    pub fn new(samples: Vec<Known>, options: &Options) -> Self {
        // The order of the operations changes no number, and the loadable has the weights.
        let options = Options { optimize: Optimize::Size, sram: 0, pictures: 1, numbers: false, ..options.clone() };
        Self { samples, options }
    }

    /// The mean ratio of noise to signal of each output. `None` if a rival has less noise at all outputs, or if the network cannot be
    /// compiled, which the compilation that follows says.
    pub fn noise(&self, graph: &Graph, ranges: &Ranges, limit: &Limit<'_>) -> Option<Noise> {
        let mut compiled = pipeline::compile(graph, ranges, &self.options).ok()?;
        let loadable = std::mem::take(&mut compiled.loadable);
        let device = ModelDevice::new(compiled.config);
        let mut network = Measured::of(&compiled, loadable, &self.options.inputs, device).ok()?;
        let count = self.samples.len() as f64;
        let mut noise = vec![0.0; graph.outputs.len()];
        for (sample, expected) in &self.samples {
            let of = |(found, expected): (&Vec<f32>, &Vec<f32>)| {
                let mut loss = Loss::default();
                loss.add(found, expected);
                loss.noise / loss.signal.max(1e-30) / count
            };
            let ratios: Noise = network.run(sample).ok()?.iter().zip(expected).map(of).collect();
            noise.iter_mut().zip(&ratios).for_each(|(sum, ratio)| *sum += ratio);
            if limit.exceeded(&ratios) {
                return None;
            }
        }
        Some(noise)
    }
}

/// The ratio of noise to signal of each output.
pub type Noise = Vec<f64>;

/// What is known of other candidates, and of a candidate on the samples so far.
pub struct Limit<'a> {
    /// A candidate is given up as soon as it has more noise than one of these at every output.
    pub rivals: &'a [Noise],
    /// The candidate's noise.
    pub sum: &'a Mutex<Noise>,
}

impl Limit<'_> {
    fn exceeded(&self, ratios: &[f64]) -> bool {
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        sum.resize(ratios.len(), 0.0);
        sum.iter_mut().zip(ratios).for_each(|(sum, ratio)| *sum += ratio);
        // The order of the sum is not the same each time.
        let less = |rival: &Noise| sum.iter().zip(rival).all(|(noise, least)| *noise > least * (1.0 + 1e-9));
        self.rivals.iter().any(less)
    }
}
