// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/device.rs`.

use nvdla_model::device::Model;
use nvdla_model::memory::{Fault, Stop};
use nvdla_uapi::config::{NV_FULL, NV_SMALL};
use nvdla_uapi::reg::values::RamType;
use nvdla_uapi::reg::{bdma, cdma, cfgrom, glb, rbk, Block, Register};

use crate::support::bytes::Bytes;

const BASE: u64 = 0x1000;

fn write(model: &mut Model, block: Block, register: Register, value: u32) {
    let base = block.base(model.config().family).unwrap();
    model.write(base + u32::from(register.offset), value);
}

fn read(model: &mut Model, block: Block, register: Register) -> u32 {
    let base = block.base(model.config().family).unwrap();
    model.read(base + u32::from(register.offset))
}

fn copy(model: &mut Model, from: u64, to: u64) {
    let ram = bdma::CFG_CMD::SRC_RAM_TYPE.put(RamType::Mcif) | bdma::CFG_CMD::DST_RAM_TYPE.put(RamType::Mcif);
    for (register, value) in [
        (bdma::CFG_SRC_ADDR_LOW, from as u32),
        (bdma::CFG_DST_ADDR_LOW, to as u32),
        (bdma::CFG_LINE, 1),
        (bdma::CFG_CMD, ram),
        (bdma::CFG_LINE_REPEAT, 2),
        (bdma::CFG_SRC_LINE, 0x40),
        (bdma::CFG_DST_LINE, 0x80),
        (bdma::CFG_OP, 1),
        (bdma::CFG_LAUNCH1, 1),
    ] {
        write(model, Block::Bdma, register, value);
    }
}

#[test]
fn a_copy_moves_its_lines_and_raises_its_group_s_interrupt() {
    let mut memory = Bytes { base: BASE, bytes: (0..8192u32).map(|byte| (byte / 32) as u8).collect() };
    let mut model = Model::new(&NV_FULL);
    copy(&mut model, BASE, BASE + 0x1000);
    assert!(!model.interrupt());
    assert_eq!(read(&mut model, Block::Bdma, bdma::STATUS), 0x413);
    assert!(model.run(&mut memory));
    assert!(model.interrupt());
    assert_eq!(read(&mut model, Block::Glb, glb::S_INTR_STATUS), 0x80);
    assert_eq!(read(&mut model, Block::Bdma, bdma::STATUS), 0x114);
    assert_eq!(memory.bytes[0x1000], 0);
    assert_eq!(memory.bytes[0x1020], 1);
    assert_eq!(memory.bytes[0x1080], 2);
    assert_eq!(memory.bytes[0x1040], 0x82);
    assert!(!model.run(&mut memory));
}

#[test]
fn an_access_outside_stops_the_unit_until_reset() {
    let mut memory = Bytes { base: BASE, bytes: vec![0; 8192] };
    let mut model = Model::new(&NV_FULL);
    copy(&mut model, BASE, BASE + 0x1fa0);
    assert!(!model.run(&mut memory));
    let Some(Stop::Fault(Fault { unit, address, length, .. })) = model.take_stop() else { panic!("no fault") };
    assert_eq!((unit, address, length), ("BDMA", BASE + 0x2020, 64));
    assert_eq!(model.take_stop(), None);
    copy(&mut model, BASE, BASE);
    assert!(!model.run(&mut memory));
    assert!(!model.interrupt());

    model.reset();
    copy(&mut model, BASE, BASE);
    assert!(model.run(&mut memory));
}

#[test]
fn registers_answer_while_an_operation_is_under_way() {
    let mut memory = Bytes { base: BASE, bytes: (0..8192u32).map(|byte| (byte / 32) as u8).collect() };
    let mut model = Model::new(&NV_FULL);
    copy(&mut model, BASE, BASE + 0x1000);
    let work = model.start().expect("a copy is ready");
    assert_eq!(read(&mut model, Block::Bdma, bdma::STATUS), 0x414, "the slot is free and group 1 busy");
    assert!(model.start().is_none(), "one at a time");
    let finished = work.run(&mut memory);
    assert!(!model.interrupt());
    assert!(model.finish(finished));
    assert!(model.interrupt());
    assert_eq!(memory.bytes[0x1020], 1);
}

#[test]
fn operations_enabled_while_a_unit_runs_are_started() {
    let mut memory = Bytes { base: BASE, bytes: vec![0; 8192] };
    let mut model = Model::new(&NV_FULL);
    write(&mut model, Block::Rbk, rbk::D_OP_ENABLE, 1);
    let work = model.start().expect("Rubik is ready");
    copy(&mut model, BASE, BASE + 0x1000);
    let finished = work.run(&mut memory);
    model.finish(finished);
    assert!(model.start().is_some(), "the copy is ready");
}

#[test]
fn a_reset_forgets_the_operation_under_way() {
    let mut memory = Bytes { base: BASE, bytes: vec![0; 8192] };
    let mut model = Model::new(&NV_FULL);
    copy(&mut model, BASE, BASE + 0x1000);
    let work = model.start().expect("a copy is ready");
    model.reset();
    assert!(!model.finish(work.run(&mut memory)));
    assert!(!model.interrupt());
    copy(&mut model, BASE, BASE + 0x1000);
    assert!(model.run(&mut memory));
}

#[test]
fn a_block_that_the_configuration_lacks_reads_as_zero() {
    let mut model = Model::new(&NV_SMALL);
    assert_eq!(read(&mut model, Block::Bdma, bdma::STATUS), 0);
    assert_eq!(read(&mut model, Block::Cfgrom, cfgrom::CFGROM_HW_VERSION), 0x1_0001);
    assert_eq!(read(&mut model, Block::Cdma, cdma::S_CBUF_FLUSH_STATUS), 1);
    assert_eq!(model.read(!0), 0);
    model.write(!0, 1);
}
