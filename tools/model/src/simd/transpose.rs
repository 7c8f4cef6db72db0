// SPDX-License-Identifier: MIT OR Apache-2.0

//! Transposition of matrices of bytes and of 16-bit elements, square by square.
//!
//! One round interleaves each row of a square with the row half a square below it, which rotates the combined bits of row and
//! column index by one. After as many rounds as a row index has bits, rows and columns are exchanged. x86-64 and aarch64 have
//! instructions that give the lower and the upper part of two interleaved rows.

/// Rows and columns of a square.
const SQUARE: usize = 16;

/// Transposes a square: element `column` of row `row` becomes element `row` of row `column`.
fn transpose_square<T: Copy + Default>(mut square: [[T; SQUARE]; SQUARE]) -> [[T; SQUARE]; SQUARE] {
    for _ in 0..SQUARE.ilog2() {
        let mut next = [[T::default(); SQUARE]; SQUARE];
        for row in 0..SQUARE / 2 {
            let (upper, lower) = (square[row], square[row + SQUARE / 2]);
            for column in 0..SQUARE / 2 {
                next[2 * row][2 * column] = upper[column];
                next[2 * row][2 * column + 1] = lower[column];
                next[2 * row + 1][2 * column] = upper[column + SQUARE / 2];
                next[2 * row + 1][2 * column + 1] = lower[column + SQUARE / 2];
            }
        }
        square = next;
    }
    square
}

/// An element of a matrix.
pub(crate) trait Element: Copy + Default {
    const BYTES: usize;
    /// Transposes the square at the beginning of `from`, a row every `from_stride` bytes, into rows every `to_stride`
    /// bytes of `to`.
    fn square(from: &[u8], from_stride: usize, to: &mut [u8], to_stride: usize) {
        edge::<Self>([SQUARE; 2], from, from_stride, to, to_stride);
    }
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
}

impl Element for u8 {
    const BYTES: usize = 1;
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    fn square(from: &[u8], from_stride: usize, to: &mut [u8], to_stride: usize) {
        registers::square8(from, from_stride, to, to_stride);
    }
    fn load(bytes: &[u8]) -> Self {
        bytes[0]
    }
    fn store(self, bytes: &mut [u8]) {
        bytes[0] = self;
    }
}

impl Element for u16 {
    const BYTES: usize = 2;
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    fn square(from: &[u8], from_stride: usize, to: &mut [u8], to_stride: usize) {
        registers::square16(from, from_stride, to, to_stride);
    }
    fn load(bytes: &[u8]) -> Self {
        Self::from_le_bytes([bytes[0], bytes[1]])
    }
    fn store(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }
}

/// Transposes the rows and columns in `size`, at most a square.
fn edge<T: Element>([high, wide]: [usize; 2], from: &[u8], from_stride: usize, to: &mut [u8], to_stride: usize) {
    let mut square = [[T::default(); SQUARE]; SQUARE];
    for (at, square) in square.iter_mut().take(high).enumerate() {
        let bytes = &from[at * from_stride..][..wide * T::BYTES];
        for (to, from) in square.iter_mut().zip(bytes.chunks_exact(T::BYTES)) {
            *to = T::load(from);
        }
    }
    let square = transpose_square(square);
    for (at, square) in square.iter().take(wide).enumerate() {
        let bytes = &mut to[at * to_stride..][..high * T::BYTES];
        for (to, from) in bytes.chunks_exact_mut(T::BYTES).zip(square) {
            from.store(to);
        }
    }
}

/// Transposes `rows` rows of `columns` elements, a row every `from_stride` bytes, into rows every `to_stride` bytes.
pub(crate) fn transpose<T: Element>(
    [rows, columns]: [usize; 2],
    from: &[u8],
    from_stride: usize,
    to: &mut [u8],
    to_stride: usize,
) {
    for row in (0..rows).step_by(SQUARE) {
        for column in (0..columns).step_by(SQUARE) {
            let (high, wide) = ((rows - row).min(SQUARE), (columns - column).min(SQUARE));
            let from = &from[row * from_stride + column * T::BYTES..];
            let to = &mut to[column * to_stride + row * T::BYTES..];
            if [high, wide] == [SQUARE; 2] {
                T::square(from, from_stride, to, to_stride);
            } else {
                edge::<T>([high, wide], from, from_stride, to, to_stride);
            }
        }
    }
}

