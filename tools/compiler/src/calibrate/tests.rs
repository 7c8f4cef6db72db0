// SPDX-License-Identifier: MIT OR Apache-2.0

// The scales are exact quotients.
#![allow(clippy::float_cmp)]

use crate::calibrate::*;
use crate::ir::{zero_point, Convolution, Padding, Quantization};

/// relu(x), followed by a softmax.
fn graph() -> Graph {
    let mut graph = Graph::new("test");
    let x = graph.input("x", &[1, 1000]).unwrap();
    let y = graph.add("relu", Op::Unary(Unary::Relu), &[x], "y").unwrap();
    let z = graph.add("softmax", Op::Softmax { axis: 1 }, &[y], "z").unwrap();
    graph.outputs.push(z);
    graph
}

/// Values around 0, and one outlier.
fn sample(outlier: f32) -> Vec<f32> {
    (0..999).map(|k| (k % 40) as f32 * 0.05 - 1.0).chain([outlier]).collect()
}

fn measured(method: Method) -> Ranges {
    measure(&graph(), [Ok(vec![sample(2.0)]), Ok(vec![sample(40.0)])], method).unwrap()
}

/// An input of a quantized model whose parts are joined and then rounded has the range of what is rounded.
#[test]
fn parts_that_are_joined_have_the_range_of_the_whole() {
    let mut graph = Graph::new("test");
    let x = graph.input("x", &[1, 4, 2, 2]).unwrap();
    let part = |start| Op::Slice { starts: vec![0, start, 0, 0], steps: vec![1; 4], lengths: vec![1, 2, 2, 2] };
    let a = graph.add("a", part(0), &[x], "a").unwrap();
    let b = graph.add("b", part(2), &[x], "b").unwrap();
    let joined = graph.add("joined", Op::Concat { axis: 1 }, &[b, a], "joined").unwrap();
    let last = graph.add("rounded", Op::Unary(Unary::Clip(-64.0, 63.5)), &[joined], "rounded").unwrap();
    let q = Quantization { scale: vec![0.5], zero_point: vec![0], axis: None, limits: (-128, 127) };
    graph.tensors[last.0].quantization = Some(q);
    graph.outputs.push(last);
    let ranges = complete(&graph, of_model(&graph), None);
    assert_eq!(ranges.get(x).unwrap().span, (-64.0, 63.5));
}

/// The mean that a quantized model subtracts in real numbers leaves the range of its input known.
#[test]
fn an_input_before_a_rounded_sum_has_its_range() {
    let mut graph = Graph::new("test");
    let x = graph.input("x", &[1, 2, 2, 2]).unwrap();
    let mean = graph.add_constant("mean", &[1, 2, 1, 1], vec![-100.0, -120.0]).unwrap();
    let y = graph.add("y", Op::Binary(crate::ir::Binary::Add), &[x, mean], "y").unwrap();
    let q = Quantization { scale: vec![1.0], zero_point: vec![-8], axis: None, limits: (-128, 127) };
    graph.tensors[y.0].quantization = Some(q);
    graph.outputs.push(y);
    // -120 to 135, plus 100 and plus 120.
    assert_eq!(complete(&graph, of_model(&graph), None).get(x).unwrap().span, (-20.0, 255.0));
}

/// The shares of many elements are far below 1, where the emulated softmax has half as many integers as a quantized model.
#[test]
fn samples_show_how_large_a_quantized_softmax_becomes() {
    let mut graph = Graph::new("test");
    let x = graph.input("x", &[1, 1000]).unwrap();
    let shares = graph.add("softmax", Op::Softmax { axis: 1 }, &[x], "shares").unwrap();
    let rounded = graph.add("rounded", Op::Unary(Unary::Clip(0.0, 255.0 / 256.0)), &[shares], "rounded").unwrap();
    let q = Quantization { scale: vec![1.0 / 256.0], zero_point: vec![-128], axis: None, limits: (-128, 127) };
    graph.tensors[rounded.0].quantization = Some(q);
    let y = graph.add("y", Op::Binary(crate::ir::Binary::Mul), &[x, rounded], "y").unwrap();
    graph.outputs.push(y);
    let samples = [Ok(vec![sample(2.0)])];
    let measured = measure(&graph, samples, Method::Max).unwrap();
    let scale = |measured: Option<&Ranges>, id| complete(&graph, of_model(&graph), measured).get(id).unwrap().scale;
    for id in [shares, rounded] {
        // The model rounds 1.6 of its steps to 2.
        let own = measured.get(shares).unwrap().scale;
        assert!((own..1.25 * own).contains(&scale(Some(&measured), id)));
        assert!(scale(Some(&measured), id) < 0.01 * scale(None, id));
    }
}

