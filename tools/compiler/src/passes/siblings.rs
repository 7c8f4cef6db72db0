// SPDX-License-Identifier: MIT OR Apache-2.0

//! Puts convolutions that read the same tensor behind one another, so that the convolution buffer can keep it for all of them.
//!
//! A sum then joins the convolution of the other operand, which comes later: in ResNet, the one at the end of a block instead of the
//! one that projects the block's input.

use nvdla_uapi::config::Config;

use crate::ir;
use crate::net::step::{Convolution, Kind, Net, Step};
use crate::options::Optimize;

/// Moves each convolution of a tensor that the buffer can hold behind the last one before that reads the same tensor, if its
/// operands are computed there. Only for [`Optimize::Time`], because their outputs are in memory together.
pub(crate) fn siblings(net: &mut Net, config: &Config, goal: Optimize) {
    if goal != Optimize::Time {
        return;
    }
    let room = u64::from(config.cbuf_banks) * u64::from(config.cbuf_bank_bytes());
    for index in 0..net.steps.len() {
        let step = &net.steps[index];
        let Kind::Convolution(conv) = &step.kind else { continue };
        // With other strides it reads other lines, and with a window that is smaller than its stride it does not read all.
        let lines = |other: &Convolution| {
            let (op, other) = (&conv.op, &other.op);
            let whole = |op: &ir::Convolution| (0..2).all(|axis| op.kernel[axis] >= op.stride[axis]);
            other.stride == op.stride && (other.kernel == op.kernel || whole(op) && whole(other))
        };
        let same = |other: &Step| {
            matches!(&other.kind, Kind::Convolution(other) if lines(other)) && other.inputs == step.inputs
        };
        let Some(sibling) = net.steps[..index].iter().rposition(same) else { continue };
        let held = net.tensors[step.inputs[0]].elements() as u64 <= room;
        let known = net.steps[sibling + 1..index].iter().all(|other| step.reads().all(|read| read != other.output));
        if held && known {
            net.steps[sibling + 1..=index].rotate_right(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::NV_SMALL;

    use super::*;
    use crate::net::example::{convolution, net, step};
    use crate::net::step::{Combine, PostOp};
    use crate::net::verify::verify;

    /// A block of ResNet: the convolution beside it comes second, unless it adds what the others compute, reads other lines, or the tensor
    /// is too large.
    #[test]
    fn convolutions_of_a_tensor_follow_one_another() {
        let strided = |side, stride, kernel, post: Vec<PostOp>| {
            let of = |kernel| {
                let mut kind = convolution(8, 8, kernel);
                if let Kind::Convolution(conv) = &mut kind {
                    conv.op.stride = [stride; 2];
                }
                kind
            };
            let steps = vec![
                step(of(kernel), &[0], vec![], 1),
                step(convolution(8, 8, 3), &[1], vec![], 2),
                step(of(1), &[0], post, 3),
                step(Kind::Copy, &[2], vec![PostOp::With(Combine::Add { negate: false }, 3)], 4),
            ];
            let mut net = net(&[[8, side, side]; 5], steps);
            siblings(&mut net, &NV_SMALL, Optimize::Time);
            verify(&net).unwrap();
            net.steps.iter().map(|step| step.output).collect::<Vec<_>>()
        };
        let block = |side, post| strided(side, 1, 1, post);
        assert_eq!(block(16, vec![]), [1, 3, 2, 4]);
        // A window of one line in strides of two reads half of the lines.
        assert_eq!([1, 3].map(|kernel| strided(16, 1, kernel, vec![])), [[1, 3, 2, 4]; 2]);
        assert_eq!([1, 3].map(|kernel| strided(16, 2, kernel, vec![])), [[1, 3, 2, 4], [1, 2, 3, 4]]);
        assert_eq!(block(16, vec![PostOp::With(Combine::Add { negate: false }, 2)]), [1, 2, 3, 4]);
        assert_eq!(block(256, vec![]), [1, 2, 3, 4]);
    }
}
