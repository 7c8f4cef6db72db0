// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_inspect`: shows the contents of a loadable.

use std::error::Error;
use std::fmt;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;

use nvdla_inspect::arguments::{Arguments, Command};
use nvdla_inspect::check::Check;
use nvdla_inspect::dump;
use nvdla_inspect::layout;
use nvdla_inspect::report::Report;
use nvdla_inspect::text::Text;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::{kind_of, program, ErrorKind};
use nvdla_uapi::config::Config;

/// The largest dump that is read: more than the driver writes.
const MAX_DUMP: u64 = 1 << 20;

/// The bytes of a file that begins as a dump of the driver.
fn dump_in(file: &Path) -> io::Result<Option<Vec<u8>>> {
    // Other files are read by the loadable's reader, with its limits. It also says what is wrong with one that cannot be opened.
    if !std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(None);
    }
    let Ok(opened) = std::fs::File::open(file) else { return Ok(None) };
    let mut bytes = Vec::new();
    opened.take(MAX_DUMP).read_to_end(&mut bytes)?;
    Ok(dump::is_dump(&bytes).then_some(bytes))
}

fn show(file: &Path, json: bool) -> Result<(), Box<dyn Error>> {
    if let Some(bytes) = dump_in(file)? {
        if json {
            return Err("--json is for loadables".into());
        }
        return Ok(program::print(&dump::text_of(&bytes)?)?);
    }
    let report = Report::of(&Loadable::open(file)?);
    let text = if json { serde_json::to_string_pretty(&report)? + "\n" } else { Text(&report).to_string() };
    Ok(program::print(&text)?)
}

/// What the check has found.
#[derive(Debug)]
enum Found {
    /// A device would refuse the loadable.
    Refused(&'static str),
    /// Operations race.
    Races,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(name) => write!(f, "{name} refuses the loadable"),
            Self::Races => f.write_str("the result depends on how long operations take"),
        }
    }
}

impl Error for Found {}

/// Lists races, and the operations that a configuration refuses. Returns an error if there are any: after its printing, because the
/// object of --json tells what it is about.
fn check(file: &Path, json: bool, config: Option<&'static Config>) -> Result<(), Box<dyn Error>> {
    let check = Check::of(&Arc::new(Loadable::open(file)?), config)?;
    program::print(&if json { serde_json::to_string_pretty(&check)? + "\n" } else { check.to_string() })?;
    if let (Some(name), false) = (check.configuration, check.refused.is_empty()) {
        return Err(Found::Refused(name).into());
    }
    if check.races.is_empty() && check.not_examined.is_empty() {
        Ok(())
    } else {
        Err(Found::Races.into())
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return program::usage(&error.to_string(), error.use_stderr()),
    };
    let (about, result) = match (&arguments.command, &arguments.file) {
        (Some(Command::Layout(layout)), _) => ("layout".into(), layout::run(layout)),
        (None, Some(file)) if arguments.check => {
            (file.display().to_string(), check(file, arguments.json, arguments.config))
        }
        (None, Some(file)) => (file.display().to_string(), show(file, arguments.json)),
        (None, None) => return program::usage("error: the loadable is missing", true),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    let (kind, shown) = match error.downcast_ref() {
        Some(Found::Refused(_)) => (Some(ErrorKind::Refused), true),
        Some(Found::Races) => (None, true),
        None if error.is::<std::io::Error>() => (Some(ErrorKind::File), false),
        // A layout that cannot be drawn.
        None => (kind_of(error.as_ref()).or(Some(ErrorKind::Argument)), false),
    };
    let text = program::sentence(error.as_ref());
    let message = if text.contains(&about) { text } else { format!("{about}: {text}") };
    program::fail("nvdla_inspect", &message, kind, program::status(kind), arguments.json && !shown)
}
