// SPDX-License-Identifier: MIT OR Apache-2.0

//! From which elements a resize computes an element. The definitions are those of ONNX.

use super::op::{Coordinates, Resize, ResizeMode, Rounding};

/// A coordinate this near to an element is that element: single precision may put it on either side.
const NEAR: f32 = 1.0 / 4096.0;

/// Adjacent elements of one axis, and the weight of each of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Taps {
    /// The first element. Beyond the ends of the axis, its first and last element repeat.
    pub first: i64,
    /// One weight per element.
    pub weights: Vec<f32>,
}

impl Resize {
    /// The elements of each output along an axis (0 for lines, 1 for columns) of `size` elements.
    pub fn taps(&self, axis: usize, size: usize) -> Vec<Taps> {
        let (scale, out) = (self.scales[axis], self.size[axis]);
        let last = size.saturating_sub(1) as f32;
        let place = |x: usize| {
            let x = x as f32;
            match self.coordinates {
                Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if out == 1 => 0.0,
                Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (x + 0.5) / scale - 0.5,
                Coordinates::TensorFlowHalfPixel => (x + 0.5) / scale,
                Coordinates::Asymmetric => x / scale,
                Coordinates::AlignCorners => x * last / (out - 1) as f32,
            }
        };
        (0..out).map(|x| self.mode.at(place(x))).collect()
    }
}

impl ResizeMode {
    /// The elements that an element at a coordinate is computed from.
    fn at(self, at: f32) -> Taps {
        let one = |at: f32| Taps { first: at as i64, weights: vec![1.0] };
        let (first, share) = (at.floor(), at - at.floor());
        match self {
            Self::Nearest(Rounding::HalfDown) => one((at - 0.5).ceil()),
            Self::Nearest(Rounding::HalfUp) => one((at + 0.5).floor()),
            Self::Nearest(Rounding::Floor) => one(first),
            Self::Nearest(Rounding::Ceil) => one(at.ceil()),
            Self::Bilinear | Self::Cubic(_) if (at - at.round()).abs() < NEAR => one(at.round()),
            Self::Bilinear => Taps { first: first as i64, weights: vec![1.0 - share, share] },
            Self::Cubic(a) => {
                let near = |x: f32| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
                let far = |x: f32| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
                let weights = vec![far(1.0 + share), near(share), near(1.0 - share), far(2.0 - share)];
                Taps { first: first as i64 - 1, weights }
            }
        }
    }
}
