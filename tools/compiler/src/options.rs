// SPDX-License-Identifier: MIT OR Apache-2.0

//! The options of a compilation, which the program, the library and the Python package share.

use std::collections::HashSet;

use nvdla_estimate::Conditions;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

use crate::ir::{self, Preprocess};
use crate::quantize::Granularity;

/// The options of a compilation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration.
    pub config: &'static Config,
    /// int8, or fp16 where the configuration has it.
    pub precision: Precision,
    /// With int8: the tensors of the graph whose layers compute in int16, where the configuration has it. Tensors that no layer
    /// of convolution or SDP makes do not count.
    pub wide: HashSet<ir::TensorId>,
    /// Whether each kernel's weights have a scale of their own.
    pub granularity: Granularity,
    /// For each input of the graph that is given as bytes, its preprocessing. None for an input that is given as integers with a
    /// scale, which the loadable names (`nvdla_runtime::session::Session::set_input_f32`).
    pub inputs: Vec<Option<Preprocess>>,
    /// In int8, how many bits of a picture's bytes are used.
    pub bytes: Bytes,
    /// When convolutions run in Winograd's mode. None: in fp16 if it takes less time, and never in int8, where it reduces
    /// accuracy.
    pub winograd: Option<Winograd>,
    /// The names of the outputs of the only convolutions that may run in Winograd's mode. None: all.
    pub fast: Option<HashSet<String>>,
    /// In int8, what the results of a softmax are that are outputs of the network.
    pub shares: Shares,
    /// What the order of operations is chosen for.
    pub optimize: Optimize,
    /// Bytes of the device's SRAM in which tensors may lie, where the configuration has a memory interface for it; 0 for none.
    pub sram: u64,
    /// The clock, the memories and the bus of the board, by which times are estimated.
    pub conditions: Conditions,
    /// Pictures that a run computes; at least 1.
    pub pictures: u32,
    /// Whether [`crate::output::compiled::Compiled`] has the numbers of the steps, with the weights. The loadable has them in any case.
    pub numbers: bool,
}

/// What the order of operations is chosen for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimize {
    /// Time: a convolution is divided into bands of lines, whose input is fetched during the band before, where that takes less
    /// time. With SRAM, runs of steps are computed in bands, too, where that takes less time.
    #[default]
    Time,
    /// The loadable's size: each step is computed as a whole.
    Size,
    /// The same bands as for time, but as many as possible. For tests.
    Prefetch,
    /// The memory of activations: runs of steps are computed in bands of lines, as long as the pool's relative reduction is at
    /// least twice the relative increase of the time.
    Memory,
    /// The least time with a pool of at most this many bytes, else the smallest pool.
    Pool(u64),
}

impl Options {
    /// int8, a scale per kernel, no input given as bytes.
    pub fn new(config: &'static Config) -> Self {
        Self {
            config,
            precision: Precision::Int8,
            wide: HashSet::new(),
            granularity: Granularity::Kernel,
            inputs: Vec::new(),
            bytes: Bytes::default(),
            winograd: None,
            fast: None,
            shares: Shares::default(),
            optimize: Optimize::default(),
            sram: 0,
            conditions: Conditions::default(),
            pictures: 1,
            numbers: true,
        }
    }
}

/// The conversion from a picture's byte to an element of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bytes {
    /// Integers from 0 to 127, as NVIDIA's runtime writes them.
    #[default]
    Seven,
    /// The byte itself.
    Eight,
    /// The byte in half precision.
    Half,
}

impl Bytes {
    pub(crate) fn per_byte(self) -> f64 {
        match self {
            Self::Seven => 127.0 / 255.0,
            Self::Eight | Self::Half => 1.0,
        }
    }

    /// The element's value.
    pub fn element(self, byte: u8) -> f32 {
        match self {
            Self::Seven => f32::from(crate::quantize::image_value(byte)),
            Self::Eight | Self::Half => f32::from(byte),
        }
    }
}

/// What the results of a softmax are that are outputs of an int8 network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shares {
    /// Numbers in half precision.
    #[default]
    Half,
    /// Integers in steps of 1/127. NVIDIA's runtime computes only these.
    Int8,
}

/// When convolutions run in Winograd's mode, if the configuration has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Winograd {
    /// Never.
    Never,
    /// If it takes less time.
    Faster,
    /// Whenever it is possible.
    Always,
}

/// Reads a number of bytes: a number, or one with K (1,024) or M (1,048,576).
///
/// # Errors
///
/// When the text is none of these, or the number exceeds 64 bits.
pub fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.split_at(text.len() - usize::from(text.ends_with(['K', 'M']))) {
        (number, "K") => (number, 1 << 10),
        (number, "M") => (number, 1 << 20),
        (number, _) => (number, 1),
    };
    let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(unit));
    bytes.ok_or_else(|| format!("{text:?} is not a number of bytes, such as 65536, 512K or 1M"))
}
