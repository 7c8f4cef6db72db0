// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Encodings that register fields of several blocks share.
//!
//! A field that is an enumeration in the register specification has one of these types; [`super::Word::get`] then
//! returns `None` for an encoding that the specification does not name.

use super::register::{encodings, FieldValue};

encodings! {
    /// How elements are stored or processed.
    Precision { Int8 = 0, Int16 = 1, Fp16 = 2 }
    /// The memory interface behind which a surface lies: secondary (`Cvif`, SRAM) or primary (`Mcif`, DRAM).
    RamType { Cvif = 0, Mcif = 1 }
    /// What a register group is doing.
    GroupStatus { Idle = 0, Running = 1, Pending = 2 }
    /// The convolution algorithm.
    ConvMode { Direct = 0, Winograd = 1 }
    /// The kind of input of a convolution.
    DataFormat { Feature = 0, Pixel = 1 }
    /// Whether weights are compressed (with WMB and WGS surfaces).
    WeightFormat { Uncompressed = 0, Compressed = 1 }
    /// Which operands an SDP operand surface holds.
    OperandUse { Mul = 0, Alu = 1, Both = 2 }
    /// Bytes of one operand.
    OperandSize { OneByte = 0, TwoByte = 1 }
    /// Whether operands vary by kernel (channel) only or by element.
    OperandMode { PerKernel = 0, PerElement = 1 }
    /// Whether an SDP operand comes from a register (one for the layer) or from memory.
    OperandSource { Reg = 0, Mem = 1 }
    /// How the first lookup table (LE) spaces its entries.
    LutFunction { Exponent = 0, Linear = 1 }
    /// One of the two lookup tables: LE (65 entries, exponential or linear) or LO (257 entries, linear).
    LutTable { Le = 0, Lo = 1 }
    /// Direction of a lookup-table access.
    LutAccess { Read = 0, Write = 1 }
    /// SDP's ALU; `Eql` exists in the Y sub-unit only.
    AluAlgorithm { Max = 0, Min = 1, Sum = 2, Eql = 3 }
    /// The destination of SDP's output.
    OutputDestination { Mem = 0, Pdp = 1 }
    /// Whether PDP reads SDP's output (`OnFlying`) or memory (`OffFlying`).
    PdpFlyingMode { OnFlying = 0, OffFlying = 1 }
    /// Pooling method.
    PoolingMethod { Average = 0, Max = 1, Min = 2 }
    /// Channels in an LRN window.
    NormalizationLength { Len3 = 0, Len5 = 1, Len7 = 2, Len9 = 3 }
    /// What Rubik does.
    RubikMode { Contract = 0, Split = 1, Merge = 2 }
}

encodings! {
    /// The 36 pixel formats, in the register specification's order (`D_DATAIN_FORMAT.PIXEL_FORMAT`).
    ///
    /// A format's name lists its components from the most significant bits down; `N444` formats have a luma plane and
    /// an interleaved chroma plane.
    #[allow(non_camel_case_types)]
    PixelFormat {
        R8 = 0, R10 = 1, R12 = 2, R16 = 3, R16I = 4, R16F = 5,
        A16B16G16R16 = 6, X16B16G16R16 = 7, A16B16G16R16F = 8,
        A16Y16U16V16 = 9, V16U16Y16A16 = 10, A16Y16U16V16F = 11,
        A8B8G8R8 = 12, A8R8G8B8 = 13, B8G8R8A8 = 14, R8G8B8A8 = 15,
        X8B8G8R8 = 16, X8R8G8B8 = 17, B8G8R8X8 = 18, R8G8B8X8 = 19,
        A2B10G10R10 = 20, A2R10G10B10 = 21, B10G10R10A2 = 22, R10G10B10A2 = 23,
        A2Y10U10V10 = 24, V10U10Y10A2 = 25, A8Y8U8V8 = 26, V8U8Y8A8 = 27,
        Y8_U8V8N444 = 28, Y8_V8U8N444 = 29, Y10_U10V10N444 = 30, Y10_V10U10N444 = 31,
        Y12_U12V12N444 = 32, Y12_V12U12N444 = 33, Y16_U16V16N444 = 34, Y16_V16U16N444 = 35,
    }
}
