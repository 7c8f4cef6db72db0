// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images: one row per line of a plane, and one cell per component of a pixel, lowest bits first.

use std::error::Error;

use clap::Args;
use nvdla_uapi::layout::pixel::{Format, Image};
use nvdla_uapi::reg::values::PixelFormat;

use super::picture::{Cell, Picture, Row};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The format's name, such as T_A8B8G8R8
    #[arg(long, default_value = "T_A8B8G8R8")]
    format: String,
    #[arg(long, default_value_t = 6)]
    width: u32,
    #[arg(long, default_value_t = 2)]
    height: u32,
    /// Pixels from the aligned start to the first one
    #[arg(long, default_value_t = 0)]
    x_offset: u32,
    /// Bytes from one line to the next; the least possible if not given
    #[arg(long)]
    line_stride: Option<u64>,
    /// The same for the chroma plane
    #[arg(long)]
    uv_line_stride: Option<u64>,
    /// Bytes to which addresses and strides are aligned
    #[arg(long, default_value_t = 32)]
    alignment: u32,
}

/// The format of that name.
fn find(name: &str) -> Result<PixelFormat, String> {
    let mut formats = PixelFormat::ALL.iter().copied();
    formats.find(|format| Format::new(*format).name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let names: Vec<&str> = PixelFormat::ALL.iter().map(|format| Format::new(*format).name).collect();
        format!("there is no pixel format {name}; there are {}", names.join(", "))
    })
}

pub(super) fn picture(arguments: &Arguments) -> Result<Picture, Box<dyn Error>> {
    let Arguments { width, height, x_offset, alignment, .. } = *arguments;
    let format = find(&arguments.format)?;
    let tight = Image::packed(format, width, height, x_offset, alignment)?;
    let strides = [
        arguments.line_stride.unwrap_or(tight.line_stride(0)),
        arguments.uv_line_stride.unwrap_or(tight.line_stride(1)),
    ];
    let image = Image::unpacked(format, width, height, x_offset, alignment, strides)?;
    let format = image.format();
    let names: Vec<char> = if format.name.contains('Y') { vec!['Y', 'U', 'V', 'A'] } else { vec!['R', 'G', 'B', 'A'] };
    let mut rows = Vec::new();
    for plane in 0..format.planes {
        let bytes = u64::from(format.bytes_per_pixel[plane as usize]);
        let mut components: Vec<_> =
            format.components().iter().enumerate().filter(|(_, it)| u32::from(it.plane) == plane).collect();
        components.sort_by_key(|(_, component)| component.lsb);
        for h in 0..height {
            let mut cells = Vec::new();
            let first = image.first_pixel(plane);
            cells.extend((0..first / bytes).map(|_| Cell::gap()));
            for w in 0..width {
                for (channel, component) in &components {
                    cells.push(Cell::new(format!("{}{w}:{}", names[*channel], component.bits), *channel));
                }
            }
            let end = image.pixel_offset(plane, h, width) - image.line_offset(plane, h);
            let rest =
                if h + 1 < height { image.line_stride(plane) } else { image.span(plane) - image.line_offset(plane, h) };
            cells.extend((0..((rest - end) / bytes).min(8)).map(|_| Cell::padding("")));
            let row = Row::new(format!("plane {plane} {:#05x} line {h}", image.line_offset(plane, h)), cells);
            rows.push(if h == 0 && plane > 0 { row.separated() } else { row });
        }
    }
    Ok(Picture {
        title: format!("Pixels {} {width}x{height}", format.name),
        notes: vec![
            "a cell is a component, lowest bits first: its pixel and its bits; hatched: pixels before the x offset"
                .into(),
            format!(
                "{} bytes per pixel, x offset {x_offset} of at most {}, line stride {}{}",
                format.bytes_per_pixel.iter().filter(|it| **it > 0).map(u32::to_string).collect::<Vec<_>>().join(" + "),
                image.max_x_offset(),
                image.line_stride(0),
                if format.planes == 2 {
                    format!(", chroma line stride {}", image.line_stride(1))
                } else {
                    String::new()
                }
            ),
        ],
        rows,
    }
    .shortened())
}
