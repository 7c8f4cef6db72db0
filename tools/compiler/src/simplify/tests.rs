// SPDX-License-Identifier: MIT OR Apache-2.0

use super::heads::split_heads;
use crate::float;
use crate::ir::{
    Binary, BlockOrder, Convolution, Graph, Op, PadMode, Padding, Pool, PoolKind, Quantization, TensorId, Unary,
};
use crate::simplify::*;

const X: [f32; 8] = [-9.0, -3.0, -1.5, -0.25, 0.0, 0.5, 2.0, 7.0];

/// Simplifies a graph and checks that its results do not change.
fn simplified(mut graph: Graph) -> Graph {
    graph.check().unwrap();
    let elements = graph.tensor(graph.inputs[0]).elements();
    let input: Vec<f32> = (0..elements).map(|k| X[k % 8] + (k / 8) as f32 * 0.01).collect();
    let before = float::run(&graph, std::slice::from_ref(&input), &mut |_, _| {}).unwrap();
    let name = graph.tensor(graph.outputs[0]).name.clone();
    simplify(&mut graph);
    graph.check().unwrap();
    let after = float::run(&graph, &[input], &mut |_, _| {}).unwrap();
    for (a, b) in before[0].iter().zip(&after[0]) {
        assert!((a - b).abs() <= 2e-5 * (1.0 + a.abs()), "{a} became {b}");
    }
    assert_eq!(graph.tensor(graph.outputs[0]).name, name);
    graph
}

/// Elements of `[N, C, H, W]` in the order `[N, H, W, C]`.
fn last(shape: &[usize], values: &[f32]) -> Vec<f32> {
    let perm = vec![0, 2, 3, 1];
    let to: Vec<usize> = perm.iter().map(|&axis| shape[axis]).collect();
    float::apply(&Op::Transpose { perm }, &[(shape, values)], &to)
}

/// A network as TensorFlow has them: the mean per channel is subtracted, and Softmax normalises the last dimension.
fn channels_last(convolution: bool) -> Graph {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 4, 3, 2]).unwrap();
    let mean = builder.constant(&[2], vec![1.0, -0.5]);
    let centred = builder.both(Binary::Sub, x, mean);
    let first = builder.node(Op::Transpose { perm: vec![0, 3, 1, 2] }, &[centred]);
    let y = if convolution { builder.conv(first, 5, 2) } else { builder.unary(Unary::Exp, first) };
    let relu = builder.unary(Unary::Relu, y);
    let turned = builder.node(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[relu]);
    let shares = builder.node(Op::Softmax { axis: 3 }, &[turned]);
    builder.0.outputs.extend([turned, shares]);
    builder.0
}

#[test]
fn channels_of_inputs_and_outputs_come_first() {
    let before = channels_last(true);
    let mut after = before.clone();
    simplify(&mut after);
    let reshaped = outer_moves(&mut after);
    after.check().unwrap();
    assert_eq!(ops(&after), ["Add", "Convolution", "Relu", "Softmax"]);
    let names = |graph: &Graph| {
        [graph.inputs.clone(), graph.outputs.clone()]
            .concat()
            .into_iter()
            .map(|id| graph.tensor(id).name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&after), names(&before));
    let expected: Vec<_> = names(&before).into_iter().zip([[1, 4, 3, 2], [1, 3, 2, 5], [1, 3, 2, 5]]).collect();
    for (Reshaped { name, model, graph, channels_last, .. }, (expected, shape)) in reshaped.iter().zip(&expected) {
        assert_eq!((name, &model[..], *channels_last), (expected, &shape[..], true));
        assert_eq!(graph[..], [0, 3, 1, 2].map(|axis: usize| shape[axis]));
    }
    assert_eq!(reshaped.len(), 3);
    let input: Vec<f32> = (0..24u8).map(|k| f32::from(k) * 0.17 - 1.0).collect();
    let found = float::run(&after, std::slice::from_ref(&input), &mut |_, _| {}).unwrap();
    let expected = float::run(&before, &[last(&[1, 2, 4, 3], &input)], &mut |_, _| {}).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.iter().zip(expected).any(|(a, b)| a != b), "the orders differ");
        for (a, b) in last(&[1, 5, 3, 2], found).iter().zip(expected) {
            assert!((a - b).abs() <= 1e-5 * (1.0 + a.abs()), "{a} instead of {b}");
        }
    }
}

#[test]
fn inputs_that_one_operator_reads_get_their_channels_first_together() {
    let mut builder = Builder(Graph::new("test"));
    let [x, y] = ["x", "y"].map(|name| builder.0.input(name, &[1, 4, 3, 2]).unwrap());
    let sum = builder.both(Binary::Add, x, y);
    let first = builder.node(Op::Transpose { perm: vec![0, 3, 1, 2] }, &[sum]);
    let output = builder.conv(first, 5, 2);
    builder.0.outputs.push(output);
    let before = builder.0;
    let mut after = before.clone();
    simplify(&mut after);
    let reshaped = outer_moves(&mut after);
    after.check().unwrap();
    assert_eq!(ops(&after), ["Add", "Convolution"]);
    assert_eq!(reshaped.len(), 2);
    assert!(reshaped.iter().all(|change| change.channels_last && change.graph == [1, 2, 4, 3]));
    let given: [Vec<f32>; 2] = [0, 3].map(|from| (0..24).map(|k| X[(k + from) % 8]).collect());
    let right = float::run(&before, &given.each_ref().map(|values| last(&[1, 2, 4, 3], values)), &mut |_, _| {});
    let found = float::run(&after, &given, &mut |_, _| {});
    assert_eq!(found.unwrap(), right.unwrap());
}

#[test]
fn reshapes_of_inputs_and_outputs_are_left_out() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 64]).unwrap();
    let picture = builder.node(Op::Reshape { shape: vec![1, 1, 8, 8] }, &[x]);
    let y = builder.conv(picture, 5, 3);
    let flat = builder.node(Op::Reshape { shape: vec![1, 5, 36] }, &[y]);
    let shares = builder.node(Op::Softmax { axis: 1 }, &[flat]);
    let flat = builder.node(Op::Reshape { shape: vec![1, 5, 36] }, &[y]);
    let rows = builder.node(Op::Transpose { perm: vec![0, 2, 1] }, &[flat]);
    let exp = builder.unary(Unary::Exp, rows);
    builder.0.outputs.extend([shares, exp]);
    let before = builder.0;
    let mut after = before.clone();
    simplify(&mut after);
    let reshaped = outer_moves(&mut after);
    assert_eq!(ops(&after), ["Convolution", "Softmax", "Exp"]);
    let shapes: Vec<_> = reshaped
        .iter()
        .map(|Reshaped { model, graph, channels_last, .. }| (&model[..], &graph[..], *channels_last))
        .collect();
    let map = &[1, 5, 6, 6][..];
    assert_eq!(shapes, [(&[1, 64][..], &[1, 1, 8, 8][..], false), (&[1, 5, 36], map, false), (&[1, 36, 5], map, true)]);
    let input: Vec<f32> = (0..64u8).map(|k| f32::from(k % 7) * 0.3 - 1.0).collect();
    let run = |graph: &Graph| float::run(graph, std::slice::from_ref(&input), &mut |_, _| {}).unwrap();
    let (found, expected) = (run(&after), run(&before));
    assert_eq!([found[0].clone(), last(map, &found[1])], expected[..]);
}

/// The axis of the scales would be another one.
#[test]
fn an_input_with_scales_per_channel_keeps_its_shape() {
    let mut graph = channels_last(true);
    let (scale, zero_point) = (vec![0.5, 0.25], vec![0, 0]);
    let quantization = crate::ir::Quantization { scale, zero_point, axis: Some(3), limits: (-128, 127) };
    graph.tensors[graph.inputs[0].0].quantization = Some(quantization);
    simplify(&mut graph);
    let input = graph.inputs[0];
    outer_moves(&mut graph);
    assert_eq!(graph.shape(input), [1, 4, 3, 2]);
}

