// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The alignment that addresses, strides and sizes of each kind of data must have.
//!
//! [`Alignment::documented`] is the document's table. It is written for 32-byte atoms, and software should follow it.
//! [`Alignment::required`] is what a configuration's hardware needs; a validator refuses surfaces that break it. In it 32 bytes
//! become the configuration's atom, and weights need only the alignment that their address register keeps. [`Alignment::of_all`]
//! holds for every configuration. It is for readers of loadables whose configuration is unknown.
//!
//! The compiler places its memories with `documented`, the engine validates with `required`, and the runtime checks tensors and
//! pictures with `of_all`. The model refuses nothing: it keeps the bits of a register that the hardware keeps (address and stride
//! registers of nv_full have no bits below 32), and reads from the address in the register.
//!
//! Source: "In-memory data formats", table 35 ("Requirements of alignment"); the register specification for the low
//! bits that address registers do not implement.

use super::super::config::Config;
use super::super::reg::Family;
use super::error::{Error, Rule};

/// A kind of data in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Data {
    /// A feature data cube.
    Feature,
    /// Weights, compressed or not.
    Weight,
    /// The mask surface of compressed weights.
    Wmb,
    /// The group-size surface of compressed weights.
    Wgs,
    /// Pitch linear pixels.
    Pixel,
    /// Bias operands.
    Bias,
    /// PReLU operands.
    Prelu,
    /// Batch-normalisation operands.
    BatchNormalization,
    /// Element-wise operands.
    Elementwise,
}

impl Data {
    /// Every kind, in the table's order.
    pub const ALL: &'static [Self] = &[
        Self::Feature,
        Self::Weight,
        Self::Wmb,
        Self::Wgs,
        Self::Pixel,
        Self::Bias,
        Self::Prelu,
        Self::BatchNormalization,
        Self::Elementwise,
    ];
}

/// Alignments in bytes; `None` where the table says that the value does not exist ("NA").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Of the start address.
    pub start: u32,
    /// Of the line stride.
    pub line_stride: Option<u32>,
    /// Of the surface stride.
    pub surface_stride: Option<u32>,
    /// Of the planar or cube stride.
    pub cube_stride: Option<u32>,
    /// Of the size of the data.
    pub size: Option<u32>,
}

/// Address and strides of a surface, to be checked; `None` where it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surface {
    /// Start address.
    pub address: u64,
    /// Line stride.
    pub line_stride: Option<u64>,
    /// Surface stride.
    pub surface_stride: Option<u64>,
    /// Planar or cube stride.
    pub cube_stride: Option<u64>,
    /// Bytes of the data.
    pub size: Option<u64>,
}

impl Alignment {
    /// The document's table 35.
    pub const fn documented(data: Data) -> Self {
        let (start, line_stride, surface_stride, cube_stride, size) = match data {
            Data::Feature => (32, Some(32), Some(32), Some(32), None),
            Data::Weight | Data::Wmb | Data::Wgs => (256, None, None, None, Some(128)),
            Data::Pixel => (32, Some(32), None, None, None),
            Data::Bias => (32, Some(32), Some(32), None, None),
            Data::Prelu | Data::BatchNormalization => (32, None, None, None, None),
            Data::Elementwise => (32, Some(32), None, None, Some(32)),
        };
        Self { start, line_stride, surface_stride, cube_stride, size }
    }

    /// What a configuration's hardware requires.
    pub const fn required(config: &Config, data: Data) -> Self {
        let table = Self::documented(data);
        let atom = config.memory_atomic;
        let (start, size) = match (data, config.family) {
            (Data::Weight | Data::Wmb, Family::NvFull) => (atom, Some(128)),
            _ => (atom, None),
        };
        Self {
            start,
            line_stride: if table.line_stride.is_some() { Some(atom) } else { None },
            surface_stride: if table.surface_stride.is_some() { Some(atom) } else { None },
            cube_stride: if table.cube_stride.is_some() { Some(atom) } else { None },
            size,
        }
    }

    /// The alignment that every configuration's hardware needs; all of them refuse what breaks it.
    pub const fn of_all(data: Data) -> Self {
        let mut least = Self::required(Config::ALL[0], data);
        let mut at = 1;
        while at < Config::ALL.len() {
            let other = Self::required(Config::ALL[at], data);
            least = Self {
                start: if other.start < least.start { other.start } else { least.start },
                line_stride: Self::smaller(least.line_stride, other.line_stride),
                surface_stride: Self::smaller(least.surface_stride, other.surface_stride),
                cube_stride: Self::smaller(least.cube_stride, other.cube_stride),
                size: Self::smaller(least.size, other.size),
            };
            at += 1;
        }
        least
    }

    /// The smaller of two alignments. `None` if one of the values does not exist.
    const fn smaller(a: Option<u32>, b: Option<u32>) -> Option<u32> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if a < b { a } else { b }),
            _ => None,
        }
    }

    /// The first value of `surface` that breaks this alignment.
    pub const fn check(&self, surface: &Surface) -> Result<(), Error> {
        if let Err(error) = Error::unless_multiple(Rule::StartAddress, surface.address, self.start as u64) {
            return Err(error);
        }
        if let Err(error) = Self::one(Rule::LineStride, surface.line_stride, self.line_stride) {
            return Err(error);
        }
        if let Err(error) = Self::one(Rule::SurfaceStride, surface.surface_stride, self.surface_stride) {
            return Err(error);
        }
        if let Err(error) = Self::one(Rule::CubeStride, surface.cube_stride, self.cube_stride) {
            return Err(error);
        }
        Self::one(Rule::DataSize, surface.size, self.size)
    }

    const fn one(rule: Rule, value: Option<u64>, alignment: Option<u32>) -> Result<(), Error> {
        match (value, alignment) {
            (Some(value), Some(alignment)) => Error::unless_multiple(rule, value, alignment as u64),
            _ => Ok(()),
        }
    }
}

/// The multiple of bytes to which a configuration pads mapped weights: 128 on nv_full, a convolution buffer entry on
/// the others.
pub const fn weight_size(config: &Config) -> u32 {
    match config.family {
        Family::NvFull => 128,
        Family::NvSmall => config.cbuf_bank_width,
    }
}
