// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::float;

const PARAM: &str = "7767517
3 4
Input in 0 1 data 0=2 1=2 2=1
Convolution conv 1 1 data conv 0=2 1=1 5=1 6=2 9=2 -23310=1,0.5
Split split 1 2 conv a b
";

/// A tag, two weights, two biases.
fn bin() -> Vec<u8> {
    [0.0f32, 1.0, -2.0, 0.5, 0.25].iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn reads(param: &str, bin: &[u8]) -> Result<Graph, Failure> {
    read(param, bin, "test", &Options::default())
}

#[test]
fn a_convolution_has_its_activation() {
    let graph = reads(PARAM, &bin()).unwrap();
    let outputs = float::run(&graph, &[vec![1.0, -1.0, 2.0, 0.0]], &mut |_, _| {}).unwrap();
    assert_eq!(outputs[0], [1.5, -0.25, 2.5, 0.5, -0.875, 2.25, -1.875, 0.25]);
}

/// The outputs that the user names need not have been read behind what is not supported.
#[test]
fn layers_behind_the_outputs_are_left_out() {
    let param =
        PARAM.replace("3 4", "5 6") + "PSROIPooling last 1 1 a c 0=2\nReLU relu 1 1 c d\nUnknown more 1 1 d e\n";
    let outputs = |names: &[&str]| {
        let outputs = names.iter().map(|&name| name.to_owned()).collect();
        read(&param, &[&bin()[..], &[0; 8]].concat(), "test", &Options { outputs, ..Options::default() })
    };
    let graph = outputs(&["b"]).unwrap();
    assert_eq!(graph.tensor(graph.outputs[0]).name, "b");
    assert!(outputs(&["nosuch"]).unwrap_err().to_string().contains("nosuch"));
    let said = outputs(&[]).unwrap_err().to_string();
    assert!(said.contains("PSROIPooling") && said.contains("with these outputs: a"), "{said}");
    assert!(outputs(&["d"]).is_err());
}

/// A last layer that computes nothing gathers the outputs.
#[test]
fn gathered_outputs_are_all_outputs() {
    let param = PARAM.replace("3 4", "5 6") + "ReLU relu 1 1 a c\nNoop all 2 1 b c all\n";
    let graph = reads(&param, &bin()).unwrap();
    assert_eq!(graph.outputs.len(), 2);
    assert_eq!(graph.tensor(graph.outputs[1]).name, "c");
}

/// A convolution of a vector is a product.
#[test]
fn a_vector_is_one_pixel() {
    let param =
        "7767517\n2 2\nInput in 0 1 data 0=1\nConvolution conv 1 1 data conv 0=2 1=1 5=1 6=2 9=2 -23310=1,0.5\n";
    let graph = reads(param, &bin()).unwrap();
    assert_eq!(graph.shape(graph.outputs[0]), [1, 2]);
    assert_eq!(float::run(&graph, &[vec![2.0]], &mut |_, _| {}).unwrap()[0], [2.5, -1.875]);
}

/// (x - mean) / sqrt(variance + epsilon) * scale + bias, over the planes of two groups, and over lines.
#[test]
fn normalizations_are_arithmetic() {
    let weights = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let group = weights(&[2.0, 2.0, 0.5, 1.0, 1.0, 0.0, 0.0, -1.0]);
    let line = weights(&[2.0, 1.0, 1.0, 0.0]);
    for (layer, bin, each) in [
        ("GroupNorm norm 1 1 data y 0=2 1=4 2=0.5 3=1", group.clone(), 4),
        ("InstanceNorm norm 1 1 data y 0=4 1=0.5 2=1", group, 2),
        ("LayerNorm norm 1 1 data y 0=2 1=0.5 2=1", line, 2),
    ] {
        let graph = reads(&format!("7767517\n2 2\nInput in 0 1 data 0=2 1=1 2=4\n{layer}\n"), &bin).unwrap();
        let x = [1.0f32, 3.0, -1.0, 2.0, 0.5, 0.0, -2.0, 4.0];
        let found = float::run(&graph, &[x.to_vec()], &mut |_, _| {}).unwrap().remove(0);
        let value = |at: usize| f32::from_le_bytes(bin[4 * at..4 * at + 4].try_into().unwrap());
        let count = bin.len() / 8;
        for at in 0..8 {
            let of = &x[at / each * each..][..each];
            let mean = of.iter().sum::<f32>() / each as f32;
            let variance = of.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / each as f32;
            let own = if count == 4 { at / 2 } else { at % 2 };
            let expected = (x[at] - mean) / (variance + 0.5).sqrt() * value(own) + value(count + own);
            assert!((found[at] - expected).abs() < 1e-5, "{layer}: {} {expected}", found[at]);
        }
    }
}

#[test]
fn weights_have_the_type_of_their_tag() {
    let half = |x: f32| half::f16::from_f32(x).to_le_bytes();
    let halves = [&0x0130_6B47u32.to_le_bytes()[..], &half(1.0), &half(-2.0), &bin()[12..]].concat();
    assert_eq!(reads(PARAM, &halves).unwrap(), reads(PARAM, &bin()).unwrap());
    // int8 with one scale per kernel, followed by the input's scale.
    let param = PARAM.replace("6=2", "6=2 8=1");
    let scales: Vec<u8> = [64.0f32, 32.0, 100.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let integers = [&0x000D_4B38u32.to_le_bytes()[..], &[64, (-64i8) as u8, 0, 0], &bin()[12..], &scales].concat();
    assert_eq!(reads(&param, &integers).unwrap(), reads(PARAM, &bin()).unwrap());
}

#[test]
fn bad_models_are_errors() {
    for end in 0..bin().len() {
        assert!(reads(PARAM, &bin()[..end]).is_err(), "{end} bytes of weights");
    }
    assert!(reads(PARAM, &[&bin()[..], &[0; 4]].concat()).is_err(), "weights left over");
    // The error names the file or the layer.
    for (from, to, name) in [
        ("7767517", "7767518", ""),
        ("3 4", "4 4", ""),
        ("1 1 data", "1 1 other", "conv"),
        ("6=2", "6=3", "conv"),
        ("0=2 1=1", "0=-2 1=1", "conv"),
        ("0=2 1=1", "0=4611686018427387904 1=1", "conv"),
        ("-23310=1,0.5", "-23310=9,0.5", "conv"),
        ("-23310=1,0.5", "", "conv"),
        ("conv a b", "conv a a", "split"),
        ("Split", "PSROIPooling", "split"),
        ("5=1", "5", "conv"),
        ("2=1\n", "2=99999999999999999999\n", "in"),
        ("1=1 5", "1=nan 5", "conv"),
    ] {
        assert!(PARAM.contains(from), "{from}");
        let error = reads(&PARAM.replacen(from, to, 1), &bin()).unwrap_err().to_string();
        assert!(error.contains(&format!("\"{name}")) || name.is_empty(), "{to}: {error}");
    }
    let weights = [&bin()[..4], &f32::NAN.to_le_bytes(), &bin()[8..]].concat();
    let error = reads(PARAM, &weights).unwrap_err().to_string();
    assert!(error.contains("\"conv\"") && error.contains("not a number"), "{error}");
}

/// Windows of one size; the divisor of pad_mode 2 counts the padding.
#[test]
fn poolings_are_read() {
    let pool = |parameters: &str| {
        let param = format!("7767517\n2 2\nInput in 0 1 x 0=4 1=2 2=1\nPooling p 1 1 x y 0=1 {parameters}\n");
        let graph = reads(&param, &[]).map_err(|error| error.to_string())?;
        let x: Vec<f32> = (1..=8u8).map(f32::from).collect();
        float::run(&graph, &[x], &mut |_, _| {}).map(|outputs| outputs[0].clone())
    };
    assert_eq!(pool("7=1 8=2 18=1").unwrap(), [3.5, 5.5]);
    assert_eq!(pool("7=1 8=2 18=-233").unwrap(), [1.5, 3.5, 5.5, 7.5]);
    assert!(pool("7=1 8=3 18=1").unwrap_err().contains("windows of several sizes"));
    assert_eq!(pool("1=3 2=3 5=2").unwrap(), [14.0 / 9.0, 22.0 / 9.0]);
    assert_eq!(pool("1=3 2=3 3=-233 5=2").unwrap(), [14.0 / 9.0, 22.0 / 9.0]);
    assert!(pool("1=3 2=3 5=2 3=1").unwrap_err().contains("pad_mode 2"));
}

/// The first dimensions of two blobs correspond, unless a vector has as many elements as the other one has columns.
#[test]
fn operands_of_fewer_dimensions_are_aligned_at_their_first() {
    let sum = |parameters: &str, size: u8| {
        let param = format!(
            "7767517\n3 3\nInput in 0 1 x 0=3 1=2 2=2\nMemoryData m 0 1 m {parameters}\nBinaryOp b 2 1 m x y 0=0\n"
        );
        let values: Vec<u8> = (1..=size).flat_map(|value| f32::from(value).to_le_bytes()).collect();
        let graph = reads(&param, &values).map_err(|error| error.to_string())?;
        float::run(&graph, &[vec![0.0; 12]], &mut |_, _| {}).map(|outputs| outputs[0].clone())
    };
    assert_eq!(sum("0=2 1=2", 4).unwrap(), [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4].map(|value| value as f32));
    assert_eq!(sum("0=2", 2).unwrap(), [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2].map(|value| value as f32));
    assert_eq!(sum("0=3", 3).unwrap(), [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3].map(|value| value as f32));
    assert!(sum("0=3 1=2", 6).is_err());
}

/// The values of a layer for a blob of 2 channels, 2 lines and 4 columns with the values 1 to 16. Those of NCNN 1.0.20261020 are the
/// same.
fn computed(layer: &str, weights: &[f32]) -> Vec<f32> {
    let (kind, parameters) = layer.split_once(' ').unwrap_or((layer, ""));
    let param = format!("7767517\n2 2\nInput in 0 1 x 0=4 1=2 2=2\n{kind} l 1 1 x y {parameters}\n");
    let weights: Vec<u8> = weights.iter().flat_map(|value| value.to_le_bytes()).collect();
    let graph = reads(&param, &weights).unwrap_or_else(|error| panic!("{layer}: {error}"));
    let x: Vec<f32> = (1..=16u8).map(f32::from).collect();
    float::run(&graph, &[x], &mut |_, _| {}).unwrap()[0].clone()
}

#[test]
fn layers_of_other_operators_are_read() {
    let ones = |count: usize| vec![1.0; count];
    assert_eq!(computed("Power 0=2 1=0.5 2=1", &[])[..3], [2.25, 4.0, 6.25]);
    assert_eq!(computed("Bias 0=2", &[10.0, 20.0])[7..9], [18.0, 29.0]);
    assert_eq!(computed("Threshold 0=3", &[])[..5], [0.0, 0.0, 0.0, 1.0, 1.0]);
    assert_eq!(computed("Reduction 0=0 1=1", &[]), [136.0]);
    assert_eq!(computed("Reduction 0=3 1=0 2=2 -23303=1,0", &[]), [10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 22.0, 24.0]);
    assert_eq!(computed("Reduction 0=4 1=0 -23303=2,1,-1 4=1", &[]), [8.0, 16.0]);
    assert_eq!(
        computed("Reorg 0=2", &[]),
        [1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0, 9.0, 11.0, 10.0, 12.0, 13.0, 15.0, 14.0, 16.0]
    );
    assert_eq!(computed("Reorg 0=2 1=1", &[])[..6], [1.0, 3.0, 9.0, 11.0, 2.0, 4.0]);
    assert_eq!(computed("Tile 0=2 1=2", &[])[..9], [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(computed("Flip -23300=1,-1", &[])[..5], [4.0, 3.0, 2.0, 1.0, 8.0]);
    // A deconvolution whose output has a given size: what is more is cut off at both ends, the rest of it at the last or first.
    let weights: Vec<f32> = [0.0].into_iter().chain(ones(2 * 9)).collect();
    let upper = computed("Deconvolution 0=1 1=3 3=2 4=-233 6=18 20=8 21=4", &weights);
    let lower = computed("Deconvolution 0=1 1=3 3=2 4=-234 6=18 20=8 21=4", &weights);
    assert_eq!((upper.len(), upper[0], upper[1]), (32, 10.0, 10.0));
    assert_eq!((lower.len(), lower[0], lower[1]), (32, 10.0, 22.0));
}

/// Numbers in -1..1 that repeat after a prime number of them.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|k| ((k * 29 + seed * 17) % 101) as f32 / 50.5 - 1.0).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `x` has rows of so many columns, and `weights` a row per output.
fn rows(x: &[f32], columns: usize, weights: &[f32], bias: &[f32]) -> Vec<f32> {
    let of = |row: &[f32], weights: &[f32]| row.iter().zip(weights).map(|(a, b)| a * b).sum::<f32>();
    let row = |row: &[f32]| weights.chunks(columns).zip(bias).map(|(w, b)| of(row, w) + b).collect::<Vec<f32>>();
    x.chunks(columns).flat_map(row).collect()
}

fn near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-5, "{a} instead of {b}");
    }
}

/// Layers over rows: weights may be stored in either order, and the product may be turned.
#[test]
fn layers_over_rows() {
    let (x, w, b) = (numbers(3 * 4, 1), numbers(5 * 4, 2), numbers(5, 3));
    let expected = rows(&x, 4, &w, &b);
    let run = |layer: &str, bin: Vec<u8>| {
        let graph = reads(&format!("7767517\n2 2\nInput x 0 1 x 0=4 1=3\n{layer}\n"), &bin).unwrap();
        float::run(&graph, std::slice::from_ref(&x), &mut |_, _| {}).unwrap().remove(0)
    };
    let tag = [0; 4].to_vec();
    let inner = [tag.clone(), bytes(&w), bytes(&b)].concat();
    near(&run("InnerProduct y 1 1 x y 0=5 1=1 2=20", inner), &expected);
    let gemm = [tag.clone(), bytes(&w), tag.clone(), bytes(&b)].concat();
    near(&run("Gemm y 1 1 x y 3=1 5=1 6=1 8=5 9=4 10=4", gemm), &expected);
    let turned: Vec<f32> = (0..4).flat_map(|k| w.iter().skip(k).step_by(4).copied().collect::<Vec<_>>()).collect();
    let gemm = [tag.clone(), bytes(&turned), tag, bytes(&b)].concat();
    let found = run("Gemm y 1 1 x y 0=0.5 1=2 5=1 6=1 8=5 9=4 10=4 14=1", gemm);
    let product = rows(&x, 4, &w, &[0.0; 5]);
    let expected = (0..15).map(|at| 0.5 * (product[at % 3 * 5 + at / 3] + 2.0 * b[at / 3]));
    near(&found, &expected.collect::<Vec<f32>>());
}

/// An attention of two heads over other rows than its own, with a mask.
#[test]
fn an_attention_is_its_sums() {
    let (x, other, mask) = (numbers(3 * 4, 1), numbers(2 * 6, 2), numbers(3 * 2, 3));
    let sizes = [(4, 4), (4, 6), (4, 6), (4, 4)];
    let layers = sizes.map(|(outputs, columns)| (numbers(outputs * columns, columns), numbers(outputs, 5)));
    let bin: Vec<u8> = layers.iter().flat_map(|(w, b)| [vec![0; 4], bytes(w), bytes(b)].concat()).collect();
    let param = "7767517\n4 4\nInput x 0 1 x 0=4 1=3\nInput o 0 1 o 0=6 1=2\nInput m 0 1 m 0=2 1=3\n\
                 MultiHeadAttention y 3 1 x o m y 0=4 1=2 2=16 3=6 4=6 5=1\n";
    let graph = reads(param, &bin).unwrap();
    let found = float::run(&graph, &[x.clone(), other.clone(), mask.clone()], &mut |_, _| {}).unwrap();
    let [queries, keys, values] = [(0, &x, 4), (1, &other, 6), (2, &other, 6)]
        .map(|(at, input, columns): (usize, _, _)| rows(input, columns, &layers[at].0, &layers[at].1));
    let mut joined = vec![0.0; 3 * 4];
    for row in 0..3 {
        for head in [0, 2] {
            let score = |k: usize| {
                let product: f32 = (head..head + 2).map(|c| queries[row * 4 + c] * keys[k * 4 + c]).sum();
                (product / 2.0_f32.sqrt() + mask[row * 2 + k]).exp()
            };
            let [a, b] = [score(0), score(1)];
            for c in head..head + 2 {
                joined[row * 4 + c] = (a * values[c] + b * values[4 + c]) / (a + b);
            }
        }
    }
    near(&found[0], &rows(&joined, 4, &layers[3].0, &layers[3].1));
    for (from, to) in [("1=2 2=16", "1=3 2=16"), ("5=1", "5=1 7=1"), ("2=16", "2=15"), ("0=4 1=2 2", "0=0 1=2 2")] {
        assert!(reads(&param.replace(from, to), &bin).is_err(), "{to}");
    }
}

/// Recurrent layers in both directions, from given states: one step of each from formulas.
#[test]
fn recurrent_layers_are_their_formulas() {
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    for (kind, gates, biases) in [("LSTM", 4, 4), ("GRU", 3, 4), ("RNN", 1, 1)] {
        let (of_x, of_h) = (numbers(2 * gates * 3, 1), numbers(2 * gates, 2));
        let bias = numbers(2 * biases, 3);
        let bin = [&[0; 4][..], &bytes(&of_x), &[0; 4], &bytes(&bias), &[0; 4], &bytes(&of_h)].concat();
        let (count, states, cells) = if kind == "LSTM" { (2, "h c", "Input c 0 1 c 0=1 1=2\n") } else { (1, "h", "") };
        let param = format!(
            "7767517\n{0} {0}\nInput x 0 1 x 0=3 1=1\nInput h 0 1 h 0=1 1=2\n{cells}{kind} y {1} 1 x {states} y 0=1 1={2} 2=2\n",
            2 + count,
            1 + count,
            of_x.len()
        );
        let graph = reads(&param, &bin).unwrap();
        let (x, h, c) = (numbers(3, 4), numbers(2, 5), numbers(2, 6));
        let found = float::run(&graph, &[x.clone(), h.clone(), c.clone()][..=count], &mut |_, _| {}).unwrap();
        let expected = [0, 1].map(|d: usize| {
            let of_input = |k: usize| (0..3).map(|i| of_x[(d * gates + k) * 3 + i] * x[i]).sum::<f32>();
            let of_state = |k: usize| of_h[d * gates + k] * h[d];
            let sum = |k: usize| of_input(k) + of_state(k) + bias[d * biases + k];
            match kind {
                "LSTM" => {
                    let cell = sigmoid(sum(1)) * c[d] + sigmoid(sum(0)) * sum(3).tanh();
                    sigmoid(sum(2)) * cell.tanh()
                }
                "GRU" => {
                    let (reset, update) = (sigmoid(sum(0)), sigmoid(sum(1)));
                    let of_state = reset * (of_state(2) + bias[d * biases + 3]);
                    let new = (of_input(2) + bias[d * biases + 2] + of_state).tanh();
                    (1.0 - update) * new + update * h[d]
                }
                _ => sum(0).tanh(),
            }
        });
        near(&found[0], &expected);
    }
}
