// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rubik: contract, split and merge.
//!
//! - Contract is the second half of a deconvolution: the surfaces of stride-x by stride-y cubes become the neighbours
//!   of one wider and higher cube, atom by atom.
//! - Split takes a feature cube apart into a plane a channel, whose lines are padded with zeros to whole atoms; merge
//!   puts planes together into a feature cube, whose lanes past the last channel are zero.
//!
//! Source: the register specification (RBK), the hardware manual ("RUBIK"), and for what lies outside the cube the
//! C-model (`cmod/rubik`).

mod fast;
pub mod reference;

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::{Precision, RubikMode};
use nvdla_uapi::reg::{rbk, Block};

use crate::cube::{check_overlap, Placed};
use crate::memory::{read, write, Fault, Memory, Port, Stop};
use crate::registers::Registers;
use crate::stream::Done;

/// The unit's name in faults.
const UNIT: &str = "Rubik";

/// An operation.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Contract(Contract),
    /// A cube into planes.
    Split(Placed, Planes, Extent),
    /// Planes into a cube.
    Merge(Planes, Placed, Extent),
}

/// Elements of a cube that is split or merged.
#[derive(Clone, Copy, Debug)]
struct Extent {
    width: usize,
    height: usize,
    channels: usize,
    /// Bytes of an element.
    bytes: usize,
    /// Bytes of an atom.
    atom: usize,
}

impl Extent {
    /// Elements of an atom.
    fn lanes(&self) -> usize {
        self.atom / self.bytes
    }

    /// Bytes of a plane's line.
    fn line(&self) -> usize {
        (self.width * self.bytes).next_multiple_of(self.atom)
    }
}

/// A plane a channel in memory.
#[derive(Clone, Copy, Debug)]
struct Planes {
    port: Port,
    address: u64,
    line_stride: u64,
    planar_stride: u64,
}

impl Planes {
    /// Refuses planes that lie on one another.
    fn check(&self, extent: &Extent) -> Result<(), Stop> {
        let far = |count: usize, stride: u64| (count as u64 - 1).saturating_mul(stride);
        let span = far(extent.channels, self.planar_stride).saturating_add(far(extent.height, self.line_stride));
        let line = extent.line() as u64;
        check_overlap(UNIT, line * (extent.channels * extent.height) as u64, span.saturating_add(line))
    }

    fn at(&self, channel: usize, y: usize) -> u64 {
        let plane = self.address.wrapping_add((channel as u64).wrapping_mul(self.planar_stride));
        plane.wrapping_add((y as u64).wrapping_mul(self.line_stride))
    }

    fn read<'m>(&self, memory: &'m dyn Memory, channel: usize, y: usize, length: usize) -> Result<&'m [u8], Fault> {
        read(memory, UNIT, self.port, self.at(channel, y), length)
    }

    fn write(&self, memory: &mut dyn Memory, channel: usize, y: usize, line: &[u8]) -> Result<(), Fault> {
        write(memory, UNIT, self.port, self.at(channel, y), line.len())?.copy_from_slice(line);
        Ok(())
    }
}

/// A contraction.
#[derive(Clone, Copy, Debug)]
struct Contract {
    /// All input cubes as one, their surfaces one after another.
    input: Placed,
    /// Atoms of an input line.
    width: usize,
    /// Lines of the input.
    height: usize,
    /// Surfaces of the output.
    surfaces: usize,
    /// Input cubes along x and y.
    stride: [usize; 2],
    port: Port,
    address: u64,
    /// From one output line to the next of those that one input line becomes.
    line_stride: u64,
    /// From the output lines of one input line to those of the next.
    group_stride: u64,
    surface_stride: u64,
}

impl Contract {
    /// Surface of the input that becomes surface `surface` of the output at offset `(x, y)` inside each cell.
    fn input_surface(&self, surface: usize, [x, y]: [usize; 2]) -> usize {
        (y * self.stride[0] + x) * self.surfaces + surface
    }

    /// Address of the output line that line `y` of the input becomes at offset `inner` inside each cell.
    fn line(&self, surface: usize, y: usize, inner: usize) -> u64 {
        self.address
            .wrapping_add((surface as u64).wrapping_mul(self.surface_stride))
            .wrapping_add((y as u64).wrapping_mul(self.group_stride))
            .wrapping_add((inner as u64).wrapping_mul(self.line_stride))
    }
}

