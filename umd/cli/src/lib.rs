// SPDX-License-Identifier: MIT OR Apache-2.0

//! The programs `nvdla` and `nvdla_runtime`.
//!
//! Both run loadables in the same way. `nvdla run` writes what it is asked to write; `nvdla_runtime` also writes
//! `output.dimg`, as NVIDIA's program does. The exit status is the same in both: see [`exit`].

mod args;
mod bench;
mod documents;
pub mod exit;
mod failure;
mod inputs;
mod json;
mod list;
mod messages;
mod outputs;
mod progress;
mod report;
mod run;
mod timed;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use clap::{ArgAction, CommandFactory as _, Parser, Subcommand};

use failure::{cannot, Failure};

/// Runs networks on NVDLA, or on its bit-exact model
#[derive(Parser, Debug)]
#[command(name = "nvdla", version, max_term_width = 100)]
struct Program {
    /// Print more messages; repeat it for still more (-vv, -vvv)
    #[arg(short, long, action = ArgAction::Count, global = true)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a loadable and show the results
    Run(Box<args::RunArgs>),
    /// Measure how many runs per second a device does, and how long each takes
    Bench(bench::Args),
    /// List the devices of this machine
    List(list::Args),
    /// Show what a loadable holds (nvdla_inspect)
    #[command(disable_help_flag = true)]
    Inspect(Rest),
    /// Compile a network to a loadable (nvdla_compiler)
    #[command(disable_help_flag = true)]
    Compile(Rest),
    /// Play register traces of the hardware's verification (nvdla_trace)
    #[command(disable_help_flag = true)]
    Trace(Rest),
    /// Print the JSON schema of the output of --json
    Schema,
    /// Print a script with which a shell completes the command line
    Completions(documents::Completions),
    /// Write the manual pages
    Man(documents::Man),
}

/// The options for another program.
#[derive(clap::Args, Debug)]
struct Rest {
    /// Its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Replaces this process with another program of this project, from this program's folder or from the search path. Returns only
/// if that fails.
fn other(name: &str, options: &Rest) -> Failure {
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name(name)).filter(|path| path.exists());
    let program = beside.unwrap_or_else(|| name.into());
    cannot("start", &program)(std::process::Command::new(&program).args(&options.rest).exec())
}

/// The program `nvdla`.
pub fn nvdla() -> ExitCode {
    let Program { verbose, command } = match Program::try_parse() {
        Ok(program) => program,
        Err(error) => return exit::usage(&error),
    };
    messages::show(verbose);
    let json = match &command {
        Command::Run(args) => args.common.json,
        Command::Bench(args) => args.json,
        Command::List(args) => args.json,
        _ => false,
    };
    let result = match &command {
        Command::Run(args) => run::run(&args.common, false),
        Command::Bench(args) => bench::run(args),
        Command::List(args) => list::run(args),
        Command::Inspect(rest) => Err(other("nvdla_inspect", rest)),
        Command::Compile(rest) => Err(other("nvdla_compiler", rest)),
        Command::Trace(rest) => Err(other("nvdla_trace", rest)),
        Command::Schema => documents::schema(),
        Command::Completions(arguments) => documents::completions(arguments, Program::command()),
        Command::Man(arguments) => documents::man(arguments, Program::command()),
    };
    exit::end(result, json)
}

/// The program `nvdla_runtime`.
pub fn nvdla_runtime() -> ExitCode {
    let args = match args::RuntimeArgs::try_parse() {
        Ok(args) => args,
        Err(error) => return exit::usage(&error),
    };
    messages::show(args.verbose);
    exit::end(run::run(&args.common, true), args.common.json)
}