/// A quantized model quantizes an output again behind each move, with the same scale. The output in the loadable has this scale.
#[test]
fn moves_of_a_quantized_output_are_left_to_the_user() {
    let mut graph = Graph::new("heads");
    let data = graph.input("data", &[1, 2, 40, 40]).unwrap();
    let weights = graph.add_constant("weights", &[4, 2, 1, 1], vec![0.5; 8]).unwrap();
    let op = Convolution { group: 1, kernel: [1; 2], stride: [1; 2], dilation: [1; 2], padding: Padding::default() };
    let mut last = graph.add("conv", Op::Convolution(op), &[data, weights], "conv").unwrap();
    let scale = crate::ir::Quantization { scale: vec![0.5], zero_point: vec![3], axis: None, limits: (-128, 127) };
    let moves = [None, Some(Op::Transpose { perm: vec![0, 2, 3, 1] }), Some(Op::Reshape { shape: vec![1, 1600, 4] })];
    for (k, op) in moves.into_iter().enumerate() {
        if let Some(op) = op {
            last = graph.add(format!("move {k}"), op, &[last], format!("moved {k}")).unwrap();
        }
        let limits = Op::Unary(Unary::Clip(-65.5, 62.0));
        last = graph.add(format!("limits {k}"), limits, &[last], format!("limited {k}")).unwrap();
        graph.tensors[last.0].quantization = Some(scale.clone());
    }
    graph.outputs.push(last);
    simplify(&mut graph);
    let reshaped = outer_moves(&mut graph);
    assert_eq!(ops(&graph), ["Convolution", "Clip"]);
    let [Reshaped { name, model, graph: shape, channels_last, .. }] = &reshaped[..] else { panic!("{reshaped:?}") };
    assert_eq!(
        (&name[..], &model[..], &shape[..], *channels_last),
        ("limited 2", &[1, 1600, 4][..], &[1, 4, 40, 40][..], true)
    );
    let output = graph.tensor(graph.outputs[0]);
    assert_eq!((&output.name[..], &output.quantization), ("limited 2", &Some(scale)));
}

#[test]
fn moves_beside_the_interface_stay_without_convolutions() {
    let mut graph = channels_last(false);
    simplify(&mut graph);
    let before = graph.clone();
    assert_eq!(outer_moves(&mut graph), []);
    assert_eq!(graph, before);
}

#[test]
fn channels_come_first_beside_a_deconvolution() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 4, 3, 2]).unwrap();
    let first = builder.node(Op::Transpose { perm: vec![0, 3, 1, 2] }, &[x]);
    let weights = builder.constant(&[2, 5, 1, 1], vec![0.5; 10]);
    let op = Convolution { group: 1, kernel: [1; 2], stride: [2; 2], dilation: [1; 2], padding: Padding::default() };
    let y = builder.node(Op::Deconvolution(op, [0; 2]), &[first, weights]);
    let last = builder.node(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[y]);
    builder.0.outputs.push(last);
    let mut graph = builder.0;
    assert_eq!(outer_moves(&mut graph).len(), 2);
    assert_eq!(ops(&graph), ["Deconvolution"]);
}

fn ops(graph: &Graph) -> Vec<&'static str> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

/// Builds an expression of one tensor; the last tensor is the output.
fn expression(build: impl Fn(&mut Builder, TensorId) -> TensorId) -> Graph {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 2, 2, 2]).unwrap();
    let y = build(&mut builder, x);
    builder.0.outputs.push(y);
    builder.0
}

struct Builder(Graph);

impl Builder {
    fn node(&mut self, op: Op, inputs: &[TensorId]) -> TensorId {
        let name = format!("t{}", self.0.tensors.len());
        self.0.add(name.clone(), op, inputs, name).unwrap()
    }
    fn constant(&mut self, shape: &[usize], values: Vec<f32>) -> TensorId {
        let name = format!("t{}", self.0.tensors.len());
        self.0.add_constant(name, shape, values).unwrap()
    }
    fn with(&mut self, op: Binary, x: TensorId, value: f32) -> TensorId {
        let value = self.constant(&[], vec![value]);
        self.node(Op::Binary(op), &[x, value])
    }
    fn both(&mut self, op: Binary, a: TensorId, b: TensorId) -> TensorId {
        self.node(Op::Binary(op), &[a, b])
    }
    fn unary(&mut self, unary: Unary, x: TensorId) -> TensorId {
        self.node(Op::Unary(unary), &[x])
    }
    fn conv(&mut self, x: TensorId, kernels: usize, kernel: usize) -> TensorId {
        let channels = self.0.shape(x)[1];
        let count = kernels * channels * kernel * kernel;
        let weights = (0..count).map(|k| ((k * 7 + 3) % 11) as f32 * 0.1 - 0.5).collect();
        let weights = self.constant(&[kernels, channels, kernel, kernel], weights);
        let op = Convolution {
            group: 1,
            kernel: [kernel; 2],
            stride: [1, 1],
            dilation: [1, 1],
            padding: Padding::default(),
        };
        self.node(Op::Convolution(op), &[x, weights])
    }
}

#[test]
fn decomposed_functions_are_recognised() {
    use Binary::{Add, Div, Max, Min, Mul};
    type Build = fn(&mut Builder, TensorId) -> TensorId;
    let cases: &[(&str, Build)] = &[
        ("Silu", |b, x| {
            let s = b.unary(Unary::Sigmoid, x);
            b.both(Mul, s, x)
        }),
        ("HardSwish", |b, x| {
            let y = b.with(Add, x, 3.0);
            let y = b.unary(Unary::Clip(0.0, 6.0), y);
            let y = b.both(Mul, x, y);
            b.with(Div, y, 6.0)
        }),
        ("HardSwish", |b, x| {
            let y = b.unary(Unary::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 }, x);
            b.both(Mul, x, y)
        }),
        ("HardSigmoid", |b, x| {
            let y = b.with(Add, x, 3.0);
            let y = b.unary(Unary::Relu, y);
            let y = b.with(Min, y, 6.0);
            b.with(Mul, y, 1.0 / 6.0)
        }),
        ("Gelu", |b, x| {
            let y = b.with(Div, x, std::f32::consts::SQRT_2);
            let y = b.unary(Unary::Erf, y);
            let y = b.with(Add, y, 1.0);
            let y = b.both(Mul, x, y);
            b.with(Mul, y, 0.5)
        }),
        ("Gelu", |b, x| {
            let y = b.with(Mul, x, std::f32::consts::FRAC_1_SQRT_2);
            let y = b.unary(Unary::Erf, y);
            let y = b.with(Add, y, 1.0);
            let half = b.with(Mul, x, 0.5);
            b.both(Mul, half, y)
        }),
        ("GeluTanh", |b, x| {
            let y = b.with(Binary::Pow, x, 3.0);
            let y = b.with(Mul, y, 0.044715);
            let y = b.both(Add, x, y);
            let y = b.with(Mul, y, 0.797_884_6);
            let y = b.unary(Unary::Tanh, y);
            let y = b.with(Add, y, 1.0);
            let y = b.both(Mul, x, y);
            b.with(Mul, y, 0.5)
        }),
        ("Mish", |b, x| {
            let y = b.unary(Unary::Softplus, x);
            let y = b.unary(Unary::Tanh, y);
            b.both(Mul, x, y)
        }),
        ("LeakyRelu", |b, x| {
            let y = b.with(Mul, x, 0.1);
            b.both(Max, x, y)
        }),
        ("Clip", |b, x| {
            let y = b.with(Max, x, -1.0);
            b.with(Min, y, 2.0)
        }),
        ("Relu", |b, x| b.with(Max, x, 0.0)),
    ];
    for (name, build) in cases {
        assert_eq!(ops(&simplified(expression(build))), [*name]);
    }
    // Neither a known function nor the same tensor twice.
    let other = expression(|b, x| {
        let y = b.with(Mul, x, 1.702);
        let y = b.unary(Unary::Sigmoid, y);
        b.both(Mul, x, y)
    });
    assert_eq!(ops(&simplified(other)), ["Mul", "Sigmoid", "Mul"]);
}

/// The sizes of numbers below -0.5 and above 0.5. Far away it is the size, as a limit with infinite ends would be.
#[test]
fn functions_that_are_not_known_stay() {
    let graph = expression(|b, x| {
        let x = b.unary(Unary::Abs, x);
        let above = b.unary(Unary::Threshold(0.5), x);
        let negated = b.unary(Unary::Neg, x);
        let below = b.unary(Unary::Threshold(0.5), negated);
        b.both(Binary::Sub, above, below)
    });
    simplified(graph);
}

