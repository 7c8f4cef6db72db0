// SPDX-License-Identifier: MIT OR Apache-2.0

//! Weights: one cell per run of elements of one kernel, and one row per scan over the kernels of a group.

use std::error::Error;

use clap::Args;
use nvdla_uapi::config::Config;
use nvdla_uapi::layout::weight::{self, Geometry, Groups, PostExtension, Surfaces};
use nvdla_uapi::layout::{Extents, Index, Layout};

use super::picture::{Cell, Picture, Row};
use super::precision::PrecisionName;

#[derive(Args, Debug)]
struct Shape {
    #[arg(long, default_value_t = 32)]
    kernels: u32,
    #[arg(long, default_value_t = 64)]
    channels: u32,
    /// Rows of a kernel (R)
    #[arg(long, default_value_t = 3)]
    height: u32,
    /// Columns of a kernel (S)
    #[arg(long, default_value_t = 3)]
    width: u32,
    #[arg(long, value_enum, default_value = "int8")]
    precision: PrecisionName,
    /// The hardware configuration, as nv_small
    #[arg(long, default_value = "nv_full")]
    config: String,
}

impl Shape {
    fn extents(&self) -> Extents {
        Extents::new(self.kernels, self.channels, self.height, self.width)
    }

    fn geometry(&self) -> Result<Geometry, String> {
        let config = Config::named(&self.config).map_err(|error| error.to_string())?;
        Ok(Geometry::of(config, self.precision.into()))
    }

    fn title(&self, what: &str) -> String {
        let Self { kernels, channels, height, width, precision, config, .. } = self;
        format!("{what}: {kernels} kernels of {width}x{height}x{channels}, {precision:?}, {config}")
    }
}

#[derive(Args, Debug)]
pub(super) struct Direct {
    #[command(flatten)]
    shape: Shape,
}

#[derive(Args, Debug)]
pub(super) struct Image {
    #[command(flatten)]
    shape: Shape,
    /// Lines that share a small cube: 1, 2 or 4
    #[arg(long, default_value_t = 1)]
    post_extension: u32,
}

#[derive(Args, Debug)]
pub(super) struct Winograd {
    #[command(flatten)]
    shape: Shape,
    #[arg(long, default_value_t = 1)]
    stride_x: u32,
    #[arg(long, default_value_t = 1)]
    stride_y: u32,
}

#[derive(Args, Debug)]
pub(super) struct Deconvolution {
    #[command(flatten)]
    shape: Shape,
    #[arg(long, default_value_t = 2)]
    stride_x: u32,
    #[arg(long, default_value_t = 2)]
    stride_y: u32,
}

#[derive(Args, Debug)]
pub(super) struct Compressed {
    #[command(flatten)]
    shape: Shape,
    /// Weights that are zero, in percent
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=100))]
    zeros: u32,
}

/// `first` or `first-last`.
fn range(first: u32, last: u32) -> String {
    if first == last {
        format!("{first}")
    } else {
        format!("{first}-{last}")
    }
}

