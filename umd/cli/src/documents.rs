// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla schema`, `nvdla completions` and `nvdla man`: descriptions of the program for other programs.

use std::io::Write as _;
use std::path::PathBuf;

use clap_complete::Shell;

use crate::failure::{cannot, Failure};
use crate::json::Output;

/// Options of `nvdla completions`.
#[derive(clap::Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Options of `nvdla man`.
#[derive(clap::Args, Debug)]
pub(crate) struct Man {
    /// The folder for nvdla.1, nvdla-run.1 and the others
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the schema of the output of --json.
pub(crate) fn schema() -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{:#}", schemars::schema_for!(Output).as_value())?;
    Ok(())
}

/// Prints a script that completes the command line of a program.
pub(crate) fn completions(arguments: &Completions, mut program: clap::Command) -> Result<(), Failure> {
    // The generator ends the program when it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "nvdla", &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}

/// Writes a manual page for each command of a program.
pub(crate) fn man(arguments: &Man, program: clap::Command) -> Result<(), Failure> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).map_err(cannot("make the folder", folder))?;
    clap_mangen::generate_to(program, folder).map_err(cannot("write manual pages to", folder))?;
    Ok(())
}
