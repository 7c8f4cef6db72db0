// SPDX-License-Identifier: MIT OR Apache-2.0

//! A table with the result for every int8 value. With AVX-512 VBMI, 64 results are looked up at a time in two tables of 128
//! bytes.

#![allow(clippy::cast_ptr_alignment)]

use nvdla_uapi::isa::Isa;

/// The results, indexed by the value's bits.
pub(super) type Results = [u8; 256];

/// Whether a lookup is faster than any calculation, because [`look_up`] has an instruction for it.
pub(super) fn is_quick(isa: Isa) -> bool {
    isa == Isa::Avx512Vbmi
}

/// Replaces values by results; `into` has the same length as `data`.
pub(super) fn look_up(isa: Isa, results: &Results, data: &[u8], into: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if is_quick(isa) {
        // SAFETY: the machine has the instructions, as it has the `Isa`.
        return unsafe { avx512::look_up(results, data, into) };
    }
    let _ = isa;
    for (byte, &value) in into.iter_mut().zip(data) {
        *byte = results[usize::from(value)];
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::Results;

    /// Bytes of a vector.
    const STEP: usize = 64;

    /// # Safety
    /// The machine has AVX-512 (F, BW, VBMI).
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn look_up(results: &Results, data: &[u8], into: &mut [u8]) {
        let parts: [__m512i; 4] = std::array::from_fn(|part| load(&results[part * STEP..][..STEP]));
        for (data, into) in data.chunks(STEP).zip(into.chunks_mut(STEP)) {
            let values = load(data);
            // The index has seven bits; the eighth chooses between the tables.
            let low = _mm512_permutex2var_epi8(parts[0], values, parts[1]);
            let high = _mm512_permutex2var_epi8(parts[2], values, parts[3]);
            let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(values), low, high);
            let into = &mut into[..data.len().min(STEP)];
            // SAFETY: the mask has a bit for each of these bytes.
            unsafe { _mm512_mask_storeu_epi8(into.as_mut_ptr().cast(), mask(into.len()), found) };
        }
    }

    /// Up to 64 bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn load(bytes: &[u8]) -> __m512i {
        // SAFETY: the mask has a bit for each of the bytes.
        unsafe { _mm512_maskz_loadu_epi8(mask(bytes.len()), bytes.as_ptr().cast()) }
    }

    fn mask(bytes: usize) -> u64 {
        if bytes < STEP {
            (1 << bytes) - 1
        } else {
            u64::MAX
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::bytes::noise;

    #[test]
    fn every_value_gets_its_result() {
        let results: Results = noise(1, 256).try_into().unwrap();
        for isa in Isa::available() {
            for length in [0, 1, 8, 63, 64, 65, 256, 1000] {
                let data = noise(length as u64, length);
                let mut found = vec![0; length];
                look_up(isa, &results, &data, &mut found);
                let expected: Vec<u8> = data.iter().map(|&value| results[usize::from(value)]).collect();
                assert_eq!(found, expected);
            }
            let data: [u8; 256] = std::array::from_fn(|value| value as u8);
            let mut found = [0; 256];
            look_up(isa, &results, &data, &mut found);
            assert_eq!(found, results);
        }
    }
}