/// Squares in registers of 16 bytes.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod registers {
    use super::SQUARE;

    #[cfg(target_arch = "aarch64")]
    use neon::{both16, both8, load, store, Register};
    #[cfg(target_arch = "x86_64")]
    use sse2::{both16, both8, load, store, Register};

    /// As [`super::Element::square`], of bytes.
    pub(super) fn square8(from: &[u8], from_stride: usize, to: &mut [u8], to_stride: usize) {
        let mut rows: [Register; SQUARE] = std::array::from_fn(|row| load(&from[row * from_stride..]));
        for _ in 0..SQUARE.ilog2() {
            let old = rows;
            for row in 0..SQUARE / 2 {
                (rows[2 * row], rows[2 * row + 1]) = both8(old[row], old[row + SQUARE / 2]);
            }
        }
        for (row, value) in rows.into_iter().enumerate() {
            store(&mut to[row * to_stride..], value);
        }
    }

    /// As [`super::Element::square`], of pairs of bytes: four squares of eight.
    pub(super) fn square16(from: &[u8], from_stride: usize, to: &mut [u8], to_stride: usize) {
        const HALF: usize = SQUARE / 2;
        for (row, column) in [(0, 0), (0, HALF), (HALF, 0), (HALF, HALF)] {
            let from = &from[row * from_stride + 2 * column..];
            let to = &mut to[column * to_stride + 2 * row..];
            let mut rows: [Register; HALF] = std::array::from_fn(|row| load(&from[row * from_stride..]));
            for _ in 0..HALF.ilog2() {
                let old = rows;
                for row in 0..HALF / 2 {
                    (rows[2 * row], rows[2 * row + 1]) = both16(old[row], old[row + HALF / 2]);
                }
            }
            for (row, value) in rows.into_iter().enumerate() {
                store(&mut to[row * to_stride..], value);
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    mod sse2 {
        use std::arch::x86_64::*;

        pub(super) type Register = __m128i;

        /// Sixteen bytes.
        #[inline]
        pub(super) fn load(bytes: &[u8]) -> Register {
            let bytes = &bytes[..16];
            // SAFETY: every x86-64 has SSE2; 16 bytes.
            unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
        }

        #[inline]
        pub(super) fn store(bytes: &mut [u8], value: Register) {
            let bytes = &mut bytes[..16];
            // SAFETY: as above.
            unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), value) };
        }

        /// The bytes of both, alternating.
        #[inline]
        #[allow(unused_unsafe)] // safe in newer compilers
        pub(super) fn both8(upper: Register, lower: Register) -> (Register, Register) {
            // SAFETY: every x86-64 has SSE2.
            unsafe { (_mm_unpacklo_epi8(upper, lower), _mm_unpackhi_epi8(upper, lower)) }
        }

        /// The pairs of bytes of both, alternating.
        #[inline]
        #[allow(unused_unsafe)] // safe in newer compilers
        pub(super) fn both16(upper: Register, lower: Register) -> (Register, Register) {
            // SAFETY: every x86-64 has SSE2.
            unsafe { (_mm_unpacklo_epi16(upper, lower), _mm_unpackhi_epi16(upper, lower)) }
        }
    }

    #[cfg(target_arch = "aarch64")]
    mod neon {
        use std::arch::aarch64::*;

        pub(super) type Register = uint8x16_t;

        /// Sixteen bytes.
        #[inline]
        pub(super) fn load(bytes: &[u8]) -> Register {
            let bytes = &bytes[..16];
            // SAFETY: every aarch64 has NEON; 16 bytes.
            unsafe { vld1q_u8(bytes.as_ptr()) }
        }

        #[inline]
        pub(super) fn store(bytes: &mut [u8], value: Register) {
            let bytes = &mut bytes[..16];
            // SAFETY: as above.
            unsafe { vst1q_u8(bytes.as_mut_ptr(), value) };
        }

        /// The bytes of both, alternating.
        #[inline]
        pub(super) fn both8(upper: Register, lower: Register) -> (Register, Register) {
            // SAFETY: every aarch64 has NEON.
            unsafe { (vzip1q_u8(upper, lower), vzip2q_u8(upper, lower)) }
        }

        /// The pairs of bytes of both, alternating.
        #[inline]
        pub(super) fn both16(upper: Register, lower: Register) -> (Register, Register) {
            // SAFETY: every aarch64 has NEON.
            unsafe {
                let (upper, lower) = (vreinterpretq_u16_u8(upper), vreinterpretq_u16_u8(lower));
                let (low, high) = (vzip1q_u16(upper, lower), vzip2q_u16(upper, lower));
                (vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::bytes::noise;

    fn check<T: Element>([rows, columns]: [usize; 2]) {
        let (from_stride, to_stride) = (columns * T::BYTES + 3, rows * T::BYTES + 5);
        let from = noise(rows as u64, rows * from_stride);
        let mut to = vec![0; columns * to_stride];
        transpose::<T>([rows, columns], &from, from_stride, &mut to, to_stride);
        for row in 0..rows {
            for column in 0..columns {
                let (at, transposed) = (row * from_stride + column * T::BYTES, column * to_stride + row * T::BYTES);
                assert_eq!(
                    from[at..at + T::BYTES],
                    to[transposed..transposed + T::BYTES],
                    "{rows}x{columns}: {row}, {column}"
                );
            }
        }
    }

    #[test]
    fn rows_become_columns() {
        for size in [[1, 1], [16, 16], [32, 112], [33, 47], [15, 64], [48, 17]] {
            check::<u8>(size);
            check::<u16>(size);
        }
    }
}
