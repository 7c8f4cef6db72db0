// SPDX-License-Identifier: MIT OR Apache-2.0

//! Non-temporal stores: writes that bypass the caches.
//!
//! An ordinary store first reads its cache line from memory. A non-temporal store does not. A copy of a cube that is larger than
//! any cache moves a third fewer bytes this way.

/// Copies `from` to `into`, which has the same length. Other threads see the copy after [`store_fence`] at the latest.
pub(crate) fn copy_non_temporal(into: &mut [u8], from: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        // SAFETY: any bytes are a vector.
        let (head, lines, tail) = unsafe { into.align_to_mut::<__m128i>() };
        let (before, from) = from.split_at(head.len());
        head.copy_from_slice(before);
        let (vectors, _) = from.as_chunks::<16>();
        for (line, vector) in lines.iter_mut().zip(vectors) {
            // SAFETY: every x86-64 has these instructions; both places have 16 bytes, the written one is aligned.
            unsafe { _mm_stream_si128(line, _mm_loadu_si128(vector.as_ptr().cast())) };
        }
        tail.copy_from_slice(&from[16 * lines.len()..]);
    }
    #[cfg(not(target_arch = "x86_64"))]
    into.copy_from_slice(from);
}

/// Makes the stores of [`copy_non_temporal`] visible before any later store of this thread.
pub(crate) fn store_fence() {
    // SAFETY: every x86-64 has this instruction, which touches no memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::bytes::noise;

    #[test]
    fn any_bytes_anywhere_are_copied() {
        let from = noise(1, 400);
        for begin in 0..70 {
            for length in [0, 1, 15, 16, 17, 63, 64, 65, 200] {
                let mut into = vec![0; 400];
                copy_non_temporal(&mut into[begin..begin + length], &from[3..3 + length]);
                store_fence();
                assert_eq!(into[begin..begin + length], from[3..3 + length], "{length} bytes at {begin}");
                assert!(into[..begin].iter().chain(&into[begin + length..]).all(|&byte| byte == 0));
            }
        }
    }
}
