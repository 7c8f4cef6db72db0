// SPDX-License-Identifier: MIT OR Apache-2.0

//! Plain loops.

use super::super::rows::Rows;
use crate::cdp::operation::REACH;
use crate::lut::cdp::vector::float::{outside as uncertain, round, Floats};
use crate::lut::cdp::vector::{CLASSES, WIDTH};
use crate::num::plain;

vectorised! {
    /// The sums of `2 * reach + 1` squares around each value but the first and last [`REACH`]: squares and sums in fp32,
    /// each pair of neighbours added before it joins the sum.
    ///
    /// The squares of fp17 numbers and sums of nine of them are far from the ends of fp32's range, where the hardware's
    /// arithmetic differs from the processor's.
    pub(in super::super) fn windows(reach: usize, values: &[f32], squares: &mut [f32], sums: &mut [f32]) {
        for (square, &value) in squares.iter_mut().zip(values) {
            *square = value * value;
        }
        let middle = &squares[REACH..];
        for (((sum, &middle), &before), &after) in
            sums.iter_mut().zip(middle).zip(&squares[REACH - 1..]).zip(&squares[REACH + 1..])
        {
            *sum = (before + after) + middle;
        }
        for distance in 2..=reach {
            let (before, after) = (&squares[REACH - distance..], &squares[REACH + distance..]);
            for ((sum, &before), &after) in sums.iter_mut().zip(before).zip(after) {
                *sum += before + after;
            }
        }
    }
}

vectorised! {
    /// Takes atoms of `N` elements, without NaN where `flush` is set.
    pub(in super::super) fn take(rows: Rows, surface: usize, flush: bool, atoms: &[u8], raw: &mut [u16]) {
        #[inline(always)]
        fn all<const N: usize>(rows: Rows, surface: usize, flush: bool, atoms: &[u8], raw: &mut [u16]) {
            let atoms = atoms.as_chunks::<2>().0.as_chunks::<N>().0;
            for (raw, atom) in rows.surface_mut(raw, surface).zip(atoms) {
                for (raw, &bytes) in raw.iter_mut().zip(atom) {
                    let bits = u16::from_le_bytes(bytes);
                    *raw = if flush & (bits & 0x7fff > 0x7c00) { 0 } else { bits };
                }
            }
        }
        match rows.atoms.elements() {
            16 => all::<16>(rows, surface, flush, atoms, raw),
            8 => all::<8>(rows, surface, flush, atoms, raw),
            _ => all::<4>(rows, surface, flush, atoms, raw),
        }
    }
}

vectorised! {
    /// Widens elements; true if one is infinite or NaN.
    pub(in super::super) fn widen(raw: &[u16], values: &mut [f32], special: &mut bool) {
        let mut found = false;
        for (value, &bits) in values.iter_mut().zip(raw) {
            found |= bits & 0x7c00 == 0x7c00;
            *value = f32::from_bits(plain::widen_finite(bits));
        }
        *special = found;
    }
}

vectorised! {
    /// The results of all sums; those that are not certain are marked.
    pub(in super::super) fn results(
        lookup: &Floats,
        exponent: bool,
        skip_multiply: bool,
        operands: (&[f32], &[f32]),
        results: &mut [u16],
        odd: &mut [bool],
        counts: &mut [u32; CLASSES],
    ) {
        #[inline(always)]
        fn all<const EXPONENT: bool>(
            lookup: &Floats,
            skip_multiply: bool,
            (sums, values): (&[f32], &[f32]),
            results: &mut [u16],
            odd: &mut [bool],
            counts: &mut [u32; CLASSES],
        ) {
            let mut classes = [0u32; CLASSES];
            let (results, odd) = (results.as_chunks_mut::<WIDTH>().0, odd.as_chunks_mut::<WIDTH>().0);
            let (sums, values) = (sums.as_chunks::<WIDTH>().0, values.as_chunks::<WIDTH>().0);
            for (((results, odd), sums), values) in results.iter_mut().zip(odd).zip(sums).zip(values) {
                let answers = lookup.get::<EXPONENT>(sums);
                let mut again = answers.odd;
                for i in 0..WIDTH {
                    let product = round(answers.factors[i] * values[i]);
                    again[i] |= (product != 0.0) & uncertain(product) & !skip_multiply;
                    let product = if skip_multiply { answers.factors[i] } else { product };
                    results[i] = plain::narrow(product.to_bits());
                }
                for (class, count) in classes.iter_mut().enumerate() {
                    let counts = |i: usize| u32::from((answers.classes[i] == class as u32) & !again[i]);
                    *count += (0..WIDTH).map(counts).sum::<u32>();
                }
                *odd = again;
            }
            for (count, class) in counts.iter_mut().zip(classes) {
                *count = count.wrapping_add(class);
            }
        }
        if exponent {
            all::<true>(lookup, skip_multiply, operands, results, odd, counts);
        } else {
            all::<false>(lookup, skip_multiply, operands, results, odd, counts);
        }
    }
}
