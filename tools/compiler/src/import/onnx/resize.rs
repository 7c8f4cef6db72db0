// SPDX-License-Identifier: MIT OR Apache-2.0

//! Resizing.

use super::convert::sizes;
use super::product::with_height;
use super::reader::{Node, Reader, TensorValue};
use crate::ir::{Coordinates, Op, PadMode, Resize, ResizeMode, Rounding, TensorId};

impl Reader {
    pub(super) fn resize(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let x = self.real(n, inputs, 0)?;
        let rank = self.spatial(x)?;
        let shape = self.graph.shape(x).to_vec();
        let old = n.proto.op_type == "Upsample" || n.opset < 11;
        let axes = match n.ints("axes") {
            Some(list) => {
                list.iter().map(|&axis| super::convert::axis(axis, shape.len())).collect::<Result<Vec<_>, _>>()?
            }
            None => (0..shape.len()).collect(),
        };
        let scales = match n.attribute("scales") {
            Some(attribute) => attribute.floats.clone(),
            None => match (Self::old_scales(n, shape.len()), inputs.get(if old { 1 } else { 2 })) {
                (Some(scales), _) => scales,
                (None, Some(TensorValue::Real(_))) => self.values(inputs, if old { 1 } else { 2 })?,
                _ => Vec::new(),
            },
        };
        let targets = if old { None } else { Self::list(inputs, 3)?.filter(|sizes| !sizes.is_empty()) };
        let (mut all_scales, mut size) = (vec![1.0; shape.len()], shape.clone());
        if let Some(targets) = targets {
            let targets = sizes(&targets, "sizes")?;
            if targets.len() != axes.len() {
                return Err(format!("sizes {targets:?} for {} dimensions", axes.len()));
            }
            let ratios = axes.iter().zip(&targets).map(|(&axis, &target)| target as f32 / shape[axis] as f32);
            let one = match n.text("keep_aspect_ratio_policy", "stretch").as_str() {
                "stretch" => None,
                "not_larger" => ratios.clone().reduce(f32::min),
                "not_smaller" => ratios.clone().reduce(f32::max),
                policy => return Err(format!("keep_aspect_ratio_policy {policy} is not supported")),
            };
            for ((&axis, &target), ratio) in axes.iter().zip(&targets).zip(ratios) {
                size[axis] = one.map_or(target, |one| (one * shape[axis] as f32).round() as usize);
                all_scales[axis] = one.unwrap_or(ratio);
            }
        } else {
            if scales.len() != axes.len() {
                return Err(format!("{} constant scales for {} dimensions", scales.len(), axes.len()));
            }
            for (&axis, &scale) in axes.iter().zip(&scales) {
                size[axis] = (f64::from(scale) * shape[axis] as f64).floor() as usize;
                all_scales[axis] = scale;
            }
        }
        if size[..2] != shape[..2] {
            return Err(format!("{shape:?} to {size:?}: only height and width can change"));
        }
        let mode = n.text("mode", "nearest");
        let rounding = n.text("nearest_mode", if old { "floor" } else { "round_prefer_floor" });
        let mode = match (mode.as_str(), rounding.as_str()) {
            ("nearest", "round_prefer_floor") => ResizeMode::Nearest(Rounding::HalfDown),
            ("nearest", "round_prefer_ceil") => ResizeMode::Nearest(Rounding::HalfUp),
            ("nearest", "floor") => ResizeMode::Nearest(Rounding::Floor),
            ("nearest", "ceil") => ResizeMode::Nearest(Rounding::Ceil),
            ("linear" | "bilinear", _) => ResizeMode::Bilinear,
            ("cubic", _) => ResizeMode::Cubic(n.float("cubic_coeff_a", -0.75)),
            (mode, _) => return Err(format!("mode {mode} with nearest_mode {rounding} is not supported")),
        };
        // What is beyond the region that is cropped has another value.
        let mut outside = [(0, 0); 2];
        let plane = |axis: usize| (axis + rank).checked_sub(2).map(|axis| shape.len() - rank + axis);
        let extent = |axis: usize| plane(axis).map_or(1, |axis| shape[axis]);
        let scales = [0, 1].map(|axis| plane(axis).map_or(1.0, |axis| all_scales[axis]));
        let mut size = [0, 1].map(|axis| plane(axis).map_or(1, |axis| size[axis]));
        let coordinates = n.text("coordinate_transformation_mode", if old { "asymmetric" } else { "half_pixel" });
        let coordinates = match coordinates.as_str() {
            "half_pixel" => Coordinates::HalfPixel,
            "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
            "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
            "asymmetric" => Coordinates::Asymmetric,
            "tf_half_pixel_for_nn" if matches!(mode, ResizeMode::Nearest(_)) => Coordinates::TensorFlowHalfPixel,
            "align_corners" => Coordinates::AlignCorners,
            "tf_crop_and_resize" => {
                let roi = self.values(inputs, 1)?;
                if roi.len() != 2 * axes.len() {
                    return Err(format!("{} numbers are the region to crop in {} dimensions", roi.len(), axes.len()));
                }
                let region = |axis: usize| {
                    let given = axes.iter().position(|&given| Some(given) == plane(axis));
                    given.map_or([0.0, 1.0], |at| [roi[at], roi[at + axes.len()]])
                };
                let crops = [0, 1].map(|axis| Crop::new(region(axis), extent(axis), size[axis]));
                outside = [0, 1].map(|axis| crops[axis].outside(extent(axis), size[axis]));
                for (size, (before, after)) in size.iter_mut().zip(outside) {
                    *size = size
                        .checked_sub(before + after)
                        .filter(|size| *size > 0)
                        .ok_or("the region to crop is outside")?;
                }
                let first = [0, 1].map(|axis| crops[axis].at(outside[axis].0));
                Coordinates::Linear { first, step: crops.map(|crop| crop.step) }
            }
            other => return Err(format!("coordinate_transformation_mode {other} is not supported")),
        };
        let antialias = n.int("antialias", 0) != 0 && !matches!(mode, ResizeMode::Nearest(_));
        let exclude_outside = n.int("exclude_outside", 0) != 0 && (antialias || matches!(mode, ResizeMode::Cubic(_)));
        let x = self.reshape(n, x, &with_height(&shape))?;
        let resize = Resize { antialias, exclude_outside, ..Resize::new(mode, coordinates, scales, size) };
        let mut y = self.emit(n, Op::Resize(resize), &[x])?;
        if outside != [(0, 0); 2] {
            let mode = PadMode::Constant(n.float("extrapolation_value", 0.0));
            let [(top, bottom), (left, right)] = outside;
            y =
                self.emit(n, Op::Pad { mode, before: vec![0, 0, top, left], after: vec![0, 0, bottom, right] }, &[y])?;
        }
        self.without_height(n, y, rank)
    }
}

/// The coordinates along one axis in a region of the input.
struct Crop {
    first: f32,
    step: f32,
}

impl Crop {
    /// The region's ends are parts of the distance between the first and the last of `extent` elements.
    fn new([start, end]: [f32; 2], extent: usize, size: usize) -> Self {
        let last = (extent - 1) as f32;
        if size > 1 {
            return Self { first: start * last, step: (end - start) * last / (size - 1) as f32 };
        }
        Self { first: f32::midpoint(start, end) * last, step: 0.0 }
    }

    fn at(&self, x: usize) -> f32 {
        self.first + x as f32 * self.step
    }

    /// How many of the first and of the last of `size` coordinates are beyond the ends of the input.
    fn outside(&self, extent: usize, size: usize) -> (usize, usize) {
        let beyond = |x: &usize| !(0.0..=(extent - 1) as f32).contains(&self.at(*x));
        let before = (0..size).take_while(beyond).count();
        (before, (before..size).rev().take_while(beyond).count())
    }
}
