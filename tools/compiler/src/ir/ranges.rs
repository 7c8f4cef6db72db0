// SPDX-License-Identifier: MIT OR Apache-2.0

//! What calibration knows of each activation tensor, and the int8 scale chosen for it.

use super::TensorId;

/// The values of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The smallest value seen.
    pub min: f32,
    /// The largest value seen.
    pub max: f32,
    /// The real value of one step: value = int8 * scale. Positive. Values beyond 127 steps saturate.
    pub scale: f32,
    /// The integer that stands for 0 in a quantized model's own scale. It is 0 in every scale that calibration chooses.
    pub zero_point: i32,
}

impl Range {
    /// The range between two values, with the smallest symmetric scale that holds both.
    pub fn of(min: f32, max: f32) -> Self {
        let largest = min.abs().max(max.abs());
        Self { min, max, scale: if largest > 0.0 { largest / 127.0 } else { 1.0 / 127.0 }, zero_point: 0 }
    }
}

/// The range of each tensor of a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges(Vec<Option<Range>>);

impl Ranges {
    /// No range for any tensor.
    pub fn new() -> Self {
        Self::default()
    }

    /// The range of a tensor. None for constants, and for tensors that were not measured.
    pub fn get(&self, id: TensorId) -> Option<&Range> {
        self.0.get(id.0)?.as_ref()
    }

    /// Sets the range of a tensor.
    pub fn set(&mut self, id: TensorId, range: Range) {
        if self.0.len() <= id.0 {
            self.0.resize(id.0 + 1, None);
        }
        self.0[id.0] = Some(range);
    }
}
