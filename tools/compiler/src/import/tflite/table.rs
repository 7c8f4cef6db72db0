// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables of a FlatBuffers file. Every read is checked against the file's size, so any bytes are a file or an error.
//!
//! Source of the facts: FlatBuffers' "Internals" document. A table begins with the signed distance back to its vtable. The vtable
//! has its own size, the table's size, and for each slot the distance from the table to the field, 0 if the file does not have it.
//! Vectors, texts and tables are reached by an unsigned distance from the field. Numbers are little endian.

/// A table, and the file that has it.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    file: &'a [u8],
    at: usize,
    /// The vtable's distances.
    slots: &'a [u8],
}

/// The bytes of a file, with an error that says where they are missing.
fn part(file: &[u8], at: usize, length: usize) -> Result<&[u8], String> {
    let end = at.checked_add(length);
    end.and_then(|end| file.get(at..end))
        .ok_or_else(|| format!("{length} bytes at {at} are beyond the file's {} bytes", file.len()))
}

fn number<const N: usize>(file: &[u8], at: usize) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    bytes.copy_from_slice(part(file, at, N)?);
    Ok(bytes)
}

fn distance(file: &[u8], at: usize) -> Result<usize, String> {
    Ok(at.saturating_add(u32::from_le_bytes(number(file, at)?) as usize))
}

impl<'a> Table<'a> {
    /// The table that the first four bytes of a file point to.
    pub(super) fn root(file: &'a [u8]) -> Result<Self, String> {
        Self::read(file, distance(file, 0)?)
    }

    fn read(file: &'a [u8], at: usize) -> Result<Self, String> {
        let back = i64::from(i32::from_le_bytes(number(file, at)?));
        let vtable = usize::try_from(at as i64 - back).map_err(|_| format!("the table at {at} has no vtable"))?;
        let size = usize::from(u16::from_le_bytes(number(file, vtable)?));
        let slots =
            part(file, vtable, size)?.get(4..).ok_or_else(|| format!("a vtable of {size} bytes at {vtable}"))?;
        Ok(Self { file, at, slots })
    }

    /// The position of a field.
    fn field(self, slot: usize) -> Option<usize> {
        let entry = self.slots.get(2 * slot..2 * slot + 2)?;
        let distance = u16::from_le_bytes([entry[0], entry[1]]);
        (distance != 0).then(|| self.at + usize::from(distance))
    }

    fn value<const N: usize>(self, slot: usize) -> Result<Option<[u8; N]>, String> {
        self.field(slot).map(|at| number(self.file, at)).transpose()
    }

    /// A number of 1 byte, or a truth value; 0 if it is missing.
    pub(super) fn byte(self, slot: usize) -> Result<i8, String> {
        Ok(i8::from_le_bytes(self.value(slot)?.unwrap_or_default()))
    }

    /// A number of 4 bytes.
    pub(super) fn int(self, slot: usize, default: i32) -> Result<i32, String> {
        Ok(self.value(slot)?.map_or(default, i32::from_le_bytes))
    }

    /// A number of 8 bytes without a sign; 0 if it is missing.
    pub(super) fn wide(self, slot: usize) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.value(slot)?.unwrap_or_default()))
    }

    /// A real number of 4 bytes; 0 if it is missing.
    pub(super) fn float(self, slot: usize) -> Result<f32, String> {
        Ok(f32::from_le_bytes(self.value(slot)?.unwrap_or_default()))
    }

    /// Another table.
    pub(super) fn table(self, slot: usize) -> Result<Option<Self>, String> {
        self.field(slot).map(|at| Self::read(self.file, distance(self.file, at)?)).transpose()
    }

    /// The elements of a vector, and its position; empty if it is missing.
    fn vector(self, slot: usize, width: usize) -> Result<(&'a [u8], usize), String> {
        let Some(at) = self.field(slot) else { return Ok((&[], 0)) };
        let at = distance(self.file, at)?;
        let count = u32::from_le_bytes(number(self.file, at)?) as usize;
        Ok((part(self.file, at + 4, count.saturating_mul(width))?, at + 4))
    }

    /// A vector of bytes.
    pub(super) fn bytes(self, slot: usize) -> Result<&'a [u8], String> {
        Ok(self.vector(slot, 1)?.0)
    }

    /// A text. Bytes that are not UTF-8 are replaced.
    pub(super) fn text(self, slot: usize) -> Result<String, String> {
        Ok(String::from_utf8_lossy(self.bytes(slot)?).into_owned())
    }

    /// A vector of numbers of 4 bytes.
    pub(super) fn ints(self, slot: usize) -> Result<impl ExactSizeIterator<Item = i32> + 'a, String> {
        Ok(self.vector(slot, 4)?.0.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])))
    }

    /// A vector of numbers of 2 bytes without a sign.
    pub(super) fn shorts(self, slot: usize) -> Result<impl ExactSizeIterator<Item = u16> + 'a, String> {
        Ok(self.vector(slot, 2)?.0.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])))
    }

    /// A vector of numbers of 8 bytes.
    pub(super) fn longs(self, slot: usize) -> Result<impl ExactSizeIterator<Item = i64> + 'a, String> {
        let long = |b: &[u8]| i64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
        Ok(self.vector(slot, 8)?.0.chunks_exact(8).map(long))
    }

    /// A vector of real numbers of 4 bytes.
    pub(super) fn floats(self, slot: usize) -> Result<impl ExactSizeIterator<Item = f32> + 'a, String> {
        Ok(self.vector(slot, 4)?.0.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
    }

    /// A vector of tables.
    pub(super) fn tables(self, slot: usize) -> Result<Vec<Self>, String> {
        let (entries, at) = self.vector(slot, 4)?;
        (0..entries.len() / 4).map(|k| Self::read(self.file, distance(self.file, at + 4 * k)?)).collect()
    }
}
