// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memory of an emulated task.

/// The memory of a task, by position in its address list.
pub trait Memory {
    /// Bytes that the entry makes accessible; `None` if the list is shorter, or the entry has no memory.
    fn size(&self, index: usize) -> Option<u64>;
    /// Copies bytes from `offset` of the entry; `false` if they are not all inside it.
    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> bool;
    /// Copies bytes to `offset` of the entry; `false` if they do not fit.
    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> bool;
}

/// Plain buffers, one per entry of the address list.
impl<B: AsRef<[u8]> + AsMut<[u8]>> Memory for [B] {
    fn size(&self, index: usize) -> Option<u64> {
        self.get(index).map(|bytes| bytes.as_ref().len() as u64)
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> bool {
        let from =
            usize::try_from(offset).ok().and_then(|offset| self.get(index)?.as_ref().get(offset..)?.get(..into.len()));
        from.map(|from| into.copy_from_slice(from)).is_some()
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> bool {
        let into = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.get_mut(index)?.as_mut().get_mut(offset..)?.get_mut(..from.len()));
        into.map(|into| into.copy_from_slice(from)).is_some()
    }
}
