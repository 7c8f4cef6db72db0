// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What a device's registers say it is.
//!
//! Source: the configuration ROM of NVDLA's later release (`NVDLA_CFGROM` in `spec/manual`), and the version register of
//! both.

use super::hardware::Hardware;
use crate::uapi::config::{Config, NV_FULL_VERSION, NV_SMALL_VERSION};
use crate::uapi::reg::{cfgrom, glb, Block, Family, Register};

/// A device's identity.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Its configuration.
    pub config: &'static Config,
    /// Its version register.
    pub version: u32,
}

/// Finds the configuration that the device's registers describe; `None` if no NVDLA answers. Writes no register.
pub fn identify(hw: &mut impl Hardware) -> Option<Identity> {
    let config = Config::ALL.into_iter().find(|config| matches(hw, config))?;
    Some(Identity { config, version: read(hw, config.family, Block::Glb, glb::S_NVDLA_HW_VERSION) })
}

fn read(hw: &mut impl Hardware, family: Family, block: Block, register: Register) -> u32 {
    block.base(family).map_or(0, |base| hw.read(base + u32::from(register.offset)))
}

/// Whether the registers are those of a device of that configuration.
fn matches(hw: &mut impl Hardware, config: &Config) -> bool {
    let mut rom = |register| read(hw, config.family, Block::Cfgrom, register);
    match config.family {
        // The first release has no configuration ROM, and one configuration: its version says all.
        Family::NvFull => read(hw, Family::NvFull, Block::Glb, glb::S_NVDLA_HW_VERSION) == NV_FULL_VERSION,
        Family::NvSmall => {
            rom(cfgrom::CFGROM_HW_VERSION) == NV_SMALL_VERSION
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
