// SPDX-License-Identifier: MIT OR Apache-2.0

//! Removes the last lines and columns of tensors if no step reads them, such as the last line of the input of a pooling that
//! rounds its size down. They are then neither computed nor stored. A pooling can then take its input on the fly, because its
//! windows read all of it.

use crate::net::access::{access, Access};
use crate::net::step::{Net, TensorId};

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
            let mut windows = None;
            match access(net, step) {
                [Access::Windows(lines, line), Access::Windows(columns, column)] => {
                    windows = Some([(lines, line), (columns, column)]);
                }
                [Access::Same, Access::Same] => each.extend(&step.inputs),
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
            if let Some(windows) = windows {
                let input = step.inputs[0];
                for axis in [0, 1] {
                    let (windows, start) = windows[axis];
                    let reach = (start + windows.reach(most[axis].max(1))).max(1);
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
    use crate::ir::{Pool, PoolKind};
    use crate::net::example::{convolution, net, step};
    use crate::net::step::Kind;

    /// A pooling that rounds its size down leaves the last line and column of its input unread; the input of the network stays.
    #[test]
    fn what_no_window_reads_is_not_computed() {
        let pool = Pool { stride: [2; 2], ..Pool::new(PoolKind::Max, [2; 2]) };
        let steps = vec![step(convolution(3, 4, 3), &[0], vec![], 1), step(Kind::Pool(pool), &[1], vec![], 2)];
        let mut net = net(&[[3, 5, 7], [4, 5, 7], [4, 2, 3]], steps);
        crop(&mut net);
        let shapes: Vec<[u32; 3]> = net.tensors.iter().map(|tensor| tensor.shape).collect();
        assert_eq!(shapes, [[3, 5, 7], [4, 4, 6], [4, 2, 3]]);
    }
}
