// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rows: all channels of a position, one after another, as windows need them.

use nvdla_uapi::layout::feature::Atoms;

use super::super::operation::{Operation, REACH};
use crate::conv::fast::aligned::{Aligned, Plain};

/// Elements that loops take at once; a row is filled up to whole steps.
pub(super) const STEP: usize = 32;
/// Zeros before each row, and after the last one.
const MARGIN: usize = STEP;
const _: () = assert!(MARGIN >= REACH);

/// The form of rows in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// How many there are at most.
    pub(super) count: usize,
    /// Elements of the cube, padding lanes of its last surface included.
    pub(super) elements: usize,
    /// Elements that are no padding.
    pub(super) channels: usize,
    pub(super) atoms: Atoms,
}

impl Rows {
    pub(super) fn new(operation: &Operation, count: usize) -> Self {
        let Operation { elements, channels, .. } = *operation;
        Self { count, elements, channels, atoms: operation.source.cube.atoms() }
    }

    /// Elements of a row in whole steps, which is its size where rows have no margins.
    pub(super) const fn steps(&self) -> usize {
        self.elements.next_multiple_of(STEP)
    }

    /// From row to row where they have margins.
    pub(super) const fn stride(&self) -> usize {
        MARGIN + self.steps()
    }

    /// The elements of all rows with margins.
    pub(super) const fn room(&self) -> usize {
        self.count * self.stride() + MARGIN
    }

    /// So many rows with margins.
    pub(super) fn all<'v, T: Plain>(&self, values: &'v mut Aligned) -> &'v mut [T] {
        values.get(self.room())
    }

    /// As [`Self::all`], of zeros.
    pub(super) fn clear<T: Plain + Default>(&self, values: &mut Aligned) {
        self.all(values).fill(T::default());
    }

    /// Resizes `values` to all rows without margins, with any contents.
    pub(super) fn reserve<T: Copy + Default>(&self, values: &mut Vec<T>) {
        values.resize(self.count * self.steps(), T::default());
    }

    /// A row with margins, from [`REACH`] elements before its first to [`REACH`] after its last step.
    #[inline]
    pub(super) fn around<'v, T>(&self, values: &'v [T], row: usize) -> &'v [T] {
        &values[row * self.stride() + MARGIN - REACH..][..self.steps() + 2 * REACH]
    }

    /// The steps of a row with margins.
    #[inline]
    pub(super) fn inner<'v, T>(&self, values: &'v [T], row: usize) -> &'v [T] {
        &values[row * self.stride() + MARGIN..][..self.steps()]
    }

    /// The steps of a row without.
    #[inline]
    pub(super) fn bare<'v, T>(&self, values: &'v [T], row: usize) -> &'v [T] {
        &values[row * self.steps()..][..self.steps()]
    }

    /// As [`Self::bare`].
    #[inline]
    pub(super) fn bare_mut<'v, T>(&self, values: &'v mut [T], row: usize) -> &'v mut [T] {
        &mut values[row * self.steps()..][..self.steps()]
    }

    /// The steps of all rows with margins.
    pub(super) fn inner_mut<'v, T>(&self, values: &'v mut [T]) -> impl Iterator<Item = &'v mut [T]> {
        let steps = self.steps();
        values.chunks_exact_mut(self.stride()).take(self.count).map(move |row| &mut row[MARGIN..][..steps])
    }

    /// The places of a surface's atoms in rows with margins.
    pub(super) fn surface_mut<'v, T>(
        &self,
        values: &'v mut [T],
        surface: usize,
    ) -> impl Iterator<Item = &'v mut [T]> + use<'v, T> {
        let (first, lanes) = (MARGIN + self.atoms.channel(surface, 0), self.atoms.elements());
        values.chunks_exact_mut(self.stride()).map(move |row| &mut row[first..][..lanes])
    }

    /// Makes padding lanes zero.
    pub(super) fn blank<T: Copy + Default>(&self, values: &mut [T]) {
        let Self { channels, elements, .. } = *self;
        if channels < elements {
            self.inner_mut(values).for_each(|row| row[channels..elements].fill(T::default()));
        }
    }

    /// Moves a surface's atoms from rows of bytes without margins to where they lie in memory.
    pub(super) fn store(&self, rows: &[u8], surface: usize, into: &mut [u8]) {
        let bytes = self.atoms.bytes();
        let first = self.atoms.span(surface);
        let stride = rows.len() / self.count;
        match bytes {
            32 => scatter::<32>(&rows[first..], stride, into),
            16 => scatter::<16>(&rows[first..], stride, into),
            _ => scatter::<8>(&rows[first..], stride, into),
        }
    }
}

/// Collects pieces of `N` bytes that lie `stride` apart.
fn scatter<const N: usize>(from: &[u8], stride: usize, into: &mut [u8]) {
    for (number, into) in into.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        into.copy_from_slice(&from[number * stride..][..N]);
    }
}
