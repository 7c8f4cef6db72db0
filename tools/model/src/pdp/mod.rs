// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP: pooling.
//!
//! A window of up to 8x8 elements moves over each channel and gives its largest, smallest or average element. Input
//! comes from memory, or directly from SDP ("on flying"). A cube wider than the unit's line buffer is split by columns:
//! each part is read again where its windows overlap the part before it.
//!
//! Padding does not take part in a maximum or minimum. In an average, a row of the window with n padded columns adds
//! `PAD_VALUE_nX`, and a window with n padded rows adds `PAD_VALUE_nX` times the kernel's width; the sum is multiplied
//! by `RECIP_KERNEL_WIDTH`, rounded, and then by `RECIP_KERNEL_HEIGHT`. Rows are summed from the left before they are
//! added from the top: in fp16 the order shows.
//! All elements of an atom are computed, also those past the cube's last channel.
//!
//! Source: the register specification (PDP, PDP_RDMA), the hardware manual ("PDP"), and for the arithmetic the C-model
//! (`cmod/pdp`, `cmod/hls_wrapper/pdp_hls_wrapper.cpp`).

mod fast;
pub mod reference;

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::{Atoms, View};
use nvdla_uapi::reg::values::{PdpFlyingMode, PoolingMethod, Precision};
use nvdla_uapi::reg::{pdp, pdp_rdma, Block};

use crate::conv::Isa;
use crate::cube::Placed;
use crate::memory::{Memory, Stop};
use crate::num::convert::fp32_to_fp16;
use crate::registers::Registers;
use crate::stream::{Done, Samples, Stream};

/// The unit's name in faults.
const UNIT: &str = "PDP";
/// The read DMA's name in faults.
const READER: &str = "PDP_RDMA";
/// The largest kernel width and height.
const KERNEL_MAX: usize = 8;

/// One direction of the window's movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    /// Elements of the input.
    input: usize,
    /// Elements of the output.
    output: usize,
    /// Elements of the window.
    kernel: usize,
    /// Elements from one window to the next.
    stride: usize,
    /// Padding before the first element.
    pad: usize,
}

impl Axis {
    /// The input elements of window `index`: the first, and the one after the last.
    fn window(&self, index: usize) -> (usize, usize) {
        let start = index * self.stride;
        (start.saturating_sub(self.pad), (start + self.kernel - self.pad).min(self.input))
    }

    /// Whether every window has an element of the input and lies inside the padded input.
    fn check(&self, name: &str, pad_after: usize) -> Result<(), Stop> {
        let Self { input, output, kernel, stride, pad } = *self;
        let padded = pad + input + pad_after;
        let windows = padded.checked_sub(kernel).map_or(0, |room| room / stride + 1);
        if kernel > KERNEL_MAX {
            return Err(Stop::unsupported(UNIT, format!("kernel {name} {kernel}, the largest is {KERNEL_MAX}")));
        }
        if windows != output {
            let what = format!(
                "{name}: {input} elements with padding {pad} and {pad_after} give {windows} windows of {kernel} at \
                 stride {stride}, not {output}"
            );
            return Err(Stop::unsupported(UNIT, what));
        }
        if pad >= kernel || (output - 1) * stride >= pad + input {
            let what = format!("{name}: padding {pad} and {pad_after} leave a window of {kernel} without an element");
            return Err(Stop::unsupported(UNIT, what));
        }
        Ok(())
    }
}

/// A part of the cube by columns; the whole cube when it is not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    axis: Axis,
    /// The part's first input column.
    input: usize,
    /// The part's first output column.
    output: usize,
}

/// What does not differ between parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setup {
    isa: Isa,
    precision: Precision,
    method: PoolingMethod,
    atoms: Atoms,
    surfaces: usize,
    vertical: Axis,
    /// `PAD_VALUE_1X` to `PAD_VALUE_7X`.
    pad_values: [u32; KERNEL_MAX - 1],
    recip_width: u32,
    recip_height: u32,
    /// NaN inputs are taken as zero.
    flush_nan: bool,
}

/// Where input lines come from.
enum Source {
    Memory(Placed),
    /// SDP's output as a packed cube.
    Packed {
        bytes: Vec<u8>,
        view: View,
    },
}

impl Source {
    /// `width` atoms of line `y` from column `x` on.
    fn line<'s>(&'s self, memory: &'s dyn Memory, [surface, y, x, width]: [usize; 4]) -> Result<&'s [u8], Stop> {
        match self {
            Self::Memory(cube) => Ok(cube.read(memory, surface, [y, x], width)?),
            Self::Packed { bytes, view } => Ok(&bytes[view.atoms(0, surface, [y, x], width)]),
        }
    }
}

