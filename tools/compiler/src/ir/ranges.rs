// SPDX-License-Identifier: MIT OR Apache-2.0

//! The range of each activation tensor from calibration, and the int8 scale chosen for it.

use std::sync::Arc;

use super::TensorId;

/// The range of a tensor's values, and its scales.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The smallest value on the samples.
    pub min: f32,
    /// The largest value on the samples.
    pub max: f32,
    /// The real value of one step: value = int8 * scale. Positive. Values beyond 127 steps saturate.
    pub scale: f32,
    /// The real value of one step if all 256 integers represent values from 0 on: value = (int8 + 128) * one_sided. 0 if there
    /// are negative values.
    pub one_sided: f32,
}

impl Range {
    /// A range with the smallest symmetric scale that can represent both values.
    pub fn of(min: f32, max: f32) -> Self {
        let largest = min.abs().max(max.abs());
        let mut range = Self { min, max, scale: 1.0 / 127.0, one_sided: 0.0 };
        range.reach(if largest > 0.0 { largest } else { 1.0 });
        range
    }

    /// Sets the scales so that the largest integer represents `threshold`.
    pub fn reach(&mut self, threshold: f32) {
        self.scale = threshold / 127.0;
        self.one_sided = if self.min >= 0.0 { threshold / 255.0 } else { 0.0 };
    }
}

/// The range of each tensor of a graph, and the mean of each channel if it was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges {
    ranges: Vec<Option<Range>>,
    means: Vec<Option<Arc<[f32]>>>,
}

impl Ranges {
    /// No range for any tensor.
    pub fn new() -> Self {
        Self::default()
    }

    /// The range of a tensor. None for constants, and for tensors that were not measured.
    pub fn get(&self, id: TensorId) -> Option<&Range> {
        self.ranges.get(id.0)?.as_ref()
    }

    /// Sets the range of a tensor.
    pub fn set(&mut self, id: TensorId, range: Range) {
        put(&mut self.ranges, id, range);
    }

    /// The mean of each channel of a tensor.
    pub fn means(&self, id: TensorId) -> Option<&Arc<[f32]>> {
        self.means.get(id.0)?.as_ref()
    }

    /// Sets the mean of each channel of a tensor.
    pub fn set_means(&mut self, id: TensorId, means: Arc<[f32]>) {
        put(&mut self.means, id, means);
    }

    /// The ranges without the means.
    #[must_use]
    pub fn without_means(self) -> Self {
        Self { means: Vec::new(), ..self }
    }
}

fn put<T: Clone>(list: &mut Vec<Option<T>>, id: TensorId, value: T) {
    if list.len() <= id.0 {
        list.resize(id.0 + 1, None);
    }
    list[id.0] = Some(value);
}
