// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! BDMA: copies between the two memories.

use super::types::MemoryType;
use super::wire::descriptor;

/// Transfers that one operation can make.
pub const MAX_BDMA_TRANSFERS: usize = 20;

descriptor! {
    /// BDMA's operation.
    BdmaOp ("BDMA operation", 4, bdma_op) {
        /// Transfers.
        0 num_transfers: u16;
    }
    /// One transfer: lines, repeated to surfaces, repeated to cubes.
    BdmaTransfer ("BDMA transfer", 32, bdma_transfer) {
        /// Position of the source in the address list.
        0 source_address: i16;
        /// Position of the destination in the address list.
        2 destination_address: i16;
        /// Bytes of a line.
        4 line_size: u32;
        /// Lines of a surface.
        8 line_repeat: u32;
        /// Bytes from a source line to the next.
        12 source_line: u32;
        /// Bytes from a destination line to the next.
        16 destination_line: u32;
        /// Surfaces.
        20 surface_repeat: u32;
        /// Bytes from a source surface to the next.
        24 source_surface: u32;
        /// Bytes from a destination surface to the next.
        28 destination_surface: u32;
    }
    /// BDMA's transfers.
    BdmaSurface ("BDMA surface", 644, bdma_surface) {
        /// The memory read.
        0 source_type: MemoryType;
        /// The memory written.
        1 destination_type: MemoryType;
        /// The number of valid entries of `transfers`.
        2 num_transfers: u16;
        /// The transfers.
        4 transfers: [BdmaTransfer; MAX_BDMA_TRANSFERS];
    }
    /// What BDMA counted.
    BdmaStat ("BDMA statistics", 12, bdma_stat) {
        /// Cycles that reading stalled.
        0 read_stall: u32;
        /// Cycles that writing stalled.
        4 write_stall: u32;
        /// Microseconds from enabling to completion.
        8 runtime: u32;
    }
}
