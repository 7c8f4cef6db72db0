// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors as texts for the user.

use std::panic::{catch_unwind, AssertUnwindSafe};

/// What went wrong, as a text for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// A result whose error is a text for the user.
pub type Result<T> = std::result::Result<T, Failure>;

/// Calls the compiler. A panic of it must not end the framework's process, and is an error.
///
/// # Errors
///
/// Those of the call, or that it has panicked.
pub fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err("the compiler has panicked".into()))
}
