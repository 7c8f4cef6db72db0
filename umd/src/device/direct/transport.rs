// SPDX-License-Identifier: MIT OR Apache-2.0

//! Access to a device: its registers, its interrupt, and the memory that it can access.

use std::{io, ops::Range, time::Duration};

use super::super::store::Buffer;

/// Access to a device.
pub(super) trait Transport: Send {
    /// Reads a register; all ones if the device does not answer.
    fn read(&mut self, offset: u32) -> u32;

    /// Writes a register. Earlier writes to buffers are visible to the device when the register write arrives.
    fn write(&mut self, offset: u32, value: u32);

    /// Bytes of the register window.
    fn window(&self) -> u32;

    /// Whether the interrupt is a line, which gives another interrupt when it is unmasked and still high.
    fn has_line(&self) -> bool;

    /// Waits for an interrupt; false if none came within the limit.
    fn wait(&mut self, limit: Duration) -> io::Result<bool>;

    /// Unmasks the interrupt, after the device's status was read.
    fn unmask(&mut self) -> io::Result<()>;

    /// Resets the device, which does not access memory afterwards; false if the device has no reset.
    fn reset(&mut self) -> io::Result<bool>;

    /// Gives the device access to a buffer.
    fn map(&mut self, buffer: &Buffer) -> io::Result<()>;

    /// Ends the device's access to a buffer.
    fn unmap(&mut self, buffer: &Buffer) -> io::Result<()>;

    /// Whether buffers are copied to the device's memory and back, because the device cannot access those of this
    /// process.
    fn copies(&self) -> bool {
        false
    }

    /// Copies bytes to the device's memory.
    fn copy_to(&mut self, _address: u64, _bytes: &[u8]) {}

    /// Copies bytes from the device's memory.
    fn copy_from(&mut self, _address: u64, _bytes: &mut [u8]) {}

    /// What went wrong with the transport itself, if it has failed.
    fn failure(&self) -> Option<String> {
        None
    }
}

/// An open transport, and the addresses at which its buffers must lie.
pub(super) struct OpenedTransport {
    pub(super) transport: Box<dyn Transport>,
    /// The addresses that buffers may have.
    pub(super) ranges: Vec<Range<u64>>,
    /// Buffers are files, which another process can map.
    pub(super) files: bool,
    /// It is a simulator, on which a task may take long.
    pub(super) simulated: bool,
}
