// SPDX-License-Identifier: MIT OR Apache-2.0

//! The registers of Rubik as one checked value.

use crate::cube::{check_overlap, Placed};
use crate::memory::{read, write, Fault, Memory, Port, Stop};
use crate::registers::Registers;
use crate::stream::Done;
use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::{Atoms, Cells};
use nvdla_uapi::layout::Nest;
use nvdla_uapi::reg::values::{Precision, RubikMode};
use nvdla_uapi::reg::{rbk, Block};

/// The unit's name in faults.
pub(super) const UNIT: &str = "Rubik";

/// An operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Contract(Contract),
    /// A cube into planes.
    Split(Placed, Planes, Extent),
    /// Planes into a cube.
    Merge(Planes, Placed, Extent),
}

/// Elements of a cube that is split or merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) channels: usize,
    /// Bytes of an element.
    pub(super) bytes: usize,
    pub(super) atoms: Atoms,
}

impl Extent {
    /// Bytes of a plane's line.
    pub(super) fn line(&self) -> usize {
        self.atoms.planar_line(self.width)
    }
}

/// One plane per channel in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes {
    pub(super) port: Port,
    pub(super) address: u64,
    /// Planes of lines.
    pub(super) lines: Nest<2>,
}

impl Planes {
    /// Planes at these planar and line strides. Refuses planes that overlap.
    pub(super) fn new(extent: &Extent, (port, address): (Port, u64), strides: [u32; 2]) -> Result<Self, Stop> {
        let counts = [extent.channels, extent.height].map(|count| count as u64);
        let lines = Nest::as_programmed(extent.line() as u64, counts, strides.map(u64::from))
            .map_err(|error| Stop::unsupported(UNIT, error.to_string()))?;
        check_overlap(UNIT, lines.volume(), lines.span())?;
        Ok(Self { port, address, lines })
    }

    pub(super) fn at(&self, channel: usize, y: usize) -> u64 {
        self.address.wrapping_add(self.lines.offset([channel as u64, y as u64]))
    }

    pub(super) fn read<'m>(
        &self,
        memory: &'m dyn Memory,
        channel: usize,
        y: usize,
        length: usize,
    ) -> Result<&'m [u8], Fault> {
        read(memory, UNIT, self.port, self.at(channel, y), length)
    }

    pub(super) fn write(&self, memory: &mut dyn Memory, channel: usize, y: usize, line: &[u8]) -> Result<(), Fault> {
        write(memory, UNIT, self.port, self.at(channel, y), line.len())?.copy_from_slice(line);
        Ok(())
    }
}

/// A contraction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contract {
    /// All input cubes as one, their surfaces one after another.
    pub(super) input: Placed,
    /// Atoms of an input line.
    pub(super) width: usize,
    /// Lines of the input.
    pub(super) height: usize,
    /// Surfaces of the output.
    pub(super) surfaces: usize,
    /// Input cubes along x and y.
    pub(super) stride: [usize; 2],
    pub(super) port: Port,
    pub(super) address: u64,
    /// Output lines. The levels: from surface to surface; from the lines of one input line to the lines of the next; among the
    /// lines that one input line becomes.
    pub(super) lines: Nest<3>,
}

impl Contract {
    /// Surface of the input that becomes surface `surface` of the output at offset `(x, y)` inside each cell.
    pub(super) fn input_surface(&self, surface: usize, [x, y]: [usize; 2]) -> usize {
        Cells { stride_x: self.stride[0], surfaces: self.surfaces }.surface(surface, [x, y])
    }

    /// Address of the output line that line `y` of the input becomes at offset `inner` inside each cell.
    pub(super) fn line(&self, surface: usize, y: usize, inner: usize) -> u64 {
        self.address.wrapping_add(self.lines.offset([surface as u64, y as u64, inner as u64]))
    }
}

