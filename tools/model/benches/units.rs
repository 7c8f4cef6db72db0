// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP, CDP, Rubik and BDMA against memory bandwidth.
//!
//! Each operation's throughput counts every byte of its input and output once. After criterion's own figures, one line
//! per operation gives the ratio to a plain copy of the same number of bytes, half read and half written: 1.00 is as
//! fast as `memcpy`. There is one for cubes in the second-level cache, and one for cubes in memory, where the memory's
//! bandwidth limits the copy.

mod shortest;
mod table;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use nvdla_model::bdma::Bdma;
use nvdla_model::memory::{disjoint, Memory, Port, Span};
use nvdla_model::num::convert::fp32_to_fp16;
use nvdla_model::registers::Registers;
use nvdla_model::{cdp, pdp, rubik};
use nvdla_uapi::config::NV_FULL;
use nvdla_uapi::reg::{bdma as reg_bdma, cdp as reg_cdp, cdp_rdma, pdp as reg_pdp, pdp_rdma, rbk, Block, Register};

use shortest::shortest;
use table::Table;

const ATOM: u32 = 32;
/// A cube that the second-level cache holds, and one that no cache holds.
const FORMS: [(&str, Form); 2] =
    [("cache", Form { size: 112, surfaces: 4 }), ("memory", Form { size: 448, surfaces: 16 })];

/// The form of an operation's input.
#[derive(Clone, Copy)]
struct Form {
    /// Elements of a line and lines.
    size: u32,
    surfaces: u32,
}

impl Form {
    /// Bytes of a line.
    const fn line(self) -> u32 {
        self.size * ATOM
    }

    /// Bytes of a surface.
    const fn surface(self) -> u32 {
        self.size * self.line()
    }

    /// Bytes of the cube, behind which the result lies.
    const fn cube(self) -> u32 {
        self.surfaces * self.surface()
    }

    /// Channels minus one, in that precision.
    const fn channels(self, precision: u32) -> u32 {
        self.surfaces * ATOM / if precision == INT8 { 1 } else { 2 } - 1
    }
}

const INT8: u32 = 0;
const INT16: u32 = 1;
const FP16: u32 = 2;

struct Bytes(Vec<u8>);

impl Memory for Bytes {
    fn read(&self, _: Port, address: u64, length: usize) -> Option<&[u8]> {
        self.0.get(usize::try_from(address).ok()?..)?.get(..length)
    }

    fn write(&mut self, _: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        self.0.get_mut(usize::try_from(address).ok()?..)?.get_mut(..length)
    }

    fn both(&mut self, read: Span, write: Span) -> Option<(&[u8], &mut [u8])> {
        let [read, write] =
            [read, write].map(|Span { address, length, .. }| address as usize..address as usize + length);
        disjoint(&mut self.0, read, write)
    }
}

fn registers(block: Block, values: &[(Register, u32)]) -> Registers {
    let mut registers = Registers::reset(block);
    for &(register, value) in values {
        registers.set(register, value);
    }
    registers
}

type Run = Box<dyn FnMut(&mut Bytes)>;

/// Pooling with padding so that the output is the input divided by the stride.
fn pooling(form: Form, precision: u32, method: u32, kernel: u32, stride: u32) -> (u64, Run) {
    let out = form.size / stride;
    let pad = (kernel - 1) / 2;
    let after = (out - 1) * stride + kernel - form.size - pad;
    let rdma = registers(
        Block::PdpRdma,
        &[
            (pdp_rdma::D_DATA_CUBE_IN_WIDTH, form.size - 1),
            (pdp_rdma::D_DATA_CUBE_IN_HEIGHT, form.size - 1),
            (pdp_rdma::D_DATA_CUBE_IN_CHANNEL, form.channels(precision)),
            (pdp_rdma::D_SRC_LINE_STRIDE, form.line()),
            (pdp_rdma::D_SRC_SURFACE_STRIDE, form.surface()),
            (pdp_rdma::D_DATA_FORMAT, precision),
        ],
    );
    let unit = registers(
        Block::Pdp,
        &[
            (reg_pdp::D_DATA_CUBE_IN_WIDTH, form.size - 1),
            (reg_pdp::D_DATA_CUBE_IN_HEIGHT, form.size - 1),
            (reg_pdp::D_DATA_CUBE_IN_CHANNEL, form.channels(precision)),
            (reg_pdp::D_DATA_CUBE_OUT_WIDTH, out - 1),
            (reg_pdp::D_DATA_CUBE_OUT_HEIGHT, out - 1),
            (reg_pdp::D_OPERATION_MODE_CFG, method | (1 << 4)),
            (reg_pdp::D_POOLING_KERNEL_CFG, ((kernel - 1) * 0x101) | ((stride - 1) * 0x11_0000)),
            (reg_pdp::D_POOLING_PADDING_CFG, (pad * 0x11) | (after * 0x1100)),
            (reg_pdp::D_RECIP_KERNEL_WIDTH, if precision == FP16 { 0x7555 } else { 65536 / kernel }),
            (reg_pdp::D_RECIP_KERNEL_HEIGHT, if precision == FP16 { 0x7555 } else { 65536 / kernel }),
            (reg_pdp::D_DST_BASE_ADDR_LOW, form.cube()),
            (reg_pdp::D_DST_LINE_STRIDE, out * ATOM),
            (reg_pdp::D_DST_SURFACE_STRIDE, out * out * ATOM),
            (reg_pdp::D_DATA_FORMAT, precision),
        ],
    );
    let bytes = u64::from(form.cube()) + u64::from(form.surfaces * out * out * ATOM);
    let run = move |memory: &mut Bytes| assert!(black_box(pdp::run(&NV_FULL, &rdma, &unit, None, memory)).is_ok());
    (bytes, Box::new(run))
}