/// A minimum or maximum with a constant beyond a quantized tensor's values is the constant, and the range has it.
#[test]
fn limits_beyond_a_quantized_tensor_have_their_own_range() {
    let limits = [(f32::NEG_INFINITY, -2.0), (f32::NEG_INFINITY, -1.0), (1.0, f32::INFINITY), (3.0, f32::INFINITY)];
    for (low, high) in limits {
        let mut graph = Graph::new("test");
        let x = graph.input("x", &[1, 4]).unwrap();
        let q = Quantization { scale: vec![1.0 / 128.0], zero_point: vec![0], axis: None, limits: (-128, 127) };
        graph.tensors[x.0].quantization = Some(q);
        let y = graph.add("y", Op::Unary(Unary::Clip(low, high)), &[x], "y").unwrap();
        graph.outputs.push(y);
        let (least, most) = complete(&graph, of_model(&graph), None).get(y).unwrap().span;
        let only = if low.is_finite() { low } else { high };
        assert!(least <= only && only <= most, "{only}: {least} to {most}");
    }
}

#[test]
fn the_largest_value_is_127() {
    let ranges = measured(Method::Max);
    let x = ranges.get(TensorId(0)).unwrap();
    assert_eq!((x.min, x.max, x.scale), (-1.0, 40.0, 40.0 / 127.0));
    assert_eq!(ranges.get(TensorId(1)).unwrap().min, 0.0);
}

#[test]
fn other_methods_let_an_outlier_saturate() {
    for method in [Method::Percentile(99.9), Method::Entropy] {
        let scale = measured(method).get(TensorId(0)).unwrap().scale * 127.0;
        assert!((0.9..20.0).contains(&scale), "{method:?}: {scale}");
    }
    // One of 2000 values is an outlier, and counts by the square of its distance.
    let scale = measured(Method::Mse).get(TensorId(0)).unwrap().scale * 127.0;
    assert!((20.0..=40.0).contains(&scale), "{scale}");
}

#[test]
fn the_least_square_error_is_least() {
    // Nearly all values are small. Saturating the few large ones pays only if they are few enough.
    let values: Vec<f32> =
        (0..200_000).map(|k| ((k % 1000) as f32 / 500.0 - 1.0).powi(5) * 3.0).chain([30.0]).collect();
    let mut histogram = Histogram::of_tensor(true);
    histogram.add(&values, &[Summary::of(&values)]);
    let error = |scale: f32| -> f64 {
        let square = |x: &f32| f64::from((x / scale).round().clamp(-128.0, 127.0) * scale - x).powi(2);
        values.iter().map(square).sum()
    };
    let chosen = error(histogram.range(Method::Mse).scale);
    for threshold in [2.0, 3.0, 4.0, 8.0, 16.0, 24.0, 30.0] {
        assert!(
            chosen <= error(threshold / 127.0) * 1.01,
            "{chosen}, with a threshold of {threshold} {}",
            error(threshold / 127.0)
        );
    }
}

