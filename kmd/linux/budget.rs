// SPDX-License-Identifier: GPL-2.0-only

//! The memory that the driver holds for a client: for its tasks and its buffers, with limits.
//!
//! Most of it is also accounted to the control group of the process (`GFP_KERNEL_ACCOUNT`). These limits also hold
//! without control groups, and for contiguous areas, which the kernel does not account.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

use super::ffi;

/// The kind of memory that is counted.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Memory for tasks that are queued, running, or not yet freed: address lists and parsed operations.
    Tasks,
    /// Memory of buffers that the client has allocated, including exported ones.
    Buffers,
    /// Buffers in the device's SRAM.
    Sram,
}

/// A client's counts. They live as long as any charge.
pub(crate) struct Budget {
    tasks: Atomic<u64>,
    buffers: Atomic<u64>,
    sram: Atomic<u64>,
}

impl Budget {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let [tasks, buffers, sram] = [const { Atomic::new(0) }; 3];
        Ok(Arc::new(Self { tasks, buffers, sram }, GFP_KERNEL_ACCOUNT)?)
    }

    fn count(&self, kind: Kind) -> &Atomic<u64> {
        match kind {
            Kind::Tasks => &self.tasks,
            Kind::Buffers => &self.buffers,
            Kind::Sram => &self.sram,
        }
    }

    /// Charges the client with `bytes` until the value is dropped. Fails with `EBUSY` for tasks, `ENOMEM` for
    /// buffers and `ENOSPC` for SRAM if the client would exceed the limit.
    pub(crate) fn charge(self: &Arc<Self>, kind: Kind, bytes: u64) -> Result<Charge> {
        let mut charge = Charge { budget: self.clone(), kind, bytes: 0 };
        charge.grow(bytes)?;
        Ok(charge)
    }
}

/// The limit of a client in bytes. The module parameters are in MiB, and that of SRAM is in KiB.
fn limit(kind: Kind) -> u64 {
    use super::module_parameters as parameters;
    match kind {
        Kind::Tasks => u64::from(parameters::client_tasks_mib.value()) << 20,
        Kind::Buffers => match parameters::client_buffers_mib.value() {
            0 => {
                // SAFETY: No conditions.
                let total = unsafe { ffi::nvdla_memory_total() };
                total / 2
            }
            mib => u64::from(mib) << 20,
        },
        Kind::Sram => match parameters::client_sram_kib.value() {
            0 => u64::MAX,
            kib => u64::from(kib) << 10,
        },
    }
}

/// A charge to a client, which is returned when it is dropped.
pub(crate) struct Charge {
    budget: Arc<Budget>,
    kind: Kind,
    bytes: u64,
}

impl Charge {
    /// Adds `bytes` to the charge.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result {
        let count = self.budget.count(self.kind);
        // Sizes are those of buffers and lists, which are far too small to overflow. A huge size is refused before it
        // is added.
        let limit = limit(self.kind);
        let fits = bytes <= limit && count.fetch_add(bytes, Relaxed) <= limit - bytes;
        if !fits {
            if bytes <= limit {
                count.fetch_sub(bytes, Relaxed);
            }
            return Err(match self.kind {
                Kind::Tasks => EBUSY,
                Kind::Buffers => ENOMEM,
                Kind::Sram => ENOSPC,
            });
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.count(self.kind).fetch_sub(self.bytes, Relaxed);
    }
}

/// The cost of a buffer of that size, including less than a page for the kernel's own structures.
pub(crate) fn cost_of_buffer(size: usize) -> u64 {
    (size as u64).saturating_add(PAGE_SIZE as u64)
}
