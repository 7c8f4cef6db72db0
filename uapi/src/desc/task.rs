// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The network descriptor and regions of interest.

use super::wire::{descriptor, PROCESSORS};

descriptor! {
    /// A task: positions in its address list, and how many entries the lists have.
    ///
    /// With several regions of interest the dependency graph and the operation, surface and statistics lists hold
    /// `num_operations` entries for the first region, then as many for the next.
    Network ("network descriptor", 40, network) {
        /// Position of the operation list.
        0 operation_desc_index: i16;
        /// Position of the surface list.
        2 surface_desc_index: i16;
        /// Position of the dependency graph.
        4 dependency_graph_index: i16;
        /// Position of the lookup tables.
        6 lut_data_index: i16;
        /// Position of the regions of interest.
        8 roi_array_index: i16;
        /// Position of the surface that regions are cut from.
        10 surface_index: i16;
        /// Position of the statistics list.
        12 stat_list_index: i16;
        /// The first operation of each processor, -1 for none.
        16 op_head: [i16; PROCESSORS];
        /// Regions of interest.
        28 num_rois: u16;
        /// Operations (of one region).
        30 num_operations: u16;
        /// Lookup tables; compilers leave it 0 though operations name some.
        32 num_luts: u16;
        /// Addresses.
        34 num_addresses: u16;
        /// The operation that reads a region of interest, when `dynamic_roi` says so.
        36 input_layer: i16;
        /// Whether regions are read when the task starts.
        38 dynamic_roi: u8;
    }
    /// The head of the list of regions of interest.
    RoiArray ("ROI array", 8, roi_array) {
        /// Number of regions.
        0 array_length: u32;
    }
    /// A region of interest, in pixels, right and bottom excluded.
    Roi ("ROI", 16, roi) {
        /// First column.
        0 left: u32;
        /// First line.
        4 top: u32;
        /// Column after the last.
        8 right: u32;
        /// Line after the last.
        12 bottom: u32;
    }
}
