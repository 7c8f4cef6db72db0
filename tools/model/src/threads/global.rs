// SPDX-License-Identifier: MIT OR Apache-2.0

//! The threads of rayon's global pool.

use std::error::Error as _;
use std::io;
use std::sync::OnceLock;

/// Starts rayon's threads, if they do not run yet. Without this call rayon starts them when they are needed first, and panics if the
/// system has no more threads.
///
/// # Errors
///
/// When a thread cannot be started. Every later call returns the same error.
pub fn start() -> io::Result<()> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    let started = STARTED.get_or_init(|| match rayon::ThreadPoolBuilder::new().build_global() {
        // An error without a cause means that the threads run already.
        Err(error) if error.source().is_some() => Err(error.to_string()),
        _ => Ok(()),
    });
    started.clone().map_err(io::Error::other)
}
