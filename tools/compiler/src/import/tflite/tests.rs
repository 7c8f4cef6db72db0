// SPDX-License-Identifier: MIT OR Apache-2.0

//! Models that these tests write are read, and computed as TFLite's definitions say, by plain loops.

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, WIPOffset};

use super::operators;
use crate::float;
use crate::import::format::Failure;
use crate::import::options::Options;
use crate::ir::{Graph, Op};

/// The value of a field of options.
#[derive(Clone, Copy)]
enum Field {
    Byte(i8),
    Int(i32),
    Float(f32),
    Text(&'static str),
}
use Field::{Byte, Float, Int, Text};

/// A tensor of a model that a test writes.
#[derive(Clone, Default)]
struct Tensor {
    shape: Vec<i32>,
    kind: i8,
    data: Vec<u8>,
    scale: Vec<f32>,
    zero: Vec<i64>,
    axis: i32,
    /// The order of the levels; and of each level its size, or its segments and indices.
    sparse: Option<(Vec<i32>, Vec<i32>, Vec<Level>)>,
}

type Level = Result<i32, (Vec<i32>, Vec<i32>)>;

const FLOAT: i8 = 0;
const FLOAT16: i8 = 1;
const INT32: i8 = 2;
const UINT8: i8 = 3;
const INT8: i8 = 9;

fn real(shape: &[i32]) -> Tensor {
    Tensor { shape: shape.to_vec(), kind: FLOAT, ..Tensor::default() }
}

fn reals(shape: &[i32], values: &[f32]) -> Tensor {
    Tensor { data: values.iter().flat_map(|value| value.to_le_bytes()).collect(), ..real(shape) }
}

fn ints(values: &[i32]) -> Tensor {
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor { shape: vec![values.len() as i32], kind: INT32, data, ..Tensor::default() }
}

fn scaled(shape: &[i32], kind: i8, scale: &[f32], zero: i64) -> Tensor {
    Tensor { shape: shape.to_vec(), kind, scale: scale.to_vec(), zero: vec![zero; scale.len()], ..Tensor::default() }
}

/// Operator, inputs, outputs, options.
type Operator = (&'static str, Vec<i32>, Vec<i32>, Vec<(u16, Field)>);

/// A model that a test writes. Tensor k has the name "tk".
#[derive(Clone, Default)]
struct Model {
    tensors: Vec<Tensor>,
    operators: Vec<Operator>,
    inputs: Vec<i32>,
    outputs: Vec<i32>,
    custom: Vec<u8>,
}

impl Model {
    fn tensor(&mut self, tensor: Tensor) -> i32 {
        self.tensors.push(tensor);
        self.tensors.len() as i32 - 1
    }

    fn input(&mut self, tensor: Tensor) -> i32 {
        let k = self.tensor(tensor);
        self.inputs.push(k);
        k
    }

    fn add(&mut self, operator: &'static str, inputs: &[i32], options: &[(u16, Field)], output: Tensor) -> i32 {
        let k = self.tensor(output);
        self.operators.push((operator, inputs.to_vec(), vec![k], options.to_vec()));
        k
    }

    /// The bytes of the model, with one output.
    fn bytes(&mut self, output: i32) -> Vec<u8> {
        self.outputs = vec![output];
        self.write()
    }

    fn write(&self) -> Vec<u8> {
        let b = &mut FlatBufferBuilder::new();
        let (mut buffers, mut tensors) = (Vec::new(), Vec::new());
        for (k, tensor) in self.tensors.iter().enumerate() {
            let data = (!tensor.data.is_empty()).then(|| b.create_vector(&tensor.data));
            let start = b.start_table();
            if let Some(data) = data {
                b.push_slot_always(4, data);
            }
            buffers.push(b.end_table(start));
            let quantization = (!tensor.scale.is_empty()).then(|| {
                let (scale, zero) = (b.create_vector(&tensor.scale), b.create_vector(&tensor.zero));
                let start = b.start_table();
                b.push_slot_always(8, scale);
                b.push_slot_always(10, zero);
                b.push_slot_always(16, tensor.axis);
                b.end_table(start)
            });
            let sparsity = tensor.sparse.as_ref().map(|(order, blocks, levels)| {
                let levels: Vec<_> = levels.iter().map(|kind| level(b, kind)).collect();
                let (order, blocks, levels) = (b.create_vector(order), b.create_vector(blocks), tables(b, &levels));
                let start = b.start_table();
                b.push_slot_always(4, order);
                b.push_slot_always(6, blocks);
                b.push_slot_always(8, levels);
                b.end_table(start)
            });
            let (name, shape) = (b.create_string(&format!("t{k}")), b.create_vector(&tensor.shape));
            let start = b.start_table();
            b.push_slot_always(4, shape);
            b.push_slot_always(6, tensor.kind);
            b.push_slot_always(8, k as u32);
            b.push_slot_always(10, name);
            if let Some(table) = quantization {
                b.push_slot_always(12, table);
            }
            if let Some(table) = sparsity {
                b.push_slot_always(16, table);
            }
            tensors.push(b.end_table(start));
        }
        let (mut codes, mut operators) = (Vec::new(), Vec::new());
        for (k, (operator, inputs, outputs, options)) in self.operators.iter().enumerate() {
            let code = (0..256).find(|&code| operators::name(code) == Some(*operator));
            let name = code.is_none().then(|| b.create_string(operator));
            let start = b.start_table();
            if let Some(name) = name {
                b.push_slot_always(6, name);
            }
            b.push_slot_always(4, code.unwrap_or(32).min(127) as i8);
            b.push_slot_always(10, code.unwrap_or(32));
            codes.push(b.end_table(start));
            let (inputs, outputs) = (b.create_vector(inputs), b.create_vector(outputs));
            let lists = (*operator == "RESHAPE" || *operator == "SQUEEZE").then(|| {
                let list: Vec<i32> =
                    options.iter().filter_map(|o| if let Int(i) = o.1 { Some(i) } else { None }).collect();
                b.create_vector(&list)
            });
            let texts: Vec<_> = options
                .iter()
                .filter_map(|o| if let Text(text) = o.1 { Some((o.0, b.create_string(text))) } else { None })
                .collect();
            let start = b.start_table();
            for (slot, text) in texts {
                b.push_slot_always(4 + 2 * slot, text);
            }
            match lists {
                Some(list) => b.push_slot_always(4, list),
                None => options.iter().for_each(|&(slot, value)| match value {
                    Text(_) => {}
                    Byte(value) => b.push_slot_always(4 + 2 * slot, value),
                    Int(value) => b.push_slot_always(4 + 2 * slot, value),
                    Float(value) => b.push_slot_always(4 + 2 * slot, value),
                }),
            }
            let options = b.end_table(start);
            let custom = b.create_vector(&self.custom);
            let start = b.start_table();
            b.push_slot_always(4, k as u32);
            b.push_slot_always(6, inputs);
            b.push_slot_always(8, outputs);
            b.push_slot_always(12, options);
            b.push_slot_always(14, custom);
            operators.push(b.end_table(start));
        }
        let (tensors, operators) = (tables(b, &tensors), tables(b, &operators));
        let (inputs, outputs) = (b.create_vector(&self.inputs), b.create_vector(&self.outputs));
        let start = b.start_table();
        b.push_slot_always(4, tensors);
        b.push_slot_always(6, inputs);
        b.push_slot_always(8, outputs);
        b.push_slot_always(10, operators);
        let graph = b.end_table(start);
        let (codes, graphs, buffers) = (tables(b, &codes), tables(b, &[graph]), tables(b, &buffers));
        let start = b.start_table();
        b.push_slot_always(4, 3u32);
        b.push_slot_always(6, codes);
        b.push_slot_always(8, graphs);
        b.push_slot_always(12, buffers);
        let model = b.end_table(start);
        b.finish(model, Some("TFL3"));
        b.finished_data().to_vec()
    }
}

type Tables<'a> = WIPOffset<flatbuffers::Vector<'a, flatbuffers::ForwardsUOffset<TableFinishedWIPOffset>>>;

fn tables<'a>(b: &mut FlatBufferBuilder<'a>, list: &[WIPOffset<TableFinishedWIPOffset>]) -> Tables<'a> {
    b.create_vector(list)
}

