// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/memory.rs`.

use nvdla_model::memory::disjoint;

#[test]
fn two_ranges_of_the_same_bytes_share_none() {
    let bytes = &mut [0, 1, 2, 3, 4, 5, 6, 7];
    assert_eq!(disjoint(bytes, 1..3, 3..8), Some((&[1, 2][..], &mut [3, 4, 5, 6, 7][..])));
    assert_eq!(disjoint(bytes, 5..8, 0..2), Some((&[5, 6, 7][..], &mut [0, 1][..])));
    for (read, write) in [(1..4, 3..5), (3..5, 1..4), (0..8, 2..3), (2..3, 0..8), (0..2, 7..9), (8..9, 0..2)] {
        assert_eq!(disjoint(bytes, read.clone(), write.clone()), None, "{read:?} and {write:?} of 8 bytes");
    }
}
