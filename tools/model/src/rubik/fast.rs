// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rubik by lines: contract moves atoms, split and merge transpose squares of elements ([`crate::simd::transpose`]).
//!
//! Split and merge process blocks of as many lines as the cache holds. Where the lines of a plane follow one another, the lines
//! of a block are moved at once.

use super::operation::{Contract, Extent, Planes, UNIT};
use crate::cube::Placed;
use crate::memory::{read, write, Memory, Stop};
use crate::simd::transpose::transpose;

pub(super) fn contract(operation: &Contract, memory: &mut dyn Memory) -> Result<(), Stop> {
    let [stride_x, stride_y] = operation.stride;
    let atoms = operation.input.cube.atoms();
    let atom = atoms.bytes();
    let mut line = vec![0; atoms.span(operation.width * stride_x)];
    for surface in 0..operation.surfaces {
        for y in 0..operation.height {
            for inner_y in 0..stride_y {
                for inner_x in 0..stride_x {
                    let from = operation.input_surface(surface, [inner_x, inner_y]);
                    let atoms = operation.input.read(memory, from, [y, 0], operation.width)?.chunks_exact(atom);
                    let columns = line.chunks_exact_mut(atom).skip(inner_x).step_by(stride_x);
                    columns.zip(atoms).for_each(|(column, atom)| column.copy_from_slice(atom));
                }
                let address = operation.line(surface, y, inner_y);
                write(memory, UNIT, operation.port, address, line.len())?.copy_from_slice(&line);
            }
        }
    }
    Ok(())
}

/// Bytes of a block of lines, about.
const BLOCK: usize = if cfg!(test) { 4096 } else { 128 << 10 };

/// Lines of all lanes' planes that are moved together.
fn block(extent: &Extent) -> usize {
    (BLOCK / (extent.atoms.elements() * extent.line())).clamp(1, extent.height)
}

/// At least `bytes`, enlarged so that lines at this distance do not all share the same sets of the cache.
const fn spread(bytes: usize) -> usize {
    bytes.next_multiple_of(64) | 64
}

/// Whether a plane's lines follow one another.
fn is_packed(planes: &Planes, extent: &Extent) -> bool {
    planes.lines.offset([0, 1]) == extent.line() as u64
}

pub(super) fn split(cube: &Placed, planes: &Planes, extent: &Extent, memory: &mut dyn Memory) -> Result<(), Stop> {
    let (lanes, line, atom) = (extent.atoms.elements(), extent.line(), extent.atoms.bytes());
    let block = block(extent);
    let packed = is_packed(planes, extent);
    // What is left of a line stays zero.
    let stride = spread(block * line);
    let mut lines = vec![0; lanes * stride];
    for surface in 0..extent.atoms.surfaces(extent.channels) {
        for first in (0..extent.height).step_by(block) {
            let count = block.min(extent.height - first);
            let plane = count * line;
            for y in 0..count {
                let atoms = cube.read(memory, surface, [first + y, 0], extent.width)?;
                let (size, to) = ([extent.width, lanes], &mut lines[y * line..]);
                match extent.bytes {
                    1 => transpose::<u8>(size, atoms, atom, to, stride),
                    _ => transpose::<u16>(size, atoms, atom, to, stride),
                }
            }
            let channels = extent.atoms.channels_of(surface, extent.channels);
            for (channel, lines) in channels.zip(lines.chunks_exact(stride)) {
                let lines = &lines[..plane];
                if packed {
                    let address = planes.at(channel, first);
                    write(memory, UNIT, planes.port, address, plane)?.copy_from_slice(lines);
                    continue;
                }
                for (y, line) in lines.chunks_exact(line).enumerate() {
                    planes.write(memory, channel, first + y, line)?;
                }
            }
        }
    }
    Ok(())
}

pub(super) fn merge(planes: &Planes, cube: &Placed, extent: &Extent, memory: &mut dyn Memory) -> Result<(), Stop> {
    let (lanes, line, atom) = (extent.atoms.elements(), extent.line(), extent.atoms.bytes());
    let block = block(extent);
    let packed = is_packed(planes, extent);
    // What is left of a line stays zero.
    let stride = spread(block * line);
    let mut lines = vec![0; lanes * stride];
    for surface in 0..extent.atoms.surfaces(extent.channels) {
        let channels = extent.atoms.channels_of(surface, extent.channels);
        for first in (0..extent.height).step_by(block) {
            let count = block.min(extent.height - first);
            let plane = count * line;
            lines[channels.len() * stride..].fill(0);
            for (channel, lines) in channels.clone().zip(lines.chunks_exact_mut(stride)) {
                let lines = &mut lines[..plane];
                if packed {
                    let address = planes.at(channel, first);
                    lines.copy_from_slice(read(memory, UNIT, planes.port, address, plane)?);
                    continue;
                }
                for (y, line) in lines.chunks_exact_mut(line).enumerate() {
                    line.copy_from_slice(planes.read(memory, channel, first + y, line.len())?);
                }
            }
            for y in 0..count {
                let (size, from) = ([lanes, extent.width], &lines[y * line..]);
                let atoms = cube.write_to(memory, surface, [first + y, 0], extent.width)?;
                match extent.bytes {
                    1 => transpose::<u8>(size, from, stride, atoms, atom),
                    _ => transpose::<u16>(size, from, stride, atoms, atom),
                }
            }
        }
    }
    Ok(())
}
