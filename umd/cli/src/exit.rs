// SPDX-License-Identifier: MIT OR Apache-2.0

//! The end of the programs: their exit status ([`nvdla_runtime::program`]), and how they report errors.

use std::error::Error;
use std::process::ExitCode;

use nvdla_compiler::kind_of;
use nvdla_runtime::program::{self, sentence};
use nvdla_runtime::{compare, files, image, labels, loadable, ErrorKind};

use crate::doctor;
use crate::failure::{Context, Failure, Problem, Shown};

/// The kind of a failure, and its exit status.
pub(crate) fn of(error: &(dyn Error + 'static)) -> (Option<ErrorKind>, u8) {
    let kind = kind(error);
    match error.downcast_ref() {
        Some(compare::Error::Differs { .. }) => (kind, 6),
        _ => (kind, program::status(kind)),
    }
}

/// Prints what went wrong, and returns the exit status.
pub(crate) fn end(result: Result<(), Failure>, json: bool) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    // The object of the run may have the error already.
    let (error, json) = match error.downcast::<Shown>() {
        Ok(shown) => (shown.0, false),
        Err(error) => (error, json),
    };
    let (kind, status) = of(error.as_ref());
    program::fail("error", &sentence(error.as_ref()), kind, status, json)
}

/// Prints what is wrong with the command line, or the text of --help or --version, and returns the exit status.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    program::usage(&error.to_string(), error.use_stderr())
}

/// The kind of an error of the library or of the programs.
fn kind(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    let own = if let Some(problem) = error.downcast_ref::<Problem>() {
        Some(if problem.is_file() { ErrorKind::File } else { ErrorKind::Argument })
    } else if let Some(context) = error.downcast_ref::<Context<loadable::Error>>() {
        Some(context.error().kind())
    } else if let Some(context) = error.downcast_ref::<Context<image::Error>>() {
        Some(context.error().kind())
    } else if error.is::<labels::Error>() || error.is::<compare::Error>() || error.is::<std::io::Error>() {
        Some(ErrorKind::File)
    } else if error.is::<files::Clash>() {
        Some(ErrorKind::Argument)
    } else if error.is::<doctor::Found>() {
        Some(ErrorKind::Device)
    } else {
        None
    };
    own.or_else(|| kind_of(error))
}
