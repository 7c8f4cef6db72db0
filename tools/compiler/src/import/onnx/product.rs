// SPDX-License-Identifier: MIT OR Apache-2.0

//! Convolutions, deconvolutions and matrix products.

use super::super::at::At;
use super::super::product::product;
use super::convert::sizes;
use super::reader::{Node, Reader, TensorValue};
use crate::ir::{Binary, Convolution, Op, Padding, TensorId};

/// The windows of `Conv`, `ConvTranspose` and the poolings, in two dimensions.
pub(super) struct Windows {
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) dilation: [usize; 2],
    /// Padding before and after, per direction.
    pub(super) pads: [(usize, usize); 2],
    pub(super) auto_pad: String,
}

impl Windows {
    /// `rank` is the number of spatial dimensions, 1 or 2; a missing height is 1.
    pub(super) fn read(n: &Node<'_>, kernel: &[usize], rank: usize) -> Result<Self, String> {
        let list = |name: &str, default: usize, count: usize| {
            let list = n.ints(name).map_or(Ok(vec![default; count]), |ints| sizes(ints, name))?;
            if list.len() == count {
                Ok(list)
            } else {
                Err(format!("{name} {list:?} for {rank} directions"))
            }
        };
        let two = |list: &[usize]| if rank == 1 { [1, list[0]] } else { [list[0], list[1]] };
        if kernel.len() != rank {
            return Err(format!("the kernel {kernel:?} for {rank} directions"));
        }
        let pads = list("pads", 0, 2 * rank)?;
        let pads = if rank == 1 { [(0, 0), (pads[0], pads[1])] } else { [(pads[0], pads[2]), (pads[1], pads[3])] };
        Ok(Self {
            kernel: two(kernel),
            stride: two(&list("strides", 1, rank)?),
            dilation: two(&list("dilations", 1, rank)?),
            pads,
            auto_pad: n.text("auto_pad", "NOTSET"),
        })
    }

    pub(super) fn extent(&self, axis: usize) -> usize {
        crate::ir::dilated(self.kernel[axis], self.dilation[axis])
    }

    /// Replaces `auto_pad` of a convolution or pooling by explicit padding.
    pub(super) fn resolve(&mut self, size: [usize; 2]) -> Result<(), String> {
        for axis in 0..2 {
            let stride = self.stride[axis].max(1);
            let outputs = size[axis].div_ceil(stride);
            let needed = (outputs - 1).saturating_mul(stride).saturating_add(self.extent(axis));
            let total = needed.saturating_sub(size[axis]);
            self.pads[axis] = match self.auto_pad.as_str() {
                "NOTSET" | "" => self.pads[axis],
                "VALID" => (0, 0),
                "SAME_UPPER" => (total / 2, total - total / 2),
                "SAME_LOWER" => (total - total / 2, total / 2),
                other => return Err(format!("auto_pad {other}")),
            };
        }
        Ok(())
    }

    pub(super) fn padding(&self) -> Padding {
        let [(top, bottom), (left, right)] = self.pads;
        Padding { top, left, bottom, right }
    }

    fn convolution(&self, group: usize) -> Convolution {
        let (kernel, stride, dilation) = (self.kernel, self.stride, self.dilation);
        Convolution { group, kernel, stride, dilation, padding: self.padding() }
    }
}

/// A shape of one spatial dimension with a height of 1.
pub(super) fn with_height(shape: &[usize]) -> Vec<usize> {
    if let [n, c, l] = *shape {
        vec![n, c, 1, l]
    } else {
        shape.to_vec()
    }
}

impl Reader {
    /// The number of spatial dimensions of an input, which must be 1 or 2.
    pub(super) fn spatial(&self, x: TensorId) -> Result<usize, String> {
        match self.graph.shape(x).len() {
            rank @ (3 | 4) => Ok(rank - 2),
            rank => {
                Err(format!("its input has {rank} dimensions; three (N, C, L) and four (N, C, H, W) are supported"))
            }
        }
    }

