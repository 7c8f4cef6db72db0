// SPDX-License-Identifier: MIT OR Apache-2.0

//! How the project's programs end, and how they write to the standard output and the standard error.
//!
//! | status | meaning |
//! | --- | --- |
//! | 0 | success |
//! | 1 | any other failure: a trace fails, results depend on how long operations take |
//! | 2 | the command line is wrong |
//! | 3 | a file cannot be read, written or understood; this includes the standard output |
//! | 4 | a task, or a node of a network, breaks a rule of the hardware or of its configuration |
//! | 5 | the device failed, or something did not end in time |
//! | 6 | surfaces differ from those that they are compared with |

use std::error::Error;
use std::io::{self, ErrorKind as IoErrorKind, Write as _};
use std::process::ExitCode;

use crate::error::ErrorKind;

/// The version of the objects that programs print with `--json`. It changes when a field is removed or its meaning changes.
pub const JSON_VERSION: u32 = 1;

/// The exit status of a failure. None is a failure of no kind.
pub fn status(kind: Option<ErrorKind>) -> u8 {
    match kind {
        None => 1,
        Some(ErrorKind::Argument) => 2,
        Some(ErrorKind::File | ErrorKind::Loadable) => 3,
        Some(ErrorKind::Refused) => 4,
        Some(_) => 5,
    }
}

/// An error and its causes as one sentence.
pub fn sentence(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some errors have the text of their cause in their own.
        if !sentence.ends_with(&text) {
            sentence.push_str(": ");
            sentence.push_str(&text);
        }
        cause = error.source();
    }
    sentence
}

/// The text with its control characters, and the characters that change the direction of writing, escaped. A file may have put
/// them there to deceive who reads the terminal. Lines stay lines.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        let invisible =
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        if (c.is_control() && c != '\n') || invisible {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Writes a line to the standard error. If that is closed or full, nothing else can be told.
pub fn say(text: &str) {
    let _ = io::stderr().write_all((plain(text) + "\n").as_bytes());
}

/// Writes a text to the standard output. A reader who has closed the pipe needs no more of it, which is no error.
///
/// # Errors
///
/// When it cannot be written, for example to a full disk.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == IoErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| not_printed(&error)),
    }
}

/// The error of a standard output, or standard error, that cannot be written.
pub fn not_printed(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot print: {error}"))
}

/// Tells what went wrong, and returns the exit status. With `json` the standard output gets an object too.
pub fn fail(name: &str, message: &str, kind: Option<ErrorKind>, status: u8, json: bool) -> ExitCode {
    say(&format!("{name}: {message}"));
    if json {
        // If the standard output is closed, nobody reads the object.
        let _ = print(&object(message, kind, status));
    }
    ExitCode::from(status)
}

/// The object that a program with `--json` prints for a failure, as a line.
pub fn object(message: &str, kind: Option<ErrorKind>, status: u8) -> String {
    let error = serde_json::json!({"kind": kind.map(ErrorKind::name), "message": message, "status": status});
    format!("{}\n", serde_json::json!({"version": JSON_VERSION, "error": error}))
}

/// Tells what is wrong with the command line, or prints the text of --help or --version, and returns the exit status. The command
/// line could not be parsed, so it is searched for --json.
pub fn usage(text: &str, is_error: bool) -> ExitCode {
    if !is_error {
        return match print(text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                fail("error", &error.to_string(), Some(ErrorKind::File), status(Some(ErrorKind::File)), false)
            }
        };
    }
    say(text.trim_end());
    let status = status(Some(ErrorKind::Argument));
    if std::env::args_os().any(|argument| argument == "--json") {
        let first = text.lines().next().unwrap_or_default();
        // If the standard output is closed, nobody reads the object.
        let _ = print(&object(first.strip_prefix("error: ").unwrap_or(first), Some(ErrorKind::Argument), status));
    }
    ExitCode::from(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_files_are_escaped() {
        assert_eq!(plain("a\u{1b}[2Jb\u{202e}c\nd"), "a\\u{1b}[2Jb\\u{202e}c\nd");
        assert_eq!(plain("Größe 大"), "Größe 大");
    }
}
