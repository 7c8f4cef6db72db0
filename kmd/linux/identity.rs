// SPDX-License-Identifier: GPL-2.0-only

//! What the hardware says it is, checked against what the bus says.

use kernel::{
    device::{
        self,
        Bound, //
    },
    prelude::*, //
};

use super::{
    engine::Hardware,
    uapi::{
        config::{
            self,
            Config, //
        },
        reg::{
            cfgrom,
            glb,
            Block,
            Family,
            Register, //
        },
    },
    window::Registers,
};

/// A device's identity.
pub(crate) struct Identity {
    /// Its configuration.
    pub(crate) config: &'static Config,
    /// Its version register.
    pub(crate) version: u32,
}

/// Finds the configuration; with `expected`, checks that the registers agree with it.
pub(crate) fn identify(
    dev: &device::Device<Bound>,
    registers: &mut Registers<'_>,
    expected: Option<&'static Config>,
) -> Result<Identity> {
    let found = Config::ALL.into_iter().find(|config| matches(registers, config));
    let config = match (expected, found) {
        (Some(expected), Some(found)) if expected.name != found.name => {
            dev_err!(dev, "the bus says {}, the hardware's registers say {}\n", expected.name, found.name);
            return Err(ENODEV);
        }
        (_, Some(found)) => found,
        (expected, None) => {
            let rom = registers.read(0);
            dev_err!(
                dev,
                "register 0 reads {rom:#x}: no configuration of NVDLA ({} expected)\n",
                expected.map_or("any", |config| config.name)
            );
            return Err(ENODEV);
        }
    };
    let version = read(registers, config.family, Block::Glb, glb::S_NVDLA_HW_VERSION);
    Ok(Identity { config, version })
}

fn read(registers: &mut Registers<'_>, family: Family, block: Block, register: Register) -> u32 {
    block.base(family).map_or(0, |base| registers.read(base + u32::from(register.offset)))
}

/// Whether the registers are those of a device of that configuration.
fn matches(registers: &mut Registers<'_>, config: &Config) -> bool {
    let mut rom = |register| read(registers, config.family, Block::Cfgrom, register);
    match config.family {
        // The first release has no configuration ROM, and one configuration: its version says all.
        Family::NvFull => read(registers, Family::NvFull, Block::Glb, glb::S_NVDLA_HW_VERSION) == config::NV_FULL_VERSION,
        Family::NvSmall => {
            rom(cfgrom::CFGROM_HW_VERSION) == config::NV_SMALL_VERSION
                && rom(cfgrom::CFGROM_CDMA_BASE_ATOMIC_C) == config.mac_atomic_c
                && rom(cfgrom::CFGROM_CDMA_BASE_ATOMIC_K) == config.mac_atomic_k
                && rom(cfgrom::CFGROM_CDMA_BASE_ATOMIC_M) == config.memory_atomic
                && rom(cfgrom::CFGROM_CDMA_BASE_CBUF_BANK_NUM) == config.cbuf_banks
                && rom(cfgrom::CFGROM_CDMA_BASE_CBUF_BANK_DEPTH) == config.cbuf_bank_depth
                && rom(cfgrom::CFGROM_SDP_BS_THROUGHPUT) == config.sdp_bs_throughput
                && rom(cfgrom::CFGROM_SDP_EW_THROUGHPUT) == config.sdp_ew_throughput.unwrap_or(0)
        }
    }
}
