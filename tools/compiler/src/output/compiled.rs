// SPDX-License-Identifier: MIT OR Apache-2.0

//! A compiled network.

use nvdla_runtime::Cancel;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::Lut;

use super::layout::Layout;
use super::report::Report;
use crate::net::step::Net;
use crate::numbers::quantizer::{Numbers, Scale};
use crate::options::Bytes;

/// A compiled network.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The loadable's bytes.
    pub loadable: Vec<u8>,
    /// The report of the compilation.
    pub report: Report,
    /// The steps with their numbers, for [`crate::evaluate::integers`].
    pub steps: Lowered,
    /// The configuration.
    pub config: &'static Config,
    /// For each input that is given as bytes, the conversion from bytes to elements.
    pub bytes: Vec<Bytes>,
    /// The places of tensors in memory, for [`crate::evaluate::measure`].
    pub layout: Layout,
    /// Estimated cycles after operations that are not known, for a part of a network.
    pub(crate) cycles_of_part: u64,
    /// Ends runs of the network on the model.
    pub(crate) cancel: Cancel,
}

/// The steps of a network with their numbers.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The steps.
    pub net: Net,
    /// The numbers of each step.
    pub numbers: Vec<Numbers>,
    /// Lookup tables.
    pub tables: Vec<Lut>,
    /// The scale of each tensor.
    pub scales: Vec<Scale>,
}
