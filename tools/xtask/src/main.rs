// SPDX-License-Identifier: MIT OR Apache-2.0

//! The developer's commands beside Cargo, as `cargo xtask …`.

mod cache;
mod command;
mod figures;
mod package;
mod rtl;
mod series;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", version, about = "The developer's commands beside Cargo")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Starts a virtual machine with the model on its PCI bus, inserts the kernel module and runs a command
    Vm(vm::Arguments),
    /// Runs tests of this checkout built for another architecture, under QEMU's user emulation
    Test(vm::TestArguments),
    /// Builds the runtime without an operating system, and runs LeNet with it on a RISC-V machine
    Embedded,
    /// Compiles the kernel module for another architecture
    Module(vm::ModuleArguments),
    /// Builds a simulator of NVDLA's Verilog, which the runtime can use as a device (--device rtl:PROGRAM)
    Rtl(rtl::Arguments),
    /// Writes the driver as a series of patches for the kernel's tree
    Series(series::Arguments),
    /// Runs the commands that print the figures of docs/performance.md, and writes what they print
    Figures(figures::Arguments),
    /// Builds the packages that users install: a Python wheel and Debian packages
    Package(package::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Vm(arguments) => vm::run(arguments),
        Task::Test(arguments) => vm::test(&arguments),
        Task::Embedded => vm::embedded(),
        Task::Module(arguments) => vm::module(&arguments),
        Task::Rtl(arguments) => rtl::run(&arguments),
        Task::Series(arguments) => series::run(&arguments),
        Task::Figures(arguments) => figures::run(&arguments),
        Task::Package(arguments) => package::build(&arguments),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