/// Rows of a mapping. Elements for which `together` is equal are one cell; `text` names it from its first and last
/// element. A kernel that does not follow the previous one begins a row, which `label` names.
fn rows<L: Layout, K: PartialEq>(
    layout: L,
    together: impl Fn(Index) -> K,
    text: impl Fn(Index, Index) -> String,
    label: impl Fn(Index) -> String,
    separated: impl Fn(Index, Index) -> bool,
) -> Vec<Row> {
    let mut runs: Vec<(u64, Index, Index)> = Vec::new();
    for (at, index) in layout.elements() {
        match runs.last_mut() {
            Some((_, _, last)) if together(*last) == together(index) => *last = index,
            _ => runs.push((at, index, index)),
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut before: Option<Index> = None;
    for (at, first, last) in runs {
        let cell = Cell::new(text(first, last), first.n as usize);
        match rows.last_mut() {
            Some(row) if before.is_some_and(|before| first.n > before.n && !separated(before, first)) => {
                row.cells.push(cell);
            }
            _ => {
                let row = Row::new(format!("{at:#07x} {}", label(first)), vec![cell]);
                let is_separate = before.is_some_and(|before| separated(before, first));
                rows.push(if is_separate { row.separated() } else { row });
            }
        }
        before = Some(last);
    }
    rows
}

/// A last cell for what fills up the end.
fn end_padding(rows: &mut [Row], mapped: u64, size: u64) {
    if let (Some(row), true) = (rows.last_mut(), size > mapped) {
        row.cells.push(Cell::padding(format!("+{} B", size - mapped)));
    }
}

fn sizes(geometry: Geometry, mapped: u64, size: u64) -> String {
    format!(
        "groups of {} kernels, small cubes of {} channels; {mapped} bytes, padded to a multiple of {} at the end: {size}",
        geometry.group_kernels, geometry.cube_channels, geometry.alignment
    )
}

pub(super) fn direct(arguments: &Direct) -> Result<Picture, Box<dyn Error>> {
    let geometry = arguments.shape.geometry()?;
    let layout = weight::Direct::new(arguments.shape.extents(), geometry)?;
    let group = |at: Index| geometry.group_of(at.n);
    let mut rows = rows(
        layout,
        |at| (at.n, geometry.cube_of(at.c), at.h, at.w),
        |first, _| format!("k{}", first.n),
        |first| {
            let last = layout.extents().c.min(first.c + geometry.cube_channels) - 1;
            format!("group {} c{} r{} s{}", group(first), range(first.c, last), first.h, first.w)
        },
        |before, first| group(before) != group(first) || geometry.cube_of(before.c) != geometry.cube_of(first.c),
    );
    end_padding(&mut rows, layout.mapped_bytes(), layout.size());
    Ok(Picture {
        title: arguments.shape.title("Direct weights"),
        notes: vec![
            "a cell is a small cube 1x1xC'; order in memory: C' (in the cube), K, W (s), H (r), C, group".into(),
            sizes(geometry, layout.mapped_bytes(), layout.size()),
        ],
        rows,
    }
    .shortened())
}

pub(super) fn image(arguments: &Image) -> Result<Picture, Box<dyn Error>> {
    let geometry = arguments.shape.geometry()?;
    let lines = arguments.post_extension;
    let layout = weight::Image::new(arguments.shape.extents(), geometry, PostExtension::from_lines(lines)?)?;
    let extended = layout.pre_extended().extents();
    let channel = |at: Index| layout.extended_channel(at.c, at.w);
    let group = |at: Index| geometry.group_of(at.n);
    let mut rows = rows(
        layout,
        |at| (at.n, geometry.cube_of(channel(at)), at.h),
        |first, last| {
            let columns = range(first.w, last.w);
            if lines == 1 {
                format!("k{} s{columns}", first.n)
            } else {
                format!("k{} r{} s{columns}", first.n, first.h)
            }
        },
        |first| {
            let last = (extended.h - 1).min(first.h + lines - 1);
            let until = extended.c.min(channel(first) + geometry.cube_channels) - 1;
            format!("group {} r{} C{}", group(first), range(first.h, last), range(channel(first), until))
        },
        |before, first| {
            // Combined lines are in one row.
            group(before) != group(first) || (lines > 1 && before.h / lines != first.h / lines)
        },
    );
    // Combined lines of one kernel follow one another: put what `rows` broke there into one row again.
    if lines > 1 {
        let mut joined: Vec<Row> = Vec::new();
        for row in rows {
            match joined.last_mut() {
                Some(last) if !row.separated => last.cells.extend(row.cells),
                _ => joined.push(row),
            }
        }
        rows = joined;
    }
    end_padding(&mut rows, layout.mapped_bytes(), layout.size());
    Ok(Picture {
        title: format!("{}, post-extension {lines}", arguments.shape.title("Image weights")),
        notes: vec![
            format!(
                "pre-extension: a line of {} columns x {} channels becomes {} channels (C) of one column; a cell is those \
                 of a kernel's line (r)",
                layout.extents().w,
                layout.extents().c,
                extended.c
            ),
            format!("post-extension: {lines} lines share a small cube; lines that do not fill the last are not padded"),
            sizes(geometry, layout.mapped_bytes(), layout.size()),
        ],
        rows,
    }
    .shortened())
}

pub(super) fn winograd(arguments: &Winograd) -> Result<Picture, Box<dyn Error>> {
    let geometry = arguments.shape.geometry()?;
    let layout = weight::Winograd::new(arguments.shape.extents(), arguments.stride_x, arguments.stride_y, geometry)?;
    let group = |at: Index| geometry.group_of(at.n);
    let mut rows = rows(
        layout,
        |at| (at.n, at.c / 4),
        |first, _| format!("k{}", first.n),
        |first| format!("group {} c{} 4x4", group(first), range(first.c, first.c + 3)),
        |before, first| group(before) != group(first),
    );
    end_padding(&mut rows, layout.mapped_bytes(), layout.size());
    let sources: Vec<String> = (0..arguments.stride_x * arguments.stride_y)
        .filter_map(|position| {
            let first = position * layout.padded_channels();
            let at = |y, x| layout.source(first, y, x).map_or("zero".into(), |(_, r, s)| format!("r{r}s{s}"));
            (position < 4).then(|| format!("C{first}: {} {} {} / {} …", at(0, 0), at(0, 1), at(0, 2), at(1, 0)))
        })
        .collect();
    Ok(Picture {
        title: arguments.shape.title("Winograd weights"),
        notes: vec![
            format!(
                "channels {} -> {} (multiple of 32 bytes) -> {} (strides {} x {}); kernels become 3x3, then 4x4 by G W G^T",
                layout.original().c,
                layout.padded_channels(),
                layout.extended_channels(),
                arguments.stride_x,
                arguments.stride_y
            ),
            format!("first 3x3 places of the extended channels come from: {}", sources.join("; ")),
            format!(
                "a cell is a 4x4x4 cube of {} bytes (channel fastest, then column, row); order: K, C, group; {} bytes",
                layout.cube_bytes(),
                layout.size()
            ),
        ],
        rows,
    }
    .shortened())
}

pub(super) fn deconvolution(arguments: &Deconvolution) -> Result<Picture, Box<dyn Error>> {
    let geometry = arguments.shape.geometry()?;
    let (x, y) = (arguments.stride_x, arguments.stride_y);
    let layout = weight::Deconvolution::new(arguments.shape.extents(), x, y, geometry)?;
    let set = |at: Index| layout.split(at.h, at.w).0;
    let rows = rows(
        layout,
        |at| (at.n, geometry.cube_of(at.c), at.h, at.w),
        |first, _| format!("k{}", first.n),
        |first| {
            let (set, r, s) = layout.split(first.h, first.w);
            format!("set {set} r{r} s{s} (kernel r{} s{}) c{}", first.h, first.w, first.c)
        },
        |before, first| set(before) != set(first),
    );
    let of_set = layout.set().extents();
    Ok(Picture {
        title: format!("{}, strides {x} x {y}", arguments.shape.title("Deconvolution weights")),
        notes: vec![
            format!(
                "{} sets of {}x{} kernels, each as direct weights of {} bytes; rows that are all zero are not drawn",
                layout.sets(),
                of_set.w,
                of_set.h,
                layout.set().size()
            ),
            "set (y, x) takes every stride-th row from y and column from x".into(),
        ],
        rows,
    }
    .shortened())
}

pub(super) fn compressed(arguments: &Compressed) -> Result<Picture, Box<dyn Error>> {
    let geometry = arguments.shape.geometry()?;
    let layout = weight::Direct::new(arguments.shape.extents(), geometry)?;
    let bytes = layout.element_bytes() as usize;
    let compressed = weight::Compressed::new(layout);
    // Weights numbered from 1, of which the given part is zero.
    let mut mapped = vec![0u8; usize::try_from(layout.size())?];
    let mut state = 1u32;
    for (index, weight) in mapped[..usize::try_from(layout.mapped_bytes())?].chunks_mut(bytes).enumerate() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 16 >= arguments.zeros * 656 {
            weight[0] = (index % 255 + 1) as u8;
        }
    }
    let sizes = [compressed.max_size(), compressed.wmb_size(), compressed.wgs_size()];
    let [mut data, mut wmb, mut wgs] = sizes.map(|size| vec![0u8; size as usize]);
    let used = compressed.compress(&mapped, Surfaces { weights: &mut data, wmb: &mut wmb, wgs: &mut wgs })?;
    let mut rows = Vec::new();
    let (mut element, mut kept) = (0u64, 0usize);
    for group in 0..layout.groups() {
        let count = layout.group_elements(group);
        let values = (element..element + count).map(|index| {
            let value = mapped[index as usize * bytes];
            if value == 0 {
                Cell::padding("0")
            } else {
                Cell::new(value.to_string(), group as usize)
            }
        });
        rows.push(Row::new(format!("mapped, group {group}"), values.collect()).separated());
        let bits = (element..element + count).map(|index| {
            let (byte, bit) = compressed.mask_bit(index * bytes as u64);
            let set = wmb[byte as usize] >> bit & 1;
            if set == 1 {
                Cell::new("1", group as usize)
            } else {
                Cell::padding("0")
            }
        });
        let (byte, _) = compressed.mask_bit(element * bytes as u64);
        rows.push(Row::new(format!("WMB {byte:#05x}"), bits.collect()));
        let size = u32::from_le_bytes(wgs[group as usize * 4..][..4].try_into()?) as usize;
        let remaining =
            data[kept..kept + size].chunks(bytes).map(|weight| Cell::new(weight[0].to_string(), group as usize));
        rows.push(Row::new(format!("weights {kept:#05x}"), remaining.collect()));
        let at = group * 4;
        rows.push(Row::new(format!("WGS {at:#05x}"), vec![Cell::new(format!("{size} bytes"), group as usize)]));
        element += count;
        kept += size;
    }
    Ok(Picture {
        title: arguments.shape.title("Compressed weights"),
        notes: vec![
            "WMB: a bit per element, least significant first; weights: those that are not zero; WGS: 32 bits per group".into(),
            format!(
                "bytes, each padded to a multiple of 128: weights {kept} -> {}, WMB {} -> {}, WGS {} -> {} (mapped: {})",
                used.weights,
                element.div_ceil(8),
                used.wmb,
                layout.groups() * 4,
                used.wgs,
                layout.size()
            ),
        ],
        rows,
    }
    .shortened())
}