fn level(b: &mut FlatBufferBuilder<'_>, kind: &Level) -> WIPOffset<TableFinishedWIPOffset> {
    let lists = kind.as_ref().err().map(|(segments, indices)| {
        let mut numbers = |list: &[i32]| {
            let list = b.create_vector(list);
            let start = b.start_table();
            b.push_slot_always(4, list);
            b.end_table(start)
        };
        (numbers(segments), numbers(indices))
    });
    let start = b.start_table();
    b.push_slot_always(4, i8::from(lists.is_some()));
    b.push_slot_always(6, kind.as_ref().copied().unwrap_or(0));
    if let Some((segments, indices)) = lists {
        b.push_slot_always(8, 1i8);
        b.push_slot_always(10, segments);
        b.push_slot_always(12, 1i8);
        b.push_slot_always(14, indices);
    }
    b.end_table(start)
}

fn read(bytes: &[u8]) -> Result<Graph, Failure> {
    super::read(bytes, &Options::default())
}

fn graph(bytes: &[u8]) -> Graph {
    read(bytes).expect("the model is read")
}

/// A variable is an input with the value before a run, and an output with the one after it. What is read after an assignment is the new
/// value, by any handle of that name.
#[test]
fn variables_are_inputs_and_outputs() {
    let mut model = Model::default();
    let x = model.input(real(&[1, 2]));
    let handle = |model: &mut Model, name| model.add("VAR_HANDLE", &[], &[(1, Text(name))], real(&[]));
    let [state, other, same] = ["state", "other", "state"].map(|name| handle(&mut model, name));
    let before = model.add("READ_VARIABLE", &[state], &[], real(&[1, 2]));
    let sum = model.add("ADD", &[x, before], &[], real(&[1, 2]));
    model.operators.push(("ASSIGN_VARIABLE", vec![state, sum], vec![], vec![]));
    let after = model.add("READ_VARIABLE", &[same], &[], real(&[1, 2]));
    let constant = model.add("READ_VARIABLE", &[other], &[], real(&[1, 2]));
    let product = model.add("MUL", &[after, x], &[], real(&[1, 2]));
    let y = model.add("SUB", &[product, constant], &[], real(&[1, 2]));
    let graph = graph(&model.bytes(y));
    let names = |ids: &[crate::ir::TensorId]| ids.iter().map(|&id| graph.tensor(id).name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&graph.inputs), ["t0", "state", "other"]);
    assert_eq!(names(&graph.outputs)[1..], ["state next"]);
    let values = [vec![1.0, 2.0], vec![3.0, 4.0], vec![0.5, 0.25]];
    let outputs = float::run(&graph, &values, &mut |_, _| {}).unwrap();
    assert_eq!(outputs, [vec![3.5, 11.75], vec![4.0, 6.0]]);
    let unknown = model.add("READ_VARIABLE", &[x], &[], real(&[1, 2]));
    let error = read(&model.bytes(unknown)).unwrap_err().to_string();
    assert!(error.contains("READ_VARIABLE has no variable"), "{error}");
}

