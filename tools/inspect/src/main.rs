// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_inspect`: shows the contents of a loadable.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};

use nvdla_inspect::check::Check;
use nvdla_inspect::layout;
use nvdla_inspect::report::Report;
use nvdla_inspect::text::Text;
use nvdla_runtime::loadable::Loadable;
use nvdla_uapi::config::Config;

/// Shows the contents of a loadable: tensors, tasks, operations in graph order, surfaces, memories.
#[derive(Parser)]
#[command(name = "nvdla_inspect", version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Arguments {
    /// The loadable
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// List the operations that race: that access the same bytes in no fixed order, where at least one writes
    ///
    /// The exit status is 1 if there are any. nvdla_runtime --order runs such a loadable in the order of the list.
    #[arg(long)]
    check: bool,
    /// With --check: list the reasons for which a device of this configuration refuses the loadable, without running it
    ///
    /// These are the rules that the driver and the model check. The exit status is 4 if one is broken.
    #[arg(long, value_name = "NAME", requires = "check", value_parser = configuration)]
    config: Option<&'static Config>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Draws a data layout for a shape, as text or SVG
    Layout(layout::Arguments),
}

fn show(file: &Path, json: bool) -> Result<(), Box<dyn Error>> {
    let report = Report::of(&Loadable::open(file)?);
    let text = if json { serde_json::to_string_pretty(&report)? + "\n" } else { Text(&report).to_string() };
    print(&text)
}

fn print(text: &str) -> Result<(), Box<dyn Error>> {
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// A configuration by its name, or from a file.
fn configuration(name: &str) -> Result<&'static Config, String> {
    nvdla_runtime::configuration::find(name).map_err(|error| error.to_string())
}

/// A device would refuse the loadable.
#[derive(Debug)]
struct Refused(&'static str);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} refuses the loadable", self.0)
    }
}

impl Error for Refused {}

/// Lists races, and the operations that a configuration refuses. An error if there are any.
fn check(file: &Path, json: bool, config: Option<&'static Config>) -> Result<(), Box<dyn Error>> {
    let check = Check::of(&Arc::new(Loadable::open(file)?), config)?;
    print(&if json { serde_json::to_string_pretty(&check)? + "\n" } else { check.to_string() })?;
    if let (Some(name), false) = (check.configuration, check.refused.is_empty()) {
        return Err(Refused(name).into());
    }
    if check.races.is_empty() && check.not_examined.is_empty() {
        Ok(())
    } else {
        Err("the result depends on how long operations take".into())
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (about, result) = match (&arguments.command, &arguments.file) {
        (Some(Command::Layout(layout)), _) => ("layout".into(), layout::run(layout)),
        (None, Some(file)) if arguments.check => {
            (file.display().to_string(), check(file, arguments.json, arguments.config))
        }
        (None, Some(file)) => (file.display().to_string(), show(file, arguments.json)),
        (None, None) => return ExitCode::FAILURE, // clap has asked for the file
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("nvdla_inspect: {about}: {error}");
            let mut cause = error.source();
            while let Some(inner) = cause {
                eprint!(": {inner}");
                cause = inner.source();
            }
            eprintln!();
            if error.is::<Refused>() {
                ExitCode::from(4)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
