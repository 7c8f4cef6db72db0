// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask embedded`: the runtime without an operating system, on a RISC-V machine of QEMU with the model on its bus.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};

use super::arch::Arch;
use super::machine::{self, device, serve, Process, BUS};
use super::{cross, debian};
use crate::cache::checkout;
use crate::command;

/// The processor without floating point and vectors, as soft cores are.
const TARGET: &str = "riscv64imac-unknown-none-elf";
/// A microcontroller, for which only the size of the code is measured.
const MICROCONTROLLER: &str = "thumbv7em-none-eabi";
/// The folder of the LLVM programs.
const LLVM: &str = "/usr/lib/llvm-19/bin";
/// What the program prints first, as the runtime says it of the same picture.
const EXPECTED: &str = "class 7 with 126";
/// The library's features for programs in C, without and with the texts of errors.
const PLAIN: &str = "panic-handler";
const MESSAGES: &str = "panic-handler,messages";
/// The most bytes of code and constants that the program may have without the texts.
const MOST_CODE: u64 = 128 << 10;
/// How long the machine may run.
const LIMIT: Duration = Duration::from_secs(60);

/// Builds the program, runs it, and compares what it prints. Returns the exit status.
pub(crate) fn run() -> Result<u8> {
    let checkout = checkout()?;
    debian::require_bare_tools()?;
    let qemu = debian::qemu(Arch::Riscv)?;
    let target = checkout.join("target");
    let mut server = Command::new("cargo");
    server
        .current_dir(checkout)
        .args(["build", "--quiet", "--locked", "--workspace", "--bin", "nvdla_vp", "--target-dir"])
        .arg(&target);
    command::run(&mut server)?;
    let with_messages = code_size(&build(checkout, &target, MESSAGES)?)?;
    let program = build(checkout, &target, PLAIN)?;
    let code = code_size(&program)?;
    let printed = simulate(&qemu, &target, &program)?;
    print!("{printed}");
    println!("code {code}, with messages {with_messages}");
    let library = library(checkout, &target, MICROCONTROLLER, PLAIN)?;
    println!("library for {MICROCONTROLLER} built: {}", library.display());
    ensure!(printed.lines().next() == Some(EXPECTED), "the program does not print {EXPECTED:?} first");
    ensure!(code <= MOST_CODE, "the program has {code} bytes of code and constants, and {MOST_CODE} are allowed");
    Ok(0)
}

/// Builds the static library for a processor.
fn library(checkout: &Path, target: &Path, triple: &str, features: &str) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(checkout).args(["rustc", "--quiet", "--locked", "-p", "nvdla-embedded"]);
    cargo.args(["--features", features, "--crate-type", "staticlib", "--profile", "embedded"]);
    cargo.args(["--target", triple, "--target-dir"]).arg(target);
    cargo.env("CARGO_UNSTABLE_BUILD_STD", "core").env("CARGO_UNSTABLE_BUILD_STD_FEATURES", "compiler-builtins-mem");
    cargo.env("RUSTC_BOOTSTRAP", "1").env("__CARGO_TESTS_ONLY_SRC_ROOT", cross::library()?);
    command::run(&mut cargo)?;
    Ok(target.join(triple).join("embedded/libnvdla_embedded.a"))
}

/// Builds the program with the network and the picture in it.
fn build(checkout: &Path, target: &Path, features: &str) -> Result<PathBuf> {
    let library = library(checkout, target, TARGET, features)?;
    let work = target.join("embedded-example");
    fs::create_dir_all(&work)?;
    let source = checkout.join("examples/embedded");
    let lenet = checkout.join("examples/lenet");
    fs::copy(lenet.join("lenet.nv_small.nvdla"), work.join("lenet.nvdla"))?;
    fs::copy(lenet.join("images/seven.pgm"), work.join("seven.pgm"))?;
    let program = work.join("lenet.elf");
    let mut clang = Command::new(Path::new(LLVM).join("clang"));
    clang.args(["--target=riscv64-unknown-elf", "-march=rv64imac", "-mabi=lp64", "-mcmodel=medany"]);
    clang.args(["-Os", "-std=c11", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-nostdlib", "-static"]);
    clang.args(["-fuse-ld=lld", "-Wl,--gc-sections"]).arg(format!("--ld-path={LLVM}/ld.lld"));
    clang.arg("-I").arg(checkout.join("umd/embedded/include")).arg("-I").arg(&work);
    clang.arg("-T").arg(source.join("link.ld")).arg(source.join("start.S")).arg(source.join("main.c"));
    clang.arg(library).arg("-o").arg(&program).current_dir(&work);
    command::run(&mut clang)?;
    Ok(program)
}

/// Bytes of code and constants, without the network.
fn code_size(program: &Path) -> Result<u64> {
    let sections = command::output(Command::new(Path::new(LLVM).join("llvm-size")).args(["-A", "-d"]).arg(program))?;
    let size = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        matches!(name, ".text" | ".rodata" | ".data").then(|| words.next()?.parse::<u64>().ok()).flatten()
    };
    Ok(sections.lines().filter_map(size).sum())
}

/// Runs the program in the machine, and returns what it prints.
fn simulate(qemu: &Path, target: &Path, program: &Path) -> Result<String> {
    let work = program.parent().context("the program has no folder")?;
    let socket = work.join(format!("{}.socket", std::process::id()));
    let output = work.join("output.txt");
    let mut server = Command::new(target.join("debug/nvdla_vp"));
    let _server = serve(server.args(["--config", "nv_small"]).stdout(Stdio::null()), &socket)?;
    let mut machine = machine::program(qemu, "qemu-system-riscv64");
    machine.args(["-machine", "virt,memory-backend=mem", "-cpu", "rv64", "-bios", "none", "-m", "128M"]);
    machine.args(["-object", "memory-backend-memfd,id=mem,size=128M,share=on"]);
    machine.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    machine.arg("-serial").arg(format!("file:{}", output.display()));
    machine.arg("-device").arg(device(BUS, 1, &socket));
    machine.arg("-kernel").arg(program);
    let mut machine = Process(machine.stdin(Stdio::null()).spawn().context("cannot start QEMU")?);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = machine.0.try_wait()? {
            break status;
        }
        if start.elapsed() > LIMIT {
            bail!("the machine did not end within {LIMIT:?}:\n{}", fs::read_to_string(&output).unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let _ = fs::remove_file(socket);
    let printed = fs::read_to_string(&output).context("the machine has printed nothing")?;
    ensure!(status.success(), "the machine ended with {status}:\n{printed}");
    Ok(printed)
}
