// SPDX-License-Identifier: GPL-2.0-only

//! The register window on any bus, and the interrupt status that is read from it.

use kernel::{
    io::{
        mem::DevresIoMem,
        Io, //
    },
    pci::DevresBar,
    sync::SpinLockIrq, //
};

use super::{
    engine::{
        self,
        Hardware as _, //
    },
    state::now_ns, //
};

/// The register window. After the device is unbound reads return all ones and writes have no effect, as on a bus without the
/// device.
pub(crate) enum Window {
    /// A PCI device's BAR 0.
    Pci(DevresBar),
    /// A platform device's first memory resource.
    Platform(DevresIoMem),
}

/// The value of a register that does not answer.
const NO_ANSWER: u32 = u32::MAX;

/// Access to the window's registers.
pub(crate) struct Registers<'a>(pub(crate) &'a Window);

impl engine::Hardware for Registers<'_> {
    fn read(&mut self, offset: u32) -> u32 {
        let offset = offset as usize;
        match self.0 {
            Window::Pci(bar) => bar.try_access_with(|io| io.try_read32(offset)),
            Window::Platform(memory) => memory.try_access_with(|io| io.try_read32(offset)),
        }
        .and_then(Result::ok)
        .unwrap_or(NO_ANSWER)
    }

    fn write(&mut self, offset: u32, value: u32) {
        let offset = offset as usize;
        let _ = match self.0 {
            Window::Pci(bar) => bar.try_access_with(|io| io.try_write32(value, offset)),
            Window::Platform(memory) => memory.try_access_with(|io| io.try_write32(value, offset)),
        };
    }
}

/// A time in nanoseconds, and the interrupt status that was read then.
pub(crate) type Record = (u64, u32);
/// How many of them are kept.
const HISTORY: usize = 32;

/// Interrupt status bits that were read and cleared in the device, and that the engine has not handled yet.
///
/// The first interrupt handler reads and clears them, so that a shared interrupt line is released at once. Reading and clearing
/// happen under a lock, so that no bit is handled twice.
pub(crate) struct Interrupts {
    /// The last times at which bits were read, and these bits. A ring: `next` is the oldest.
    history: [Record; HISTORY],
    next: usize,
    /// The offset of the status register.
    status: u32,
    /// Whether the registers may be accessed, because the device has a clock.
    accessible: bool,
    taken: u32,
}

impl Interrupts {
    pub(crate) fn new(status: u32) -> Self {
        Self { history: [(0, 0); HISTORY], next: 0, status, accessible: true, taken: 0 }
    }

    /// The last interrupts, the oldest first.
    pub(crate) fn history(&self) -> [Record; HISTORY] {
        core::array::from_fn(|index| self.history[(self.next + index) % HISTORY])
    }

    /// Sets whether the registers may be accessed.
    pub(crate) fn set_accessible(&mut self, accessible: bool) {
        self.accessible = accessible;
    }

    /// The first handler: reads and clears the device's status. Returns false if no bit is set, because then the interrupt was of
    /// another device.
    pub(crate) fn handle(&mut self, window: &Window) -> bool {
        !matches!(self.take(window), 0 | NO_ANSWER)
    }

    /// Reads and clears the status, and returns it; 0 while the device has no clock.
    fn take(&mut self, window: &Window) -> u32 {
        if !self.accessible {
            return 0;
        }
        let status = Registers(window).read(self.status);
        if status != 0 && status != NO_ANSWER {
            Registers(window).write(self.status, status);
            self.taken |= status;
            if let Some(record) = self.history.get_mut(self.next) {
                *record = (now_ns(), status);
                self.next = (self.next + 1) % HISTORY;
            }
        }
        status
    }
}

/// The registers for the engine. A read of the interrupt status first returns the bits that the first handler has read.
pub(crate) struct Device<'a> {
    window: &'a Window,
    interrupts: &'a SpinLockIrq<Interrupts>,
    status: u32,
}

impl<'a> Device<'a> {
    /// `status` is the offset of the status register.
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
        // The returned bits have already been cleared in the device.
        let mut interrupts = self.interrupts.lock();
        let left = value & !interrupts.taken;
        interrupts.taken &= !value;
        if left != 0 {
            Registers(self.window).write(offset, left);
        }
    }
}
