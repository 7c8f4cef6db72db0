// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Which precisions a layer may read and write, what it computes in, and how it treats infinities.
//!
//! Source: "In-memory data formats", sections "Precision Conversion" (tables 29 to 32) and "FP16 Supporting". Table 32
//! prints int16 twice for int8 input; its second row is fp16, as in the table for LRN.

use super::super::reg::values::Precision;
use core::fmt;

/// What a layer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// An image of integer pixels (uint8, int16 or uint16).
    IntegerImage,
    /// An image of fp16 pixels.
    FloatImage,
    /// Feature data.
    Feature(Precision),
}

/// A layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Convolution, direct or image (table 29).
    Convolution,
    /// An SDP layer that reads memory (table 30).
    Sdp,
    /// LRN in CDP (table 31).
    Lrn,
    /// Pooling in PDP (table 32).
    Pooling,
}

/// What a pipeline computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Real {
    /// 8-bit integers.
    Int8,
    /// 16-bit integers.
    Int16,
    /// 32-bit integers.
    Int32,
    /// Half precision.
    Fp16,
    /// Single precision.
    Fp32,
}

/// A valid combination: the precision of the pipeline, and for a convolution the precision of its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pipeline {
    /// Precision in the pipeline.
    pub real: Real,
    /// Precision of the weights, for a convolution.
    pub weight: Option<Precision>,
}

/// A case that the document calls invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Invalid {
    /// The layer.
    pub layer: Layer,
    /// Its configured input.
    pub input: Input,
    /// Its configured output precision.
    pub output: Precision,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = match self.layer {
            Layer::Convolution => 29,
            Layer::Sdp => 30,
            Layer::Lrn => 31,
            Layer::Pooling => 32,
        };
        let Self { layer, input, output } = self;
        write!(f, "{layer:?} from {input:?} to {output:?} is invalid (In-memory data formats, table {table})")
    }
}

impl core::error::Error for Invalid {}

/// What a layer's pipeline computes in, or that the case is invalid (tables 29 to 32).
pub const fn pipeline(layer: Layer, input: Input, output: Precision) -> Result<Pipeline, Invalid> {
    use Precision::{Fp16, Int16, Int8};
    let real = match (layer, input, output) {
        // Table 29: integer images convert to anything, floating-point images to fp16 only, features not at all.
        (Layer::Convolution, Input::IntegerImage, _)
        | (Layer::Convolution, Input::FloatImage, Fp16)
        | (Layer::Convolution | Layer::Lrn | Layer::Pooling, Input::Feature(Int8), Int8)
        | (Layer::Convolution | Layer::Lrn | Layer::Pooling, Input::Feature(Int16), Int16)
        | (Layer::Convolution | Layer::Lrn | Layer::Pooling, Input::Feature(Fp16), Fp16) => match output {
            Int8 => Real::Int8,
            Int16 => Real::Int16,
            Fp16 => Real::Fp16,
        },
        // Table 30: int16 to and from both others; int8 and fp16 not into one another.
        (Layer::Sdp, Input::Feature(Int8), Int8 | Int16) | (Layer::Sdp, Input::Feature(Int16), _) => Real::Int32,
        (Layer::Sdp, Input::Feature(Fp16), Int16 | Fp16) => Real::Fp32,
        _ => return Err(Invalid { layer, input, output }),
    };
    let weight = match layer {
        Layer::Convolution => Some(output),
        Layer::Sdp | Layer::Lrn | Layer::Pooling => None,
    };
    Ok(Pipeline { real, weight })
}

/// A unit that reads fp16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// The convolution pipeline in direct or image mode.
    Convolution,
    /// The convolution pipeline in Winograd mode.
    Winograd,
    /// SDP.
    Sdp,
    /// CDP.
    Cdp,
    /// PDP averaging.
    PdpAverage,
    /// PDP taking the maximum or minimum.
    PdpMaxMin,
}

/// The magnitude that a unit computes with in place of an infinite input, as the bits of an fp32; `None` where it stays
/// infinite.
pub const fn infinity(unit: Unit) -> Option<u32> {
    match unit {
        Unit::Convolution => Some(0x4780_0000),            // 65536
        Unit::Winograd => Some(0x477f_e000),               // 65504
        Unit::Sdp => Some(0x7f7f_ffff),                    // 3.40282e+38
        Unit::Cdp | Unit::PdpAverage => Some(0x4f7f_e000), // 4292870144
        Unit::PdpMaxMin => None,
    }
}

/// The smallest and largest value that a saturating output holds; for fp16, its bits.
pub const fn saturation(precision: Precision) -> (i32, i32) {
    match precision {
        Precision::Int8 => (-128, 127),
        Precision::Int16 => (-32768, 32767),
        Precision::Fp16 => (0xfbff, 0x7bff), // -65504, 65504
    }
}

/// Whether these bits are an fp16 NaN, which padding must never be.
pub const fn is_nan(fp16: u16) -> bool {
    fp16 & 0x7fff > 0x7c00
}

/// The processing precision of SDP operands: a layer that converts between int8 and int16 processes int8.
pub const fn processing(input: Precision, output: Precision) -> Precision {
    match (input, output) {
        (Precision::Int8, Precision::Int16) | (Precision::Int16, Precision::Int8) => Precision::Int8,
        (input, _) => input,
    }
}
