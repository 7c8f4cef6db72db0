// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests int8 operations with the smallest and largest operands, on every instruction set.

use nvdla_uapi::config::NV_SMALL;
use nvdla_uapi::reg::{sdp as reg, sdp_rdma as rdma_reg};

use super::tests::settings;
use super::{reference, vector, State};
use crate::support::bytes::{set, Bytes};
use crate::support::sdp_copy::copy;

const BASE: u64 = 0x10_0000;
const OPERANDS: usize = 0x8000;
/// Bytes of the data.
const DATA: usize = 0x900;

/// X2 adds, multiplies, shifts and perhaps applies ReLU to every int8, with an addend and a factor for each channel.
#[test]
fn batch_normalisation_is_the_reference_s_at_the_ends_of_its_ranges() {
    const ENDS: [i16; 8] = [i16::MIN, i16::MAX, -1, 0, 1, -129, 128, 20_000];
    let (mut rdma, mut sdp) = copy(32, 9);
    set(&mut rdma, &[(rdma_reg::D_NRDMA_CFG, 2 << 1 | 1 << 3 | 1 << 5), (rdma_reg::D_BN_BASE_ADDR_LOW, 0x10_8000)]);
    set(&mut sdp, &[(reg::D_DP_BN_ALU_CFG, 1), (reg::D_DST_BASE_ADDR_LOW, 0x10_4000)]);
    let mut bytes = vec![0; 0x1_0000];
    for (index, byte) in bytes[..DATA].iter_mut().enumerate() {
        *byte = (index / 8) as u8;
    }
    for turn in 0..ENDS.len() {
        for (channel, addend) in ENDS.into_iter().enumerate() {
            let factor = ENDS[(channel + turn) % ENDS.len()];
            let pair = &mut bytes[OPERANDS + 4 * channel..][..4];
            pair[..2].copy_from_slice(&addend.to_le_bytes());
            pair[2..].copy_from_slice(&factor.to_le_bytes());
        }
        for (shift, relu, scale, converted) in
            [(0, 0, 1, 0), (0, 1, 1, 0), (1, 0, 23_170, 15), (8, 1, 23_170, 15), (15, 0, 129, 7), (8, 0, 32_767, 20)]
        {
            let sub_unit = 0x08 | if relu == 0 { 0x40 } else { 0 };
            set(&mut sdp, &[(reg::D_DP_BN_CFG, sub_unit), (reg::D_DP_BN_MUL_CFG, 1 | shift << 8)]);
            set(&mut sdp, &[(reg::D_CVT_SCALE, scale), (reg::D_CVT_SHIFT, converted)]);
            let before = Bytes { base: BASE, bytes: bytes.clone() };
            let mut plain = before.clone();
            reference::run(&mut State::default(), &NV_SMALL, &rdma, &sdp, None, &mut plain).unwrap();
            assert_ne!(plain, before);
            for settings in settings() {
                let mut memory = before.clone();
                vector::run(settings, &mut State::default(), &NV_SMALL, &rdma, &sdp, None, &mut memory).unwrap();
                let differs = plain.bytes.iter().zip(&memory.bytes).position(|(a, b)| a != b);
                assert_eq!(differs, None, "shift {shift}, ReLU {relu}, * {scale} >> {converted}, {settings:?}");
            }
        }
    }
}
