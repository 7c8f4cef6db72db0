// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/conv`: sums that do not fit, and operations that use the convolution buffer's contents again.

use nvdla_model::conv::operation::Size;
use nvdla_model::conv::{run, Blocks, State};
use nvdla_model::memory::{Memory, Port, Span, Stop};
use nvdla_uapi::config::{NV_FULL, NV_LARGE, NV_SMALL};
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{cdma, csc, Block};

use crate::support::bytes::{bits, noise};
use crate::support::program::{Program, Surfaces};

fn surfaces(program: &Program, seed: u64) -> Surfaces {
    Surfaces::new(program, noise(seed, program.input_bytes()), noise(!seed, program.weight_bytes()))
}

#[test]
fn deep_kernels_do_not_wrap() {
    // 2^17 products of -128 * -128 would be 2^31.
    let input = Size { width: 4, height: 4, channels: 8192 };
    let program = Program { pads: [0; 4], kernel: [4; 2], ..Program::feature(&NV_LARGE, Precision::Int8, input, 1, 2) };
    let registers = program.registers().unwrap();
    let [data, weights] = [program.input_bytes(), program.weight_bytes()].map(|length| vec![0x80; length]);
    let memory = Surfaces::new(&program, data, weights);
    let done = run(&mut State::new(), program.config, &registers.blocks(), &memory).unwrap();
    assert_eq!(bits(&done.output)[0], i32::MAX as u32);
    assert!(done.status.iter().any(|&(block, _, value)| block == Block::Cacc && value == 2));
}

#[test]
fn data_and_weights_serve_the_next_operation() {
    let input = Size { width: 9, height: 6, channels: 40 };
    let program = Program::feature(&NV_FULL, Precision::Int8, input, 3, 20);
    let memory = surfaces(&program, 5);
    let mut state = State::new();
    let mut registers = program.registers().unwrap();
    let all = run(&mut State::new(), program.config, &registers.blocks(), &memory).unwrap();

    let keep = cdma::D_MISC_CFG::SKIP_DATA_RLS.put(true) | cdma::D_MISC_CFG::SKIP_WEIGHT_RLS.put(true);
    let reuse = cdma::D_MISC_CFG::DATA_REUSE.put(true) | cdma::D_MISC_CFG::WEIGHT_REUSE.put(true);
    let misc = [registers.blocks().cdma.get(cdma::D_MISC_CFG), registers.blocks().csc.get(csc::D_MISC_CFG)];
    registers.set(Block::Cdma, cdma::D_MISC_CFG, misc[0] | keep);
    registers.set(Block::Csc, csc::D_MISC_CFG, misc[1] | keep);
    let first = run(&mut state, program.config, &registers.blocks(), &memory).unwrap();
    assert_eq!(first.output, all.output);

    // The second operation runs with an empty memory.
    registers.set(Block::Cdma, cdma::D_MISC_CFG, misc[0] | reuse);
    registers.set(Block::Csc, csc::D_MISC_CFG, misc[1] | reuse);
    let nothing = Surfaces::new(&program, Vec::new(), Vec::new());
    let second = run(&mut state, program.config, &registers.blocks(), &nothing).unwrap();
    assert_eq!(second.output, all.output);
    let third = run(&mut state, program.config, &registers.blocks(), &nothing);
    assert!(matches!(third, Err(Stop::Fault(fault)) if fault.unit == "CDMA"));
}

/// Memory with a version, which a test counts up when it changes the contents.
struct Versioned(Surfaces, u64);

impl Memory for Versioned {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        self.0.read(port, address, length)
    }

    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        self.0.write(port, address, length)
    }

    fn version(&self, _: Span) -> Option<u64> {
        Some(self.1)
    }
}

