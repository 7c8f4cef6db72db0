// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether what a program prints with `--json` is valid against `docs/nvdla.schema.json`. Only the schema's own words are known: a
//! word that is new there is an error here.

use std::path::Path;

use serde_json::Value;

/// Words that ask for nothing else in [`check`]'s list of words.
const KNOWN: [&str; 9] = [
    "additionalProperties",
    "description",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "properties",
];

/// The one object that a program has printed.
///
/// # Panics
///
/// When the text is not one object, or is not valid against the schema.
pub fn object(printed: &str) -> Value {
    let object: Value = serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("docs/nvdla.schema.json"));
    let path = path.into_iter().find(|path| path.exists()).expect("the schema is in the project's folder");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    // A fault of the wanted kind of object says more than that no kind fits, so the kind with the fewest faults is shown.
    let faults = schema["anyOf"].as_array().unwrap().iter().map(|kind| {
        let mut faults = Vec::new();
        check(&schema, kind, &object, "", &mut faults);
        faults
    });
    let faults = faults.min_by_key(Vec::len).unwrap();
    assert!(faults.is_empty(), "{faults:#?}\n{printed}");
    object
}

fn check(schema: &Value, of: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    // `true` is a rule that anything fits.
    let Some(words) = of.as_object() else { return };
    for (word, rule) in words {
        match word.as_str() {
            "$ref" => {
                let name = rule.as_str().unwrap().rsplit('/').next().unwrap();
                check(schema, &schema["$defs"][name], value, at, faults);
                return;
            }
            "anyOf" => {
                let fits = |rule: &Value| {
                    let mut inner = Vec::new();
                    check(schema, rule, value, at, &mut inner);
                    inner.is_empty()
                };
                if !rule.as_array().unwrap().iter().any(fits) {
                    faults.push(format!("{at}: no alternative fits {value}"));
                }
            }
            "type" => {
                let kinds = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                if !kinds.iter().any(|kind| is(kind.as_str().unwrap(), value)) {
                    faults.push(format!("{at}: {value} is not {rule}"));
                }
            }
            "minimum" if value.as_f64() < rule.as_f64() => faults.push(format!("{at}: {value} is less than {rule}")),
            "maximum" if value.as_f64() > rule.as_f64() => faults.push(format!("{at}: {value} is more than {rule}")),
            "minItems" | "maxItems" if value.as_array().map(Vec::len) != rule.as_u64().map(|n| n as usize) => {
                faults.push(format!("{at}: not {rule} items"));
            }
            "required" => {
                let missing =
                    rule.as_array().unwrap().iter().filter(|name| value.get(name.as_str().unwrap()).is_none());
                missing.for_each(|name| faults.push(format!("{at}: it lacks {name}")));
            }
            word if KNOWN.contains(&word) => {}
            other => faults.push(format!("{at}: this test does not know {other}")),
        }
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        match (of.get("properties").and_then(|known| known.get(name)), of.get("additionalProperties")) {
            (Some(rule), _) | (None, Some(rule @ (Value::Object(_) | Value::Bool(true)))) => {
                check(schema, rule, field, &at, faults);
            }
            // Any value.
            (None, _) if of.get("type").is_none() && of.get("properties").is_none() => {}
            (None, _) => faults.push(format!("{at}: the schema lacks it")),
        }
    }
    if let Some(rule) = of.get("items").filter(|rule| rule.is_object()) {
        for (k, item) in value.as_array().into_iter().flatten().enumerate() {
            check(schema, rule, item, &format!("{at}/{k}"), faults);
        }
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}
