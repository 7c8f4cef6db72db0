// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! BDMA.
//!
//! Sources: the register manual for fields; `kmd/firmware/bdma.c` of the reference software for the register
//! of each descriptor field, and for the limits.

use super::super::error::{Name, Reason, Why};
use super::super::footprint::{footprint, Registers};
use super::super::image::{code, fit, minus_one, BufferAddress, Program, Transfers, TRANSFER_WORDS};
use super::super::memory::TaskMemory;
use super::super::slot::Operation;
use super::surface::{require_disjoint, require_memory, Bytes, Context};
use crate::uapi::desc::{BdmaSurface, BdmaTransfer, OpType, MAX_BDMA_TRANSFERS};
use crate::uapi::layout::align::Data;
use crate::uapi::layout::Nest;
use crate::uapi::reg::{bdma, Block};

/// The smallest number of bytes that BDMA moves. Sizes, strides and addresses are multiples of it.
const UNIT: u32 = 32;
/// The largest number of lines of a surface, and of surfaces.
const MAX_REPEAT: i64 = 8192;

pub(super) fn translate<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    surface: &BdmaSurface,
    operation: &mut Operation,
) -> Result<(), Reason> {
    context.require(context.config.bdma, Name::new("op_type"), "BDMA")?;
    // The operation's descriptor has a count as well, which the reference driver does not use either.
    let count = usize::from(surface.num_transfers);
    let Some(used) = surface.transfers.get(..count) else {
        let (value, maximum) = (i64::from(surface.num_transfers), MAX_BDMA_TRANSFERS as i64);
        return Err(Why::Range { name: Name::new("num_transfers"), value, minimum: 0, maximum }.reason());
    };
    let mut words = [[0; TRANSFER_WORDS]; MAX_BDMA_TRANSFERS];
    for (words, transfer) in words.iter_mut().zip(used) {
        *words = one(context, surface, transfer)?;
    }
    operation.program = Program::Bdma(Transfers { count: count as u8, words });
    Ok(())
}

/// One transfer's registers, in address order.
fn one<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    surface: &BdmaSurface,
    transfer: &BdmaTransfer,
) -> Result<[u32; TRANSFER_WORDS], Reason> {
    for (field, value) in [("line_repeat", transfer.line_repeat), ("surface_repeat", transfer.surface_repeat)] {
        let value = i64::from(value);
        if !(1..=MAX_REPEAT).contains(&value) {
            let name = Name::of("transfers", field);
            return Err(Why::Range { name, value, minimum: 1, maximum: MAX_REPEAT }.reason());
        }
    }
    for (field, value) in [
        ("line_size", transfer.line_size),
        ("source_line", transfer.source_line),
        ("destination_line", transfer.destination_line),
        ("source_surface", transfer.source_surface),
        ("destination_surface", transfer.destination_surface),
    ] {
        aligned(Name::of("transfers", field), u64::from(value))?;
    }
    require_memory(Name::new("source_type"), surface.source_type)?;
    require_memory(Name::new("destination_type"), surface.destination_type)?;
    let source = side(
        context,
        "transfers.source",
        transfer.source_address,
        transfer,
        transfer.source_line,
        transfer.source_surface,
    )?;
    let destination = side(
        context,
        "transfers.destination",
        transfer.destination_address,
        transfer,
        transfer.destination_line,
        transfer.destination_surface,
    )?;
    let command =
        code(bdma::CFG_CMD::SRC_RAM_TYPE, source.ram()) | code(bdma::CFG_CMD::DST_RAM_TYPE, destination.ram());
    let name = |field| Name::of("transfers", field);
    let words = [
        source.address as u32,
        (source.address >> 32) as u32,
        destination.address as u32,
        (destination.address >> 32) as u32,
        minus_one(bdma::CFG_LINE::SIZE, name("line_size / 32"), transfer.line_size / UNIT)?.bits(),
        command.bits(),
        minus_one(bdma::CFG_LINE_REPEAT::NUMBER, name("line_repeat"), transfer.line_repeat)?.bits(),
        fit(bdma::CFG_SRC_LINE::STRIDE, name("source_line / 32"), transfer.source_line / UNIT)?.bits(),
        fit(bdma::CFG_DST_LINE::STRIDE, name("destination_line / 32"), transfer.destination_line / UNIT)?.bits(),
        minus_one(bdma::CFG_SURF_REPEAT::NUMBER, name("surface_repeat"), transfer.surface_repeat)?.bits(),
        fit(bdma::CFG_SRC_SURF::STRIDE, name("source_surface / 32"), transfer.source_surface / UNIT)?.bits(),
        fit(bdma::CFG_DST_SURF::STRIDE, name("destination_surface / 32"), transfer.destination_surface / UNIT)?.bits(),
    ];
    let mut registers = Registers::EMPTY;
    for (word, &value) in words.iter().enumerate() {
        registers.set(Block::Bdma, word, value);
    }
    footprint(context.config, OpType::Bdma, false, &registers, |access| {
        let place = if access.write { &destination } else { &source };
        if place.holds(&access) {
            Ok(())
        } else {
            Err(place.outside(&access))
        }
    })?;
    Ok(words)
}

fn aligned(name: Name, value: u64) -> Result<(), Reason> {
    if value.is_multiple_of(u64::from(UNIT)) {
        Ok(())
    } else {
        Err(Why::Alignment { name, value, alignment: u64::from(UNIT) }.reason())
    }
}

/// Where one side of a transfer lies.
fn side<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    name: &'static str,
    address: i16,
    transfer: &BdmaTransfer,
    line_stride: u32,
    surface_stride: u32,
) -> Result<BufferAddress, Reason> {
    let counts = [transfer.surface_repeat, transfer.line_repeat].map(u64::from);
    let strides = [surface_stride, line_stride].map(u64::from);
    let lines = Nest::as_programmed(transfer.line_size.into(), counts, strides)
        .map_err(|error| Why::Layout { surface: name, error }.reason())?;
    require_disjoint(&lines, ["surface stride", "line stride"].map(|field| Name::of(name, field)), strides)?;
    context.address_at(name, address, 0, &Bytes::plain(Data::Feature, lines.span()))
}
