// SPDX-License-Identifier: MIT OR Apache-2.0

//! The names that this project's compiler writes into a loadable: the layers of the model that each operation computes,
//! the scales of the inputs and outputs, and the configuration. `docs/compiler.md` describes the blob, which is JSON.

use std::fmt;

use serde_json::Value;

/// The blob's name. No memory contains it, so that other runtimes ignore it.
pub const BLOB: &str = "nvdla-names";

/// Names and scales.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// The name of the hardware configuration that the network was compiled for.
    pub configuration: Option<String>,
    /// For each input, in the order of the bind ids.
    pub inputs: Vec<Scale>,
    /// For each output.
    pub outputs: Vec<Scale>,
    layers: Vec<Layer>,
    /// The layer of each operation of each task.
    tasks: Vec<Vec<usize>>,
}

/// The scale of a tensor: real value = (integer - zero point) * scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scale {
    /// The tensor's name in the model.
    pub tensor: String,
    /// One value, or one per channel in the order of the channels in memory. 1 in fp16.
    pub scale: Vec<f64>,
    /// One value per scale; not always whole numbers.
    pub zero_point: Vec<f64>,
    /// Whether the 8-bit elements of a picture are 0 to 255. Otherwise they are -128 to 127.
    pub unsigned: bool,
}

/// The layer that an operation computes, or computes a part of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// The nodes of the model; none if the compiler added the step.
    pub nodes: Vec<String>,
    /// The tensor that it writes.
    pub tensor: String,
    /// The real value of an integer step; 1 in fp16.
    pub scale: f64,
}

impl fmt::Display for Layer {
    /// The nodes, or the tensor if there are none. Characters that control a terminal are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes.is_empty() {
            return write!(f, "({})", self.tensor.escape_debug());
        }
        for (k, node) in self.nodes.iter().enumerate() {
            write!(f, "{}{}", if k > 0 { ", " } else { "" }, node.escape_debug())?;
        }
        Ok(())
    }
}

impl Names {
    /// The layer of an operation.
    pub fn layer(&self, task: u16, operation: usize) -> Option<&Layer> {
        self.layers.get(*self.tasks.get(usize::from(task))?.get(operation)?)
    }

    /// Reads the blob; none if the bytes are not such a blob.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let numbers = |value: &Value| value.as_array()?.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>();
        let scale = |value: &Value| {
            let (scale, zero_point) = (numbers(&value["scale"])?, numbers(&value["zero_point"])?);
            let valid = !scale.is_empty() && scale.len() == zero_point.len();
            let unsigned = value["unsigned"].as_bool().unwrap_or(false);
            valid.then_some(Scale { tensor: text(&value["tensor"])?, scale, zero_point, unsigned })
        };
        let layer = |value: &Value| {
            let [tensor, scale, nodes @ ..] = value.as_array()?.as_slice() else { return None };
            let nodes = nodes.iter().map(text).collect::<Option<_>>()?;
            Some(Layer { nodes, tensor: text(tensor)?, scale: scale.as_f64()? })
        };
        let task = |value: &Value| {
            let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
            value.as_array()?.iter().map(number).collect::<Option<_>>()
        };
        Some(Self {
            configuration: text(&value["configuration"]),
            inputs: value["inputs"].as_array()?.iter().map(scale).collect::<Option<_>>()?,
            outputs: value["outputs"].as_array()?.iter().map(scale).collect::<Option<_>>()?,
            layers: value["steps"].as_array()?.iter().map(layer).collect::<Option<_>>()?,
            tasks: value["tasks"].as_array()?.iter().map(task).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
        "inputs": [{"tensor": "data", "scale": [0.5], "zero_point": [3.5], "unsigned": true}], "outputs": [],
        "steps": [["x", 2, "conv", "re\u001blu"], ["y", 1]],
        "tasks": [[0, 0, 1, 7]]
    }"#;

    #[test]
    fn layers_of_operations() {
        let names = Names::parse(TEXT.as_bytes()).unwrap();
        assert_eq!(names.layer(0, 1).unwrap().to_string(), "conv, re\\u{1b}lu");
        assert_eq!(names.layer(0, 2).unwrap().to_string(), "(y)");
        assert_eq!((names.layer(0, 3), names.layer(0, 4), names.layer(1, 0)), (None, None, None));
        let data = Scale { tensor: "data".to_owned(), scale: vec![0.5], zero_point: vec![3.5], unsigned: true };
        assert_eq!(names.inputs, [data]);
    }

    #[test]
    fn other_json_is_no_blob_of_names() {
        for (from, to) in
            [("[3.5]", "[]"), ("\"tasks\"", "\"task\""), ("7]", "-1]"), ("\"y\"", "1"), (", 1]]", "]]"), ("{", "[")]
        {
            assert!(TEXT.contains(from));
            assert_eq!(Names::parse(TEXT.replacen(from, to, 1).as_bytes()), None, "{from}");
        }
    }
}
