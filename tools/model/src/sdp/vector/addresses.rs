// SPDX-License-Identifier: MIT OR Apache-2.0

//! The addresses of a chunk's data, operands and output in memory.

use nvdla_uapi::layout::operand::Component;
use nvdla_uapi::reg::values::Precision;

use super::super::operation::{DataCube, OperandSurface, Operation, Source};
use super::load::Format;

use crate::memory::{read, write, Fault, Memory};

/// Whether two surfaces of int16 input are one surface of the data path.
pub(super) fn fp16_in(operation: &Operation) -> bool {
    operation.processing == Precision::Int8
        && matches!(operation.source, Source::Memory(cube) if cube.layout.precision() != Precision::Int8)
}

/// Whether a surface of the data path is two surfaces of 16-bit output.
pub(super) fn fp16_out(operation: &Operation) -> bool {
    operation.processing == Precision::Int8 && operation.output != Precision::Int8
}

/// Address and length of a chunk of a feature cube. On walks that join lines or surfaces, `x` may exceed the line,
/// because the joined lines follow one another.
fn feature_range(cube: &DataCube, at: ChunkPosition) -> (u64, usize) {
    let offset = cube.layout.atom_offset_of(at.batch as u32, at.surface as u32, at.line as u32, at.x as u32);
    (cube.base.wrapping_add(offset), cube.layout.atoms().span(at.atoms))
}

pub(super) fn feature_bytes<'m>(cube: &DataCube, at: ChunkPosition, memory: &'m dyn Memory) -> Result<&'m [u8], Fault> {
    let (address, length) = feature_range(cube, at);
    read(memory, "SDP_RDMA", cube.port, address, length)
}

pub(super) fn feature_bytes_mut<'m>(
    cube: &DataCube,
    at: ChunkPosition,
    memory: &'m mut dyn Memory,
) -> Result<&'m mut [u8], Fault> {
    let (address, length) = feature_range(cube, at);
    write(memory, "SDP", cube.port, address, length)
}

/// The bytes of a chunk's operands; batches share them.
pub(super) fn operand_bytes<'m>(
    operands: &OperandSurface,
    at: ChunkPosition,
    memory: &'m dyn Memory,
) -> Result<&'m [u8], Fault> {
    let layout = &operands.layout;
    let offset = layout.atom_offset(at.surface as u32, at.line as u32, at.x as u32);
    read(memory, "SDP_RDMA", operands.port, operands.base.wrapping_add(offset), layout.span_of(at.atoms))
}

pub(super) fn format(operands: &OperandSurface, component: Component) -> Format {
    let layout = &operands.layout;
    Format {
        bytes: layout.component_bytes() as usize,
        components: layout.components() as usize,
        component: usize::from(layout.components() == 2 && component == Component::Mul),
    }
}

/// The position of a chunk.
#[derive(Clone, Copy)]
pub(super) struct ChunkPosition {
    pub batch: usize,
    pub surface: usize,
    pub line: usize,
    pub x: usize,
    pub atoms: usize,
}
