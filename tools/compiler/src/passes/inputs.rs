// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inputs that are given as the bytes of pictures: which of them a convolution reads as images, and the copies that convert
//! the others.

use std::collections::HashMap;

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::weight::ImageWindows;
use nvdla_uapi::reg::values::Precision;

use crate::ir::{Color, Preprocess};
use crate::net::step::{Convolution, Kind, Net, PostOp, Step, TensorId};
use crate::options::{Bytes, Options};
use crate::target::{LARGEST_KERNEL, LARGEST_STRIDE};

/// An input that is given as bytes: value = (integer - zero) * scale, per channel.
#[derive(Clone, Debug)]
pub struct ByteInput {
    pub(crate) preprocess: Preprocess,
    pub(crate) bytes: Bytes,
}

impl ByteInput {
    /// The scale of a channel.
    pub fn scale(&self, channel: usize) -> f64 {
        1.0 / self.bytes.per_byte() / f64::from(self.preprocess.channel(channel).1)
    }

    /// The integer that represents zero.
    pub fn zero(&self, channel: usize) -> f64 {
        f64::from(self.preprocess.channel(channel).0) * self.bytes.per_byte()
    }
}

/// The preprocessing of the inputs that are given as bytes.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The configuration.
    pub config: &'static Config,
    known: HashMap<TensorId, ByteInput>,
}

impl Inputs {
    /// An input that is given as bytes.
    pub fn of(&self, tensor: TensorId) -> Option<&ByteInput> {
        self.known.get(&tensor)
    }

    /// Its scale: the greatest of its channels' scales.
    pub fn fixed(&self, tensor: TensorId) -> Option<f64> {
        let known = self.known.get(&tensor)?;
        (0..known.preprocess.std.len().max(1)).map(|c| known.scale(c)).reduce(f64::max)
    }

    fn uniform(&self, tensor: TensorId) -> bool {
        self.of(tensor).is_none_or(|known| {
            let count = known.preprocess.mean.len().max(known.preprocess.std.len());
            (0..count).all(|c| known.preprocess.channel(c) == known.preprocess.channel(0))
        })
    }
}

/// The position of each channel of a picture in memory: the runtime writes blue first.
pub(crate) fn component_order(channels: u32, color: Color) -> Vec<u32> {
    match (channels, color) {
        (3, Color::Rgb) => vec![2, 1, 0],
        (4, Color::Rgb) => vec![2, 1, 0, 3],
        _ => (0..channels).collect(),
    }
}

/// The inputs that are read as images, with the component of each channel. Other inputs that are bytes with a mean, or with
/// several scales, are converted in a separate step.
fn images(net: &mut Net, inputs: &mut Inputs, precision: Precision) -> HashMap<TensorId, Vec<u32>> {
    let mut images = HashMap::new();
    for input in net.inputs.clone() {
        let channels = net.tensors[input].shape[0];
        let Some(known) = inputs.of(input).cloned() else { continue };
        let components = if channels == 1 { 1 } else { 4 };
        let readers = || net.steps.iter().filter(|step| step.reads().any(|read| read == input));
        // Read once, by the convolution that a step begins with.
        let begins = |step: &Step| step.inputs[0] == input && step.reads().filter(|&read| read == input).count() == 1;
        let convolved = readers().all(|step| match &step.kind {
            Kind::Convolution(conv) => {
                begins(step) && reads_images(conv, components, inputs.config, net.tensors[step.output].shape[2])
            }
            _ => false,
        });
        let order = component_order(channels, known.preprocess.color);
        if precision == Precision::Int8 && matches!(channels, 1 | 3 | 4) && convolved {
            images.insert(input, order);
            continue;
        }
        let sorted = order.iter().zip(0..).all(|(&at, k)| at == k);
        let zero = known.preprocess.mean.iter().all(|&mean| mean == 0.0);
        let plain = readers().all(|step| match step.kind {
            Kind::Convolution(_) => zero || begins(step),
            Kind::Copy => zero,
            _ => false,
        });
        if precision == Precision::Int8 && sorted && inputs.uniform(input) && plain {
            continue;
        }
        let tensor = net.tensors[input].clone();
        let values = net.tensor(format!("{} values", tensor.name), tensor.shape, tensor.range);
        let replace = |id: &mut TensorId| *id = if *id == input { values } else { *id };
        for step in &mut net.steps {
            step.inputs.iter_mut().for_each(replace);
            for post in &mut step.post_ops {
                if let PostOp::With(_, other) = post {
                    replace(other);
                }
            }
        }
        net.outputs.iter_mut().for_each(replace);
        // Values per channel of the network, in the order of the copy's channels in memory.
        let in_memory = |values: Vec<f32>| {
            let mut sorted = vec![0.0; values.len()];
            order.iter().zip(values).for_each(|(&at, value)| sorted[at as usize] = value);
            sorted
        };
        let each = || 0..channels as usize;
        let mut post_ops = Vec::new();
        if precision == Precision::Fp16 {
            let scale = each().map(|c| known.scale(c) as f32).collect();
            let shift = each().map(|c| (-known.scale(c) * known.zero(c)) as f32).collect();
            post_ops.push(PostOp::Affine(in_memory(scale), in_memory(shift)));
            inputs.known.remove(&input);
        } else {
            // The quantizer knows the values of an input's integers. Here only their order in memory matters.
            if !zero {
                post_ops.push(PostOp::Mean);
            }
            let mut preprocess = known.preprocess.clone();
            preprocess.mean = in_memory(each().map(|c| known.preprocess.channel(c).0).collect());
            preprocess.std = in_memory(each().map(|c| known.preprocess.channel(c).1).collect());
            inputs.known.insert(input, ByteInput { preprocess, ..known });
        }
        let copied =
            if sorted { values } else { net.tensor(format!("{} values", tensor.name), tensor.shape, tensor.range) };
        let (nodes, inputs) = (Vec::new(), vec![copied]);
        if !sorted {
            let kind = Kind::Channels(order);
            net.steps.insert(0, Step { nodes: Vec::new(), kind, inputs, post_ops: Vec::new(), output: values });
        }
        net.steps.insert(0, Step { nodes, kind: Kind::Copy, inputs: vec![input], post_ops, output: copied });
    }
    images
}

