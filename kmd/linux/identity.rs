// SPDX-License-Identifier: GPL-2.0-only

//! The identity that the hardware's registers report, compared with the one that the bus reports.

use kernel::{
    device::{
        self,
        Bound, //
    },
    prelude::*, //
};

pub(crate) use super::engine::Identity;
use super::{
    engine::{
        self,
        Hardware, //
    },
    uapi::config::Config,
    window::Registers,
};

/// Finds the configuration; with `expected`, checks that the registers agree with it.
pub(crate) fn identify(
    dev: &device::Device<Bound>,
    registers: &mut Registers<'_>,
    expected: Option<&'static Config>,
) -> Result<Identity> {
    match (expected, engine::identify(registers)) {
        (Some(expected), Some(found)) if expected.name != found.config.name => {
            dev_err!(dev, "the bus says {}, the hardware's registers say {}\n", expected.name, found.config.name);
            Err(ENODEV)
        }
        (_, Some(found)) => Ok(found),
        (expected, None) => {
            let rom = registers.read(0);
            dev_err!(
                dev,
                "register 0 reads {rom:#x}: no configuration of NVDLA ({} expected)\n",
                expected.map_or("any", |config| config.name)
            );
            Err(ENODEV)
        }
    }
}
