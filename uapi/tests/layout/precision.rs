// SPDX-License-Identifier: GPL-2.0-only OR MIT

use nvdla_uapi::layout::precision::{
    infinity, is_nan, pipeline, processing, saturation, Input, Invalid, Layer, Real, Unit,
};
use nvdla_uapi::reg::values::Precision::{self, Fp16, Int16, Int8};

const OUTPUTS: [Precision; 3] = [Int8, Int16, Fp16];

/// One row a configured input, one column a configured output; `None` is the document's "Invalid case".
fn check(layer: Layer, table: &[(Input, [Option<Real>; 3])]) {
    for (input, row) in table {
        for (output, real) in OUTPUTS.into_iter().zip(row) {
            let got = pipeline(layer, *input, output);
            assert_eq!(got.map(|it| it.real).ok(), *real, "{layer:?} {input:?} {output:?}");
            if let Ok(it) = got {
                // The weights of a convolution have the pipeline's precision.
                assert_eq!(it.weight, (layer == Layer::Convolution).then_some(output));
            }
        }
    }
}

#[test]
fn table_29_convolution() {
    let (i8, i16, f16) = (Some(Real::Int8), Some(Real::Int16), Some(Real::Fp16));
    check(
        Layer::Convolution,
        &[
            (Input::IntegerImage, [i8, i16, f16]),
            (Input::FloatImage, [None, None, f16]),
            (Input::Feature(Int8), [i8, None, None]),
            (Input::Feature(Int16), [None, i16, None]),
            (Input::Feature(Fp16), [None, None, f16]),
        ],
    );
}

#[test]
fn table_30_sdp() {
    let (i32, f32) = (Some(Real::Int32), Some(Real::Fp32));
    check(
        Layer::Sdp,
        &[
            (Input::Feature(Int8), [i32, i32, None]),
            (Input::Feature(Int16), [i32, i32, i32]),
            (Input::Feature(Fp16), [None, f32, f32]),
            (Input::IntegerImage, [None; 3]),
            (Input::FloatImage, [None; 3]),
        ],
    );
}

#[test]
fn tables_31_lrn_and_32_pooling() {
    for layer in [Layer::Lrn, Layer::Pooling] {
        check(
            layer,
            &[
                (Input::Feature(Int8), [Some(Real::Int8), None, None]),
                (Input::Feature(Int16), [None, Some(Real::Int16), None]),
                (Input::Feature(Fp16), [None, None, Some(Real::Fp16)]),
                (Input::IntegerImage, [None; 3]),
                (Input::FloatImage, [None; 3]),
            ],
        );
    }
}

#[test]
fn an_invalid_case_says_its_table() {
    let error = pipeline(Layer::Sdp, Input::Feature(Fp16), Int8).unwrap_err();
    assert_eq!(error, Invalid { layer: Layer::Sdp, input: Input::Feature(Fp16), output: Int8 });
    assert_eq!(error.to_string(), "Sdp from Feature(Fp16) to Int8 is invalid (In-memory data formats, table 30)");
}

#[test]
fn infinities_of_each_unit() {
    let value = |unit| infinity(unit).map(|bits| f64::from(f32::from_bits(bits)));
    assert_eq!(value(Unit::Convolution), Some(65536.0));
    assert_eq!(value(Unit::Winograd), Some(65504.0));
    assert_eq!(value(Unit::Sdp).map(|it| format!("{it:.5e}")), Some("3.40282e38".into()));
    assert_eq!(value(Unit::Cdp), Some(4_292_870_144.0));
    assert_eq!(value(Unit::PdpAverage), Some(4_292_870_144.0));
    assert_eq!(value(Unit::PdpMaxMin), None);
}

#[test]
fn saturated_outputs() {
    assert_eq!(saturation(Int8), (-128, 127));
    assert_eq!(saturation(Int16), (-32768, 32767));
    let (low, high) = saturation(Fp16);
    let fixed = |bits: i32| nvdla_uapi::layout::half::to_fixed(bits as u16).unwrap() >> 24;
    assert_eq!((fixed(low), fixed(high)), (-65504, 65504));
    assert!(is_nan(0x7c01) && is_nan(0xfe00) && !is_nan(0x7c00) && !is_nan(0xfc00) && !is_nan(0x7bff));
}

#[test]
fn operands_of_a_converting_layer_are_int8() {
    assert_eq!(processing(Int16, Int8), Int8);
    assert_eq!(processing(Int8, Int16), Int8);
    for precision in OUTPUTS {
        assert_eq!(processing(precision, precision), precision);
    }
    assert_eq!(processing(Int16, Fp16), Int16);
    assert_eq!(processing(Fp16, Int16), Fp16);
}