#[test]
fn factors_and_offsets_move_into_weights() {
    let graph = expression(|b, x| {
        let y = b.conv(x, 3, 1);
        let factor = b.constant(&[3, 1, 1], vec![0.5, -2.0, 3.0]);
        let offset = b.constant(&[1, 3, 1, 1], vec![1.0, 2.0, 3.0]);
        let y = b.both(Binary::Mul, factor, y);
        let y = b.both(Binary::Sub, y, offset);
        b.unary(Unary::Relu, y)
    });
    assert_eq!(ops(&simplified(graph)), ["Convolution", "Relu"]);
}

#[test]
fn factors_move_into_the_weights_of_grouped_deconvolutions() {
    let graph = expression(|b, x| {
        let weights = b.constant(&[2, 3, 2, 2], (0..24).map(|k| k as f32 - 12.0).collect());
        let op =
            Convolution { group: 2, kernel: [2, 2], stride: [2, 2], dilation: [1, 1], padding: Padding::default() };
        let y = b.node(Op::Deconvolution(op, [0, 0]), &[x, weights]);
        let factor = b.constant(&[6, 1, 1], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        b.both(Binary::Mul, y, factor)
    });
    assert_eq!(ops(&simplified(graph)), ["Deconvolution"]);
}

#[test]
fn an_inner_product_has_kernels_of_its_whole_input() {
    let graph = expression(|b, x| {
        let y = b.node(Op::Reshape { shape: vec![1, 8] }, &[x]);
        let y = b.unary(Unary::Tanh, y);
        let y = b.node(Op::Reshape { shape: vec![1, 8, 1, 1] }, &[y]);
        let y = b.conv(y, 3, 1);
        let y = b.node(Op::Reshape { shape: vec![1, 3] }, &[y]);
        let bias = b.constant(&[3], vec![1.0, 2.0, 3.0]);
        let y = b.both(Binary::Add, y, bias);
        b.unary(Unary::Relu, y)
    });
    let graph = simplified(graph);
    assert_eq!(ops(&graph), ["Tanh", "Convolution", "Relu", "Reshape"]);
    assert!(matches!(graph.nodes[1].op, Op::Convolution(Convolution { kernel: [2, 2], .. })));
}

#[test]
fn a_transposition_before_an_inner_product_is_one_of_its_weights() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 2, 3, 4]).unwrap();
    let y = builder.node(Op::Transpose { perm: vec![0, 3, 2, 1] }, &[x]);
    let y = builder.node(Op::Reshape { shape: vec![1, 24, 1, 1] }, &[y]);
    let y = builder.conv(y, 5, 1);
    builder.0.outputs.push(y);
    let graph = simplified(builder.0);
    assert_eq!(ops(&graph), ["Convolution"]);
    assert!(matches!(graph.nodes[0].op, Op::Convolution(Convolution { kernel: [3, 4], .. })));
}

#[test]
fn averages_over_large_windows_are_averages_of_averages() {
    let average = |h: usize, w: usize| {
        let mut builder = Builder(Graph::new("test"));
        let x = builder.0.input("x", &[1, 2, h, w]).unwrap();
        let kind = PoolKind::Average { count_include_pad: false };
        let y = builder.node(Op::Pool(Pool::new(kind, [h, w])), &[x]);
        builder.0.outputs.push(y);
        simplified(builder.0)
    };
    assert_eq!(ops(&average(64, 80)), ["AveragePool", "AveragePool"]);
    assert_eq!(ops(&average(7, 36)), ["AveragePool", "AveragePool"]);
    assert_eq!(ops(&average(32, 32)), ["AveragePool"]);
    // A prime number of lines.
    assert_eq!(ops(&average(37, 4)), ["AveragePool"]);
}

#[test]
fn shuffles_are_permutations_of_channels() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 6, 2, 3]).unwrap();
    let y = builder.node(Op::Reshape { shape: vec![1, 2, 3, 2, 3] }, &[x]);
    let y = builder.node(Op::Transpose { perm: vec![0, 2, 1, 3, 4] }, &[y]);
    let y = builder.node(Op::Reshape { shape: vec![1, 6, 2, 3] }, &[y]);
    builder.0.outputs.push(y);
    let graph = simplified(builder.0);
    assert_eq!(graph.nodes.len(), 1);
    assert_eq!(graph.nodes[0].op, Op::ChannelPermutation { from: vec![0, 3, 1, 4, 2, 5] });
}

#[test]
fn zeros_around_become_padding() {
    let pad = |b: &mut Builder, x, value| {
        let op = Op::Pad { mode: PadMode::Constant(value), before: vec![0, 0, 1, 2], after: vec![0, 0, 0, 1] };
        b.node(op, &[x])
    };
    let graph = expression(|b, x| {
        let y = pad(b, x, 0.0);
        b.conv(y, 2, 3)
    });
    assert_eq!(ops(&simplified(graph)), ["Convolution"]);
    let graph = expression(|b, x| {
        let y = pad(b, x, 1.0);
        b.conv(y, 2, 3)
    });
    assert_eq!(ops(&simplified(graph)), ["Pad", "Convolution"]);
    let graph = expression(|b, x| {
        let y = pad(b, x, 0.0);
        let kind = PoolKind::Average { count_include_pad: true };
        b.node(Op::Pool(Pool::new(kind, [3, 3])), &[y])
    });
    assert_eq!(ops(&simplified(graph)), ["AveragePool"]);
}

#[test]
fn a_convolution_with_several_readers_is_not_merged() {
    let graph = expression(|b, x| {
        let y = b.conv(x, 2, 1);
        let doubled = b.with(Binary::Mul, y, 2.0);
        b.both(Binary::Max, y, doubled)
    });
    assert_eq!(ops(&simplified(graph)), ["Convolution", "Mul", "Max"]);
}

/// A gate per channel, a concatenation and zeros in an island with the channels last, as tf2onnx writes them: no move is left.
#[test]
fn islands_with_the_channels_last_have_no_moves() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 2, 3, 4]).unwrap();
    let turned = builder.node(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[x]);
    let pool = Pool::new(PoolKind::Average { count_include_pad: true }, [3, 4]);
    let mean = builder.node(Op::Pool(pool), &[x]);
    let gate = builder.node(Op::Reshape { shape: vec![1, 1, 1, 2] }, &[mean]);
    let product = builder.both(Binary::Mul, turned, gate);
    let joined = builder.node(Op::Concat { axis: 3 }, &[product, turned]);
    let mode = PadMode::Constant(0.0);
    let padded = builder.node(Op::Pad { mode, before: vec![0; 4], after: vec![0, 1, 0, 3] }, &[joined]);
    let back = builder.node(Op::Transpose { perm: vec![0, 3, 1, 2] }, &[padded]);
    builder.0.outputs.push(back);
    let graph = simplified(builder.0);
    let names: Vec<_> = graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(names, ["AveragePool", "Mul", "Concat", "Pad"]);
}

/// A Relu between two tensors with the same scale stays, because the scale has negative values.
#[test]
fn a_relu_between_equal_scales_stays() {
    let mut builder = Builder(Graph::new("test"));
    let rounded = |builder: &mut Builder, id: TensorId| {
        let q = Quantization { scale: vec![0.5], zero_point: vec![0], axis: None, limits: (-128, 127) };
        let (low, high) = q.values()[0];
        let id = builder.unary(Unary::Clip(low, high), id);
        builder.0.tensors[id.0].quantization = Some(q);
        id
    };
    let x = builder.0.input("x", &[1, 1, 1, 4]).unwrap();
    let first = rounded(&mut builder, x);
    let relu = builder.unary(Unary::Relu, first);
    let second = rounded(&mut builder, relu);
    let moved = builder.node(Op::Transpose { perm: vec![0, 3, 2, 1] }, &[second]);
    let third = rounded(&mut builder, moved);
    let last = builder.unary(Unary::Abs, third);
    builder.0.outputs.push(last);
    let graph = simplified(builder.0);
    let found = float::run(&graph, &[vec![-80.0, -1.2, 1.2, 80.0]], &mut |_, _| {}).unwrap();
    assert_eq!(found, [[0.0, 0.0, 1.0, 63.5]]);
    assert_eq!(ops(&graph).iter().filter(|op| **op == "Clip").count(), 2);
}

