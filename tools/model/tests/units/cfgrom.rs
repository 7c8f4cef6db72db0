// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/cfgrom.rs`.

use nvdla_model::cfgrom::{words, WORDS};
use nvdla_uapi::config::{NV_LARGE, NV_SMALL};
use nvdla_uapi::reg::{cfgrom, Block, Register};

fn at(words: &[u32], register: Register) -> u32 {
    words[usize::from(register.offset) / 4]
}

#[test]
fn sections_lie_where_the_register_map_says() {
    let small = words(&NV_SMALL);
    assert_eq!(at(&small, cfgrom::CFGROM_HW_VERSION), 0x1_0001);
    assert_eq!(at(&small, cfgrom::CFGROM_CIF_DESC), 0x18_0002);
    assert_eq!(at(&small, cfgrom::CFGROM_CIF_BASE_MEM_ADDR_WIDTH), 0x400);
    assert_eq!(at(&small, cfgrom::CFGROM_CDMA_DESC), 0x34_0003);
    assert_eq!(at(&small, cfgrom::CFGROM_CSC_DESC), 0x30_0005);
    assert_eq!(at(&small, cfgrom::CFGROM_CMAC_B_DESC), 0x1c_0006);
    assert_eq!(at(&small, cfgrom::CFGROM_CACC_DESC), 0x20_0007);
    assert_eq!(at(&small, cfgrom::CFGROM_SDP_DESC), 0x20_0009);
    assert_eq!(at(&small, cfgrom::CFGROM_SDP_CAP_COMPAT), 0x18);
    assert_eq!(at(&small, cfgrom::CFGROM_CDP_DESC), 0x10_000d);
    assert_eq!(at(&small, cfgrom::CFGROM_CDP_BASE_THROUGHPUT), 1);
    assert_eq!(at(&small, cfgrom::CFGROM_END_OF_LIST), 0);
    assert_eq!(Block::Cfgrom.registers().len(), WORDS);
}

#[test]
fn parameters_are_the_configuration_s() {
    let large = words(&NV_LARGE);
    assert_eq!(at(&large, cfgrom::CFGROM_CDMA_BASE_ATOMIC_C), 64);
    assert_eq!(at(&large, cfgrom::CFGROM_CBUF_BASE_CBUF_BANK_WIDTH), 64);
    assert_eq!(at(&large, cfgrom::CFGROM_SDP_EW_THROUGHPUT), 4);
    assert_eq!(at(&large, cfgrom::CFGROM_PDP_BASE_THROUGHPUT), 8);
}
