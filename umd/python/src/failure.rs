// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of the runtime as Python's exceptions.

use std::error::Error as StdError;

use nvdla_compiler::ir::Refusal;
use nvdla_compiler::{kind_of, refusals_of};
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
    refusals: Vec<Refusal>,
}

impl Failure {
    /// A wrong argument.
    #[allow(clippy::needless_pass_by_value)] // it is passed to `map_err`
    pub(crate) fn argument(text: impl ToString) -> Self {
        Self { kind: ErrorKind::Argument.name(), text: text.to_string(), refusals: Vec::new() }
    }
}

impl Failure {
    /// A call that was cancelled.
    pub(crate) fn cancelled() -> Self {
        Self { kind: ErrorKind::Cancelled.name(), text: "the call was cancelled".into(), refusals: Vec::new() }
    }

    /// A file that cannot be read.
    pub(crate) fn file(text: String) -> Self {
        Self { kind: ErrorKind::File.name(), text, refusals: Vec::new() }
    }

    /// Not enough memory.
    pub(crate) fn memory(text: String) -> Self {
        Self { kind: ErrorKind::Memory.name(), text, refusals: Vec::new() }
    }
}

impl<E: StdError + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let kind = kind_of(&error).map_or("other", ErrorKind::name);
        let refusals = refusals_of(&error).map_or(Vec::new(), |unreadable| unreadable.0.clone());
        Self { kind, text: plain(&sentence(&error)), refusals }
    }
}

/// Converts failures to exceptions.
pub(crate) trait Raise<T> {
    fn raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Raise<T> for Result<T, Failure> {
    fn raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|Failure { kind, text, refusals }| {
            let error = Error::new_err(text);
            let nodes: Vec<(String, String, String)> =
                refusals.into_iter().map(|Refusal { node, operator, reason, .. }| (node, operator, reason)).collect();
            let value = error.value(py);
            match value.setattr("kind", kind).and_then(|()| value.setattr("refusals", nodes)) {
                Ok(()) => error,
                Err(other) => other,
            }
        })
    }
}
