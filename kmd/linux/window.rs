// SPDX-License-Identifier: GPL-2.0-only

//! The register window, whichever bus it lies on.

use kernel::{
    io::{
        mem::DevresIoMem,
        Io, //
    },
    pci::DevresBar, //
};

use super::engine;

/// The register window. After the device is unbound reads give all ones and writes are lost, as on a bus with nothing
/// there.
pub(crate) enum Window {
    /// A PCI device's BAR 0.
    Pci(DevresBar),
    /// A platform device's first memory resource.
    Platform(DevresIoMem),
}

/// The window as the engine drives it.
pub(crate) struct Registers<'a>(pub(crate) &'a Window);

impl engine::Hardware for Registers<'_> {
    fn read(&mut self, offset: u32) -> u32 {
        let offset = offset as usize;
        match self.0 {
            Window::Pci(bar) => bar.try_access_with(|io| io.try_read32(offset)),
            Window::Platform(memory) => memory.try_access_with(|io| io.try_read32(offset)),
        }
        .and_then(Result::ok)
        .unwrap_or(u32::MAX)
    }

    fn write(&mut self, offset: u32, value: u32) {
        let offset = offset as usize;
        let _ = match self.0 {
            Window::Pci(bar) => bar.try_access_with(|io| io.try_write32(value, offset)),
            Window::Platform(memory) => memory.try_access_with(|io| io.try_write32(value, offset)),
        };
    }
}
