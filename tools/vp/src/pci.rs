// SPDX-License-Identifier: MIT OR Apache-2.0

//! The PCI configuration space of the virtual device: BAR 0, one INTx line, one MSI vector and function-level reset; also BAR 2
//! if tests in the guest get a control window, and BAR 4 if the device has SRAM.
//!
//! Source: PCI Local Bus Specification 3.0, chapters 6.1 (header), 6.2.2 (command register), 6.2.5.1 (BARs), 6.8.1 (MSI capability); the
//! engineering change notice "Advanced Capabilities for Conventional PCI" (function-level reset).

use nvdla_uapi::queue::PCI_SUBSYSTEM_MODEL;

/// Bytes of the configuration space.
pub(crate) const SIZE: usize = 256;
/// Bytes of BAR 0: the register window, rounded up to a power of two.
pub(crate) const BAR_SIZE: u32 = 0x2_0000;

/// Bytes of BAR 2: the control window ([`crate::control`]).
pub(crate) const CONTROL_SIZE: u32 = 0x1000;

const VENDOR_NVIDIA: u16 = 0x10de;
const DEVICE_NVDLA: u16 = 0x4e56;
/// Class "processing accelerator".
const CLASS: [u8; 3] = [0x00, 0x00, 0x12];
/// Status bit: the interrupt line is up.
const STATUS_INTERRUPT: u16 = 1 << 3;
/// Status bit: a capability list exists.
const STATUS_CAPABILITIES: u16 = 1 << 4;
/// Writable command bits: memory space, bus master, interrupt disable.
const COMMAND_WRITABLE: u16 = 1 << 1 | MASTER | INTERRUPT_DISABLE;
/// Command bit: the function may access memory.
const MASTER: u16 = 1 << 2;
/// Command bit: the function does not assert its interrupt line.
pub(crate) const INTERRUPT_DISABLE: u16 = 1 << 10;
pub(crate) const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const BAR0: usize = 0x10;
const BAR2: usize = 0x18;
const BAR4: usize = 0x20;
/// The upper half of BAR 4's address. Behind a port Linux gives a prefetchable BAR of 32 bits no place in the window for prefetchable
/// memory, which has addresses of 64 bits. The port's other window has the size of the other BARs.
const BAR4_HIGH: usize = 0x24;
/// BAR bits: an address of 64 bits.
const WIDE: u32 = 2 << 1;
/// BAR bit: reads have no side effects, so the processor may combine accesses.
const PREFETCHABLE: u32 = 1 << 3;
const SUBSYSTEM: usize = 0x2c;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;
const INTERRUPT_PIN: usize = 0x3d;
const MSI: usize = 0x40;
const CAPABILITY_MSI: u8 = 0x05;
/// MSI control: addresses of 64 bits.
const MSI_64: u16 = 1 << 7;
/// MSI control: enable, and the number of vectors.
const MSI_WRITABLE: u8 = 0x71;

const ADVANCED: usize = 0x60;
const CAPABILITY_ADVANCED: u8 = 0x13;
const ADVANCED_LENGTH: u8 = 6;
/// Advanced features: transactions-pending bit, function-level reset.
const ADVANCED_TP_FLR: u8 = 0x03;
/// The byte through which software requests the reset.
const ADVANCED_CONTROL: usize = ADVANCED + 4;

/// The configuration space, and the mask of bits that software may change.
pub(crate) struct Configuration {
    bytes: [u8; SIZE],
    writable: [u8; SIZE],
}

impl Configuration {
    /// The space of a device with `sram` bytes of SRAM, a power of two or 0.
    pub(crate) fn new(control: bool, sram: u32) -> Self {
        let mut this = Self { bytes: [0; SIZE], writable: [0; SIZE] };
        this.set(0x00, &VENDOR_NVIDIA.to_le_bytes());
        this.set(0x02, &DEVICE_NVDLA.to_le_bytes());
        this.set(STATUS, &STATUS_CAPABILITIES.to_le_bytes());
        this.set(0x08, &[1]);
        this.set(0x09, &CLASS);
        this.set(SUBSYSTEM, &VENDOR_NVIDIA.to_le_bytes());
        this.set(SUBSYSTEM + 2, &PCI_SUBSYSTEM_MODEL.to_le_bytes());
        this.set(CAPABILITIES, &[MSI as u8]);
        this.set(INTERRUPT_PIN, &[1]);
        this.set(MSI, &[CAPABILITY_MSI, ADVANCED as u8]);
        this.set(ADVANCED, &[CAPABILITY_ADVANCED, 0, ADVANCED_LENGTH, ADVANCED_TP_FLR]);
        this.set(MSI + 2, &MSI_64.to_le_bytes());
        this.allow(COMMAND, &COMMAND_WRITABLE.to_le_bytes());
        this.allow(BAR0, &(!(BAR_SIZE - 1)).to_le_bytes());
        if control {
            this.allow(BAR2, &(!(CONTROL_SIZE - 1)).to_le_bytes());
        }
        if sram > 0 {
            this.set(BAR4, &(WIDE | PREFETCHABLE).to_le_bytes());
            this.allow(BAR4, &(!(sram - 1)).to_le_bytes());
            this.allow(BAR4_HIGH, &[0xff; 4]);
        }
        this.allow(INTERRUPT_LINE, &[0xff]);
        this.allow(MSI + 2, &[MSI_WRITABLE]);
        this.allow(MSI + 4, &[0xff; 10]);
        this
    }

