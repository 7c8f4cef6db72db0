// SPDX-License-Identifier: MIT OR Apache-2.0

//! A TPU's local memory: one row per block of a feature in an NPU, and one cell per element.

use std::error::Error;

use clap::{Args, Subcommand};
use nvdla_uapi::layout::tpu::{Local, Matrix, Memory, Mode, Packed, Strides, Usage};
use nvdla_uapi::layout::{Extents, Index, Layout};

use super::picture::{Cell, Picture, Row};

#[derive(Args, Debug)]
pub(super) struct Machine {
    /// NPUs
    #[arg(long, default_value_t = 4)]
    npus: u32,
    /// Bytes of each NPU's local memory
    #[arg(long, default_value_t = 1024)]
    memory: u64,
}

impl Machine {
    fn memory(&self) -> Result<Memory, Box<dyn Error>> {
        Ok(Memory::new(self.npus, self.memory)?)
    }
}

#[derive(Args, Debug)]
pub(super) struct Tensor {
    #[command(flatten)]
    machine: Machine,
    /// The NPU at which the tensor starts
    #[arg(long, default_value_t = 0)]
    start: u32,
    /// Its sizes: N, C, H, W
    #[arg(long, value_delimiter = ',', num_args = 1, default_value = "2,3,4,5")]
    shape: Vec<u32>,
    /// Bytes of an element
    #[arg(long, default_value_t = 4)]
    element: u32,
}

impl Tensor {
    fn extents(&self) -> Result<Extents, Box<dyn Error>> {
        match self.shape[..] {
            [n, c, h, w] => Ok(Extents::new(n, c, h, w)),
            _ => Err(format!("a shape has four sizes, this has {}", self.shape.len()).into()),
        }
    }

    fn address(&self) -> Result<u64, Box<dyn Error>> {
        Ok(self.machine.memory()?.address(self.start, 0)?)
    }
}

#[derive(Subcommand, Debug)]
pub(super) enum Kind {
    /// Where addresses lie
    Address {
        #[command(flatten)]
        machine: Machine,
        /// The addresses
        #[arg(default_values_t = [340, 1472, 2300, 3088])]
        addresses: Vec<u64>,
    },
    /// How features are scattered over NPUs
    Scatter(Tensor),
    /// A tensor with strides
    Strided {
        #[command(flatten)]
        tensor: Tensor,
        /// N, C, H, W strides in elements
        #[arg(long, value_delimiter = ',', num_args = 1, default_value = "120,56,16,2")]
        strides: Vec<u64>,
    },
    /// The 128-byte aligned layout
    Aligned(Tensor),
    /// The compact layout
    Compact(Tensor),
    /// A matrix
    Matrix {
        #[command(flatten)]
        machine: Machine,
        #[arg(long, default_value_t = 2)]
        rows: u32,
        #[arg(long, default_value_t = 40)]
        columns: u32,
        /// Columns of a channel
        #[arg(long, default_value_t = 40)]
        w: u32,
        #[arg(long, default_value_t = 4)]
        element: u32,
    },
    /// Four 8-bit elements along N share 32 bits
    #[command(name = "4n")]
    FourN(Tensor),
    /// Two 16-bit elements along N share 32 bits
    #[command(name = "2n")]
    TwoN(Tensor),
    /// Two fp32 elements along the input channels share 64 bits
    #[command(name = "2ic")]
    TwoIc(Tensor),
}

pub(super) fn picture(kind: &Kind) -> Result<Picture, Box<dyn Error>> {
    match kind {
        Kind::Address { machine, addresses } => address(machine.memory()?, addresses),
        Kind::Scatter(tensor) => scatter(tensor),
        Kind::Strided { tensor, strides } => {
            let [n, c, h, w] = strides[..] else {
                return Err(format!("there are four strides, this has {}", strides.len()).into());
            };
            let strides = Strides { n, c, h, w };
            let memory = tensor.machine.memory()?;
            let local = Local::strided(memory, tensor.address()?, tensor.extents()?, tensor.element, strides)?;
            Ok(blocks(&local, local, "Strides in local memory", |npu| local.usage(npu), name))
        }
        Kind::Aligned(tensor) => {
            let local = Local::aligned(tensor.machine.memory()?, tensor.address()?, tensor.extents()?, tensor.element)?;
            Ok(blocks(&local, local, "128-byte aligned layout", |npu| local.usage(npu), name))
        }
        Kind::Compact(tensor) => {
            let local = Local::compact(tensor.machine.memory()?, tensor.address()?, tensor.extents()?, tensor.element)?;
            Ok(blocks(&local, local, "Compact layout", |npu| local.usage(npu), name))
        }
        Kind::Matrix { machine, rows, columns, w, element } => {
            let matrix = Matrix::new(machine.memory()?, 0, *rows, *columns, *w, *element)?;
            let title = format!("Matrix {rows}x{columns}, W = {w}");
            Ok(blocks(&matrix, matrix.tensor(), &title, |npu| matrix.usage(npu), |at| (at.n, at.w.to_string())))
        }
        Kind::FourN(tensor) => packed(Mode::FourN, "4N-mode", tensor),
        Kind::TwoN(tensor) => packed(Mode::TwoN, "2N-mode", tensor),
        Kind::TwoIc(tensor) => packed(Mode::TwoIc, "2IC-mode", tensor),
    }
}