/// The values of the only output, for one input; both in TFLite's order.
fn run(bytes: &[u8], input: &[f32]) -> Vec<f32> {
    let graph = graph(bytes);
    let mut simple = graph.clone();
    crate::simplify::simplify(&mut simple);
    let outputs = |graph: &Graph| float::run(graph, &[input.to_vec()], &mut |_, _| {}).unwrap().remove(0);
    let values = outputs(&graph);
    let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4 * (1.0 + a.abs());
    assert!(values.iter().zip(&outputs(&simple)).all(close), "simplification changes the values");
    values
}

fn reason(bytes: &[u8]) -> String {
    read(bytes).expect_err("the model is refused").to_string()
}

/// Numbers that differ, from -1 to 1.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|k| ((k * 37 + 11) % 64) as f32 / 32.0 - 1.0).collect()
}

fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (k, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "element {k} is {a}, not {b}");
    }
}

/// A convolution of `[H, W, C]` with `[K, R, S, C]` and padding before the lines and columns.
struct Loops {
    size: [usize; 3],
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    before: [usize; 2],
    output: [usize; 3],
}

impl Loops {
    /// `weight` returns a weight of a kernel, line, column and channel.
    fn run(&self, x: &[f32], weight: impl Fn(usize, usize, usize, usize) -> f32, bias: &[f32]) -> Vec<f32> {
        let ([height, width, channels], [rows, columns, kernels]) = (self.size, self.output);
        let mut out = Vec::new();
        for (y, column) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
            for (k, &bias) in bias.iter().enumerate().take(kernels) {
                let mut sum = bias;
                for (r, s) in (0..self.kernel[0]).flat_map(|r| (0..self.kernel[1]).map(move |s| (r, s))) {
                    let line = (y * self.stride[0] + r * self.dilation[0]).wrapping_sub(self.before[0]);
                    let at = (column * self.stride[1] + s * self.dilation[1]).wrapping_sub(self.before[1]);
                    if line < height && at < width {
                        for c in 0..channels {
                            sum += x[(line * width + at) * channels + c] * weight(k, r, s, c);
                        }
                    }
                }
                out.push(sum);
            }
        }
        out
    }
}

/// Conv2DOptions: SAME padding, strides of width and height, activation.
fn conv_options(stride: [i32; 2], activation: i8) -> Vec<(u16, Field)> {
    vec![(0, Byte(0)), (1, Int(stride[1])), (2, Int(stride[0])), (3, Byte(activation)), (4, Int(1)), (5, Int(1))]
}

#[test]
fn convolutions_read_channels_last() {
    let (x, w, bias) = (numbers(7 * 6 * 3), numbers(5 * 3 * 2 * 3), numbers(5));
    let mut model = Model::default();
    let input = model.input(real(&[1, 7, 6, 3]));
    let operands = [input, model.tensor(reals(&[5, 3, 2, 3], &w)), model.tensor(reals(&[5], &bias))];
    let output = model.add("CONV_2D", &operands, &conv_options([2, 1], 3), real(&[1, 4, 6, 5]));
    let loops =
        Loops { size: [7, 6, 3], kernel: [3, 2], stride: [2, 1], dilation: [1, 1], before: [1, 0], output: [4, 6, 5] };
    let sums = loops.run(&x, |k, r, s, c| w[((k * 3 + r) * 2 + s) * 3 + c], &bias);
    let expected: Vec<f32> = sums.iter().map(|sum| sum.clamp(0.0, 6.0)).collect();
    assert_close(&run(&model.bytes(output), &x), &expected);
}

