// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loops for all methods and precisions ([`Method`]), compiled for AVX-512, for AVX2 and for every processor.
//!
//! Each input line is reduced along its windows once, into one of as many line buffers as the window has lines. An
//! output line then combines the buffers that its windows cover. Where the order of elements does not matter, the
//! columns of the windows are reduced first.

use super::lines::{slot, LineBuffers, Lines, OutputLine, Rows};
use crate::memory::Stop;
use crate::pdp::setup::{Axis, Setup};
use crate::simd::aligned::Plain;
use nvdla_uapi::isa::Isa;

/// Bytes of an atom for which methods have specialised code.
pub(super) const ATOM: usize = 32;

/// An element's bytes in memory.
pub(super) trait Element: Copy {
    fn of(line: &[u8]) -> &[Self];
    fn of_mut(line: &mut [u8]) -> &mut [Self];
}

impl<const BYTES: usize> Element for [u8; BYTES] {
    #[inline(always)]
    fn of(line: &[u8]) -> &[Self] {
        line.as_chunks().0
    }
    #[inline(always)]
    fn of_mut(line: &mut [u8]) -> &mut [Self] {
        line.as_chunks_mut().0
    }
}

/// A pooling method on one element.
pub(super) trait Method: Sync {
    /// An element in memory.
    type Element: Element;
    /// An element during the reduction of a window.
    type Value: Plain;
    /// Whether elements may be reduced in any order: then columns of a window come first, which neighbouring windows share.
    const ANY_ORDER: bool = false;
    fn load(&self, element: Self::Element) -> Self::Value;
    /// How far an element is from the ordinary ones for which the method is valid.
    #[inline(always)]
    fn mark(_: Self::Element) -> u16 {
        0
    }
    /// Adds the next element to a row.
    fn along(&self, row: Self::Value, next: Self::Value) -> Self::Value;
    /// Completes a row of which `padded` columns are outside the input.
    #[inline(always)]
    fn pad_row(&self, row: Self::Value, _padded: usize) -> Self::Value {
        row
    }
    /// Adds the next row to a window.
    #[inline(always)]
    fn down(&self, sum: Self::Value, row: Self::Value) -> Self::Value {
        self.along(sum, row)
    }
    /// Completes a window of which `padded` rows are outside the input.
    fn store(&self, sum: Self::Value, padded: usize) -> Self::Element;
    /// As [`Self::store`], for a line.
    #[inline(always)]
    fn store_line(&self, sums: &[Self::Value], padded: usize, line: &mut [Self::Element]) {
        for (&sum, element) in sums.iter().zip(line) {
            *element = self.store(sum, padded);
        }
    }
    /// Computes a line from the columns' results if there is specialised code for atoms of 32 bytes. Returns whether there is.
    fn end(&self, _isa: Isa, _axis: &Axis, _columns: &[Self::Value], _line: &mut [u8]) -> bool {
        false
    }
}

/// A method on atoms of `LANES` elements.
pub(super) struct Portable<M, const LANES: usize>(pub(super) M);

impl<M: Method, const LANES: usize> Lines for Portable<M, LANES> {
    const PARALLEL: usize = if cfg!(test) { 1 << 8 } else { 1 << 17 };

    fn line(&self, buffers: &mut LineBuffers, at: OutputLine<'_>, line: &mut [u8]) -> Result<usize, Stop> {
        self.make(&mut buffers.first, at, line)?;
        Ok(0)
    }
}

