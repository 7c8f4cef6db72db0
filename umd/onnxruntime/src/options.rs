// SPDX-License-Identifier: MIT OR Apache-2.0

//! The options of the provider, which an application gives with `add_provider_for_devices`. ONNX Runtime passes them as entries
//! of the session's configuration.

use std::path::PathBuf;
use std::time::Duration;

use nvdla_compiler::calibrate::table;
use nvdla_compiler::options::{size, Optimize};
use nvdla_compiler::partition::Limits;
use nvdla_runtime::device::Selection;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

use crate::api::{Failure, Result};

/// The options.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// `device`: which device runs the groups.
    pub(crate) device: Selection,
    /// `device` as it was given; the same text is the same device.
    pub(crate) device_text: String,
    /// `config`: the configuration that is compiled for. None: the device's.
    pub(crate) config: Option<&'static Config>,
    /// `precision`: int8 or fp16. None: int8 for quantized models and with a table, else fp16.
    pub(crate) precision: Option<Precision>,
    /// `calibtable`: the table of scales.
    pub(crate) table: Option<String>,
    /// `sram`: bytes.
    pub(crate) sram: u64,
    /// `optimize`: time, size or memory.
    pub(crate) optimize: Optimize,
    /// `min_nodes` and `max_partitions`.
    pub(crate) limits: Limits,
    /// `dump_dir`: a folder for the loadables and the picture of the division.
    pub(crate) dump: Option<PathBuf>,
    /// `timeout_ms`: the time limit of a run of a group. None: the device's.
    pub(crate) timeout: Option<Duration>,
    /// `profile`: whether each run is logged with its times.
    pub(crate) profile: bool,
    /// Whether ONNX Runtime asks for EPContext nodes, and whether their payloads are in the model.
    pub(crate) context: Option<Embedded>,
}

/// Where the payload of an EPContext node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Embedded {
    /// In the node.
    Node,
    /// In a file of this folder.
    Beside(PathBuf),
}

/// The prefix of the provider's options among the session's entries.
pub(crate) const PREFIX: &str = "ep.nvdlaexecutionprovider.";

/// The names of the options.
const NAMES: [&str; 11] = [
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

impl Options {
    /// Reads the options. `entry` returns an entry of the session's configuration.
    pub(crate) fn read(entry: impl Fn(&str) -> Result<Option<String>>) -> Result<Self> {
        let mut options = Self { device_text: "auto".to_owned(), ..Self::default() };
        for name in NAMES {
            if let Some(value) = entry(&format!("{PREFIX}{name}"))? {
                options.set(name, &value).map_err(|reason| Failure(format!("the option {name}={value}: {reason}")))?;
            }
        }
        let on = |key| entry(key).map(|value| value.is_some_and(|value| value == "1"));
        if on("ep.context_enable")? {
            let beside = entry("ep.context_embed_mode")?.is_none_or(|mode| mode == "0");
            let path = PathBuf::from(entry("ep.context_file_path")?.unwrap_or_default());
            options.context = Some(match path.parent() {
                Some(folder) if beside => Embedded::Beside(folder.to_owned()),
                _ => Embedded::Node,
            });
        }
        if on("session.disable_cpu_ep_fallback")? {
            // The user wants no node on the processor, whatever it gains.
            options.limits.min_nodes = 0;
            options.limits.max_partitions = usize::MAX;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> std::result::Result<(), String> {
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
            _ => {
                self.profile = match value {
                    "0" | "false" => false,
                    "1" | "true" => true,
                    _ => return Err("it is 0 or 1".to_owned()),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<Options> {
        let found = |key: &str| entries.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned());
        Options::read(|key| Ok(found(key)))
    }

    #[test]
    fn options_are_read_and_errors_name_them() {
        let options = read(&[
            ("ep.nvdlaexecutionprovider.device", "model"),
            ("ep.nvdlaexecutionprovider.config", "nv_small"),
            ("ep.nvdlaexecutionprovider.sram", "512K"),
            ("ep.context_enable", "1"),
            ("ep.context_embed_mode", "1"),
        ])
        .unwrap();
        assert_eq!(options.config.map(|config| config.name), Some("nv_small"));
        assert_eq!((options.sram, options.context), (512 << 10, Some(Embedded::Node)));
        for (name, value) in [("precision", "int4"), ("min_nodes", "-1"), ("config", "nv_tiny"), ("profile", "x")] {
            let Failure(text) = read(&[(&format!("{PREFIX}{name}"), value)]).unwrap_err();
            assert!(text.starts_with(&format!("the option {name}={value}: ")), "{text}");
        }
    }

    #[test]
    fn no_node_is_left_to_the_processor_when_the_session_forbids_it() {
        assert_eq!(read(&[("session.disable_cpu_ep_fallback", "1")]).unwrap().limits.min_nodes, 0);
    }
}
