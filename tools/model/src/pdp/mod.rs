// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP: pooling.
//!
//! A window of up to 8x8 elements moves over each channel and gives its largest, smallest or average element. Input
//! comes from memory, or directly from SDP ("on flying"). A cube wider than the unit's line buffer is split by columns:
//! each part is read again where its windows overlap the part before it.
//!
//! Padding has no effect on a maximum or minimum. In an average, a row of the window with n padded columns adds `PAD_VALUE_nX`,
//! and a window with n padded rows adds `PAD_VALUE_nX` times the kernel's width. The sum is multiplied by `RECIP_KERNEL_WIDTH`,
//! rounded, and then multiplied by `RECIP_KERNEL_HEIGHT`. Rows are summed from the left before they are added from the top; in
//! fp16 the order affects the result. All elements of an atom are computed, also those after the cube's last channel.
//!
//! Source: the register specification (PDP, PDP_RDMA), the hardware manual ("PDP"), and for the arithmetic the C-model
//! (`cmod/pdp`, `cmod/hls_wrapper/pdp_hls_wrapper.cpp`).

mod fast;
pub mod reference;
mod setup;

use self::setup::UNIT;
use self::setup::{Axis, Emit, Part, Setup, Source};

use std::borrow::Cow;

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::View;
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{pdp, pdp_rdma, Block};

use crate::cube::Placed;
use crate::memory::{Memory, NoMemory, Stop};
use crate::num::convert::fp32_to_fp16;
use crate::registers::Registers;
use crate::stream::{Done, Form, Samples, Stream};
use nvdla_uapi::isa::Isa;

/// The read DMA's name in faults.
const READER: &str = "PDP_RDMA";