impl<M: Method, const LANES: usize> Portable<M, LANES> {
    /// Computes a line. Returns the largest mark of the elements that its windows cover.
    pub(super) fn make(&self, rows: &mut Rows, at: OutputLine<'_>, line: &mut [u8]) -> Result<u16, Stop> {
        let Self(method) = self;
        let axis = &at.task.part.axis;
        let Setup { vertical, isa, .. } = *at.task.setup;
        let length = axis.output * LANES;
        let loaded = rows.loaded.get::<M::Value>(axis.input * LANES);
        let sums = rows.sums.get::<M::Value>(length);
        let covered = at.rows();
        let mut mark = 0;
        if M::ANY_ORDER {
            for row in covered.clone() {
                let bytes = at.row(row)?;
                let fill = if row == covered.start { load::<M> } else { load_along::<M> };
                mark = fill(isa, method, bytes, loaded).max(mark);
            }
            if at.task.setup.atoms.bytes() != ATOM || !method.end(isa, axis, loaded, line) {
                across::<M, LANES>(isa, method, axis, loaded, sums);
                store(isa, method, sums, at.outside(), line);
            }
            return Ok(mark);
        }
        let reduced = rows.reduced.get::<M::Value>(vertical.kernel.min(vertical.input) * length);
        for row in covered.start.max(rows.held.end)..covered.end {
            let (bytes, slot) = (at.row(row)?, slot(&at, row));
            rows.marks[slot] = load(isa, method, bytes, loaded);
            across::<M, LANES>(isa, method, axis, loaded, &mut reduced[slot * length..][..length]);
        }
        rows.held = covered.clone();
        for row in covered.clone() {
            let slot = slot(&at, row);
            let reduced = &reduced[slot * length..][..length];
            mark = rows.marks[slot].max(mark);
            if row == covered.start {
                sums.copy_from_slice(reduced);
            } else {
                down(isa, method, reduced, sums);
            }
        }
        store(isa, method, sums, at.outside(), line);
        Ok(mark)
    }
}

// The loops run over whole lines in memory. The compiler would split sums in local arrays into single values, and not combine
// them to vectors again.

vectorised! {
    /// Loads an input line. Returns the largest mark.
    fn load<M: Method>(method: &M, line: &[u8], loaded: &mut [M::Value]) -> u16 {
        let mut mark = 0;
        for (value, &element) in loaded.iter_mut().zip(M::Element::of(line)) {
            *value = method.load(element);
            mark = M::mark(element).max(mark);
        }
        mark
    }
}

vectorised! {
    /// Adds an input line to others, element by element. Returns the largest mark.
    fn load_along<M: Method>(method: &M, line: &[u8], loaded: &mut [M::Value]) -> u16 {
        let mut mark = 0;
        for (value, &element) in loaded.iter_mut().zip(M::Element::of(line)) {
            *value = method.along(*value, method.load(element));
            mark = M::mark(element).max(mark);
        }
        mark
    }
}

vectorised! {
    /// Reduces a line along its windows.
    fn across<M: Method, const LANES: usize>(
        method: &M,
        axis: &Axis,
        loaded: &[M::Value],
        row: &mut [M::Value],
    ) {
        let Axis { input, output, kernel, stride, pad } = *axis;
        // Each window starts with its first element that is inside, and then takes the next ones.
        for (x, out) in row.chunks_exact_mut(LANES).enumerate() {
            out.copy_from_slice(&loaded[axis.window(x).0 * LANES..][..LANES]);
        }
        for step in 1..kernel {
            // The windows for which this step is inside the input and is not its first element: 1 <= x * stride + step - pad <
            // input.
            let first = (pad + 1).saturating_sub(step).div_ceil(stride);
            let last = (input + pad).saturating_sub(step).div_ceil(stride).min(output);
            if first >= last {
                continue;
            }
            let next = &loaded[(first * stride + step - pad) * LANES..];
            let row = &mut row[first * LANES..last * LANES];
            if stride == 1 {
                for (value, &next) in row.iter_mut().zip(next) {
                    *value = method.along(*value, next);
                }
            } else {
                for (row, next) in row.chunks_exact_mut(LANES).zip(next.chunks(stride * LANES)) {
                    for (value, &next) in row.iter_mut().zip(&next[..LANES]) {
                        *value = method.along(*value, next);
                    }
                }
            }
        }
        for (x, out) in row.chunks_exact_mut(LANES).enumerate() {
            let (left, right) = axis.window(x);
            if right - left != kernel {
                for value in out {
                    *value = method.pad_row(*value, kernel - (right - left));
                }
            }
        }
    }
}

vectorised! {
    /// Adds a row's results to those of the rows above it.
    fn down<M: Method>(method: &M, row: &[M::Value], sums: &mut [M::Value]) {
        for (sum, &row) in sums.iter_mut().zip(row) {
            *sum = method.down(*sum, row);
        }
    }
}

vectorised! {
    /// Ends the windows of an output line.
    fn store<M: Method>(method: &M, sums: &[M::Value], padded: usize, line: &mut [u8]) {
        method.store_line(sums, padded, M::Element::of_mut(line));
    }
}
