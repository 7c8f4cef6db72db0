// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two poolings, one right after the other, with any window, stride, padding and parts that their registers can hold. The compiler's
//! networks have few of them.

use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{CvtParam, Operation, PdpOp, SdpOp, SdpSurface, Surface};
use nvdla_uapi::reg::values::{PoolingMethod, Precision};

use crate::build::{Net, Shape};
use crate::hostile::choices::Choices;

/// Elements of an input, divided by the elements of an atom.
const ATOMS: usize = 240;

/// One axis of a pooling.
#[derive(Clone, Copy, Debug)]
struct Axis {
    input: usize,
    output: usize,
    window: usize,
    stride: usize,
    before: usize,
    after: usize,
}

fn axis(choices: &mut impl Choices, most: usize) -> Axis {
    let mut between = |low: usize, high: usize| low + choices.below(high.max(low) - low + 1);
    let window = between(1, 8);
    let stride = if between(0, 3) == 0 { between(1, 16) } else { between(1, window) };
    let (mut before, mut after) = (0, 0);
    if between(0, 1) == 0 {
        (before, after) = (between(0, window - 1), between(0, window - 1));
    }
    let input = between(window.saturating_sub(before + after).max(1), most.max(window));
    let rest = (input + before + after - window) % stride;
    // In most cases the windows end where the padded input ends.
    if between(0, 3) > 0 {
        after -= rest.min(after);
    }
    let rest = (input + before + after - window) % stride;
    let input =
        if between(0, 3) > 0 && input > rest && input - rest + before + after >= window { input - rest } else { input };
    let output = (input + before + after - window) / stride + 1;
    Axis { input, output, window, stride, before, after }
}

/// Divides the columns into parts of the same number of outputs, of which the last has what is left.
fn split(op: &mut PdpOp, x: Axis, parts: usize) {
    let columns = x.output.div_ceil(parts);
    let parts = x.output.div_ceil(columns);
    let first = ((columns - 1) * x.stride + x.window).saturating_sub(x.before);
    let others = first + parts.saturating_sub(2) * columns * x.stride;
    if parts < 2 || first == 0 || others >= x.input {
        return;
    }
    op.split_num = parts as u8;
    let inputs = [first, columns * x.stride, x.input - others].map(|columns| columns as u16);
    [op.partial_in_width_first, op.partial_in_width_mid, op.partial_in_width_last] = inputs;
    let outputs = [columns, columns, x.output - (parts - 1) * columns].map(|columns| columns as u16);
    [op.partial_width_first, op.partial_width_mid, op.partial_width_last] = outputs;
}

/// The task. Its data are 64 KB at most.
pub fn pair(config: &'static Config, choices: &mut impl Choices) -> Net {
    let precision: Precision = config.feature_types[choices.below(config.feature_types.len())];
    let shape = Shape { config, precision };
    let mut net = Net::new();
    let elements = (config.memory_atomic / shape.bytes()) as u16;
    let (mut from, mut into) = (0, 0x8000);
    for _ in 0..2 {
        let (y, x) = (axis(choices, 12), axis(choices, 20));
        let surfaces = 1 + choices.below((ATOMS / y.input / x.input).clamp(1, 3));
        let channel = elements * surfaces as u16 - choices.below(elements.min(3).into()) as u16;
        let mut op = PdpOp {
            split_num: 1,
            pool_mode: [PoolingMethod::Max, PoolingMethod::Min, PoolingMethod::Average][choices.below(3)],
            pool_width: x.window as u8 - 1,
            pool_height: y.window as u8 - 1,
            stride_x: x.stride as u8,
            stride_y: y.stride as u8,
            pad_left: x.before as u8,
            pad_right: x.after as u8,
            pad_top: y.before as u8,
            pad_bottom: y.after as u8,
            precision,
            ..PdpOp::default()
        };
        if op.pool_mode == PoolingMethod::Average && precision != Precision::Fp16 && choices.chance(1, 3) {
            let each = choices.below(256) as i32 - 128;
            op.padding_value.iter_mut().zip(1..).for_each(|(value, times)| *value = each * times);
        }
        let flies = choices.chance(1, 4);
        if !flies && choices.chance(1, 3) {
            split(&mut op, x, 2 + choices.below(3));
        }
        let index = net.pooling(shape, into);
        let (pdp, surface) = net.pdp(index);
        *pdp = op;
        let [width, height] = [x.input, y.input].map(|size| size as u16);
        surface.src_data = shape.cube(from, width, height, channel);
        surface.dst_data = shape.cube(into, x.output as u16, y.output as u16, channel);
        if flies {
            surface.src_data = shape.flying(width, height, channel);
            let op = SdpOp {
                src_precision: precision,
                dst_precision: precision,
                lut_index: -1,
                out_cvt: CvtParam { scale: 1, truncate: 0, enable: 1, offset: 0 },
                batch_num: 1,
                ..SdpOp::default()
            };
            let flying = surface.src_data;
            let surface = SdpSurface {
                src_data: shape.cube(from, width, height, channel),
                dst_data: flying,
                ..SdpSurface::default()
            };
            let sdp = net.push(Operation::Sdp(op), Surface::Sdp(surface));
            net.fuse(sdp, index);
        }
        (from, into) = (from + 0x4000, into + 0x4000);
    }
    net
}
