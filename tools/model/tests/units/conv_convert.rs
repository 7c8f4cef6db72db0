// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/conv/convert.rs`.

use nvdla_model::conv::operation::Converter;
use nvdla_uapi::reg::values::Precision;

#[test]
fn subtracts_multiplies_rounds_and_limits() {
    let converter = Converter { offsets: [128, 0, 0, 0], scale: 3, truncate: 1 };
    assert_eq!(converter.convert(129, 0, Precision::Int8), 2);
    assert_eq!(converter.convert(127, 0, Precision::Int8), 0xfe);
    assert_eq!(converter.convert(255, 0, Precision::Int8), 127);
    assert_eq!(converter.convert(255, 0, Precision::Int16), 191);
    assert_eq!(converter.convert(2, 1, Precision::Fp16), 0x4200);
}

#[test]
fn identities_are_recognised() {
    for truncate in 0..20 {
        let converter = Converter { offsets: [0; 4], scale: 1i16.checked_shl(truncate).unwrap_or(0), truncate };
        let same = (-128..128).all(|value| converter.convert(value, 0, Precision::Int8) == value as u8 as u16);
        assert!(!converter.is_identity() || same, "{truncate}");
    }
    assert!(Converter { offsets: [0; 4], scale: 4, truncate: 2 }.is_identity());
}
