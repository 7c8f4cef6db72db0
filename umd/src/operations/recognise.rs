// SPDX-License-Identifier: MIT OR Apache-2.0

//! The configuration for which a loadable was compiled.
//!
//! This project's compiler writes the configuration's name into the loadable; NVIDIA's does not. For NVIDIA's loadables the
//! descriptors show it: the size of an atom, precisions and units that only nv_full has, and how many entries of the convolution
//! buffer a line of input takes (entries have 128 bytes in nv_full, and 64 in the later configurations). If several
//! configurations match, the smallest is chosen.

use std::fmt;

use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};
use nvdla_uapi::desc::{ConvOp, ConvSurface, DataCube, DataFormat, MemoryType, Operation, Surface};
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::layout::pixel::Format;
use nvdla_uapi::reg::values::{ConvMode, Precision, WeightFormat};

use super::list::{operations, NetworkOperation};
use crate::loadable::{Loadable, PixelFormat};

/// A configuration, and how it was recognised.
#[derive(Clone, Debug)]
pub struct Recognised {
    /// The configuration.
    pub config: &'static Config,
    /// The evidence in the loadable.
    pub why: String,
}

impl fmt::Display for Recognised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.config.name, self.why)
    }
}

/// The configuration that a loadable was compiled for.
///
/// ```no_run
/// use nvdla_runtime::{device, loadable::Loadable};
///
/// let loadable = Loadable::open("lenet.nvdla")?;
/// // "nv_small (tensor "prob" is FEATURE_X8: atoms of 8 bytes)"
/// println!("{}", device::recognise(&loadable));
/// # Ok::<(), nvdla_runtime::loadable::Error>(())
/// ```
pub fn recognise(loadable: &Loadable) -> Recognised {
    let is = |config, why| Recognised { config, why };
    let named = loadable.names().and_then(|names| names.configuration);
    if let Some(config) = named.as_deref().and_then(Config::by_name) {
        return is(config, "its compiler has named it".into());
    }
    for memory in loadable.inputs().chain(loadable.outputs()) {
        let Some(tensor) = loadable.tensor(memory.tensor_desc_id()) else { continue };
        if tensor.pixel_format() == PixelFormat::FEATURE_X8 {
            return is(&NV_SMALL, format!("tensor {:?} is FEATURE_X8: atoms of 8 bytes", tensor.name()));
        }
    }
    let mut evidence = Evidence::default();
    // Descriptors that cannot be read are ignored here; running the loadable will report the error.
    for operation in operations(loadable).unwrap_or_default() {
        look_at(&operation, &mut evidence);
    }
    let Evidence { small, full, large } = evidence;
    match (small, full, large) {
        (Some(why), _, _) => is(&NV_SMALL, why),
        (None, Some(why), _) => is(&NV_FULL, why),
        (None, None, Some(why)) => is(&NV_LARGE, why),
        (None, None, None) => is(&NV_LARGE, UNDECIDED.into()),
    }
}

/// The reason for choosing nv_large when no operation decides between it and nv_full.
const UNDECIDED: &str = "int8 in atoms of 32 bytes, and nothing that only nv_full has";

/// The evidence for a configuration: the first reason found.
#[derive(Default)]
struct Evidence {
    small: Option<String>,
    full: Option<String>,
    large: Option<String>,
}

/// The evidence of an operation.
fn look_at(operation: &NetworkOperation, evidence: &mut Evidence) {
    let at = |what: &str| format!("operation {} ({}) {what}", operation.index, operation.unit);
    let (surface, operation) = (&operation.surface, &operation.operation);
    if let Some(what) = only_full(operation) {
        evidence.full.get_or_insert_with(|| at(what));
    }
    for cube in feature_cubes(operation, surface) {
        if cube.mem_type != MemoryType::Hw && cube.line_stride > 0 && is_narrow(&cube) {
            let (width, stride) = (cube.width, cube.line_stride);
            let what = format!("has lines of {width} elements {stride} bytes apart: atoms of 8 bytes");
            evidence.small.get_or_insert_with(|| at(&what));
        }
    }
    if let (Operation::Conv(operation), Surface::Conv(surface)) = (operation, surface) {
        let line = line_bytes(operation, surface);
        let entries = u32::from(operation.entry_per_slice);
        if entries * 64 < line {
            let what = format!("takes {entries} entries for a line of {line} bytes: entries of 128 bytes");
            evidence.full.get_or_insert_with(|| at(&what));
        } else if entries > line.div_ceil(128) {
            let what = format!("takes {entries} entries for a line of {line} bytes: entries of 64 bytes");
            evidence.large.get_or_insert_with(|| at(&what));
        }
    }
}

/// A property of the operation that only nv_full supports.
fn only_full(operation: &Operation) -> Option<&'static str> {
    let precision = |precision: Precision| match precision {
        Precision::Int8 => None,
        Precision::Int16 => Some("is in int16"),
        Precision::Fp16 => Some("is in fp16"),
    };
    match operation {
        Operation::Bdma(_) => Some("needs BDMA"),
        Operation::Rubik(_) => Some("needs Rubik"),
        Operation::Conv(conv) if conv.conv_mode == ConvMode::Winograd => Some("is a Winograd convolution"),
        Operation::Conv(conv) if conv.weight_format == WeightFormat::Compressed => Some("has compressed weights"),
        Operation::Conv(conv) => precision(conv.in_precision).or(precision(conv.out_precision)),
        Operation::Sdp(sdp) => precision(sdp.src_precision).or(precision(sdp.dst_precision)),
        Operation::Pdp(pdp) => precision(pdp.precision),
        Operation::Cdp(cdp) => precision(cdp.in_precision).or(precision(cdp.out_precision)),
    }
}

/// The feature cubes among an operation's inputs and outputs.
fn feature_cubes(operation: &Operation, surface: &Surface) -> Vec<DataCube> {
    match (operation, surface) {
        (Operation::Conv(conv), Surface::Conv(surface)) if conv.data_format == DataFormat::Feature => {
            vec![surface.src_data]
        }
        (_, Surface::Sdp(surface)) => vec![surface.src_data, surface.dst_data],
        (_, Surface::Pdp(surface)) => vec![surface.src_data, surface.dst_data],
        (_, Surface::Cdp(surface)) => vec![surface.src_data, surface.dst_data],
        _ => Vec::new(),
    }
}

/// Whether its line stride is too small for atoms of 32 bytes.
fn is_narrow(cube: &DataCube) -> bool {
    Atoms::of_line(cube.width.into(), cube.line_stride, Precision::Int8).is_none_or(|atoms| atoms.bytes() < 32)
}

/// Bytes of a line of a convolution's input in the convolution buffer: all channels, and an image's padding.
fn line_bytes(operation: &ConvOp, surface: &ConvSurface) -> u32 {
    let (width, channels) = (u32::from(surface.src_data.width), u32::from(surface.src_data.channel));
    match operation.data_format {
        // The candidates have atoms of 32 bytes.
        DataFormat::Feature => width * Atoms::of(&NV_FULL, Precision::Int8).filled(channels as usize) as u32,
        DataFormat::Pixel(format) => {
            let padding = u32::from(operation.pad_x_left) + u32::from(operation.pad_x_right);
            Format::new(format).bytes_of(width + padding) as u32
        }
    }
}
