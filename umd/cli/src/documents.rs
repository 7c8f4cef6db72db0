// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla schema`, `nvdla completions` and `nvdla man`: descriptions of the program for other programs.

use std::path::PathBuf;

use clap_complete::Shell;
use nvdla_runtime::program::print;

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
    Ok(print(&format!("{:#}\n", schemars::schema_for!(Output).as_value()))?)
}

/// Prints a script that completes the command line of a program.
pub(crate) fn completions(arguments: &Completions, mut program: clap::Command) -> Result<(), Failure> {
    // The generator ends the program when it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "nvdla", &mut script);
    Ok(print(&String::from_utf8_lossy(&script))?)
}

/// Writes a manual page for each command of a program.
pub(crate) fn man(arguments: &Man, program: clap::Command) -> Result<(), Failure> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).map_err(cannot("make the folder", folder))?;
    clap_mangen::generate_to(program, folder).map_err(cannot("write manual pages to", folder))?;
    Ok(())
}
