// SPDX-License-Identifier: MIT OR Apache-2.0

//! Walks the surfaces of an emulated operation: line by line for what is done an element at a time, pixel by pixel for
//! what needs all channels.

use super::{Error, Memory};
use nvdla_uapi::emu::{Buffer, Format};

/// A surface that lies inside its memory.
pub(super) struct Surface {
    side: &'static str,
    buffer: Buffer,
    /// Bytes of an element.
    element: u64,
    /// Channels of an atom.
    atom: u64,
}

/// Where an access left its memory, although the surface did not: the memory changed its size meanwhile.
pub(super) struct Outside {
    pub(super) side: &'static str,
    pub(super) index: u16,
    pub(super) end: u64,
}

impl Surface {
    /// Checks that `buffer` is inside its memory and has a format that is emulated.
    pub(super) fn new<M: Memory + ?Sized>(
        memory: &M,
        side: &'static str,
        operation: u16,
        name: &'static str,
        buffer: Buffer,
    ) -> Result<Self, Error> {
        let (element, atom) = match buffer.format {
            Format::Fp16 => (2, 16),
            Format::Int8 => (1, 32),
            Format::Int8x8 => (1, 8),
            format => return Err(Error::Format { side, operation, name, format }),
        };
        let Buffer { width, height, channels, address_index: index, .. } = buffer;
        if width == 0 || height == 0 || channels == 0 {
            return Err(Error::Empty { side, operation, name, width, height, channels });
        }
        let surface = Self { side, buffer, element, atom };
        let last = u64::from(channels - 1) / atom;
        // Lines that overlap would let a few bytes claim 2^48 elements, and hold the runtime for hours.
        let line = u64::from(width) * surface.atom_bytes();
        if height > 1 && u64::from(buffer.line_stride) < line {
            let (field, value, least) = ("line stride", buffer.line_stride, line);
            return Err(Error::Stride { side, operation, name, field, value, least });
        }
        let lines = u64::from(height - 1) * u64::from(buffer.line_stride) + line;
        if last > 0 && u64::from(buffer.surface_stride) < lines {
            let (field, value, least) = ("surface stride", buffer.surface_stride, lines);
            return Err(Error::Stride { side, operation, name, field, value, least });
        }
        let end = surface.line(last, (height - 1).into())
            + u64::from(width - 1) * surface.atom_bytes()
            + surface.channels(last) * element;
        let size = memory.size(index.into());
        if size.is_none_or(|size| end > size) {
            return Err(Error::OutOfRange { side, operation, name, end, index, size });
        }
        Ok(surface)
    }

    fn atom_bytes(&self) -> u64 {
        self.element * self.atom
    }

    /// Offset of the first byte of a line. Strides and offset have 32 bits, so nothing overflows.
    fn line(&self, surface: u64, y: u64) -> u64 {
        u64::from(self.buffer.address_offset)
            + surface * u64::from(self.buffer.surface_stride)
            + y * u64::from(self.buffer.line_stride)
    }

    /// Channels of the atoms of `surface`, of which the last may have fewer.
    fn channels(&self, surface: u64) -> u64 {
        (u64::from(self.buffer.channels) - surface * self.atom).min(self.atom)
    }

    fn surfaces(&self) -> u64 {
        u64::from(self.buffer.channels).div_ceil(self.atom)
    }

    /// Bytes from the first to the last element of a line.
    fn line_bytes(&self, surface: u64) -> usize {
        (u64::from(self.buffer.width - 1) * self.atom_bytes() + self.channels(surface) * self.element) as usize
    }

    fn read<M: Memory + ?Sized>(&self, memory: &M, offset: u64, into: &mut [u8]) -> Result<(), Outside> {
        memory
            .read(self.buffer.address_index.into(), offset, into)
            .then_some(())
            .ok_or_else(|| self.outside(offset, into))
    }

    fn write<M: Memory + ?Sized>(&self, memory: &mut M, offset: u64, from: &[u8]) -> Result<(), Outside> {
        memory
            .write(self.buffer.address_index.into(), offset, from)
            .then_some(())
            .ok_or_else(|| self.outside(offset, from))
    }

    fn outside(&self, offset: u64, bytes: &[u8]) -> Outside {
        Outside { side: self.side, index: self.buffer.address_index, end: offset + bytes.len() as u64 }
    }
}

/// Passes each line of atoms through `compute`; what lies between the channels of one atom and the next stays.
pub(super) fn each_line<M: Memory + ?Sized>(
    memory: &mut M,
    source: &Surface,
    destination: &Surface,
    compute: impl Fn(Format, &mut [u8]),
) -> Result<(), Outside> {
    let format = source.buffer.format;
    for surface in 0..source.surfaces() {
        let used = (source.channels(surface) * source.element) as usize;
        let atom = source.atom_bytes() as usize;
        let mut line = vec![0; source.line_bytes(surface)];
        let mut kept = vec![0; line.len()];
        for y in 0..source.buffer.height.into() {
            source.read(memory, source.line(surface, y), &mut line)?;
            compute(format, &mut line);
            let to = destination.line(surface, y);
            if used == atom {
                destination.write(memory, to, &line)?;
            } else {
                destination.read(memory, to, &mut kept)?;
                for (kept, line) in kept.chunks_mut(atom).zip(line.chunks(atom)) {
                    kept[..used].copy_from_slice(&line[..used]);
                }
                destination.write(memory, to, &kept)?;
            }
        }
    }
    Ok(())
}

/// Passes the channels of each pixel, in order, through `compute`.
pub(super) fn each_pixel<M: Memory + ?Sized>(
    memory: &mut M,
    source: &Surface,
    destination: &Surface,
    compute: impl Fn(Format, &mut [u8]),
) -> Result<(), Outside> {
    let mut pixel = vec![0; usize::from(source.buffer.channels) * source.element as usize];
    for y in 0..source.buffer.height.into() {
        for x in 0..u64::from(source.buffer.width) {
            let atoms = |surface: &Surface, n: usize| surface.line(n as u64, y) + x * surface.atom_bytes();
            for (n, channels) in pixel.chunks_mut(source.atom_bytes() as usize).enumerate() {
                source.read(memory, atoms(source, n), channels)?;
            }
            compute(source.buffer.format, &mut pixel);
            for (n, channels) in pixel.chunks(source.atom_bytes() as usize).enumerate() {
                destination.write(memory, atoms(destination, n), channels)?;
            }
        }
    }
    Ok(())
}