/// Local response normalisation over five channels. With `scaled`, both converters have factors or offsets, and the linear
/// table LO is used. Otherwise the output is only shifted, and table LE is used, whose entries are at powers of two.
fn normalisation(form: Form, precision: u32, scaled: bool) -> (u64, Run) {
    let rdma = registers(
        Block::CdpRdma,
        &[
            (cdp_rdma::D_DATA_CUBE_WIDTH, form.size - 1),
            (cdp_rdma::D_DATA_CUBE_HEIGHT, form.size - 1),
            (cdp_rdma::D_DATA_CUBE_CHANNEL, form.channels(precision)),
            (cdp_rdma::D_SRC_LINE_STRIDE, form.line()),
            (cdp_rdma::D_SRC_SURFACE_STRIDE, form.surface()),
            (cdp_rdma::D_DATA_FORMAT, precision),
        ],
    );
    let unit = registers(
        Block::Cdp,
        &[
            (reg_cdp::S_LUT_INFO, 8 << 16),
            (reg_cdp::S_LUT_LO_END_LOW, 1 << 16),
            (reg_cdp::D_DST_BASE_ADDR_LOW, form.cube()),
            (reg_cdp::D_DST_LINE_STRIDE, form.line()),
            (reg_cdp::D_DST_SURFACE_STRIDE, form.surface()),
            (reg_cdp::D_DATA_FORMAT, precision),
            (reg_cdp::D_LRN_CFG, 1),
            (reg_cdp::D_DATOUT_SHIFTER, if scaled { 25 } else { 10 }),
            (reg_cdp::D_DATOUT_SCALE, if scaled { 19_000 } else { 1 }),
            (reg_cdp::D_DATIN_OFFSET, if scaled { 3 } else { 0 }),
            (reg_cdp::S_LUT_CFG, if scaled { 0x70 } else { 0 }),
        ],
    );
    let mut state = cdp::State::default();
    // The factors of local response normalisation: (1 + x) to the power of -0.75.
    for (access, entries) in [(1 << 17, 65), (3 << 16, 257)] {
        state.tables.write_access(access);
        for entry in 0..entries {
            let factor = (1.0 + entry as f32 / 16.0).powf(-0.75);
            let half = fp32_to_fp16(factor.to_bits());
            state.tables.write_data(if precision == FP16 { half.into() } else { (factor * 32767.0) as u32 });
        }
    }
    let run = move |memory: &mut Bytes| {
        assert!(black_box(cdp::run(&mut state, &NV_FULL, &rdma, &unit, memory)).is_ok());
    };
    (2 * u64::from(form.cube()), Box::new(run))
}

/// Contract by 2x2, split or merge.
fn reshape(form: Form, mode: u32, precision: u32) -> (u64, Run) {
    let (width, height) = if mode == 0 { (form.size / 2, form.size / 2) } else { (form.size, form.size) };
    let flat = form.size * if precision == INT8 { 1 } else { 2 };
    let merge = mode == 2;
    let unit = registers(
        Block::Rbk,
        &[
            (rbk::D_MISC_CFG, mode | (precision << 8)),
            (rbk::D_DATAIN_SIZE_0, (width - 1) | ((height - 1) << 16)),
            (rbk::D_DATAIN_SIZE_1, form.channels(precision)),
            (rbk::D_DAIN_LINE_STRIDE, if merge { flat } else { width * ATOM }),
            (rbk::D_DAIN_SURF_STRIDE, width * height * ATOM),
            (rbk::D_DAIN_PLANAR_STRIDE, flat * form.size),
            (rbk::D_DATAOUT_SIZE_1, form.channels(precision)),
            (rbk::D_DAOUT_ADDR_LOW, form.cube()),
            (rbk::D_DAOUT_LINE_STRIDE, if mode == 1 { flat } else { form.line() }),
            (rbk::D_CONTRACT_STRIDE_1, 2 * form.line()),
            (rbk::D_DAOUT_SURF_STRIDE, form.surface()),
            (rbk::D_DAOUT_PLANAR_STRIDE, flat * form.size),
            (rbk::D_DECONV_STRIDE, 0x1_0001),
        ],
    );
    let run = move |memory: &mut Bytes| assert!(black_box(rubik::run(&NV_FULL, &unit, memory)).is_ok());
    (2 * u64::from(form.cube()), Box::new(run))
}

