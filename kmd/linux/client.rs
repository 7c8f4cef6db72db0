// SPDX-License-Identifier: GPL-2.0-only

//! A client: one open file of the device.

use kernel::{
    bindings,
    drm,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

use super::{
    accelerator::Accelerator,
    budget::{
        Budget,
        Kind, //
    },
    driver::Driver, //
};

/// The driver's part of an open file. Closing the file cancels the client's queued tasks.
pub(crate) struct Client {
    /// The client's number, DRM's own; 0 while the file is being opened.
    id: Atomic<u64>,
    accelerator: Arc<Accelerator>,
    budget: Arc<Budget>,
}

impl drm::file::DriverFile for Client {
    type Driver = Driver;

    fn open(dev: &drm::Device<Driver>) -> Result<Pin<KBox<Self>>> {
        let accelerator: Arc<Accelerator> = (**dev).clone();
        let budget = Budget::new()?;
        Ok(KBox::new(Self { id: Atomic::new(0), accelerator, budget }, GFP_KERNEL_ACCOUNT)?.into())
    }
}

impl Client {
    /// The client's number.
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Relaxed)
    }

    /// The device, which may already be gone.
    pub(crate) fn accelerator(&self) -> &Accelerator {
        &self.accelerator
    }

    /// The client's memory budget.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.accelerator.remove_client(self.id());
    }
}

/// Nanoseconds that the device has worked for the client, for fdinfo.
///
/// # Safety
///
/// `file` must be an open DRM file of this driver.
#[no_mangle]
#[allow(improper_ctypes_definitions)]
unsafe extern "C" fn nvdla_client_busy_ns(file: *mut bindings::drm_file) -> u64 {
    // SAFETY: By this function's condition.
    let file: &drm::File<Client> = unsafe { drm::File::from_raw(file) };
    let client = file.inner();
    client.accelerator.busy_ns(client.id())
}

/// Bytes of SRAM that the client has allocated, for fdinfo.
///
/// # Safety
///
/// `file` must be an open DRM file of this driver.
#[no_mangle]
#[allow(improper_ctypes_definitions)]
unsafe extern "C" fn nvdla_client_sram(file: *mut bindings::drm_file) -> u64 {
    // SAFETY: By this function's condition.
    let file: &drm::File<Client> = unsafe { drm::File::from_raw(file) };
    file.inner().budget.charged(Kind::Sram)
}

/// A file was opened: makes it a client of DRM's number. Returns 0 or an error, after which the file is to be closed.
///
/// # Safety
///
/// `file` must be an open DRM file of this driver that no other thread uses yet.
#[no_mangle]
#[allow(improper_ctypes_definitions)]
unsafe extern "C" fn nvdla_client_opened(file: *mut bindings::drm_file, id: u64) -> c_int {
    // SAFETY: By this function's condition.
    let file: &drm::File<Client> = unsafe { drm::File::from_raw(file) };
    let client = file.inner();
    client.id.store(id, Relaxed);
    client.accelerator.add_client(id).map_or_else(Error::to_errno, |()| 0)
}
