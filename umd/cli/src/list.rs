// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla list`: the devices of this machine.

use std::io::Write as _;

use nvdla_runtime::device::{discover, Device as _, KernelDevice};
use nvdla_uapi::config::Config;

use crate::failure::{sentence, Failure};
use crate::json::{List, Listed, Output, VERSION};

/// Options of `nvdla list`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Show everything as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut devices = Vec::new();
    for path in discover() {
        let (configuration, driver, health) = match KernelDevice::open(&path) {
            Ok(device) => {
                let driver = if device.has_queue() { "this project's" } else { "the first" };
                (device.info().config.map(|config| config.name), Some(driver), "answers".to_owned())
            }
            Err(error) => (None, None, sentence(&error)),
        };
        devices.push(Listed { path: path.display().to_string(), configuration, driver, health });
    }
    let models = Config::ALL.map(|config| config.name);
    let mut out = std::io::stdout().lock();
    if args.json {
        let list = Output::List(List { version: VERSION, devices, models: models.into() });
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        return Ok(());
    }
    for Listed { path, configuration, driver, health } in &devices {
        let (configuration, driver) = (configuration.unwrap_or("unknown"), driver.unwrap_or("unknown"));
        writeln!(out, "{path}  {configuration}  driver: {driver}  {health}")?;
    }
    if devices.is_empty() {
        writeln!(out, "no NVDLA device was found in /dev/dri")?;
    }
    for model in models {
        writeln!(out, "model:{model}")?;
    }
    Ok(())
}
