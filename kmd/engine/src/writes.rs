// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The register writes of each operation of a task, counted without a device. Estimates of the time on hardware use them.
//!
//! Only values that change are written ([`super::device`]), so the count depends on the operations before. Each unit's
//! operations are programmed in the order of its list, alternately into its two register groups. So the order in which the
//! units take turns does not change the counts.

use super::device::Device;
use super::hardware::Hardware;
use super::schedule::GroupIndices;
use super::slot::{operation, Slot};
use super::task::Task;
use crate::uapi::config::Config;
use crate::uapi::desc::PROCESSORS;

/// The register writes of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Writes that program it. The unit's other register group can run meanwhile.
    pub registers: u32,
    /// Writes that load its lookup table, for which the unit is idle.
    pub table: u32,
    /// Writes that enable it.
    pub enable: u32,
}

/// Counts the register writes of tasks that run one after another on a device.
#[derive(Debug)]
pub struct WriteCounter {
    device: Device,
    /// The next register group of each unit, and of its read DMA.
    next: [GroupIndices; PROCESSORS],
}

/// A device that counts writes and answers 0.
struct Count(u32);

impl Hardware for Count {
    fn read(&mut self, _: u32) -> u32 {
        0
    }

    fn write(&mut self, _: u32, _: u32) {
        self.0 += 1;
    }
}

impl Count {
    /// The writes since the last call.
    fn take(&mut self) -> u32 {
        core::mem::take(&mut self.0)
    }
}

impl WriteCounter {
    /// A device of that configuration, which has just been reset.
    pub fn new(config: &'static Config) -> Self {
        Self { device: Device::new(config), next: [GroupIndices { group: 0, rdma: 0 }; PROCESSORS] }
    }

    /// Calls `visit` with the writes of each operation of a task, unit by unit. Operations are named by their position in the
    /// operation list, in which all regions of interest follow one another.
    pub fn run<S: AsRef<[Slot]> + AsMut<[Slot]>>(&mut self, task: &Task<S>, mut visit: impl FnMut(u32, Writes)) {
        let mut hw = Count(0);
        let slots = task.slots();
        for (unit, head) in task.heads().into_iter().enumerate() {
            let mut at = head;
            while let Some((index, operation)) = at.and_then(|index| Some((index, operation(slots, index)?))) {
                let groups = self.next[unit];
                let table = operation.lut.and_then(|slot| slots.get(slot as usize)).and_then(Slot::table);
                if let Some(table) = table {
                    self.device.load_table(&mut hw, operation.op_type, table);
                }
                let table = hw.take();
                self.device.program(&mut hw, &operation.program, groups);
                let registers = hw.take();
                self.device.enable(&mut hw, operation.op_type, operation.rdma, groups, task.is_counted());
                visit(index, Writes { registers, table, enable: hw.take() });
                let next = &mut self.next[unit];
                next.group = 1 - groups.group;
                if operation.rdma {
                    next.rdma = 1 - groups.rdma;
                }
                at = operation.next;
            }
        }
    }
}