/// Pools: one operation of PDP with the registers of its group and of its read DMA's.
///
/// `input` is SDP's output when the operation is on flying.
pub fn run(
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    input: Option<&Stream>,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    run_with(Isa::best(), config, rdma, registers, input, memory)
}

/// [`run`] with one of the instruction sets that the processor has.
fn run_with(
    isa: Isa,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    input: Option<&Stream>,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    perform(isa, config, rdma, registers, input, memory, fast::pool)
}

/// Writes lines of the output: surface, first line, bytes.
type Emit<'e> = dyn FnMut(&mut dyn Memory, usize, usize, &[u8]) -> Result<(), Stop> + 'e;
/// Pools one part; the answer is the number of NaNs.
type Pool = fn(&Setup, &Part, &Source, &mut dyn Memory, &mut Emit) -> Result<usize, Stop>;

fn perform(
    isa: Isa,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    input: Option<&Stream>,
    memory: &mut dyn Memory,
    pool: Pool,
) -> Result<Done<()>, Stop> {
    let setup = Setup::new(isa, config, registers)?;
    let parts = Parts::new(registers);
    let channels = registers.get(pdp::D_DATA_CUBE_IN_CHANNEL) as usize + 1;
    let source = match input {
        None => {
            check_reader(rdma, registers)?;
            let port = rdma.field(pdp_rdma::D_SRC_RAM_CFG, pdp_rdma::d_src_ram_cfg::SRC_RAM_TYPE)?.into();
            let address = rdma.address(pdp_rdma::D_SRC_BASE_ADDR_HIGH, pdp_rdma::D_SRC_BASE_ADDR_LOW);
            let strides = [rdma.get(pdp_rdma::D_SRC_LINE_STRIDE), rdma.get(pdp_rdma::D_SRC_SURFACE_STRIDE)];
            let last = parts.part(parts.count - 1)?;
            let size = [last.input + last.axis.input, setup.vertical.input, channels];
            Source::Memory(Placed::new(READER, config, setup.precision, size, (port, address), strides)?)
        }
        Some(stream) => packed(&setup, &parts, stream)?,
    };
    let port = registers.field(pdp::D_DST_RAM_CFG, pdp::d_dst_ram_cfg::DST_RAM_TYPE)?.into();
    let address = registers.address(pdp::D_DST_BASE_ADDR_HIGH, pdp::D_DST_BASE_ADDR_LOW);
    let strides = [registers.get(pdp::D_DST_LINE_STRIDE), registers.get(pdp::D_DST_SURFACE_STRIDE)];
    let last = parts.part(parts.count - 1)?;
    let size = [last.output + last.axis.output, setup.vertical.output, channels];
    let destination = Placed::new(UNIT, config, setup.precision, size, (port, address), strides)?;
    let mut nans = 0;
    for part in 0..parts.count {
        let part = parts.part(part)?;
        let line = setup.atoms.span(part.axis.output);
        nans += pool(&setup, &part, &source, memory, &mut |memory, surface, y, lines| {
            Ok(destination.write_lines(memory, surface, [y, part.output], line, lines)?)
        })?;
    }
    // The input counters exist, but the hardware project's model clears them after the input has passed.
    let status = [
        (Block::Pdp, pdp::D_INF_INPUT_NUM, 0),
        (Block::Pdp, pdp::D_NAN_INPUT_NUM, 0),
        (Block::Pdp, pdp::D_NAN_OUTPUT_NUM, nans as u32),
    ];
    Ok(Done { output: (), status: status.into() })
}

/// How many fp16 of a line are NaNs.
fn nans(line: &[u8]) -> usize {
    let is_nan = |half: &&[u8]| u16::from_le_bytes([half[0], half[1]]) & 0x7fff > 0x7c00;
    line.chunks_exact(2).filter(is_nan).count()
}

