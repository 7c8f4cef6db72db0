// SPDX-License-Identifier: MIT OR Apache-2.0

//! The SRAM behind the device's secondary memory interface, BAR 4: memory that this process, the virtual machine and a simulator of
//! the RTL share. Addresses of the device are offsets in it. The model also has it at the addresses that the BAR has on the bus,
//! as a system on a chip does, so that the driver's way on such a system can be tested.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use memmap2::MmapRaw;
use nix::fcntl::{fcntl, FcntlArg, SealFlag};
use nix::sys::memfd::{memfd_create, MFdFlags};

/// The SRAM.
pub(crate) struct Sram {
    file: File,
    map: MmapRaw,
    /// The BAR's address.
    base: u64,
}

impl Sram {
    /// Makes an SRAM of `size` bytes, all zero.
    pub(crate) fn new(size: u32) -> io::Result<Self> {
        let file = File::from(memfd_create(c"nvdla sram", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
        file.set_len(size.into())?;
        // A client that shortened it would end this process at its next access.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let map = MmapRaw::map_raw(&file)?;
        Ok(Self { file, map, base: 0 })
    }

    /// The file, which others can map.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The file's descriptor.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Bytes of the SRAM.
    pub(crate) fn size(&self) -> u32 {
        self.map.len() as u32
    }

    /// Sets the BAR's address.
    pub(crate) fn set_base(&mut self, base: u64) {
        self.base = base;
    }

    /// The first byte of a range of the device's addresses; `None` if the range is not inside.
    pub(crate) fn find(&self, address: u64, length: usize) -> Option<*mut u8> {
        let on_bus = address.checked_sub(self.base).and_then(|offset| self.at(offset, length));
        self.at(address, length).or(on_bus)
    }

    /// The first byte of a range; `None` if the range is not inside.
    pub(crate) fn at(&self, offset: u64, length: usize) -> Option<*mut u8> {
        let start = usize::try_from(offset).ok()?;
        let inside = start.checked_add(length).is_some_and(|end| end <= self.map.len());
        inside.then(|| self.map.as_mut_ptr().wrapping_add(start))
    }
}
