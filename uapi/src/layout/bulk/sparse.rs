// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Compressing and decompressing 64 bytes of weights at a time (AVX-512 VBMI2).

/// The number of elements processed, and the bytes of those that remain.
pub(in super::super) struct Done {
    pub(in super::super) elements: usize,
    pub(in super::super) kept: usize,
}

/// Moves the non-zero elements of `source` to `target` and writes their mask, for whole blocks. Bytes of `target` behind
/// the last element may be overwritten.
pub(in super::super) fn compact<const B: usize>(source: &[u8], target: &mut [u8], wmb: &mut [u8]) -> Done {
    #[cfg(target_arch = "x86_64")]
    if x86::is_available() {
        // SAFETY: the machine has the instructions.
        return unsafe { x86::compact::<B>(source, target, wmb) };
    }
    let _ = (source, target, wmb);
    Done { elements: 0, kept: 0 }
}

/// Puts the elements of `source` where the mask's bits are set, as far as whole blocks go.
pub(in super::super) fn expand<const B: usize>(source: &[u8], wmb: &[u8], target: &mut [u8]) -> Done {
    #[cfg(target_arch = "x86_64")]
    if x86::is_available() {
        // SAFETY: the machine has the instructions.
        return unsafe { x86::expand::<B>(source, wmb, target) };
    }
    let _ = (source, wmb, target);
    Done { elements: 0, kept: 0 }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::super::super::isa::Isa;
    use super::Done;
    use core::arch::x86_64::*;

    /// Bytes of a block.
    const BLOCK: usize = 64;

    pub(super) fn is_available() -> bool {
        Isa::in_use_or_portable() == Isa::Avx512Vbmi
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
    pub(super) fn compact<const B: usize>(source: &[u8], target: &mut [u8], wmb: &mut [u8]) -> Done {
        let mask_bytes = BLOCK / B / 8;
        let mut kept = 0;
        let mut blocks = 0;
        for (block, mask) in source.chunks_exact(BLOCK).zip(wmb.chunks_exact_mut(mask_bytes)) {
            let Some(target) = target.get_mut(kept..kept + BLOCK) else { break };
            // SAFETY: the block has 64 bytes.
            let elements = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
            let (bits, packed) = if B == 1 {
                let bits = _mm512_test_epi8_mask(elements, elements);
                (bits, _mm512_maskz_compress_epi8(bits, elements))
            } else {
                let bits = _mm512_test_epi16_mask(elements, elements);
                (u64::from(bits), _mm512_maskz_compress_epi16(bits, elements))
            };
            // SAFETY: `target` has 64 bytes.
            unsafe { _mm512_storeu_si512(target.as_mut_ptr().cast(), packed) };
            mask.copy_from_slice(&bits.to_le_bytes()[..mask_bytes]);
            kept += bits.count_ones() as usize * B;
            blocks += 1;
        }
        Done { elements: blocks * BLOCK / B, kept }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
    pub(super) fn expand<const B: usize>(source: &[u8], wmb: &[u8], target: &mut [u8]) -> Done {
        let mask_bytes = BLOCK / B / 8;
        let mut kept = 0;
        let mut blocks = 0;
        for (block, mask) in target.chunks_exact_mut(BLOCK).zip(wmb.chunks_exact(mask_bytes)) {
            let Some(source) = source.get(kept..kept + BLOCK) else { break };
            let mut bits = [0; 8];
            bits[..mask_bytes].copy_from_slice(mask);
            let bits = u64::from_le_bytes(bits);
            // SAFETY: the source has 64 bytes.
            let packed = unsafe { _mm512_loadu_si512(source.as_ptr().cast()) };
            let elements = if B == 1 {
                _mm512_maskz_expand_epi8(bits, packed)
            } else {
                _mm512_maskz_expand_epi16(bits as u32, packed)
            };
            // SAFETY: the block has 64 bytes.
            unsafe { _mm512_storeu_si512(block.as_mut_ptr().cast(), elements) };
            kept += bits.count_ones() as usize * B;
            blocks += 1;
        }
        Done { elements: blocks * BLOCK / B, kept }
    }
}