    /// Removes the height of 1 again, if the input had none.
    pub(super) fn without_height(&mut self, n: &Node<'_>, x: TensorId, rank: usize) -> Result<TensorId, String> {
        if rank == 2 {
            return Ok(x);
        }
        let shape = self.graph.shape(x);
        let shape = [shape[0], shape[1], shape[3]];
        self.reshape(n, x, &shape)
    }

    fn weights(&self, id: TensorId) -> Result<Vec<usize>, String> {
        if self.graph.constant(id).is_none() {
            let name = &self.graph.tensor(id).name;
            return Err(format!("its weights {name:?} are computed by the network; NVDLA needs constant weights"));
        }
        Ok(self.graph.shape(id).to_vec())
    }

    fn group(n: &Node<'_>) -> Result<usize, String> {
        usize::try_from(n.int("group", 1)).map_err(|_| format!("{} groups", n.int("group", 1)))
    }

    pub(super) fn conv(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let (x, w) = (self.real(n, inputs, 0)?, self.real(n, inputs, 1)?);
        let bias = self.optional(n, inputs, 2)?;
        self.convolution(n, x, w, bias)
    }

    pub(super) fn convolution(
        &mut self,
        n: &Node<'_>,
        x: TensorId,
        w: TensorId,
        bias: Option<TensorId>,
    ) -> Result<TensorId, String> {
        let (rank, weights) = (self.spatial(x)?, self.weights(w)?);
        if weights.len() != rank + 2 {
            return Err(format!("weights of {} dimensions for an input of {}", weights.len(), rank + 2));
        }
        let given = n.ints("kernel_shape").map_or(Ok(weights[2..].to_vec()), |ints| sizes(ints, "kernel_shape"))?;
        if given != weights[2..] {
            return Err(format!("kernel_shape {given:?}, but weights {weights:?}"));
        }
        let mut windows = Windows::read(n, &weights[2..], rank)?;
        let x = self.reshape(n, x, &with_height(self.graph.shape(x)))?;
        let w = self.reshape(n, w, &with_height(&weights))?;
        let shape = self.graph.shape(x);
        windows.resolve([shape[2], shape[3]])?;
        let op = Op::Convolution(windows.convolution(Self::group(n)?));
        let operands: Vec<_> = [x, w].into_iter().chain(bias).collect();
        self.bias_is_constant(bias)?;
        let y = self.emit(n, op, &operands)?;
        self.without_height(n, y, rank)
    }

    fn bias_is_constant(&self, bias: Option<TensorId>) -> Result<(), String> {
        match bias {
            Some(bias) if self.graph.constant(bias).is_none() => Err("its bias is not a constant".to_owned()),
            _ => Ok(()),
        }
    }

    pub(super) fn conv_transpose(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let (x, w) = (self.real(n, inputs, 0)?, self.real(n, inputs, 1)?);
        let bias = self.optional(n, inputs, 2)?;
        self.bias_is_constant(bias)?;
        let (rank, weights) = (self.spatial(x)?, self.weights(w)?);
        if weights.len() != rank + 2 {
            return Err(format!("weights of {} dimensions for an input of {}", weights.len(), rank + 2));
        }
        let mut windows = Windows::read(n, &weights[2..], rank)?;
        let list = |name: &str| {
            let list = n.ints(name).map(|ints| sizes(ints, name)).transpose()?;
            match list {
                Some(list) if list.len() < rank => Err(format!("{name} {list:?} for {rank} directions")),
                Some(list) if rank == 1 => Ok(Some([usize::from(name == "output_shape"), list[list.len() - 1]])),
                Some(list) => Ok(Some([list[list.len() - 2], list[list.len() - 1]])),
                None => Ok(None),
            }
        };
        let mut extra = list("output_padding")?.unwrap_or([0; 2]);
        let x = self.reshape(n, x, &with_height(self.graph.shape(x)))?;
        let w = self.reshape(n, w, &with_height(&weights))?;
        let size = [self.graph.shape(x)[2], self.graph.shape(x)[3]];
        let same = windows.auto_pad.starts_with("SAME");
        let given = list("output_shape")?;
        let wanted = match given {
            Some(shape) => Some(shape),
            None if same => {
                Some([size[0].saturating_mul(windows.stride[0]), size[1].saturating_mul(windows.stride[1])])
            }
            None => None,
        };
        for axis in 0..2 {
            if let Some(wanted) = wanted {
                let whole = (size[axis] - 1).saturating_mul(windows.stride[axis]).saturating_add(windows.extent(axis));
                let whole = whole.saturating_add(extra[axis]);
                let total = whole.saturating_sub(wanted[axis]);
                let half = if windows.auto_pad == "SAME_UPPER" { total / 2 } else { total - total / 2 };
                windows.pads[axis] = (half, total - half);
                // ONNX Runtime adds no lines for SAME where the stride is greater than the kernel.
                if given.is_some() {
                    extra[axis] += wanted[axis].saturating_sub(whole);
                }
            } else if windows.auto_pad == "VALID" {
                windows.pads[axis] = (0, 0);
            }
        }
        let op = Op::Deconvolution(windows.convolution(Self::group(n)?), extra);
        let operands: Vec<_> = [x, w].into_iter().chain(bias).collect();
        let y = self.emit(n, op, &operands)?;
        self.without_height(n, y, rank)
    }

