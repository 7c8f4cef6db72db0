// SPDX-License-Identifier: MIT OR Apache-2.0

//! The registers of PDP and its read DMA as checked values, with the memory that every implementation reads and writes.

use std::borrow::Cow;

use crate::cube::Placed;
use crate::memory::{Memory, Stop};
use crate::registers::Registers;
use nvdla_uapi::config::Config;
use nvdla_uapi::isa::Isa;
use nvdla_uapi::layout::feature::{Atoms, View};
use nvdla_uapi::reg::pdp;
use nvdla_uapi::reg::values::{PdpFlyingMode, PoolingMethod, Precision};

/// The largest kernel width and height.
pub(super) const KERNEL_MAX: usize = 8;

/// One direction of the window's movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    /// Elements of the input.
    pub(super) input: usize,
    /// Elements of the output.
    pub(super) output: usize,
    /// Elements of the window.
    pub(super) kernel: usize,
    /// Elements from one window to the next.
    pub(super) stride: usize,
    /// Padding before the first element.
    pub(super) pad: usize,
}

impl Axis {
    /// The input elements of window `index`: the first, and the one after the last.
    pub(super) fn window(&self, index: usize) -> (usize, usize) {
        let start = index * self.stride;
        (start.saturating_sub(self.pad), (start + self.kernel - self.pad).min(self.input))
    }

    /// Whether every window has an element of the input and lies inside the padded input.
    pub(super) fn check(&self, name: &str, pad_after: usize) -> Result<(), Stop> {
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
pub(super) struct Part {
    pub(super) axis: Axis,
    /// The part's first input column.
    pub(super) input: usize,
    /// The part's first output column.
    pub(super) output: usize,
}

/// The properties that all parts of an operation share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) isa: Isa,
    pub(super) precision: Precision,
    pub(super) method: PoolingMethod,
    pub(super) atoms: Atoms,
    pub(super) surfaces: usize,
    pub(super) vertical: Axis,
    /// `PAD_VALUE_1X` to `PAD_VALUE_7X`.
    pub(super) pad_values: [u32; KERNEL_MAX - 1],
    pub(super) recip_width: u32,
    pub(super) recip_height: u32,
    /// Whether NaN inputs are treated as zero.
    pub(super) flush_nan: bool,
}

/// The source of input lines.
pub(super) enum Source<'s> {
    Memory(Placed),
    /// SDP's output as a packed cube.
    Packed {
        bytes: Cow<'s, [u8]>,
        view: View,
    },
}

impl Source<'_> {
    /// `width` atoms of line `y` from column `x` on.
    pub(super) fn line<'s>(
        &'s self,
        memory: &'s dyn Memory,
        [surface, y, x, width]: [usize; 4],
    ) -> Result<&'s [u8], Stop> {
        match self {
            Self::Memory(cube) => Ok(cube.read(memory, surface, [y, x], width)?),
            Self::Packed { bytes, view } => Ok(&bytes[view.atoms(0, surface, [y, x], width)]),
        }
    }
}

/// Writes lines of the output: surface, first line, bytes.
pub(super) type Emit<'e> = dyn FnMut(&mut dyn Memory, usize, usize, &[u8]) -> Result<(), Stop> + 'e;

/// The number of NaNs among the fp16 values of a line.
pub(super) fn nans(line: &[u8]) -> usize {
    let is_nan = |half: &&[u8]| u16::from_le_bytes([half[0], half[1]]) & 0x7fff > 0x7c00;
    line.chunks_exact(2).filter(is_nan).count()
}

impl Setup {
    pub(super) fn new(isa: Isa, config: &Config, registers: &Registers) -> Result<Self, Stop> {
        let get = |register| registers.get(register);
        let size = |register| registers.get(register) as usize + 1;
        let precision = registers.field(pdp::D_DATA_FORMAT::INPUT_DATA)?;
        if !config.has_feature_type(precision) {
            return Err(Stop::unsupported(UNIT, format!("{} has no {precision:?}", config.name)));
        }
        let atoms = Atoms::of(config, precision);
        let vertical = Axis {
            input: size(pdp::D_DATA_CUBE_IN_HEIGHT),
            output: size(pdp::D_DATA_CUBE_OUT_HEIGHT),
            kernel: registers.value(pdp::D_POOLING_KERNEL_CFG::KERNEL_HEIGHT) as usize + 1,
            stride: registers.value(pdp::D_POOLING_KERNEL_CFG::KERNEL_STRIDE_HEIGHT) as usize + 1,
            pad: registers.value(pdp::D_POOLING_PADDING_CFG::PAD_TOP) as usize,
        };
        vertical.check("height", registers.value(pdp::D_POOLING_PADDING_CFG::PAD_BOTTOM) as usize)?;
        let off_flying = registers.field(pdp::D_OPERATION_MODE_CFG::FLYING_MODE)? == PdpFlyingMode::OffFlying;
        Ok(Self {
            isa,
            precision,
            method: registers.field(pdp::D_OPERATION_MODE_CFG::POOLING_METHOD)?,
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
            // If the input comes from SDP, SDP has already done this.
            flush_nan: off_flying && registers.is_set(pdp::D_NAN_FLUSH_TO_ZERO::NAN_TO_ZERO),
        })
    }

    /// Elements of an atom.
    pub(super) fn lanes(&self) -> usize {
        self.atoms.elements()
    }

    /// The value that `count` padded columns add to a row of an integer average: the register's value, sign-extended.
    ///
    /// The position of the sign bit depends on the largest sum of `count` elements.
    pub(super) fn pad_int(&self, count: usize) -> i32 {
        if count == 0 {
            return 0;
        }
        let raw = self.pad_values[count - 1];
        let growth = [0, 1, 2, 2, 3, 3, 3][count - 1];
        let sign = growth + if self.precision == Precision::Int8 { 7 } else { 15 };
        let extended = if (raw >> sign) & 1 == 0 { raw } else { raw | (!0 << sign) };
        extended as i32
    }

    /// The value that `count` padded columns add to a row of an fp16 average: the register's value as fp17.
    pub(super) fn pad_fp17(&self, count: usize) -> u32 {
        if count == 0 {
            0
        } else {
            self.pad_values[count - 1] & 0x1_ffff
        }
    }
}

/// The unit's name in faults.
pub(super) const UNIT: &str = "PDP";
