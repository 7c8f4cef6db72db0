// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hardware configurations as a user names them: by name, or by a file that describes one.
//!
//! A file describes how a configuration differs from one of the hardware project's, its base. It is a JSON object;
//! `docs/library.md` lists its keys. Properties that all configurations of the hardware project share have no key: an entry of
//! the convolution buffer is as wide as atomic-C, and an atom of memory as atomic-K (`spec/defs/*.spec`). Units and features of
//! the base can be removed; none can be added.

use std::path::Path;

use nvdla_estimate::Conditions;
use nvdla_uapi::config::{Config, MemoryInterface, UnknownName};
use nvdla_uapi::reg::Family;
use serde_json::{Map, Value};
use thiserror::Error as ThisError;

use crate::{conditions, files};

/// The greatest size of a file in bytes.
const MAX_BYTES: u64 = 1 << 16;

/// A configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// There is no configuration of that name.
    #[error("{}", UnknownName(name))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file cannot be read or does not describe a configuration.
    #[error("the configuration {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why, with the key and its value.
        reason: String,
    },
}

/// The key of a file for the conditions of estimates.
const CONDITIONS: &str = "conditions";

/// A configuration, and the conditions of estimates for the board that has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Board {
    /// The hardware's configuration.
    pub config: &'static Config,
    /// Those of the file, or the defaults.
    pub conditions: Conditions,
}

/// The configuration of that name. A name that has a slash or ends in `.json` is a file that describes the configuration.
///
/// A configuration from a file stays in memory until the process ends.
///
/// # Errors
///
/// If there is no configuration of that name, or the file cannot be read or does not describe one.
///
/// ```
/// use nvdla_runtime::configuration;
///
/// assert_eq!(configuration::find("nv_small")?.mac_atomic_c, 8);
/// assert!(configuration::find("none.json").is_err());
/// # Ok::<(), configuration::Error>(())
/// ```
pub fn find(text: &str) -> Result<&'static Config, Error> {
    board(text).map(|board| board.config)
}

/// As [`find`], with the conditions that the file has beside the configuration.
///
/// # Errors
///
/// As [`find`].
pub fn board(text: &str) -> Result<Board, Error> {
    let path = Path::new(text);
    if !text.contains('/') && path.extension().is_none_or(|extension| extension != "json") {
        let config = Config::by_name(text).ok_or_else(|| Error::Unknown { name: text.to_owned() })?;
        return Ok(Board { config, conditions: Conditions::default() });
    }
    let failed = |reason| Error::File { path: text.to_owned(), reason };
    let bytes = files::read(path, MAX_BYTES).map_err(|error| failed(error.to_string()))?;
    let (config, conditions) = parse(&bytes).map_err(failed)?;
    Ok(Board { config: Box::leak(Box::new(config)), conditions })
}

/// The configuration and the conditions that the bytes of a file describe.
fn parse(bytes: &[u8]) -> Result<(Config, Conditions), String> {
    let mut keys: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let conditions = match keys.remove(CONDITIONS) {
        Some(value) => conditions::parse(&value).map_err(|reason| format!("{CONDITIONS}: {reason}"))?,
        None => Conditions::default(),
    };
    let mut text = |key: &str| match keys.remove(key) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("{key} is {other}, which is not a string")),
        None => Err(format!("{key} is missing")),
    };
    let (base, name) = (text("base")?, text("name")?);
    let mut config = *Config::named(&base).map_err(|error| error.to_string())?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || name.len() > 31 || !name.bytes().all(plain) || Config::by_name(&name).is_some() {
        return Err(format!(
            "name is {name:?}; it has 1 to 31 lower-case letters, digits and underscores, and is not a name of the hardware \
             project's"
        ));
    }
    for (key, value) in &keys {
        set(&mut config, key, value)?;
    }
    config.name = Box::leak(name.into_boxed_str());
    (config.memory_atomic, config.cbuf_bank_width) = (config.mac_atomic_k, config.mac_atomic_c);
    config.secondary = config.secondary.filter(|_| config.secondary_memif);
    config.sdp_ew_throughput = config.sdp_ew_throughput.filter(|_| config.sdp_ew);
    if config.mac_atomic_k > config.mac_atomic_c {
        let (c, k) = (config.mac_atomic_c, config.mac_atomic_k);
        return Err(format!("mac_atomic_k is {k}, and mac_atomic_c only {c}"));
    }
    Ok((config, conditions))
}

