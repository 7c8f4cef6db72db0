// SPDX-License-Identifier: MIT OR Apache-2.0

//! The names of precisions for options.

use clap::ValueEnum;
use nvdla_uapi::reg::values::Precision;

/// Precisions by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PrecisionName {
    /// 8-bit integers.
    Int8,
    /// 16-bit integers.
    Int16,
    /// Half precision.
    Fp16,
}

impl From<PrecisionName> for Precision {
    fn from(name: PrecisionName) -> Self {
        match name {
            PrecisionName::Int8 => Self::Int8,
            PrecisionName::Int16 => Self::Int16,
            PrecisionName::Fp16 => Self::Fp16,
        }
    }
}