fn copy(form: Form) -> (u64, Run) {
    let run = move |memory: &mut Bytes| {
        let mut bdma = Bdma::reset();
        for (register, value) in [
            (reg_bdma::CFG_DST_ADDR_LOW, form.cube()),
            (reg_bdma::CFG_LINE, form.line() / 32 - 1),
            (reg_bdma::CFG_LINE_REPEAT, form.size - 1),
            (reg_bdma::CFG_SRC_LINE, form.line()),
            (reg_bdma::CFG_DST_LINE, form.line()),
            (reg_bdma::CFG_SURF_REPEAT, form.surfaces - 1),
            (reg_bdma::CFG_SRC_SURF, form.surface()),
            (reg_bdma::CFG_DST_SURF, form.surface()),
            (reg_bdma::CFG_OP, 1),
            (reg_bdma::CFG_LAUNCH0, 1),
        ] {
            bdma.write(register.offset.into(), value);
        }
        assert_eq!(black_box(bdma.run(memory)), Ok(Some(0)));
    };
    (2 * u64::from(form.cube()), Box::new(run))
}

/// The operations, and the bytes that each reads and writes.
fn operations(form: Form) -> Vec<(&'static str, (u64, Run))> {
    vec![
        ("PDP int8 max 2x2/2", pooling(form, INT8, 1, 2, 2)),
        ("PDP int8 max 3x3/2", pooling(form, INT8, 1, 3, 2)),
        ("PDP int8 average 3x3/1", pooling(form, INT8, 0, 3, 1)),
        ("PDP int8 average 7x7/1", pooling(form, INT8, 0, 7, 1)),
        ("PDP int16 average 3x3/1", pooling(form, INT16, 0, 3, 1)),
        ("PDP fp16 max 3x3/2", pooling(form, FP16, 1, 3, 2)),
        ("PDP fp16 average 3x3/1", pooling(form, FP16, 0, 3, 1)),
        ("CDP int8", normalisation(form, INT8, false)),
        ("CDP int8 LO, scaled", normalisation(form, INT8, true)),
        ("CDP int16", normalisation(form, INT16, false)),
        ("CDP int16 LO, scaled", normalisation(form, INT16, true)),
        ("CDP fp16", normalisation(form, FP16, false)),
        ("CDP fp16 LO", normalisation(form, FP16, true)),
        ("Rubik int8 contract", reshape(form, 0, INT8)),
        ("Rubik int8 split", reshape(form, 1, INT8)),
        ("Rubik int8 merge", reshape(form, 2, INT8)),
        ("Rubik fp16 split", reshape(form, 1, FP16)),
        ("BDMA copy", copy(form)),
    ]
}

fn main() {
    println!("instruction set: {}", nvdla_model::Isa::in_use().expect("NVDLA_ISA").name());
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .configure_from_args();
    let mut table = Table::default();
    for (place, form) in FORMS {
        let mut memory = Bytes(vec![0; 3 * form.cube() as usize]);
        for (index, byte) in memory.0.iter_mut().enumerate() {
            // As fp16 numbers below 256, as activations are: sums of them stay in fp16's range.
            *byte = (index as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0] & 0x5b;
        }
        let mut group = criterion.benchmark_group(format!("units in {place}"));
        for (row, (name, (bytes, mut run))) in operations(form).into_iter().enumerate() {
            group.throughput(Throughput::Bytes(bytes));
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| bencher.iter(|| run(&mut memory)));
            let half = bytes as usize / 2;
            let plain = shortest(|| {
                let (from, to) = memory.0.split_at_mut(3 * form.cube() as usize / 2);
                to[..half].copy_from_slice(black_box(&from[..half]));
            });
            let own = shortest(|| run(&mut memory));
            table.add(row, name, bytes, [own, plain]);
        }
        group.finish();
    }
    table.print(FORMS.map(|(place, _)| place));
}