/// Two heads that are turned, reshaped and joined, with a function behind: both become outputs, and the moves are left to the user. A
/// quantized model rounds each of these tensors.
#[test]
fn heads_become_outputs() {
    for quantized in [false, true] {
        let mut builder = Builder(Graph::new("test"));
        let rounded = |builder: &mut Builder, id: TensorId, scale: f32| {
            if !quantized {
                return id;
            }
            let q = Quantization { scale: vec![scale], zero_point: vec![3], axis: None, limits: (-128, 127) };
            let (low, high) = q.values()[0];
            let id = builder.unary(Unary::Clip(low, high), id);
            builder.0.tensors[id.0].quantization = Some(q);
            id
        };
        let x = builder.0.input("x", &[1, 3, 20, 20]).unwrap();
        let mut heads = Vec::new();
        for scale in [0.01, 0.02] {
            let head = builder.conv(x, 6, 1);
            let head = rounded(&mut builder, head, scale);
            let turned = builder.node(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[head]);
            let turned = rounded(&mut builder, turned, scale);
            let bias = builder.constant(&[1, 1, 1, 6], vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6]);
            let sum = builder.node(Op::Binary(Binary::Add), &[turned, bias]);
            let sum = rounded(&mut builder, sum, 1.5 * scale);
            let reshaped = builder.node(Op::Reshape { shape: vec![1, 800, 3] }, &[sum]);
            heads.push(rounded(&mut builder, reshaped, 1.5 * scale));
        }
        let joined = builder.node(Op::Concat { axis: 1 }, &heads);
        let joined = rounded(&mut builder, joined, 0.025);
        let scores = builder.unary(Unary::Sigmoid, joined);
        let scores = rounded(&mut builder, scores, 0.004);
        builder.0.outputs.push(scores);
        let name = builder.0.tensor(scores).name.clone();
        let before = builder.0.clone();
        let mut graph = builder.0;
        simplify(&mut graph);
        let parts = split_heads(&mut graph);
        let reshaped = outer_moves(&mut graph);
        graph.check().unwrap();
        assert_eq!(parts.len(), 2);
        assert_eq!(reshaped.len(), 2);
        assert!(reshaped.iter().all(|change| change.channels_last && change.graph == [1, 6, 20, 20]), "{reshaped:?}");
        assert!(!graph
            .nodes
            .iter()
            .any(|node| matches!(node.op, Op::Reshape { .. } | Op::Transpose { .. } | Op::Concat { .. })));
        let part = parts[1].part.as_ref().unwrap();
        assert_eq!((&part.of, part.axis, part.first, part.count), (&name, 1, 800, 800));
        let input: Vec<f32> = (0..1200).map(|k| X[k % 8]).collect();
        let whole = float::run(&before, std::slice::from_ref(&input), &mut |_, _| {}).unwrap();
        let own = float::run(&graph, &[input], &mut |_, _| {}).unwrap();
        let turned: Vec<f32> = own.iter().flat_map(|values| last(&[1, 6, 20, 20], values)).collect();
        assert_eq!(turned.len(), whole[0].len());
        assert!(turned.iter().zip(&whole[0]).all(|(a, b)| (a - b).abs() < 1e-6));
    }
}

/// Scores of two heads, one value per place, of which no configuration has too many.
#[test]
fn few_scores_of_heads_become_outputs() {
    for size in [12, 4] {
        let mut builder = Builder(Graph::new("test"));
        let x = builder.0.input("x", &[1, 3, size, size]).unwrap();
        let head = |builder: &mut Builder| {
            let head = builder.conv(x, 2, 1);
            let turned = builder.node(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[head]);
            builder.node(Op::Reshape { shape: vec![1, 2 * size * size, 1] }, &[turned])
        };
        let heads = [head(&mut builder), head(&mut builder)];
        let joined = builder.node(Op::Concat { axis: 1 }, &heads);
        builder.0.outputs.push(joined);
        let mut graph = builder.0;
        simplify(&mut graph);
        assert_eq!(split_heads(&mut graph).len(), if size == 12 { 2 } else { 0 });
    }
}

/// Limits per channel, small powers, and a constant that is divided.
#[test]
fn arithmetic_that_no_unit_has_is_divided() {
    for (operator, values, count) in
        [(Binary::Max, vec![0.5, -1.0], 3), (Binary::Min, vec![0.5, -1.0], 5), (Binary::Pow, vec![3.0], 2)]
    {
        let mut builder = Builder(Graph::new("test"));
        let x = builder.0.input("x", &[1, 2, 2, 4]).unwrap();
        let shape = if values.len() == 1 { vec![] } else { vec![2, 1, 1] };
        let limits = builder.constant(&shape, values);
        let y = builder.both(operator, x, limits);
        builder.0.outputs.push(y);
        assert_eq!(simplified(builder.0).nodes.len(), count, "{operator:?}");
    }
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 1, 1, 4]).unwrap();
    let absolute = builder.unary(Unary::Abs, x);
    let one = builder.constant(&[1], vec![1.0]);
    let shifted = builder.both(Binary::Add, absolute, one);
    let constant = builder.constant(&[1], vec![1.5]);
    let y = builder.both(Binary::Div, constant, shifted);
    builder.0.outputs.push(y);
    let graph = simplified(builder.0);
    assert!(graph.nodes.iter().any(|node| node.op == Op::Unary(Unary::Reciprocal)));
}

/// The logarithm of a softmax also has the values of classes whose share is too small for a number.
#[test]
fn small_shares_have_logarithms() {
    for (shape, axis) in [(vec![1, 8], 1), (vec![2, 8, 3], 1), (vec![1, 8, 2, 3], 1), (vec![2, 3, 8], 2)] {
        let mut builder = Builder(Graph::new("test"));
        let x = builder.0.input("x", &shape).unwrap();
        let shares = builder.node(Op::Softmax { axis }, &[x]);
        let y = builder.unary(Unary::Log, shares);
        builder.0.outputs.push(y);
        let mut graph = builder.0;
        simplify(&mut graph);
        let inner: usize = shape[axis + 1..].iter().product();
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|k| X[k % 8] * 30.0 + (k / 8) as f32).collect();
        let found = &float::run(&graph, std::slice::from_ref(&values), &mut |_, _| {}).unwrap()[0];
        for (k, found) in found.iter().enumerate() {
            let first = k / (8 * inner) * 8 * inner + k % inner;
            let of_class = |class: usize| f64::from(values[first + class * inner]);
            let most = (0..8).map(of_class).fold(f64::MIN, f64::max);
            let sum: f64 = (0..8).map(|class| (of_class(class) - most).exp()).sum();
            let expected = f64::from(values[k]) - most - sum.ln();
            assert!((f64::from(*found) - expected).abs() < 1e-3, "{shape:?}: {found}, {expected}");
        }
    }
}

/// A tensor that a model rounds once for each reader is rounded once.
#[test]
fn what_is_rounded_again_is_rounded_once() {
    let quantized =
        |scale: f32| Some(Quantization { scale: vec![scale], zero_point: vec![0], axis: None, limits: (-128, 127) });
    for (scale, count) in [(0.05, 1), (0.04, 2)] {
        let mut builder = Builder(Graph::new("residual"));
        let x = builder.0.input("x", &[1, 2, 4, 4]).unwrap();
        let y = builder.conv(x, 3, 1);
        let one = builder.unary(Unary::Clip(-6.4, 6.35), y);
        builder.0.tensors[one.0].quantization = quantized(0.05);
        let z = builder.conv(one, 3, 1);
        let two = builder.unary(Unary::Clip(-6.4, 6.35), y);
        builder.0.tensors[two.0].quantization = quantized(scale);
        let sum = builder.both(Binary::Add, z, two);
        builder.0.outputs.push(sum);
        let graph = simplified(builder.0);
        let clips = ops(&graph).iter().filter(|op| **op == "Clip").count();
        assert_eq!(clips, count, "{:?}", ops(&graph));
    }
}

