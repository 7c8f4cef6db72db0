// SPDX-License-Identifier: MIT OR Apache-2.0

//! SDP operands: one row per atom, one cell per component.

use std::error::Error;

use clap::{Args, ValueEnum};
use nvdla_uapi::layout::operand::{Format, Operands};
use nvdla_uapi::layout::{Extents, Layout};
use nvdla_uapi::reg::values::{OperandMode, OperandSize, OperandUse};

use super::picture::{Cell, Picture, Row};
use super::precision::PrecisionName;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[arg(long, default_value_t = 1)]
    width: u32,
    #[arg(long, default_value_t = 1)]
    height: u32,
    #[arg(long, default_value_t = 20)]
    channels: u32,
    #[arg(long, value_enum, default_value = "per-kernel")]
    mode: Mode,
    /// Which components each element has
    #[arg(long = "use", value_enum, default_value = "alu")]
    data_use: Use,
    /// Bytes of a component: 1 or 2
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    bytes: u32,
    /// The processing precision
    #[arg(long, value_enum, default_value = "int8")]
    precision: PrecisionName,
    /// Bytes of a feature atom: 8, 16 or 32
    #[arg(long, default_value_t = 32)]
    atom: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    PerKernel,
    PerElement,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Use {
    Alu,
    Mul,
    Both,
}

pub(super) fn picture(arguments: &Arguments) -> Result<Picture, Box<dyn Error>> {
    let format = Format {
        mode: match arguments.mode {
            Mode::PerKernel => OperandMode::PerKernel,
            Mode::PerElement => OperandMode::PerElement,
        },
        data_use: match arguments.data_use {
            Use::Alu => OperandUse::Alu,
            Use::Mul => OperandUse::Mul,
            Use::Both => OperandUse::Both,
        },
        data_size: if arguments.bytes == 1 { OperandSize::OneByte } else { OperandSize::TwoByte },
        processing: arguments.precision.into(),
        atom: arguments.atom,
    };
    let extents = Extents::new(1, arguments.channels, arguments.height, arguments.width);
    let operands = Operands::packed(extents, format)?;
    let Extents { h: lines, w: width, c: channels, .. } = operands.extents();
    let names: &[&str] = match format.data_use {
        OperandUse::Alu => &["alu"],
        OperandUse::Mul => &["mul"],
        OperandUse::Both => &["alu", "mul"],
    };
    let mut rows = Vec::new();
    for surface in 0..operands.surfaces() {
        for h in 0..lines {
            for w in 0..width {
                let lanes = operands.lanes_of(surface);
                let first = lanes.start;
                let cells = lanes
                    .flat_map(|c| {
                        names.iter().map(move |name| {
                            if c < channels {
                                Cell::new(format!("c{c} {name}"), c as usize)
                            } else {
                                Cell::padding("")
                            }
                        })
                    })
                    .collect();
                let at = operands.element_offset(first, h, w);
                let row = Row::new(format!("{at:#06x} surface {surface} line {h} w{w}"), cells);
                rows.push(if h == 0 && w == 0 && surface > 0 { row.separated() } else { row });
            }
        }
    }
    let mode = match arguments.mode {
        Mode::PerKernel => "per channel",
        Mode::PerElement => "per element",
    };
    Ok(Picture {
        title: format!("Operands {mode}, {}x{}x{}, processed as {:?}", width, lines, channels, format.processing),
        notes: vec![
            format!("a row is an atom, a cell a component of {} bytes", format.component_bytes()),
            format!(
                "bytes per atom: {} elements x {} components x {} bytes = {}",
                format.atom_elements(),
                format.components(),
                format.component_bytes(),
                format.bytes_per_atom()
            ),
        ],
        rows,
    }
    .shortened())
}
