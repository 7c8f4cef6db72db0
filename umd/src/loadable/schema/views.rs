// SPDX-License-Identifier: MIT OR Apache-2.0

//! Views of a table's lists: of tables, numbers and names.

use std::fmt;

use flatbuffers::{Follow, ForwardsUOffset, InvalidFlatbuffer, SimpleToVerifyInSlice, Vector, Verifiable, Verifier};

/// A list of a loadable: the tables of one kind, in file order.
pub struct List<'a, T>(pub(super) Vector<'a, ForwardsUOffset<T>>);

impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<'_, T> {}

impl<'a, T: Follow<'a, Inner = T> + 'a> List<'a, T> {
    /// Entries.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The entry at that position of the list. Its `id` is a separate number, though usually the same.
    pub fn get(self, position: usize) -> Option<T> {
        (position < self.len()).then(|| self.0.get(position))
    }

    /// Every entry.
    pub fn iter(self) -> impl ExactSizeIterator<Item = T> + 'a {
        (0..self.len()).map(move |position| self.0.get(position))
    }
}

impl<'a, T: Follow<'a, Inner = T> + fmt::Debug + 'a> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A 64-bit number in the file. It need not be aligned, because the hardware tests' own writer does not align it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Wide([u8; 8]);

impl Follow<'_> for Wide {
    type Inner = u64;
    unsafe fn follow(buf: &[u8], loc: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&buf[loc..loc + 8]);
        u64::from_le_bytes(bytes)
    }
}

impl Verifiable for Wide {
    fn run_verifier(v: &mut Verifier<'_, '_>, pos: usize) -> Result<(), InvalidFlatbuffer> {
        v.in_buffer::<Self>(pos)
    }
}

impl SimpleToVerifyInSlice for Wide {}

/// A list of numbers in a table.
#[derive(Clone, Copy)]
pub struct Numbers<'a, T: 'a>(pub(super) Vector<'a, T>);

impl<'a, T: Follow<'a> + Copy + 'a> Numbers<'a, T> {
    /// Numbers.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The number at that position.
    pub fn get(self, position: usize) -> Option<T::Inner> {
        (position < self.len()).then(|| self.0.get(position))
    }

    /// Every number.
    pub fn iter(self) -> impl ExactSizeIterator<Item = T::Inner> + 'a {
        (0..self.len()).map(move |position| self.0.get(position))
    }
}

impl<'a, T: Follow<'a> + Copy + 'a> fmt::Debug for Numbers<'a, T>
where
    T::Inner: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A list of names in a table.
#[derive(Clone, Copy)]
pub struct Names<'a>(pub(super) Vector<'a, ForwardsUOffset<&'a str>>);

impl<'a> Names<'a> {
    /// Names.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Every name.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a str> {
        (0..self.len()).map(move |position| self.0.get(position))
    }
}

impl fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
