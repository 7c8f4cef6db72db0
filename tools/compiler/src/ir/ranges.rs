// SPDX-License-Identifier: MIT OR Apache-2.0

//! The range of each activation tensor from calibration, and the int8 scale chosen for it.

use std::sync::Arc;

use super::ids::TensorId;

/// The range of a tensor's values, and its scales.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The smallest value on the samples.
    pub min: f32,
    /// The largest value on the samples.
    pub max: f32,
    /// The real value of one step if 0 is the integer 0: value = int8 * scale. Positive. Values beyond 127 steps saturate.
    pub scale: f32,
    /// The real values of the integers -128 and 127 if another integer may be 0 ([`zero_point`]). They include 0.
    pub span: (f32, f32),
    /// Whether a quantized model gives the span, so that its integers are the model's own. Then inputs and outputs of the network
    /// have them, too.
    pub given: bool,
}

/// The step and the integer of 0 with which the integers from -128 to 127 reach from `low` to `high`, which include 0.
pub fn zero_point((low, high): (f32, f32)) -> (f64, i32) {
    let (low, high) = (f64::from(low), f64::from(high));
    let scale = (high - low) / 255.0;
    (scale, (-128.0 - low / scale).round() as i32)
}

/// The largest step of an asymmetric span, relative to that of a symmetric one. With a larger step the gain is too small for a
/// zero point other than 0.
const MAX_STEP_RATIO: f32 = 0.95;

/// How far a span reaches on its smaller side, relative to the value on the samples that is farthest from 0 there. Other data
/// have larger values; with a symmetric scale this side has more room.
pub(crate) const HEADROOM: f32 = 1.25;

impl Range {
    /// A range with the smallest scales that can represent both values.
    pub fn of(min: f32, max: f32) -> Self {
        let largest = min.abs().max(max.abs());
        let mut range = Self { min, max, scale: 1.0, span: (0.0, 0.0), given: false };
        range.reach(if largest > 0.0 { largest } else { 1.0 });
        range
    }

    /// Sets the scales so that values beyond `threshold` saturate.
    pub fn reach(&mut self, threshold: f32) {
        self.scale = threshold / 127.0;
        self.span_to(threshold);
    }

    /// Sets the span so that values beyond `threshold` saturate.
    pub fn span_to(&mut self, threshold: f32) {
        let (low, high) = if self.min >= 0.0 {
            (0.0, threshold)
        } else {
            let reach = |side: f32| (side.max(0.0) * HEADROOM).min(threshold);
            (-reach(-self.min), reach(self.max))
        };
        self.span = (low, high);
        if (high - low) / 255.0 > MAX_STEP_RATIO * self.scale {
            *self = self.symmetric();
        }
    }

    /// Whether no value of another range saturates.
    pub fn holds(&self, other: &Self) -> bool {
        self.span.0 <= other.min && other.max <= self.span.1
    }

    /// The range with 0 as the integer 0.
    #[must_use]
    pub fn symmetric(self) -> Self {
        Self { span: (-128.0 * self.scale, 127.0 * self.scale), given: false, ..self }
    }
}

/// The means of the channels of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Means {
    /// The mean of each channel.
    pub values: Arc<[f32]>,
    /// What the emulator takes from each channel on average, because it rounds down to steps of 1/127. Of results of softmaxes.
    pub losses: Option<Arc<[f32]>>,
}

/// The range of each tensor of a graph, and the mean of each channel if it was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges {
    tensors: Vec<Option<Range>>,
    means: Vec<Option<Means>>,
    /// What the samples show to be doubtful: the compilation warns of it.
    pub doubts: Vec<String>,
}

impl Ranges {
    /// No range for any tensor.
    pub fn new() -> Self {
        Self::default()
    }

    /// The range of a tensor. None for constants, and for tensors that were not measured.
    pub fn get(&self, id: TensorId) -> Option<&Range> {
        self.tensors.get(id.0)?.as_ref()
    }

    /// Sets the range of a tensor.
    pub fn set(&mut self, id: TensorId, range: Range) {
        put(&mut self.tensors, id, range);
    }

    /// The mean of each channel of a tensor.
    pub fn means(&self, id: TensorId) -> Option<&Means> {
        self.means.get(id.0)?.as_ref()
    }

    /// Sets the mean of each channel of a tensor.
    pub fn set_means(&mut self, id: TensorId, means: Means) {
        put(&mut self.means, id, means);
    }
}

fn put<T: Clone>(list: &mut Vec<Option<T>>, id: TensorId, value: T) {
    if list.len() <= id.0 {
        list.resize(id.0 + 1, None);
    }
    list[id.0] = Some(value);
}