/// What only a part of a tensor needs is moved alone, and a picture without a batch is padded as one with a batch.
#[test]
fn padding_and_slices_come_before_reshapes() {
    let mut builder = Builder(Graph::new("steps"));
    let x = builder.0.input("x", &[1, 4, 2, 3]).unwrap();
    let turned = builder.node(Op::Transpose { perm: vec![3, 0, 1, 2] }, &[x]);
    let steps = builder.node(Op::Reshape { shape: vec![3, 1, 8] }, &[turned]);
    let op = Op::Slice { starts: vec![2, 0, 0], steps: vec![1; 3], lengths: vec![1, 1, 8] };
    let step = builder.node(op, &[steps]);
    let y = builder.node(Op::Reshape { shape: vec![1, 8] }, &[step]);
    builder.0.outputs.push(y);
    assert_eq!(ops(&simplified(builder.0)), ["Slice", "Reshape"]);

    let mut builder = Builder(Graph::new("picture"));
    let x = builder.0.input("x", &[1, 2, 3, 4]).unwrap();
    let picture = builder.node(Op::Reshape { shape: vec![2, 3, 4] }, &[x]);
    let pad = |sides: &[usize]| Op::Pad { mode: PadMode::Constant(0.5), before: sides.to_vec(), after: vec![0, 0, 1] };
    let wider = builder.node(pad(&[0, 2, 1]), &[picture]);
    let y = builder.node(Op::Reshape { shape: vec![1, 2, 5, 6] }, &[wider]);
    builder.0.outputs.push(y);
    assert_eq!(ops(&simplified(builder.0)), ["Pad"]);

    // Both sides of a joined axis are padded; and two dimensions of 1 are one before.
    for (before, after) in [(vec![1, 2, 3, 4], vec![1, 6, 4]), (vec![1, 4], vec![1, 1, 4])] {
        let mut builder = Builder(Graph::new("joined"));
        let x = builder.0.input("x", &before).unwrap();
        let joined = builder.node(Op::Reshape { shape: after }, &[x]);
        let y = builder.node(pad(&[1, 1, 0]), &[joined]);
        builder.0.outputs.push(y);
        assert_eq!(ops(&simplified(builder.0)), ["Reshape", "Pad"]);
    }
}

/// A dimension of 1 that comes between two transpositions does not keep them apart.
#[test]
fn transpositions_around_a_dimension_of_one_are_merged() {
    let mut builder = Builder(Graph::new("memory"));
    let x = builder.0.input("x", &[1, 4, 6]).unwrap();
    let first = builder.node(Op::Transpose { perm: vec![0, 2, 1] }, &[x]);
    let four = builder.node(Op::Reshape { shape: vec![1, 1, 6, 4] }, &[first]);
    let y = builder.node(Op::Transpose { perm: vec![0, 3, 2, 1] }, &[four]);
    builder.0.outputs.push(y);
    assert_eq!(ops(&simplified(builder.0)), ["Reshape"]);
}

/// Elements that become columns of one line, as networks of sound enlarge.
#[test]
fn blocks_of_one_line_are_recognised() {
    for (from, perm, op) in [
        ([1, 2, 2, 4], vec![0, 1, 3, 2], Op::DepthToSpace { block: [1, 2], order: BlockOrder::Crd }),
        ([1, 2, 2, 4], vec![0, 2, 3, 1], Op::DepthToSpace { block: [1, 2], order: BlockOrder::Dcr }),
    ] {
        let mut builder = Builder(Graph::new("wave"));
        let x = builder.0.input("x", &[1, 4, 1, 4]).unwrap();
        let parts = builder.node(Op::Reshape { shape: from.to_vec() }, &[x]);
        let turned = builder.node(Op::Transpose { perm }, &[parts]);
        let y = builder.node(Op::Reshape { shape: vec![1, 2, 1, 8] }, &[turned]);
        builder.0.outputs.push(y);
        assert_eq!(simplified(builder.0).nodes[0].op, op);
    }
}

/// A convolution over more columns than the hardware has reads those of each stride as channels.
#[test]
fn long_inputs_have_channels() {
    for (columns, taps, stride, left, right) in
        [(16000, 20, 10, 0, 0), (16000, 80, 16, 38, 38), (16000, 9, 5, 3, 4), (20000, 3, 4, 0, 1), (9000, 7, 3, 0, 5)]
    {
        let mut builder = Builder(Graph::new("wave"));
        let x = builder.0.input("x", &[1, columns]).unwrap();
        let louder = builder.unary(Unary::Relu, x);
        let line = builder.node(Op::Reshape { shape: vec![1, 1, 1, columns] }, &[louder]);
        let weights = builder.constant(&[2, 1, 1, taps], (0..2 * taps).map(|k| (k as f32 * 0.7).sin()).collect());
        let (kernel, stride) = ([1, taps], [1, stride]);
        let padding = Padding { left, right, ..Padding::default() };
        let op = Convolution { group: 1, kernel, stride, dilation: [1; 2], padding };
        let y = builder.node(Op::Convolution(op), &[line, weights]);
        builder.0.outputs.push(y);
        let before = builder.0.clone();
        let mut graph = builder.0;
        let reshaped = simplify_ends(&mut graph);
        graph.check().unwrap();
        assert_eq!(reshaped[0].graph, [1, stride[1], 1, columns / stride[1]]);
        let values: Vec<f32> = (0..columns).map(|k| (k as f32 * 0.37).cos()).collect();
        // The loadable's channels are last in the model.
        let (count, channels) = (columns / stride[1], stride[1]);
        let first: Vec<f32> = (0..columns).map(|at| values[at % count * channels + at / count]).collect();
        let expected = float::run(&before, &[values], &mut |_, _| {}).unwrap();
        let found = float::run(&graph, &[first], &mut |_, _| {}).unwrap();
        assert_eq!(found[0].len(), expected[0].len());
        assert!(found[0].iter().zip(&expected[0]).all(|(a, b)| (a - b).abs() < 1e-4));
    }
}

/// A choice that differs from a function at one argument, or beyond a large one, is not that function.
#[test]
fn choices_are_functions_only_if_they_are_everywhere() {
    for (at, name) in [(0.0, "LeakyRelu"), (0.3, "Add"), (500.0, "Add")] {
        let mut builder = Builder(Graph::new("choice"));
        let x = builder.0.input("x", &[1, 8]).unwrap();
        let step = builder.unary(Unary::Step(at), x);
        let slope = builder.constant(&[], vec![0.1]);
        let below = builder.both(Binary::Mul, x, slope);
        let (above, below) = if at > 0.0 { (below, builder.unary(Unary::LeakyRelu(0.1), x)) } else { (x, below) };
        let above = builder.both(Binary::Mul, step, above);
        let one = builder.constant(&[], vec![1.0]);
        let inverse = builder.both(Binary::Sub, one, step);
        let below = builder.both(Binary::Mul, inverse, below);
        let y = builder.both(Binary::Add, above, below);
        builder.0.outputs.push(y);
        assert_eq!(*ops(&simplified(builder.0)).last().unwrap(), name, "{at}");
    }
}

/// The joined steps of a recurrent layer are joined along the axis that they then have.
#[test]
fn steps_are_joined_where_they_are_read() {
    let mut builder = Builder(Graph::new("recurrence"));
    let x = builder.0.input("x", &[1, 4]).unwrap();
    let steps: Vec<TensorId> = [Unary::Relu, Unary::Abs, Unary::Exp]
        .into_iter()
        .map(|unary| {
            let step = builder.unary(unary, x);
            builder.node(Op::Reshape { shape: vec![1, 1, 4] }, &[step])
        })
        .collect();
    let joined = builder.node(Op::Concat { axis: 0 }, &steps);
    let batch = builder.node(Op::Reshape { shape: vec![1, 3, 4] }, &[joined]);
    let y = builder.node(Op::Transpose { perm: vec![0, 2, 1] }, &[batch]);
    builder.0.outputs.push(y);
    let graph = simplified(builder.0);
    assert_eq!(graph.nodes.last().unwrap().op, Op::Concat { axis: 2 });
    assert!(!ops(&graph).contains(&"Transpose"));
}

/// The steps of both directions of a recurrent layer: a reshape joins the directions, and leaves the axis of the steps.
#[test]
fn steps_of_two_directions_are_joined_where_they_are_read() {
    let after = simplified(expression(|builder, x| {
        let mut steps = Vec::new();
        for k in 1..5 {
            let directions = [0.1, 0.2].map(|more| {
                let state = builder.with(Binary::Mul, x, k as f32 + more);
                builder.node(Op::Reshape { shape: vec![1, 1, 1, 8] }, &[state])
            });
            steps.push(builder.node(Op::Concat { axis: 1 }, &directions));
        }
        let all = builder.node(Op::Concat { axis: 0 }, &steps);
        let turned = builder.node(Op::Transpose { perm: vec![0, 2, 1, 3] }, &[all]);
        let rows = builder.node(Op::Reshape { shape: vec![4, 16, 1] }, &[turned]);
        builder.node(Op::Transpose { perm: vec![2, 1, 0] }, &[rows])
    }));
    assert!(ops(&after).iter().all(|op| *op != "Transpose"), "{:?}", ops(&after));
}