/// Sets the field that a key names.
fn set(config: &mut Config, key: &str, value: &Value) -> Result<(), String> {
    if let Some(flag) = flag(config, key) {
        let wanted = value.as_bool().ok_or_else(|| format!("{key} is {value}; it is true or false"))?;
        if wanted && !*flag {
            return Err(format!("{key} is true, and the base {} does not have it", config.name));
        }
        *flag = wanted;
        return Ok(());
    }
    let number = |of: &Value, what: &str, allowed: &dyn Fn(u32) -> bool, range: &str| {
        let number = of.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|&number| allowed(number));
        number.ok_or_else(|| format!("{what} is {of}; it is {range}"))
    };
    let power = |most: u32| move |number: u32| number.is_power_of_two() && (8..=most).contains(&number);
    let up_to = |most: u32| move |number: u32| (1..=most).contains(&number);
    // The RTL of nv_full has no other sizes.
    if config.family == Family::NvFull && (key.starts_with("mac_") || key.starts_with("cbuf_")) {
        return Err(format!("{key} cannot be changed where the base is {}", config.name));
    }
    let size = |allowed: &dyn Fn(u32) -> bool, range: &str| number(value, key, allowed, range);
    let throughput = || size(&up_to(32), "1 to 32");
    let interface = |interface: MemoryInterface| -> Result<MemoryInterface, String> {
        let mut interface = interface;
        let fields = value.as_object().ok_or_else(|| format!("{key} is {value}; it is an object"))?;
        for (field, value) in fields {
            let what = format!("{key}.{field}");
            match field.as_str() {
                "latency" => interface.latency = number(value, &what, &up_to(1 << 16), "1 to 65536 cycles")?,
                "max_burst_length" => interface.max_burst_length = number(value, &what, &up_to(256), "1 to 256")?,
                "width" => {
                    let bits = |number: u32| number.is_power_of_two() && (32..=1024).contains(&number);
                    interface.width = number(value, &what, &bits, "a power of two of 32 to 1024 bits")?;
                }
                _ => return Err(format!("{what} is not a key")),
            }
        }
        Ok(interface)
    };
    match key {
        "mac_atomic_c" => config.mac_atomic_c = size(&power(64), "8, 16, 32 or 64")?,
        "mac_atomic_k" => config.mac_atomic_k = size(&power(32), "8, 16 or 32")?,
        "cbuf_banks" => config.cbuf_banks = size(&|banks| (2..=32).contains(&banks), "2 to 32")?,
        "cbuf_bank_depth" => {
            let entries = |number: u32| number.is_power_of_two() && (64..=512).contains(&number);
            config.cbuf_bank_depth = size(&entries, "64, 128, 256 or 512 entries")?;
        }
        "sdp_bs_throughput" => config.sdp_bs_throughput = throughput()?,
        "sdp_bn_throughput" => config.sdp_bn_throughput = throughput()?,
        "sdp_ew_throughput" => config.sdp_ew_throughput = Some(throughput()?),
        "pdp_throughput" => config.pdp_throughput = throughput()?,
        "cdp_throughput" => config.cdp_throughput = throughput()?,
        "primary" => config.primary = interface(config.primary)?,
        "secondary" => {
            let of_base = config.secondary.ok_or_else(|| format!("the base {} has no secondary", config.name))?;
            config.secondary = Some(interface(of_base)?);
        }
        "address_width" => {
            let bits = |bits: u32| (32..=64).contains(&bits);
            config.address_width = Some(size(&bits, "32 to 64 bits")?);
        }
        _ => return Err(format!("{key} is not a key")),
    }
    Ok(())
}

