// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The convolution buffer: how many of its entries a slice (one line of the input, with all channels) takes.
//!
//! Source: the hardware manual, "Convolution buffer" (CBUF), and the register specification, `D_ENTRY_PER_SLICE`.

use super::super::config::Config;
use super::super::reg::Family;

/// Bytes of an entry: nv_full counts entries of two of its buffer's words.
pub const fn entry_bytes(config: &Config) -> u32 {
    match config.family {
        Family::NvFull => 128,
        Family::NvSmall => config.cbuf_bank_width,
    }
}

/// Entries of a bank.
pub const fn bank_entries(config: &Config) -> u32 {
    config.cbuf_bank_bytes() / entry_bytes(config)
}

/// Entries of a line of a feature cube of `surfaces` surfaces, `width` atoms each.
///
/// Atoms of one column that fill whole entries lie together. The atoms that remain of a column share an entry with those
/// of its neighbours in the line if two such remainders fit into one entry. Otherwise they take an entry per column.
pub const fn feature_entries(config: &Config, surfaces: u32, width: u32) -> u64 {
    let (surfaces, width) = (surfaces as u64, width as u64);
    let per_entry = (entry_bytes(config) / config.memory_atomic) as u64;
    let whole = surfaces / per_entry * width;
    match surfaces % per_entry {
        0 => whole,
        rest if 2 * rest > per_entry => whole + width,
        rest => whole + width.div_ceil(per_entry / rest),
    }
}

/// Entries of a line of `bytes` bytes that lie together: an image's line with its padding, or Winograd's extended one.
pub const fn line_entries(config: &Config, bytes: u64) -> u64 {
    bytes.div_ceil(entry_bytes(config) as u64)
}

#[cfg(test)]
mod tests {
    use super::super::super::config::{NV_FULL, NV_SMALL};
    use super::*;

    #[test]
    fn remainders_share_entries_where_two_fit() {
        // nv_full: entries of four atoms.
        for (surfaces, width, entries) in
            [(4, 7, 7), (1, 7, 2), (1, 8, 2), (2, 7, 4), (3, 7, 7), (5, 7, 9), (6, 7, 11), (7, 7, 14)]
        {
            assert_eq!((surfaces, width, feature_entries(&NV_FULL, surfaces, width)), (surfaces, width, entries));
        }
        // nv_small: an atom is an entry.
        assert_eq!(feature_entries(&NV_SMALL, 3, 7), 21);
        assert_eq!(line_entries(&NV_SMALL, 28), 4);
        assert_eq!(line_entries(&NV_FULL, 129), 2);
    }
}