/// A fully connected layer over the lines or the columns of a picture, with the channels before or behind the other dimension.
#[test]
fn layers_over_lines_are_convolutions() {
    for (perm, kernel) in [
        (vec![0, 2, 1, 3], [1, 4]),
        (vec![0, 2, 3, 1], [1, 4]),
        (vec![0, 3, 1, 2], [3, 1]),
        (vec![3, 0, 2, 1], [3, 1]),
        (vec![2, 0, 3, 1], [1, 4]),
    ] {
        let mut builder = Builder(Graph::new("sequence"));
        let x = builder.0.input("x", &[1, 2, 3, 4]).unwrap();
        let turned = builder.node(Op::Transpose { perm }, &[x]);
        let count = if kernel[0] == 1 { 3 } else { 4 };
        let flat = 24 / count;
        let steps = builder.node(Op::Reshape { shape: vec![1, count, flat] }, &[turned]);
        let first = builder.node(Op::Transpose { perm: vec![0, 2, 1] }, &[steps]);
        let z = builder.node(Op::Reshape { shape: vec![1, flat, 1, count] }, &[first]);
        let y = builder.conv(z, 5, 1);
        let y = builder.unary(Unary::Relu, y);
        builder.0.outputs.push(y);
        let graph = simplified(builder.0);
        let found = graph.nodes.iter().find_map(|node| match node.op {
            Op::Convolution(Convolution { kernel, .. }) => Some(kernel),
            _ => None,
        });
        assert_eq!(found, Some(kernel));
        assert!(!ops(&graph).contains(&"Transpose"));
    }
}

/// A residual connection of a network whose sequences are matrices.
#[test]
fn sums_of_reshaped_tensors_are_reshaped() {
    let mut builder = Builder(Graph::new("residual"));
    let x = builder.0.input("x", &[1, 4, 1, 6]).unwrap();
    let parts = [Unary::Abs, Unary::Exp].map(|unary| {
        let part = builder.unary(unary, x);
        let flat = builder.node(Op::Reshape { shape: vec![1, 4, 6] }, &[part]);
        let turned = builder.node(Op::Transpose { perm: vec![0, 2, 1] }, &[flat]);
        builder.node(Op::Reshape { shape: vec![6, 1, 4] }, &[turned])
    });
    let sum = builder.both(Binary::Add, parts[0], parts[1]);
    let four = builder.node(Op::Reshape { shape: vec![1, 6, 1, 4] }, &[sum]);
    let y = builder.node(Op::Transpose { perm: vec![0, 3, 2, 1] }, &[four]);
    builder.0.outputs.push(y);
    let graph = simplified(builder.0);
    assert!(!ops(&graph).contains(&"Transpose"), "{:?}", ops(&graph));
}

/// A tensor with the channels last that two operators read, and that are joined again.
#[test]
fn islands_may_divide() {
    let mut builder = Builder(Graph::new("island"));
    let x = builder.0.input("x", &[1, 2, 3, 4]).unwrap();
    let conv = builder.conv(x, 3, 1);
    let last = builder.node(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[conv]);
    let relu = builder.unary(Unary::Relu, last);
    let sum = builder.both(Binary::Add, last, relu);
    let factors = builder.constant(&[3], vec![1.0, -2.0, 0.5]);
    let scaled = builder.both(Binary::Mul, sum, factors);
    let sum = builder.both(Binary::Max, scaled, sum);
    let first = builder.node(Op::Transpose { perm: vec![0, 3, 1, 2] }, &[sum]);
    let y = builder.conv(first, 2, 1);
    builder.0.outputs.push(y);
    let graph = simplified(builder.0);
    assert!(!ops(&graph).contains(&"Transpose"), "{:?}", ops(&graph));
    // A constant is given another shape at once.
    assert!(!ops(&graph).contains(&"Reshape"), "{:?}", ops(&graph));
}

/// The box of a detector: 16 shares of each of four numbers, and their mean.
#[test]
fn softmax_and_layers_of_groups_are_of_channels() {
    for apart in [false, true] {
        let mut builder = Builder(Graph::new("test"));
        let x = builder.0.input("x", &[1, 64, 1, 6]).unwrap();
        let line = builder.node(Op::Reshape { shape: vec![1, 64, 6] }, &[x]);
        // Channels of one number are adjacent, or four apart.
        let (shape, perm) = if apart { (vec![1, 16, 4, 6], [0, 1, 2, 3]) } else { (vec![1, 4, 16, 6], [0, 2, 1, 3]) };
        let grouped = builder.node(Op::Reshape { shape }, &[line]);
        let turned = builder.node(Op::Transpose { perm: perm.to_vec() }, &[grouped]);
        let shares = builder.node(Op::Softmax { axis: 1 }, &[turned]);
        let means = if apart { shares } else { builder.conv(shares, 1, 1) };
        let shape = if apart { vec![1, 64, 6] } else { vec![1, 4, 6] };
        let y = builder.node(Op::Reshape { shape }, &[means]);
        builder.0.outputs.push(y);
        let graph = simplified(builder.0);
        let names = ops(&graph);
        assert_eq!(names.iter().filter(|name| **name == "Softmax").count(), 4, "{names:?}");
        assert!(!names.contains(&"Transpose"), "{names:?}");
        let moves = |op: &Op| matches!(op, Op::Reshape { .. });
        let pixels = |id: TensorId| graph.shape(id).last().copied();
        assert!(graph.nodes.iter().filter(|node| moves(&node.op)).all(|node| pixels(node.output) == Some(6)));
    }
}

/// A mask is the last that a softmax's argument gets, also where the model divides their sum.
#[test]
fn factors_come_before_masks() {
    for least in [-1e4, -2.0] {
        let mut builder = Builder(Graph::new("test"));
        let x = builder.0.input("x", &[1, 4, 3, 2]).unwrap();
        let mask = builder.constant(&[1, 4, 1, 1], vec![0.0, least, 0.0, -1.0]);
        let divisor = builder.constant(&[], vec![4.0]);
        let masked = builder.both(Binary::Add, x, mask);
        let scaled = builder.both(Binary::Div, masked, divisor);
        let y = builder.node(Op::Softmax { axis: 1 }, &[scaled]);
        builder.0.outputs.push(y);
        let names = if least < -100.0 { ["Mul", "Add", "Softmax"] } else { ["Add", "Mul", "Softmax"] };
        assert_eq!(ops(&simplified(builder.0)), names);
    }
}

#[test]
fn columns_beyond_the_hardware_become_lines() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 3, 100, 80]).unwrap();
    let small = builder.node(Op::Slice { starts: vec![0; 4], steps: vec![1; 4], lengths: vec![1, 3, 25, 40] }, &[x]);
    let head = |builder: &mut Builder, from: TensorId, length: usize| {
        let head = builder.conv(from, 5, 1);
        builder.node(Op::Reshape { shape: vec![1, 5, length] }, &[head])
    };
    let heads = [head(&mut builder, x, 8000), head(&mut builder, small, 1000)];
    let joined = builder.node(Op::Concat { axis: 2 }, &heads);
    let offsets = builder.constant(&[1, 1, 9000], (0..9000).map(|k| k as f32 / 100.0).collect());
    let sum = builder.both(Binary::Add, joined, offsets);
    let first = builder.node(Op::Slice { starts: vec![0; 3], steps: vec![1; 3], lengths: vec![1, 2, 9000] }, &[sum]);
    let y = builder.both(Binary::Mul, first, first);
    let turned = builder.node(Op::Transpose { perm: vec![0, 2, 1] }, &[y]);
    builder.0.outputs.push(turned);
    let before = builder.0.clone();
    let mut graph = builder.0;
    let reshaped = simplify_ends(&mut graph);
    graph.check().unwrap();
    let longest = |id: TensorId| graph.tensor(id).nchw().map(|shape| shape[3]);
    assert!((0..graph.tensors.len()).all(|k| longest(TensorId(k)) <= Some(200)), "{graph:?}");
    let [change] = &reshaped[..] else { panic!("{reshaped:?}") };
    assert_eq!((&change.model[..], change.channels_last), (&[1, 9000, 2][..], true));
    let input: Vec<f32> = (0..24000).map(|k| X[k % 8]).collect();
    let whole = float::run(&before, std::slice::from_ref(&input), &mut |_, _| {}).unwrap();
    let own = float::run(&graph, &[input], &mut |_, _| {}).unwrap();
    let turned = last(&change.graph, &own[0]);
    assert!(turned.iter().zip(&whole[0]).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs())));
}