impl Operation {
    pub(super) fn new(config: &Config, registers: &Registers) -> Result<Self, Stop> {
        let get = |register| registers.get(register);
        let precision = registers.field(rbk::D_MISC_CFG::IN_PRECISION)?;
        if !config.has_feature_type(precision) {
            return Err(Stop::unsupported(UNIT, format!("{} has no {precision:?}", config.name)));
        }
        let mode = registers.field(rbk::D_MISC_CFG::RUBIK_MODE)?;
        let exists = if mode == RubikMode::Contract { config.rubik_contract } else { config.rubik_reshape };
        if !exists {
            return Err(Stop::unsupported(UNIT, format!("{} cannot {mode:?}", config.name)));
        }
        let source: Port = registers.field(rbk::D_DAIN_RAM_TYPE::DATAIN_RAM_TYPE)?.into();
        let target: Port = registers.field(rbk::D_DAOUT_RAM_TYPE::DATAOUT_RAM_TYPE)?.into();
        let source = (source, registers.address(rbk::D_DAIN_ADDR_HIGH, rbk::D_DAIN_ADDR_LOW));
        let target = (target, registers.address(rbk::D_DAOUT_ADDR_HIGH, rbk::D_DAOUT_ADDR_LOW));
        let bytes = if precision == Precision::Int8 { 1 } else { 2 };
        let extent = Extent {
            width: registers.value(rbk::D_DATAIN_SIZE_0::DATAIN_WIDTH) as usize + 1,
            height: registers.value(rbk::D_DATAIN_SIZE_0::DATAIN_HEIGHT) as usize + 1,
            channels: get(rbk::D_DATAIN_SIZE_1) as usize + 1,
            bytes,
            atoms: Atoms::of(config, precision),
        };
        let out_channels = get(rbk::D_DATAOUT_SIZE_1) as usize + 1;
        let cube = |place, channels, strides: [_; 2]| {
            let size = [extent.width, extent.height, channels];
            Placed::new(UNIT, config, precision, size, place, strides.map(get))
        };
        match mode {
            RubikMode::Contract => {
                let stride = [
                    registers.value(rbk::D_DECONV_STRIDE::DECONV_X_STRIDE) as usize + 1,
                    registers.value(rbk::D_DECONV_STRIDE::DECONV_Y_STRIDE) as usize + 1,
                ];
                let surfaces = extent.atoms.surfaces(out_channels);
                // The input cubes' surfaces lie one after another, as if they were one cube's.
                let channels = stride[0] * stride[1] * extent.atoms.filled(out_channels);
                let strides = [rbk::D_DAOUT_SURF_STRIDE, rbk::D_CONTRACT_STRIDE_1, rbk::D_DAOUT_LINE_STRIDE];
                Ok(Self::Contract(Contract {
                    input: cube(source, channels, [rbk::D_DAIN_LINE_STRIDE, rbk::D_DAIN_SURF_STRIDE])?,
                    width: extent.width,
                    height: extent.height,
                    surfaces,
                    stride,
                    port: target.0,
                    address: target.1,
                    lines: Nest::of_strides(strides.map(|stride| get(stride).into())),
                }))
            }
            RubikMode::Split => {
                // The writer counts the output's channels, the reader the input's: they must agree on the surfaces.
                if extent.atoms.surfaces(out_channels) != extent.atoms.surfaces(extent.channels) {
                    let what = format!("split of {} channels into {out_channels} planes", extent.channels);
                    return Err(Stop::unsupported(UNIT, what));
                }
                let extent = Extent { channels: out_channels, ..extent };
                let strides = [rbk::D_DAOUT_PLANAR_STRIDE, rbk::D_DAOUT_LINE_STRIDE].map(get);
                let planes = Planes::new(&extent, target, strides)?;
                Ok(Self::Split(
                    cube(source, extent.channels, [rbk::D_DAIN_LINE_STRIDE, rbk::D_DAIN_SURF_STRIDE])?,
                    planes,
                    extent,
                ))
            }
            RubikMode::Merge => {
                let strides = [rbk::D_DAIN_PLANAR_STRIDE, rbk::D_DAIN_LINE_STRIDE].map(get);
                let planes = Planes::new(&extent, source, strides)?;
                Ok(Self::Merge(
                    planes,
                    cube(target, extent.channels, [rbk::D_DAOUT_LINE_STRIDE, rbk::D_DAOUT_SURF_STRIDE])?,
                    extent,
                ))
            }
        }
    }
}

/// The stall counters count nothing: the model has no stalls.
pub(super) fn done() -> Done<()> {
    let status = [(Block::Rbk, rbk::D_PERF_READ_STALL, 0), (Block::Rbk, rbk::D_PERF_WRITE_STALL, 0)];
    Done { output: (), status: status.into() }
}