#[test]
fn samples_with_far_larger_values_are_named() {
    let mut graph = Graph::new("test");
    let x = graph.input("x", &[1, 1, 10, 100]).unwrap();
    let weights = graph.add_constant("weights", &[1, 1, 1, 1], vec![2.0]).unwrap();
    let op = Convolution { group: 1, kernel: [1; 2], stride: [1; 2], dilation: [1; 2], padding: Padding::default() };
    let y = graph.add("y", Op::Convolution(op), &[x, weights], "y").unwrap();
    graph.outputs.push(y);
    let files = ["a.npy", "b.npy", "c.npy", "d.npy", "e.npy"].map(Path::new);
    let told = |largest: [f32; 5]| {
        let samples = largest.map(|largest| Ok(vec![sample(largest)]));
        Measured::new(&graph, samples).unwrap().uncommon(&graph).map(|found| found.text(&graph, &files))
    };
    assert_eq!(told([2.0, 3.0, 15.0, 2.0, 4.0]), None);
    let text = told([2.0, 30.0, 2.0, 17.0, 2.0]).unwrap();
    assert!(text.starts_with("\"y\" has values up to 60 on b.npy, d.npy, and up to 4 on most samples"), "{text}");
    // Of a few samples none is usual.
    assert!(Measured::new(&graph, [2.0, 2.0, 90.0].map(|x| Ok(vec![sample(x)]))).unwrap().uncommon(&graph).is_none());
}

#[test]
fn a_tensor_of_zeros_has_a_scale() {
    let ranges = measure(&graph(), [Ok(vec![vec![0.0; 1000]])], Method::Mse).unwrap();
    assert!(ranges.get(TensorId(0)).unwrap().scale > 0.0);
}

#[test]
fn the_largest_numbers_have_a_scale() {
    let samples = || [Ok(vec![sample(1.0)]), Ok(vec![sample(1e38)]), Ok(vec![sample(f32::MAX)])];
    for method in METHODS {
        let ranges = measure(&graph(), samples(), method).unwrap();
        let x = ranges.get(TensorId(0)).unwrap();
        assert_eq!(x.max, f32::MAX);
        assert!(x.scale.is_finite() && x.scale > 0.0 && x.span.1.is_finite(), "{method:?}: {x:?}");
    }
}

#[test]
fn values_that_are_not_finite_are_refused() {
    for bad in [f32::NAN, f32::INFINITY] {
        let result = measure(&graph(), [Ok(vec![sample(bad)])], Method::Mse);
        assert!(matches!(result, Err(Error::NotFinite(name)) if name == "x"));
    }
}

#[test]
fn tables_are_read_as_they_are_written() {
    let (graph, ranges) = (graph(), measured(Method::Mse));
    let text = table::write(&graph, &ranges);
    assert_eq!(table::read(&text, &graph).unwrap(), ranges);
}

#[test]
fn what_a_table_lacks_is_derived() {
    let graph = graph();
    let table = r#"{"x": {"scale": 0.5, "min": 0, "max": 0, "offset": 0}}"#;
    let ranges = table::read(table, &graph).unwrap();
    // relu has the range of its input, and softmax values up to 1.
    let derived = complete(&graph, ranges.clone(), None);
    assert_eq!(derived.get(TensorId(1)).unwrap().scale, 0.5);
    assert_eq!((derived.get(TensorId(2)).unwrap().min, derived.get(TensorId(2)).unwrap().max), (0.0, 1.0));
    let ranges = complete(&graph, ranges, Some(&measured(Method::Max)));
    assert_eq!(ranges.get(TensorId(0)).unwrap().scale, 0.5);
    assert!(ranges.get(TensorId(2)).unwrap().max <= 1.0);
    for bad in [
        r#"{"x": {"scale": 0}}"#,
        r#"{"x": {"scale": 1, "offset": 3}}"#,
        r#"{"x": {"scale": 1, "spam": 3}}"#,
        r#"{"x": {"scale": 1, "min": 2, "max": 1}}"#,
        r#"{"x": {"scale": 1, "span": [1, 2]}}"#,
        r#"{"x": {"scale": 1, "span": [0, 0]}}"#,
        r#"{"x": {"scale": 1, "means": [1, 2]}}"#,
        r#"{"x": {"scale": 1, "means": [1, 2], "shape": [1, 4]}}"#,
        r#"{"nothing": {"scale": -1}}"#,
        r#"{"x": 1}"#,
        "[",
    ] {
        assert!(table::read(bad, &graph).is_err(), "{bad}");
    }
    let others = r#"{"x": {"scale": 1, "means": [1, 2, 3, 4], "shape": [1, 4, 7, 7]}}"#;
    let ranges = table::read(others, &graph).unwrap();
    assert!(ranges.means(TensorId(0)).is_none() && ranges.doubts[0].contains("not used"), "{:?}", ranges.doubts);
}