/// Packed weights are kept by address and version. Weights that stay in the convolution buffer are those of the version at which
/// they were fetched.
#[test]
fn kept_weights_do_not_change_with_memory() {
    let input = Size { width: 9, height: 6, channels: 40 };
    let program = Program::feature(&NV_FULL, Precision::Int8, input, 3, 20);
    let data = noise(5, program.input_bytes());
    let [old, new] = [6, 7].map(|seed| Surfaces::new(&program, data.clone(), noise(seed, program.weight_bytes())));
    let outputs = [&old, &new].map(|memory| {
        let registers = program.registers().unwrap();
        run(&mut State::new(), program.config, &registers.blocks(), memory).unwrap().output
    });
    let with = |address: u64, kept: bool| {
        let mut registers = Program { weights: program.weights + address, ..program }.registers().unwrap();
        let [skip, reuse] = [cdma::D_MISC_CFG::SKIP_WEIGHT_RLS, cdma::D_MISC_CFG::WEIGHT_REUSE];
        let bits = skip.put(true) | if kept { reuse.put(true) } else { 0 };
        let misc = [registers.blocks().cdma.get(cdma::D_MISC_CFG), registers.blocks().csc.get(csc::D_MISC_CFG)];
        registers.set(Block::Cdma, cdma::D_MISC_CFG, misc[0] | bits);
        registers.set(Block::Csc, csc::D_MISC_CFG, misc[1] | bits);
        registers
    };
    let mut state = State::new();
    let mut sums = |registers: &Blocks<'_>, memory: &Versioned| {
        bits(&run(&mut state, program.config, registers, memory).unwrap().output)
    };
    let [old, new] = [Versioned(old, 1), Versioned(new, 2)];
    assert_eq!(sums(&with(0, false).blocks(), &old), bits(&outputs[0]));
    assert_eq!(sums(&with(0, true).blocks(), &new), bits(&outputs[0]), "the weights were fetched before");
    assert_eq!(sums(&with(64, true).blocks(), &new), bits(&outputs[0]), "the address is not used");
    assert_eq!(sums(&with(0, false).blocks(), &new), bits(&outputs[1]));
    assert_eq!(sums(&with(0, true).blocks(), &old), bits(&outputs[1]));
}

#[test]
fn lines_of_the_last_operation_come_first() {
    let whole = Size { width: 5, height: 8, channels: 8 };
    let program = Program { pads: [0; 4], ..Program::feature(&NV_SMALL, Precision::Int8, whole, 3, 8) };
    let memory = surfaces(&program, 9);
    let registers = program.registers().unwrap();
    let all = run(&mut State::new(), program.config, &registers.blocks(), &memory).unwrap().output;

    // The first operation reads lines 0 to 4 and keeps lines 3 and 4. The second reads lines 5 to 7.
    let mut state = State::new();
    let part = |height: usize| Program { input: Size { height, ..whole }, ..program }.registers().unwrap();
    let mut first = part(5);
    let surface = first.blocks().cdma.get(cdma::D_SURF_STRIDE) / 5 * 8;
    first.set(Block::Cdma, cdma::D_SURF_STRIDE, surface);
    first.set(Block::Csc, csc::D_RELEASE, 3 - 1);
    let mut second = part(5);
    second.set(Block::Cdma, cdma::D_SURF_STRIDE, surface);
    second.set(Block::Cdma, cdma::D_DATAIN_SIZE_0, (whole.width as u32 - 1) | (3 - 1) << 16);
    second.set(Block::Cdma, cdma::D_DAIN_ADDR_LOW_0, 5 * whole.width as u32 * 8);
    for (block, register) in [(Block::Cdma, cdma::D_MISC_CFG), (Block::Csc, csc::D_MISC_CFG)] {
        let blocks = second.blocks();
        let old = if block == Block::Cdma { blocks.cdma.get(register) } else { blocks.csc.get(register) };
        second.set(block, register, old | cdma::D_MISC_CFG::DATA_REUSE.put(true));
    }
    let first = run(&mut state, program.config, &first.blocks(), &memory).unwrap().output;
    let second = run(&mut state, program.config, &second.blocks(), &memory).unwrap().output;
    let joined: Vec<u32> = bits(&first).into_iter().chain(bits(&second)).collect();
    assert_eq!(joined, bits(&all));
}
