// SPDX-License-Identifier: MIT OR Apache-2.0

//! How far results are from those of the float network.

/// The difference of a tensor from the float network's, over samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// Sum of the squares of the float values.
    pub signal: f64,
    /// Sum of the squares of the differences.
    pub noise: f64,
}

impl Loss {
    /// Adds values and their expected values.
    pub fn add(&mut self, found: &[f32], expected: &[f32]) {
        for (&found, &expected) in found.iter().zip(expected) {
            self.signal += f64::from(expected).powi(2);
            self.noise += f64::from(found - expected).powi(2);
        }
    }

    /// The ratio of signal to noise in decibels.
    pub fn decibels(&self) -> f64 {
        10.0 * (self.signal / self.noise.max(1e-30)).max(1e-30).log10()
    }
}

/// The losses of tensors, by their names, in the order in which they are computed.
pub type Losses = Vec<(String, Loss)>;
