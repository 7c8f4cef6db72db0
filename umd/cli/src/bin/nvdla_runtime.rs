// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_runtime`: runs a loadable with an image or raw tensors, and shows the results.
//!
//! It takes the options of NVIDIA's program of this name and writes the same `output.dimg`. Results go to the standard
//! output; errors, one sentence each with its cause, to the standard error.

use std::process::ExitCode;

fn main() -> ExitCode {
    nvdla_cli::nvdla_runtime()
}
