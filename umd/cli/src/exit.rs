// SPDX-License-Identifier: MIT OR Apache-2.0

//! How the programs end.
//!
//! | status | what |
//! | --- | --- |
//! | 0 | all went well |
//! | 1 | none of the others |
//! | 2 | the command line is wrong |
//! | 3 | a file cannot be read, written or understood |
//! | 4 | a task breaks a rule of the hardware or of its configuration |
//! | 5 | the device failed, or something did not end in time |
//! | 6 | surfaces differ from those that they are compared with |

use std::error::Error;
use std::process::ExitCode;

use nvdla_runtime::{compare, image, kind_of, labels, loadable, ErrorKind};
use serde_json::json;

use crate::failure::{sentence, Context, Failure, Problem};
use crate::report::VERSION;

/// Says what went wrong, and gives the exit status.
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
        let error = json!({ "kind": kind.map(ErrorKind::name), "message": text, "status": status });
        println!("{}", json!({ "version": VERSION, "error": error }));
    }
    ExitCode::from(status)
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