/// The network's inputs, as later passes need them.
pub(crate) struct Given {
    /// The inputs that are given as bytes, as steps read them.
    pub(crate) inputs: Inputs,
    /// The same as the user gives them.
    pub(crate) outside: Inputs,
    /// The inputs that are images, with the component of each channel.
    pub(crate) images: HashMap<TensorId, Vec<u32>>,
    /// For each input, the conversion from bytes to elements.
    pub(crate) bytes: Vec<Bytes>,
}

/// Decides how each input is read, and adds the copies that convert.
pub(crate) fn inputs(net: &mut Net, options: &Options) -> Given {
    let Options { config, precision, .. } = *options;
    let usual = if precision == Precision::Int8 { Bytes::Seven } else { Bytes::Half };
    let mut inputs = Inputs { config, known: HashMap::new() };
    for (&tensor, preprocess) in net.inputs.iter().zip(&options.inputs) {
        if let Some(preprocess) = preprocess {
            inputs.known.insert(tensor, ByteInput { preprocess: preprocess.clone(), bytes: usual });
        }
    }
    let mut outside = inputs.clone();
    let images = images(net, &mut inputs, precision);
    let mut bytes = vec![usual; net.inputs.len()];
    if options.bytes == Bytes::Eight {
        // Only CDMA's converter can read eight bits, and it works on images.
        for (index, tensor) in net.inputs.iter().enumerate() {
            if let Some(known) = inputs.known.get_mut(tensor).filter(|_| images.contains_key(tensor)) {
                (known.bytes, bytes[index]) = (Bytes::Eight, Bytes::Eight);
                outside.known.insert(*tensor, known.clone());
            }
        }
    }
    Given { inputs, outside, images, bytes }
}

/// Whether a convolution can read an image. The columns become channels, so they must be adjacent.
fn reads_images(conv: &Convolution, components: u32, config: &Config, columns: u32) -> bool {
    let windows = ImageWindows {
        entry: config.mac_atomic_c,
        step: conv.op.stride[1] as u32 * components,
        kernel: conv.op.kernel[1] as u32 * components,
        count: columns,
    };
    !windows.straddle()
        && !windows.miscounted()
        && conv.op.dilation == [1, 1]
        && conv.op.group == 1
        && conv.op.kernel.iter().all(|&extent| extent <= LARGEST_KERNEL)
        && conv.op.kernel[1] as u32 * components <= 128
        && conv.op.stride.iter().all(|&stride| stride <= LARGEST_STRIDE)
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::NV_SMALL;

    use super::*;
    use crate::net::example::{convolution, net, step};

    fn given(net: &mut Net, mean: f32) -> Given {
        let preprocess = Preprocess { mean: vec![mean], std: vec![64.0], ..Preprocess::default() };
        inputs(net, &Options { inputs: vec![Some(preprocess)], ..Options::new(&NV_SMALL) })
    }

    /// A convolution reads a picture of three channels as it is: blue first.
    #[test]
    fn a_convolution_reads_an_image() {
        let mut net = net(&[[3, 5, 5], [4, 5, 5]], vec![step(convolution(3, 4, 3), &[0], vec![], 1)]);
        let given = given(&mut net, 127.5);
        assert_eq!(given.images, HashMap::from([(0, vec![2, 1, 0])]));
        assert_eq!(net.steps.len(), 1);
    }

    /// Any other step reads a copy, whose channels are put into order, and from which the mean is subtracted.
    #[test]
    fn other_steps_read_a_copy() {
        for (mean, post_ops) in [(127.5, vec![PostOp::Mean]), (0.0, vec![])] {
            let relu = step(Kind::Copy, &[0], vec![PostOp::Relu], 1);
            let mut net = net(&[[3, 5, 5], [3, 5, 5]], vec![relu]);
            assert!(given(&mut net, mean).images.is_empty());
            let kinds: Vec<&str> = net.steps.iter().map(|step| step.kind.name()).collect();
            assert_eq!(kinds, ["copy", "order of channels (no operation)", "copy"]);
            assert_eq!(net.steps[0].post_ops, post_ops);
        }
    }
}