#[test]
fn depthwise_kernels_follow_their_channel() {
    // Two kernels per channel.
    let (x, w) = (numbers(5 * 5 * 3), numbers(3 * 3 * 6));
    let mut model = Model::default();
    let input = model.input(real(&[1, 5, 5, 3]));
    let operands = [input, model.tensor(reals(&[1, 3, 3, 6], &w))];
    let options = [(0, Byte(0)), (1, Int(2)), (2, Int(2)), (3, Int(2)), (4, Byte(0)), (5, Int(1)), (6, Int(1))];
    let output = model.add("DEPTHWISE_CONV_2D", &operands, &options, real(&[1, 3, 3, 6]));
    let loops =
        Loops { size: [5, 5, 3], kernel: [3, 3], stride: [2, 2], dilation: [1, 1], before: [1, 1], output: [3, 3, 6] };
    let weight = |k: usize, r: usize, s: usize, c: usize| if k / 2 == c { w[(r * 3 + s) * 6 + k] } else { 0.0 };
    assert_close(&run(&model.bytes(output), &x), &loops.run(&x, weight, &[0.0; 6]));
}

#[test]
fn pixels_divided_around_a_convolution_are_its_dilation() {
    let (x, w) = (numbers(6 * 6 * 2), numbers(2 * 3 * 3 * 2));
    let mut model = Model::default();
    let input = model.input(real(&[1, 6, 6, 2]));
    let (block, pads, crops) = (ints(&[2, 2]), ints(&[2, 2, 2, 2]), ints(&[0, 0, 0, 0]));
    let (block, mut pads, mut crops) = (model.tensor(block), pads, crops);
    (pads.shape, crops.shape) = (vec![2, 2], vec![2, 2]);
    let (pads, crops) = (model.tensor(pads), model.tensor(crops));
    let divided = model.add("SPACE_TO_BATCH_ND", &[input, block, pads], &[], real(&[4, 5, 5, 2]));
    let weights = model.tensor(reals(&[2, 3, 3, 2], &w));
    let options = [(0, Byte(1)), (1, Int(1)), (2, Int(1)), (3, Byte(1)), (4, Int(1)), (5, Int(1))];
    let conv = model.add("CONV_2D", &[divided, weights], &options, real(&[4, 3, 3, 2]));
    let output = model.add("BATCH_TO_SPACE_ND", &[conv, block, crops], &[], real(&[1, 6, 6, 2]));
    let loops =
        Loops { size: [6, 6, 2], kernel: [3, 3], stride: [1, 1], dilation: [2, 2], before: [2, 2], output: [6, 6, 2] };
    let sums = loops.run(&x, |k, r, s, c| w[((k * 3 + r) * 3 + s) * 2 + c], &[0.0; 2]);
    let expected: Vec<f32> = sums.iter().map(|sum| sum.max(0.0)).collect();
    assert_close(&run(&model.bytes(output), &x), &expected);
}

#[test]
fn deconvolutions_of_tflite_and_mediapipe() {
    let (x, w, bias) = (numbers(4 * 4 * 2), numbers(5 * 3 * 3 * 2), numbers(5));
    let mut model = Model::default();
    let input = model.input(real(&[1, 4, 4, 2]));
    let (weights, biases) = (model.tensor(reals(&[5, 3, 3, 2], &w)), model.tensor(reals(&[5], &bias)));
    let size = model.tensor(ints(&[1, 8, 8, 5]));
    let options = [(0, Byte(0)), (1, Int(2)), (2, Int(2)), (3, Byte(0))];
    let output = model.add("TRANSPOSE_CONV", &[size, weights, input, biases], &options, real(&[1, 8, 8, 5]));
    let found = run(&model.bytes(output), &x);
    // Each input adds its kernel to the output; SAME padding cuts one line at the end.
    let mut expected: Vec<f32> = (0..8 * 8).flat_map(|_| bias.clone()).collect();
    for (y, column) in (0..4).flat_map(|y| (0..4).map(move |x| (y, x))) {
        for (r, s, k, c) in (0..3 * 3 * 5 * 2).map(|at| (at / 30, at / 10 % 3, at / 2 % 5, at % 2)) {
            let (line, at) = (2 * y + r, 2 * column + s);
            if line < 8 && at < 8 {
                expected[(line * 8 + at) * 5 + k] += x[(y * 4 + column) * 2 + c] * w[((k * 3 + r) * 3 + s) * 2 + c];
            }
        }
    }
    assert_close(&found, &expected);

    model.operators.clear();
    model.custom = [1, 2, 2].iter().flat_map(|number: &u32| number.to_le_bytes()).collect();
    let own = model.add("Convolution2DTransposeBias", &[input, weights, biases], &[], real(&[1, 8, 8, 5]));
    assert_close(&run(&model.bytes(own), &x), &expected);
    model.custom.pop();
    assert!(reason(&model.bytes(own)).contains("11 bytes"));
}

