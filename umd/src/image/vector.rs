// SPDX-License-Identifier: MIT OR Apache-2.0

//! The most common conversion to a tensor, with vector instructions: three bytes per pixel become four, each scaled to
//! 0..127.

/// floor(sample * 127 / 255 + 0.5), in integers.
pub(super) fn scale_to_127(sample: u8) -> u8 {
    ((u16::from(sample) * 255 + 256) >> 9) as u8
}

/// For each of a pixel's four bytes, the sample that it takes; none for zero.
pub(super) type Sources = [Option<u8>; 4];

/// Writes groups of pixels with vector instructions, and returns the number of pixels written, which is 0 on machines without
/// such instructions. The caller writes the rest.
pub(super) fn pixels(sources: Sources, samples: &[u8], line: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 is there.
        return unsafe { avx2(sources, samples, line) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every aarch64 has NEON.
    return unsafe { neon(sources, samples, line) };
    #[cfg(not(target_arch = "aarch64"))]
    {
        let _ = (sources, samples, line);
        0
    }
}

/// Sixteen pixels at a time. Each load and store separates the samples of a pixel into registers.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn neon(sources: Sources, samples: &[u8], line: &mut [u8]) -> usize {
    use std::arch::aarch64::*;

    const PIXELS: usize = 16;
    let (factor, half, zero) = (vdupq_n_u8(255), vdupq_n_u16(256), vdupq_n_u8(0));
    let scaled = |samples| {
        let low = vmlal_u8(half, vget_low_u8(samples), vget_low_u8(factor));
        let high = vmlal_high_u8(half, samples, factor);
        vshrq_n_u8::<1>(vshrn_high_n_u16::<8>(vshrn_n_u16::<8>(low), high))
    };
    // The fourth register is zero.
    let [a, b, c, d] = sources.map(|source| usize::from(source.unwrap_or(3) & 3));
    let mut done = 0;
    let (samples, line) = (samples.as_chunks::<{ 3 * PIXELS }>().0, line.as_chunks_mut::<{ 4 * PIXELS }>().0);
    for (samples, line) in samples.iter().zip(line) {
        // SAFETY: 48 bytes.
        let uint8x16x3_t(first, second, third) = unsafe { vld3q_u8(samples.as_ptr()) };
        let scaled = [scaled(first), scaled(second), scaled(third), zero];
        // SAFETY: 64 bytes.
        unsafe { vst4q_u8(line.as_mut_ptr(), uint8x16x4_t(scaled[a], scaled[b], scaled[c], scaled[d])) };
        done += PIXELS;
    }
    done
}

/// Eight pixels at a time: reads 28 bytes, of which 24 are used, and writes 32.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[allow(clippy::cast_ptr_alignment)] // loads and stores that need no alignment
unsafe fn avx2(sources: Sources, samples: &[u8], line: &mut [u8]) -> usize {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm256_add_epi16, _mm256_loadu_si256, _mm256_mullo_epi16, _mm256_packus_epi16,
        _mm256_set1_epi16, _mm256_set_m128i, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
        _mm256_storeu_si256, _mm256_unpackhi_epi8, _mm256_unpacklo_epi8, _mm_loadu_si128,
    };

    const PIXELS: usize = 8;
    // Each half of a register takes four pixels. An index with its top bit set gives zero.
    let mut places = [0x80_u8; 32];
    for (at, place) in places.iter_mut().enumerate() {
        if let Some(source) = sources[at % 4] {
            *place = 3 * (at as u8 % 16 / 4) + source;
        }
    }
    // SAFETY: 32 bytes.
    let places = unsafe { _mm256_loadu_si256(places.as_ptr().cast::<__m256i>()) };
    let (zero, factor, half) = (_mm256_setzero_si256(), _mm256_set1_epi16(255), _mm256_set1_epi16(256));
    let scaled = |wide| _mm256_srli_epi16::<9>(_mm256_add_epi16(_mm256_mullo_epi16(wide, factor), half));

    let mut done = 0;
    while samples.len() >= 3 * done + 28 && line.len() >= 4 * (done + PIXELS) {
        let from = samples[3 * done..3 * done + 28].as_ptr();
        // SAFETY: 28 bytes: 16 from offset 0, and 16 from offset 12.
        let (low, high) =
            unsafe { (_mm_loadu_si128(from.cast::<__m128i>()), _mm_loadu_si128(from.add(12).cast::<__m128i>())) };
        let bytes = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), places);
        let bytes =
            _mm256_packus_epi16(scaled(_mm256_unpacklo_epi8(bytes, zero)), scaled(_mm256_unpackhi_epi8(bytes, zero)));
        let into = line[4 * done..4 * (done + PIXELS)].as_mut_ptr();
        // SAFETY: 32 bytes.
        unsafe { _mm256_storeu_si256(into.cast::<__m256i>(), bytes) };
        done += PIXELS;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_as_by_division() {
        for sample in 0..=u8::MAX {
            assert_eq!(scale_to_127(sample), (f64::from(sample) * 127.0 / 255.0 + 0.5).floor() as u8);
        }
    }

    #[test]
    fn groups_are_as_pixel_by_pixel() {
        for sources in
            [[Some(2), Some(1), Some(0), None], [None, Some(0), Some(1), Some(2)], [None, None, Some(1), None]]
        {
            for width in 0..70_usize {
                let samples: Vec<u8> = (0..3 * width).map(|n| (n * 101 % 256) as u8).collect();
                let mut line = vec![0xee; 4 * width];
                let done = pixels(sources, &samples, &mut line);
                assert!(done <= width);
                let pixel = |pixel: &[u8]| {
                    sources.map(|source| source.map_or(0, |source| scale_to_127(pixel[source as usize])))
                };
                let mut expected: Vec<u8> = samples.chunks(3).take(done).flat_map(pixel).collect();
                expected.resize(4 * width, 0xee);
                assert_eq!(line, expected, "{width}");
            }
        }
    }
}
