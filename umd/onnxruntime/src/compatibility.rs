// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a compiled model says of the hardware that it is for, and whether this provider runs it.

use std::ffi::CString;

use nvdla_frameworks::c_string;
use nvdla_frameworks::kernel::VERSION;
use nvdla_uapi::config::Config;

/// The text for a configuration: the version of the payloads, and the configuration.
pub(crate) fn of(config: &Config) -> CString {
    c_string(&format!("nvdla;{VERSION};{}", config.name))
}

/// Whether this provider runs a model with that text.
pub(crate) fn runs(text: &str) -> bool {
    let mut parts = text.split(';');
    let fixed = parts.next() == Some("nvdla") && parts.next().and_then(|version| version.parse().ok()) == Some(VERSION);
    fixed && parts.next().is_some_and(|name| Config::by_name(name).is_some()) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_text_is_accepted_and_others_are_not() {
        assert!(runs(of(&nvdla_uapi::config::NV_SMALL).to_str().unwrap()));
        for text in ["", "nvdla", "nvdla;2;nv_small", "nvdla;1;nv_tiny", "other;1;nv_small", "nvdla;1;nv_small;x"] {
            assert!(!runs(text), "{text}");
        }
    }
}