fn packed(mode: Mode, name: &str, tensor: &Tensor) -> Result<Picture, Box<dyn Error>> {
    let packed = Packed::aligned(mode, tensor.machine.memory()?, tensor.address()?, tensor.extents()?)?;
    let title = format!("{name}, aligned layout, {} dummy elements along N", packed.dummies());
    let wide = packed.wide();
    let text = |at: Index| {
        let first = at.n * mode.lanes();
        let lanes: Vec<String> = (first..first + mode.lanes())
            .map(|n| if n < packed.extents().n { n.to_string() } else { "-".into() })
            .collect();
        (at.n, format!("n{}", lanes.join("")))
    };
    Ok(blocks(&wide, wide, &title, |npu| packed.usage(npu), text))
}

/// How an element of a tensor is named: what colours it, and its text.
fn name(at: Index) -> (u32, String) {
    (at.n + 2 * at.c, format!("{},{}", at.h, at.w))
}

fn address(memory: Memory, addresses: &[u64]) -> Result<Picture, Box<dyn Error>> {
    const BLOCK: u64 = 32;
    let mut rows = Vec::new();
    let mut notes = vec![format!(
        "{} NPUs of {} bytes; a cell is {BLOCK} bytes; A = Q * S + R: NPU Q, offset R",
        memory.npus(),
        memory.bytes()
    )];
    for npu in 0..memory.npus() {
        let mut cells: Vec<Cell> = (0..memory.bytes().div_ceil(BLOCK)).map(|_| Cell::gap()).collect();
        for (index, address) in addresses.iter().enumerate() {
            let (at, offset) = memory.locate(*address)?;
            if at == npu {
                let letter = char::from(b'A' + (index % 26) as u8);
                cells[(offset / BLOCK) as usize] = Cell::new(letter, index);
                notes.push(format!("{letter} = {address}: NPU {npu}, offset {offset}"));
            }
        }
        rows.push(Row::new(format!("NPU {npu}"), cells));
    }
    Ok(Picture { title: "Addresses in local memory".into(), notes, rows }.shortened())
}

fn scatter(tensor: &Tensor) -> Result<Picture, Box<dyn Error>> {
    let memory = tensor.machine.memory()?;
    let local = Local::compact(memory, tensor.address()?, tensor.extents()?, tensor.element)?;
    let extents = local.extents();
    let mut rows = Vec::new();
    for n in 0..extents.n {
        for row in 0..local.channels_per_npu() {
            let cells = (0..memory.npus())
                .map(|npu| match local.channel(npu, row) {
                    Some(c) => Cell::new(format!("({n}, {c})"), n as usize),
                    None => Cell::gap(),
                })
                .collect();
            let line = Row::new(format!("n{n} block row {row}"), cells);
            rows.push(if row == 0 && n > 0 { line.separated() } else { line });
        }
    }
    Ok(Picture {
        title: format!("Features of N = {}, C = {} from NPU {}", extents.n, extents.c, local.start_npu()),
        notes: vec![
            "a column is an NPU, a cell the memory of one feature (n, c); hatched: empty".into(),
            format!("channels per NPU: {}", local.channels_per_npu()),
        ],
        rows,
    }
    .shortened())
}

/// Every NPU's blocks, from the tensor's start to its end there: a row for each batch and block row.
fn blocks<L: Layout>(
    layout: &L,
    tensor: Local,
    title: &str,
    usage: impl Fn(u32) -> Usage,
    text: impl Fn(Index) -> (u32, String),
) -> Picture {
    let memory = tensor.memory();
    let element = u64::from(tensor.element_bytes());
    let strides = tensor.strides();
    let extents = tensor.extents();
    let mut rows = Vec::new();
    for npu in 0..memory.npus() {
        for n in 0..extents.n {
            for row in 0..tensor.channels_per_npu() {
                let from = u64::from(n) * strides.n + u64::from(row) * strides.c;
                let plane = u64::from(extents.h - 1) * strides.h + u64::from(extents.w - 1) * strides.w + 1;
                // Up to the start of the next row, or to the end of the tensor's memory.
                let last = n + 1 == extents.n && row + 1 == tensor.channels_per_npu();
                let next = match (row + 1 < tensor.channels_per_npu(), last) {
                    (true, _) => strides.c,
                    (false, false) => strides.n - u64::from(row) * strides.c,
                    (false, true) => usage(npu).reserved / element - from,
                };
                let cells: Vec<Cell> = (0..next.max(plane).min(128))
                    .map(|block| {
                        let at = u64::from(npu) * memory.bytes() + tensor.start_offset() + (from + block) * element;
                        match layout.at(at) {
                            Some(index) => {
                                let (colour, text) = text(index);
                                Cell::new(text, colour as usize)
                            }
                            None => Cell::gap(),
                        }
                    })
                    .collect();
                let what = tensor.channel(npu, row).map_or("empty".into(), |c| format!("c{c}"));
                let line =
                    Row::new(format!("NPU {npu} +{:#05x} n{n} {what}", tensor.start_offset() + from * element), cells);
                rows.push(if n == 0 && row == 0 && npu > 0 { line.separated() } else { line });
            }
        }
    }
    let usages: Vec<String> = (0..memory.npus())
        .map(|npu| format!("NPU {npu}: {} used, {} wasted", usage(npu).used, usage(npu).wasted()))
        .collect();
    Picture {
        title: format!("{title}: N = {}, C = {}, H = {}, W = {}", extents.n, extents.c, extents.h, extents.w),
        notes: vec![
            format!(
                "a cell is {element} bytes; strides in elements: N {}, C {}, H {}, W {}; channels per NPU {}; from NPU {}",
                strides.n,
                strides.c,
                strides.h,
                strides.w,
                tensor.channels_per_npu(),
                tensor.start_npu()
            ),
            format!("bytes: {}", usages.join("; ")),
        ],
        rows,
    }
    .shortened()
}