impl Operation {
    fn new(config: &Config, registers: &Registers) -> Result<Self, Stop> {
        use rbk::{d_datain_size_0 as size, d_deconv_stride as deconv, d_misc_cfg as misc};
        let get = |register| registers.get(register);
        let precision = registers.field(rbk::D_MISC_CFG, misc::IN_PRECISION)?;
        if !config.has_feature_type(precision) {
            return Err(Stop::unsupported(UNIT, format!("{} has no {precision:?}", config.name)));
        }
        let mode = registers.field(rbk::D_MISC_CFG, misc::RUBIK_MODE)?;
        let exists = if mode == RubikMode::Contract { config.rubik_contract } else { config.rubik_reshape };
        if !exists {
            return Err(Stop::unsupported(UNIT, format!("{} cannot {mode:?}", config.name)));
        }
        let source: Port = registers.field(rbk::D_DAIN_RAM_TYPE, rbk::d_dain_ram_type::DATAIN_RAM_TYPE)?.into();
        let target: Port = registers.field(rbk::D_DAOUT_RAM_TYPE, rbk::d_daout_ram_type::DATAOUT_RAM_TYPE)?.into();
        let source = (source, registers.address(rbk::D_DAIN_ADDR_HIGH, rbk::D_DAIN_ADDR_LOW));
        let target = (target, registers.address(rbk::D_DAOUT_ADDR_HIGH, rbk::D_DAOUT_ADDR_LOW));
        let bytes = if precision == Precision::Int8 { 1 } else { 2 };
        let extent = Extent {
            width: size::DATAIN_WIDTH.value(get(rbk::D_DATAIN_SIZE_0)) as usize + 1,
            height: size::DATAIN_HEIGHT.value(get(rbk::D_DATAIN_SIZE_0)) as usize + 1,
            channels: get(rbk::D_DATAIN_SIZE_1) as usize + 1,
            bytes,
            atom: config.memory_atomic as usize,
        };
        let out_channels = get(rbk::D_DATAOUT_SIZE_1) as usize + 1;
        let cube = |place, channels, strides: [_; 2]| {
            let size = [extent.width, extent.height, channels];
            Placed::new(UNIT, config, precision, size, place, strides.map(get))
        };
        match mode {
            RubikMode::Contract => {
                let stride = [
                    deconv::DECONV_X_STRIDE.value(get(rbk::D_DECONV_STRIDE)) as usize + 1,
                    deconv::DECONV_Y_STRIDE.value(get(rbk::D_DECONV_STRIDE)) as usize + 1,
                ];
                let surfaces = out_channels.div_ceil(extent.lanes());
                // The input cubes' surfaces lie one after another, as if they were one cube's.
                let channels = stride[0] * stride[1] * surfaces * extent.lanes();
                Ok(Self::Contract(Contract {
                    input: cube(source, channels, [rbk::D_DAIN_LINE_STRIDE, rbk::D_DAIN_SURF_STRIDE])?,
                    width: extent.width,
                    height: extent.height,
                    surfaces,
                    stride,
                    port: target.0,
                    address: target.1,
                    line_stride: get(rbk::D_DAOUT_LINE_STRIDE).into(),
                    group_stride: get(rbk::D_CONTRACT_STRIDE_1).into(),
                    surface_stride: get(rbk::D_DAOUT_SURF_STRIDE).into(),
                }))
            }
            RubikMode::Split => {
                // The writer counts the output's channels, the reader the input's: they must agree on the surfaces.
                let lanes = extent.lanes();
                if out_channels.div_ceil(lanes) != extent.channels.div_ceil(lanes) {
                    let what = format!("split of {} channels into {out_channels} planes", extent.channels);
                    return Err(Stop::unsupported(UNIT, what));
                }
                let planes = Planes {
                    port: target.0,
                    address: target.1,
                    line_stride: get(rbk::D_DAOUT_LINE_STRIDE).into(),
                    planar_stride: get(rbk::D_DAOUT_PLANAR_STRIDE).into(),
                };
                let extent = Extent { channels: out_channels, ..extent };
                planes.check(&extent)?;
                Ok(Self::Split(
                    cube(source, extent.channels, [rbk::D_DAIN_LINE_STRIDE, rbk::D_DAIN_SURF_STRIDE])?,
                    planes,
                    extent,
                ))
            }
            RubikMode::Merge => {
                let planes = Planes {
                    port: source.0,
                    address: source.1,
                    line_stride: get(rbk::D_DAIN_LINE_STRIDE).into(),
                    planar_stride: get(rbk::D_DAIN_PLANAR_STRIDE).into(),
                };
                planes.check(&extent)?;
                Ok(Self::Merge(
                    planes,
                    cube(target, extent.channels, [rbk::D_DAOUT_LINE_STRIDE, rbk::D_DAOUT_SURF_STRIDE])?,
                    extent,
                ))
            }
        }
    }
}

/// One operation of Rubik.
pub fn run(config: &Config, registers: &Registers, memory: &mut dyn Memory) -> Result<Done<()>, Stop> {
    match Operation::new(config, registers)? {
        Operation::Contract(contract) => fast::contract(&contract, memory)?,
        Operation::Split(cube, planes, extent) => fast::split(&cube, &planes, &extent, memory)?,
        Operation::Merge(planes, cube, extent) => fast::merge(&planes, &cube, &extent, memory)?,
    }
    Ok(done())
}

/// The stall counters count nothing: the model has no stalls.
fn done() -> Done<()> {
    Done { output: (), status: vec![(Block::Rbk, rbk::D_PERF_READ_STALL, 0), (Block::Rbk, rbk::D_PERF_WRITE_STALL, 0)] }
}

#[cfg(test)]
mod tests;
