// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which device runs a loadable.

#[cfg(feature = "kernel")]
use std::path::PathBuf;
use std::{fmt, str::FromStr};

use nvdla_uapi::config::Config;
use thiserror::Error as ThisError;

use super::contract::Device;
#[cfg(feature = "direct")]
use super::direct::{DirectDevice, DirectSelection, DirectSelectionError};
use super::error::Error;
#[cfg(feature = "kernel")]
use super::kernel::{discover, KernelDevice};
#[cfg(feature = "model")]
use super::model::ModelDevice;
use crate::configuration;
use crate::loadable::Loadable;
#[cfg(any(feature = "kernel", feature = "model"))]
use crate::operations::recognise;

/// The device that a user asks for: `auto`, `model`, `model:CONFIG`, `rtl:PROGRAM`, `vfio:NAME`, `uio:NODE`, `vfio-user:SOCKET`,
/// or a device node. `CONFIG` is a name or a file ([`configuration::find`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// This machine's first NVDLA of the configuration that the loadable was compiled for, else its first NVDLA, else the
    /// model.
    #[default]
    Auto,
    /// The model of that configuration, or of the one for which the loadable was compiled.
    #[cfg(feature = "model")]
    Model(Option<&'static Config>),
    /// A simulator of the RTL, with its options: see [`nvdla_rtl::Selection`].
    #[cfg(feature = "model")]
    Rtl(nvdla_rtl::Selection),
    /// A device that this process drives by itself.
    #[cfg(feature = "direct")]
    Direct(DirectSelection),
    /// A device node.
    #[cfg(feature = "kernel")]
    Path(PathBuf),
}

/// A selection that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum SelectionError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Configuration(#[from] configuration::Error),
    /// A configuration is named, and not a device.
    #[error("{name} is a configuration and no device; model:{name} is its model")]
    NoDevice {
        /// The configuration.
        name: &'static str,
    },
    /// This library was built without support for such devices.
    #[error("\"{text}\" needs the feature \"{feature}\", without which this program was built")]
    NotBuilt {
        /// What was asked for.
        text: String,
        /// The feature.
        feature: &'static str,
    },
    /// The text does not name a simulator.
    #[cfg(feature = "model")]
    #[error(transparent)]
    Simulator(#[from] nvdla_rtl::SelectionError),
    /// The text does not name a device that can be driven directly.
    #[cfg(feature = "direct")]
    #[error(transparent)]
    DirectSelection(#[from] DirectSelectionError),
}

impl FromStr for Selection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        #[cfg(feature = "direct")]
        if let Some(selection) = DirectSelection::parse(text) {
            return Ok(Self::Direct(selection?));
        }
        if text == "auto" {
            return Ok(Self::Auto);
        }
        if let Some(config) = Config::by_name(text) {
            return Err(SelectionError::NoDevice { name: config.name });
        }
        let feature = match text.split(':').next() {
            Some("model" | "rtl") => "model",
            Some("vfio" | "uio" | "vfio-user") => "direct",
            _ => "kernel",
        };
        Self::of(feature, text).unwrap_or_else(|| Err(SelectionError::NotBuilt { text: text.into(), feature }))
    }
}

impl Selection {
    /// The device of a kind that needs a feature; `None` without the feature.
    fn of(feature: &str, text: &str) -> Option<Result<Self, SelectionError>> {
        match feature {
            #[cfg(feature = "model")]
            "model" => Some(Self::simulated(text)),
            #[cfg(feature = "kernel")]
            "kernel" => Some(Ok(Self::Path(PathBuf::from(text)))),
            _ => {
                let _ = text;
                None
            }
        }
    }

    #[cfg(feature = "model")]
    fn simulated(text: &str) -> Result<Self, SelectionError> {
        match text.split_once(':') {
            None if text == "model" => Ok(Self::Model(None)),
            Some(("model", text)) => Ok(Self::Model(Some(configuration::find(text)?))),
            _ => Ok(Self::Rtl(text.strip_prefix("rtl:").unwrap_or_default().parse()?)),
        }
    }
}

/// An opened device, and why it was chosen.
pub struct Opened {
    /// The device.
    pub device: Box<dyn Device>,
    /// Why this device was chosen, as a text for the user.
    pub reason: String,
}

impl Opened {
    /// The device that the user has named.
    fn given(device: impl Device + 'static) -> Self {
        Self { device: Box::new(device), reason: "selected by the user".into() }
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("device", &self.device.info()).field("reason", &self.reason).finish()
    }
}

