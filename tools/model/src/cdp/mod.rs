// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP: local response normalisation across channels.
//!
//! Each element is multiplied by a factor that the lookup tables give for the sum of the squares of its neighbours: 3,
//! 5, 7 or 9 channels around it. Integers pass a converter before (9 bits for int8, 17 for int16) and after; fp16 is
//! computed in fp17, its squares and their sum in fp32. Squaring and summing (the table's argument is then the element
//! itself) and multiplying can be left out.
//! Where a window reaches outside the cube's channels it sees `DATIN_OFFSET`, which the input converter turns into
//! zero; the lanes past the last channel are computed so too, and written.
//!
//! Source: the register specification (CDP, CDP_RDMA), the hardware manual ("CDP"), and for the arithmetic the C-model
//! (`cmod/cdp`, `cmod/hls/cdp_libs`, `cmod/hls_wrapper/cdp_hls_wrapper.cpp`).

mod fast;
pub mod reference;

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{cdp, cdp_rdma, Block};

use crate::conv::Isa;
use crate::cube::Placed;
use crate::lut::cdp::Lookup;
use crate::lut::{Counters, Tables};
use crate::memory::{Memory, Stop};
use crate::num::fixed::{round_shift_right, saturate, sign_extend};
use crate::registers::Registers;
use crate::stream::Done;

/// The unit's name in faults.
const UNIT: &str = "CDP";
/// The read DMA's name in faults.
const READER: &str = "CDP_RDMA";
/// The widest window's channels on either side of its element.
const REACH: usize = 4;

/// What CDP keeps from one operation to the next.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The lookup tables.
    pub tables: Tables,
    /// What the last lookup was made into.
    memo: fast::Memo,
}

/// `(value - offset) * scale / 2^shift`, rounded and limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Converter {
    offset: i32,
    scale: i16,
    shift: u32,
}

impl Converter {
    #[inline]
    fn scaled(&self, value: i64) -> i64 {
        (value - i64::from(self.offset)) * i64::from(self.scale)
    }

    /// The converted value in `BITS` bits.
    #[inline]
    fn apply<const BITS: u32>(&self, value: i32) -> i32 {
        saturate::<BITS>(round_shift_right(self.scaled(value.into()), self.shift)) as i32
    }

    /// As [`Self::apply`], and whether the hardware counts the value as saturated: what it cut off is more than one
    /// off the value without rounding.
    #[inline]
    fn apply_counted<const BITS: u32>(&self, value: i64) -> (i32, bool) {
        let scaled = self.scaled(value);
        let result = saturate::<BITS>(round_shift_right(scaled, self.shift));
        ((result as i32), ((scaled >> self.shift) - result).abs() > 1)
    }
}

/// An operation.
struct Operation {
    precision: Precision,
    source: Placed,
    destination: Placed,
    width: usize,
    height: usize,
    channels: usize,
    surfaces: usize,
    /// Elements of an atom.
    lanes: usize,
    /// Elements of all surfaces of a position, those past the last channel included.
    elements: usize,
    lookup: Lookup,
    /// Channels of the window on either side of its element; `None`: the table's argument is the element.
    reach: Option<usize>,
    /// The result is the factor alone.
    skip_multiply: bool,
    flush_nan: bool,
    input: Converter,
    output: Converter,
}

/// What an operation counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    lut: Counters,
    saturated: u32,
    nans: u32,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.lut += other.lut;
        self.saturated = self.saturated.wrapping_add(other.saturated);
        self.nans = self.nans.wrapping_add(other.nans);
    }
}

impl Operation {
    fn new(config: &Config, rdma: &Registers, registers: &Registers) -> Result<Self, Stop> {
        let get = |register| registers.get(register);
        let size = |register| rdma.get(register) as usize + 1;
        let precision = registers.field(cdp::D_DATA_FORMAT, cdp::d_data_format::INPUT_DATA_TYPE)?;
        if !config.has_feature_type(precision) {
            return Err(Stop::unsupported(UNIT, format!("{} has no {precision:?}", config.name)));
        }
        let read = rdma.field(cdp_rdma::D_DATA_FORMAT, cdp_rdma::d_data_format::INPUT_DATA)?;
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
                rdma.field(cdp_rdma::D_SRC_DMA_CFG, cdp_rdma::d_src_dma_cfg::SRC_RAM_TYPE)?.into(),
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
                registers.field(cdp::D_DST_DMA_CFG, cdp::d_dst_dma_cfg::DST_RAM_TYPE)?.into(),
                registers.address(cdp::D_DST_BASE_ADDR_HIGH, cdp::D_DST_BASE_ADDR_LOW),
            ),
            [get(cdp::D_DST_LINE_STRIDE), get(cdp::D_DST_SURFACE_STRIDE)],
        )?;
        let bypass = get(cdp::D_FUNC_BYPASS);
        let window = registers.field(cdp::D_LRN_CFG, cdp::d_lrn_cfg::NORMALZ_LEN)?;
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
            reach: (!cdp::d_func_bypass::SQSUM_BYPASS.is_set(bypass)).then_some(window as usize + 1),
            skip_multiply: cdp::d_func_bypass::MUL_BYPASS.is_set(bypass),
            flush_nan: cdp::d_nan_flush_to_zero::NAN_TO_ZERO.is_set(get(cdp::D_NAN_FLUSH_TO_ZERO)),
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

/// Normalises: one operation of CDP with the registers of its group and of its read DMA's.
pub fn run(
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    run_with(Isa::best(), state, config, rdma, registers, memory)
}

/// As [`run`], with an instruction set that this machine has.
fn run_with(
    isa: Isa,
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    let operation = Operation::new(config, rdma, registers)?;
    let counts = fast::normalise(isa, &operation, state, memory)?;
    Ok(done(counts))
}

fn done(counts: Counts) -> Done<()> {
    let status = [
        // The input counters exist, but the hardware project's model clears them after the input has passed.
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

#[cfg(test)]
mod tests;
