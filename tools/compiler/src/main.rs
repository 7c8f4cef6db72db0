// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_compiler`: a network in, a loadable out.

use std::error::Error as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use nvdla_compiler::quantize::Granularity;
use nvdla_compiler::{calibration, compile, import, Error};
use nvdla_uapi::config::Config;

/// Compiles a network to an int8 loadable for one configuration of NVDLA.
#[derive(Parser)]
#[command(name = "nvdla_compiler", version)]
struct Arguments {
    /// The network: a JSON file beside its weights (see examples/lenet)
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The configuration of the hardware
    #[arg(long, value_name = "NAME", value_parser = configuration)]
    config: &'static Config,
    /// A folder of images like those that the network will see; the scales are measured on them
    #[arg(long, value_name = "DIR")]
    calibrate: PathBuf,
    /// Whether each kernel's weights have a scale of their own, or all of a layer's share one
    #[arg(long, value_enum, default_value_t = Scaling::Kernel)]
    weights: Scaling,
    /// The loadable to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scaling {
    Kernel,
    Layer,
}

fn configuration(name: &str) -> Result<&'static Config, String> {
    Config::by_name(name).ok_or_else(|| {
        let names: Vec<_> = Config::ALL.iter().map(|config| config.name).collect();
        format!("there are {}", names.join(", "))
    })
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    let graph = import::read(&arguments.model)?;
    let images = calibration::read(&arguments.calibrate, &graph)?;
    let granularity = match arguments.weights {
        Scaling::Kernel => Granularity::Kernel,
        Scaling::Layer => Granularity::Layer,
    };
    let loadable = compile(&graph, &images, arguments.config, granularity)?;
    let failed = |source| Error::File { path: arguments.out.clone(), source };
    std::fs::write(&arguments.out, &loadable).map_err(failed)?;
    println!(
        "{}: {} for {}, {} bytes, scales from {} images",
        arguments.out.display(),
        graph.name,
        arguments.config.name,
        loadable.len(),
        images.len()
    );
    Ok(())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("nvdla_compiler: {error}");
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
