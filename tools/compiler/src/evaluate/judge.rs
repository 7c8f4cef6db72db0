// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which scales and which form of a network change its outputs least: candidates are compiled, and run on samples on the model. The float
//! network with rounded numbers does not show it: SDP and PDP round between the tensors of the graph, too, and a tensor has the scale of
//! those that it is joined with.

use rayon::prelude::*;

use super::loss::Loss;
use super::measure::Measured;
use crate::calibrate::Error;
use crate::float;
use crate::ir::{Graph, Ranges};
use crate::options::{Optimize, Options};
use crate::pipeline;

/// The samples on which compiled networks are compared, with the outputs of the float network.
pub struct Judge {
    samples: Vec<Vec<Vec<f32>>>,
    expected: Vec<Vec<Vec<f32>>>,
    options: Options,
}

impl Judge {
    /// Runs the float network. `options` are those of the compilation.
    pub fn new(graph: &Graph, samples: Vec<Vec<Vec<f32>>>, options: &Options) -> Result<Self, Error> {
        if samples.is_empty() {
            return Err(Error::Sample("there is no sample".to_owned()));
        }
        let outputs = |sample: &Vec<Vec<f32>>| float::run(graph, sample, &mut |_, _| {});
        let expected = samples.par_iter().map(outputs).collect::<Result<_, _>>().map_err(Error::Sample)?;
        // The order of the operations changes no number.
        let options = Options { optimize: Optimize::Size, sram: 0, pictures: 1, ..options.clone() };
        Ok(Self { samples, expected, options })
    }

    /// The mean ratio of noise to signal of the outputs; infinite if it exceeds `most`, or if the network cannot be compiled, which the
    /// compilation that follows says.
    pub fn noise(&self, graph: &Graph, ranges: &Ranges, most: f64) -> f64 {
        self.ratio(graph, ranges, most).unwrap_or(f64::INFINITY)
    }

    fn ratio(&self, graph: &Graph, ranges: &Ranges, most: f64) -> Option<f64> {
        let compiled = pipeline::compile(graph, ranges, &self.options).ok()?;
        let mut network = Measured::new(&compiled, &self.options.inputs).ok()?;
        let mut noise = 0.0;
        for (sample, expected) in self.samples.iter().zip(&self.expected) {
            for (found, expected) in network.run(sample).ok()?.iter().zip(expected) {
                let mut loss = Loss::default();
                loss.add(found, expected);
                noise += loss.noise / loss.signal.max(1e-30);
            }
            if noise > most * self.samples.len() as f64 {
                return None;
            }
        }
        Some(noise / self.samples.len() as f64)
    }
}
