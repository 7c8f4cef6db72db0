// SPDX-License-Identifier: MIT OR Apache-2.0

//! The registers of CDP and its read DMA as one checked value, and the operation's counters.

use crate::cube::Placed;
use crate::lut::cdp::Lookup;
use crate::lut::Counters;
use crate::memory::Stop;
use crate::num::fixed::{round_shift_right, saturate, sign_extend};
use crate::registers::Registers;
use crate::stream::Done;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{cdp, cdp_rdma, Block};

/// The unit's name in faults.
pub(super) const UNIT: &str = "CDP";

/// The read DMA's name in faults.
pub(super) const READER: &str = "CDP_RDMA";

/// Channels on either side of the element in the widest window.
pub(super) const REACH: usize = 4;

/// `(value - offset) * scale / 2^shift`, rounded and limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Converter {
    pub(super) offset: i32,
    pub(super) scale: i16,
    pub(super) shift: u32,
}

impl Converter {
    #[inline]
    pub(super) fn scaled(&self, value: i64) -> i64 {
        (value - i64::from(self.offset)) * i64::from(self.scale)
    }

    /// The converted value in `BITS` bits.
    #[inline]
    pub(super) fn apply<const BITS: u32>(&self, value: i32) -> i32 {
        saturate::<BITS>(round_shift_right(self.scaled(value.into()), self.shift)) as i32
    }

    /// Like [`Self::apply`]. Also returns whether the hardware counts the value as saturated: the limited result
    /// differs from the value without rounding by more than one.
    #[inline]
    pub(super) fn apply_counted<const BITS: u32>(&self, value: i64) -> (i32, bool) {
        let scaled = self.scaled(value);
        let result = saturate::<BITS>(round_shift_right(scaled, self.shift));
        ((result as i32), ((scaled >> self.shift) - result).abs() > 1)
    }
}

/// A CDP operation.
pub(super) struct Operation {
    pub(super) precision: Precision,
    pub(super) source: Placed,
    pub(super) destination: Placed,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) channels: usize,
    pub(super) surfaces: usize,
    /// Elements per atom.
    pub(super) lanes: usize,
    /// Elements per position in all surfaces, including padding lanes after the last channel.
    pub(super) elements: usize,
    pub(super) lookup: Lookup,
    /// Channels of the window on either side of its element. `None` if the table's argument is the element.
    pub(super) reach: Option<usize>,
    /// The result is the factor alone.
    pub(super) skip_multiply: bool,
    pub(super) flush_nan: bool,
    pub(super) input: Converter,
    pub(super) output: Converter,
}

/// An operation's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) lut: Counters,
    pub(super) saturated: u32,
    pub(super) nans: u32,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.lut += other.lut;
        self.saturated = self.saturated.wrapping_add(other.saturated);
        self.nans = self.nans.wrapping_add(other.nans);
    }
}

impl Operation {
    pub(super) fn new(config: &Config, rdma: &Registers, registers: &Registers) -> Result<Self, Stop> {
        let get = |register| registers.get(register);
        let size = |register| rdma.get(register) as usize + 1;
        let precision = registers.field(cdp::D_DATA_FORMAT::INPUT_DATA_TYPE)?;
        if !config.has_feature_type(precision) {
            return Err(Stop::unsupported(UNIT, format!("{} has no {precision:?}", config.name)));
        }
        let read = rdma.field(cdp_rdma::D_DATA_FORMAT::INPUT_DATA)?;
        if read != precision {
            return Err(Stop::unsupported(UNIT, format!("processes {precision:?} but its read DMA reads {read:?}")));
        }
        let (width, height) = (size(cdp_rdma::D_DATA_CUBE_WIDTH), size(cdp_rdma::D_DATA_CUBE_HEIGHT));
        let channels = size(cdp_rdma::D_DATA_CUBE_CHANNEL);
        let source = Placed::new(
            READER,
            config,
            precision,
            [width, height, channels],
            (
                rdma.field(cdp_rdma::D_SRC_DMA_CFG::SRC_RAM_TYPE)?.into(),
                rdma.address(cdp_rdma::D_SRC_BASE_ADDR_HIGH, cdp_rdma::D_SRC_BASE_ADDR_LOW),
            ),
            [rdma.get(cdp_rdma::D_SRC_LINE_STRIDE), rdma.get(cdp_rdma::D_SRC_SURFACE_STRIDE)],
        )?;
        let destination = Placed::new(
            UNIT,
            config,
            precision,
            [width, height, channels],
            (
                registers.field(cdp::D_DST_DMA_CFG::DST_RAM_TYPE)?.into(),
                registers.address(cdp::D_DST_BASE_ADDR_HIGH, cdp::D_DST_BASE_ADDR_LOW),
            ),
            [get(cdp::D_DST_LINE_STRIDE), get(cdp::D_DST_SURFACE_STRIDE)],
        )?;
        let window = registers.field(cdp::D_LRN_CFG::NORMALZ_LEN)?;
        let (offset_in, offset_out) = match precision {
            Precision::Int8 => (8, 25),
            Precision::Int16 | Precision::Fp16 => (16, 32),
        };
        Ok(Self {
            precision,
            source,
            destination,
            width,
            height,
            channels,
            surfaces: source.cube.surfaces() as usize,
            lanes: source.cube.atoms().elements(),
            elements: source.cube.atoms().filled(channels),
            lookup: Lookup::new(registers, precision)?,
            reach: (!registers.is_set(cdp::D_FUNC_BYPASS::SQSUM_BYPASS)).then_some(window as usize + 1),
            skip_multiply: registers.is_set(cdp::D_FUNC_BYPASS::MUL_BYPASS),
            flush_nan: registers.is_set(cdp::D_NAN_FLUSH_TO_ZERO::NAN_TO_ZERO),
            input: Converter {
                offset: sign_extend(get(cdp::D_DATIN_OFFSET), offset_in),
                scale: get(cdp::D_DATIN_SCALE) as i16,
                shift: get(cdp::D_DATIN_SHIFTER),
            },
            output: Converter {
                offset: sign_extend(get(cdp::D_DATOUT_OFFSET), offset_out),
                scale: get(cdp::D_DATOUT_SCALE) as i16,
                shift: get(cdp::D_DATOUT_SHIFTER),
            },
        })
    }
}

pub(super) fn done(counts: Counts) -> Done<()> {
    let status = [
        // The C-model clears the input counters after it has read the input.
        (cdp::D_NAN_INPUT_NUM, 0),
        (cdp::D_INF_INPUT_NUM, 0),
        (cdp::D_NAN_OUTPUT_NUM, counts.nans),
        (cdp::D_OUT_SATURATION, counts.saturated),
        (cdp::D_PERF_LUT_UFLOW, counts.lut.under),
        (cdp::D_PERF_LUT_OFLOW, counts.lut.over),
        (cdp::D_PERF_LUT_HYBRID, counts.lut.hybrid),
        (cdp::D_PERF_LUT_LE_HIT, counts.lut.le_hit),
        (cdp::D_PERF_LUT_LO_HIT, counts.lut.lo_hit),
    ];
    Done { output: (), status: status.map(|(register, value)| (Block::Cdp, register, value)).into() }
}
