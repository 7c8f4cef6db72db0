// SPDX-License-Identifier: MIT OR Apache-2.0

//! Averages of integers.
//!
//! Sums that may wrap can be updated: when the window moves down, the line that leaves is subtracted from the sums of the columns
//! and the line that enters is added. The window's sum is updated in the same way along a line. The cost per element does not
//! depend on the size of the window.
//!
//! The sums of an atom fill one register: 32 sums of 16 bits or 16 of 32.
//!
//! Per atom, the columns take four instructions. At stride 1, int8 with small factors takes 14 more, and int16 takes 22 more,
//! half of which are the two roundings of 64-bit products.

use std::arch::asm;
use std::arch::x86_64::*;

use super::super::factors::{Average, Factors};
use crate::memory::Stop;
use crate::pdp::fast::lines::{OutputLine, Rows};
use crate::pdp::setup::Axis;

/// Bytes of an atom.
const ATOM: usize = 32;
/// 32-bit words of a column's sums.
const COLUMN: usize = 16;

/// How sums are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Scaling {
    /// In 16 bits, by factors below one half.
    Small,
    /// In 16 bits, by factors below one.
    Below,
    /// In 32 bits, by any factors.
    Wide,
}

impl Scaling {
    /// The method for these factors; `None` if there is none.
    pub(in super::super) fn new<M: Average>(factors: &Factors) -> Option<Self> {
        match factors.width.max(factors.height) {
            _ if M::SHORT => Some(Self::Wide),
            0..=0x7fff => Some(Self::Small),
            0x8000..=0xffff => Some(Self::Below),
            _ => None,
        }
    }
}

/// Computes a line of the output. The machine has AVX-512.
pub(in super::super) fn make<M: Average>(
    factors: &Factors,
    scaling: Scaling,
    rows: &mut Rows,
    at: OutputLine<'_>,
    line: &mut [u8],
) -> Result<(), Stop> {
    let axis = &at.task.part.axis;
    let columns = rows.sums.get::<i32>(axis.input * COLUMN);
    let covered = at.rows();
    if covered.start >= rows.held.end {
        columns.fill(0);
        rows.held = covered.start..covered.start;
    }
    let mut leaving = rows.held.start..covered.start;
    let mut entering = rows.held.end..covered.end;
    loop {
        match (leaving.next(), entering.next()) {
            (None, None) => break,
            // SAFETY: the caller has found AVX-512.
            (Some(old), None) => unsafe { follow::<M, true, false>(at.row(old)?, &[], columns) },
            // SAFETY: as above.
            (None, Some(new)) => unsafe { follow::<M, false, true>(&[], at.row(new)?, columns) },
            // SAFETY: as above.
            (Some(old), Some(new)) => unsafe { follow::<M, true, true>(at.row(old)?, at.row(new)?, columns) },
        }
    }
    rows.held = covered.clone();
    let ending = Ending {
        columns: factors.columns.map(|column| column.wrapping_mul(covered.len() as i32)),
        lines: factors.lines[at.outside()],
        factors: [factors.width, factors.height],
    };
    match scaling {
        // SAFETY: as above.
        Scaling::Small => unsafe { finish::<M, true>(axis, &ending, columns, line) },
        // SAFETY: as above.
        Scaling::Below | Scaling::Wide => unsafe { finish::<M, false>(axis, &ending, columns, line) },
    }
    Ok(())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add<M: Average>(a: __m512i, b: __m512i) -> __m512i {
    if M::SHORT {
        _mm512_add_epi32(a, b)
    } else {
        _mm512_add_epi16(a, b)
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn subtract<M: Average>(a: __m512i, b: __m512i) -> __m512i {
    if M::SHORT {
        _mm512_sub_epi32(a, b)
    } else {
        _mm512_sub_epi16(a, b)
    }
}

/// The elements of an atom as wide as sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn widen<M: Average>(atom: &[u8]) -> __m512i {
    let atom = &atom[..ATOM];
    // SAFETY: 32 bytes.
    let atom = unsafe { _mm256_loadu_si256(atom.as_ptr().cast()) };
    if M::SHORT {
        _mm512_cvtepi16_epi32(atom)
    } else {
        _mm512_cvtepi8_epi16(atom)
    }
}

/// The sums of the first column.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(columns: &[i32]) -> __m512i {
    let column = &columns[..COLUMN];
    // SAFETY: 16 words.
    unsafe { _mm512_loadu_si512(column.as_ptr().cast()) }
}

/// Subtracts an input line from the columns' sums (`LEAVES`) and adds one (`ENTERS`).
#[target_feature(enable = "avx512f,avx512bw")]
fn follow<M: Average, const LEAVES: bool, const ENTERS: bool>(leaving: &[u8], entering: &[u8], columns: &mut [i32]) {
    let (mut leaving, mut entering) = (leaving.chunks_exact(ATOM), entering.chunks_exact(ATOM));
    for column in columns.chunks_exact_mut(COLUMN) {
        let mut sums = load(column);
        if let (true, Some(atom)) = (ENTERS, entering.next()) {
            sums = add::<M>(sums, widen::<M>(atom));
        }
        if let (true, Some(atom)) = (LEAVES, leaving.next()) {
            sums = subtract::<M>(sums, widen::<M>(atom));
        }
        // SAFETY: 16 words.
        unsafe { _mm512_storeu_si512(column.as_mut_ptr().cast(), sums) };
    }
}

/// Ends the windows of an output line.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn finish<M: Average, const SMALL: bool>(axis: &Axis, ending: &Ending, columns: &[i32], line: &mut [u8]) {
    let constants = Constants::new::<M, SMALL>(ending);
    let of = |column: usize| &columns[column * COLUMN..];
    let mut sum = _mm512_setzero_si512();
    let (mut from, mut to) = (0, 0);
    let mut x = 0;
    let mut atoms = line.chunks_exact_mut(ATOM);
    while let Some(out) = atoms.next() {
        let (left, right) = axis.window(x);
        if left >= to {
            sum = _mm512_setzero_si512();
            (from, to) = (left, left);
        }
        for column in from..left {
            sum = subtract::<M>(sum, load(of(column)));
        }
        for column in to..right {
            sum = add::<M>(sum, load(of(column)));
        }
        (from, to) = (left, right);
        x += 1;
        let outside = axis.kernel - (right - left);
        let padded = ending.columns[outside].wrapping_add(ending.lines);
        constants.store::<M, SMALL>(sum, padding::<M>(padded), out);
        if axis.stride != 1 || outside != 0 {
            continue;
        }
        // After a window that is entirely inside the input, the next ones that are inside too: one column enters and one leaves.
        let padding = padding::<M>(padded);
        let whole = axis.input - right;
        let both = of(left).chunks_exact(COLUMN).zip(of(right).chunks_exact(COLUMN));
        for ((leaving, entering), out) in both.zip(atoms.by_ref().take(whole)) {
            sum = add::<M>(sum, subtract::<M>(load(entering), load(leaving)));
            constants.store::<M, SMALL>(sum, padding, out);
            x += 1;
        }
        let done = x - 1 - (left + axis.pad);
        (from, to) = (left + done, right + done);
    }
}

