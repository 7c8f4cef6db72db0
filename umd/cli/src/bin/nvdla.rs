// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla`: one command for the project's programs.

use std::process::ExitCode;

fn main() -> ExitCode {
    nvdla_cli::nvdla()
}
