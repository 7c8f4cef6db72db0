// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask test --bindings`: builds the C library and the Python package for another architecture, and uses them in programs
//! of that architecture under QEMU's user emulation.
//!
//! The C program and the Python tests are the same as in this machine's tests. C libraries and Python come from Debian's
//! packages, NumPy from PyPI.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{ensure, Context, Result};

use super::arch::Arch;
use super::{cross, debian};
use crate::command;

/// The oldest C libraries that NumPy's wheels are built for, as pip's platform names without the architecture.
const WHEELS: [&str; 2] = ["manylinux_2_28", "manylinux_2_27"];

/// Builds both and runs their programs on each of the processors.
pub(super) fn run(checkout: &Path, arch: Arch, emulator: &Path, processors: &[&str]) -> Result<()> {
    let root = debian::python(arch)?;
    let linker = arch.linker().context("the architecture is this machine's")?;
    let work = checkout.join("target/bindings").join(arch.debian());
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work)?;

    // The C library, installed and linked as docs/library.md says.
    let mut build = Command::new("cargo");
    build.current_dir(checkout).args(["build", "--locked", "--package", "nvdla-capi", "--target", arch.triple()]);
    cross::environment(&mut build, arch)?;
    let target = cross::folder(checkout, arch);
    command::run(build.env("CARGO_TARGET_DIR", &target))?;
    let prefix = work.join("usr");
    let built = target.join(arch.triple()).join("debug");
    command::run(Command::new(checkout.join("umd/capi/install")).arg(&prefix).arg(&built))?;
    let mut flags = Command::new("pkg-config");
    flags.args(["--cflags", "--libs", "nvdla"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = command::output(&mut flags)?;
    let program = work.join("classify");
    let mut compile = Command::new(linker);
    compile.args(["-std=c99", "-D_POSIX_C_SOURCE=200112L", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    compile.arg(checkout.join("umd/capi/tests/programs/classify.c")).arg("-o").arg(&program);
    command::run(compile.args(flags.split_whitespace()))?;

    // The Python package, with a NumPy for that architecture. This machine's pip installs both into a folder.
    let environment = work.join("environment");
    command::run(Command::new("python3").args(["-m", "venv"]).arg(&environment))
        .context("python3 cannot make an environment (Debian's package python3-venv)")?;
    let pip = environment.join("bin/pip");
    command::run(Command::new(&pip).args(["install", "--quiet", "maturin>=1.16,<2"]))?;
    let package = checkout.join("umd/python");
    let wheels = work.join("wheels");
    let mut build = Command::new(environment.join("bin/maturin"));
    build.args(["build", "--quiet", "--profile", "dev", "--compatibility", "linux", "--target", arch.triple()]);
    build.arg("--manifest-path").arg(package.join("Cargo.toml")).arg("--out").arg(&wheels);
    cross::environment(&mut build, arch)?;
    command::run(build.env("CARGO_TARGET_DIR", &target))?;
    let wheel = fs::read_dir(&wheels)?.next().context("maturin built no wheel")??.path();
    let site = work.join("site");
    let machine = arch.triple().split('-').next().unwrap_or_default();
    let mut install = Command::new(&pip);
    install.args(["install", "--quiet", "--only-binary=:all:", "--python-version", debian::PYTHON]);
    for system in ["linux"].iter().chain(&WHEELS) {
        install.args(["--platform", &format!("{system}_{machine}")]);
    }
    command::run(install.arg("--target").arg(&site).arg(wheel))?;

    let example = checkout.join("examples/lenet");
    for processor in processors {
        let emulated = |program: &Path| {
            let mut command = Command::new(emulator);
            command.args(["-cpu", processor]).arg("-L").arg(&root).arg(program).stdin(Stdio::null());
            command
        };
        let mut classify = emulated(&program);
        classify.args([example.join("lenet.nv_small.nvdla"), example.join("images/seven.pgm")]).arg("model:nv_small");
        let printed = command::output(classify.env("LD_LIBRARY_PATH", prefix.join("lib")))?;
        ensure!(printed.contains("class 7\n"), "the C program printed: {printed}");
        eprintln!("test: on {processor}: the C program: {}", printed.trim().replace('\n', ", "));
        for (script, argument) in [("tests/test_nvdla.py", None), ("examples/digits.py", Some(&example))] {
            let mut command = emulated(&root.join(format!("usr/bin/python{}", debian::PYTHON)));
            command.arg(package.join(script)).args(argument).env("PYTHONPATH", &site).env("EXAMPLE", &example);
            let status = command.status().context("cannot run the emulated Python")?;
            ensure!(status.success(), "on {processor}: {script} ended with {status}");
        }
    }
    Ok(())
}
