// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rubik by lines: contract moves atoms, split and merge transpose squares of elements.

use super::{Contract, Extent, Planes, UNIT};
use crate::cube::Placed;
use crate::memory::{write, Memory, Stop};

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

/// Elements of the squares that are transposed at once.
const SQUARE: usize = 16;

/// Transposes a square of elements of `BYTES` bytes: element `column` of row `row` becomes element `row` of row
/// `column`.
///
/// Rows that are interleaved with the rows half the square further down come out with their index rotated by one bit,
/// through the columns' bits: after four rounds rows and columns have changed places.
fn transpose<T: Copy + Default>(mut square: [[T; SQUARE]; SQUARE]) -> [[T; SQUARE]; SQUARE] {
    for _ in 0..SQUARE.ilog2() {
        let mut next = [[T::default(); SQUARE]; SQUARE];
        for row in 0..SQUARE / 2 {
            let (upper, lower) = (square[row], square[row + SQUARE / 2]);
            for column in 0..SQUARE / 2 {
                next[2 * row][2 * column] = upper[column];
                next[2 * row][2 * column + 1] = lower[column];
                next[2 * row + 1][2 * column] = upper[column + SQUARE / 2];
                next[2 * row + 1][2 * column + 1] = lower[column + SQUARE / 2];
            }
        }
        square = next;
    }
    square
}

/// An element that is moved about.
trait Element: Copy + Default {
    const BYTES: usize;
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
}

impl Element for u8 {
    const BYTES: usize = 1;
    fn load(bytes: &[u8]) -> Self {
        bytes[0]
    }
    fn store(self, bytes: &mut [u8]) {
        bytes[0] = self;
    }
}

impl Element for u16 {
    const BYTES: usize = 2;
    fn load(bytes: &[u8]) -> Self {
        Self::from_le_bytes([bytes[0], bytes[1]])
    }
    fn store(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }
}

/// Transposes `rows` rows of `columns` elements, a row every `from_stride` bytes, into rows every `to_stride` bytes.
fn turn<T: Element>([rows, columns]: [usize; 2], from: &[u8], from_stride: usize, to: &mut [u8], to_stride: usize) {
    for row in (0..rows).step_by(SQUARE) {
        for column in (0..columns).step_by(SQUARE) {
            let (high, wide) = ((rows - row).min(SQUARE), (columns - column).min(SQUARE));
            let mut square = [[T::default(); SQUARE]; SQUARE];
            for (at, square) in square.iter_mut().take(high).enumerate() {
                let bytes = &from[(row + at) * from_stride + column * T::BYTES..][..wide * T::BYTES];
                for (to, from) in square.iter_mut().zip(bytes.chunks_exact(T::BYTES)) {
                    *to = T::load(from);
                }
            }
            let square = transpose(square);
            for (at, square) in square.iter().take(wide).enumerate() {
                let bytes = &mut to[(column + at) * to_stride + row * T::BYTES..][..high * T::BYTES];
                for (to, from) in bytes.chunks_exact_mut(T::BYTES).zip(square) {
                    from.store(to);
                }
            }
        }
    }
}

pub(super) fn split(cube: &Placed, planes: &Planes, extent: &Extent, memory: &mut dyn Memory) -> Result<(), Stop> {
    let (lanes, line, atom) = (extent.atoms.elements(), extent.line(), extent.atoms.bytes());
    let mut lines = vec![0; lanes * line];
    for surface in 0..extent.atoms.surfaces(extent.channels) {
        for y in 0..extent.height {
            let atoms = cube.read(memory, surface, [y, 0], extent.width)?;
            let size = [extent.width, lanes];
            match extent.bytes {
                1 => turn::<u8>(size, atoms, atom, &mut lines, line),
                _ => turn::<u16>(size, atoms, atom, &mut lines, line),
            }
            let channels = extent.atoms.channels_of(surface, extent.channels);
            for (channel, line) in channels.zip(lines.chunks_exact(line)) {
                planes.write(memory, channel, y, line)?;
            }
        }
    }
    Ok(())
}

pub(super) fn merge(planes: &Planes, cube: &Placed, extent: &Extent, memory: &mut dyn Memory) -> Result<(), Stop> {
    let (lanes, line, atom) = (extent.atoms.elements(), extent.line(), extent.atoms.bytes());
    let mut lines = vec![0; lanes * line];
    let mut atoms = vec![0; extent.atoms.span(extent.width)];
    for surface in 0..extent.atoms.surfaces(extent.channels) {
        let channels = extent.atoms.channels_of(surface, extent.channels);
        lines[channels.len() * line..].fill(0);
        for y in 0..extent.height {
            for (channel, line) in channels.clone().zip(lines.chunks_exact_mut(line)) {
                line.copy_from_slice(planes.read(memory, channel, y, line.len())?);
            }
            let size = [lanes, extent.width];
            match extent.bytes {
                1 => turn::<u8>(size, &lines, line, &mut atoms, atom),
                _ => turn::<u16>(size, &lines, line, &mut atoms, atom),
            }
            cube.write(memory, surface, [y, 0], &atoms)?;
        }
    }
    Ok(())
}
