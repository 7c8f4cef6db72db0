// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/conv/winograd.rs`.

use nvdla_model::conv::winograd::{poa, pra_integer};
use nvdla_uapi::reg::values::Precision;

#[test]
fn equals_direct_convolution_where_nothing_is_lost() {
    // The transformed kernel times 4, so that all elements are integers.
    let kernel = [[1, -2, 3], [4, 5, -6], [-7, 8, 2]];
    let g = [[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]];
    let mut transformed = [0i64; 16];
    for (y, gy) in g.iter().enumerate() {
        for (x, gx) in g.iter().enumerate() {
            for (r, line) in kernel.iter().enumerate() {
                for (s, weight) in line.iter().enumerate() {
                    transformed[4 * y + x] += gy[r] * weight * gx[s];
                }
            }
        }
    }
    let tile: [i32; 16] = std::array::from_fn(|i| (i as i32 * 7) % 11 - 5);
    let data = pra_integer(&tile, 0, Precision::Int16);
    let sums = std::array::from_fn(|i| i64::from(data[i]) * transformed[i]);
    for (i, out) in poa(&sums).into_iter().enumerate() {
        let (y, x) = (i / 2, i % 2);
        let mut direct = 0;
        for (r, line) in kernel.iter().enumerate() {
            for (s, weight) in line.iter().enumerate() {
                direct += weight * i64::from(tile[4 * (y + r) + x + s]);
            }
        }
        assert_eq!(out, 4 * direct);
    }
}