    /// The bytes at `offset`; `None` outside the space.
    pub(crate) fn read(&self, offset: usize, length: usize) -> Option<&[u8]> {
        self.bytes.get(offset..offset.checked_add(length)?)
    }

    /// Sets the bit of the status register that shows whether the interrupt line is up.
    pub(crate) fn set_interrupt(&mut self, up: bool) {
        let status = STATUS_CAPABILITIES | if up { STATUS_INTERRUPT } else { 0 };
        self.set(STATUS, &status.to_le_bytes());
    }

    /// Writes the writable bits of the bytes at `offset`. Bytes outside are ignored, as on a bus. Returns true if
    /// software requests a reset of the function.
    pub(crate) fn write(&mut self, offset: usize, data: &[u8]) -> bool {
        let mut reset = false;
        for (index, &byte) in data.iter().enumerate() {
            let at = offset.saturating_add(index);
            if let (Some(old), Some(&mask)) = (self.bytes.get_mut(at), self.writable.get(at)) {
                *old = *old & !mask | byte & mask;
            }
            reset |= at == ADVANCED_CONTROL && byte & 1 != 0;
        }
        reset
    }

    /// Whether the command register prevents the function from asserting its interrupt line.
    pub(crate) fn disables_interrupt(&self) -> bool {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]]) & INTERRUPT_DISABLE != 0
    }

    /// Whether the command register lets the function access memory.
    pub(crate) fn masters(&self) -> bool {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]]) & MASTER != 0
    }

    /// The address of the SRAM's BAR.
    pub(crate) fn sram_address(&self) -> u64 {
        let words = [0, 1, 2, 3, 4, 5, 6, 7].map(|byte| self.bytes[BAR4 + byte]);
        u64::from_le_bytes(words) & !0xf
    }

    fn set(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, offset: usize, mask: &[u8]) {
        self.writable[offset..offset + mask.len()].copy_from_slice(mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_answers_its_size() {
        let mut configuration = Configuration::new(false, 0);
        assert!(!configuration.write(BAR0, &[0xff; 4]));
        assert_eq!(configuration.read(BAR0, 4), Some(&(!(BAR_SIZE - 1)).to_le_bytes()[..]));
    }

    #[test]
    fn the_control_window_is_there_only_when_asked_for() {
        for (control, size) in [(false, 0), (true, !(CONTROL_SIZE - 1))] {
            let mut configuration = Configuration::new(control, 0);
            assert!(!configuration.write(BAR2, &[0xff; 4]));
            assert_eq!(configuration.read(BAR2, 4), Some(&size.to_le_bytes()[..]));
        }
    }

    #[test]
    fn the_sram_is_prefetchable_and_has_its_size() {
        for (sram, bits) in [(0, 0), (0x20_0000, 0xffff_ffff_ffe0_000c_u64)] {
            let mut configuration = Configuration::new(true, sram);
            assert!(!configuration.write(BAR4, &[0xff; 8]));
            assert_eq!(configuration.read(BAR4, 8), Some(&bits.to_le_bytes()[..]));
            assert!(!configuration.write(BAR4, &0x12_3450_0000_u64.to_le_bytes()));
            assert_eq!(configuration.sram_address(), if sram == 0 { 0 } else { 0x12_3440_0000 });
        }
    }

    #[test]
    fn identity_cannot_be_written() {
        let mut configuration = Configuration::new(false, 0);
        assert!(!configuration.write(0, &[0; 4]));
        assert_eq!(configuration.read(0, 2), Some(&VENDOR_NVIDIA.to_le_bytes()[..]));
        assert_eq!(configuration.read(SIZE - 1, 2), None);
    }

    #[test]
    fn the_status_says_whether_the_line_is_up() {
        let mut configuration = Configuration::new(false, 0);
        for (up, status) in [(false, 0x10), (true, 0x18), (false, 0x10)] {
            configuration.set_interrupt(up);
            assert!(!configuration.write(STATUS, &[0xff]));
            assert_eq!(configuration.read(STATUS, 2), Some(&[status, 0][..]));
        }
    }

    #[test]
    fn a_reset_is_asked_for_through_the_capability() {
        let mut configuration = Configuration::new(false, 0);
        assert!(configuration.write(ADVANCED_CONTROL, &[1]));
        assert!(!configuration.write(ADVANCED_CONTROL, &[0]));
    }
}