/// A window over more columns than the hardware has.
fn over_columns(op: Op, input: [usize; 2], kernels: usize) -> (Graph, Graph) {
    let mut builder = Builder(Graph::new("test"));
    let [channels, columns] = input;
    let x = builder.0.input("x", &[1, channels, 1, columns]).unwrap();
    let relu = builder.unary(Unary::Relu, x);
    let taps = match &op {
        Op::Convolution(conv) | Op::Deconvolution(conv, _) => conv.kernel[1],
        _ => 0,
    };
    let weights = (0..kernels * channels * taps).map(|k| ((k * 7 + 3) % 11) as f32 * 0.1 - 0.5).collect();
    let shape =
        if matches!(op, Op::Deconvolution(..)) { [channels, kernels, 1, taps] } else { [kernels, channels, 1, taps] };
    let y = if taps == 0 {
        builder.node(op, &[relu])
    } else {
        let weights = builder.constant(&shape, weights);
        let bias = builder.constant(&[kernels], (0..kernels).map(|k| k as f32 - 0.5).collect());
        builder.node(op, &[relu, weights, bias])
    };
    let y = builder.unary(Unary::Relu, y);
    builder.0.outputs.push(y);
    let mut folded = builder.0.clone();
    simplify_ends(&mut folded);
    (builder.0, folded)
}

/// Copies put the neighbours of a line beside it.
#[test]
fn windows_over_too_many_columns_read_lines() {
    let convolution = |taps: usize, stride: usize, apart: usize, [left, right]: [usize; 2]| Convolution {
        group: 1,
        kernel: [1, taps],
        stride: [1, stride],
        dilation: [1, apart],
        padding: Padding { left, right, ..Padding::default() },
    };
    let same = |taps: usize, apart: usize| Op::Convolution(convolution(taps, 1, apart, [taps / 2 * apart; 2]));
    let pool = Op::Pool(Pool { stride: [1, 4], ..Pool::new(PoolKind::Max, [1, 4]) });
    let up = |taps: usize, stride: usize, pads: [usize; 2], more: usize| {
        Op::Deconvolution(convolution(taps, stride, 1, pads), [0, more])
    };
    for (op, columns) in [
        (same(3, 1), 9000),
        (same(11, 4), 10_000),
        (Op::Convolution(convolution(5, 2, 1, [2, 1])), 20_000),
        (Op::Convolution(convolution(5, 2, 1, [0, 0])), 12_000),
        (Op::Convolution(convolution(8, 1, 2, [14, 0])), 16_000),
        (pool, 12_000),
        (up(4, 2, [1, 1], 0), 5000),
        (up(16, 8, [4, 4], 0), 2000),
        (up(2, 2, [0, 0], 0), 9000),
        (up(3, 2, [1, 1], 1), 8000),
    ] {
        let what = format!("{op:?} of {columns}");
        let (whole, folded) = over_columns(op, [3, columns], 2);
        folded.check().unwrap();
        let widest =
            |graph: &Graph| graph.tensors.iter().filter_map(|tensor| tensor.nchw().map(|shape| shape[3])).max();
        assert!(widest(&folded) <= Some(8192), "{what}: {:?}", widest(&folded));
        let input: Vec<f32> = (0..3 * columns).map(|k| X[k * 5 % 8] + (k % 97) as f32 * 0.01).collect();
        let run = |graph: &Graph| float::run(graph, std::slice::from_ref(&input), &mut |_, _| {}).unwrap().remove(0);
        let (expected, found) = (run(&whole), run(&folded));
        assert_eq!(expected.len(), found.len(), "{what}");
        for (at, (a, b)) in expected.iter().zip(&found).enumerate() {
            assert!((a - b).abs() <= 2e-5 * (1.0 + a.abs()), "{what}: {a} became {b} at {at}");
        }
    }
}

/// A maximum of neighbours beyond the ends of a line would need a value below all.
#[test]
fn other_windows_stay_in_their_line() {
    let (_, graph) = over_columns(Op::Pool(Pool::new(PoolKind::Max, [1, 3])), [2, 9000], 0);
    assert_eq!(ops(&graph), ["Relu", "MaxPool", "Relu"]);
}

/// The head of a detector of key points: two coordinates and a score of each, in groups of three channels.
fn key_points(score: Unary) -> Graph {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 3, 4, 5]).unwrap();
    let head = builder.conv(x, 12, 1);
    let points = builder.node(Op::Reshape { shape: vec![1, 4, 3, 20] }, &[head]);
    let part = |start: usize, count: usize| Op::Slice {
        starts: vec![0, 0, start, 0],
        steps: vec![1; 4],
        lengths: vec![1, 4, count, 20],
    };
    let places = builder.node(part(0, 2), &[points]);
    let anchors = builder.constant(&[1, 1, 2, 20], (0..40).map(|k| k as f32 * 0.5).collect());
    let places = builder.both(Binary::Add, places, anchors);
    let scores = builder.node(part(2, 1), &[points]);
    let scores = builder.unary(score, scores);
    let joined = builder.node(Op::Concat { axis: 2 }, &[places, scores]);
    let y = builder.node(Op::Reshape { shape: vec![1, 12, 20] }, &[joined]);
    builder.0.outputs.push(y);
    builder.0
}

#[test]
fn parts_of_groups_are_channels() {
    let graph = simplified(key_points(Unary::Relu));
    let four = graph.nodes.iter().filter(|node| graph.shape(node.output)[..] == [1, 4, 3, 20]).count();
    assert_eq!(four, 0, "{:?}", ops(&graph));
    assert_eq!(ops(&graph).iter().filter(|name| **name == "Reshape").count(), 1, "{:?}", ops(&graph));
}

/// The head of a detector with three anchors: `[1, 24, H, W]` is `[1, 3, H, W, 8]`, of which the last five are scores.
#[test]
fn scores_of_anchors_are_outputs_of_their_own() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 3, 4, 5]).unwrap();
    let head = builder.conv(x, 24, 1);
    let anchors = builder.node(Op::Reshape { shape: vec![1, 3, 8, 4, 5] }, &[head]);
    let turned = builder.node(Op::Transpose { perm: vec![0, 1, 3, 4, 2] }, &[anchors]);
    let all = builder.unary(Unary::Sigmoid, turned);
    let part = |start: usize, count: usize| Op::Slice {
        starts: vec![0, 0, 0, 0, start],
        steps: vec![1; 5],
        lengths: vec![1, 3, 4, 5, count],
    };
    let places = builder.node(part(0, 2), &[all]);
    let grid = builder.constant(&[1, 3, 4, 5, 2], (0..120).map(|k| k as f32 * 4.0).collect());
    let places = builder.both(Binary::Add, places, grid);
    let sizes = builder.node(part(2, 2), &[all]);
    let own = builder.constant(&[1, 3, 1, 1, 2], vec![10.0, 13.0, 16.0, 30.0, 33.0, 23.0]);
    let sizes = builder.both(Binary::Mul, sizes, own);
    let scores = builder.node(part(4, 4), &[all]);
    let joined = builder.node(Op::Concat { axis: 4 }, &[places, sizes, scores]);
    let y = builder.node(Op::Reshape { shape: vec![1, 60, 8] }, &[joined]);
    builder.0.outputs.push(y);
    let before = builder.0.clone();
    let mut graph = builder.0;
    let reshaped = simplify_ends(&mut graph);
    graph.check().unwrap();
    let parts: Vec<_> = reshaped.iter().map(|change| change.part.clone().unwrap()).collect();
    let place = |part: &Joined| (part.axis, part.first, part.count);
    assert_eq!(parts.iter().map(place).collect::<Vec<_>>(), [(2, 0, 2), (2, 2, 2), (2, 4, 4)]);
    assert!(graph.nodes.iter().all(|node| graph.shape(node.output).len() <= 4 || is_end(&graph, node.output)));
    let input: Vec<f32> = (0..60).map(|k| X[k % 8]).collect();
    let whole = float::run(&before, std::slice::from_ref(&input), &mut |_, _| {}).unwrap();
    let own = float::run(&graph, &[input], &mut |_, _| {}).unwrap();
    for ((values, part), id) in own.iter().zip(&parts).zip(&graph.outputs) {
        assert_eq!(graph.shape(*id), [1, 60, part.count]);
        let expected = whole[0].chunks_exact(8).flat_map(|row| &row[part.first..part.first + part.count]);
        assert!(values.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs())));
    }
}

