// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables with the result for every byte. With AVX-512 VBMI, 64 results are looked up at a time in two tables of 128
//! bytes.

#![allow(clippy::cast_ptr_alignment)]

use nvdla_uapi::isa::Isa;

/// The results, indexed by the value's bits.
pub(crate) type Results = [u8; 256];

/// Whether a lookup is faster than any calculation, because [`look_up`] has an instruction for it.
pub(crate) fn is_quick(isa: Isa) -> bool {
    isa == Isa::Avx512Vbmi
}

/// Replaces values by results; `into` has the same length as `data`.
pub(crate) fn look_up(isa: Isa, results: &Results, data: &[u8], into: &mut [u8]) {
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

/// Replaces the components of pixels of four bytes: component `channel` of a result is the entry of its table for byte
/// `order[channel]` of the pixel. `into` has the same length as `data`.
pub(crate) fn look_up_pixels(isa: Isa, tables: &[Results; 4], order: [u8; 4], data: &[u8], into: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if is_quick(isa) {
        // SAFETY: the machine has the instructions, as it has the `Isa`.
        return unsafe { avx512::look_up_pixels(tables, order, data, into) };
    }
    let _ = isa;
    for (into, pixel) in into.as_chunks_mut::<4>().0.iter_mut().zip(data.as_chunks::<4>().0) {
        for ((into, &at), table) in into.iter_mut().zip(&order).zip(tables) {
            *into = table[usize::from(pixel[usize::from(at & 3)])];
        }
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
        let table = Table::new(results);
        for (data, into) in data.chunks(STEP).zip(into.chunks_mut(STEP)) {
            store(table.results(load(data)), into);
        }
    }

    /// # Safety
    /// The machine has AVX-512 (F, BW, VBMI).
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn look_up_pixels(tables: &[Results; 4], order: [u8; 4], data: &[u8], into: &mut [u8]) {
        // The byte for each byte of 16: its pixel's first byte, plus the order of its channel.
        let order = _mm512_set1_epi32(i32::from_le_bytes(order));
        let order = _mm512_add_epi8(order, _mm512_set4_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0));
        if tables.iter().all(|table| table == &tables[0]) {
            let table = Table::new(&tables[0]);
            for (data, into) in data.chunks(STEP).zip(into.chunks_mut(STEP)) {
                store(table.results(_mm512_shuffle_epi8(load(data), order)), into);
            }
            return;
        }
        let [first, second, third, fourth] = tables;
        let [first, second, third, fourth] =
            [Table::new(first), Table::new(second), Table::new(third), Table::new(fourth)];
        for (data, into) in data.chunks(STEP).zip(into.chunks_mut(STEP)) {
            let values = _mm512_shuffle_epi8(load(data), order);
            let even = _mm512_mask_blend_epi8(EACH_FOURTH << 2, first.results(values), third.results(values));
            let odd = _mm512_mask_blend_epi8(EACH_FOURTH << 3, second.results(values), fourth.results(values));
            store(_mm512_mask_blend_epi8(EACH_FOURTH << 1 | EACH_FOURTH << 3, even, odd), into);
        }
    }

    const EACH_FOURTH: u64 = 0x1111_1111_1111_1111;

    /// A table in registers.
    struct Table([__m512i; 4]);

    impl Table {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        fn new(results: &Results) -> Self {
            let [low, high] = [&results[..128], &results[128..]];
            Self([load(&low[..STEP]), load(&low[STEP..]), load(&high[..STEP]), load(&high[STEP..])])
        }

        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        fn results(&self, values: __m512i) -> __m512i {
            // The index has seven bits; the eighth chooses between the tables.
            let low = _mm512_permutex2var_epi8(self.0[0], values, self.0[1]);
            let high = _mm512_permutex2var_epi8(self.0[2], values, self.0[3]);
            _mm512_mask_blend_epi8(_mm512_movepi8_mask(values), low, high)
        }
    }

    /// Stores up to 64 bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn store(bytes: __m512i, into: &mut [u8]) {
        let count = into.len().min(STEP);
        // SAFETY: the mask has a bit for each of these bytes.
        unsafe { _mm512_mask_storeu_epi8(into.as_mut_ptr().cast(), mask(count), bytes) };
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
            let tables: [Results; 4] = std::array::from_fn(|seed| noise(seed as u64, 256).try_into().unwrap());
            for (tables, order) in [(tables, [0, 1, 2, 3]), (tables, [2, 1, 0, 3]), ([results; 4], [3, 0, 1, 2])] {
                for pixels in [0, 1, 15, 16, 17, 100] {
                    let data = noise(pixels as u64, 4 * pixels);
                    let mut found = vec![0; data.len()];
                    look_up_pixels(isa, &tables, order, &data, &mut found);
                    let expected = data.chunks(4).flat_map(|pixel| {
                        [0, 1, 2, 3].map(|channel| tables[channel][usize::from(pixel[usize::from(order[channel])])])
                    });
                    assert_eq!(found, expected.collect::<Vec<u8>>());
                }
            }
            let data: [u8; 256] = std::array::from_fn(|value| value as u8);
            let mut found = [0; 256];
            look_up(isa, &results, &data, &mut found);
            assert_eq!(found, results);
        }
    }
}
