// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a developer runs beside Cargo, as `cargo xtask …`.

mod cache;
mod command;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", version, about = "What a developer runs beside Cargo")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Starts a virtual machine whose PCI bus holds the model, inserts the kernel module and runs a command
    Vm(vm::Arguments),
}

fn main() -> ExitCode {
    let Task::Vm(arguments) = Arguments::parse().task;
    match vm::run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("cargo xtask vm: {error:#}");
            ExitCode::FAILURE
        }
    }
}
