// SPDX-License-Identifier: MIT OR Apache-2.0

//! The options of the provider, which an application gives with `add_provider_for_devices`. ONNX Runtime passes them as entries
//! of the session's configuration.

use std::path::PathBuf;

use nvdla_frameworks::options;
use nvdla_frameworks::Result;

/// The options.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Those that every plugin has.
    pub(crate) common: options::Options,
    /// Whether ONNX Runtime asks for EPContext nodes, and whether their payloads are in the model.
    pub(crate) context: Option<Embedded>,
}

/// Where the payload of an EPContext node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Embedded {
    /// In the node.
    Node,
    /// In a file beside the model of EPContext nodes, which has this path; empty: the model's own name with `_ctx` behind it.
    Beside(PathBuf),
}

/// The prefix of the provider's options among the session's entries.
pub(crate) const PREFIX: &str = "ep.nvdlaexecutionprovider.";

impl Options {
    /// Reads the options. `entry` returns an entry of the session's configuration.
    pub(crate) fn read(entry: impl Fn(&str) -> Result<Option<String>>) -> Result<Self> {
        let mut options = Self::default();
        for name in options::NAMES {
            if let Some(value) = entry(&format!("{PREFIX}{name}"))? {
                options.common.set(name, &value)?;
            }
        }
        let on = |key| entry(key).map(|value| value.is_some_and(|value| value == "1"));
        if on("ep.context_enable")? {
            // As ONNX Runtime's own default.
            let beside = entry("ep.context_embed_mode")?.is_none_or(|mode| mode == "0");
            let path = PathBuf::from(entry("ep.context_file_path")?.unwrap_or_default());
            options.context = Some(if beside { Embedded::Beside(path) } else { Embedded::Node });
        }
        if on("session.disable_cpu_ep_fallback")? {
            options.common.claim_all();
        }
        Ok(options)
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
    fn entries_of_the_session_are_options() {
        let options = read(&[
            ("ep.nvdlaexecutionprovider.config", "nv_small"),
            ("ep.context_enable", "1"),
            ("ep.context_embed_mode", "1"),
        ])
        .unwrap();
        assert_eq!(options.common.config.map(|config| config.name), Some("nv_small"));
        assert_eq!(options.context, Some(Embedded::Node));
        assert_eq!(read(&[("ep.context_enable", "1")]).unwrap().context, Some(Embedded::Beside(PathBuf::new())));
        assert!(read(&[("ep.nvdlaexecutionprovider.config", "nv_tiny")]).is_err());
    }

    #[test]
    fn no_node_is_left_to_the_processor_when_the_session_forbids_it() {
        assert_eq!(read(&[("session.disable_cpu_ep_fallback", "1")]).unwrap().common.limits.min_nodes, 0);
    }
}
