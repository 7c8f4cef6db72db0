// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks the conditions under which the hardware completes an operation, and the limits of this model.

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::buffer;

use super::types::{Mode, Operation};
use crate::conv::pixel;
use crate::memory::Stop;

/// Largest number of accumulators of one operation (256 MiB). Real networks have far fewer. The limit bounds the memory
/// that random registers can make the model allocate.
const MAX_SUMS: usize = 1 << 26;
/// Largest number of elements of an input with its padding.
const MAX_PADDED: usize = 1 << 26;
/// Largest number of multiplications of one operation, some hundred times those of the largest real layers. The limit
/// bounds the time that random registers can make the model spend.
const MAX_MACS: usize = 1 << 38;

impl Operation {
    pub(super) fn check_shapes(&self) -> Result<(), Stop> {
        let unsupported = |what: String| Err(Stop::unsupported("CSC", what));
        let Self { fetch, input, kernel, output, .. } = self;
        let lanes = output.channels.div_ceil(self.atomic_k) * self.atomic_k;
        let sums = output.width * output.height * self.batch;
        if sums.checked_mul(lanes).is_none_or(|sums| sums > MAX_SUMS) {
            return unsupported(format!(
                "an output of {}x{}x{} in a batch of {} is more than the {MAX_SUMS} sums that this model holds",
                output.width, output.height, output.channels, self.batch
            ));
        }
        if self.placement.mode != Mode::Winograd {
            // The largest distance beyond the input that padding registers allow.
            const BEYOND: usize = 63;
            let [(right, width), (bottom, height)] = [
                (
                    (output.width - 1) * self.stride[0] + (kernel.width - 1) * self.dilation[0],
                    input.width + self.pad[0],
                ),
                (
                    (output.height - 1) * self.stride[1] + (kernel.height - 1) * self.dilation[1],
                    input.height + self.pad[1],
                ),
            ];
            if self.placement.mode == Mode::Feature && right >= width + BEYOND || bottom >= height + BEYOND {
                return unsupported(format!(
                    "the last kernel ends at column {right}, line {bottom} of a padded input of {width}x{height}"
                ));
            }
            let padded = (right + 1) * (bottom + 1) * kernel.channels * self.batch;
            if padded > MAX_PADDED {
                return unsupported(format!("{padded} elements of padded input are more than {MAX_PADDED}"));
            }
        }
        let macs = (sums * lanes).checked_mul(self.taps_of_all_lines() * kernel.channels);
        if macs.is_none_or(|macs| macs > MAX_MACS) {
            return unsupported(format!(
                "{macs:?} multiplications are more than the {MAX_MACS} that this model performs"
            ));
        }
        match self.placement.mode {
            Mode::Feature => {
                if (fetch.width, fetch.channels) != (input.width, input.channels) || kernel.channels != input.channels {
                    return unsupported(format!(
                        "CDMA fetches {} elements of {} channels per line, CSC reads {} of {}, kernels have {}",
                        fetch.width, fetch.channels, input.width, input.channels, kernel.channels
                    ));
                }
            }
            Mode::Pixel => {
                let components = pixel::components(self.pixel);
                if kernel.width != 1 || fetch.channels != components || input.channels != components {
                    return unsupported(format!(
                        "{:?} has {components} channels; CDMA has {}, CSC {}, and its kernels are {} wide",
                        self.pixel, fetch.channels, input.channels, kernel.width
                    ));
                }
                if pixel::precision(self.pixel) != self.in_precision {
                    return Err(Stop::unsupported(
                        "CDMA",
                        format!("IN_PRECISION is {:?} for {:?} pixels", self.in_precision, self.pixel),
                    ));
                }
                let last = (output.width - 1) * self.stride[0] * components + kernel.channels;
                if last * self.element() > self.slice_bytes() {
                    return unsupported(format!(
                        "the last kernel ends at element {last} of a line of {}",
                        self.slice_bytes() / self.element()
                    ));
                }
            }
            Mode::Winograd => {
                let [left, right, top, bottom] = self.pads;
                let [sx, sy] = self.extension;
                let (width, height) = (left + fetch.width + right, top + fetch.height + bottom);
                let channels = self.atoms.filled(fetch.channels) * sx * sy;
                if width % (4 * sx) != 0
                    || height % (4 * sy) != 0
                    || (width / sx, channels) != (input.width, input.channels)
                    || kernel.channels != channels
                {
                    return unsupported(format!(
                        "Winograd input of {width}x{height}, {channels} channels at strides {sx} and {sy}; CSC reads \
                         {} elements of {} channels per line, kernels have {}",
                        input.width, input.channels, kernel.channels
                    ));
                }
                if output.width % 4 != 0
                    || output.height % 4 != 0
                    || output.width + 4 > input.width
                    || output.height + 4 > input.height
                {
                    return unsupported(format!(
                        "Winograd output of {}x{} from an extended input of {}x{}",
                        output.width, output.height, input.width, input.height
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that the input fits its banks, because CSC waits for all of it.
    pub(super) fn check_buffer(&self, config: &Config, programmed: [usize; 2]) -> Result<(), Stop> {
        let depth = buffer::bank_entries(config) as usize;
        let entries = match self.placement.mode {
            Mode::Feature => {
                buffer::feature_entries(config, self.fetch_surfaces() as u32, self.fetch.width as u32) as usize
            }
            Mode::Pixel => buffer::line_entries(config, self.slice_bytes() as u64) as usize,
            Mode::Winograd => self.slice_bytes() / buffer::entry_bytes(config) as usize,
        };
        for (unit, programmed) in ["CDMA", "CSC"].into_iter().zip(programmed) {
            if programmed != entries {
                return Err(Stop::unsupported(
                    unit,
                    format!("D_ENTRY_PER_SLICE says {programmed} entries, a line of this input takes {entries}"),
                ));
            }
        }
        let room = depth * self.placement.data_banks;
        if self.slices.checked_mul(entries).is_none_or(|needed| needed > room) {
            return Err(Stop::unsupported(
                "CDMA",
                format!("{} slices of {entries} entries do not fit the {room} entries of the data banks", self.slices),
            ));
        }
        Ok(())
    }

    pub(super) fn check_weights(&self, programmed: usize, bank: usize) -> Result<(), Stop> {
        let bytes = self.kernel_bytes();
        if programmed != bytes {
            return Err(Stop::unsupported(
                "CDMA",
                format!("BYTE_PER_KERNEL says {programmed} bytes, a kernel of this shape has {bytes}"),
            ));
        }
        if self.weights.mask.is_none() && self.weights.bytes < bytes * self.kernels {
            return Err(Stop::unsupported(
                "CDMA",
                format!(
                    "WEIGHT_BYTES is {}, {} kernels have {}",
                    self.weights.bytes,
                    self.kernels,
                    bytes * self.kernels
                ),
            ));
        }
        let room = self.placement.weight_banks * bank;
        let together = if self.weight_reuse[1].keep { self.kernels } else { self.kernels.min(self.atomic_k) };
        if self.weights.mask.is_none() && bytes * together > room {
            return Err(Stop::unsupported(
                "CDMA",
                format!("{together} kernels of {bytes} bytes do not fit the {room} bytes of the weight banks"),
            ));
        }
        Ok(())
    }
}
