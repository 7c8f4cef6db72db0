// SPDX-License-Identifier: MIT OR Apache-2.0

//! Poolings and resizing.

use super::convert::sizes;
use super::product::{with_height, Windows};
use super::reader::{Node, Reader, TensorValue};
use crate::ir::{
    Binary, Convolution, Coordinates, Op, PadMode, Padding, Pool, PoolKind, Resize, ResizeMode, Rounding, TensorId,
    Unary,
};

impl Reader {
    pub(super) fn pool(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let x = self.real(n, inputs, 0)?;
        let rank = self.spatial(x)?;
        let mut x = self.reshape(n, x, &with_height(self.graph.shape(x)))?;
        let power = if n.proto.op_type == "LpPool" { Some(n.power()?) } else { None };
        x = match power {
            None => x,
            Some(1) => self.emit(n, Op::Unary(Unary::Abs), &[x])?,
            Some(2) => self.emit(n, Op::Binary(Binary::Mul), &[x, x])?,
            Some(other) => return Err(format!("the norm with a power of {other}; there are 1 and 2")),
        };
        let size = [self.graph.shape(x)[2], self.graph.shape(x)[3]];
        let operator = n.proto.op_type.as_str();
        let max = operator.ends_with("MaxPool");
        let average = |count_include_pad| if max { PoolKind::Max } else { PoolKind::Average { count_include_pad } };
        if operator.starts_with("Global") {
            let pool = Pool::new(average(true), size);
            let y = self.emit(n, Op::Pool(pool), &[x])?;
            return self.without_height(n, y, rank);
        }
        let kernel = sizes(n.ints("kernel_shape").ok_or("it has no kernel_shape")?, "kernel_shape")?;
        let mut windows = Windows::read(n, &kernel, rank)?;
        windows.resolve(size)?;
        let include = n.int("count_include_pad", 0) != 0 || power.is_some();
        let given = windows.padding();
        let mut further = false;
        if n.int("ceil_mode", 0) != 0 {
            for axis in 0..2 {
                let (before, after) = windows.pads[axis];
                let (stride, kernel) = (windows.stride[axis], windows.extent(axis));
                let whole = size[axis].saturating_add(before).saturating_add(after);
                let Some(rest) = whole.checked_sub(kernel).filter(|_| stride > 0) else { continue };
                let mut outputs = rest.div_ceil(stride) + 1;
                // A window that starts in the padding after the input is omitted.
                if (outputs - 1).saturating_mul(stride) >= size[axis].saturating_add(before) {
                    outputs -= 1;
                }
                let end = (outputs - 1).saturating_mul(stride).saturating_add(kernel);
                let beyond = end.saturating_sub(whole);
                windows.pads[axis].1 = after.saturating_add(beyond);
                further |= beyond > 0;
            }
        }
        let mut padding = windows.padding();
        let mut count_include_pad = include || padding == Padding::default();
        if include && further && !max && power.is_none() {
            // The divisor counts the padding that the model gives, but not the padding that rounding up the size adds.
            let before = vec![0, 0, given.top, given.left];
            let after = vec![0, 0, given.bottom, given.right];
            if given != Padding::default() {
                x = self.emit(n, Op::Pad { mode: PadMode::Constant(0.0), before, after }, &[x])?;
            }
            let (bottom, right) = (padding.bottom - given.bottom, padding.right - given.right);
            padding = Padding { bottom, right, ..Padding::default() };
            count_include_pad = false;
        }
        let dilated = windows.dilation != [1, 1];
        let y = if !dilated || max || !count_include_pad {
            let (kernel, stride, dilation) = (windows.kernel, windows.stride, windows.dilation);
            let kind = average(count_include_pad);
            self.emit(n, Op::Pool(Pool { kind, kernel, stride, dilation, padding }), &[x])?
        } else {
            // The mean of elements that are apart is a convolution with equal weights.
            let (channels, [rows, columns]) = (self.graph.shape(x)[1], windows.kernel);
            let weights = super::value::count(&[channels, rows, columns])?;
            self.graph.budget.spend(4 * weights as u64, 0)?;
            let weights = vec![1.0 / (rows * columns) as f32; weights];
            let weights = self.emit_constant(n, &[channels, 1, rows, columns], weights)?;
            let (kernel, stride, dilation) = (windows.kernel, windows.stride, windows.dilation);
            let op = Convolution { group: channels, kernel, stride, dilation, padding };
            self.emit(n, Op::Convolution(op), &[x, weights])?
        };
        let y = match power {
            None => y,
            Some(power) => {
                let count = (windows.kernel[0] * windows.kernel[1]) as f32;
                let factor = self.emit_constant(n, &[], vec![count])?;
                let sum = self.emit(n, Op::Binary(Binary::Mul), &[y, factor])?;
                if power == 1 {
                    sum
                } else {
                    self.emit(n, Op::Unary(Unary::Sqrt), &[sum])?
                }
            }
        };
        self.without_height(n, y, rank)
    }

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
            let policy = n.text("keep_aspect_ratio_policy", "stretch");
            if policy != "stretch" {
                return Err(format!("keep_aspect_ratio_policy {policy} is not supported"));
            }
            for (&axis, &target) in axes.iter().zip(&targets) {
                size[axis] = target;
                all_scales[axis] = target as f32 / shape[axis] as f32;
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
        if n.int("antialias", 0) != 0 || n.int("exclude_outside", 0) != 0 {
            return Err("antialias and exclude_outside are not supported".to_owned());
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
        let coordinates = n.text("coordinate_transformation_mode", if old { "asymmetric" } else { "half_pixel" });
        let coordinates = match coordinates.as_str() {
            "half_pixel" => Coordinates::HalfPixel,
            // It differs where the size is no whole number before it is rounded.
            "half_pixel_symmetric"
                if shape.iter().zip(&all_scales).all(|(&extent, &scale)| (extent as f32 * scale).fract() == 0.0) =>
            {
                Coordinates::HalfPixel
            }
            "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
            "asymmetric" => Coordinates::Asymmetric,
            "tf_half_pixel_for_nn" if matches!(mode, ResizeMode::Nearest(_)) => Coordinates::TensorFlowHalfPixel,
            "align_corners" => Coordinates::AlignCorners,
            other => return Err(format!("coordinate_transformation_mode {other} is not supported")),
        };
        let (scales, size) = if rank == 1 {
            ([1.0, all_scales[2]], [1, size[2]])
        } else {
            ([all_scales[2], all_scales[3]], [size[2], size[3]])
        };
        let x = self.reshape(n, x, &with_height(&shape))?;
        let y = self.emit(n, Op::Resize(Resize { mode, coordinates, scales, size }), &[x])?;
        self.without_height(n, y, rank)
    }
}
