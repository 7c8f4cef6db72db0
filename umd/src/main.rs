// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_runtime`: runs a loadable with an image or raw tensors, and shows what comes out.
//!
//! It takes the options of NVIDIA's program of this name and writes the same `output.dimg`. Results go to the standard
//! output; errors, one sentence each with its cause, to the standard error. The exit status is 0 only on success.

mod cli;

use clap::Parser as _;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = cli::Args::parse();
    let level = match args.verbose {
        0 => log::LevelFilter::Warn,
        1 => log::LevelFilter::Info,
        2 => log::LevelFilter::Debug,
        _ => log::LevelFilter::Trace,
    };
    // RUST_LOG, where it is set, says more precisely what is wanted.
    env_logger::Builder::new()
        .filter_level(level)
        .parse_default_env()
        .format(|out, record| {
            let level = match record.level() {
                log::Level::Error => "error",
                log::Level::Warn => "warning",
                log::Level::Info => "info",
                log::Level::Debug => "debug",
                log::Level::Trace => "trace",
            };
            writeln!(out, "{level}: {}", record.args())
        })
        .init();
    match cli::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", cli::sentence(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}
