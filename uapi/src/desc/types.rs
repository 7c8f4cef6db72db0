// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Encodings of descriptor fields. Those that registers share come from [`crate::reg::values`][super::super::reg::values].

use super::super::reg::values::{
    AluAlgorithm, ConvMode, LutFunction, LutTable, PixelFormat, PoolingMethod, Precision, RubikMode, WeightFormat,
};
use super::super::reg::{encodings, FieldValue};
use super::wire::{byte_encodings, PROCESSORS};
use core::fmt;

encodings! {
    /// The processor that an operation runs on.
    OpType { Bdma = 0, Conv = 1, Sdp = 2, Pdp = 3, Cdp = 4, Rubik = 5 }
    /// What a consumer waits for.
    Event { OpCompleted = 1, OpProgrammed = 2, OpEnabled = 3, CdmaWeightDone = 4, CdmaDataDone = 5 }
    /// Where the compiler wants a surface: in external DRAM (`Mc`), in SRAM behind the secondary interface (`Cv`), or in no
    /// memory, because a neighbouring unit passes the data on (`Hw`). The driver takes the interface from the buffer that the
    /// surface lies in, which may be in DRAM where there is no SRAM.
    MemoryType { Mc = 0, Cv = 1, Hw = 2 }
    /// What an SDP sub-unit does with its operands.
    SdpOperation { None = 0, Mul = 1, Add = 2, Both = 3 }
    /// How the operand of an SDP sub-unit varies: one per layer (in a register), one per kernel, or one per element.
    SdpOperandMode { PerLayer = 0, PerKernel = 1, PerPoint = 2 }
    /// What follows an SDP sub-unit's operation.
    Activation { None = 0, Relu = 1, Lut = 2, Prelu = 3 }
    /// How pixels are placed in memory.
    PixelMapping { PitchLinear = 0 }
    /// Whether unsigned pixel components stay unsigned.
    PixelOverride { Uint = 0, Int = 1 }
}

byte_encodings! {
    bool = false,
    OpType = Self::Bdma,
    Event = Self::OpCompleted,
    MemoryType = Self::Mc,
    SdpOperation = Self::None,
    SdpOperandMode = Self::PerLayer,
    Activation = Self::None,
    PixelMapping = Self::PitchLinear,
    PixelOverride = Self::Uint,
    DataFormat = Self::Pixel(PixelFormat::R8),
    Precision = Self::Int8,
    ConvMode = Self::Direct,
    WeightFormat = Self::Uncompressed,
    AluAlgorithm = Self::Max,
    LutFunction = Self::Exponent,
    LutTable = Self::Le,
    PoolingMethod = Self::Average,
    RubikMode = Self::Contract,
}

const _: () = assert!(OpType::ALL.len() == PROCESSORS);

impl OpType {
    /// The unit's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bdma => "BDMA",
            Self::Conv => "CONV",
            Self::Sdp => "SDP",
            Self::Pdp => "PDP",
            Self::Cdp => "CDP",
            Self::Rubik => "RUBIK",
        }
    }
}

impl fmt::Display for OpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The format of a convolution's input: one of the pixel formats, or a feature cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataFormat {
    /// An image.
    Pixel(PixelFormat),
    /// A feature cube.
    Feature,
}

impl DataFormat {
    /// The encoding of [`Self::Feature`]: the first number after the pixel formats.
    pub const FEATURE: u32 = 36;
}

impl FieldValue for DataFormat {
    fn from_bits(bits: u32) -> Option<Self> {
        if bits == Self::FEATURE {
            Some(Self::Feature)
        } else {
            PixelFormat::from_bits(bits).map(Self::Pixel)
        }
    }

    fn to_bits(self) -> u32 {
        match self {
            Self::Pixel(format) => format.to_bits(),
            Self::Feature => Self::FEATURE,
        }
    }
}
