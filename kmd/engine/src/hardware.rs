// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What the engine needs of a device: its register window.

/// A device's register window. Offsets are in bytes from its start; registers have 32 bits.
///
/// Writes must reach the device in the order in which they are made, and before a later read.
pub trait Hardware {
    /// Reads a register.
    fn read(&mut self, offset: u32) -> u32;
    /// Writes a register.
    fn write(&mut self, offset: u32, value: u32);
}

impl<H: Hardware + ?Sized> Hardware for &mut H {
    fn read(&mut self, offset: u32) -> u32 {
        (**self).read(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        (**self).write(offset, value);
    }
}