#[test]
fn a_quantized_models_scales_are_used() {
    let mut graph = graph();
    let q = |scale, zero, limits| Quantization { scale: vec![scale], zero_point: vec![zero], axis: None, limits };
    graph.tensors[0].quantization = Some(q(0.25, 0, (-128, 127)));
    graph.tensors[1].quantization = Some(q(0.5, 100, (0, 255)));
    graph.tensors[2].quantization = Some(q(1.0 / 256.0, 0, (0, 255)));
    let ranges = of_model(&graph);
    let zero = |k: usize| zero_point(ranges.get(TensorId(k)).unwrap().span);
    assert_eq!([zero(0), zero(1), zero(2)], [(0.25, 0), (0.5, -28), (1.0 / 256.0, -128)]);
    assert_eq!(ranges.get(TensorId(0)).unwrap().scale, 0.25);
    let output = ranges.get(TensorId(2)).unwrap();
    assert_eq!((output.min, output.max, output.scale), (0.0, 255.0 / 256.0, 255.0 / 256.0 / 127.0));
}

/// A tensor that only functions with last values read needs no integers for arguments beyond.
#[test]
fn arguments_end_where_functions_are_level() {
    let scales = |unary: Unary, output: bool| {
        let mut graph = Graph::new("scores");
        let x = graph.input("x", &[1, 4]).unwrap();
        let relu = graph.add("relu", Op::Unary(Unary::Relu), &[x], "relu").unwrap();
        let y = graph.add("y", Op::Unary(unary), &[relu], "y").unwrap();
        graph.outputs.extend([y].into_iter().chain(output.then_some(relu)));
        let samples = [Ok(vec![vec![-1000.0, 1.0, 20.0, 500.0]])];
        let measured = measure(&graph, samples, Method::Max).unwrap();
        let range = *complete(&graph, Ranges::new(), Some(&measured)).get(relu).unwrap();
        assert_eq!((range.min, range.max), (0.0, 500.0));
        (range.scale * 127.0, range.span)
    };
    assert_eq!(scales(Unary::Sigmoid, false), (6.25, (0.0, 6.25)));
    assert_eq!(scales(Unary::Tanh, false), (3.125, (0.0, 3.125)));
    for (unary, output) in [(Unary::Sigmoid, true), (Unary::Silu, false)] {
        assert_eq!(scales(unary, output).1, (0.0, 500.0));
    }
}

/// What has no share of a softmax does not make the steps coarse, also before a move.
#[test]
fn values_without_a_share_saturate() {
    let mut graph = Graph::new("shares");
    let x = graph.input("x", &[1, 4, 1, 2]).unwrap();
    let y = graph.add("negative", Op::Unary(Unary::Neg), &[x], "y").unwrap();
    let z = graph.add("flat", Op::Reshape { shape: vec![1, 4, 2] }, &[y], "z").unwrap();
    let shares = graph.add("softmax", Op::Softmax { axis: 1 }, &[z], "shares").unwrap();
    graph.outputs.push(shares);
    let sample = vec![1e9, -1.0, -3.0, -5.0, 2000.0, 2.0, 0.0, 3.0];
    let ranges = measure(&graph, [Ok(vec![sample.clone()])], Method::Max).unwrap();
    for id in [y, z] {
        // The largest elements are 3 and 5.
        let range = ranges.get(id).unwrap();
        assert_eq!((range.min, range.max), (3.0 - NO_SHARE, 5.0));
    }
    graph.outputs.push(y);
    let ranges = measure(&graph, [Ok(vec![sample])], Method::Max).unwrap();
    assert_eq!(ranges.get(y).unwrap().min, -1e9);
}
