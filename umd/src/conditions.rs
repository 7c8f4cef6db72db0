// SPDX-License-Identifier: MIT OR Apache-2.0

//! The conditions of estimates as JSON: in a loadable, and in the file of a configuration. The keys are those of `--profile --json`.

use nvdla_estimate::Conditions;
use serde_json::{Map, Value};

/// The object of some conditions.
pub fn to_json(conditions: &Conditions) -> Value {
    let Conditions { clock, dram, sram, latency, register_write } = *conditions;
    serde_json::json!({
        "clock_mhz": clock, "dram_gb_s": dram, "sram_gb_s": sram, "latency_cycles": latency, "register_write_ns": register_write
    })
}

/// Reads such an object. A missing key has the value of [`Conditions::default`].
///
/// # Errors
///
/// If it is no object, has another key, or a value that is not a positive number. The latency is an integer and may be 0.
pub fn parse(value: &Value) -> Result<Conditions, String> {
    let keys: &Map<String, Value> = value.as_object().ok_or_else(|| format!("{value} is not an object"))?;
    let mut conditions = Conditions::default();
    for (key, value) in keys {
        let field = match key.as_str() {
            "clock_mhz" => &mut conditions.clock,
            "dram_gb_s" => &mut conditions.dram,
            "sram_gb_s" => &mut conditions.sram,
            "register_write_ns" => &mut conditions.register_write,
            "latency_cycles" => {
                let latency = value.as_u64().and_then(|latency| u32::try_from(latency).ok());
                conditions.latency = latency.ok_or_else(|| format!("{key} is {value}; it is a number of cycles"))?;
                continue;
            }
            _ => return Err(format!("{key} is not a key")),
        };
        let positive = value.as_f64().filter(|number| number.is_finite() && *number > 0.0);
        *field = positive.ok_or_else(|| format!("{key} is {value}; it is a positive number"))?;
    }
    Ok(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_say_what_differs_from_the_defaults() {
        let conditions = Conditions { dram: 2.5, latency: 0, ..Conditions::default() };
        assert_eq!(parse(&to_json(&conditions)), Ok(conditions));
        assert_eq!(parse(&serde_json::json!({"dram_gb_s": 2.5, "latency_cycles": 0})), Ok(conditions));
        for (object, reason) in [
            (serde_json::json!({"dram": 1}), "dram is not a key"),
            (serde_json::json!({"dram_gb_s": 0}), "dram_gb_s is 0; it is a positive number"),
            (serde_json::json!({"latency_cycles": 1.5}), "latency_cycles is 1.5; it is a number of cycles"),
            (serde_json::json!(3), "3 is not an object"),
        ] {
            assert_eq!(parse(&object), Err(reason.to_owned()));
        }
    }
}
