// SPDX-License-Identifier: MIT OR Apache-2.0

//! The devices of the process, which all sessions share.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use nvdla_runtime::device::{self, Device as _, KernelDevice, Selection, Shared};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::program::sentence;
use nvdla_uapi::config::{Config, NV_FULL};

use crate::failure::{Failure, Result};
use crate::options::Options;

/// The devices that are open, by the text of the option `device` and the configuration.
#[derive(Default)]
#[allow(missing_debug_implementations)]
pub struct Devices {
    open: Mutex<HashMap<(String, String), Shared>>,
}

impl Devices {
    /// The device of the options, for a loadable of that configuration.
    ///
    /// # Errors
    ///
    /// If the device cannot be opened, or has another configuration.
    pub fn open(&self, options: &Options, configuration: &str, loadable: &Loadable) -> Result<Shared> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (options.device_text.clone(), configuration.to_owned());
        if let Some(device) = open.get(&key) {
            return Ok(device.clone());
        }
        let opened = device::open(&options.device, loadable).map_err(|error| Failure(sentence(&error)))?;
        let device = Shared::new(opened.device);
        if let Some(config) = device.info().config.filter(|config| config.name != configuration) {
            return Err(Failure(format!(
                "the network is compiled for {configuration}, and {} is {}",
                device.info(),
                config.name
            )));
        }
        open.insert(key, device.clone());
        Ok(device)
    }
}

/// The configuration that is compiled for: the option's, else the device's, else nv_full, which has fp16.
///
/// # Errors
///
/// If the device that the options name cannot be opened, or does not tell its configuration.
pub fn configuration(options: &Options) -> Result<&'static Config> {
    if let Some(config) = options.config {
        return Ok(config);
    }
    let of = |path: &std::path::Path| {
        let device = KernelDevice::open(path).map_err(|error| Failure(sentence(&error)))?;
        let info = device.info();
        info.config.ok_or_else(|| Failure(format!("{info} does not tell its configuration; give the option config")))
    };
    match &options.device {
        Selection::Auto => match device::discover().first() {
            Some(node) => of(node),
            None => Ok(&NV_FULL),
        },
        Selection::Path(node) => of(node),
        Selection::Model(config) => Ok(config.unwrap_or(&NV_FULL)),
        _ => Err("give the option config: this kind of device does not tell its configuration".into()),
    }
}