/// Whether only moves are between a tensor and an output.
fn is_end(graph: &Graph, id: TensorId) -> bool {
    let ends = |user| {
        let node = graph.node(user);
        matches!(node.op, Op::Reshape { .. } | Op::Transpose { .. }) && is_end(graph, node.output)
    };
    graph.outputs.contains(&id) || graph.users(id).all(ends)
}

/// The coordinates of key points as a layer of the pixels of each channel.
#[test]
fn a_layer_of_pixels_is_a_convolution_of_each_channel() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 3, 16, 12]).unwrap();
    let heat = builder.conv(x, 17, 1);
    let rows = builder.node(Op::Reshape { shape: vec![1, 17, 192] }, &[heat]);
    let turned = builder.node(Op::Transpose { perm: vec![0, 2, 1] }, &[rows]);
    let pixels = builder.node(Op::Reshape { shape: vec![1, 192, 1, 17] }, &[turned]);
    let layer = builder.conv(pixels, 6, 1);
    let layer = builder.node(Op::Reshape { shape: vec![1, 6, 17] }, &[layer]);
    let y = builder.node(Op::Transpose { perm: vec![0, 2, 1] }, &[layer]);
    let bias = builder.constant(&[6], (0..6).map(|k| k as f32).collect());
    let y = builder.both(Binary::Add, y, bias);
    builder.0.outputs.push(y);
    let graph = simplified(builder.0);
    let group = |node: &crate::ir::Node| match node.op {
        Op::Convolution(op) => Some(op.group),
        _ => None,
    };
    assert_eq!(graph.nodes.iter().filter_map(group).collect::<Vec<_>>(), [1, 17]);
}

/// Blocks of 2 x 2 pixels as channels, with a channel's pixels beside one another, as PyTorch has them.
#[test]
fn blocks_become_channels_in_any_order() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 3, 6, 4]).unwrap();
    let relu = builder.unary(Unary::Relu, x);
    let six = builder.node(Op::Reshape { shape: vec![1, 3, 3, 2, 2, 2] }, &[relu]);
    let turned = builder.node(Op::Transpose { perm: vec![0, 1, 3, 5, 2, 4] }, &[six]);
    let y = builder.node(Op::Reshape { shape: vec![1, 12, 3, 2] }, &[turned]);
    builder.0.outputs.push(y);
    assert_eq!(ops(&simplified(builder.0)), ["Relu", "SpaceToDepth", "ChannelPermutation"]);
}

/// What a model repeats before a product, the product repeats.
#[test]
fn repeated_operands_are_read_once() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 3, 4, 4]).unwrap();
    let gate = builder.node(Op::Pool(Pool::new(PoolKind::Max, [4, 4])), &[x]);
    let ones = builder.constant(&[1, 1, 4, 4], vec![1.0; 16]);
    let wide = builder.both(Binary::Mul, gate, ones);
    let y = builder.both(Binary::Mul, x, wide);
    builder.0.outputs.push(y);
    let graph = simplified(builder.0);
    assert_eq!(ops(&graph), ["MaxPool", "Mul"]);
}

/// Two functions of a reshaped tensor, as a comparison has them.
#[test]
fn functions_are_before_the_reshape_that_all_read() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 1, 4, 6]).unwrap();
    let relu = builder.unary(Unary::Relu, x);
    let turned = builder.node(Op::Reshape { shape: vec![1, 4, 6, 1] }, &[relu]);
    let (above, negative) = (builder.unary(Unary::Step(0.5), turned), builder.unary(Unary::Neg, turned));
    let below = builder.unary(Unary::Step(-0.5), negative);
    let y = builder.both(Binary::Add, above, below);
    builder.0.outputs.push(y);
    let names = simplified(builder.0);
    assert_eq!(ops(&names).last(), Some(&"Reshape"));
    assert_eq!(ops(&names).iter().filter(|name| **name == "Reshape").count(), 1);
}

/// With one scale, scores beside the numbers of boxes would be 0.
#[test]
fn scores_beside_boxes_are_an_output_of_their_own() {
    for (scores, count) in [(true, 2), (false, 0)] {
        let mut builder = Builder(Graph::new("test"));
        let x = builder.0.input("x", &[1, 3, 2, 4]).unwrap();
        let boxes = builder.conv(x, 4, 1);
        let classes = builder.conv(x, 2, 1);
        let classes = builder.unary(if scores { Unary::Sigmoid } else { Unary::Relu }, classes);
        let boxes = builder.node(Op::Reshape { shape: vec![1, 4, 8] }, &[boxes]);
        let classes = builder.node(Op::Reshape { shape: vec![1, 2, 8] }, &[classes]);
        let joined = builder.node(Op::Concat { axis: 1 }, &[boxes, classes]);
        let y = builder.node(Op::Transpose { perm: vec![0, 2, 1] }, &[joined]);
        builder.0.outputs.push(y);
        let mut graph = builder.0;
        simplify(&mut graph);
        let parts = split_heads(&mut graph);
        graph.check().unwrap();
        assert_eq!(parts.len(), count);
        assert_eq!(graph.outputs.len(), count.max(1));
    }
}

/// Scores of two sizes beside boxes of two sizes, whose numbers are the channels of several boxes.
#[test]
fn heads_within_heads_become_outputs() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 3, 20, 20]).unwrap();
    let head = |builder: &mut Builder, each: usize| {
        let head = builder.conv(x, 2 * each, 1);
        let turned = builder.node(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[head]);
        builder.node(Op::Reshape { shape: vec![1, 800, each] }, &[turned])
    };
    let sizes = [1, 1, 18, 18].map(|each| head(&mut builder, each));
    let scores = builder.node(Op::Concat { axis: 1 }, &sizes[..2]);
    let boxes = builder.node(Op::Concat { axis: 1 }, &sizes[2..]);
    let y = builder.node(Op::Concat { axis: 2 }, &[scores, boxes]);
    builder.0.outputs.push(y);
    let name = builder.0.tensor(y).name.clone();
    let mut graph = builder.0;
    let reshaped = simplify_ends(&mut graph);
    graph.check().unwrap();
    assert_eq!(graph.nodes.len(), 4, "{:?}", ops(&graph));
    let places: Vec<_> = reshaped
        .iter()
        .map(|change| {
            let part = change.part.as_ref().unwrap();
            let whole = part.within.as_ref().unwrap();
            assert_eq!((&whole.of, whole.axis, part.axis), (&name, 2, 1));
            (whole.first, whole.count, part.first, part.count)
        })
        .collect();
    assert_eq!(places, [(0, 1, 0, 800), (0, 1, 800, 800), (1, 18, 0, 800), (1, 18, 800, 800)]);
    let text = reshaped[3].to_string();
    assert!(text.contains("is the part 800 to 1599 along axis 1 of the part 1 to 18 along axis 2 of"), "{text}");
}

/// A detector's head joins boxes and scores of each size, joins the sizes, and divides boxes and scores again.
#[test]
fn parts_of_joined_tensors_are_joined_parts() {
    let mut builder = Builder(Graph::new("test"));
    let x = builder.0.input("x", &[1, 3, 2, 4]).unwrap();
    let mut sizes = Vec::new();
    for _ in 0..2 {
        let boxes = builder.conv(x, 4, 1);
        let scores = builder.conv(x, 2, 1);
        let scores = builder.unary(Unary::Sigmoid, scores);
        let both = builder.node(Op::Concat { axis: 1 }, &[boxes, scores]);
        sizes.push(builder.node(Op::Reshape { shape: vec![1, 6, 8] }, &[both]));
    }
    let joined = builder.node(Op::Concat { axis: 2 }, &sizes);
    let part = |builder: &mut Builder, first: usize, count: usize| {
        let op = Op::Slice { starts: vec![0, first, 0], steps: vec![1; 3], lengths: vec![1, count, 16] };
        builder.node(op, &[joined])
    };
    let (boxes, scores) = (part(&mut builder, 0, 4), part(&mut builder, 4, 2));
    builder.0.outputs.extend([boxes, scores]);
    let graph = simplified(builder.0);
    assert!(!ops(&graph).contains(&"Slice"), "{:?}", ops(&graph));
    let most = crate::bounds::bounds(&graph, &[])[graph.outputs[1].0];
    assert_eq!(most, (0.0, 1.0));
}
