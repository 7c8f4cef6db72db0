// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_trace --config CONFIG DIR...`: plays hardware traces against the model; `--rtl PROGRAM`: against the RTL.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use nvdla_model::simulation::Simulation;
use nvdla_rtl::{Selection, Simulator};
use nvdla_trace::{check_counters, find, play, play_on, Failure, ParseError, Played, Trace};
use nvdla_uapi::config::Config;

/// Plays hardware traces against the model, or a simulator of the RTL.
///
/// Prints a line `ok NAME` or `FAIL NAME: why` for each trace, and finally `N passed, M failed`. The exit status is 0 if all
/// traces passed, 1 if one failed, and 2 if a folder holds no trace.
#[derive(Parser)]
#[command(name = "nvdla_trace", version)]
struct Arguments {
    /// The hardware configuration: nv_full, nv_large, nv_medium_1024_full, nv_medium_512, nv_small_256_full,
    /// nv_small_256 or nv_small.
    #[arg(long, value_parser = config, required_unless_present = "rtl")]
    config: Option<&'static Config>,

    /// A simulator that `cargo xtask rtl` has built, and its options: PROGRAM[,NAME=VALUE]...
    #[arg(long, value_name = "PROGRAM", conflicts_with = "config")]
    rtl: Option<Selection>,

    /// Also compare the status counters, if a trace lists them (counters.txt).
    #[arg(long)]
    counters: bool,

    /// Traces, or folders of traces.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
}

fn config(name: &str) -> Result<&'static Config, String> {
    Config::named(name).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let traces: Result<Vec<_>, ParseError> = arguments.folders.iter().map(|folder| find(folder)).collect();
    let traces = match traces {
        Ok(traces) => traces.concat(),
        Err(error) => {
            eprintln!("nvdla_trace: {error}");
            return ExitCode::from(2);
        }
    };
    let (mut passed, mut failed) = (0, 0);
    for folder in traces {
        let name = folder.file_name().map_or_else(|| folder.to_string_lossy(), |name| name.to_string_lossy());
        let line = match run(&folder, &arguments) {
            Ok(()) => {
                passed += 1;
                format!("ok {name}")
            }
            Err(why) => {
                failed += 1;
                format!("FAIL {name}: {why}")
            }
        };
        // If the output is closed, the reader needs no more lines.
        if writeln!(io::stdout(), "{line}").is_err() {
            return ExitCode::from(u8::from(failed != 0));
        }
    }
    let _ = writeln!(io::stdout(), "{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed != 0))
}

fn run(folder: &Path, arguments: &Arguments) -> Result<(), String> {
    let trace = Trace::read(folder).map_err(|error| error.to_string())?;
    match (&arguments.rtl, arguments.config) {
        (Some(rtl), _) => {
            let simulator = Simulator::start(rtl).map_err(|error| error.to_string())?;
            judge(&trace, play_on(&trace, simulator), arguments.counters)
        }
        (None, Some(config)) => judge(&trace, play(&trace, config), arguments.counters),
        (None, None) => Err("give a configuration or a simulator".into()),
    }
}

/// The result of a trace, including its counters if requested.
fn judge<D: Simulation>(trace: &Trace, played: Result<Played<D>, Failure>, counters: bool) -> Result<(), String> {
    let mut played = played.map_err(|failure| failure.to_string())?;
    if !counters {
        return Ok(());
    }
    let differing = check_counters(trace, &mut played).map_err(|error| error.to_string())?;
    match differing.first() {
        None => Ok(()),
        Some(first) => Err(format!("{first} ({} counters differ)", differing.len())),
    }
}
