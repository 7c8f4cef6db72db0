// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which device runs a loadable.

use std::{convert::Infallible, fmt, path::PathBuf, str::FromStr};

use nvdla_uapi::config::Config;
use thiserror::Error as ThisError;

use super::{discover, recognise, Device, Error, KernelDevice, ModelDevice};
#[cfg(feature = "direct")]
use super::{DirectDevice, Place, PlaceError};
use crate::loadable::Loadable;

/// What a user asks for: `auto`, `model`, `model:CONFIG`, `rtl:PROGRAM`, `vfio:NAME`, `uio:NODE`, `vfio-user:SOCKET`, or a
/// device node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// This machine's first NVDLA of the configuration that the loadable was compiled for, else its first NVDLA, else the
    /// model.
    #[default]
    Auto,
    /// The model of that configuration, or of the one for which the loadable was compiled.
    Model(Option<&'static Config>),
    /// A simulator of the RTL, with its options: see [`nvdla_rtl::Selection`].
    Rtl(nvdla_rtl::Selection),
    /// A device that this process drives by itself.
    #[cfg(feature = "direct")]
    Direct(Place),
    /// A device node.
    Path(PathBuf),
}

/// A selection that names something unknown.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum SelectionError {
    /// There is no such configuration.
    #[error("there is no configuration \"{name}\"; there are {}", Config::ALL.map(|config| config.name).join(", "))]
    UnknownConfiguration {
        /// What was asked for.
        name: String,
    },
    /// It is no simulator.
    #[error(transparent)]
    Simulator(#[from] nvdla_rtl::SelectionError),
    /// It names no device that can be driven directly.
    #[cfg(feature = "direct")]
    #[error(transparent)]
    Place(#[from] PlaceError),
}

impl FromStr for Selection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        #[cfg(feature = "direct")]
        if let Some(place) = Place::parse(text) {
            return Ok(Self::Direct(place?));
        }
        match text {
            "auto" => Ok(Self::Auto),
            "model" => Ok(Self::Model(None)),
            _ => match text.strip_prefix("model:") {
                Some(name) => match Config::by_name(name) {
                    Some(config) => Ok(Self::Model(Some(config))),
                    None => Err(SelectionError::UnknownConfiguration { name: name.into() }),
                },
                None if text.starts_with("rtl:") => Ok(Self::Rtl(text["rtl:".len()..].parse()?)),
                None => Ok(Self::Path(match text.parse::<PathBuf>() {
                    Ok(path) => path,
                    Err::<_, Infallible>(never) => match never {},
                })),
            },
        }
    }
}

/// A device that was opened, and why this one.
pub struct Opened {
    /// The device.
    pub device: Box<dyn Device>,
    /// Why this one, for a person.
    pub reason: String,
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
    let model = |prefix: &str| {
        let recognised = recognise(loadable);
        let device: Box<dyn Device> = Box::new(ModelDevice::new(recognised.config));
        Opened { device, reason: format!("{prefix}the loadable is for {recognised}") }
    };
    match selection {
        Selection::Auto => {
            let nodes = discover();
            let Some(first) = nodes.first() else { return Ok(model("no NVDLA device was found; ")) };
            if nodes.len() > 1 {
                let recognised = recognise(loadable);
                for node in &nodes {
                    let device = KernelDevice::open(node)?;
                    if device.info().config.is_some_and(|config| config.name == recognised.config.name) {
                        return Ok(Opened {
                            device: Box::new(device),
                            reason: format!("the loadable is for {recognised}"),
                        });
                    }
                }
            }
            let reason = format!("{} is an NVDLA", first.display());
            Ok(Opened { device: Box::new(KernelDevice::open(first)?), reason })
        }
        Selection::Model(None) => Ok(model("")),
        Selection::Model(Some(config)) => {
            Ok(Opened { device: Box::new(ModelDevice::new(config)), reason: "as asked for".into() })
        }
        Selection::Rtl(simulator) => {
            let device = ModelDevice::rtl(nvdla_rtl::Simulator::start(simulator)?);
            Ok(Opened { device: Box::new(device), reason: "as asked for".into() })
        }
        #[cfg(feature = "direct")]
        Selection::Direct(place) => {
            Ok(Opened { device: Box::new(DirectDevice::open(place)?), reason: "as asked for".into() })
        }
        Selection::Path(path) => {
            Ok(Opened { device: Box::new(KernelDevice::open(path)?), reason: "as asked for".into() })
        }
    }
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
            matches!("vfio:0000:00:05.0".parse(), Ok(Selection::Direct(Place::Vfio(name))) if name == "0000:00:05.0")
        );
        assert_eq!("/dev/dri/renderD128".parse(), Ok(Selection::Path("/dev/dri/renderD128".into())));
        let error = "model:nv_tiny".parse::<Selection>().unwrap_err();
        assert!(error.to_string().starts_with("there is no configuration \"nv_tiny\"; there are nv_full, nv_large,"));
    }
}
