// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The local memories of the TPU.

use super::super::error::{Error, Rule};

/// The local memory of all NPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    pub(super) npus: u32,
    pub(super) bytes: u64,
}

impl Memory {
    /// `npus` NPUs with `bytes` of local memory each.
    pub const fn new(npus: u32, bytes: u64) -> Result<Self, Error> {
        if npus == 0 || bytes == 0 {
            return Err(Error::new(Rule::TpuMemory, 0, 1));
        }
        if bytes > u64::MAX / npus as u64 {
            return Err(Error::new(Rule::Size, u64::MAX, u64::MAX));
        }
        Ok(Self { npus, bytes })
    }

    /// NPUs (X).
    pub const fn npus(&self) -> u32 {
        self.npus
    }

    /// Bytes of each NPU's memory (S).
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of all of it.
    pub const fn size(&self) -> u64 {
        self.npus as u64 * self.bytes
    }

    /// The NPU and the offset in its memory of an address: A = Q * S + R.
    ///
    /// ```
    /// use nvdla_uapi::layout::tpu::Memory;
    /// let memory = Memory::new(4, 1024)?;
    /// assert_eq!(memory.locate(1472)?, (1, 448));
    /// # Ok::<(), nvdla_uapi::layout::Error>(())
    /// ```
    pub const fn locate(&self, address: u64) -> Result<(u32, u64), Error> {
        if address >= self.size() {
            return Err(Error::new(Rule::TpuAddress, address, self.size() - 1));
        }
        Ok(((address / self.bytes) as u32, address % self.bytes))
    }

    /// The address of an offset in an NPU's memory.
    pub const fn address(&self, npu: u32, offset: u64) -> Result<u64, Error> {
        if npu >= self.npus {
            return Err(Error::new(Rule::TpuAddress, npu as u64, self.npus as u64 - 1));
        }
        if offset >= self.bytes {
            return Err(Error::new(Rule::TpuAddress, offset, self.bytes - 1));
        }
        Ok(npu as u64 * self.bytes + offset)
    }
}