/// Opens the device that a user asks for, for a loadable.
///
/// # Errors
///
/// When a device node cannot be opened or is not NVDLA's.
pub fn open(selection: &Selection, loadable: &Loadable) -> Result<Opened, Error> {
    match selection {
        Selection::Auto => first(loadable),
        #[cfg(feature = "model")]
        Selection::Model(None) => Ok(model("", loadable)),
        #[cfg(feature = "model")]
        Selection::Model(Some(config)) => Ok(Opened::given(ModelDevice::new(config))),
        #[cfg(feature = "model")]
        Selection::Rtl(simulator) => Ok(Opened::given(ModelDevice::rtl(nvdla_rtl::Simulator::start(simulator)?))),
        #[cfg(feature = "direct")]
        Selection::Direct(selection) => Ok(Opened::given(DirectDevice::open(selection)?)),
        #[cfg(feature = "kernel")]
        Selection::Path(path) => Ok(Opened::given(KernelDevice::open(path)?)),
    }
}

/// As [`open`], for a simulated device whose work is recorded.
///
/// # Errors
///
/// If the device is hardware, or the simulator cannot be started.
#[cfg(all(feature = "cli", feature = "model"))]
pub fn open_recorded(
    selection: &Selection,
    loadable: &Loadable,
    recording: &super::record::Recording,
) -> Result<Opened, Error> {
    let (mut device, reason) = match selection {
        Selection::Auto | Selection::Model(None) => {
            let recognised = recognise(loadable);
            (ModelDevice::new(recognised.config), format!("the loadable is for {recognised}"))
        }
        Selection::Model(Some(config)) => (ModelDevice::new(config), "selected by the user".into()),
        Selection::Rtl(simulator) => {
            (ModelDevice::rtl(nvdla_rtl::Simulator::start(simulator)?), "selected by the user".into())
        }
        #[cfg(any(feature = "direct", feature = "kernel"))]
        _ => return Err(Error::NotRecorded),
    };
    device.record(recording);
    Ok(Opened { device: Box::new(device), reason })
}

/// The model of the configuration that the loadable is for.
#[cfg(feature = "model")]
fn model(prefix: &str, loadable: &Loadable) -> Opened {
    let recognised = recognise(loadable);
    let device = Box::new(ModelDevice::new(recognised.config));
    Opened { device, reason: format!("{prefix}the loadable is for {recognised}") }
}

/// The device of [`Selection::Auto`].
fn first(loadable: &Loadable) -> Result<Opened, Error> {
    let _ = loadable;
    #[cfg(feature = "kernel")]
    if let Some(opened) = node(loadable)? {
        return Ok(opened);
    }
    #[cfg(feature = "model")]
    let device = Ok(model("no NVDLA device was found; ", loadable));
    #[cfg(not(feature = "model"))]
    let device = Err(Error::NoDevice);
    device
}

/// The first NVDLA of the configuration that the loadable is for, else the first one.
#[cfg(feature = "kernel")]
fn node(loadable: &Loadable) -> Result<Option<Opened>, Error> {
    let nodes = discover();
    let Some(first) = nodes.first() else { return Ok(None) };
    if nodes.len() > 1 {
        let recognised = recognise(loadable);
        for node in &nodes {
            let device = Box::new(KernelDevice::open(node)?);
            if device.info().config.is_some_and(|config| config.name == recognised.config.name) {
                return Ok(Some(Opened { device, reason: format!("the loadable is for {recognised}") }));
            }
        }
    }
    let reason = format!("{} is an NVDLA", first.display());
    Ok(Some(Opened { device: Box::new(KernelDevice::open(first)?), reason }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_may_ask_for() {
        assert_eq!("auto".parse(), Ok(Selection::Auto));
        assert_eq!("model".parse(), Ok(Selection::Model(None)));
        assert_eq!("rtl:sim".parse(), Ok(Selection::Rtl("sim".parse().unwrap())));
        assert!("rtl:".parse::<Selection>().is_err());
        assert!(matches!("model:nv_large".parse(), Ok(Selection::Model(Some(config))) if config.name == "nv_large"));
        #[cfg(feature = "direct")]
        assert!(
            matches!("vfio:0000:00:05.0".parse(), Ok(Selection::Direct(DirectSelection::Vfio(name))) if name == "0000:00:05.0")
        );
        assert_eq!("/dev/dri/renderD128".parse(), Ok(Selection::Path("/dev/dri/renderD128".into())));
        assert_eq!("nv_full".parse::<Selection>(), Err(SelectionError::NoDevice { name: "nv_full" }));
        let error = "model:nv_tiny".parse::<Selection>().unwrap_err();
        assert!(error.to_string().starts_with("there is no configuration \"nv_tiny\"; there are nv_full, nv_large,"));
    }
}