    pub(super) fn gemm(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let (mut a, mut b) = (self.real(n, inputs, 0)?, self.real(n, inputs, 1)?);
        let (alpha, beta) = (n.float("alpha", 1.0), n.float("beta", 1.0));
        if self.graph.shape(a).len() != 2 || self.graph.shape(b).len() != 2 {
            return Err("its operands do not have two dimensions".to_owned());
        }
        if n.int("transA", 0) != 0 {
            a = self.transpose(n, a, &[1, 0])?;
        }
        if n.int("transB", 0) != 0 {
            b = self.transpose(n, b, &[1, 0])?;
        }
        if alpha != 1.0 {
            let factor = self.emit_constant(n, &[], vec![alpha])?;
            b = self.emit(n, Op::Binary(Binary::Mul), &[b, factor])?;
        }
        let mut c = self.optional(n, inputs, 2)?;
        if let (Some(id), true) = (c, beta != 1.0) {
            let factor = self.emit_constant(n, &[], vec![beta])?;
            c = Some(self.emit(n, Op::Binary(Binary::Mul), &[id, factor])?);
        }
        let kernels = self.graph.shape(b)[1];
        // A single value, or one value per column, is a bias.
        let bias = match c.and_then(|c| self.graph.constant(c).map(|values| (self.graph.shape(c), values))) {
            Some((_, values)) if values.len() == 1 => Some(vec![values[0]; kernels]),
            Some((shape, values)) if shape.last() == Some(&kernels) && values.len() == kernels => Some(values.to_vec()),
            _ => None,
        };
        let bias_id = bias.map(|bias| self.emit_constant(n, &[kernels], bias)).transpose()?;
        let y = self.product(n, a, b, bias_id)?;
        match c {
            Some(c) if bias_id.is_none() => self.emit(n, Op::Binary(Binary::Add), &[y, c]),
            _ => Ok(y),
        }
    }

    pub(super) fn mat_mul(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let (a, b) = (self.real(n, inputs, 0)?, self.real(n, inputs, 1)?);
        self.product(n, a, b, None)
    }

    /// Whether the lines of a matrix are those of one sequence, and not images of a batch: it is a tensor of a batch of 1 in the shape of
    /// a matrix.
    fn is_sequence(&self, mut a: TensorId) -> bool {
        let lines = self.graph.shape(a)[0];
        while let Some(node) = self.graph.producer(a).map(|id| self.graph.node(id)) {
            a = node.inputs[0];
            match node.op {
                Op::Unary(_) | Op::Binary(_) => {}
                Op::Reshape { .. } | Op::Transpose { .. } => match self.graph.shape(a).first() {
                    Some(1) => return lines > 1,
                    Some(&first) if first == lines => {}
                    _ => break,
                },
                _ => break,
            }
        }
        false
    }

