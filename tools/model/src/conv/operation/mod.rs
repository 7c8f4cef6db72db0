// SPDX-License-Identifier: MIT OR Apache-2.0

//! A convolution's registers as one checked value.
//!
//! Registers hold sizes minus one, and CDMA, CSC and CACC each have their own copies. This module checks that the
//! copies agree, without which the hardware does not complete, and that the sizes fit the convolution buffer. All sizes
//! of a checked operation are bounded, so later code can index without further checks.
//!
//! Source: the register specification, and the assertions of the C-model (`cmod/cdma`, `cmod/csc`, `cmod/cacc`).

mod checks;
mod decode;
mod types;

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::reg::values::PixelFormat;
use nvdla_uapi::reg::{cacc, cdma, csc};

use crate::memory::Stop;
use crate::stream::{Samples, Stream};
use decode::{batches, post_extension, precisions, same, Sizes};
pub use types::*;

impl Operation {
    /// Reads and checks the registers.
    pub fn new(config: &Config, blocks: &Blocks) -> Result<Self, Stop> {
        let Blocks { cdma: d, csc: s, cacc: c, .. } = blocks;
        let (in_precision, precision) = precisions(config, blocks)?;
        let mode = Mode::new(config, blocks)?;
        let placement = Placement::new(config, blocks, mode)?;
        let batch = batches(config, blocks, mode)?;
        let Sizes { fetch, input, kernel, kernels, output } = Sizes::new(blocks)?;

        let atoms = Atoms::of(config, in_precision);
        let atomic_c = config.mac_atomic_c as usize;
        let bytes = element_bytes(precision);
        let atomic_k = config.mac_atomic_k as usize / bytes;
        let groups = [output.channels, kernels].map(|kernels| kernels.div_ceil(atomic_k) as u64);
        same("the number of kernel groups", groups[0], groups[1])?;

        let post_extension = post_extension(s, mode, kernel, atomic_c)?;
        let pixel = match mode {
            Mode::Pixel => d.field(cdma::D_DATAIN_FORMAT::PIXEL_FORMAT)?,
            Mode::Feature | Mode::Winograd => PixelFormat::R8,
        };
        if mode == Mode::Pixel && d.value(cdma::D_DATAIN_FORMAT::PIXEL_MAPPING) != 0 {
            return Err(Stop::unsupported("CDMA", "PIXEL_MAPPING is 1, which is no encoding"));
        }
        let pads = d.read::<cdma::D_ZERO_PADDING>();
        let padding = s.read::<csc::D_ZERO_PADDING>();
        let extension = d.read::<cdma::D_CONV_STRIDE>();
        let stride = s.read::<csc::D_CONV_STRIDE_EXT>();
        let dilation = s.read::<csc::D_DILATION_EXT>();
        let operation = Self {
            precision,
            in_precision,
            placement,
            surface: Surface::new(d, mode, fetch, atoms)?,
            fetch,
            input,
            pixel,
            pixel_x_offset: d.value(cdma::D_PIXEL_OFFSET::PIXEL_X_OFFSET) as usize,
            pixel_signed: d.value(cdma::D_DATAIN_FORMAT::PIXEL_SIGN_OVERRIDE) != 0,
            converter: Converter::new(d, mode, in_precision, precision)?,
            flush_nan: d.is_set(cdma::D_NAN_FLUSH_TO_ZERO::NAN_TO_ZERO),
            batch,
            pads: [
                pads.value(cdma::D_ZERO_PADDING::PAD_LEFT) as usize,
                pads.value(cdma::D_ZERO_PADDING::PAD_RIGHT) as usize,
                pads.value(cdma::D_ZERO_PADDING::PAD_TOP) as usize,
                pads.value(cdma::D_ZERO_PADDING::PAD_BOTTOM) as usize,
            ],
            extension: [
                extension.value(cdma::D_CONV_STRIDE::CONV_X_STRIDE) as usize + 1,
                extension.value(cdma::D_CONV_STRIDE::CONV_Y_STRIDE) as usize + 1,
            ],
            pad: [
                padding.value(csc::D_ZERO_PADDING::PAD_LEFT) as usize,
                padding.value(csc::D_ZERO_PADDING::PAD_TOP) as usize,
            ],
            pad_value: [d.get(cdma::D_ZERO_PADDING_VALUE) as u16, s.get(csc::D_ZERO_PADDING_VALUE) as u16],
            output,
            kernel,
            kernels,
            stride: [
                stride.value(csc::D_CONV_STRIDE_EXT::CONV_X_STRIDE_EXT) as usize + 1,
                stride.value(csc::D_CONV_STRIDE_EXT::CONV_Y_STRIDE_EXT) as usize + 1,
            ],
            dilation: [
                dilation.value(csc::D_DILATION_EXT::X_DILATION_EXT) as usize + 1,
                dilation.value(csc::D_DILATION_EXT::Y_DILATION_EXT) as usize + 1,
            ],
            post_extension,
            weights: WeightSurface::new(config, blocks, kernels, placement)?,
            mapping: Mapping::new(config, precision, mode, kernel, kernels, post_extension)?,
            data_reuse: [
                Reuse {
                    reuse: d.is_set(cdma::D_MISC_CFG::DATA_REUSE),
                    keep: d.is_set(cdma::D_MISC_CFG::SKIP_DATA_RLS),
                },
                Reuse { reuse: s.is_set(csc::D_MISC_CFG::DATA_REUSE), keep: s.is_set(csc::D_MISC_CFG::SKIP_DATA_RLS) },
            ],
            weight_reuse: [
                Reuse {
                    reuse: d.is_set(cdma::D_MISC_CFG::WEIGHT_REUSE),
                    keep: d.is_set(cdma::D_MISC_CFG::SKIP_WEIGHT_RLS),
                },
                Reuse {
                    reuse: s.is_set(csc::D_MISC_CFG::WEIGHT_REUSE),
                    keep: s.is_set(csc::D_MISC_CFG::SKIP_WEIGHT_RLS),
                },
            ],
            release: s.value(csc::D_RELEASE::RLS_SLICES) as usize + 1,
            slices: input.height * batch,
            pra_truncate: s.value(csc::D_PRA_CFG::PRA_TRUNCATE),
            clip_truncate: c.value(cacc::D_CLIP_CFG::CLIP_TRUNCATE),
            atomic_c,
            atomic_k,
            atoms,
        };
        operation.check_shapes()?;
        operation.check_buffer(
            config,
            [
                d.value(cdma::D_ENTRY_PER_SLICE::ENTRIES) as usize + 1,
                s.value(csc::D_ENTRY_PER_SLICE::ENTRIES) as usize + 1,
            ],
        )?;
        operation.check_weights(
            d.value(cdma::D_WEIGHT_SIZE_0::BYTE_PER_KERNEL) as usize + 1,
            config.cbuf_bank_bytes() as usize,
        )?;
        Ok(operation)
    }
}

/// The operation's output.
pub(super) fn stream(operation: &Operation, samples: Samples) -> Stream {
    let Operation { output, batch, atomic_k, .. } = *operation;
    Stream { width: output.width, height: output.height, channels: output.channels, lanes: atomic_k, batch, samples }
}
