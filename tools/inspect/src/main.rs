// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_inspect`: what a loadable holds.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use nvdla_inspect::report::Report;
use nvdla_inspect::text::Text;
use nvdla_runtime::loadable::Loadable;

/// Shows what a loadable holds: tensors, tasks, operations in graph order, surfaces, memories.
#[derive(Parser)]
#[command(name = "nvdla_inspect", version)]
struct Arguments {
    /// The loadable
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let report = Report::of(&Loadable::open(&arguments.file)?);
    let text = if arguments.json { serde_json::to_string_pretty(&report)? + "\n" } else { Text(&report).to_string() };
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever reads it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("nvdla_inspect: {}: {error}", arguments.file.display());
            let mut cause = error.source();
            while let Some(inner) = cause {
                eprint!(": {inner}");
                cause = inner.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}