    /// The product of matrices. `a` may have further leading dimensions; `bias` has one value per
    /// column.
    pub(super) fn product(
        &mut self,
        n: &Node<'_>,
        a: TensorId,
        b: TensorId,
        bias: Option<TensorId>,
    ) -> Result<TensorId, String> {
        let constant = |reader: &Self, id: TensorId| reader.graph.constant(id).is_some();
        let (shape_a, shape_b) = (self.graph.shape(a).to_vec(), self.graph.shape(b).to_vec());
        if !constant(self, a) && !constant(self, b) {
            let y = product(&mut At { graph: &mut self.graph, node: &n.name }, a, b)?;
            return match bias {
                Some(bias) => self.emit(n, Op::Binary(Binary::Add), &[y, bias]),
                None => Ok(y),
            };
        }
        if !constant(self, b) {
            if let (&[k, c], &[_, columns]) = (&shape_a[..], &shape_b[..]) {
                if columns > 1 && bias.is_none() && shape_b[0] == c {
                    // Columns of pixels, and not separate images.
                    let b = self.reshape(n, b, &[1, c, columns])?;
                    let y = self.product(n, a, b, None)?;
                    return self.reshape(n, y, &[k, columns]);
                }
            }
            // (A B) = (B' A')'.
            if shape_a.len() != 2 || shape_b.len() < 2 || bias.is_some() {
                return Err(format!("a constant {shape_a:?} by a matrix {shape_b:?}"));
            }
            let mut swapped: Vec<usize> = (0..shape_b.len()).collect();
            swapped.swap(shape_b.len() - 1, shape_b.len() - 2);
            let (a, b) = (self.transpose(n, a, &[1, 0])?, self.transpose(n, b, &swapped)?);
            let y = self.product(n, b, a, None)?;
            return self.transpose(n, y, &swapped);
        }
        // Leading dimensions of 1 have no effect.
        let leading = shape_b.len().saturating_sub(2);
        let (&[c, k], true) = (&shape_b[leading..], shape_b[..leading].iter().all(|&extent| extent == 1)) else {
            return Err(format!("a matrix {shape_a:?} by weights {shape_b:?}"));
        };
        let Some((&last, outer)) = shape_a.split_last().filter(|(last, _)| **last == c) else {
            return Err(format!("a matrix {shape_a:?} by weights {shape_b:?}"));
        };
        let weights = self.reshape(n, b, &[c, k])?;
        let weights = self.transpose(n, weights, &[1, 0])?;
        let weights = self.reshape(n, weights, &[k, c, 1, 1])?;
        let op = Convolution::pointwise();
        let shape: Vec<usize> = outer.iter().copied().chain([k]).collect();
        if let [ref batch @ .., lines, columns] = *outer {
            if !batch.is_empty() {
                // Pixels whose channels are last.
                let batch = batch.iter().product();
                let mut x = self.reshape(n, a, &[batch, lines, columns, last])?;
                x = self.transpose(n, x, &[0, 3, 1, 2])?;
                let operands: Vec<_> = [x, weights].into_iter().chain(bias).collect();
                let mut y = self.emit(n, Op::Convolution(op), &operands)?;
                y = self.transpose(n, y, &[0, 2, 3, 1])?;
                return self.reshape(n, y, &shape);
            }
        }
        // Lines become columns of pixels, unless each line is a separate image.
        let (batch, lines) = match *outer {
            [] => (1, 1),
            [lines] if self.is_sequence(a) => (1, lines),
            [lines] => (lines, 1),
            // A sequence before its batch, as PyTorch's recurrent layers have it.
            [lines, 1] => (1, lines),
            [ref batch @ .., lines] => (batch.iter().product(), lines),
        };
        let mut x = self.reshape(n, a, &[batch, lines, last])?;
        x = self.transpose(n, x, &[0, 2, 1])?;
        x = self.reshape(n, x, &[batch, last, 1, lines])?;
        let operands: Vec<_> = [x, weights].into_iter().chain(bias).collect();
        let mut y = self.emit(n, Op::Convolution(op), &operands)?;
        y = self.reshape(n, y, &[batch, k, lines])?;
        y = self.transpose(n, y, &[0, 2, 1])?;
        self.reshape(n, y, &shape)
    }
}
