// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a user of a plugin can set.

use std::path::PathBuf;
use std::time::Duration;

use nvdla_compiler::calibrate::table;
use nvdla_compiler::options::{size, Optimize};
use nvdla_compiler::partition::Limits;
use nvdla_runtime::device::Selection;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

use crate::failure::{Failure, Result};

/// The options.
#[derive(Clone, Debug)]
pub struct Options {
    /// `device`: which device runs the groups.
    pub device: Selection,
    /// `device` as it was given; the same text is the same device.
    pub device_text: String,
    /// `config`: the configuration that is compiled for. None: the device's.
    pub config: Option<&'static Config>,
    /// `precision`: int8 or fp16. None: int8 for quantized models of 8 bits and with a table, else fp16.
    pub precision: Option<Precision>,
    /// `calibtable`: the table of scales.
    pub table: Option<String>,
    /// `sram`: bytes.
    pub sram: u64,
    /// `optimize`: time, size or memory.
    pub optimize: Optimize,
    /// `min_nodes` and `max_partitions`.
    pub limits: Limits,
    /// `dump_dir`: a folder for the loadables and the picture of the division.
    pub dump: Option<PathBuf>,
    /// `timeout_ms`: the time limit of a run of a group. None: the device's.
    pub timeout: Option<Duration>,
    /// `profile`: whether each run is logged with its times.
    pub profile: bool,
}

/// The names of the options.
pub const NAMES: [&str; 11] = [
    "device",
    "config",
    "precision",
    "calibtable",
    "sram",
    "optimize",
    "min_nodes",
    "max_partitions",
    "dump_dir",
    "timeout_ms",
    "profile",
];

impl Default for Options {
    fn default() -> Self {
        Self {
            device: Selection::default(),
            device_text: "auto".to_owned(),
            config: None,
            precision: None,
            table: None,
            sram: 0,
            optimize: Optimize::default(),
            limits: Limits::default(),
            dump: None,
            timeout: None,
            profile: false,
        }
    }
}

impl Options {
    /// Sets an option of [`NAMES`].
    ///
    /// # Errors
    ///
    /// If there is no such option, or the value is none of its values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.parse(name, value).map_err(|reason| Failure(format!("the option {name}={value}: {reason}")))
    }

    /// Leaves no node to the processor that NVDLA can run, whatever it gains.
    pub fn claim_all(&mut self) {
        self.limits.min_nodes = 0;
        self.limits.max_partitions = usize::MAX;
    }

    fn parse(&mut self, name: &str, value: &str) -> std::result::Result<(), String> {
        let count = |value: &str| value.parse::<usize>().map_err(|_| "it is not a whole number".to_owned());
        match name {
            "device" => {
                self.device =
                    value.parse().map_err(|error: nvdla_runtime::device::SelectionError| error.to_string())?;
                value.clone_into(&mut self.device_text);
            }
            "config" => {
                self.config = Some(nvdla_runtime::configuration::find(value).map_err(|error| error.to_string())?);
            }
            "precision" => {
                self.precision = match value {
                    "auto" => None,
                    "int8" => Some(Precision::Int8),
                    "fp16" => Some(Precision::Fp16),
                    _ => return Err("the precisions are auto, int8 and fp16".to_owned()),
                }
            }
            "calibtable" => self.table = Some(table::open(value).map_err(|error| error.to_string())?),
            "sram" => self.sram = size(value)?,
            "optimize" => {
                self.optimize = match value {
                    "time" => Optimize::Time,
                    "size" => Optimize::Size,
                    "memory" => Optimize::Memory,
                    _ => return Err("the goals are time, size and memory".to_owned()),
                }
            }
            "min_nodes" => self.limits.min_nodes = count(value)?,
            "max_partitions" => self.limits.max_partitions = count(value)?,
            "dump_dir" => {
                std::fs::create_dir_all(value).map_err(|error| error.to_string())?;
                self.dump = Some(PathBuf::from(value));
            }
            "timeout_ms" => self.timeout = Some(Duration::from_millis(count(value)? as u64)),
            "profile" => self.profile = truth(value)?,
            _ => return Err(format!("there is no such option; the options are {}", NAMES.join(", "))),
        }
        Ok(())
    }
}

/// A truth value.
///
/// # Errors
///
/// If the text is something else.
pub fn truth(value: &str) -> std::result::Result<bool, String> {
    match value {
        "0" | "false" => Ok(false),
        "1" | "true" => Ok(true),
        _ => Err("it is 0 or 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_errors_name_them() {
        let mut options = Options::default();
        for (name, value) in [("device", "model"), ("config", "nv_small"), ("sram", "512K")] {
            options.set(name, value).unwrap();
        }
        assert_eq!((options.config.map(|config| config.name), options.sram), (Some("nv_small"), 512 << 10));
        for (name, value) in
            [("precision", "int4"), ("min_nodes", "-1"), ("config", "nv_tiny"), ("profile", "x"), ("colour", "red")]
        {
            let Failure(text) = options.set(name, value).unwrap_err();
            assert!(text.starts_with(&format!("the option {name}={value}: ")), "{text}");
        }
    }
}
