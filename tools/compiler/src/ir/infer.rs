// SPDX-License-Identifier: MIT OR Apache-2.0

//! Infers the shape of each operator's output, and refuses parameters that contradict the inputs' shapes.

use super::ids::MAX_ELEMENTS;
use super::op::*;

/// The number of elements of a shape. An error if there are none, or more than [`MAX_ELEMENTS`].
pub fn elements(shape: &[usize]) -> Result<usize, String> {
    let product = shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
    match product {
        Some(0) => Err(format!("the shape {shape:?} is empty")),
        Some(count) if count <= MAX_ELEMENTS => Ok(count),
        _ => Err(format!("the shape {shape:?} has more than {MAX_ELEMENTS} elements")),
    }
}

/// How an operand is broadcast to the other's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broadcast {
    /// One value for all.
    Scalar,
    /// One value per channel: dimension 1 of N, C, H, W.
    Channel,
    /// One value per element.
    Element,
    /// None of these.
    Other,
}

/// How an operand of shape `from` is broadcast to the shape `to` (N, C, …); both are aligned at their last dimensions.
pub fn broadcast(from: &[usize], to: &[usize]) -> Broadcast {
    let from_elements: usize = from.iter().product();
    if from_elements == to.iter().product::<usize>() && from.len() <= to.len() {
        return Broadcast::Element;
    }
    if from_elements == 1 {
        return Broadcast::Scalar;
    }
    // Dimension 1 of `to`, counted from the last dimension.
    let channel = from.len().checked_sub(to.len().saturating_sub(1));
    match channel {
        Some(at) if to.len() > 1 && from.get(at) == Some(&to[1]) && from_elements == to[1] => Broadcast::Channel,
        _ => Broadcast::Other,
    }
}

/// The shape to which two operands are broadcast.
fn extended(a: &[usize], b: &[usize]) -> Result<Vec<usize>, String> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (x, y) if x == y || y == 1 => Ok(x),
            (1, y) => Ok(y),
            _ => Err(format!("the shapes {a:?} and {b:?} cannot be broadcast to each other")),
        })
        .collect()
}

/// The number of windows along one axis.
fn windows(size: usize, padding: (usize, usize), kernel: usize, stride: usize) -> Result<usize, String> {
    if kernel == 0 || stride == 0 {
        return Err(format!("kernel {kernel} and stride {stride} must not be 0"));
    }
    let whole = size.saturating_add(padding.0).saturating_add(padding.1);
    match whole.checked_sub(kernel) {
        Some(rest) if whole <= MAX_ELEMENTS => Ok(rest / stride + 1),
        Some(_) => Err(format!("the size with its padding, {whole}, is too large")),
        None => {
            Err(format!("a window of {kernel} does not fit {whole} ({size} and padding {} + {})", padding.0, padding.1))
        }
    }
}

fn four(shape: &[usize]) -> Result<[usize; 4], String> {
    shape.try_into().map_err(|_| format!("the input {shape:?} does not have four dimensions"))
}

fn convolution(op: &Convolution, inputs: &[&[usize]], transposed: Option<[usize; 2]>) -> Result<Vec<usize>, String> {
    let Convolution { group, kernel, stride, dilation, padding } = *op;
    let (&[data, weights], bias) = inputs.split_first_chunk::<2>().ok_or("weights are missing")?;
    let ([n, c, h, w], [k, per_group, r, s]) = (four(data)?, four(weights)?);
    if group == 0 || stride.contains(&0) || dilation.contains(&0) || [r, s] != kernel || kernel.contains(&0) {
        let given = format!("kernel {kernel:?}, stride {stride:?}, dilation {dilation:?}, {group} groups");
        return Err(format!("{given} with weights {weights:?}"));
    }
    let (from, to) =
        if transposed.is_some() { (k, per_group.saturating_mul(group)) } else { (per_group.saturating_mul(group), k) };
    if from != c || from % group != 0 || to % group != 0 {
        return Err(format!("weights {weights:?} in {group} groups for {c} channels"));
    }
    match bias {
        [] => {}
        [shape] if **shape == [to] => {}
        _ => return Err(format!("the bias has the shape {:?} for {to} kernels", bias[0])),
    }
    let paddings = [(padding.top, padding.bottom), (padding.left, padding.right)];
    let mut sizes = [0; 2];
    for (axis, size) in [h, w].into_iter().enumerate() {
        let kernel = dilated(kernel[axis], dilation[axis]);
        sizes[axis] = match transposed {
            None => windows(size, paddings[axis], kernel, stride[axis])?,
            Some(extra) => {
                let whole = (size - 1).saturating_mul(stride[axis]).saturating_add(kernel).saturating_add(extra[axis]);
                let cut = paddings[axis].0.saturating_add(paddings[axis].1);
                whole.checked_sub(cut).ok_or_else(|| format!("padding {cut} is cut off an output of {whole}"))?
            }
        };
    }
    Ok(vec![n, to, sizes[0], sizes[1]])
}

