// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Parts that several descriptors hold: data cubes and converters.

use super::types::MemoryType;
use super::wire::descriptor;

descriptor! {
    /// A surface: where a data cube lies and how.
    DataCube ("data cube", 32, data_cube) {
        /// The memory that holds it.
        0 mem_type: MemoryType as u16;
        /// Position in the task's address list, -1 for none.
        2 address: i16;
        /// Byte offset from that address.
        4 offset: u32;
        /// Bytes.
        8 size: u32;
        /// Elements of a line.
        12 width: u16;
        /// Lines.
        14 height: u16;
        /// Channels.
        16 channel: u16;
        /// Bytes from a line to the next.
        20 line_stride: u32;
        /// Bytes from a surface (one atom of channels) to the next.
        24 surf_stride: u32;
        /// Bytes from a plane to the next (Rubik only).
        28 plane_stride: u32;
    }
    /// A converter: (value - offset) * scale, shifted right by `truncate`.
    CvtParam ("converter", 8, cvt_param) {
        /// Multiplier (integer, or the bits of an fp16).
        0 scale: i16;
        /// Right shift.
        2 truncate: u8;
        /// Whether the converter is used; units whose converter is always in use ignore it.
        3 enable: u8;
        /// Subtrahend (integer, or the bits of an fp16 or fp32).
        4 offset: i32;
    }
}
