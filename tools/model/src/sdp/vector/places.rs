// SPDX-License-Identifier: MIT OR Apache-2.0

//! The addresses of a chunk's data, operands and output in memory.

use nvdla_uapi::layout::operand::Component;
use nvdla_uapi::reg::values::Precision;

use super::super::operation::{OperandPlace, Operation, Place, Source};
use super::load::Format;

use crate::memory::{read, write, Fault, Memory};

/// Whether two surfaces of int16 input are one surface of the data path.
pub(super) fn fp16_in(operation: &Operation) -> bool {
    operation.processing == Precision::Int8
        && matches!(operation.source, Source::Memory(place) if place.cube.precision() != Precision::Int8)
}

/// Whether a surface of the data path is two surfaces of 16-bit output.
pub(super) fn fp16_out(operation: &Operation) -> bool {
    operation.processing == Precision::Int8 && operation.output != Precision::Int8
}

/// Address and length of a chunk of a feature cube. On walks that join lines or surfaces, `x` may exceed the line,
/// because the joined lines follow one another.
fn feature_range(place: &Place, at: At) -> (u64, usize) {
    let cube = &place.cube;
    let offset = cube.atom_offset_of(at.batch as u32, at.surface as u32, at.line as u32, at.x as u32);
    (place.base.wrapping_add(offset), cube.atoms().span(at.atoms))
}

pub(super) fn feature_bytes<'m>(place: &Place, at: At, memory: &'m dyn Memory) -> Result<&'m [u8], Fault> {
    let (address, length) = feature_range(place, at);
    read(memory, "SDP_RDMA", place.port, address, length)
}

pub(super) fn feature_bytes_mut<'m>(place: &Place, at: At, memory: &'m mut dyn Memory) -> Result<&'m mut [u8], Fault> {
    let (address, length) = feature_range(place, at);
    write(memory, "SDP", place.port, address, length)
}

/// The bytes of a chunk's operands; batches share them.
pub(super) fn operand_bytes<'m>(place: &OperandPlace, at: At, memory: &'m dyn Memory) -> Result<&'m [u8], Fault> {
    let layout = &place.layout;
    let offset = layout.atom_offset(at.surface as u32, at.line as u32, at.x as u32);
    read(memory, "SDP_RDMA", place.port, place.base.wrapping_add(offset), layout.span_of(at.atoms))
}

pub(super) fn format(place: &OperandPlace, component: Component) -> Format {
    let layout = &place.layout;
    Format {
        bytes: layout.component_bytes() as usize,
        components: layout.components() as usize,
        component: usize::from(layout.components() == 2 && component == Component::Mul),
    }
}

/// The position of a chunk.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub batch: usize,
    pub surface: usize,
    pub line: usize,
    pub x: usize,
    pub atoms: usize,
}
