// SPDX-License-Identifier: GPL-2.0-only

//! A client: one open file of the device.

use kernel::{
    bindings,
    drm,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    }, //
};

use super::{
    accelerator::Accelerator,
    budget::Budget,
    driver::{
        drm_raw,
        Driver, //
    },
    ffi::{
        self,
        Domain, //
    },
    job::Jobs, //
};

/// The driver's part of an open file. Closing the file cancels the client's queued tasks.
#[pin_data(PinnedDrop)]
pub(crate) struct Client {
    /// The client's number, DRM's own; 0 while the file is being opened.
    id: Atomic<u64>,
    accelerator: Arc<Accelerator>,
    budget: Arc<Budget>,
    /// What its tasks can access; `None` for what all clients' can.
    domain: Option<Domain>,
    /// The context of its tasks' fences.
    fences: u64,
    /// The number of its last fence. Held from the numbering of fences until their tasks are queued, because a client's tasks end in
    /// the order in which they are queued.
    #[pin]
    order: Mutex<u64>,
}

impl drm::file::DriverFile for Client {
    type Driver = Driver;

    fn open(dev: &drm::Device<Driver>) -> Result<Pin<KBox<Self>>> {
        let accelerator: Arc<Accelerator> = (**dev).clone();
        let budget = Budget::new()?;
        let domain = if super::module_parameters::client_domains.value() != 0 {
            // SAFETY: The device is of this driver.
            unsafe { Domain::new(drm_raw(dev))? }
        } else {
            None
        };
        KBox::pin_init(
            try_pin_init!(Self {
                id: Atomic::new(0),
                accelerator,
                budget,
                domain,
                fences: ffi::fence_context(),
                order <- new_mutex!(0),
            }? Error),
            GFP_KERNEL_ACCOUNT,
        )
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

    /// Numbers the fences of jobs, and lets `queue` put the jobs into the client's queue. Jobs that are not queued stay the caller's.
    pub(crate) fn in_order<R>(&self, jobs: &mut Jobs, queue: impl FnOnce(&mut Jobs) -> Result<R>) -> Result<R> {
        let mut order = self.order.lock();
        let mut number = order.saturating_add(jobs.len() as u64);
        *order = number;
        // The newest comes first.
        jobs.try_for_each(|job| {
            job.fence.begin(self.fences, number);
            number -= 1;
            Ok(())
        })?;
        queue(jobs)
    }

    /// The client's memory budget.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// What its tasks can access; `None` for what all clients' can.
    pub(crate) fn domain(&self) -> Option<&Domain> {
        self.domain.as_ref()
    }
}

#[pinned_drop]
impl PinnedDrop for Client {
    fn drop(self: Pin<&mut Self>) {
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