/// The unit or feature that a key names.
fn flag<'a>(config: &'a mut Config, key: &str) -> Option<&'a mut bool> {
    Some(match key {
        "weight_compression" => &mut config.weight_compression,
        "winograd" => &mut config.winograd,
        "batch" => &mut config.batch,
        "secondary_memif" => &mut config.secondary_memif,
        "sdp_lut" => &mut config.sdp_lut,
        "sdp_bs" => &mut config.sdp_bs,
        "sdp_bn" => &mut config.sdp_bn,
        "sdp_ew" => &mut config.sdp_ew,
        "bdma" => &mut config.bdma,
        "rubik" => &mut config.rubik,
        "rubik_contract" => &mut config.rubik_contract,
        "rubik_reshape" => &mut config.rubik_reshape,
        "pdp" => &mut config.pdp,
        "cdp" => &mut config.cdp,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvdla_uapi::config::{NV_LARGE, NV_SMALL};

    #[test]
    fn a_file_says_what_differs_from_a_base() {
        let parsed = parse(br#"{"name": "board", "base": "nv_small"}"#).unwrap();
        assert_eq!(parsed, (Config { name: "board", ..NV_SMALL }, Conditions::default()));
        let text = br#"{"name": "half", "base": "nv_large", "mac_atomic_c": 32, "mac_atomic_k": 16, "cbuf_banks": 8,
            "secondary_memif": false, "sdp_ew": false, "primary": {"latency": 80, "width": 128},
            "conditions": {"dram_gb_s": 3.2}}"#;
        let (config, conditions) = parse(text).unwrap();
        let primary = MemoryInterface { latency: 80, width: 128, ..NV_LARGE.primary };
        let expected = Config {
            name: "half",
            mac_atomic_c: 32,
            mac_atomic_k: 16,
            memory_atomic: 16,
            cbuf_bank_width: 32,
            cbuf_banks: 8,
            secondary_memif: false,
            secondary: None,
            sdp_ew: false,
            sdp_ew_throughput: None,
            primary,
            ..NV_LARGE
        };
        assert_eq!(config, expected);
        assert_eq!(conditions, Conditions { dram: 3.2, ..Conditions::default() });
    }

    #[test]
    fn impossible_values_are_refused_by_name() {
        for (more, message) in [
            (r#", "mac_atomic_c": 12"#, "mac_atomic_c is 12; it is 8, 16, 32 or 64"),
            (r#", "mac_atomic_k": 16"#, "mac_atomic_k is 16, and mac_atomic_c only 8"),
            (r#", "bdma": true"#, "bdma is true, and the base nv_small does not have it"),
            (r#", "pdp": 1"#, "pdp is 1; it is true or false"),
            (r#", "secondary": {}"#, "the base nv_small has no secondary"),
            (r#", "primary": {"width": 100}"#, "primary.width is 100; it is a power of two of 32 to 1024 bits"),
            (r#", "primary": 3"#, "primary is 3; it is an object"),
            (r#", "conditions": {"dram": 3}"#, "conditions: dram is not a key"),
            (r#", "cbuf": 3"#, "cbuf is not a key"),
            (r#", "primary": {"size": 1}"#, "primary.size is not a key"),
        ] {
            let text = format!(r#"{{"name": "board", "base": "nv_small"{more}}}"#);
            assert_eq!(parse(text.as_bytes()).unwrap_err(), message);
        }
        for (text, message) in [
            (r#"{"name": "board"}"#, "base is missing"),
            (r#"{"name": 1, "base": "nv_small"}"#, "name is 1, which is not a string"),
            (
                r#"{"name": "a", "base": "nv_full", "mac_atomic_c": 8}"#,
                "mac_atomic_c cannot be changed where the base is nv_full",
            ),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), message);
        }
        for name in ["", "nv_large", "a b", "Board"] {
            let text = format!(r#"{{"name": "{name}", "base": "nv_small"}}"#);
            assert!(parse(text.as_bytes()).unwrap_err().starts_with("name is"), "{name}");
        }
        assert!(parse(br#"{"base": "nv_tiny", "name": "a"}"#).unwrap_err().starts_with("there is no configuration"));
        assert!(parse(b"[]").is_err());
        assert_eq!(find("nv_tiny").unwrap_err(), Error::Unknown { name: "nv_tiny".into() });
        assert!(find("none/at.all").unwrap_err().to_string().starts_with("the configuration none/at.all: "));
    }
}
