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
        ("Split", "LSTM", "split"),
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
