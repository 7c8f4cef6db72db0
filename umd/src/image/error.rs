// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of pictures.

use std::path::PathBuf;

/// Why a picture cannot be converted to a tensor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the image {path}: {cause}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The file is not a picture that can be decoded.
    #[error("{path} is not a pgm, ppm, png or jpeg image that can be decoded: {cause}", path = path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// What the decoder says.
        cause: image::ImageError,
    },
    /// The file ends within the picture.
    #[error("{path} ends within the picture, after {bytes} bytes", path = path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes that it has.
        bytes: usize,
    },
    /// The picture has no pixels.
    #[error("{path} has {width} x {height} pixels", path = path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// The picture is transparent, and no background was given.
    #[error("{path} has transparent parts; the option background gives the colour behind them", path = path.display())]
    Transparent {
        /// The file.
        path: PathBuf,
    },
    /// The sizes differ.
    #[error(
        "the image has {got_width} x {got_height} pixels and the input tensor {tensor:?} {width} x {height}; \
         the option resize scales it"
    )]
    Size {
        /// The tensor's name.
        tensor: String,
        /// The picture's width.
        got_width: u32,
        /// The picture's height.
        got_height: u32,
        /// The tensor's width.
        width: u32,
        /// The tensor's height.
        height: u32,
    },
    /// The tensor has a size that no picture has.
    #[error(
        "the input tensor {tensor:?} has {value} {what}, but a picture fills 1 to {most}; it can be filled with raw bytes"
    )]
    Shape {
        /// The tensor's name.
        tensor: String,
        /// Channels, lines, pixels per line.
        what: &'static str,
        /// How many.
        value: i64,
        /// The most that a picture can have.
        most: u32,
    },
    /// A coloured picture for a tensor of two channels.
    #[error("the image has 3 channels and the input tensor {tensor:?} 2; it can be filled with raw bytes")]
    TwoChannels {
        /// The tensor's name.
        tensor: String,
    },
    /// The format is not one that pictures can be written in.
    #[error(
        "a picture cannot be written to the input tensor {tensor:?}, whose pixel format is {format} of {data_type}"
    )]
    Format {
        /// The tensor's name.
        tensor: String,
        /// Its pixel format.
        format: String,
        /// Its type of elements.
        data_type: String,
    },
    /// The tensor's strides break the layout's rules.
    #[error("the input tensor {tensor:?}: {cause}")]
    Layout {
        /// The tensor's name.
        tensor: String,
        /// The rule.
        cause: nvdla_uapi::layout::Error,
    },
    /// The tensor is smaller than its strides say.
    #[error("the input tensor {tensor:?} has {got} bytes, but its lines need {needed}")]
    Bytes {
        /// The tensor's name.
        tensor: String,
        /// Bytes that it has.
        got: usize,
        /// Bytes that its lines need.
        needed: u64,
    },
    /// The caller contradicts what the loadable says of its pictures.
    #[error(
        "the {what} {given} is given for the input tensor {tensor:?}, but the network was compiled for the {what} {known}, \
         which is in the loadable and need not be given"
    )]
    Contradiction {
        /// The tensor's name.
        tensor: String,
        /// Mean, divisor, order of channels.
        what: &'static str,
        /// What the caller says.
        given: String,
        /// What the loadable says.
        known: String,
    },
    /// The divisor is zero or not a number.
    #[error("normalize is {0}; samples cannot be divided by it")]
    Normalize(f32),
}