#[test]
fn moves_keep_tflites_order() {
    let x = numbers(4 * 6 * 8);
    // A head's reshape divides the channels.
    let mut model = Model::default();
    let input = model.input(real(&[1, 4, 6, 8]));
    let halves = model.add("RESHAPE", &[input], &[(0, Int(1)), (0, Int(48)), (0, Int(-1))], real(&[1, 48, 4]));
    let twice = model.add("CONCATENATION", &[halves, halves], &[(0, Int(1))], real(&[1, 96, 4]));
    assert_eq!(run(&model.bytes(twice), &x), [x.clone(), x.clone()].concat());
    // Pixels that are joined keep the channels in front: nothing is moved.
    let mut model = Model::default();
    let input = model.input(real(&[1, 4, 6, 8]));
    let conv = model.tensor(reals(&[8, 1, 1, 8], &numbers(64)));
    let conv = model.add("CONV_2D", &[input, conv], &conv_options([1, 1], 0), real(&[1, 4, 6, 8]));
    let joined = model.add("RESHAPE", &[conv], &[(0, Int(1)), (0, Int(24)), (0, Int(8))], real(&[1, 24, 8]));
    let size = model.tensor(ints(&[1, 1, 24, 8]));
    let lines = model.add("RESHAPE", &[joined, size], &[], real(&[1, 1, 24, 8]));
    let again = model.tensor(reals(&[3, 1, 1, 8], &numbers(24)));
    let output = model.add("CONV_2D", &[lines, again], &conv_options([1, 1], 0), real(&[1, 1, 24, 3]));
    let mut graph = graph(&model.bytes(output));
    crate::simplify::simplify(&mut graph);
    let reshaped = crate::simplify::outer_moves(&mut graph);
    assert!(graph.nodes.iter().all(|node| !matches!(node.op, Op::Transpose { .. })), "{graph:?}");
    assert_eq!(reshaped.iter().filter(|change| change.channels_last).count(), 2);
    // A transposition, and slices with masks.
    let mut model = Model::default();
    let input = model.input(real(&[1, 4, 6, 8]));
    let perm = model.tensor(ints(&[0, 2, 1, 3]));
    let turned = model.add("TRANSPOSE", &[input, perm], &[], real(&[1, 6, 4, 8]));
    let lists = [[0, 1, 0, -1], [0, 0, 3, 0], [1, 2, 1, -3]].map(|list| model.tensor(ints(&list)));
    let masks = [(0, Int(0)), (1, Int(0b11)), (2, Int(0)), (3, Int(0)), (4, Int(0))];
    let slice = model.add("STRIDED_SLICE", &[turned, lists[0], lists[1], lists[2]], &masks, real(&[1, 3, 3, 3]));
    let mut expected = Vec::new();
    for (w, h, c) in [1, 3, 5].iter().flat_map(|w| (0..3).flat_map(move |h| [7, 4, 1].map(|c| (w, h, c)))) {
        expected.push(x[(h * 6 + w) * 8 + c]);
    }
    assert_eq!(run(&model.bytes(slice), &x), expected);
}

