// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of the runtime as Python's exceptions.

use std::error::Error as StdError;

use nvdla_compiler::kind_of;
use nvdla_runtime::program::{plain, sentence};
use nvdla_runtime::ErrorKind;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    nvdla,
    Error,
    PyException,
    "A call that failed. Its attribute kind is one of \"argument\", \"file\", \"loadable\", \"refused\", \
     \"memory\", \"device\", \"deadline\", \"busy\", \"unsupported\", \"cancelled\" or \"other\"."
);

/// An error that needs no Python, so that it can be made while other Python threads run.
#[derive(Clone)]
pub(crate) struct Failure {
    kind: &'static str,
    text: String,
}

impl Failure {
    /// A wrong argument.
    #[allow(clippy::needless_pass_by_value)] // it is passed to `map_err`
    pub(crate) fn argument(text: impl ToString) -> Self {
        Self { kind: ErrorKind::Argument.name(), text: text.to_string() }
    }
}

impl Failure {
    /// A call that was cancelled.
    pub(crate) fn cancelled() -> Self {
        Self { kind: ErrorKind::Cancelled.name(), text: "the call was cancelled".into() }
    }

    /// Not enough memory.
    pub(crate) fn memory(text: String) -> Self {
        Self { kind: ErrorKind::Memory.name(), text }
    }
}

impl<E: StdError + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let kind = kind_of(&error).map_or("other", ErrorKind::name);
        Self { kind, text: plain(&sentence(&error)) }
    }
}

/// Converts failures to exceptions.
pub(crate) trait Raise<T> {
    fn raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Raise<T> for Result<T, Failure> {
    fn raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|Failure { kind, text }| {
            let error = Error::new_err(text);
            match error.value(py).setattr("kind", kind) {
                Ok(()) => error,
                Err(other) => other,
            }
        })
    }
}
