// SPDX-License-Identifier: MIT OR Apache-2.0

//! The convolution buffer: how many of its banks a convolution's input and weights take.
//!
//! The buffer is a set of banks, which each operation divides between data and weights. Data is stored by slices (one line of all
//! channels), each a whole number of entries. All lines that an operation reads are in the buffer at once. Weights may pass
//! through it, one kernel group after another; with space for two groups, fetching and computing overlap.
//!
//! Source: "In-memory data formats" and the unit description of the convolution buffer. The number and size of the banks come
//! from the configuration.

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::buffer::{self, bank_entries, entry_bytes};
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::reg::values::Precision;

/// Banks of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Banks {
    /// For data.
    pub data: u32,
    /// For weights.
    pub weights: u32,
}

impl Banks {
    /// Of so many banks, those for the data of two such operations, so that CDMA fetches for one while CSC works on the other, and the rest
    /// for weights. `None` if these weights leave no bank for more data.
    pub fn for_two(self, banks: u32) -> Option<Self> {
        let data = (2 * self.data).min(banks.checked_sub(self.weights)?);
        (data > self.data).then_some(Self { data, weights: banks - data })
    }
}

/// The sizes of an operation's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightSize {
    /// Bytes of all kernels.
    pub all: u64,
    /// Bytes of the largest kernel group.
    pub group: u64,
}

/// Entries of a slice of an int8 feature cube.
pub fn feature_entries(config: &Config, channels: u32, width: u32) -> u32 {
    let surfaces = Atoms::of(config, Precision::Int8).surfaces(channels as usize);
    buffer::feature_entries(config, surfaces as u32, width) as u32
}

/// The entries of a slice of a feature cube with this many surfaces.
pub fn surface_entries(config: &Config, surfaces: u32, width: u32) -> u32 {
    buffer::feature_entries(config, surfaces, width) as u32
}

/// Entries of a slice of an image: a line with its padding, `bytes` per pixel.
pub fn image_entries(config: &Config, padded_width: u32, bytes: u32) -> u32 {
    buffer::line_entries(config, u64::from(padded_width) * u64::from(bytes)) as u32
}

/// Bytes of a slice.
pub fn slice_bytes(config: &Config, entries_per_slice: u32) -> u64 {
    u64::from(entries_per_slice) * u64::from(entry_bytes(config))
}

/// Banks that `lines` lines of data take.
pub fn data_banks(config: &Config, entries_per_slice: u32, lines: u32) -> u32 {
    (u64::from(entries_per_slice) * u64::from(lines)).div_ceil(u64::from(bank_entries(config))) as u32
}

/// Banks for weights beside `data` banks of data: for all of them, for two groups, or for one; `None` if not even one
/// group fits.
pub fn weight_banks(config: &Config, weights: WeightSize, data: u32) -> Option<Banks> {
    let bank = u64::from(config.cbuf_bank_bytes());
    let free = u64::from(config.cbuf_banks.checked_sub(data)?);
    let (all, group) = (weights.all.div_ceil(bank), weights.group.div_ceil(bank));
    [all, 2 * group, group].into_iter().find(|&banks| banks <= free).map(|banks| Banks { data, weights: banks as u32 })
}

/// The most lines that fit beside one kernel group.
pub fn most_lines(config: &Config, entries_per_slice: u32, weights: WeightSize) -> u32 {
    let group = weights.group.div_ceil(u64::from(config.cbuf_bank_bytes()));
    let free = u64::from(config.cbuf_banks).saturating_sub(group);
    (free * u64::from(bank_entries(config)) / u64::from(entries_per_slice.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvdla_uapi::config::{NV_FULL, NV_LARGE, NV_SMALL, NV_SMALL_256};

    #[test]
    fn slices() {
        assert_eq!(feature_entries(&NV_SMALL, 20, 12), 36);
        assert_eq!(feature_entries(&NV_SMALL, 500, 1), 63);
        // Two atoms per entry.
        assert_eq!(feature_entries(&NV_LARGE, 20, 12), 6);
        assert_eq!(feature_entries(&NV_LARGE, 64, 12), 12);
        assert_eq!(feature_entries(&NV_FULL, 96, 5), 5);
        assert_eq!(feature_entries(&NV_FULL, 160, 5), 7);
        // Four atoms per entry, three of them used.
        assert_eq!(feature_entries(&NV_SMALL_256, 24, 10), 10);
        assert_eq!(feature_entries(&NV_SMALL_256, 16, 10), 5);
        assert_eq!(image_entries(&NV_SMALL, 28, 1), 4);
        assert_eq!(image_entries(&NV_LARGE, 28, 1), 1);
        assert_eq!(image_entries(&NV_SMALL, 226, 4), 113);
    }

    #[test]
    fn banks() {
        // An inner product of 500 kernels of 800 bytes: two groups of eight kernels.
        let weights = WeightSize { all: 400_000, group: 6400 };
        assert_eq!(weight_banks(&NV_SMALL, weights, 1), Some(Banks { data: 1, weights: 4 }));
        assert_eq!(weight_banks(&NV_SMALL, weights, 29), Some(Banks { data: 29, weights: 2 }));
        assert_eq!(weight_banks(&NV_SMALL, weights, 31), None);
        assert_eq!(weight_banks(&NV_SMALL, weights, 33), None);
        assert_eq!(weight_banks(&NV_LARGE, weights, 1), Some(Banks { data: 1, weights: 13 }));
        let banks = |data, weights| Banks { data, weights };
        assert_eq!(banks(3, 4).for_two(32), Some(banks(6, 26)));
        assert_eq!(banks(10, 20).for_two(32), Some(banks(12, 20)));
        assert_eq!([banks(12, 20), banks(12, 24)].map(|banks| banks.for_two(32)), [None; 2]);
        assert_eq!(most_lines(&NV_SMALL, 100, weights), 153);
        assert_eq!(data_banks(&NV_SMALL, 36, 12), 1);
    }
}
