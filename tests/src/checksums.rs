// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checksums of the loadables that the compiler makes of a network: a change that only moves code keeps them.

use std::fmt;

use nvdla_compiler::ir::{Graph, Preprocess, Ranges, TensorId};
use nvdla_compiler::options::{Optimize, Options};
use nvdla_compiler::pipeline::compile;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

/// The ways in which each network is compiled for each configuration, in the order of a row.
pub const WAYS: [&str; 5] = ["int8", "memory", "sram", "mixed", "fp16"];

/// Bytes of SRAM in the way of that name.
const SRAM: u64 = 64 << 10;

/// The checksums of one network for one configuration, one per way. None where the compiler refuses the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row(pub [Option<u32>; WAYS.len()]);

impl Row {
    /// Compiles a network in every way. Way `mixed` has every third tensor in int16.
    pub fn new(
        graph: &Graph,
        ranges: &Ranges,
        inputs: &[Option<Preprocess>],
        config: &'static Config,
        ways: &[&str],
    ) -> Self {
        let base = Options { inputs: inputs.to_vec(), ..Options::new(config) };
        Self(WAYS.map(|way| {
            let options = match way {
                "memory" => Options { optimize: Optimize::Memory, ..base.clone() },
                "sram" => Options { sram: SRAM, ..base.clone() },
                "mixed" => {
                    let wide = (0..graph.tensors.len()).step_by(3).map(TensorId).collect();
                    Options { wide, ..base.clone() }
                }
                "fp16" => Options { precision: Precision::Fp16, ..base.clone() },
                _ => base.clone(),
            };
            // What a configuration lacks is refused before anything is compiled.
            ways.contains(&way).then(|| compile(graph, ranges, &options)).and_then(|compiled| match compiled {
                Ok(compiled) => Some(crc32fast::hash(&compiled.loadable)),
                Err(_) => None,
            })
        }))
    }

    /// Adds the row of another network.
    pub fn join(&mut self, other: &Self) {
        for (all, one) in self.0.iter_mut().zip(&other.0) {
            let bytes = [all.unwrap_or_default(), one.unwrap_or_default()].map(u32::to_le_bytes).concat();
            *all = Some(crc32fast::hash(&bytes));
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for checksum in self.0 {
            match checksum {
                Some(checksum) => write!(f, " {checksum:08x}")?,
                None => write!(f, " {:>8}", "-")?,
            }
        }
        Ok(())
    }
}
