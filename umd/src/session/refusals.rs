// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver's validation of a loadable's tasks, without a device.

use std::fmt;
use std::sync::Arc;

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::RamType;

use super::error::Error;
use super::state::Session;
use crate::device::{self, refusal, Buffers as _, ModelDevice};
use crate::loadable::{Interface, Loadable};

/// Why a device refuses a task.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The task's id.
    pub task: u16,
    /// The rule, and where it is broken.
    pub error: nvdla_engine::Error,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}: {}{}", self.task, self.error, self.hint())
    }
}

impl Refusal {
    /// What a user can do about it, as the end of a sentence; empty if there is nothing.
    pub fn hint(&self) -> &'static str {
        device::hint(&self.error)
    }
}

/// The reasons for which a device of a configuration refuses a loadable's tasks. Nothing is run.
///
/// For each task every refused operation is listed. If no operation is refused, the dependency graph is checked.
///
/// # Errors
///
/// When the loadable's descriptors cannot be read at all.
///
/// ```
/// use nvdla_runtime::{loadable::Loadable, session};
/// use nvdla_uapi::config::{NV_LARGE, NV_SMALL};
///
/// let lenet = || Loadable::open("../examples/lenet/lenet.nv_small.nvdla");
/// assert!(session::refusals(lenet()?, &NV_SMALL)?.is_empty());
/// assert!(session::refusals(lenet()?, &NV_LARGE)?.len() > 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn refusals(loadable: impl Into<Arc<Loadable>>, config: &'static Config) -> Result<Vec<Refusal>, Error> {
    // The model's device provides the buffers in which older descriptors are converted to the current form.
    let session = Session::new(loadable, ModelDevice::new(config))?;
    let mut found = Vec::new();
    for task in session.tasks.iter().filter(|task| task.interface == Interface::Dla1) {
        let addresses = session.addresses(task);
        let entry = |address: &crate::device::AddressEntry| {
            let (buffer, bytes) = (address.handle.number() as usize, session.device.bytes(address.handle));
            // Every device has primary memory for the loadable.
            refusal::Entry { buffer, offset: address.offset, bytes, memory: RamType::Mcif }
        };
        let entries: Vec<_> = addresses.iter().map(entry).collect();
        found.extend(refusal::all(config, &entries).into_iter().map(|error| Refusal { task: task.id, error }));
    }
    Ok(found)
}
