// SPDX-License-Identifier: MIT OR Apache-2.0

//! The device that the virtual machine sees: register accesses and interrupts on one side, the model on the other.
//!
//! The server thread answers accesses; a worker thread performs operations, because one may take longer than the virtual
//! machine waits for an answer. Interrupts are events: INTx while the line is up and unmasked, MSI when the line rises or
//! is still up after software has acknowledged a part of it.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nvdla_model::device::Model;
use nvdla_uapi::reg::{glb, Block};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_UNMASK, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, ServerBackend};

use crate::faults::Faults;
use crate::guest::Guest;
use crate::pci::Configuration;

/// Who hears of an interrupt.
#[derive(Default)]
struct Interrupts {
    intx: Option<File>,
    msi: Option<File>,
    delivered: u64,
}

/// What the server and the worker share. Locks are taken in the order of the fields; an operation runs under the guest's.
struct Shared {
    guest: Mutex<Guest>,
    model: Mutex<Model>,
    interrupts: Mutex<Interrupts>,
    /// Software has written a register since the worker last looked; and whether the worker shall end.
    pending: Mutex<(bool, bool)>,
    wake: Condvar,
    faults: Faults,
}

/// A lock whose holder panicked still guards plain data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Tells the virtual machine that the line is up.
    fn raise(&self) {
        let mut interrupts = lock(&self.interrupts);
        interrupts.delivered += 1;
        if self.faults.loses_interrupt(interrupts.delivered) {
            log::warn!("interrupt {} is lost, as asked", interrupts.delivered);
            return;
        }
        let Interrupts { intx, msi, .. } = &mut *interrupts;
        if let Some(event) = msi.as_mut().or(intx.as_mut()) {
            if let Err(error) = event.write_all(&1u64.to_ne_bytes()) {
                log::error!("an interrupt was not delivered: {error}");
            }
        }
    }

    /// Resets the device, which touches no memory afterwards: an operation under way ends before.
    fn reset(&self) {
        let _quiet = lock(&self.guest);
        lock(&self.model).reset();
    }

    /// Performs operations until told to end.
    fn work(&self) {
        let mut operations = 0;
        loop {
            let mut pending = lock(&self.pending);
            while !pending.0 && !pending.1 {
                pending = self.wake.wait(pending).unwrap_or_else(PoisonError::into_inner);
            }
            if pending.1 {
                return;
            }
            pending.0 = false;
            drop(pending);

            // Registers answer while an operation runs: only its start and its end take the model's lock.
            loop {
                let mut guest = lock(&self.guest);
                let Some(work) = lock(&self.model).start() else { break };
                operations += 1;
                if self.faults.hangs(operations) {
                    log::warn!("operation {operations} never ends, as asked");
                    continue;
                }
                guest.refuse = self.faults.refuses_memory(operations);
                let finished = work.run(&mut *guest);

                let mut model = lock(&self.model);
                let before = model.interrupt();
                model.finish(finished);
                while let Some(stop) = model.take_stop() {
                    log::error!("{stop}");
                }
                let rises = !before && model.interrupt();
                drop((model, guest));
                if rises {
                    self.raise();
                }
            }
        }
    }
}

/// The device behind the socket.
pub(crate) struct Device {
    configuration: Configuration,
    status: u64,
    shared: Arc<Shared>,
    worker: Option<std::thread::JoinHandle<()>>,
    reads: u64,
    writes: u64,
}

impl Device {
    pub(crate) fn new(model: Model, faults: Faults) -> io::Result<Self> {
        let config = model.config();
        let base = Block::Glb.base(config.family).unwrap_or(0);
        let shared = Arc::new(Shared {
            guest: Mutex::default(),
            model: Mutex::new(model),
            interrupts: Mutex::default(),
            pending: Mutex::default(),
            wake: Condvar::new(),
            faults,
        });
        let worker = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("model".into()).spawn(move || shared.work())?
        };
        Ok(Self {
            configuration: Configuration::new(),
            status: u64::from(base + u32::from(glb::S_INTR_STATUS.offset)),
            shared,
            worker: Some(worker),
            reads: 0,
            writes: 0,
        })
    }

    /// Register reads, register writes and interrupts so far.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.reads, self.writes, lock(&self.shared.interrupts).delivered)
    }

    fn write_register(&mut self, offset: u64, value: u32) {
        self.writes += 1;
        let Ok(register) = u32::try_from(offset) else { return };
        let mut model = lock(&self.shared.model);
        let before = model.interrupt();
        model.write(register, value);
        let after = model.interrupt();
        drop(model);
        if after && (!before || offset == self.status) {
            self.shared.raise();
        }
        lock(&self.shared.pending).0 = true;
        self.shared.wake.notify_one();
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        lock(&self.shared.pending).1 = true;
        self.shared.wake.notify_one();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl ServerBackend for Device {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        data.fill(0);
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => {
                if let Some(bytes) =
                    usize::try_from(offset).ok().and_then(|offset| self.configuration.read(offset, data.len()))
                {
                    data.copy_from_slice(bytes);
                }
            }
            VFIO_PCI_BAR0_REGION_INDEX => {
                self.reads += 1;
                if let (Ok(register), 4) = (u32::try_from(offset), data.len()) {
                    let value = lock(&self.shared.model).read(register);
                    data.copy_from_slice(&value.to_le_bytes());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        // Writes are posted: an error here would end the connection, so what makes no sense is ignored.
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => {
                let reset = usize::try_from(offset).is_ok_and(|offset| self.configuration.write(offset, data));
                if reset {
                    self.shared.reset();
                }
            }
            VFIO_PCI_BAR0_REGION_INDEX => match <[u8; 4]>::try_from(data) {
                Ok(bytes) => self.write_register(offset, u32::from_le_bytes(bytes)),
                Err(_) => log::warn!("a write of {} bytes at {offset:#x} of BAR 0 is ignored", data.len()),
            },
            _ => {}
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        // Pieces without a file (video memory, firmware) cannot be reached by this device.
        let Some(file) = file else { return Ok(()) };
        log::debug!("guest memory {address:#x}, {size:#x} bytes");
        lock(&self.shared.guest).map(address, size, &file, offset, flags.contains(DmaMapFlags::WRITE))
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        let mut guest = lock(&self.shared.guest);
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            guest.clear();
        } else {
            guest.unmap(address, size);
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.shared.reset();
        Ok(())
    }

    fn set_irqs(&mut self, index: u32, flags: u32, _start: u32, count: u32, mut fds: Vec<File>) -> io::Result<()> {
        let up = lock(&self.shared.model).interrupt();
        let mut interrupts = lock(&self.shared.interrupts);
        let slot = match index {
            VFIO_PCI_INTX_IRQ_INDEX => &mut interrupts.intx,
            VFIO_PCI_MSI_IRQ_INDEX => &mut interrupts.msi,
            _ => return Ok(()),
        };
        if flags & VFIO_IRQ_SET_ACTION_TRIGGER != 0 {
            if count == 0 {
                *slot = None;
            } else if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
                *slot = fds.pop();
            }
        }
        let unmasked = index == VFIO_PCI_INTX_IRQ_INDEX && flags & VFIO_IRQ_SET_ACTION_UNMASK != 0;
        let again = unmasked && up && interrupts.msi.is_none();
        drop(interrupts);
        if again {
            self.shared.raise();
        }
        Ok(())
    }
}
