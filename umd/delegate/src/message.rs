// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lines for the user.

use std::io::Write as _;

/// Prints a line for the user, as the interpreter prints its own.
pub(crate) fn say(text: &str) {
    // A line that cannot be printed is lost.
    let _ = writeln!(std::io::stderr(), "{text}");
}
