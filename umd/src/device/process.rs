// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a forked process must not do.
//!
//! A process that is forked has a copy of the memory of its parent, and none of the parent's threads. A device, its queue and the
//! model's pool of threads therefore work only in the process that opened them. Without a check a run in the child would wait for
//! a thread that does not exist.

use std::sync::atomic::{AtomicU32, Ordering};

use super::error::Error;

/// The process that something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// This process.
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// Whether this process is the owner.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }

    /// An error in any other process.
    pub(crate) fn check(self) -> Result<(), Error> {
        match Self::current() {
            current if current == self => Ok(()),
            current => Err(Error::Forked { owner: self.0, process: current.0 }),
        }
    }
}

/// The process whose threads compute; 0 before the first computation.
static COMPUTES: AtomicU32 = AtomicU32::new(0);

/// Called before a computation that uses pools of threads, which exist once per process: the model's, and the compiler's.
pub(super) fn same_process() -> Result<(), Error> {
    let process = std::process::id();
    match COMPUTES.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire) {
        Err(owner) if owner != process => Err(Error::Forked { owner, process }),
        _ => Ok(()),
    }
}

/// Called before a computation that uses rayon's global pool. Starts its threads.
///
/// # Errors
///
/// In a process that was forked after such a computation; when a thread cannot be started.
pub fn may_compute() -> Result<(), Error> {
    same_process()?;
    #[cfg(feature = "model")]
    nvdla_model::threads::start().map_err(|source| Error::Thread { device: "the computation".into(), source })?;
    Ok(())
}