#[test]
fn pads_slices_and_elements_have_their_axes() {
    let x = numbers(2 * 3 * 4);
    let mut model = Model::default();
    let input = model.input(real(&[1, 2, 3, 4]));
    let mut pads = ints(&[0, 0, 0, 1, 1, 0, 0, 2]);
    pads.shape = vec![4, 2];
    let pads = model.tensor(pads);
    let padded = model.add("PAD", &[input, pads], &[], real(&[1, 3, 4, 6]));
    let offsets = model.tensor(reals(&[6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let sum = model.add("ADD", &[padded, offsets], &[(0, Byte(1))], real(&[1, 3, 4, 6]));
    let axes = model.tensor(ints(&[2]));
    let mean = model.add("MEAN", &[sum, axes], &[(0, Byte(0))], real(&[1, 3, 6]));
    let mut expected = Vec::new();
    for (h, c) in (0..3).flat_map(|h| (0..6).map(move |c| (h, c))) {
        let inside = |w: usize| if h < 2 && w > 0 && c < 4 { x[(h * 3 + w - 1) * 4 + c] } else { 0.0 };
        expected.push((0..4).map(|w| (inside(w) + (c + 1) as f32).max(0.0)).sum::<f32>() / 4.0);
    }
    assert_close(&run(&model.bytes(mean), &x), &expected);
    // SHAPE, STRIDED_SLICE and PACK of constants, as converters write flattenings.
    let mut model = Model::default();
    let input = model.input(real(&[1, 2, 3, 4]));
    let shape = model.add("SHAPE", &[input], &[], Tensor { kind: INT32, ..real(&[4]) });
    let lists = [[0], [1], [1]].map(|list| model.tensor(ints(&list)));
    let masks = [(0, Int(0)), (1, Int(0)), (2, Int(0)), (3, Int(0)), (4, Int(1))];
    let batch =
        model.add("STRIDED_SLICE", &[shape, lists[0], lists[1], lists[2]], &masks, Tensor { kind: INT32, ..real(&[]) });
    let mut rest = ints(&[-1]);
    rest.shape.clear();
    let rest = model.tensor(rest);
    let to = model.add("PACK", &[batch, rest], &[(0, Int(2)), (1, Int(0))], Tensor { kind: INT32, ..real(&[2]) });
    let flat = model.add("RESHAPE", &[input, to], &[], real(&[1, 24]));
    assert_eq!(run(&model.bytes(flat), &x), x);
}

#[test]
fn products_flatten_in_tflites_order() {
    let (x, w, bias) = (numbers(2 * 3 * 4), numbers(5 * 24), numbers(5));
    let mut model = Model::default();
    let input = model.input(real(&[1, 2, 3, 4]));
    let operands = [input, model.tensor(reals(&[5, 24], &w)), model.tensor(reals(&[5], &bias))];
    let output = model.add("FULLY_CONNECTED", &operands, &[(0, Byte(1)), (2, Byte(0))], real(&[1, 5]));
    let sum = |k: usize| (bias[k] + (0..24).map(|c| w[k * 24 + c] * x[c]).sum::<f32>()).max(0.0);
    assert_close(&run(&model.bytes(output), &x), &(0..5).map(sum).collect::<Vec<_>>());
    // With kept dimensions, each line is multiplied.
    let mut model = Model::default();
    let input = model.input(real(&[1, 6, 4]));
    let operands = [input, model.tensor(reals(&[5, 4], &w[..20]))];
    let output = model.add("FULLY_CONNECTED", &operands, &[(0, Byte(0)), (2, Byte(1))], real(&[1, 6, 5]));
    let sum = |at: usize| (0..4).map(|c| w[at % 5 * 4 + c] * x[at / 5 * 4 + c]).sum::<f32>();
    assert_close(&run(&model.bytes(output), &x), &(0..30).map(sum).collect::<Vec<_>>());
}

/// Either matrix may be transposed, and channels are last.
#[test]
fn products_of_two_tensors_keep_tflites_order() {
    let x = numbers(2 * 3 * 4);
    let expected = |sum: &dyn Fn(usize, usize, usize) -> f32, [rows, columns]: [usize; 2]| -> Vec<f32> {
        let places = (0..2).flat_map(|n| (0..rows).flat_map(move |y| (0..columns).map(move |x| (n, y, x))));
        places.map(|(n, y, x)| sum(n, y, x)).collect()
    };
    let at = |n: usize, h: usize, c: usize| x[(n * 3 + h) * 4 + c];
    for turned in [[false, true], [true, false]] {
        let mut model = Model::default();
        let input = model.input(real(&[1, 2, 3, 4]));
        let options = [0, 1].map(|k| (k, Byte(i8::from(turned[usize::from(k)]))));
        let size = if turned[0] { 4 } else { 3 };
        let output = model.add("BATCH_MATMUL", &[input, input], &options, real(&[1, 2, size, size]));
        let size = size as usize;
        let found = run(&model.bytes(output), &x);
        let lines = |n: usize, y: usize, x: usize| (0..4).map(|c| at(n, y, c) * at(n, x, c)).sum();
        let columns = |n: usize, y: usize, x: usize| (0..3).map(|h| at(n, h, y) * at(n, h, x)).sum();
        assert_close(&found, &expected(if turned[0] { &columns } else { &lines }, [size; 2]));
    }
}

#[test]
fn integers_have_their_scales_and_limits() {
    let mut model = Model::default();
    let input = model.input(scaled(&[1, 1, 1, 2], UINT8, &[0.5], 128));
    let mut weights = scaled(&[2, 1, 1, 2], INT8, &[0.25, 0.125], 0);
    weights.data = [100i8, -50, 3, 127].map(|value| value as u8).to_vec();
    let mut bias = ints(&[40, -8]);
    (bias.scale, bias.zero) = (vec![0.125, 0.0625], vec![0, 0]);
    let operands = [input, model.tensor(weights), model.tensor(bias)];
    let conv = model.add("CONV_2D", &operands, &conv_options([1, 1], 1), scaled(&[1, 1, 1, 2], INT8, &[0.5], -128));
    let graph = graph(&model.bytes(conv));
    let limit = graph.nodes.iter().find(|node| node.output == graph.outputs[0] || matches!(node.op, Op::Unary(_)));
    assert!(matches!(limit.map(|node| &node.op), Some(&Op::Unary(crate::ir::Unary::Clip(0.0, 127.5)))), "{graph:?}");
    // 10.3 is rounded to 10.5, and -3.1 to -3.
    let found = run(&model.bytes(conv), &[10.3, -3.1]);
    let exact: [f32; 2] = [10.5 * 25.0 + 3.0 * 12.5 + 5.0, 10.5 * 0.375 - 3.0 * 15.875 - 0.5];
    assert_eq!(found, [exact[0].clamp(0.0, 127.5), exact[1].clamp(0.0, 127.5)]);
    // The same scale is no step, and another is one.
    let mut model = Model::default();
    let input = model.input(scaled(&[1, 4], UINT8, &[0.5], 128));
    let same = model.add("QUANTIZE", &[input], &[], scaled(&[1, 4], INT8, &[0.5], 0));
    let other = model.add("QUANTIZE", &[same], &[], scaled(&[1, 4], INT8, &[2.0], 0));
    assert_eq!(run(&model.bytes(other), &[7.0, 4.0, -64.0, 0.5]), [8.0, 4.0, -64.0, 0.0]);
    assert_eq!(read(&model.bytes(other)).unwrap().nodes.len(), 1);
}

#[test]
fn constants_of_all_types() {
    let halves = |values: &[f32]| values.iter().flat_map(|&value| half::f16::from_f32(value).to_le_bytes()).collect();
    let half = Tensor { shape: vec![3], kind: FLOAT16, data: halves(&[0.5, -2.0, 4.0]), ..Tensor::default() };
    let int4 = Tensor { data: vec![0x8f, 0x07], ..scaled(&[3], 17, &[2.0], 0) };
    let mut sparse = reals(&[2, 4], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    // The columns in blocks of two: line 0 has the second block, line 1 both.
    let levels = vec![Ok(2), Err((vec![0, 1, 3], vec![1, 0, 1])), Ok(2)];
    sparse.sparse = Some((vec![0, 1, 2], vec![1], levels));
    for (tensor, operator, expected) in [
        (half, "DEQUANTIZE", vec![0.5, -2.0, 4.0]),
        (int4, "DEQUANTIZE", vec![-2.0, -16.0, 14.0]),
        (sparse, "DENSIFY", vec![0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ] {
        let mut model = Model::default();
        let shape = tensor.shape.clone();
        let input = model.input(real(&shape));
        let constant = model.tensor(tensor);
        let constant = model.add(operator, &[constant], &[], real(&shape));
        let sum = model.add("ADD", &[input, constant], &[(0, Byte(0))], real(&shape));
        assert_eq!(run(&model.bytes(sum), &vec![0.0; expected.len()]), expected);
    }
}

#[test]
fn poolings_and_resizes() {
    let x = numbers(3 * 3 * 2);
    let mut model = Model::default();
    let input = model.input(real(&[1, 3, 3, 2]));
    let options = [(0, Byte(0)), (1, Int(2)), (2, Int(2)), (3, Int(2)), (4, Int(2)), (5, Byte(0))];
    let pool = model.add("AVERAGE_POOL_2D", &[input], &options, real(&[1, 2, 2, 2]));
    let at = |h: usize, w: usize, c: usize| x[(h * 3 + w) * 2 + c];
    let mut expected = Vec::new();
    for (h, w, c) in (0..8).map(|at| (at / 4 * 2, at / 2 % 2 * 2, at % 2)) {
        // Windows of the last line and column have only the elements inside.
        let inside: Vec<f32> =
            (h..3.min(h + 2)).flat_map(|h| (w..3.min(w + 2)).map(move |w| (h, w))).map(|(h, w)| at(h, w, c)).collect();
        expected.push(inside.iter().sum::<f32>() / inside.len() as f32);
    }
    assert_close(&run(&model.bytes(pool), &x), &expected);
    // Half-pixel centres: the pixel that has the output pixel's middle.
    let size = model.tensor(ints(&[2, 2]));
    let options = [(0, Byte(0)), (1, Byte(1))];
    let nearest = model.add("RESIZE_NEAREST_NEIGHBOR", &[input, size], &options, real(&[1, 2, 2, 2]));
    let expected: Vec<f32> = (0..8).map(|k| at([0, 2][k / 4], [0, 2][k / 2 % 2], k % 2)).collect();
    assert_close(&run(&model.bytes(nearest), &x), &expected);
}

#[test]
fn functions_have_their_parameters() {
    let x = [-2.0, -0.5, 0.0, 1.0];
    let mut model = Model::default();
    let input = model.input(real(&[1, 1, 2, 2]));
    let leaky = model.add("LEAKY_RELU", &[input], &[(0, Float(0.5))], real(&[1, 1, 2, 2]));
    assert_close(&run(&model.bytes(leaky), &x), &[-1.0, -0.25, 0.0, 1.0]);
    let mut slopes = reals(&[2], &[0.25, -1.0]);
    slopes.shape = vec![1, 1, 2];
    let slopes = model.tensor(slopes);
    let slopes = model.add("PRELU", &[input, slopes], &[], real(&[1, 1, 2, 2]));
    assert_close(&run(&model.bytes(slopes), &x), &[-0.5, 0.5, 0.0, 1.0]);
    // Along the channels, which are last.
    let softmax = model.add("SOFTMAX", &[input], &[(0, Float(2.0))], real(&[1, 1, 2, 2]));
    let share = |a: f32, b: f32| (2.0 * a).exp() / ((2.0 * a).exp() + (2.0 * b).exp());
    let expected = [share(-2.0, -0.5), share(-0.5, -2.0), share(0.0, 1.0), share(1.0, 0.0)];
    assert_close(&run(&model.bytes(softmax), &x), &expected);
}

/// Comparisons with a constant, per element and per channel, and what they choose.
#[test]
fn comparisons_choose() {
    const BOOL: i8 = 6;
    let x = numbers(2 * 3 * 2);
    type Holds = fn(f32, f32) -> bool;
    let comparisons: [(&str, Holds); 6] = [
        ("GREATER", |a, b| a > b),
        ("GREATER_EQUAL", |a, b| a >= b),
        ("LESS", |a, b| a < b),
        ("LESS_EQUAL", |a, b| a <= b),
        ("EQUAL", |a, b| a.to_bits() == b.to_bits()),
        ("NOT_EQUAL", |a, b| a.to_bits() != b.to_bits()),
    ];
    for (operator, holds) in comparisons {
        for select in ["SELECT", "SELECT_V2"] {
            let mut model = Model::default();
            let shape = [1, 2, 3, 2];
            let input = model.input(real(&shape));
            let limit = model.tensor(reals(&[1], &[x[5]]));
            let mask = model.add(operator, &[input, limit], &[], Tensor { kind: BOOL, ..real(&shape) });
            let not = model.add("LOGICAL_NOT", &[mask], &[], Tensor { kind: BOOL, ..real(&shape) });
            let other = model.add("ABS", &[input], &[], real(&shape));
            let values = model.tensor(reals(&[2], &[3.0, -4.0]));
            let twice = model.add("MUL", &[input, values], &[(0, Byte(0))], real(&shape));
            let chosen = model.add(select, &[not, other, twice], &[], real(&shape));
            let of = |(k, &x): (usize, &f32), limit| if holds(x, limit) { x * [3.0, -4.0][k % 2] } else { x.abs() };
            let expected: Vec<f32> = x.iter().enumerate().map(|x_k| of(x_k, x[5])).collect();
            assert_close(&run(&model.bytes(chosen), &x), &expected);
        }
    }
}

#[test]
fn refusals_name_the_operators() {
    let mut model = Model::default();
    let input = model.input(real(&[1, 4]));
    let relu = model.add("RELU", &[input], &[], real(&[1, 4]));
    let lstm = model.add("LSTM", &[relu], &[], real(&[1, 4]));
    let custom = model.add("Custom thing", &[lstm], &[], real(&[1, 4]));
    let text = reason(&model.bytes(custom));
    assert!(text.contains("2 nodes") && text.contains("LSTM of 1x4") && text.contains("Custom thing"), "{text}");
    assert!(text.contains("outputs: t1"), "{text}");
    let named = super::read(&model.bytes(custom), &Options { outputs: vec!["t1".to_owned()], ..Options::default() });
    assert_eq!(named.unwrap().nodes.len(), 1);
    // Operators in a wrong order, and tensors that nobody computes.
    model.operators.swap(0, 1);
    assert!(reason(&model.bytes(custom)).contains("before it is computed"));
    model.operators.clear();
    assert!(reason(&model.bytes(custom)).contains("no operator computes the output"));
}

#[test]
fn changed_bytes_are_a_model_or_an_error() {
    let mut model = Model::default();
    let input = model.input(scaled(&[1, 5, 5, 2], INT8, &[0.5], 3));
    let mut weights = scaled(&[3, 3, 3, 2], INT8, &[0.25, 0.5, 1.0], 0);
    weights.data = (0..54).collect();
    let operands = [input, model.tensor(weights), model.tensor(ints(&[1, 2, 3]))];
    let conv = model.add("CONV_2D", &operands, &conv_options([1, 1], 1), scaled(&[1, 5, 5, 3], INT8, &[0.5], -128));
    let perm = model.tensor(ints(&[0, 3, 1, 2]));
    let output = model.add("TRANSPOSE", &[conv, perm], &[], scaled(&[1, 3, 5, 5], INT8, &[0.5], -128));
    let bytes = model.bytes(output);
    let check = |bytes: &[u8]| {
        if let Ok(mut graph) = read(bytes) {
            graph.check().unwrap();
            crate::simplify::simplify(&mut graph);
        }
    };
    (0..bytes.len()).for_each(|length| check(&bytes[..length]));
    for at in 0..bytes.len() {
        for value in [0, 0xff, bytes[at] ^ 4] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            check(&bytes);
        }
    }
}
