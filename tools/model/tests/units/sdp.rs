// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/sdp`: single operations, and what is refused.

use nvdla_model::memory::{Access, Fault, Port, Stop};
use nvdla_model::sdp::{run, State};
use nvdla_uapi::config::{Config, NV_FULL, NV_SMALL};
use nvdla_uapi::reg::values::RamType;
use nvdla_uapi::reg::{sdp as reg, sdp_rdma as rdma_reg, Register};

use crate::support::bytes::{noise, set, Bytes};
use crate::support::sdp_copy::{copy, INPUT};

const BASE: u64 = INPUT as u64;

#[test]
fn a_pass_through_copies_its_cube() {
    let (rdma, sdp) = copy(5, 7);
    let mut memory = Bytes { base: BASE, bytes: noise(1, 0x2000) };
    let done = run(&mut State::default(), &NV_SMALL, &rdma, &sdp, None, &mut memory).unwrap();
    assert_eq!(done.output, None);
    assert_eq!(memory.bytes[..5 * 7 * 8], memory.bytes[0x1000..0x1000 + 5 * 7 * 8]);
}

/// `NV_NVDLA_SDP_BRDMA_ig.v` counts a 1x1 cube's atoms as those of one line, so strides have no effect.
#[test]
fn operands_of_a_1x1_cube_are_one_run_of_atoms() {
    // nv_small's atom.
    const ATOM: usize = 8;
    const SURFACES: usize = 3;
    const OPERANDS_AT: usize = 0x800;
    // Sums of two int8 that fit one int8, and that differ from the values at the addresses of the next line or surface.
    let bytes: Vec<u8> = (0..0x2000).map(|at: usize| (at * 7 % 50) as u8).collect();
    // Of X1 and X2: operands of one byte for each element, for the ALU, which adds them.
    let cfg = 1 << 1 | 1 << 4 | (RamType::Mcif as u32) << 5;
    for (dma, stage, alu) in [
        (
            [
                rdma_reg::D_BRDMA_CFG,
                rdma_reg::D_BS_BASE_ADDR_LOW,
                rdma_reg::D_BS_LINE_STRIDE,
                rdma_reg::D_BS_SURFACE_STRIDE,
            ],
            reg::D_DP_BS_CFG,
            reg::D_DP_BS_ALU_CFG,
        ),
        (
            [
                rdma_reg::D_NRDMA_CFG,
                rdma_reg::D_BN_BASE_ADDR_LOW,
                rdma_reg::D_BN_LINE_STRIDE,
                rdma_reg::D_BN_SURFACE_STRIDE,
            ],
            reg::D_DP_BN_CFG,
            reg::D_DP_BN_ALU_CFG,
        ),
    ] {
        for stride in [ATOM as u32, 0x100, 0x220] {
            let (mut rdma, mut sdp) = copy(1, 1);
            let channels = (SURFACES * ATOM) as u32 - 1;
            set(&mut rdma, &[(rdma_reg::D_DATA_CUBE_CHANNEL, channels), (rdma_reg::D_SRC_SURFACE_STRIDE, stride)]);
            for (register, value) in dma.into_iter().zip([cfg, INPUT + OPERANDS_AT as u32, stride, stride]) {
                rdma.set(register, value);
            }
            set(&mut sdp, &[(reg::D_DATA_CUBE_CHANNEL, channels), (stage, 0x58), (alu, 1)]);
            let mut memory = Bytes { base: BASE, bytes: bytes.clone() };
            run(&mut State::default(), &NV_SMALL, &rdma, &sdp, None, &mut memory).unwrap();
            let sums: Vec<u8> = (0..SURFACES * ATOM).map(|at| bytes[at] + bytes[OPERANDS_AT + at]).collect();
            assert_eq!(memory.bytes[0x1000..0x1000 + sums.len()], sums, "strides of {stride:#x}");
        }
    }
}

#[test]
fn an_access_outside_is_a_fault_of_its_unit() {
    let (rdma, sdp) = copy(5, 7);
    let mut state = State::default();
    let mut memory = Bytes { base: BASE, bytes: vec![0; 0x1010] };
    let fault = Fault { unit: "SDP", access: Access::Write, port: Port::Primary, address: 0x10_1000, length: 280 };
    assert_eq!(run(&mut state, &NV_SMALL, &rdma, &sdp, None, &mut memory), Err(Stop::Fault(fault)));
    memory.bytes.truncate(16);
    let stop = run(&mut state, &NV_SMALL, &rdma, &sdp, None, &mut memory).unwrap_err();
    assert!(stop.to_string().starts_with("SDP_RDMA reads 280 bytes at 0x100000 of primary memory"), "{stop}");
}

#[test]
fn what_the_hardware_does_not_define_is_refused_by_name() {
    let memory = Bytes { base: BASE, bytes: vec![0; 0x2000] };
    let refusal = |config: &Config, rdma_set: &[(Register, u32)], sdp_set: &[(Register, u32)]| {
        let (mut rdma, mut sdp) = copy(2, 2);
        set(&mut rdma, rdma_set);
        set(&mut sdp, sdp_set);
        run(&mut State::default(), config, &rdma, &sdp, None, &mut memory.clone()).unwrap_err().to_string()
    };
    for (config, rdma_set, sdp_set, text) in [
        (&NV_SMALL, &[][..], &[(reg::D_DATA_FORMAT, 0x5)][..], "PROC_PRECISION is Int16, which nv_small does not have"),
        (&NV_FULL, &[], &[(reg::D_DATA_FORMAT, 0x2)], "OUT_PRECISION is Int8 with PROC_PRECISION Fp16"),
        (&NV_FULL, &[(rdma_reg::D_FEATURE_MODE_CFG, 0x8)], &[], "IN_PRECISION is Fp16 with PROC_PRECISION Int8"),
        (&NV_FULL, &[], &[(reg::D_DATA_FORMAT, 0xc)], "D_DATA_FORMAT holds 3 in bits 2.."),
        (&NV_FULL, &[], &[(reg::D_DP_BS_CFG, 0x5c)], "BS_ALU_ALGO is 3"),
        (&NV_FULL, &[], &[(reg::D_FEATURE_MODE_CFG, 0x1)], "FLYING_MODE is ON"),
        (&NV_FULL, &[(rdma_reg::D_DATA_CUBE_WIDTH, 9)], &[], "D_DATA_CUBE_WIDTH is 9, SDP's is 1"),
        (
            &NV_FULL,
            &[],
            &[(reg::D_DP_BS_CFG, 0x58), (reg::D_DP_BS_ALU_CFG, 1)],
            "BRDMA_DISABLE is YES, but SDP takes operands from memory",
        ),
        (
            &NV_FULL,
            &[(rdma_reg::D_BRDMA_CFG, 0x20)],
            &[(reg::D_DP_BS_CFG, 0x58), (reg::D_DP_BS_ALU_CFG, 1)],
            "BRDMA_DATA_USE is Mul, but SDP takes the Alu operand from memory",
        ),
    ] {
        let stop = refusal(config, rdma_set, sdp_set);
        assert!(stop.contains(text), "{stop}");
    }
}
