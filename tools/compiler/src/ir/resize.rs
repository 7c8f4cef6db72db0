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
                // The order of the operations is ONNX's: a coordinate in the middle of two elements is exactly there.
                Coordinates::HalfPixelSymmetric => {
                    let extent = size as f32;
                    extent / 2.0 * (1.0 - out as f32 / (extent * scale)) + (x + 0.5) / scale - 0.5
                }
                Coordinates::Linear { first, step } => first[axis] + x * step[axis],
            }
        };
        let taps = |x: usize| if self.antialias { self.mode.smooth(place(x), scale) } else { self.mode.at(place(x)) };
        let all = (0..out).map(taps);
        if self.exclude_outside {
            return all.map(|taps| taps.inside(size)).collect();
        }
        all.collect()
    }
}

impl Taps {
    /// Where the elements begin and end that some elements of the output are computed from.
    pub(crate) fn ends(all: &[Self]) -> (i64, i64) {
        let first = all.iter().map(|taps| taps.first).min().unwrap_or(0);
        (first, all.iter().map(|taps| taps.first + taps.weights.len() as i64).max().unwrap_or(1))
    }

    /// Without the elements beyond the ends of an axis.
    fn inside(self, size: usize) -> Self {
        let within = |at: &(i64, f32)| (0..size as i64).contains(&at.0);
        let kept: Vec<(i64, f32)> = (self.first..).zip(self.weights).filter(within).collect();
        let total: f32 = kept.iter().map(|(_, weight)| weight).sum();
        let weights = kept.iter().map(|(_, weight)| weight / total).collect();
        Self { first: kept.first().map_or(0, |(at, _)| *at), weights }
    }

    /// The same element from the elements of the axis alone: those beyond its ends are its first and its last element.
    pub(crate) fn clamped(&self, size: usize) -> Self {
        let last = size as i64 - 1;
        let end = self.first + self.weights.len() as i64 - 1;
        let [first, end] = [self.first, end].map(|at| at.clamp(0, last));
        let mut weights = vec![0.0; (end - first) as usize + 1];
        for (at, weight) in (self.first..).zip(&self.weights) {
            weights[(at.clamp(0, last) - first) as usize] += weight;
        }
        Self { first, weights }
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
            Self::Cubic(_) => {
                let weights = [1.0 + share, share, 1.0 - share, 2.0 - share].map(|x| self.weight(x)).to_vec();
                Taps { first: first as i64 - 1, weights }
            }
        }
    }

    /// As [`Self::at`], where an output that is smaller than the input reads elements that are farther away.
    fn smooth(self, at: f32, scale: f32) -> Taps {
        let reach = 1.0 / scale.min(1.0);
        let support = reach * if matches!(self, Self::Cubic(_)) { 2.0 } else { 1.0 };
        let (first, end) = ((at - support).floor() as i64, (at + support).ceil() as i64);
        let weights: Vec<f32> = (first..=end).map(|x| self.weight((x as f32 - at).abs() / reach)).collect();
        let total: f32 = weights.iter().sum();
        // Those at the ends are 0 up to rounding.
        let some = |weight: &f32| weight.abs() > 1e-6 * total;
        let from = weights.iter().position(some).unwrap_or(0);
        let to = weights.iter().rposition(some).unwrap_or(0);
        Taps { first: first + from as i64, weights: weights[from..=to].iter().map(|weight| weight / total).collect() }
    }

    /// The weight of an element at a distance, for the modes in which it depends on that.
    fn weight(self, x: f32) -> f32 {
        match self {
            Self::Cubic(a) if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            Self::Cubic(a) if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            Self::Cubic(_) => 0.0,
            Self::Nearest(_) | Self::Bilinear => (1.0 - x).max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weights of seven elements in each of three are those of ONNX Runtime.
    #[test]
    fn antialiasing_reaches_farther() {
        let [linear, cubic] = [ResizeMode::Bilinear, ResizeMode::Cubic(-0.75)];
        let first = [
            (linear, false, [0.4375, 0.375, 0.1875, 0.0, 0.0, 0.0, 0.0]),
            (linear, true, [0.357_143, 0.428_571, 0.214_286, 0.0, 0.0, 0.0, 0.0]),
            (cubic, false, [0.426_608, 0.410_369, 0.213_616, 0.0, -0.044_972, -0.005_622, 0.0]),
            (ResizeMode::Cubic(-0.5), true, [0.383_065, 0.439_516, 0.213_71, 0.0, -0.032_258, -0.004_032, 0.0]),
        ];
        for (mode, exclude_outside, expected) in first {
            let scales = [1.0, 3.0 / 7.0];
            let resize = Resize::new(mode, Coordinates::HalfPixel, scales, [1, 3]);
            let taps = Resize { antialias: true, exclude_outside, ..resize }.taps(1, 7);
            let Taps { first, weights } = taps[0].clamped(7);
            let mut all = [0.0; 7];
            all[first as usize..][..weights.len()].copy_from_slice(&weights);
            assert!(all.iter().zip(&expected).all(|(a, b): (&f32, &f32)| (a - b).abs() < 1e-5), "{mode:?}: {all:?}");
        }
    }
}
