// SPDX-License-Identifier: MIT OR Apache-2.0

//! The programs `nvdla` and `nvdla_runtime`.
//!
//! Both run loadables in the same way. `nvdla run` writes what it is asked to write; `nvdla_runtime` also writes
//! `output.dimg`, as NVIDIA's program does. The exit status is the same in both: see [`exit`].

mod args;
mod bench;
mod doctor;
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

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, CommandFactory as _, Parser, Subcommand};
use nvdla_uapi::config::Config;

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
    /// Check a device step by step, and say what to change where a step fails
    Doctor(doctor::Args),
    /// Show what a loadable holds (nvdla_inspect)
    #[command(disable_help_flag = true)]
    Inspect(Rest),
    /// Compile a network to a loadable (nvdla_compiler)
    #[command(disable_help_flag = true)]
    Compile(Rest),
    /// Compile a network and show how many labelled samples it classifies as their labels say (nvdla_compiler evaluate)
    #[command(disable_help_flag = true)]
    Evaluate(Rest),
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

/// The command line with the options of the programs behind it, and the values that options take.
fn described() -> clap::Command {
    let configurations = || PossibleValuesParser::new(Config::ALL.map(|config| config.name));
    let models = Config::ALL.iter().map(|config| format!("model:{}", config.name));
    let nodes = nvdla_runtime::device::discover().into_iter().map(|node| node.display().to_string());
    let kinds = ["auto", "model", "rtl:", "vfio:", "uio:", "vfio-user:"].map(String::from);
    // The program ends after its description, so the texts may stay.
    let devices: Vec<&'static str> = kinds.into_iter().chain(models).chain(nodes).map(|name| &*name.leak()).collect();
    let mut program = Program::command();
    for (name, other) in [
        ("inspect", nvdla_inspect::arguments::Arguments::command()),
        ("compile", nvdla_compiler::arguments::Arguments::command()),
        ("evaluate", nvdla_compiler::arguments::EvaluateArguments::command()),
        ("trace", nvdla_trace::arguments::Arguments::command()),
    ] {
        let other = other.mut_arg("config", |arg| arg.value_parser(configurations()));
        program = program.mut_subcommand(name, |rest| {
            let about = rest.get_about().cloned().unwrap_or_default();
            other.name(name).display_name(format!("nvdla-{name}")).about(about)
        });
    }
    for name in ["run", "bench", "doctor"] {
        let devices = devices.clone();
        program = program.mut_subcommand(name, |command| {
            command.mut_arg("device", |arg| arg.value_parser(PossibleValuesParser::new(devices)))
        });
    }
    program
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
        Command::Doctor(args) => doctor::run(args),
        Command::Inspect(rest) => Err(other("nvdla_inspect", rest)),
        Command::Compile(rest) => Err(other("nvdla_compiler", rest)),
        Command::Evaluate(Rest { rest }) => {
            let rest = [OsString::from("evaluate")].into_iter().chain(rest.iter().cloned()).collect();
            Err(other("nvdla_compiler", &Rest { rest }))
        }
        Command::Trace(rest) => Err(other("nvdla_trace", rest)),
        Command::Schema => documents::schema(),
        Command::Completions(arguments) => documents::completions(arguments, described()),
        Command::Man(arguments) => documents::man(arguments, described()),
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
