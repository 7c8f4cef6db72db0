// SPDX-License-Identifier: MIT OR Apache-2.0

//! The names that this project's compiler writes into a loadable: the layers of the model that each operation computes,
//! the scales of the inputs and outputs, and the configuration. `docs/compiler.md` describes the blob, which is JSON.

use std::fmt;

use nvdla_estimate::Conditions;
use serde_json::Value;

use crate::conditions;

/// The blob's name. No memory contains it, so that other runtimes ignore it.
pub const BLOB: &str = "nvdla-names";

/// Names and scales.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// The name of the hardware configuration that the network was compiled for.
    pub configuration: Option<String>,
    /// The conditions by which the compiler estimated times.
    pub conditions: Conditions,
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
    /// Whether the channels of an input are last in the model: `[N, H, W, C]`. Arrays of this order are accepted too.
    pub channels_last: bool,
    /// How pictures become the input's values, if the network was compiled for pictures.
    pub pictures: Option<Pictures>,
}

/// How the bytes of a picture become a network's values: value = (byte - mean) / std, per channel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pictures {
    /// The number of the network's channels. The tensor in memory may have one more, which is not used.
    pub channels: u32,
    /// One number for all channels, or one per channel of the network, in units of the byte.
    pub mean: Vec<f64>,
    /// One number for all channels, or one per channel of the network, in units of the byte.
    pub std: Vec<f64>,
    /// The order of the network's channels. In memory blue is always first.
    pub color: Color,
    /// How pictures are fitted to the input's size.
    pub fit: Fit,
}

/// The order of a network's channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// Red, green, blue.
    #[default]
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// One channel of luminance.
    Gray,
}

impl Color {
    /// Its name: `rgb`, `bgr` or `gray`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rgb => "rgb",
            Self::Bgr => "bgr",
            Self::Gray => "gray",
        }
    }
}

/// How a picture that does not have the input's size is fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// It is refused.
    #[default]
    Exact,
    /// It is scaled to the size; its proportions may change.
    Stretch,
    /// Its shorter side is scaled to the size, and the middle is used.
    Crop,
}

impl Fit {
    /// Its name: `exact`, `stretch` or `crop`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Stretch => "stretch",
            Self::Crop => "crop",
        }
    }
}

impl Pictures {
    /// The mean and the standard deviation of a channel of the network.
    pub fn channel(&self, channel: usize) -> (f64, f64) {
        let of = |values: &[f64], default| *values.get(channel).or(values.first()).unwrap_or(&default);
        (of(&self.mean, 0.0), of(&self.std, 1.0))
    }

    /// The channel in memory of a channel of the network.
    pub fn in_memory(&self, channel: usize) -> usize {
        match self.color {
            Color::Rgb if self.channels >= 3 && channel < 3 => 2 - channel,
            _ => channel,
        }
    }

    /// The object of the blob.
    pub fn to_json(&self) -> Value {
        let Self { channels, mean, std, color, fit } = self;
        serde_json::json!({
            "channels": channels, "mean": mean, "std": std, "color": color.name(), "fit": fit.name()
        })
    }

    /// Reads the object of the blob.
    fn parse(value: &Value) -> Option<Self> {
        let numbers = |value: &Value| value.as_array()?.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>();
        let named = |key: &str| value[key].as_str();
        let (mean, std) = (numbers(&value["mean"])?, numbers(&value["std"])?);
        let usable = |std: &f64| std.is_finite() && *std != 0.0;
        if !std.iter().all(usable) || !mean.iter().all(|mean| mean.is_finite()) {
            return None;
        }
        Some(Self {
            channels: value["channels"].as_u64().and_then(|channels| channels.try_into().ok())?,
            mean,
            std,
            color: [Color::Rgb, Color::Bgr, Color::Gray]
                .into_iter()
                .find(|color| named("color") == Some(color.name()))?,
            fit: [Fit::Exact, Fit::Stretch, Fit::Crop].into_iter().find(|fit| named("fit") == Some(fit.name()))?,
        })
    }
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
            let pictures = match &value["pictures"] {
                Value::Null => None,
                pictures => Some(Pictures::parse(pictures)?),
            };
            let channels_last = value["channels_last"].as_bool().unwrap_or(false);
            let tensor = text(&value["tensor"])?;
            valid.then_some(Scale { tensor, scale, zero_point, unsigned, channels_last, pictures })
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
            conditions: match &value["conditions"] {
                Value::Null => Conditions::default(),
                conditions => conditions::parse(conditions).ok()?,
            },
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
        "inputs": [{"tensor": "data", "scale": [0.5], "zero_point": [3.5], "unsigned": true, "channels_last": true,
            "pictures": {"channels": 3, "mean": [127.5], "std": [2, 3, 4], "color": "rgb", "fit": "crop"}}],
        "outputs": [],
        "steps": [["x", 2, "conv", "re\u001blu"], ["y", 1]],
        "tasks": [[0, 0, 1, 7]]
    }"#;

    #[test]
    fn layers_of_operations() {
        let names = Names::parse(TEXT.as_bytes()).unwrap();
        assert_eq!(names.layer(0, 1).unwrap().to_string(), "conv, re\\u{1b}lu");
        assert_eq!(names.layer(0, 2).unwrap().to_string(), "(y)");
        assert_eq!((names.layer(0, 3), names.layer(0, 4), names.layer(1, 0)), (None, None, None));
        let pictures =
            Pictures { channels: 3, mean: vec![127.5], std: vec![2.0, 3.0, 4.0], color: Color::Rgb, fit: Fit::Crop };
        assert_eq!(Pictures::parse(&pictures.to_json()), Some(pictures.clone()));
        assert_eq!((pictures.channel(1), pictures.in_memory(0)), ((127.5, 3.0), 2));
        let data = Scale {
            tensor: "data".to_owned(),
            scale: vec![0.5],
            zero_point: vec![3.5],
            unsigned: true,
            channels_last: true,
            pictures: Some(pictures),
        };
        assert_eq!(names.inputs, [data]);
    }

    #[test]
    fn other_json_is_no_blob_of_names() {
        for (from, to) in [
            ("[3.5]", "[]"),
            ("\"crop\"", "\"cut\""),
            ("[2, 3", "[0, 3"),
            ("\"tasks\"", "\"task\""),
            ("7]", "-1]"),
            ("\"y\"", "1"),
            (", 1]]", "]]"),
            ("{", "["),
        ] {
            assert!(TEXT.contains(from));
            assert_eq!(Names::parse(TEXT.replacen(from, to, 1).as_bytes()), None, "{from}");
        }
    }
}
