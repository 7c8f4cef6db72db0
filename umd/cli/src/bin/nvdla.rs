// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla`: one command for what the project's programs do.

use std::process::ExitCode;

fn main() -> ExitCode {
    nvdla_cli::nvdla()
}
