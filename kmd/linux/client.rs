// SPDX-License-Identifier: GPL-2.0-only

//! A client: one open file of the device.

use kernel::{
    bindings,
    drm,
    prelude::*,
    sync::Arc, //
};

use super::{
    accelerator::Accelerator,
    driver::Driver, //
};

/// The driver's part of an open file. Closing it cancels what the client has queued and aborts what runs.
pub(crate) struct Client {
    /// The client's number on its device.
    pub(crate) id: u64,
    accelerator: Arc<Accelerator>,
}

impl drm::file::DriverFile for Client {
    type Driver = Driver;

    fn open(dev: &drm::Device<Driver>) -> Result<Pin<KBox<Self>>> {
        let accelerator: Arc<Accelerator> = (**dev).clone();
        let id = accelerator.add_client()?;
        match KBox::new(Self { id, accelerator: accelerator.clone() }, GFP_KERNEL) {
            Ok(client) => Ok(client.into()),
            Err(error) => {
                accelerator.remove_client(id);
                Err(error.into())
            }
        }
    }
}

impl Client {
    /// Waits until a task of the client has ended, and says how. The device may go meanwhile.
    pub(crate) fn wait_for_end(&self, sequence: u64) -> Result<Result> {
        self.accelerator.wait_for_end(self.id, sequence)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.accelerator.remove_client(self.id);
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
    client.accelerator.busy_ns(client.id)
}
