// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which scales and which form of a network change its outputs least: candidates are compiled, and run on samples on the model. The float
//! network with rounded numbers does not show it: SDP and PDP round between the tensors of the graph, too, and a tensor has the scale of
//! those that it is joined with.

use std::sync::{Mutex, PoisonError};

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
        // The order of the operations changes no number.
        let options = Options { optimize: Optimize::Size, sram: 0, pictures: 1, ..options.clone() };
        Self { samples, options }
    }

    /// The mean ratio of noise to signal of the outputs; infinite if the limit is exceeded, or if the network cannot be compiled, which
    /// the compilation that follows says.
    pub fn noise(&self, graph: &Graph, ranges: &Ranges, limit: &Limit) -> f64 {
        self.ratio(graph, ranges, limit).unwrap_or(f64::INFINITY)
    }

    fn ratio(&self, graph: &Graph, ranges: &Ranges, limit: &Limit) -> Option<f64> {
        let mut compiled = pipeline::compile(graph, ranges, &self.options).ok()?;
        // The loadable has the weights.
        compiled.steps.numbers = Vec::new();
        let mut network = Measured::new(&compiled, &self.options.inputs).ok()?;
        let (mut noise, count) = (0.0, self.samples.len() as f64);
        for (sample, expected) in &self.samples {
            let before = noise;
            for (found, expected) in network.run(sample).ok()?.iter().zip(expected) {
                let mut loss = Loss::default();
                loss.add(found, expected);
                noise += loss.noise / loss.signal.max(1e-30);
            }
            if limit.exceeded((noise - before) / count) {
                return None;
            }
        }
        Some(noise / count)
    }
}

/// The most that the noise of a candidate on all samples may be, and what it is so far.
pub struct Limit {
    most: f64,
    sum: Mutex<f64>,
}

impl Limit {
    /// A limit of a candidate.
    pub fn new(most: f64) -> Self {
        Self { most, sum: Mutex::new(0.0) }
    }

    fn exceeded(&self, noise: f64) -> bool {
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        *sum += noise;
        // The order of the sum is not the same each time.
        *sum > self.most * (1.0 + 1e-9)
    }
}
