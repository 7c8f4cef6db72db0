// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs a compiled network on the built-in model: its outputs as real numbers, and the loss of each tensor, measured on the
//! surfaces that the operations write.

use std::collections::HashMap;

use nvdla_runtime::device::{Device, ModelDevice};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::program::sentence;
use nvdla_runtime::session::{Completed, RunOptions, Session};

use super::loss::{Loss, Losses};
use crate::build::nodes::folded;
use crate::float;
use crate::ir::{Color, Graph, Preprocess, TensorId};
use crate::output::compiled::Compiled;
use crate::output::layout::Stored;

/// An error of the runtime with its causes: the last names the operation, the field and the limit.
fn said(error: impl std::error::Error) -> String {
    sentence(&error)
}

/// The values of tensors, by their numbers.
type Surfaces = HashMap<usize, Vec<f32>>;

/// A compiled network on a device, by default on the model.
pub struct Measured<'a, D: Device = ModelDevice> {
    compiled: &'a Compiled,
    inputs: &'a [Option<Preprocess>],
    session: Session<D>,
}

/// The outputs of the float network on samples.
pub(crate) fn expected(graph: &Graph, samples: &[Vec<Vec<f32>>]) -> Result<Vec<Vec<Vec<f32>>>, String> {
    samples.iter().map(|sample| float::run(graph, sample, &mut |_, _| {})).collect()
}

impl<'a> Measured<'a> {
    /// Loads the network for the model. `inputs` is the value of [`crate::options::Options::inputs`].
    pub fn new(compiled: &'a Compiled, inputs: &'a [Option<Preprocess>]) -> Result<Self, String> {
        Self::on(compiled, inputs, ModelDevice::new(compiled.config))
    }
}

impl<'a, D: Device> Measured<'a, D> {
    /// Loads the network for a device.
    pub fn on(compiled: &'a Compiled, inputs: &'a [Option<Preprocess>], device: D) -> Result<Self, String> {
        Self::of(compiled, compiled.loadable.clone(), inputs, device)
    }

    /// Loads the network's loadable, which may have been taken out of `compiled`, for a device.
    pub(crate) fn of(
        compiled: &'a Compiled,
        loadable: Vec<u8>,
        inputs: &'a [Option<Preprocess>],
        device: D,
    ) -> Result<Self, String> {
        let loadable = Loadable::from_bytes(loadable).map_err(said)?;
        let session = Session::new(loadable, device).map_err(said)?;
        Ok(Self { compiled, inputs, session })
    }

    /// Sets the inputs from real values. For an input that is given as bytes, each value is rounded to the nearest byte.
    fn set(&mut self, values: &[Vec<f32>]) -> Result<(), String> {
        for (index, values) in values.iter().enumerate() {
            let Some(preprocess) = self.inputs.get(index).and_then(Option::as_ref) else {
                self.session.set_input_f32(index, values).map_err(said)?;
                continue;
            };
            let info = self.session.inputs().nth(index).ok_or("an input is missing")?;
            let (plane, channels) = ((info.h * info.w) as usize, info.c as usize);
            let given = values.len() / plane.max(1);
            let mut bytes = vec![0.0; channels * plane];
            for (channel, values) in values.chunks_exact(plane).enumerate() {
                let (mean, std) = preprocess.channel(channel);
                // The runtime writes blue first.
                let at = match (given, preprocess.color) {
                    (3 | 4, Color::Rgb) if channel < 3 => 2 - channel,
                    _ => channel,
                };
                for (into, value) in bytes[at * plane..][..plane].iter_mut().zip(values) {
                    *into = self.compiled.bytes[index].element((value * std + mean).round().clamp(0.0, 255.0) as u8);
                }
            }
            self.session.set_input_nchw(index, &bytes, 1.0).map_err(said)?;
        }
        Ok(())
    }

    fn outputs(&self) -> Result<Vec<Vec<f32>>, String> {
        let count = self.session.outputs().len();
        (0..count).map(|index| self.session.output_f32(index).map_err(said)).collect()
    }

    /// The outputs of one sample: the values of the graph's inputs, in their order.
    pub fn run(&mut self, inputs: &[Vec<f32>]) -> Result<Vec<Vec<f32>>, String> {
        self.set(inputs)?;
        let options = RunOptions { cancel: Some(self.compiled.cancel.clone()), ..RunOptions::default() };
        self.session.run_with(options).map_err(said)?;
        self.outputs()
    }

