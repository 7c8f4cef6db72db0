// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ends runs on request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Ends runs that have it in their options. Clones end the same runs.
///
/// On the model, on simulators of the RTL and on devices that this process drives, the running operation is stopped within
/// milliseconds. A task that the kernel's driver has continues until its end or its time limit; further tasks are not begun.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the runs.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the runs are to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// The flag itself, for the model.
    #[cfg(feature = "model")]
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}
