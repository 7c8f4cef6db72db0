// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask test`: runs tests of this checkout as programs of another architecture, under QEMU's user emulation.
//!
//! They run once on a processor with all extensions of QEMU and once on one without any, so that every vector instruction set of
//! the model is tested. Files are the host's; the reference data is found as by `cargo test`.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use super::arch::Arch;
use super::{bindings, cross, debian};
use crate::cache::checkout;

/// The default tests: the crates with vector code, and a network.
const TESTS: [&str; 8] = [
    "--package=nvdla-uapi",
    "--package=nvdla-model",
    "--package=nvdla-runtime",
    "--package=nvdla-tests",
    "--lib",
    "--test=units",
    "--test=lenet",
    "--test=conformance",
];

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The architecture
    #[arg(long, value_enum)]
    arch: Arch,
    /// Processors by QEMU's names, one run each [default: one with all extensions, and one without any]
    #[arg(long, value_delimiter = ',')]
    processor: Vec<String>,
    /// Instead of Cargo's tests, run a C program with the C library, and the Python package's tests
    #[arg(long, conflicts_with = "options")]
    bindings: bool,
    /// Options of `cargo test`, which select packages and tests
    #[arg(last = true)]
    options: Vec<String>,
}

/// Builds and runs the tests, and returns their exit status.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let arch = arguments.arch;
    let (program, processors) = arch
        .emulation()
        .with_context(|| format!("programs for {} are not emulated: `cargo test` runs this machine's", arch.name()))?;
    debian::require_cross(Arch::Arm64)?;
    let emulator = debian::emulator(program)?;
    let processors: Vec<&str> = match arguments.processor.as_slice() {
        [] => processors.to_vec(),
        chosen => chosen.iter().map(String::as_str).collect(),
    };
    let checkout = checkout()?;
    if arguments.bindings {
        bindings::run(checkout, arch, &emulator, &processors)?;
        return Ok(0);
    }
    for processor in processors {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(checkout).args(["test", "--locked"]);
        cross::target(&mut cargo, checkout, arch)?;
        cargo.env(cross::variable(arch, "RUNNER"), format!("{} -cpu {processor}", emulator.display()));
        if arguments.options.is_empty() {
            cargo.args(TESTS);
        } else {
            cargo.args(&arguments.options);
        }
        eprintln!("test: on {processor} …");
        let start = Instant::now();
        let status = cargo.status().context("cannot run cargo")?;
        eprintln!("test: on {processor}: {:.0} s", start.elapsed().as_secs_f64());
        if !status.success() {
            return Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
    }
    Ok(0)
}