impl Setup {
    fn new(isa: Isa, config: &Config, registers: &Registers) -> Result<Self, Stop> {
        use pdp::{d_operation_mode_cfg as mode, d_pooling_kernel_cfg as kernel, d_pooling_padding_cfg as pad};
        let get = |register| registers.get(register);
        let size = |register| registers.get(register) as usize + 1;
        let precision = registers.field(pdp::D_DATA_FORMAT, pdp::d_data_format::INPUT_DATA)?;
        if !config.has_feature_type(precision) {
            return Err(Stop::unsupported(UNIT, format!("{} has no {precision:?}", config.name)));
        }
        let atoms = Atoms::of(config, precision);
        let (kernel_cfg, pad_cfg) = (get(pdp::D_POOLING_KERNEL_CFG), get(pdp::D_POOLING_PADDING_CFG));
        let vertical = Axis {
            input: size(pdp::D_DATA_CUBE_IN_HEIGHT),
            output: size(pdp::D_DATA_CUBE_OUT_HEIGHT),
            kernel: kernel::KERNEL_HEIGHT.value(kernel_cfg) as usize + 1,
            stride: kernel::KERNEL_STRIDE_HEIGHT.value(kernel_cfg) as usize + 1,
            pad: pad::PAD_TOP.value(pad_cfg) as usize,
        };
        vertical.check("height", pad::PAD_BOTTOM.value(pad_cfg) as usize)?;
        let off_flying = registers.field(pdp::D_OPERATION_MODE_CFG, mode::FLYING_MODE)? == PdpFlyingMode::OffFlying;
        Ok(Self {
            isa,
            precision,
            method: registers.field(pdp::D_OPERATION_MODE_CFG, mode::POOLING_METHOD)?,
            atoms,
            surfaces: atoms.surfaces(size(pdp::D_DATA_CUBE_IN_CHANNEL)),
            vertical,
            pad_values: [
                get(pdp::D_POOLING_PADDING_VALUE_1_CFG),
                get(pdp::D_POOLING_PADDING_VALUE_2_CFG),
                get(pdp::D_POOLING_PADDING_VALUE_3_CFG),
                get(pdp::D_POOLING_PADDING_VALUE_4_CFG),
                get(pdp::D_POOLING_PADDING_VALUE_5_CFG),
                get(pdp::D_POOLING_PADDING_VALUE_6_CFG),
                get(pdp::D_POOLING_PADDING_VALUE_7_CFG),
            ],
            recip_width: get(pdp::D_RECIP_KERNEL_WIDTH),
            recip_height: get(pdp::D_RECIP_KERNEL_HEIGHT),
            // SDP has done it already where the input comes from there.
            flush_nan: off_flying && pdp::d_nan_flush_to_zero::NAN_TO_ZERO.is_set(get(pdp::D_NAN_FLUSH_TO_ZERO)),
        })
    }

    /// Elements of an atom.
    fn lanes(&self) -> usize {
        self.atoms.elements()
    }

    /// What `count` padded columns add to a row of an integer average: the register's value, its sign extended.
    ///
    /// Where the sign lies depends on how much `count` elements can add up to.
    fn pad_int(&self, count: usize) -> i32 {
        if count == 0 {
            return 0;
        }
        let raw = self.pad_values[count - 1];
        let growth = [0, 1, 2, 2, 3, 3, 3][count - 1];
        let sign = growth + if self.precision == Precision::Int8 { 7 } else { 15 };
        let extended = if (raw >> sign) & 1 == 0 { raw } else { raw | (!0 << sign) };
        extended as i32
    }

