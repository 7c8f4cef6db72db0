// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `nvdla_inspect`. It is a part of the library because `nvdla man` and `nvdla completions` describe it too.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use nvdla_uapi::config::Config;

use crate::layout;

/// A configuration by its name, or from a file.
fn configuration(name: &str) -> Result<&'static Config, String> {
    nvdla_runtime::configuration::find(name).map_err(|error| error.to_string())
}

/// Shows the contents of a loadable: tensors, tasks, operations in graph order, surfaces, memories.
#[derive(Parser)]
#[command(name = "nvdla_inspect", version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    /// The loadable, or a dump of the driver (/sys/class/devcoredump/devcd*/data)
    #[arg(value_name = "FILE", required = true)]
    pub file: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// List the operations that race: that access the same bytes in no fixed order, where at least one writes
    ///
    /// The exit status is 1 if there are any. nvdla_runtime --order runs such a loadable in the order of the list.
    #[arg(long)]
    pub check: bool,
    /// With --check: list the reasons for which a device of this configuration refuses the loadable, without running it
    ///
    /// These are the rules that the driver and the model check. The exit status is 4 if one is broken.
    #[arg(long, value_name = "NAME", requires = "check", value_parser = configuration)]
    pub config: Option<&'static Config>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Draws a data layout for a shape, as text or SVG
    Layout(layout::Arguments),
}
