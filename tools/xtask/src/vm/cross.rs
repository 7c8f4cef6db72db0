// SPDX-License-Identifier: MIT OR Apache-2.0

//! Builds programs of this checkout for another architecture. This machine's Rust has no standard library for it, so the library
//! is built from the same source as the kernel's.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::arch::Arch;
use super::debian;
use crate::cache;
use crate::command;

/// The source of the standard library for this machine's rustc.
pub(super) fn library() -> Result<PathBuf> {
    let version = command::output(Command::new("rustc").arg("--version"))?;
    let version = version.split_whitespace().nth(1).context("rustc does not print its version")?.to_string();
    let sources = cache::step(&format!("rust-src-{version}"), "fetching the Rust library's source", |path| {
        debian::unpack(&format!("rust-src={version}*"), path)
            .with_context(|| format!("the library source must match this machine's rustc {version}"))
    })?;
    Ok(sources.join(format!("usr/src/rustc-{version}/library")))
}

/// The folder for what Cargo builds for that architecture.
///
/// For another machine it is separate. The build scripts of libraries for procedural macros read `RUSTC_BOOTSTRAP`, which is set for
/// it, and each change of that variable makes Cargo build again what needs them.
pub(super) fn folder(checkout: &Path, arch: Arch) -> PathBuf {
    let target = checkout.join("target");
    if arch.linker().is_some() {
        target.join("cross")
    } else {
        target
    }
}

/// The folder of the programs that Cargo builds with its release profile and [`target`].
pub(super) fn programs(checkout: &Path, arch: Arch) -> PathBuf {
    let folder = folder(checkout, arch);
    let folder = if arch.linker().is_some() { folder.join(arch.triple()) } else { folder };
    folder.join("release")
}

/// Makes `cargo` build for that architecture. Programs for another machine are statically linked, because nothing here has its
/// libraries.
pub(super) fn target(cargo: &mut Command, checkout: &Path, arch: Arch) -> Result<()> {
    cargo.env_remove("CARGO_TARGET_DIR").arg("--target-dir").arg(folder(checkout, arch));
    if arch.linker().is_none() {
        return Ok(());
    }
    environment(cargo.args(["--target", arch.triple()]), arch)?;
    cargo.env("RUSTFLAGS", "-C target-feature=+crt-static");
    Ok(())
}

/// Makes Cargo, or a program that runs Cargo, build for that architecture, if its options name it.
pub(crate) fn environment(program: &mut Command, arch: Arch) -> Result<()> {
    if let Some(linker) = arch.linker() {
        program.env("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort").env("RUSTC_BOOTSTRAP", "1");
        program.env("__CARGO_TESTS_ONLY_SRC_ROOT", library()?);
        program.env(linker_variable(arch), linker);
    }
    Ok(())
}

/// The name of Cargo's environment variable for the linker of that architecture.
pub(crate) fn linker_variable(arch: Arch) -> String {
    variable(arch, "LINKER")
}

/// The name of Cargo's environment variable for a setting of that architecture.
pub(super) fn variable(arch: Arch, setting: &str) -> String {
    format!("CARGO_TARGET_{}_{setting}", arch.triple().to_uppercase().replace('-', "_"))
}
