// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_trace --config CONFIG DIR...`: plays hardware traces against the model; `--rtl PROGRAM`: against the RTL.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use nvdla_model::simulation::Simulation;
use nvdla_rtl::Simulator;
use nvdla_runtime::{program, ErrorKind};
use nvdla_trace::arguments::Arguments;
use nvdla_trace::{check_counters, find, play_like, play_on, Failure, ParseError, Played, Trace};

/// A trace that was played.
struct Line {
    name: String,
    /// Why it failed.
    why: Option<String>,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return program::usage(&error.to_string(), error.use_stderr()),
    };
    let failed = |message: &str, kind: Option<ErrorKind>, json: bool| {
        program::fail("nvdla_trace", message, kind, program::status(kind), json)
    };
    let traces: Result<Vec<_>, ParseError> = arguments.folders.iter().map(|folder| find(folder)).collect();
    let traces = match traces {
        Ok(traces) => traces.concat(),
        Err(error) => return failed(&error.to_string(), Some(ErrorKind::File), arguments.json),
    };
    let mut lines = Vec::new();
    for folder in traces {
        let name = folder.file_name().map_or_else(|| folder.to_string_lossy(), |name| name.to_string_lossy());
        let line = Line { name: program::plain(&name), why: run(&folder, &arguments).err() };
        let text = match &line.why {
            None => format!("ok {}\n", line.name),
            Some(why) => format!("FAIL {}: {}\n", line.name, program::plain(why)),
        };
        lines.push(line);
        // The results of many traces take long, so each is told at once.
        if !arguments.json {
            if let Err(error) = program::print(&text) {
                return failed(&error.to_string(), Some(ErrorKind::File), false);
            }
        }
    }
    let bad = lines.iter().filter(|line| line.why.is_some()).count();
    let good = lines.len() - bad;
    let text = if arguments.json {
        let traces: Vec<_> =
            lines.iter().map(|line| serde_json::json!({"name": line.name, "failure": line.why})).collect();
        let object = serde_json::json!({
            "version": program::JSON_VERSION, "traces": traces, "passed": good, "failed": bad,
        });
        format!("{object:#}\n")
    } else {
        format!("{good} passed, {bad} failed\n")
    };
    match program::print(&text) {
        Err(error) => failed(&error.to_string(), Some(ErrorKind::File), false),
        Ok(()) => ExitCode::from(u8::from(bad != 0)),
    }
}

fn run(folder: &Path, arguments: &Arguments) -> Result<(), String> {
    let trace = Trace::read(folder).map_err(|error| error.to_string())?;
    match (&arguments.rtl, arguments.config) {
        (Some(rtl), _) => {
            let simulator = Simulator::start(rtl).map_err(|error| error.to_string())?;
            judge(&trace, play_on(&trace, simulator), arguments.counters)
        }
        (None, Some(config)) => judge(&trace, play_like(&trace, config, arguments.like), arguments.counters),
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
