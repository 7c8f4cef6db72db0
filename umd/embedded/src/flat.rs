// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads a FlatBuffer where it lies. The crate `flatbuffers` verifies a file with allocations, so this module checks each offset
//! when it is followed: an offset that leaves the file is [`Broken`].
//!
//! Source: the FlatBuffers binary format ("FlatBuffer Internals"). Offsets are 32 bits and relative to their own place. A table
//! begins with the signed distance back to its vtable, which has its own size, the table's size, and the place of each field in
//! the table; 0 means that the field is absent and has its default.

/// An offset or a length that leaves the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

type Result<T> = core::result::Result<T, Broken>;

/// The file.
#[derive(Clone, Copy)]
struct File<'a>(&'a [u8]);

impl<'a> File<'a> {
    fn bytes(self, at: usize, count: usize) -> Result<&'a [u8]> {
        self.0.get(at..at.checked_add(count).ok_or(Broken)?).ok_or(Broken)
    }

    fn array<const N: usize>(self, at: usize) -> Result<[u8; N]> {
        self.bytes(at, N)?.try_into().map_err(|_| Broken)
    }

    /// The place to which the offset at `at` leads.
    fn follow(self, at: usize) -> Result<usize> {
        let offset = u32::from_le_bytes(self.array(at)?);
        at.checked_add(offset as usize).filter(|&to| to < self.0.len()).ok_or(Broken)
    }
}

/// A table.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    file: File<'a>,
    at: usize,
    vtable: usize,
    /// Bytes of the vtable.
    size: usize,
}

impl<'a> Table<'a> {
    /// The root table of a file.
    pub(crate) fn root(bytes: &'a [u8]) -> Result<Self> {
        let file = File(bytes);
        Self::new(file, file.follow(0)?)
    }

    fn new(file: File<'a>, at: usize) -> Result<Self> {
        let back = i32::from_le_bytes(file.array(at)?);
        let vtable = (at as i64).checked_sub(back.into()).and_then(|to| usize::try_from(to).ok()).ok_or(Broken)?;
        let size = usize::from(u16::from_le_bytes(file.array(vtable)?));
        Ok(Self { file, at, vtable, size })
    }

    /// The place of a field; none if the table does not have it.
    fn field(self, slot: usize) -> Result<Option<usize>> {
        // A vtable begins with two sizes of 2 bytes.
        let entry = 4 + 2 * slot;
        if entry + 2 > self.size {
            return Ok(None);
        }
        let offset = u16::from_le_bytes(self.file.array(self.vtable + entry)?);
        Ok((offset != 0).then(|| self.at + usize::from(offset)))
    }

    /// The bytes of a number; zero if the table does not have it.
    pub(crate) fn number<const N: usize>(self, slot: usize) -> Result<[u8; N]> {
        self.field(slot)?.map_or(Ok([0; N]), |at| self.file.array(at))
    }

    pub(crate) fn u8(self, slot: usize) -> Result<u8> {
        self.number(slot).map(u8::from_le_bytes)
    }

    pub(crate) fn u16(self, slot: usize) -> Result<u16> {
        self.number(slot).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(self, slot: usize) -> Result<u32> {
        self.number(slot).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(self, slot: usize) -> Result<u64> {
        self.number(slot).map(u64::from_le_bytes)
    }

    /// A vector of elements of `size` bytes; empty if the table does not have it.
    pub(crate) fn vector(self, slot: usize, size: usize) -> Result<Vector<'a>> {
        let Some(at) = self.field(slot)? else {
            return Ok(Vector { file: self.file, first: 0, size, length: 0 });
        };
        let at = self.file.follow(at)?;
        let length = u32::from_le_bytes(self.file.array(at)?) as usize;
        let first = at + 4;
        self.file.bytes(first, length.checked_mul(size).ok_or(Broken)?)?;
        Ok(Vector { file: self.file, first, size, length })
    }

    /// A vector of tables, or of texts.
    pub(crate) fn offsets(self, slot: usize) -> Result<Vector<'a>> {
        self.vector(slot, 4)
    }

    /// A vector of bytes, or a text.
    pub(crate) fn bytes(self, slot: usize) -> Result<&'a [u8]> {
        let vector = self.vector(slot, 1)?;
        self.file.bytes(vector.first, vector.length)
    }
}

/// A vector inside the file.
#[derive(Clone, Copy)]
pub(crate) struct Vector<'a> {
    file: File<'a>,
    first: usize,
    size: usize,
    length: usize,
}

impl<'a> Vector<'a> {
    /// Elements.
    pub(crate) fn len(self) -> usize {
        self.length
    }

    fn place(self, index: usize) -> Result<usize> {
        if index < self.length {
            Ok(self.first + index * self.size)
        } else {
            Err(Broken)
        }
    }

    /// The number at a position.
    pub(crate) fn number<const N: usize>(self, index: usize) -> Result<[u8; N]> {
        self.file.array(self.place(index)?)
    }

    pub(crate) fn u16(self, index: usize) -> Result<u16> {
        self.number(index).map(u16::from_le_bytes)
    }

    pub(crate) fn u64(self, index: usize) -> Result<u64> {
        self.number(index).map(u64::from_le_bytes)
    }

    /// The table at a position of a vector of offsets.
    pub(crate) fn table(self, index: usize) -> Result<Table<'a>> {
        Table::new(self.file, self.file.follow(self.place(index)?)?)
    }

    /// The text at a position of a vector of offsets.
    pub(crate) fn text(self, index: usize) -> Result<&'a [u8]> {
        let at = self.file.follow(self.place(index)?)?;
        let length = u32::from_le_bytes(self.file.array(at)?) as usize;
        self.file.bytes(at + 4, length)
    }
}
