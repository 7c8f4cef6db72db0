// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/groups.rs`.

use nvdla_model::groups::Groups;
use nvdla_uapi::reg::{pdp, sdp, Block, Family, Register};

fn offset(register: Register) -> u32 {
    register.offset.into()
}

#[test]
fn a_group_is_software_s_until_it_is_enabled_and_again_after_its_operation() {
    let mut pdp = Groups::reset(Block::Pdp, Family::NvSmall);
    let width = offset(pdp::D_DATA_CUBE_IN_WIDTH);
    pdp.write(width, 7);
    assert!(pdp.ready().is_none());
    assert!(pdp.write(offset(pdp::D_OP_ENABLE), 1));
    assert_eq!(pdp.read(0), 0x1);
    pdp.write(width, 9);
    assert_eq!(pdp.read(width), 7);

    pdp.write(offset(pdp::S_POINTER), 1);
    pdp.write(width, 5);
    assert!(pdp.write(offset(pdp::D_OP_ENABLE), 1));
    assert_eq!(pdp.read(0), 0x2_0001);
    assert_eq!(pdp.read(offset(pdp::S_POINTER)), 1);

    assert_eq!(pdp.finish(), 0);
    assert_eq!(pdp.read(offset(pdp::S_POINTER)), 0x1_0001);
    assert_eq!(pdp.read(0), 0x1_0000);
    assert_eq!(pdp.ready().map(|group| group.get(pdp::D_DATA_CUBE_IN_WIDTH)), Some(5));
    assert_eq!(pdp.finish(), 1);
    pdp.write(offset(pdp::S_POINTER), 0);
    pdp.write(width, 9);
    assert_eq!(pdp.read(width), 9);
}

#[test]
fn single_registers_are_in_both_groups_and_nv_full_drops_address_bits() {
    let mut sdp = Groups::reset(Block::Sdp, Family::NvFull);
    sdp.write(offset(sdp::S_LUT_CFG), !0);
    sdp.write(offset(sdp::D_DST_BASE_ADDR_LOW), !0);
    assert_eq!(sdp.read(offset(sdp::S_LUT_CFG)), sdp::S_LUT_CFG.writable);
    assert_eq!(sdp.read(offset(sdp::D_DST_BASE_ADDR_LOW)), !0x1f);
    sdp.write(offset(pdp::S_POINTER), 1);
    assert_eq!(sdp.read(offset(sdp::S_LUT_CFG)), sdp::S_LUT_CFG.writable);
    assert_eq!(sdp.read(offset(sdp::D_DST_BASE_ADDR_LOW)), 0);
}
