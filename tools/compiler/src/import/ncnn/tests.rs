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
