// SPDX-License-Identifier: MIT OR Apache-2.0

//! What this crate needs of a board.

use nvdla_engine::Hardware;

/// A board with an NVDLA: its register window, a clock, and what its caches need.
pub trait Board: Hardware {
    /// Nanoseconds since any fixed time.
    fn now(&mut self) -> u64;

    /// Waits until the device has raised its interrupt, or for a short time. The device's status is read afterwards in either
    /// case, so a board without an interrupt line returns at once.
    fn wait(&mut self) {
        core::hint::spin_loop();
    }

    /// Makes what the processor has written to this part of the arena visible to the device. Called before a task.
    fn clean(&mut self, address: *const u8, bytes: usize) {
        let _ = (address, bytes);
    }

    /// Makes what the device has written to this part of the arena visible to the processor. Called after a task.
    fn invalidate(&mut self, address: *const u8, bytes: usize) {
        let _ = (address, bytes);
    }

    /// Resets the device. False on a board that cannot.
    fn reset(&mut self) -> bool {
        false
    }
}
