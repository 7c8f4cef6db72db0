// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `nvdla_trace`. It is a part of the library because `nvdla man` and `nvdla completions` describe it too.

use std::path::PathBuf;

use clap::Parser;
use nvdla_model::Like;
use nvdla_rtl::Selection;
use nvdla_uapi::config::Config;

/// Plays hardware traces against the model, or a simulator of the RTL.
///
/// Prints a line `ok NAME` or `FAIL NAME: why` for each trace, and finally `N passed, M failed`. The exit status is 0 if all
/// traces passed, 1 if one failed, and 3 if a folder holds no trace.
#[derive(Parser)]
#[command(name = "nvdla_trace", version)]
pub struct Arguments {
    /// The hardware configuration: nv_full, nv_large, nv_medium_1024_full, nv_medium_512, nv_small_256_full,
    /// nv_small_256 or nv_small.
    #[arg(long, value_parser = config, required_unless_present = "rtl")]
    pub config: Option<&'static Config>,

    /// A simulator that `cargo xtask rtl` has built, and its options: PROGRAM[,NAME=VALUE]...
    #[arg(long, value_name = "PROGRAM", conflicts_with = "config")]
    pub rtl: Option<Selection>,

    /// What the model follows where they differ: cmodel, which has made the results of the hardware project's traces, or rtl.
    #[arg(long, default_value = "cmodel", value_name = "NAME")]
    pub like: Like,

    /// Also compare the status counters, if a trace lists them (counters.txt).
    #[arg(long)]
    pub counters: bool,

    /// Print the results as one JSON object.
    #[arg(long)]
    pub json: bool,

    /// Traces, or folders of traces.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
}

fn config(name: &str) -> Result<&'static Config, String> {
    Config::named(name).map_err(|error| error.to_string())
}
