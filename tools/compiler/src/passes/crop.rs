// SPDX-License-Identifier: MIT OR Apache-2.0

//! Removes the last lines and columns of tensors if no step reads them, such as the last line of the input of a pooling that
//! rounds its size down. They are then neither computed nor stored. A pooling can then take its input on the fly, because its
//! windows read all of it.

use crate::ir;
use crate::net::step::{Kind, Net, TensorId};

/// Reduces the lines and columns of tensors to those that are read.
pub(crate) fn crop(net: &mut Net) {
    let sizes: Vec<[u32; 2]> = net.tensors.iter().map(|tensor| [tensor.shape[1], tensor.shape[2]]).collect();
    let mut needed = vec![[0; 2]; sizes.len()];
    net.inputs.iter().chain(&net.outputs).for_each(|&id| needed[id] = sizes[id]);
    // Tensors that a step processes element by element keep equal sizes. The needs of one of them affect steps that were visited
    // before, so this is repeated until nothing changes. Sizes only increase.
    loop {
        let before = needed.clone();
        for step in net.steps.iter().rev() {
            let equal = |id: TensorId| sizes[id] == sizes[step.output];
            // Tensors that are read element by element, and as a whole.
            let (mut each, mut whole): (Vec<_>, Vec<_>) = step.operands().partition(|&id| equal(id));
            // Tensors that are read in windows: size, stride and padding before them.
            let mut windows = None;
            match &step.kind {
                Kind::Convolution(conv) => {
                    let ir::Convolution { kernel, stride, dilation, padding, .. } = conv.op;
                    let size = [0, 1].map(|axis| (kernel[axis] - 1) * dilation[axis] + 1);
                    windows = Some((size, stride, [padding.top, padding.left]));
                }
                Kind::Pool(pool) => windows = Some((pool.kernel, pool.stride, [pool.padding.top, pool.padding.left])),
                Kind::Slice { start, step: by } => {
                    let start = [0, 1].map(|axis| start[1 + axis] as usize);
                    windows = Some(([start[0] + 1, start[1] + 1], [by[1] as usize, 1], [0; 2]));
                }
                Kind::Columns(apart) => windows = Some(([1; 2], [1, *apart as usize], [0; 2])),
                Kind::Copy | Kind::Concat(0) | Kind::Channels(_) | Kind::Lrn(_) | Kind::Same
                    if step.inputs.iter().all(|&id| equal(id)) =>
                {
                    each.extend(&step.inputs);
                }
                _ => whole.extend(step.inputs.iter().chain([&step.output])),
            }
            for id in whole {
                needed[id] = sizes[id];
            }
            each.push(step.output);
            let most = [0, 1].map(|axis| each.iter().map(|&id| needed[id][axis]).max().unwrap_or(0));
            for id in each {
                needed[id] = most;
            }
            if let Some((size, stride, pad)) = windows {
                let input = step.inputs[0];
                for axis in [0, 1] {
                    let end = (most[axis].max(1) as usize - 1) * stride[axis] + size[axis];
                    let reach = end.saturating_sub(pad[axis]).max(1) as u32;
                    needed[input][axis] = needed[input][axis].max(reach).min(sizes[input][axis]);
                }
            }
        }
        if needed == before {
            break;
        }
    }
    for (tensor, [height, width]) in net.tensors.iter_mut().zip(needed) {
        // No step reads a tensor of size 0.
        if height > 0 && width > 0 {
            (tensor.shape[1], tensor.shape[2]) = (height, width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Padding, Pool, PoolKind};
    use crate::net::example::{convolution, net, step};

    /// A pooling that rounds its size down leaves the last line and column of its input unread; the input of the network stays.
    #[test]
    fn what_no_window_reads_is_not_computed() {
        let pool = Pool { kind: PoolKind::Max, kernel: [2; 2], stride: [2; 2], padding: Padding::default() };
        let steps = vec![step(convolution(3, 4, 3), &[0], vec![], 1), step(Kind::Pool(pool), &[1], vec![], 2)];
        let mut net = net(&[[3, 5, 7], [4, 5, 7], [4, 2, 3]], steps);
        crop(&mut net);
        let shapes: Vec<[u32; 3]> = net.tensors.iter().map(|tensor| tensor.shape).collect();
        assert_eq!(shapes, [[3, 5, 7], [4, 4, 6], [4, 2, 3]]);
    }
}
