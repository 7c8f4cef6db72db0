// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/num/float.rs`.

use nvdla_model::num::{Fp16, Fp32};

fn bits(value: f32) -> u32 {
    value.to_bits()
}

#[test]
fn sums_and_products_of_fp32_are_ieee_where_nothing_is_special() {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 32) as u32
    };
    for _ in 0..200_000 {
        // Exponents near each other, so that every alignment distance occurs.
        let a = (next() & 0x807f_ffff) | ((100 + next() % 60) << 23);
        let b = (next() & 0x807f_ffff) | ((100 + next() % 60) << 23);
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        if x + y != 0.0 {
            assert_eq!(Fp32::add(a, b), bits(x + y), "{a:#x} + {b:#x}");
        }
        assert_eq!(Fp32::mul(a, b), bits(x * y), "{a:#x} * {b:#x}");
        assert_eq!(Fp32::max(a, b), bits(x.max(y)));
        assert_eq!(Fp32::min(a, b), bits(x.min(y)));
    }
}

#[test]
fn overflow_gives_the_largest_normal_value() {
    assert_eq!(Fp32::mul(bits(3e38), bits(-3e38)), bits(-f32::MAX));
    assert_eq!(Fp32::add(bits(f32::MAX), bits(f32::MAX)), bits(f32::MAX));
    assert_eq!(Fp16::add(0x7bff, 0x7bff), 0x7bff);
}

#[test]
fn underflow_gives_zero_of_that_sign() {
    assert_eq!(Fp32::mul(bits(-1e-30), bits(1e-30)), bits(-0.0));
    assert_eq!(Fp32::sub(bits(f32::MIN_POSITIVE * 1.5), bits(f32::MIN_POSITIVE)), 0);
    assert_eq!(Fp32::sub(bits(-2.5), bits(-2.5)), bits(-0.0));
}

#[test]
fn the_first_nan_is_the_result() {
    assert_eq!(Fp32::add(0x7f80_0001, 0xffc0_0000), 0x7f80_0001);
    assert_eq!(Fp32::mul(bits(0.0), 0xffc0_0000), 0xffc0_0000);
    assert_eq!(Fp32::max(bits(1.0), 0xffc0_0000), 0xffc0_0000);
    assert_eq!(Fp32::relu(0xffc0_0000), 0xffc0_0000);
    assert_eq!(Fp32::flush_nan(0xffc0_0000, true), 0);
}
