// SPDX-License-Identifier: MIT OR Apache-2.0

//! Feature cubes: one row per line of a surface, and one cell per atom.

use std::error::Error;

use clap::Args;
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::{Extents, Layout};

use super::picture::{Cell, Picture, Row};
use super::precision::PrecisionName;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[arg(long, default_value_t = 5)]
    width: u32,
    #[arg(long, default_value_t = 4)]
    height: u32,
    #[arg(long, default_value_t = 40)]
    channels: u32,
    #[arg(long, default_value_t = 1)]
    batches: u32,
    /// Bytes of an atom: 8, 16 or 32
    #[arg(long, default_value_t = 32)]
    atom: u32,
    #[arg(long, value_enum, default_value = "int8")]
    precision: PrecisionName,
    /// Bytes from one line to the next, if not packed
    #[arg(long)]
    line_stride: Option<u64>,
    /// Bytes from one surface to the next, if not packed
    #[arg(long)]
    surface_stride: Option<u64>,
    /// Bytes from one batch to the next, if not packed
    #[arg(long)]
    cube_stride: Option<u64>,
}

pub(super) fn picture(arguments: &Arguments) -> Result<Picture, Box<dyn Error>> {
    let extents = Extents::new(arguments.batches, arguments.channels, arguments.height, arguments.width);
    let packed = Cube::packed(extents, arguments.precision.into(), arguments.atom)?;
    let line = arguments.line_stride.unwrap_or(packed.line_stride());
    let surface = arguments.surface_stride.unwrap_or(line * u64::from(extents.h));
    let mut cube = Cube::unpacked(extents, arguments.precision.into(), arguments.atom, line, surface)?;
    if let Some(stride) = arguments.cube_stride {
        cube = cube.with_cube_stride(stride)?;
    }
    let atom = u64::from(cube.atom());
    let form = if cube.is_packed() { "packed" } else { "unpacked" };
    let mut lines: Vec<(u64, u32, u32, u32)> = Vec::new();
    for n in 0..extents.n {
        for surface in 0..cube.surfaces() {
            for h in 0..extents.h {
                lines.push((cube.atom_offset_of(n, surface, h, 0), n, surface, h));
            }
        }
    }
    lines.sort_unstable();
    let mut rows = Vec::new();
    for (index, (at, n, surface, h)) in lines.iter().copied().enumerate() {
        let channels = cube.channels_of(surface);
        let (first, last) = (channels.start, channels.end - 1);
        // Atoms that hold other batches' or surfaces' channels have another colour.
        let colour = n as usize * cube.surfaces() as usize + surface as usize;
        let whole = last + 1 - first == cube.atom_elements();
        let mut cells: Vec<Cell> = (0..extents.w)
            .map(|w| {
                let text = format!("w{w} c{first}-{last}{}", if whole { "" } else { "+pad" });
                Cell::new(text, colour)
            })
            .collect();
        let end = at + cube.line_bytes();
        let next = lines.get(index + 1).map_or(cube.span(), |line| line.0);
        let gap = next.saturating_sub(end) / atom;
        cells.extend((0..gap.min(8)).map(|_| Cell::gap()));
        let batch = if extents.n > 1 { format!("n{n} ") } else { String::new() };
        let row = Row::new(format!("{at:#06x} {batch}surface {surface} line {h}"), cells);
        rows.push(if h == 0 && index > 0 { row.separated() } else { row });
    }
    Ok(Picture {
        title: format!("Feature cube {}x{}x{}, {form}", extents.w, extents.h, extents.c),
        notes: vec![
            format!("a cell is an atom of 1x1x{atom} bytes; order in memory: C' (in the atom), W, H, surface"),
            format!(
                "line stride {}, surface stride {}, {} surfaces, {} bytes; hatched: gaps of a stride",
                cube.line_stride(),
                cube.surface_stride(),
                cube.surfaces(),
                cube.size()
            ),
        ],
        rows,
    }
    .shortened())
}
