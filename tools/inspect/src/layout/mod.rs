// SPDX-License-Identifier: MIT OR Apache-2.0

//! Drawings of data layouts: the positions of elements in memory, for a shape that the user gives.
//!
//! Every address comes from `nvdla_uapi::layout`; only the positions in the drawing are computed here. A [`picture::Picture`] is
//! rows of cells in memory order, drawn as text for a terminal or as an SVG.

mod feature;
mod operand;
pub mod picture;
mod pixel;
mod precision;
mod svg;
mod tpu;
mod weight;

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use nvdla_runtime::{files, program};

use picture::Picture;

/// The options of `nvdla_inspect layout`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The layout
    #[command(subcommand)]
    kind: Kind,
    /// Write an SVG to this file (`-` for standard output) instead of printing text
    #[arg(long, global = true, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Kind {
    /// A feature cube: atoms, lines, surfaces, strides
    Feature(feature::Arguments),
    /// An image's pixels and components
    Pixel(pixel::Arguments),
    /// Weights for direct convolution
    Direct(weight::Direct),
    /// Weights for image input, with pre- and post-extension
    Image(weight::Image),
    /// Weights for Winograd convolution
    Winograd(weight::Winograd),
    /// Weights for deconvolution, split into sets
    Deconvolution(weight::Deconvolution),
    /// Compressed weights: mask, group sizes, remaining weights
    Compressed(weight::Compressed),
    /// SDP operands: bias, PReLU, batch normalisation, element-wise
    Operand(operand::Arguments),
    /// Tensors in a TPU's local memory
    Tpu {
        /// The layout
        #[command(subcommand)]
        kind: tpu::Kind,
    },
}

/// Draws a layout; an error names the rule that the shape violates.
pub fn picture(arguments: &Arguments) -> Result<Picture, Box<dyn Error>> {
    match &arguments.kind {
        Kind::Feature(arguments) => feature::picture(arguments),
        Kind::Pixel(arguments) => pixel::picture(arguments),
        Kind::Direct(arguments) => weight::direct(arguments),
        Kind::Image(arguments) => weight::image(arguments),
        Kind::Winograd(arguments) => weight::winograd(arguments),
        Kind::Deconvolution(arguments) => weight::deconvolution(arguments),
        Kind::Compressed(arguments) => weight::compressed(arguments),
        Kind::Operand(arguments) => operand::picture(arguments),
        Kind::Tpu { kind } => tpu::picture(kind),
    }
}

/// The SVG of a drawing.
pub fn svg(picture: &Picture) -> String {
    svg::Svg(picture).to_string()
}

/// Draws a layout to the file or terminal that the arguments select.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let picture = picture(arguments)?;
    match &arguments.svg {
        None => {
            let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            Ok(program::print(&picture.text(colour))?)
        }
        Some(path) if path.as_os_str() == "-" => Ok(program::print(&svg(&picture))?),
        Some(path) => {
            let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
            Ok(files::write(path, svg(&picture)).map_err(failed)?)
        }
    }
}