    /// The tensors that operations write. Tensors that share bytes with later ones are left out.
    fn surfaces(&mut self, inputs: &[Vec<f32>]) -> Result<Surfaces, String> {
        self.set(inputs)?;
        let layout = &self.compiled.layout;
        let mut buffers = layout.buffers();
        let mut look = |completed: Completed<'_>| {
            layout.keep(&completed, &mut buffers);
            Ok(())
        };
        let options = RunOptions {
            on_operation: Some(&mut look),
            cancel: Some(self.compiled.cancel.clone()),
            ..RunOptions::default()
        };
        self.session.run_with(options).map_err(said)?;
        let values = |stored: &Stored| (stored.tensor, layout.values(stored, &buffers[stored.buffer]));
        Ok(layout.tensors.iter().map(values).collect())
    }

    /// The loss of all outputs on samples. `expected` has the outputs of the float network.
    pub fn output_loss(&mut self, samples: &[Vec<Vec<f32>>], expected: &[Vec<Vec<f32>>]) -> Result<Loss, String> {
        let each = self.output_losses(samples, expected)?;
        let sum = |one: Loss, other: &Loss| Loss { signal: one.signal + other.signal, noise: one.noise + other.noise };
        Ok(each.iter().fold(Loss::default(), sum))
    }

    /// The loss of each output on samples. `expected` has the outputs of the float network.
    pub fn output_losses(
        &mut self,
        samples: &[Vec<Vec<f32>>],
        expected: &[Vec<Vec<f32>>],
    ) -> Result<Vec<Loss>, String> {
        let mut losses = Vec::new();
        for (sample, expected) in samples.iter().zip(expected) {
            losses.resize(expected.len(), Loss::default());
            let found = self.run(sample)?;
            let outputs = losses.iter_mut().zip(found.iter().zip(expected));
            outputs.for_each(|(loss, (found, expected))| loss.add(found, expected));
        }
        Ok(losses)
    }

    /// The loss of every tensor of the graph that operations write, by its number, on samples.
    pub(crate) fn losses_by_number(
        &mut self,
        graph: &Graph,
        samples: &[Vec<Vec<f32>>],
    ) -> Result<HashMap<usize, Loss>, String> {
        let mut losses: HashMap<usize, Loss> = HashMap::new();
        if self.compiled.report.pictures > 1 {
            // The layout is that of one picture.
            for sample in samples {
                let expected = float::run(graph, sample, &mut |_, _| {})?;
                for ((found, expected), id) in self.run(sample)?.iter().zip(&expected).zip(&graph.outputs) {
                    losses.entry(id.0).or_default().add(found, expected);
                }
            }
            return Ok(losses);
        }
        let sizes: HashMap<usize, [u32; 2]> =
            self.compiled.layout.tensors.iter().map(|stored| (stored.tensor, stored.size)).collect();
        for sample in samples {
            let found = self.surfaces(sample)?;
            let mut compare = |id: TensorId, expected: &[f32]| {
                let (Some(found), Some([lines, columns])) = (found.get(&id.0), sizes.get(&id.0)) else { return };
                let [_, height, width] = folded(graph.tensor(id)).map(|extent| extent as usize);
                // Lines and columns that no step reads are not computed.
                let planes = expected.chunks_exact(height * width);
                let kept = planes.flat_map(|plane| plane.chunks_exact(width).take(*lines as usize));
                let kept: Vec<f32> = kept.flat_map(|line| line.iter().take(*columns as usize)).copied().collect();
                if found.len() == kept.len() {
                    losses.entry(id.0).or_default().add(found, &kept);
                }
            };
            float::run(graph, sample, &mut compare)?;
        }
        Ok(losses)
    }

    /// The loss of every tensor of the graph that operations write, on samples.
    pub fn losses(&mut self, graph: &Graph, samples: &[Vec<Vec<f32>>]) -> Result<Losses, String> {
        let losses = self.losses_by_number(graph, samples)?;
        let order =
            self.compiled.layout.tensors.iter().filter_map(|stored| {
                Some((graph.tensors.get(stored.tensor)?.name.clone(), *losses.get(&stored.tensor)?))
            });
        Ok(order.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use nvdla_uapi::config::{NV_FULL, NV_SMALL};

    use nvdla_runtime::half;
    use nvdla_uapi::reg::values::Precision;

    use super::*;
    use crate::calibrate::{self, measure, Method};
    use crate::evaluate::judge::{Judge, Limit};
    use crate::ir::{Binary, Convolution, Op, Padding, Pool, PoolKind, Ranges, Unary};
    use crate::net::step::Kind;
    use crate::options::Options;
    use crate::pipeline::compile;
    use crate::random::Random;

    /// Numbers from -1 to 1.
    fn numbers(seed: u64, count: usize) -> Vec<f32> {
        let mut random = Random::from_state(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..count).map(|_| random.real()).collect()
    }

    /// A residual block with a depthwise convolution, an average and a classifier.
    fn network() -> Graph {
        let mut graph = Graph::new("block");
        let x = graph.input("x", &[1, 8, 12, 12]).unwrap();
        let conv = |graph: &mut Graph, x, name: &str, kernels: usize, kernel: usize, group: usize| {
            let each = graph.shape(x)[1] / group;
            let shape = [kernels, each, kernel, kernel];
            let size = (3.0 / (each * kernel * kernel) as f32).sqrt();
            let seed = name.bytes().map(u64::from).sum();
            let weights = numbers(seed, shape.iter().product()).iter().map(|w| w * size).collect::<Vec<_>>();
            let weights = graph.add_constant(format!("{name} weights"), &shape, weights).unwrap();
            let bias = graph.add_constant(format!("{name} bias"), &[kernels], numbers(seed + 1, kernels)).unwrap();
            let pad = kernel / 2;
            let padding = Padding { top: pad, left: pad, bottom: pad, right: pad };
            let op = Convolution { group, kernel: [kernel; 2], stride: [1; 2], dilation: [1; 2], padding };
            graph.add(name, Op::Convolution(op), &[x, weights, bias], name).unwrap()
        };
        let relu = |graph: &mut Graph, x, name: &str| graph.add(name, Op::Unary(Unary::Relu), &[x], name).unwrap();
        let a = conv(&mut graph, x, "expand", 24, 1, 1);
        let a = relu(&mut graph, a, "expanded");
        let b = conv(&mut graph, a, "depthwise", 24, 3, 24);
        let b = relu(&mut graph, b, "filtered");
        let c = conv(&mut graph, b, "project", 24, 1, 1);
        let sum = graph.add("sum", Op::Binary(Binary::Add), &[c, a], "sum").unwrap();
        let sum = relu(&mut graph, sum, "block");
        let pool = Pool { stride: [6, 6], ..Pool::new(PoolKind::Average { count_include_pad: false }, [6, 6]) };
        let pooled = graph.add("pool", Op::Pool(pool), &[sum], "pool").unwrap();
        let out = conv(&mut graph, pooled, "logits", 10, 1, 1);
        graph.outputs.push(out);
        graph
    }

    /// The largest difference between a function and its fp16 table, for arguments from `low` to `high`, relative to the
    /// function's largest value.
    fn table(unary: Unary, low: f32, high: f32) -> f32 {
        let mut graph = Graph::new("function");
        let x = graph.input("x", &[1, 1, 32, 32]).unwrap();
        let y = graph.add("function", Op::Unary(unary), &[x], "y").unwrap();
        graph.outputs.push(y);
        // Steps of equal ratio if the range allows them, so that there are as many small arguments as large ones.
        let part = |k: usize| k as f32 / 1023.0;
        let value = |k| if low > 0.0 { low * (high / low).powf(part(k)) } else { low + (high - low) * part(k) };
        let values: Vec<f32> = (0..1024).map(|k| half::to_f32(half::from_f32(value(k)))).collect();
        let ranges = measure(&graph, [Ok(vec![values.clone()])], Method::Max).unwrap();
        let options = Options { precision: Precision::Fp16, ..Options::new(&NV_FULL) };
        let compiled = compile(&graph, &ranges, &options).unwrap();
        let found = Measured::new(&compiled, &[]).unwrap().run(std::slice::from_ref(&values)).unwrap();
        let expected: Vec<f32> = values.iter().map(|&value| unary.apply(value)).collect();
        let largest = expected.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        found[0].iter().zip(&expected).map(|(a, b)| (a - b).abs() / largest).fold(0.0, f32::max)
    }

    #[test]
    fn tables_follow_steep_functions() {
        for (unary, low, high, limit) in [
            (Unary::Log, 0.02, 10.0, 5e-3),
            (Unary::Sqrt, 1e-3, 10.0, 5e-3),
            (Unary::Reciprocal, 0.1, 10.0, 5e-3),
            (Unary::Exp, -10.0, 5.0, 2e-3),
            (Unary::Sigmoid, -8.0, 8.0, 1e-3),
            (Unary::Tanh, -8.0, 8.0, 1e-3),
            (Unary::XLogX, 0.0, 1.0, 1e-3),
            // Between two arguments it jumps.
            (Unary::Threshold(0.7), -2.0, 16.0, 1e-3),
            (Unary::Threshold(3.1), -2.0, 3.2, 1e-3),
            (Unary::Threshold(-0.3), -2.0, 1.0, 1e-3),
        ] {
            let error = table(unary, low, high);
            assert!(error < limit, "{}: {error}", unary.name());
        }
    }

    #[test]
    fn a_pooling_of_a_constant_is_refused_by_name() {
        let mut graph = Graph::new("constant");
        graph.input("x", &[1, 1, 2, 2]).unwrap();
        let constant = graph.add_constant("w", &[1, 1, 2, 2], vec![1.0; 4]).unwrap();
        let pool = Pool::new(PoolKind::Max, [2; 2]);
        let y = graph.add("pooling", Op::Pool(pool), &[constant], "y").unwrap();
        graph.outputs.push(y);
        let error = compile(&graph, &crate::ir::Ranges::new(), &Options::new(&NV_SMALL)).unwrap_err().to_string();
        assert!(error.contains("\"pooling\"") && error.contains("\"w\", which is constant"), "{error}");
    }

    #[test]
    fn a_softmax_of_coarse_values_is_warned_of() {
        let mut graph = Graph::new("softmax");
        let x = graph.input("x", &[1, 4, 1, 1]).unwrap();
        let y = graph.add("softmax", Op::Softmax { axis: 1 }, &[x], "y").unwrap();
        graph.outputs.push(y);
        let compiled = |largest: f32| {
            let samples = [Ok(vec![vec![0.0, 1.0, -1.0, largest]])];
            let ranges = measure(&graph, samples, Method::Max).unwrap();
            let options = Options { precision: Precision::Fp16, ..Options::new(&NV_FULL) };
            compile(&graph, &ranges, &options).unwrap()
        };
        assert!(compiled(1023.0).report.warnings.is_empty());
        let coarse = compiled(10003.0);
        let [warning] = &coarse.report.warnings[..] else { panic!("{:?}", coarse.report.warnings) };
        assert!(warning.contains("softmax of values up to 10003 in steps of 8"), "{warning}");
        let found = Measured::new(&coarse, &[]).unwrap().run(&[vec![9000.0, 9008.0, 10.0, -9000.0]]).unwrap();
        // Values one step apart are as exact as half precision.
        assert!((found[0][1] - 0.999_665).abs() < 1e-3 && (found[0][0] - 0.000_335).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn uneven_channels_are_equalised() {
        // Between the convolutions, the largest channel has 100 times the values of the smallest. All channels count equally.
        let mut graph = Graph::new("uneven");
        let x = graph.input("x", &[1, 8, 12, 12]).unwrap();
        let size = |c: usize| 100f32.powf(c as f32 / 31.0);
        let first: Vec<f32> = numbers(1, 32 * 8).iter().enumerate().map(|(at, w)| w * size(at / 8)).collect();
        let second: Vec<f32> = numbers(2, 16 * 32).iter().enumerate().map(|(at, w)| w / size(at % 32)).collect();
        let first = graph.add_constant("first weights", &[32, 8, 1, 1], first).unwrap();
        let second = graph.add_constant("second weights", &[16, 32, 1, 1], second).unwrap();
        let padding = Padding::default();
        let op = Convolution { group: 1, kernel: [1; 2], stride: [1; 2], dilation: [1; 2], padding };
        let y = graph.add("first", Op::Convolution(op), &[x, first], "first").unwrap();
        let y = graph.add("relu", Op::Unary(Unary::Relu), &[y], "relu").unwrap();
        let y = graph.add("second", Op::Convolution(op), &[y, second], "second").unwrap();
        graph.outputs.push(y);

        let samples: Vec<Vec<Vec<f32>>> = (1..5).map(|seed| vec![numbers(seed, 8 * 12 * 12)]).collect();
        let values = calibrate::Measured::new(&graph, samples.iter().cloned().map(Ok)).unwrap();
        let expected = |sample: Vec<Vec<f32>>| (sample.clone(), float::run(&graph, &sample, &mut |_, _| {}).unwrap());
        let judge = Judge::new(samples.into_iter().map(expected).collect(), &Options::new(&NV_SMALL));
        let decibels = |graph: &Graph, values: &calibrate::Measured| {
            let noise = |&method: &Method| {
                judge.noise(graph, &values.ranges(method), &Limit { rivals: &[], sum: &Mutex::default() }).unwrap()[0]
            };
            -10.0 * calibrate::METHODS.iter().map(noise).fold(f64::INFINITY, f64::min).log10()
        };
        let before = decibels(&graph, &values);
        // A network that is noisier than another one is not run to its end, and one that cannot be compiled has no measure.
        let ranges = values.ranges(Method::Max);
        let within = |ranges: &Ranges, most: f64| {
            judge.noise(&graph, ranges, &Limit { rivals: &[vec![most]], sum: &Mutex::default() })
        };
        let noise = within(&ranges, f64::INFINITY).unwrap()[0];
        assert!(within(&ranges, noise * 1.01).is_some() && within(&ranges, noise / 2.0).is_none());
        assert!(within(&Ranges::new(), f64::INFINITY).is_none());
        let (equalized, values) = values.equalized(&graph).unwrap();
        let after = decibels(&equalized, &values);
        assert!(after > before + 10.0, "{before} dB, {after} dB equalised");
    }

    /// The ranges without zero points.
    fn symmetric(graph: &Graph, ranges: &Ranges) -> Ranges {
        let mut symmetric = ranges.clone();
        for id in (0..graph.tensors.len()).map(TensorId) {
            if let Some(range) = ranges.get(id) {
                symmetric.set(id, range.symmetric());
            }
        }
        symmetric
    }

    #[test]
    fn a_zero_point_gives_uneven_values_more_steps() {
        let mut graph = network();
        for node in &mut graph.nodes {
            if node.op == Op::Unary(Unary::Relu) {
                node.op = Op::Unary(Unary::LeakyRelu(0.05));
            }
        }
        let samples: Vec<Vec<Vec<f32>>> = (1..5).map(|seed| vec![numbers(seed, 8 * 12 * 12)]).collect();
        let ranges = measure(&graph, samples.iter().cloned().map(Ok), Method::Max).unwrap();
        let loss = |ranges: &Ranges, config| {
            let compiled = compile(&graph, ranges, &Options::new(config)).unwrap();
            let losses = Measured::new(&compiled, &[]).unwrap().losses(&graph, &samples).unwrap();
            ["expanded", "filtered", "pool"]
                .map(|name| losses.iter().find(|(tensor, _)| tensor == name).unwrap().1.decibels())
        };
        for config in [&NV_SMALL, &NV_FULL] {
            let (with, without) = (loss(&ranges, config), loss(&symmetric(&graph, &ranges), config));
            assert!(with.iter().zip(&without).all(|(with, without)| *with > without + 2.5), "{with:?}, {without:?}");
        }
    }

    /// The first output of a loadable, and the expected one, for each sample.
    type Outputs = Vec<(Vec<f32>, Vec<f32>)>;

    /// The outputs of a graph and of its loadable, whose ranges are measured on the samples.
    fn both(graph: &Graph, samples: &[Vec<Vec<f32>>], options: &Options) -> (Compiled, Outputs) {
        let ranges = measure(graph, samples.iter().cloned().map(Ok), Method::Max).unwrap();
        let given = calibrate::complete(graph, calibrate::of_model(graph), Some(&ranges));
        let compiled = compile(graph, &given, options).unwrap();
        let mut measured = Measured::new(&compiled, &[]).unwrap();
        let run = |sample: &Vec<Vec<f32>>| {
            let expected = float::run(graph, sample, &mut |_, _| {}).unwrap().remove(0);
            (measured.run(sample).unwrap().remove(0), expected)
        };
        let outputs = samples.iter().map(run).collect();
        (compiled, outputs)
    }

    fn decibels(outputs: &[(Vec<f32>, Vec<f32>)]) -> f64 {
        let mut loss = Loss::default();
        for (found, expected) in outputs {
            loss.add(found, expected);
        }
        loss.decibels()
    }

    #[test]
    fn a_batch_that_cannot_be_computed_at_once_is_computed_one_after_another() {
        // CDP's windows would include channels of other pictures.
        let mut graph = Graph::new("batch");
        let x = graph.input("x", &[3, 8, 5, 4]).unwrap();
        let weights = graph.add_constant("w", &[8, 8, 1, 1], numbers(7, 64)).unwrap();
        let op = Convolution::pointwise();
        let y = graph.add("conv", Op::Convolution(op), &[x, weights], "conv").unwrap();
        let y = graph.add("lrn", Op::Lrn { size: 3, alpha: 0.5, beta: 0.75, bias: 1.0 }, &[y], "lrn").unwrap();
        graph.outputs.push(y);
        let samples: Vec<Vec<Vec<f32>>> = (1..3).map(|seed| vec![numbers(seed, 480)]).collect();
        let options = Options { precision: Precision::Fp16, ..Options::new(&NV_FULL) };
        let (compiled, outputs) = both(&graph, &samples, &options);
        assert_eq!(compiled.report.pictures, 3);
        assert!(decibels(&outputs) > 50.0, "{}", decibels(&outputs));
        // Its losses are those of the outputs.
        let losses = Measured::new(&compiled, &[]).unwrap().losses(&graph, &samples).unwrap();
        assert!(losses.iter().all(|(_, loss)| loss.decibels() > 50.0));
        // A second one in the loadable.
        let two = compile(&graph, &Ranges::new(), &Options { pictures: 2, ..options }).unwrap();
        assert_eq!(two.report.pictures, 6);
    }

    #[test]
    fn elements_whose_weights_do_not_repeat_are_resized() {
        use crate::ir::{Coordinates, Resize, ResizeMode};
        for (size, mode, coordinates) in [
            ([56, 48], ResizeMode::Bilinear, Coordinates::AlignCorners),
            ([42, 24], ResizeMode::Bilinear, Coordinates::AlignCorners),
            ([28, 36], ResizeMode::Cubic(-0.75), Coordinates::AlignCorners),
            // These weights repeat: the distance is a quarter of an element.
            ([109, 93], ResizeMode::Bilinear, Coordinates::AlignCorners),
            ([14, 48], ResizeMode::Bilinear, Coordinates::AlignCorners),
        ] {
            let mut graph = Graph::new("resize");
            let x = graph.input("x", &[1, 12, 28, 24]).unwrap();
            let scales = [size[0] as f32 / 28.0, size[1] as f32 / 24.0];
            let resize = Op::Resize(Resize::new(mode, coordinates, scales, size));
            let y = graph.add("resize", resize, &[x], "y").unwrap();
            graph.outputs.push(y);
            let samples: Vec<Vec<Vec<f32>>> = (1..3).map(|seed| vec![numbers(seed, 12 * 28 * 24)]).collect();
            for (config, precision, least) in [
                (&NV_FULL, Precision::Fp16, 55.0),
                (&NV_SMALL, Precision::Int8, 33.0),
                (&NV_FULL, Precision::Int8, 33.0),
            ] {
                let options = Options { precision, ..Options::new(config) };
                let (_, outputs) = both(&graph, &samples, &options);
                assert!(decibels(&outputs) > least, "{size:?}, {}: {}", config.name, decibels(&outputs));
            }
        }
    }

    #[test]
    fn averages_of_quantized_models_that_do_not_count_padding_round_once() {
        use crate::ir::Quantization;
        let quantized = |scale: f32, zero: i32| {
            Some(Quantization { scale: vec![scale], zero_point: vec![zero], axis: None, limits: (-128, 127) })
        };
        for (kernel, stride, padding) in [
            ([3, 3], [1, 1], Padding { top: 1, left: 1, bottom: 1, right: 1 }),
            ([3, 2], [2, 2], Padding { top: 0, left: 1, bottom: 1, right: 0 }),
            ([5, 5], [1, 3], Padding { top: 2, left: 2, bottom: 2, right: 2 }),
        ] {
            let mut graph = Graph::new("average");
            let x = graph.input("x", &[1, 8, 12, 12]).unwrap();
            let kind = PoolKind::Average { count_include_pad: false };
            let pool = Pool { stride, padding, ..Pool::new(kind, kernel) };
            let y = graph.add("pool", Op::Pool(pool), &[x], "y").unwrap();
            graph.tensors[x.0].quantization = quantized(0.01, 3);
            graph.tensors[y.0].quantization = quantized(0.004, -7);
            graph.outputs.push(y);
            let samples: Vec<Vec<Vec<f32>>> = (1..4).map(|seed| vec![numbers(seed, 8 * 12 * 12)]).collect();
            for config in [&NV_SMALL, &NV_FULL] {
                let (_, outputs) = both(&graph, &samples, &Options::new(config));
                let all = outputs.iter().flat_map(|(found, expected)| found.iter().zip(expected));
                assert!(all.clone().all(|(a, b)| (*a - *b).abs() < 0.0041), "{kernel:?}, {}", config.name);
                let wrong = all.clone().filter(|(a, b)| (*a - *b).abs() > 1e-4).count();
                assert!(wrong * 12 < all.count(), "{kernel:?}, {}: {wrong} integers differ", config.name);
            }
        }
    }

    #[test]
    fn lines_and_columns_of_a_constant_are_added_and_turned() {
        use crate::ir::PadMode;
        let pad = Op::Pad { mode: PadMode::Constant(0.5), before: vec![0, 0, 1, 2], after: vec![0, 0, 0, 1] };
        let steps = vec![1, 1, -1, -2];
        let back = Op::Slice { starts: vec![0, 0, 29, 39], steps, lengths: vec![1, 6, 30, 20] };
        for op in [pad, back] {
            let mut graph = Graph::new("moves");
            let x = graph.input("x", &[1, 6, 30, 40]).unwrap();
            let y = graph.add("move", op.clone(), &[x], "y").unwrap();
            graph.outputs.push(y);
            let samples: Vec<Vec<Vec<f32>>> = (1..3).map(|seed| vec![numbers(seed, 7200)]).collect();
            for (config, precision, least) in [(&NV_FULL, Precision::Fp16, 70.0), (&NV_SMALL, Precision::Int8, 40.0)] {
                let options = Options { precision, ..Options::new(config) };
                let (_, outputs) = both(&graph, &samples, &options);
                assert!(decibels(&outputs) > least, "{op:?}, {}: {}", config.name, decibels(&outputs));
            }
        }
    }

    /// The emulator truncates results, which a factor makes up for.
    #[test]
    fn the_processor_computes_powers_where_there_are_no_tables() {
        for (unary, reach) in
            [(Unary::Sqrt, 4.0), (Unary::Reciprocal, 2.0), (Unary::Power(-0.5), 4.0), (Unary::Power(1.5), 4.0)]
        {
            let mut graph = Graph::new("function");
            let x = graph.input("x", &[1, 3, 16, 16]).unwrap();
            let power = graph.add("power", Op::Unary(unary), &[x], "power").unwrap();
            let y = graph.add("product", Op::Binary(Binary::Mul), &[x, power], "y").unwrap();
            graph.outputs.push(y);
            let sample = |seed| vec![numbers(seed, 768).iter().map(|value| 0.5 + reach * value.abs()).collect()];
            let samples: Vec<Vec<Vec<f32>>> = (1..3).map(sample).collect();
            let (compiled, outputs) = both(&graph, &samples, &Options::new(&NV_SMALL));
            assert!(compiled.steps.net.steps.iter().any(|step| matches!(step.kind, Kind::Power(_))));
            let sum = |values: &[f32]| values.iter().sum::<f32>();
            let found: f32 = outputs.iter().map(|(found, _)| sum(found)).sum();
            let expected: f32 = outputs.iter().map(|(_, real)| sum(real)).sum();
            assert!(decibels(&outputs) > 32.0, "{}: {}", unary.name(), decibels(&outputs));
            assert!((found / expected - 1.0).abs() < 5e-3, "{}: {found} {expected}", unary.name());
        }
    }

    #[test]
    fn tables_in_half_precision_reach_beyond_the_samples() {
        for unary in [Unary::Sigmoid, Unary::Tanh, Unary::Silu, Unary::Elu(1.0), Unary::Gelu] {
            let mut graph = Graph::new("function");
            let x = graph.input("x", &[1, 1, 8, 8]).unwrap();
            let y = graph.add("function", Op::Unary(unary), &[x], "y").unwrap();
            graph.outputs.push(y);
            let ranges = measure(&graph, [Ok(vec![numbers(1, 64)])], Method::Max).unwrap();
            let options = Options { precision: Precision::Fp16, ..Options::new(&NV_FULL) };
            let compiled = compile(&graph, &ranges, &options).unwrap();
            let wider: Vec<f32> = numbers(2, 64).iter().map(|x| 2.5 * x).collect();
            let expected = float::run(&graph, std::slice::from_ref(&wider), &mut |_, _| {}).unwrap().remove(0);
            let found = Measured::new(&compiled, &[]).unwrap().run(&[wider]).unwrap().remove(0);
            assert!(decibels(&[(found, expected)]) > 55.0, "{}", unary.name());
        }
    }

    #[test]
    fn shared_tables_take_large_arguments() {
        for size in [1.0, 64.0, 1000.0] {
            let mut graph = Graph::new("shrink");
            let x = graph.input("x", &[1, 8, 12, 12]).unwrap();
            let above = graph.add("above", Op::Unary(Unary::Threshold(0.5)), &[x], "above").unwrap();
            let negative = graph.add("neg", Op::Unary(Unary::Neg), &[x], "neg").unwrap();
            let below = graph.add("below", Op::Unary(Unary::Threshold(0.5)), &[negative], "below").unwrap();
            let y = graph.add("shrink", Op::Binary(Binary::Sub), &[above, below], "y").unwrap();
            graph.outputs.push(y);
            let sample = |seed| vec![numbers(seed, 8 * 12 * 12).iter().map(|value| value * size).collect()];
            let samples: Vec<Vec<Vec<f32>>> = (1..3).map(sample).collect();
            let (compiled, outputs) = both(&graph, &samples, &Options::new(&NV_FULL));
            if size > 1.0 {
                assert_eq!(compiled.steps.tables.len(), 1);
            }
            assert!(decibels(&outputs) > 38.0, "{size}: {}", decibels(&outputs));
        }
    }

    #[test]
    fn the_loss_of_eight_bits_is_that_of_rounding() {
        let graph = network();
        let samples: Vec<Vec<Vec<f32>>> = (1..5).map(|seed| vec![numbers(seed, 8 * 12 * 12)]).collect();
        let ranges = measure(&graph, samples.iter().cloned().map(Ok), Method::Max).unwrap();
        let loss = |ranges: &Ranges| {
            let compiled = compile(&graph, ranges, &Options::new(&NV_SMALL)).unwrap();
            let mut measured = Measured::new(&compiled, &[]).unwrap();
            let losses = measured.losses(&graph, &samples).unwrap();
            let of = |name: &str| losses.iter().find(|(tensor, _)| tensor == name).unwrap().1.decibels();
            // The pooling takes it on the fly.
            assert!(losses.iter().all(|(tensor, _)| tensor != "block"));
            ["expanded", "filtered", "pool", "logits"].map(of)
        };
        let (one_sided, symmetric) = (loss(&ranges), loss(&symmetric(&graph, &ranges)));
        // Evenly distributed values with 127 steps to the largest would have 47 dB. These values are not evenly distributed, and
        // errors accumulate.
        assert!(symmetric.iter().all(|&decibels| decibels > 30.0), "{symmetric:?}");
        assert!(one_sided[0] > symmetric[0] + 3.0, "{one_sided:?}, {symmetric:?}");
        assert!(one_sided.iter().zip(&symmetric).take(2).all(|(one, two)| one > two), "{one_sided:?}, {symmetric:?}");
        // An output is equal to the contents of its surface.
        let compiled = compile(&graph, &ranges, &Options::new(&NV_SMALL)).unwrap();
        let mut measured = Measured::new(&compiled, &[]).unwrap();
        let mut outputs = Loss::default();
        for sample in &samples {
            let expected = float::run(&graph, sample, &mut |_, _| {}).unwrap();
            outputs.add(&measured.run(sample).unwrap()[0], &expected[0]);
        }
        assert!((outputs.decibels() - one_sided[3]).abs() < 1e-3, "{} {one_sided:?}", outputs.decibels());
    }
}