    /// What `count` padded columns add to a row of an fp16 average: the register's value as fp17.
    fn pad_fp17(&self, count: usize) -> u32 {
        if count == 0 {
            0
        } else {
            self.pad_values[count - 1] & 0x1_ffff
        }
    }
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
        use pdp::{
            d_operation_mode_cfg, d_partial_width_in as input, d_partial_width_out as output,
            d_pooling_kernel_cfg as kernel, d_pooling_padding_cfg as pad,
        };
        let count = d_operation_mode_cfg::SPLIT_NUM.value(registers.get(pdp::D_OPERATION_MODE_CFG)) as usize + 1;
        let (widths_in, widths_out) = (registers.get(pdp::D_PARTIAL_WIDTH_IN), registers.get(pdp::D_PARTIAL_WIDTH_OUT));
        let kernel_cfg = registers.get(pdp::D_POOLING_KERNEL_CFG);
        let pad_cfg = registers.get(pdp::D_POOLING_PADDING_CFG);
        let one = |register| [registers.get(register) as usize + 1; 3];
        let parts = |values: [u32; 3]| values.map(|value| value as usize + 1);
        let mut this = Self {
            count,
            input: one(pdp::D_DATA_CUBE_IN_WIDTH),
            output: one(pdp::D_DATA_CUBE_OUT_WIDTH),
            kernel: kernel::KERNEL_WIDTH.value(kernel_cfg) as usize + 1,
            stride: kernel::KERNEL_STRIDE_WIDTH.value(kernel_cfg) as usize + 1,
            pad_left: pad::PAD_LEFT.value(pad_cfg) as usize,
            pad_right: pad::PAD_RIGHT.value(pad_cfg) as usize,
        };
        if count > 1 {
            this.input = parts([
                input::PARTIAL_WIDTH_IN_FIRST.value(widths_in),
                input::PARTIAL_WIDTH_IN_MID.value(widths_in),
                input::PARTIAL_WIDTH_IN_LAST.value(widths_in),
            ]);
            this.output = parts([
                output::PARTIAL_WIDTH_OUT_FIRST.value(widths_out),
                output::PARTIAL_WIDTH_OUT_MID.value(widths_out),
                output::PARTIAL_WIDTH_OUT_LAST.value(widths_out),
            ]);
        }
        this
    }

    /// Part `index`, checked.
    fn part(&self, index: usize) -> Result<Part, Stop> {
        let Self { count, input: [first, middle, last], output, kernel, stride, .. } = *self;
        let (is_first, is_last) = (index == 0, index + 1 == count);
        // A later part begins with the columns that its first window shares with the part before it (or after a gap,
        // where the stride is wider than the window).
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

/// The read DMA has registers of its own, which must describe the same cube.
fn check_reader(rdma: &Registers, registers: &Registers) -> Result<(), Stop> {
    use pdp_rdma::{d_operation_mode_cfg, d_pooling_kernel_cfg as kernel};
    let kernel_cfg = registers.get(pdp::D_POOLING_KERNEL_CFG);
    let split = pdp::d_operation_mode_cfg::SPLIT_NUM.value(registers.get(pdp::D_OPERATION_MODE_CFG));
    let rdma_split = d_operation_mode_cfg::SPLIT_NUM.value(rdma.get(pdp_rdma::D_OPERATION_MODE_CFG));
    let rdma_kernel = rdma.get(pdp_rdma::D_POOLING_KERNEL_CFG);
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
    let width = pdp::d_pooling_kernel_cfg::KERNEL_WIDTH.value(kernel_cfg);
    let stride = pdp::d_pooling_kernel_cfg::KERNEL_STRIDE_WIDTH.value(kernel_cfg);
    same("PARTIAL_WIDTH_IN", rdma.get(pdp_rdma::D_PARTIAL_WIDTH_IN), registers.get(pdp::D_PARTIAL_WIDTH_IN))?;
    same("KERNEL_WIDTH", kernel::KERNEL_WIDTH.value(rdma_kernel), width)?;
    same("KERNEL_STRIDE_WIDTH", kernel::KERNEL_STRIDE_WIDTH.value(rdma_kernel), stride)
}

/// SDP's output as the packed cube that it would be in memory.
fn packed(setup: &Setup, parts: &Parts, stream: &Stream) -> Result<Source, Stop> {
    let (width, height) = (parts.input[0], setup.vertical.input);
    if parts.count > 1 {
        return Err(Stop::unsupported(UNIT, format!("on flying in {} parts", parts.count)));
    }
    if stream.width != width || stream.height != height || setup.atoms.surfaces(stream.channels) != setup.surfaces {
        let what = format!(
            "SDP gives {}x{}x{} elements, {width}x{height} in {} surfaces are wanted",
            stream.width, stream.height, stream.channels, setup.surfaces
        );
        return Err(Stop::unsupported(UNIT, what));
    }
    let view = View::packed(setup.surfaces, height, width, setup.atoms.bytes());
    let mut bytes = vec![0; view.cube];
    let available = stream.available();
    for (at, atom) in bytes.chunks_exact_mut(view.atom).enumerate() {
        let [surface, y, x] = view.locate(at);
        let channels = setup.atoms.channels_of(surface, available);
        match (&stream.samples, setup.precision) {
            (Samples::Int(samples), Precision::Int8) => {
                for (byte, channel) in atom.iter_mut().zip(channels) {
                    *byte = samples[stream.index(0, channel, y, x)] as u8;
                }
            }
            (Samples::Int(samples), Precision::Int16) => {
                for (bytes, channel) in atom.chunks_exact_mut(2).zip(channels) {
                    bytes.copy_from_slice(&(samples[stream.index(0, channel, y, x)] as u16).to_le_bytes());
                }
            }
            (Samples::Float(samples), Precision::Fp16) => {
                for (bytes, channel) in atom.chunks_exact_mut(2).zip(channels) {
                    let sample = samples[stream.index(0, channel, y, x)].to_bits();
                    bytes.copy_from_slice(&fp32_to_fp16(sample).to_le_bytes());
                }
            }
            (_, precision) => {
                let what = format!("SDP's output is not {precision:?}, which D_DATA_FORMAT names");
                return Err(Stop::unsupported(UNIT, what));
            }
        }
    }
    Ok(Source::Packed { bytes, view })
}

#[cfg(test)]
mod tests;
