// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators over windows of pixels: convolutions, poolings and resizing.

use super::file::Operator;
use super::reader::Reader;
use super::value::{sizes, Known, Operands, Value};
use crate::ir::dilated;
use crate::ir::{Convolution, Coordinates, Op, Padding, Pool, PoolKind, Resize, ResizeMode, Rounding, TensorId};

/// The padding before and after one direction of windows, if the output has ceil(size / stride) elements (`SAME`).
fn same(size: usize, kernel: usize, stride: usize) -> [usize; 2] {
    let needed = (size.div_ceil(stride.max(1)) - 1).saturating_mul(stride).saturating_add(kernel);
    let total = needed.saturating_sub(size);
    [total / 2, total - total / 2]
}

fn padding([[top, bottom], [left, right]]: [[usize; 2]; 2]) -> Padding {
    Padding { top, left, bottom, right }
}

impl Reader<'_> {
    /// A tensor of four dimensions with its channels first, and its height and width.
    fn image(&mut self, n: &str, value: &Value) -> Result<(Value, [usize; 2]), String> {
        let &[_, height, width, _] = &value.shape[..] else {
            return Err(format!("its input {:?} does not have four dimensions", value.shape));
        };
        Ok((self.ordered(n, value, true)?, [height, width]))
    }

    /// Constant weights with their axes in another order.
    fn weights(&mut self, n: &str, value: &Value, perm: [usize; 4]) -> Result<(TensorId, [usize; 4]), String> {
        if self.graph.constant(value.id).is_none() {
            let name = &self.graph.tensor(value.id).name;
            return Err(format!("its weights \"{name}\" are computed by the network; NVDLA needs constant weights"));
        }
        let id = self.transpose(n, value.id, &perm)?;
        let shape = self.graph.shape(id);
        Ok((id, shape.try_into().map_err(|_| format!("weights of the shape {shape:?}"))?))
    }

    /// A bias as real numbers. The integers of a quantized model have the product of the scales of the input and the weights.
    pub(super) fn bias(
        &mut self,
        n: &str,
        operator: &Operator<'_>,
        [data, weights, bias]: [usize; 3],
        x: &Operands,
    ) -> Result<Option<TensorId>, String> {
        let Some(value) = x.optional(bias) else { return Ok(None) };
        let scales = |k: usize| {
            let index = operator.inputs.get(k).copied().flatten();
            index.and_then(|index| self.file.tensors[index].quantization.as_ref()).map(|q| &q.scale)
        };
        let mut values = self.numbers(value)?;
        let real = operator.inputs[bias].is_some_and(|index| self.file.tensors[index].kind.is_real());
        if !real {
            let (Some(data), Some(weights)) = (scales(data), scales(weights)) else {
                return Err("its bias has integers, but its input or its weights have no scale".to_owned());
            };
            for (k, value) in values.iter_mut().enumerate() {
                let scale = f64::from(data[0]) * f64::from(*weights.get(k).unwrap_or(&weights[0]));
                *value = (f64::from(*value) * scale) as f32;
            }
        }
        self.emit_constant(n, &[values.len()], values).map(Some)
    }

    pub(super) fn convolution(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        self.convolved(o, n, x, None)
    }

    /// A convolution. `spread` is the dilation and the padding of pixels that are divided into images.
    fn convolved(
        &mut self,
        o: &Operator<'_>,
        n: &str,
        x: &Operands,
        spread: Option<([usize; 2], [[usize; 2]; 2])>,
    ) -> Result<Value, String> {
        let (data, size) = self.image(n, x.get(0)?)?;
        // Conv2DOptions: padding, strides of width and height, activation, dilations. DepthwiseConv2DOptions has the multiplier of
        // the channels before the activation.
        let depthwise = o.name == "DEPTHWISE_CONV_2D";
        let perm = if depthwise { [3, 0, 1, 2] } else { [0, 3, 1, 2] };
        let (weights, [_, per_group, rows, columns]) = self.weights(n, x.get(1)?, perm)?;
        let stride = [o.size(2, 0)?, o.size(1, 0)?];
        let at = if depthwise { 5 } else { 4 };
        let mut dilation = [o.size(at + 1, 1)?, o.size(at, 1)?];
        let kernel = [rows, columns];
        let mut pads = match o.choice(0)? {
            0 => [0, 1].map(|k| same(size[k], dilated(kernel[k], dilation[k]), stride[k])),
            1 => [[0; 2]; 2],
            other => return Err(format!("the padding {other}")),
        };
        if let Some((block, padding)) = spread {
            if stride != [1, 1] || dilation != [1, 1] || pads != [[0; 2]; 2] {
                return Err("a stride, a dilation or padding of pixels that are divided into images".to_owned());
            }
            (dilation, pads) = (block, padding);
        }
        let channels = data.shape[3];
        if per_group == 0 || channels % per_group != 0 {
            return Err(format!("{per_group} channels of weights for {channels} channels"));
        }
        let group = channels / per_group;
        let op = Op::Convolution(Convolution { group, kernel, stride, dilation, padding: padding(pads) });
        let bias = self.bias(n, o, [0, 1, 2], x)?;
        let operands: Vec<_> = [data.id, weights].into_iter().chain(bias).collect();
        let id = self.emit(n, op, &operands)?;
        Ok(self.value(id, true))
    }

    /// A convolution whose pixels are divided into images before it, and joined after it, is a dilated convolution.
    pub(super) fn divided(
        &mut self,
        o: &Operator<'_>,
        n: &str,
        inputs: &[Option<Known>],
    ) -> Result<Option<Vec<Known>>, String> {
        let constant = |reader: &Self, known: &Option<Known>| match known {
            Some(Known::Value(value)) => sizes(&reader.integers(value)?),
            _ => Err("an input is missing".to_owned()),
        };
        let pairs = |list: &[usize]| match *list {
            [a, b, c, d] => Ok([[a, b], [c, d]]),
            _ => Err(format!("{list:?} for height and width")),
        };
        match (o.name.as_str(), inputs) {
            ("SPACE_TO_BATCH_ND", [Some(Known::Value(value)), block, pads]) => {
                let (block, pads) = (constant(self, block)?, pairs(&constant(self, pads)?)?);
                let &[rows, columns] = &block[..] else { return Err(format!("blocks of {block:?}")) };
                Ok(Some(vec![Known::Divided(value.clone(), [rows, columns], pads)]))
            }
            ("CONV_2D" | "DEPTHWISE_CONV_2D", [Some(Known::Divided(value, block, pads)), rest @ ..]) => {
                // The crops of the operator that joins the pixels are not padded in the first place.
                let output = *o.outputs.first().ok_or("it has no output")?;
                let (file, users) = (self.file, &self.users[output]);
                let &[user] = &users[..] else { return Err(format!("{} readers of divided pixels", users.len())) };
                let join = &file.operators[user];
                let (true, Some(&Some(crops))) = (join.name == "BATCH_TO_SPACE_ND", join.inputs.get(2)) else {
                    return Err(format!("{} reads pixels that are divided into images", join.name));
                };
                let crops = self.lookup(n, crops)?;
                let crops = pairs(&constant(self, &Some(crops))?)?;
                let mut padding = *pads;
                for (pads, crops) in padding.iter_mut().flatten().zip(crops.iter().flatten()) {
                    *pads = pads.checked_sub(*crops).ok_or("more pixels are cut off than were added")?;
                }
                let values = [Some(Known::Value(value.clone()))].into_iter().chain(rest.iter().cloned());
                let values: Vec<Option<Value>> = values
                    .map(|known| match known {
                        Some(Known::Value(value)) => Some(value),
                        _ => None,
                    })
                    .collect();
                let result = self.convolved(o, n, &Operands(values), Some((*block, padding)))?;
                let result = self.finish(o, n, 0, result)?;
                Ok(Some(vec![Known::Divided(result, *block, [[0; 2]; 2])]))
            }
            ("BATCH_TO_SPACE_ND", [Some(Known::Divided(value, block, _)), own, ..]) => {
                if constant(self, own)? == block {
                    Ok(Some(vec![Known::Value(value.clone())]))
                } else {
                    Err(format!("pixels are divided by {block:?} and joined by another block"))
                }
            }
            ("SPACE_TO_BATCH_ND" | "BATCH_TO_SPACE_ND", _) => {
                Err("it is supported around a convolution that it dilates".to_owned())
            }
            _ => Ok(None),
        }
    }

    pub(super) fn deconvolution(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        let custom = o.name != "TRANSPOSE_CONV";
        let at = if custom { [0, 1, 2] } else { [2, 1, 3] };
        let (data, size) = self.image(n, x.get(at[0])?)?;
        let (weights, [_, _, rows, columns]) = self.weights(n, x.get(at[1])?, [3, 0, 1, 2])?;
        let kernel = [rows, columns];
        let (is_same, stride) = if custom {
            // The memory of `TfLiteTransposeConvParams`: padding (1 is SAME), strides of width and height.
            let number = |k: usize| {
                o.custom.get(4 * k..4 * k + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
            };
            let (Some(padding), Some(width), Some(height)) = (number(0), number(1), number(2)) else {
                return Err(format!("its options have {} bytes, not 12", o.custom.len()));
            };
            (padding == 1, [height, width])
        } else {
            (o.choice(0)? == 0, [o.size(2, 0)?, o.size(1, 0)?])
        };
        if stride.contains(&0) {
            return Err(format!("the stride {stride:?}"));
        }
        let whole = [0, 1].map(|k| (size[k] - 1).saturating_mul(stride[k]).saturating_add(kernel[k]));
        let wanted = if custom {
            let cut = |k: usize| if is_same { kernel[k].saturating_sub((size[k] - 1) % stride[k] + 1) } else { 0 };
            [0, 1].map(|k| whole[k] - cut(k))
        } else {
            match sizes(&self.integers(x.get(0)?)?)?[..] {
                [_, height, width, _] => [height, width],
                ref shape => return Err(format!("an output of the shape {shape:?}")),
            }
        };
        let cut = [0, 1].map(|k| whole[k].saturating_sub(wanted[k]));
        let extra = [0, 1].map(|k| wanted[k].saturating_sub(whole[k]));
        let pads = cut.map(|cut| [cut / 2, cut - cut / 2]);
        let op = Convolution { group: 1, kernel, stride, dilation: [1, 1], padding: padding(pads) };
        let bias = self.bias(n, o, at, x)?;
        let operands: Vec<_> = [data.id, weights].into_iter().chain(bias).collect();
        let id = self.emit(n, Op::Deconvolution(op, extra), &operands)?;
        Ok(self.value(id, true))
    }

    pub(super) fn pool(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        let (data, size) = self.image(n, x.get(0)?)?;
        // Pool2DOptions: padding, strides of width and height, width and height of the filter, activation.
        let (stride, kernel) = ([o.size(2, 0)?, o.size(1, 0)?], [o.size(4, 0)?, o.size(3, 0)?]);
        let pads = match o.choice(0)? {
            0 => [0, 1].map(|k| same(size[k], kernel[k], stride[k])),
            1 => [[0; 2]; 2],
            other => return Err(format!("the padding {other}")),
        };
        let count_include_pad = pads == [[0; 2]; 2];
        let kind = if o.name == "MAX_POOL_2D" { PoolKind::Max } else { PoolKind::Average { count_include_pad } };
        let id = self.emit(
            n,
            Op::Pool(Pool { kind, kernel, stride, dilation: [1; 2], padding: padding(pads) }),
            &[data.id],
        )?;
        Ok(self.value(id, true))
    }

    pub(super) fn resize(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        let (data, from) = self.image(n, x.get(0)?)?;
        let to = sizes(&self.integers(x.get(1)?)?)?;
        let &[height, width] = &to[..] else { return Err(format!("the size {to:?}")) };
        let bilinear = o.name == "RESIZE_BILINEAR";
        // The deprecated sizes have the first slots of ResizeBilinearOptions.
        let at = if bilinear { 2 } else { 0 };
        let (corners, half) = (o.flag(at)?, o.flag(at + 1)?);
        let (coordinates, rounding) = match (corners, half) {
            (true, _) => (Coordinates::AlignCorners, Rounding::HalfUp),
            // The nearest pixel is the one that has the output pixel's middle.
            (_, true) => (Coordinates::HalfPixel, Rounding::HalfUp),
            _ => (Coordinates::Asymmetric, Rounding::Floor),
        };
        let mode = if bilinear { ResizeMode::Bilinear } else { ResizeMode::Nearest(rounding) };
        let scales = [height as f32 / from[0] as f32, width as f32 / from[1] as f32];
        let id = self.emit(n, Op::Resize(Resize::new(mode, coordinates, scales, [height, width])), &[data.id])?;
        Ok(self.value(id, true))
    }
}
