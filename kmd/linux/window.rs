// SPDX-License-Identifier: GPL-2.0-only

//! The register window, whichever bus it lies on, and the interrupt status that is taken from it.

use kernel::{
    io::{
        mem::DevresIoMem,
        Io, //
    },
    pci::DevresBar,
    sync::SpinLockIrq, //
};

use super::engine::{
    self,
    Hardware as _, //
};

/// The register window. After the device is unbound reads give all ones and writes are lost, as on a bus with nothing
/// there.
pub(crate) enum Window {
    /// A PCI device's BAR 0.
    Pci(DevresBar),
    /// A platform device's first memory resource.
    Platform(DevresIoMem),
}

/// What a register that does not answer reads as.
const NOBODY: u32 = u32::MAX;

/// The window's registers as they are.
pub(crate) struct Registers<'a>(pub(crate) &'a Window);

impl engine::Hardware for Registers<'_> {
    fn read(&mut self, offset: u32) -> u32 {
        let offset = offset as usize;
        match self.0 {
            Window::Pci(bar) => bar.try_access_with(|io| io.try_read32(offset)),
            Window::Platform(memory) => memory.try_access_with(|io| io.try_read32(offset)),
        }
        .and_then(Result::ok)
        .unwrap_or(NOBODY)
    }

    fn write(&mut self, offset: u32, value: u32) {
        let offset = offset as usize;
        let _ = match self.0 {
            Window::Pci(bar) => bar.try_access_with(|io| io.try_write32(value, offset)),
            Window::Platform(memory) => memory.try_access_with(|io| io.try_write32(value, offset)),
        };
    }
}

/// Interrupt status that was taken from the device and cleared there, and not handed on yet.
///
/// The interrupt's first handler takes it, so that the device's line is free at once: others may share it. It is read and
/// cleared under a lock, so that no cause is taken twice.
pub(crate) struct Interrupts {
    /// Where the status register is.
    status: u32,
    /// The registers may be asked: the device has a clock.
    awake: bool,
    taken: u32,
}

impl Interrupts {
    pub(crate) fn new(status: u32) -> Self {
        Self { status, awake: true, taken: 0 }
    }

    /// Whether the registers may be asked for more.
    pub(crate) fn set_awake(&mut self, awake: bool) {
        self.awake = awake;
    }

    /// The first handler: reads and clears the device's status. Returns false if no bit is set, because the interrupt
    /// was of another device.
    pub(crate) fn handle(&mut self, window: &Window) -> bool {
        !matches!(self.take(window), 0 | NOBODY)
    }

    /// Reads and clears the status, and returns it; 0 while the device has no clock.
    fn take(&mut self, window: &Window) -> u32 {
        if !self.awake {
            return 0;
        }
        let status = Registers(window).read(self.status);
        if status != 0 && status != NOBODY {
            Registers(window).write(self.status, status);
            self.taken |= status;
        }
        status
    }
}

/// The registers for the engine. A read of the interrupt status first returns the bits that the first handler has
/// taken.
pub(crate) struct Device<'a> {
    window: &'a Window,
    interrupts: &'a SpinLockIrq<Interrupts>,
    status: u32,
}

impl<'a> Device<'a> {
    /// `status` is where the status register is.
    pub(crate) fn new(window: &'a Window, interrupts: &'a SpinLockIrq<Interrupts>, status: u32) -> Self {
        Self { window, interrupts, status }
    }
}

impl engine::Hardware for Device<'_> {
    fn read(&mut self, offset: u32) -> u32 {
        if offset != self.status {
            return Registers(self.window).read(offset);
        }
        let mut interrupts = self.interrupts.lock();
        if interrupts.taken != 0 {
            return interrupts.taken;
        }
        interrupts.take(self.window)
    }

    fn write(&mut self, offset: u32, value: u32) {
        if offset != self.status {
            return Registers(self.window).write(offset, value);
        }
        // What was taken has been cleared in the device.
        let mut interrupts = self.interrupts.lock();
        let left = value & !interrupts.taken;
        interrupts.taken &= !value;
        if left != 0 {
            Registers(self.window).write(offset, left);
        }
    }
}
