// SPDX-License-Identifier: MIT OR Apache-2.0

//! The hardware that a network is compiled for, and its limits. Each limit that a register field sets is that field's maximum.

use nvdla_estimate::Conditions;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{cdma, csc, pdp, rbk};

use crate::error::Error;
use crate::options::Options;

/// The size of atoms for which the emulator has no format.
pub(crate) const HALVED_ATOM: u32 = 16;
/// The arguments of a table if nothing is known of them.
pub(crate) const UNKNOWN: [f32; 2] = [-16.0, 16.0];
/// The most factors of a matrix by which elements are moved.
pub(crate) const MAX_FACTORS: usize = 1 << 22;
/// The largest stride of a convolution.
pub(crate) const LARGEST_STRIDE: usize = csc::D_CONV_STRIDE_EXT::CONV_X_STRIDE_EXT.max() as usize + 1;
/// The largest dilation of a convolution.
pub(crate) const LARGEST_DILATION: usize = csc::D_DILATION_EXT::X_DILATION_EXT.max() as usize + 1;
/// The largest padding of a convolution above and on the left.
pub(crate) const LARGEST_PADDING_BEFORE: usize = cdma::D_ZERO_PADDING::PAD_LEFT.max() as usize;
/// The largest padding of a convolution below and on the right.
pub(crate) const LARGEST_PADDING_AFTER: usize = cdma::D_ZERO_PADDING::PAD_RIGHT.max() as usize;
/// The largest height or width of a kernel.
pub(crate) const LARGEST_KERNEL: usize = csc::D_WEIGHT_SIZE_EXT_0::WEIGHT_WIDTH_EXT.max() as usize + 1;
/// The largest width, height or number of channels of a cube.
pub(crate) const LARGEST_EXTENT: u32 = csc::D_DATAIN_SIZE_EXT_0::DATAIN_WIDTH_EXT.max() + 1;
/// The largest height or width of a pooling's window (register manual, `D_POOLING_KERNEL_CFG`; the field could hold more).
pub(crate) const LARGEST_WINDOW: usize = 8;
/// The largest stride of a pooling.
pub(crate) const LARGEST_POOL_STRIDE: usize = pdp::D_POOLING_KERNEL_CFG::KERNEL_STRIDE_WIDTH.max() as usize + 1;
/// The largest stride of Rubik's contraction.
pub(crate) const LARGEST_CONTRACTION: u32 = rbk::D_DECONV_STRIDE::DECONV_X_STRIDE.max() + 1;
/// The height and width of Winograd's output tiles.
pub(crate) const TILE: u32 = 4;
/// The right shift of int8 after Winograd's data transform. The results of the transform are sums of four elements. With this
/// shift no result saturates by more than one step. Tensors with zero -128 have sums near the end of the range, which a smaller
/// shift would saturate.
pub(crate) const PRA_TRUNCATE: u8 = 2;
/// The largest integer of 16 bits.
pub(crate) const LARGEST_WIDE: f64 = 32767.0;

/// What a network is compiled for: a configuration that has what the options ask for.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The configuration.
    pub config: &'static Config,
    /// int8, or fp16.
    pub precision: Precision,
    /// Bytes of SRAM in which tensors may lie; 0 for none.
    pub sram: u64,
    /// The clock, the memories and the bus.
    pub conditions: Conditions,
    /// Pictures per run.
    pub pictures: u32,
}

impl Target {
    /// The target of a compilation.
    ///
    /// # Errors
    ///
    /// If the configuration lacks the precision or the memory, or for no picture.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let Options { config, precision, sram, conditions, pictures, .. } = *options;
        if !config.has_feature_type(precision) {
            return Err(Error::Network(format!("{} has no {precision:?}", config.name)));
        }
        if !options.wide.is_empty() {
            if precision != Precision::Int8 {
                return Err(Error::Network(format!("layers in int16 go with int8, not with {precision:?}")));
            }
            mixed(config)?;
        }
        if pictures == 0 {
            return Err(Error::Network("a run computes at least one picture".to_owned()));
        }
        if sram > 0 && !config.secondary_memif {
            return Err(Error::Network(format!("{} has no memory interface for SRAM", config.name)));
        }
        Ok(Self { config, precision, sram, conditions, pictures })
    }
}

/// Whether a configuration computes in int16 as well as in int8.
///
/// # Errors
///
/// If it does not.
pub(crate) fn mixed(config: &Config) -> Result<(), Error> {
    if config.has_feature_type(Precision::Int16) && config.weight_types.contains(&Precision::Int16) {
        return Ok(());
    }
    Err(Error::Network(format!("{} has no int16, which mixed precision needs", config.name)))
}
