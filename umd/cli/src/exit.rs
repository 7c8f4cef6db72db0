// SPDX-License-Identifier: MIT OR Apache-2.0

//! The exit status of the programs, and how they report errors.
//!
//! | status | meaning |
//! | --- | --- |
//! | 0 | all went well |
//! | 1 | any other failure |
//! | 2 | the command line is wrong |
//! | 3 | a file cannot be read, written or understood |
//! | 4 | a task breaks a rule of the hardware or of its configuration |
//! | 5 | the device failed, or something did not end in time |
//! | 6 | surfaces differ from those that they are compared with |

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use nvdla_runtime::{compare, image, kind_of, labels, loadable, ErrorKind};

use crate::failure::{sentence, Context, Failure, Problem};
use crate::json;

/// Prints what went wrong, and returns the exit status.
pub(crate) fn end(result: Result<(), Failure>, json: bool) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let (kind, text) = (kind(error.as_ref()), sentence(error.as_ref()));
    let status = match kind {
        _ if matches!(error.downcast_ref(), Some(compare::Error::Differs { .. })) => 6,
        Some(ErrorKind::Argument) => 2,
        Some(ErrorKind::File | ErrorKind::Loadable) => 3,
        Some(ErrorKind::Refused) => 4,
        Some(
            ErrorKind::Memory | ErrorKind::Device | ErrorKind::Deadline | ErrorKind::Busy | ErrorKind::Unsupported,
        ) => 5,
        _ => 1,
    };
    eprintln!("error: {text}");
    if json {
        show(kind, text, status);
    }
    ExitCode::from(status)
}

/// Prints what is wrong with the command line, or the text of --help or --version, and returns the exit status.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // If printing fails, nobody reads the message.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    // The command line could not be parsed, so it is searched for --json.
    if std::env::args_os().any(|argument| argument == "--json") {
        let text = error.to_string();
        let text = text.lines().next().unwrap_or_default();
        show(Some(ErrorKind::Argument), text.strip_prefix("error: ").unwrap_or(text).to_owned(), 2);
    }
    ExitCode::from(2)
}

fn show(kind: Option<ErrorKind>, message: String, status: u8) {
    let error = json::Error { kind: kind.map(ErrorKind::name), message, status };
    let failed = json::Output::Failed(json::Failed { version: json::VERSION, error });
    // Serialising numbers and text does not fail. If the standard output is closed, nobody reads the message.
    if let Ok(text) = serde_json::to_string(&failed) {
        let _ = writeln!(std::io::stdout(), "{text}");
    }
}

/// The kind of an error of the library or of the programs.
fn kind(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    let own = if let Some(problem) = error.downcast_ref::<Problem>() {
        Some(if problem.is_file() { ErrorKind::File } else { ErrorKind::Argument })
    } else if let Some(context) = error.downcast_ref::<Context<loadable::Error>>() {
        Some(context.error().kind())
    } else if let Some(context) = error.downcast_ref::<Context<image::Error>>() {
        Some(context.error().kind())
    } else if error.is::<labels::Error>() || error.is::<compare::Error>() {
        Some(ErrorKind::File)
    } else {
        None
    };
    own.or_else(|| kind_of(error))
}