/// The shape of an operator's output.
pub fn infer(op: &Op, inputs: &[&[usize]]) -> Result<Vec<usize>, String> {
    let (least, most) = match op {
        Op::Convolution(_) | Op::Deconvolution(..) => (2, 3),
        Op::Product | Op::Binary(_) | Op::PRelu => (2, 2),
        Op::Concat { .. } => (1, usize::MAX),
        _ => (1, 1),
    };
    if inputs.len() < least || inputs.len() > most {
        return Err(format!("{} inputs, not {least}", inputs.len()));
    }
    let x = inputs[0];
    let count = |what: &str, len: usize| {
        if len == x.len() {
            Ok(())
        } else {
            Err(format!("{len} {what} for the {} dimensions of {x:?}", x.len()))
        }
    };
    let shape = match op {
        Op::Convolution(op) => convolution(op, inputs, None)?,
        Op::Deconvolution(op, output_padding) => convolution(op, inputs, Some(*output_padding))?,
        Op::Product => {
            let ([n, c, h, w], [one, channels, rows, columns]) = (four(x)?, four(inputs[1])?);
            if (n, one) != (1, 1) || c != channels {
                return Err(format!("a product of {x:?} and {:?}", inputs[1]));
            }
            vec![1, rows.saturating_mul(columns), h, w]
        }
        Op::Binary(_) => extended(x, inputs[1])?,
        Op::Unary(_) => x.to_vec(),
        Op::PRelu => {
            if x.len() < 2 || inputs[1] != [x[1]] {
                return Err(format!("slopes {:?} for the input {x:?}", inputs[1]));
            }
            x.to_vec()
        }
        Op::Pool(pool @ Pool { kernel, stride, dilation, padding, .. }) => {
            let [n, c, h, w] = four(x)?;
            if dilation.contains(&0) || kernel.contains(&0) {
                return Err(format!("kernel {kernel:?} and dilation {dilation:?} must not be 0"));
            }
            let kernel = pool.window();
            for (before, after, kernel) in
                [(padding.top, padding.bottom, kernel[0]), (padding.left, padding.right, kernel[1])]
            {
                // A window of only padding would have no value.
                if before >= kernel || after >= kernel {
                    return Err(format!("padding {before} + {after} must be less than the kernel, {kernel}"));
                }
            }
            let height = windows(h, (padding.top, padding.bottom), kernel[0], stride[0])?;
            vec![n, c, height, windows(w, (padding.left, padding.right), kernel[1], stride[1])?]
        }
        Op::Resize(resize) => {
            let [n, c, _, _] = four(x)?;
            if resize.scales.iter().any(|scale| !(scale.is_finite() && *scale > 0.0)) {
                return Err(format!("scales {:?} are not positive numbers", resize.scales));
            }
            vec![n, c, resize.size[0], resize.size[1]]
        }
        Op::DepthToSpace { block, .. } => {
            let [n, c, h, w] = four(x)?;
            let [rows, columns] = *block;
            let count = rows.checked_mul(columns).filter(|count| *count > 0 && c % count == 0);
            let count = count.ok_or_else(|| format!("{c} channels in blocks of {rows} x {columns}"))?;
            vec![n, c / count, h.saturating_mul(rows), w.saturating_mul(columns)]
        }
        Op::SpaceToDepth { block } => {
            let [n, c, h, w] = four(x)?;
            let [rows, columns] = *block;
            if rows == 0 || columns == 0 || h % rows != 0 || w % columns != 0 {
                return Err(format!("{h} x {w} in blocks of {rows} x {columns}"));
            }
            vec![n, c.saturating_mul(rows.saturating_mul(columns)), h / rows, w / columns]
        }
        Op::Concat { axis } => {
            let mut shape = x.to_vec();
            let axis = *axis;
            if axis >= x.len() {
                return Err(format!("axis {axis} of {x:?}"));
            }
            for other in &inputs[1..] {
                let same = |(k, (a, b)): (usize, (&usize, &usize))| k == axis || a == b;
                if other.len() != x.len() || !x.iter().zip(other.iter()).enumerate().all(same) {
                    return Err(format!("{x:?} and {other:?} differ in other dimensions than {axis}"));
                }
                shape[axis] = shape[axis].saturating_add(other[axis]);
            }
            shape
        }
        Op::Slice { starts, steps, lengths } => {
            count("starts", starts.len())?;
            count("steps", steps.len())?;
            count("lengths", lengths.len())?;
            for axis in 0..x.len() {
                let (start, step, length) = (starts[axis], steps[axis], lengths[axis]);
                let last = isize::try_from(length).ok().and_then(|length| (length - 1).checked_mul(step));
                let last = last.and_then(|last| start.checked_add_signed(last));
                if step == 0 || length == 0 || start >= x[axis] || last.is_none_or(|last| last >= x[axis]) {
                    return Err(format!("{length} elements from {start} by {step} of axis {axis} of {x:?}"));
                }
            }
            lengths.clone()
        }
        Op::Pad { mode, before, after } => {
            count("paddings", before.len())?;
            count("paddings", after.len())?;
            let reflects = *mode == PadMode::Reflect;
            for axis in 0..x.len() {
                if reflects && before[axis].max(after[axis]) >= x[axis] {
                    return Err(format!(
                        "{} + {} elements reflected of axis {axis} of {x:?}",
                        before[axis], after[axis]
                    ));
                }
            }
            let sum = |axis: usize| x[axis].saturating_add(before[axis]).saturating_add(after[axis]);
            (0..x.len()).map(sum).collect()
        }
        Op::Reshape { shape } => {
            if elements(shape)? != elements(x)? {
                return Err(format!("{x:?} does not have as many elements as {shape:?}"));
            }
            shape.clone()
        }
        Op::Transpose { perm } => {
            count("axes", perm.len())?;
            if (0..x.len()).any(|axis| !perm.contains(&axis)) {
                return Err(format!("{perm:?} is not an order of {} dimensions", x.len()));
            }
            perm.iter().map(|&axis| x[axis]).collect()
        }
        Op::ChannelPermutation { from } => {
            let channels = *x.get(1).ok_or_else(|| format!("{x:?} has no channels"))?;
            if let Some(channel) = from.iter().find(|channel| **channel >= channels) {
                return Err(format!("channel {channel} of {channels}"));
            }
            let mut shape = x.to_vec();
            shape[1] = from.len();
            shape
        }
        Op::Lrn { size, .. } => {
            if *size == 0 {
                return Err("a size of 0".to_owned());
            }
            four(x)?.to_vec()
        }
        Op::Softmax { axis } => {
            if *axis >= x.len() {
                return Err(format!("axis {axis} of {x:?}"));
            }
            x.to_vec()
        }
    };
    elements(&shape)?;
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conv(group: usize, kernel: usize, stride: usize, pad: usize) -> Convolution {
        let padding = Padding { top: pad, left: pad, bottom: pad, right: pad };
        Convolution { group, kernel: [kernel; 2], stride: [stride; 2], dilation: [1; 2], padding }
    }

    #[test]
    fn convolutions_have_the_shape_of_their_windows() {
        let shape = |op, weights: &[usize]| infer(&Op::Convolution(op), &[&[1, 3, 224, 224], weights]);
        assert_eq!(shape(conv(1, 7, 2, 3), &[64, 3, 7, 7]), Ok(vec![1, 64, 112, 112]));
        assert_eq!(shape(conv(3, 3, 1, 1), &[6, 1, 3, 3]), Ok(vec![1, 6, 224, 224]));
        assert!(shape(conv(1, 7, 2, 3), &[64, 4, 7, 7]).is_err());
        assert!(shape(conv(2, 7, 2, 3), &[64, 3, 7, 7]).is_err());
        assert!(shape(conv(1, 300, 1, 0), &[64, 3, 300, 300]).is_err());
        let op = Op::Deconvolution(conv(1, 3, 2, 1), [1, 1]);
        assert_eq!(infer(&op, &[&[1, 8, 10, 10], &[8, 4, 3, 3], &[4]]), Ok(vec![1, 4, 20, 20]));
    }

    #[test]
    fn slices_stay_inside() {
        let slice = |start, step, length| Op::Slice { starts: vec![start], steps: vec![step], lengths: vec![length] };
        assert_eq!(infer(&slice(9, -3, 4), &[&[10]]), Ok(vec![4]));
        assert!(infer(&slice(8, -3, 4), &[&[10]]).is_err());
        assert!(infer(&slice(0, 1, usize::MAX), &[&[10]]).is_err());
        assert!(infer(&slice(10, 1, 1), &[&[10]]).is_err());
    }

    #[test]
    fn operands_extend() {
        assert_eq!(extended(&[1, 8, 4, 4], &[8, 1, 1]), Ok(vec![1, 8, 4, 4]));
        assert!(extended(&[1, 8, 4, 4], &[8]).is_err());
        assert_eq!(broadcast(&[8, 1, 1], &[1, 8, 4, 4]), Broadcast::Channel);
        assert_eq!(broadcast(&[1, 8, 1, 1], &[1, 8, 4, 4]), Broadcast::Channel);
        assert_eq!(broadcast(&[], &[1, 8, 4, 4]), Broadcast::Scalar);
        assert_eq!(broadcast(&[4], &[1, 4, 4, 4]), Broadcast::Other);
        assert_eq!(broadcast(&[8], &[1, 8]), Broadcast::Element);
    }
}
