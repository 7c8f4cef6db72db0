// SPDX-License-Identifier: MIT OR Apache-2.0

//! How an input's bytes become the values that the network was trained on.

use nvdla_runtime::loadable::names::Pictures;
pub use nvdla_runtime::loadable::names::{Color, Fit};

/// The preprocessing of an input: value = (byte - mean) / std, per channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Preprocess {
    /// One value for all channels, or one per channel, in units of the byte.
    pub mean: Vec<f32>,
    /// One value for all channels, or one per channel, in units of the byte.
    pub std: Vec<f32>,
    /// The order of the channels.
    pub color: Color,
    /// How pictures are fitted to the size.
    pub fit: Fit,
}

impl Default for Preprocess {
    /// The default: values are the bytes themselves.
    fn default() -> Self {
        Self { mean: vec![0.0], std: vec![1.0], color: Color::default(), fit: Fit::default() }
    }
}

impl Preprocess {
    /// The same, as the loadable has it for an input of that many channels.
    pub fn pictures(&self, channels: u32) -> Pictures {
        let real = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect();
        let color = if channels == 1 { Color::Gray } else { self.color };
        Pictures { channels, mean: real(&self.mean), std: real(&self.std), color, fit: self.fit }
    }

    /// The mean and the standard deviation of a channel.
    pub fn channel(&self, channel: usize) -> (f32, f32) {
        let of = |values: &[f32], default| *values.get(channel).or(values.first()).unwrap_or(&default);
        (of(&self.mean, 0.0), of(&self.std, 1.0))
    }

    /// Refuses means and deviations that are neither one nor one per channel, or not usable numbers, and luminance for colours.
    pub fn check(&self, channels: usize) -> Result<(), String> {
        if channels == 3 && self.color == Color::Gray {
            return Err("one channel of luminance for an input of three".to_owned());
        }
        for (what, values) in [("mean", &self.mean), ("std", &self.std)] {
            if values.len() != 1 && values.len() != channels {
                return Err(format!("{} values of {what} for {channels} channels", values.len()));
            }
        }
        if let Some(mean) = self.mean.iter().find(|mean| !mean.is_finite()) {
            return Err(format!("mean {mean} is not finite"));
        }
        match self.std.iter().find(|std| !(std.is_finite() && **std > 0.0)) {
            Some(std) => Err(format!("std {std} is not a positive number")),
            None => Ok(()),
        }
    }
}