/// SDP's output when the operation is on flying.
#[derive(Clone, Copy, Debug)]
pub enum Input<'s> {
    /// Samples of any precision.
    Samples(&'s Stream),
    /// int8 of a cube of this form, in the order of a [`Stream`].
    Bytes(Form, &'s [u8]),
}

/// Pools: one operation of PDP with the registers of its group and of its read DMA's.
///
/// `input` is SDP's output when the operation is on flying.
pub fn run(
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    input: Option<Input<'_>>,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    run_with(Isa::in_use()?, config, rdma, registers, input, memory)
}

/// [`run`] with one of the instruction sets that the processor has.
fn run_with(
    isa: Isa,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    input: Option<Input<'_>>,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    perform(isa, config, rdma, registers, input, memory, fast::pool)
}

/// Writes lines of a part's output: surface and first line, bytes.
type EmitPart<'e> = dyn FnMut(&mut dyn Memory, &Part, [usize; 2], &[u8]) -> Result<(), Stop> + 'e;

/// Pools one part. Returns the number of NaNs.
type Pool = fn(&Setup, &Part, &Source, &mut dyn Memory, &mut Emit) -> Result<usize, Stop>;

fn perform(
    isa: Isa,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    input: Option<Input<'_>>,
    memory: &mut dyn Memory,
    pool: Pool,
) -> Result<Done<()>, Stop> {
    let setup = Setup::new(isa, config, registers)?;
    let parts = Parts::new(registers);
    let channels = registers.get(pdp::D_DATA_CUBE_IN_CHANNEL) as usize + 1;
    let source = match input {
        None => {
            check_reader(rdma, registers)?;
            let port = rdma.field(pdp_rdma::D_SRC_RAM_CFG::SRC_RAM_TYPE)?.into();
            let address = rdma.address(pdp_rdma::D_SRC_BASE_ADDR_HIGH, pdp_rdma::D_SRC_BASE_ADDR_LOW);
            let strides = [rdma.get(pdp_rdma::D_SRC_LINE_STRIDE), rdma.get(pdp_rdma::D_SRC_SURFACE_STRIDE)];
            let last = parts.part(parts.count - 1)?;
            let size = [last.input + last.axis.input, setup.vertical.input, channels];
            Source::Memory(Placed::new(READER, config, setup.precision, size, (port, address), strides)?)
        }
        Some(input) => packed(&setup, &parts, input)?,
    };
    let port = registers.field(pdp::D_DST_RAM_CFG::DST_RAM_TYPE)?.into();
    let address = registers.address(pdp::D_DST_BASE_ADDR_HIGH, pdp::D_DST_BASE_ADDR_LOW);
    let strides = [registers.get(pdp::D_DST_LINE_STRIDE), registers.get(pdp::D_DST_SURFACE_STRIDE)];
    let last = parts.part(parts.count - 1)?;
    let size = [last.output + last.axis.output, setup.vertical.output, channels];
    let destination = Placed::new(UNIT, config, setup.precision, size, (port, address), strides)?;
    let each = |source: &Source, memory: &mut dyn Memory, emit: &mut EmitPart| -> Result<usize, Stop> {
        let mut nans = 0;
        for part in 0..parts.count {
            let part = parts.part(part)?;
            nans += pool(&setup, &part, source, memory, &mut |memory, surface, y, lines| {
                emit(memory, &part, [surface, y], lines)
            })?;
        }
        Ok(nans)
    };
    let line = |part: &Part| setup.atoms.span(part.axis.output);
    let spans = match &source {
        Source::Memory(cube) => cube.all().zip(destination.all()),
        Source::Packed { .. } => None,
    };
    // If neither cube has a gap and they share no byte, memory is asked once and not for each line.
    let nans = if let Some((input, output)) = spans.and_then(|(read, write)| memory.both(read, write)) {
        let view =
            View::packed(setup.surfaces, setup.vertical.input, last.input + last.axis.input, setup.atoms.bytes());
        let source = Source::Packed { bytes: Cow::Borrowed(input), view };
        each(&source, &mut NoMemory, &mut |_, part, [surface, y], lines| {
            for (atoms, y) in lines.chunks_exact(line(part)).zip(y..) {
                output[destination.within(surface, [y, part.output], part.axis.output)].copy_from_slice(atoms);
            }
            Ok(())
        })
    } else {
        each(&source, memory, &mut |memory, part, [surface, y], lines| {
            Ok(destination.write_lines(memory, surface, [y, part.output], line(part), lines)?)
        })
    }?;
    // The input counters exist, but the hardware project's model clears them after the input has passed.
    let status = [
        (Block::Pdp, pdp::D_INF_INPUT_NUM, 0),
        (Block::Pdp, pdp::D_NAN_INPUT_NUM, 0),
        (Block::Pdp, pdp::D_NAN_OUTPUT_NUM, nans as u32),
    ];
    Ok(Done { output: (), status: status.into() })
}

/// The parts of a split operation.
struct Parts {
    count: usize,
    input: [usize; 3],
    output: [usize; 3],
    kernel: usize,
    stride: usize,
    pad_left: usize,
    pad_right: usize,
}

impl Parts {
    fn new(registers: &Registers) -> Self {
        let count = registers.value(pdp::D_OPERATION_MODE_CFG::SPLIT_NUM) as usize + 1;
        let one = |register| [registers.get(register) as usize + 1; 3];
        let parts = |values: [u32; 3]| values.map(|value| value as usize + 1);
        let mut this = Self {
            count,
            input: one(pdp::D_DATA_CUBE_IN_WIDTH),
            output: one(pdp::D_DATA_CUBE_OUT_WIDTH),
            kernel: registers.value(pdp::D_POOLING_KERNEL_CFG::KERNEL_WIDTH) as usize + 1,
            stride: registers.value(pdp::D_POOLING_KERNEL_CFG::KERNEL_STRIDE_WIDTH) as usize + 1,
            pad_left: registers.value(pdp::D_POOLING_PADDING_CFG::PAD_LEFT) as usize,
            pad_right: registers.value(pdp::D_POOLING_PADDING_CFG::PAD_RIGHT) as usize,
        };
        if count > 1 {
            this.input = parts([
                registers.value(pdp::D_PARTIAL_WIDTH_IN::PARTIAL_WIDTH_IN_FIRST),
                registers.value(pdp::D_PARTIAL_WIDTH_IN::PARTIAL_WIDTH_IN_MID),
                registers.value(pdp::D_PARTIAL_WIDTH_IN::PARTIAL_WIDTH_IN_LAST),
            ]);
            this.output = parts([
                registers.value(pdp::D_PARTIAL_WIDTH_OUT::PARTIAL_WIDTH_OUT_FIRST),
                registers.value(pdp::D_PARTIAL_WIDTH_OUT::PARTIAL_WIDTH_OUT_MID),
                registers.value(pdp::D_PARTIAL_WIDTH_OUT::PARTIAL_WIDTH_OUT_LAST),
            ]);
        }
        this
    }

    /// Part `index`, checked.
    fn part(&self, index: usize) -> Result<Part, Stop> {
        let Self { count, input: [first, middle, last], output, kernel, stride, .. } = *self;
        let (is_first, is_last) = (index == 0, index + 1 == count);
        // A later part begins with the columns that its first window shares with the previous part (or after a gap, if the stride
        // is greater than the window).
        let before = |[first, middle, _]: [usize; 3]| if is_first { 0 } else { first + (index - 1) * middle };
        let width = if is_first {
            Some(first)
        } else {
            let own = if is_last { last } else { middle };
            (own + kernel).checked_sub(stride).filter(|&width| width > 0)
        };
        let start = if is_first { Some(0) } else { (before(self.input) + stride).checked_sub(kernel) };
        let (Some(width), Some(start)) = (width, start) else {
            let what = format!(
                "part {index} of {count} begins before the cube or has no columns: partial widths {:?}, kernel \
                 {kernel}, stride {stride}",
                self.input
            );
            return Err(Stop::unsupported(UNIT, what));
        };
        let axis = Axis {
            input: width,
            output: output[if is_first { 0 } else { 1 + usize::from(is_last) }],
            kernel,
            stride,
            pad: if is_first { self.pad_left } else { 0 },
        };
        axis.check("width", if is_last { self.pad_right } else { 0 })?;
        Ok(Part { axis, input: start, output: before(output) })
    }
}

/// The read DMA has separate registers, which must describe the same cube.
fn check_reader(rdma: &Registers, registers: &Registers) -> Result<(), Stop> {
    let split = registers.value(pdp::D_OPERATION_MODE_CFG::SPLIT_NUM);
    let rdma_split = rdma.value(pdp_rdma::D_OPERATION_MODE_CFG::SPLIT_NUM);
    let same = |name, reader: u32, unit: u32| {
        if reader == unit {
            Ok(())
        } else {
            Err(Stop::unsupported(UNIT, format!("{name} is {unit} in PDP and {reader} in its read DMA")))
        }
    };
    same("SPLIT_NUM", rdma_split, split)?;
    same("CUBE_IN_HEIGHT", rdma.get(pdp_rdma::D_DATA_CUBE_IN_HEIGHT), registers.get(pdp::D_DATA_CUBE_IN_HEIGHT))?;
    same("CUBE_IN_CHANNEL", rdma.get(pdp_rdma::D_DATA_CUBE_IN_CHANNEL), registers.get(pdp::D_DATA_CUBE_IN_CHANNEL))?;
    same("INPUT_DATA", rdma.get(pdp_rdma::D_DATA_FORMAT), registers.get(pdp::D_DATA_FORMAT))?;
    if split == 0 {
        return same(
            "CUBE_IN_WIDTH",
            rdma.get(pdp_rdma::D_DATA_CUBE_IN_WIDTH),
            registers.get(pdp::D_DATA_CUBE_IN_WIDTH),
        );
    }
    let width = registers.value(pdp::D_POOLING_KERNEL_CFG::KERNEL_WIDTH);
    let stride = registers.value(pdp::D_POOLING_KERNEL_CFG::KERNEL_STRIDE_WIDTH);
    same("PARTIAL_WIDTH_IN", rdma.get(pdp_rdma::D_PARTIAL_WIDTH_IN), registers.get(pdp::D_PARTIAL_WIDTH_IN))?;
    same("KERNEL_WIDTH", rdma.value(pdp_rdma::D_POOLING_KERNEL_CFG::KERNEL_WIDTH), width)?;
    same("KERNEL_STRIDE_WIDTH", rdma.value(pdp_rdma::D_POOLING_KERNEL_CFG::KERNEL_STRIDE_WIDTH), stride)
}

/// SDP's output as the packed cube that it would be in memory.
fn packed<'s>(setup: &Setup, parts: &Parts, input: Input<'s>) -> Result<Source<'s>, Stop> {
    let (width, height) = (parts.input[0], setup.vertical.input);
    if parts.count > 1 {
        return Err(Stop::unsupported(UNIT, format!("on flying in {} parts", parts.count)));
    }
    let form = match input {
        Input::Samples(stream) => stream.form(),
        Input::Bytes(form, _) => form,
    };
    if form.width != width || form.height != height || setup.atoms.surfaces(form.channels) != setup.surfaces {
        let what = format!(
            "SDP gives {}x{}x{} elements, but {width}x{height} in {} surfaces are expected",
            form.width, form.height, form.channels, setup.surfaces
        );
        return Err(Stop::unsupported(UNIT, what));
    }
    let view = View::packed(setup.surfaces, height, width, setup.atoms.bytes());
    let stream = match input {
        Input::Bytes(form, bytes) if (setup.precision, form.lanes) == (Precision::Int8, setup.atoms.elements()) => {
            return Ok(Source::Packed { bytes: Cow::Borrowed(bytes), view });
        }
        Input::Bytes(..) => return other_precision(setup.precision),
        Input::Samples(stream) => stream,
    };
    let mut bytes = vec![0; view.cube];
    if stream.lanes == setup.atoms.elements() {
        // The samples have the order of the cube.
        store(&stream.samples, 0, setup.precision, &mut bytes)?;
        return Ok(Source::Packed { bytes: bytes.into(), view });
    }
    let available = stream.available();
    let element = setup.atoms.bytes() / setup.atoms.elements();
    for (at, atom) in bytes.chunks_exact_mut(view.atom).enumerate() {
        let [surface, y, x] = view.locate(at);
        for (bytes, channel) in atom.chunks_exact_mut(element).zip(setup.atoms.channels_of(surface, available)) {
            store(&stream.samples, stream.index(0, channel, y, x), setup.precision, bytes)?;
        }
    }
    Ok(Source::Packed { bytes: bytes.into(), view })
}

fn other_precision<T>(precision: Precision) -> Result<T, Stop> {
    Err(Stop::unsupported(UNIT, format!("SDP's output is not {precision:?}, which D_DATA_FORMAT names")))
}

/// Fills `bytes` with the samples from `first` on, which are adjacent.
#[inline]
fn store(samples: &Samples, first: usize, precision: Precision, bytes: &mut [u8]) -> Result<(), Stop> {
    match (samples, precision) {
        (Samples::Int(samples), Precision::Int8) => {
            bytes.iter_mut().zip(&samples[first..]).for_each(|(byte, sample)| *byte = *sample as u8);
        }
        (Samples::Int(samples), Precision::Int16) => {
            for (bytes, sample) in bytes.chunks_exact_mut(2).zip(&samples[first..]) {
                bytes.copy_from_slice(&(*sample as u16).to_le_bytes());
            }
        }
        (Samples::Float(samples), Precision::Fp16) => {
            for (bytes, sample) in bytes.chunks_exact_mut(2).zip(&samples[first..]) {
                bytes.copy_from_slice(&fp32_to_fp16(sample.to_bits()).to_le_bytes());
            }
        }
        (_, precision) => return other_precision(precision),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