/// The conversion of a window's sum to an average.
#[derive(Clone, Copy, Debug)]
struct Ending {
    /// The value that this many padded columns add to all lines inside.
    columns: [i32; 8],
    /// What the lines outside add.
    lines: i32,
    /// Factors in 2^-16.
    factors: [u32; 2],
}

/// [`Ending`] in registers.
#[derive(Clone, Copy)]
struct Constants {
    factors: [__m512i; 2],
    half: __m512i,
}

impl Constants {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new<M: Average, const SMALL: bool>(ending: &Ending) -> Self {
        let factors = ending.factors;
        let factors = if M::SHORT {
            [_mm512_set1_epi64(factors[0].into()), _mm512_set1_epi64(factors[1].into())]
        } else {
            let double = u32::from(SMALL);
            [_mm512_set1_epi16((factors[0] << double) as i16), _mm512_set1_epi16((factors[1] << double) as i16)]
        };
        Self { factors, half: _mm512_set1_epi64(0x8000) }
    }

    /// Writes the averages of a window.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    fn store<M: Average, const SMALL: bool>(&self, sum: __m512i, padding: __m512i, out: &mut [u8]) {
        let total = add::<M>(sum, padding);
        let result = if M::SHORT { self.wide(total) } else { self.narrow::<SMALL>(total) };
        let out = &mut out[..ATOM];
        // SAFETY: 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), result) };
    }

    /// Sums of 16 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn narrow<const SMALL: bool>(&self, total: __m512i) -> __m256i {
        let [width, height] = self.factors;
        let magnitude = _mm512_abs_epi16(total);
        let magnitude = scale::<SMALL>(scale::<SMALL>(magnitude, width), height);
        let negative = _mm512_movepi16_mask(total);
        _mm512_cvtepi16_epi8(_mm512_mask_sub_epi16(magnitude, negative, _mm512_setzero_si512(), magnitude))
    }

    /// Sums of 32 bits. Their 64-bit products are computed separately for even and for odd elements.
    ///
    /// A sum has at most 64 elements and 15 paddings of 19 bits, and a factor is below two: a scaled sum fits 32 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    fn wide(&self, total: __m512i) -> __m256i {
        let [width, height] = self.factors;
        let even = _mm512_abs_epi32(total);
        let odd = _mm512_srli_epi64(even, 32);
        let even = self.product(_mm512_srli_epi64(self.product(even, width), 16), height);
        let odd = self.product(_mm512_srli_epi64(self.product(odd, width), 16), height);
        let both = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 16), _mm512_slli_epi64(odd, 16));
        let negative = _mm512_movepi32_mask(total);
        _mm512_cvtepi32_epi16(_mm512_mask_sub_epi32(both, negative, _mm512_setzero_si512(), both))
    }

    /// The products plus half of the unit after the shift.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn product(&self, values: __m512i, factors: __m512i) -> __m512i {
        _mm512_add_epi64(_mm512_mul_epu32(values, factors), self.half)
    }
}

/// What is added to each sum.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn padding<M: Average>(value: i32) -> __m512i {
    if M::SHORT {
        _mm512_set1_epi32(value)
    } else {
        _mm512_set1_epi16(value as i16)
    }
}

/// Magnitudes times a factor, rounded half up. A `SMALL` factor has been doubled: the high half has the bit below
/// the result, by which it is rounded.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn scale<const SMALL: bool>(magnitude: __m512i, factor: __m512i) -> __m512i {
    let high = high_half(magnitude, factor);
    if SMALL {
        return _mm512_srli_epi16(_mm512_add_epi16(high, _mm512_set1_epi16(1)), 1);
    }
    _mm512_add_epi16(high, _mm512_srli_epi16(_mm512_mullo_epi16(magnitude, factor), 15))
}

/// The high halves of products of 16 bits, written as the instruction. If the compiler sees that a factor is the same in every
/// iteration, it widens the factor before the loop and uses slower 32-bit multiplications.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn high_half(a: __m512i, b: __m512i) -> __m512i {
    let high;
    // SAFETY: the instruction reads and writes these registers only; it is one of AVX-512 BW.
    unsafe {
        asm!("vpmulhuw {}, {}, {}", lateout(zmm_reg) high, in(zmm_reg) a, in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags));
    }
    high
}
