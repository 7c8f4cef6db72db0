// SPDX-License-Identifier: MIT OR Apache-2.0

//! Plain loops.

use super::super::rows::Rows;
use crate::lut::cdp::vector::int::Ints;
use crate::lut::cdp::vector::{CLASSES, WIDTH};

vectorised! {
    /// Takes atoms of `N` elements, less the offset of the input converter: modulo 2^16, and whether that is less than there
    /// is.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn take(rows: Rows, surface: usize, offset: i16, atoms: &[u8], values: &mut [i16], over: &mut bool) {
        #[inline(always)]
        fn all<const N: usize>(
            rows: Rows,
            surface: usize,
            offset: i16,
            atoms: &[u8],
            values: &mut [i16],
            over: &mut bool,
        ) {
            let atoms = atoms.as_chunks::<2>().0.as_chunks::<N>().0;
            let mut signs = 0;
            for (values, atom) in rows.surface_mut(values, surface).zip(atoms) {
                for (value, &bytes) in values.iter_mut().zip(atom) {
                    let element = i16::from_le_bytes(bytes);
                    *value = element.wrapping_sub(offset);
                    signs |= (element ^ offset) & (element ^ *value);
                }
            }
            *over |= signs < 0;
        }
        match rows.atoms.elements() {
            16 => all::<16>(rows, surface, offset, atoms, values, over),
            8 => all::<8>(rows, surface, offset, atoms, values, over),
            _ => all::<4>(rows, surface, offset, atoms, values, over),
        }
    }
}

vectorised! {
    /// The values that [`take`] made of elements.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn restore(offset: i16, short: &[i16], values: &mut [i32]) {
        for (value, &short) in values.iter_mut().zip(short) {
            *value = i32::from(short.wrapping_add(offset)) - i32::from(offset);
        }
    }
}

vectorised! {
    /// Widens atoms of `N` elements.
    pub(super) fn widen(rows: Rows, surface: usize, atoms: &[u8], values: &mut [i32]) {
        #[inline(always)]
        fn all<const N: usize>(rows: Rows, surface: usize, atoms: &[u8], values: &mut [i32]) {
            let atoms = atoms.as_chunks::<2>().0.as_chunks::<N>().0;
            for (values, atom) in rows.surface_mut(values, surface).zip(atoms) {
                for (value, &bytes) in values.iter_mut().zip(atom) {
                    *value = i16::from_le_bytes(bytes).into();
                }
            }
        }
        match rows.atoms.elements() {
            16 => all::<16>(rows, surface, atoms, values),
            8 => all::<8>(rows, surface, atoms, values),
            _ => all::<4>(rows, surface, atoms, values),
        }
    }
}

vectorised! {
    /// The factors of all sums; those that [`Ints`] does not have are marked.
    pub(super) fn factors(lookup: &Ints, exponent: bool, sums: &[i64], factors: &mut [i16], odd: &mut [bool], counts: &mut [u32; CLASSES]) {
        #[inline(always)]
        fn all<const EXPONENT: bool>(
            lookup: &Ints,
            sums: &[i64],
            factors: &mut [i16],
            odd: &mut [bool],
            counts: &mut [u32; CLASSES],
        ) {
            let mut classes = [0u32; CLASSES];
            let (factors, odd) = (factors.as_chunks_mut::<WIDTH>().0, odd.as_chunks_mut::<WIDTH>().0);
            for ((factors, odd), sums) in factors.iter_mut().zip(odd).zip(sums.as_chunks::<WIDTH>().0) {
                let answers = lookup.get::<EXPONENT>(sums);
                for (class, count) in classes.iter_mut().enumerate() {
                    let counts = |i: usize| u32::from((answers.classes[i] == class as u32) & !answers.odd[i]);
                    *count += (0..WIDTH).map(counts).sum::<u32>();
                }
                *factors = answers.factors.map(|factor| factor as i16);
                *odd = answers.odd;
            }
            for (count, class) in counts.iter_mut().zip(classes) {
                *count = count.wrapping_add(class);
            }
        }
        if exponent {
            all::<true>(lookup, sums, factors, odd, counts);
        } else {
            all::<false>(lookup, sums, factors, odd, counts);
        }
    }
}
