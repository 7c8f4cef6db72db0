// SPDX-License-Identifier: MIT OR Apache-2.0

//! Surfaces that emulated operations read and write: where their atoms are, checked against the memory.

use core::ops::Range;

use nvdla_uapi::emu::{Buffer, Format};
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::{self, Extents, Nest};
use nvdla_uapi::reg::values::Precision;

use super::caller::Stop;
use super::error::Error;
use super::half;
use super::memory::Memory;

/// A surface inside its memory.
pub(super) struct Surface {
    side: &'static str,
    buffer: Buffer,
    cube: Cube,
}

/// The bytes of an atom.
#[derive(Default)]
pub(super) struct Atom([u8; 32]);

/// Why an operation was stopped.
pub(super) enum Stopped {
    /// An access was outside its memory although the surface was inside: the memory has changed its size since the check.
    Outside { side: &'static str, index: u16, end: u64 },
    /// The caller ended it.
    Watch(Stop),
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
        let (precision, atom) = match buffer.format {
            Format::Fp16 => (Precision::Fp16, 32),
            Format::Int8 => (Precision::Int8, 32),
            Format::Int8x8 => (Precision::Int8, 8),
            format => return Err(Error::Format { side, operation, name, format }),
        };
        let Buffer { width, height, channels, address_index: index, .. } = buffer;
        if width == 0 || height == 0 || channels == 0 {
            return Err(Error::Empty { side, operation, name, width, height, channels });
        }
        // With overlapping lines a few bytes could have 2^48 elements, which would occupy the runtime for hours.
        let refuse = |cause| Error::Layout { side, operation, name, cause };
        let extents = Extents::new(1, channels.into(), height.into(), width.into());
        let strides = [buffer.surface_stride, buffer.line_stride].map(u64::from);
        let cube = Cube::as_programmed(extents, precision, atom, strides[1], strides[0], 0).map_err(refuse)?;
        let counts = [cube.surfaces(), height.into()].map(u64::from);
        let lines = Nest::as_programmed(cube.line_bytes(), counts, strides).map_err(refuse)?;
        if let Some((level, least)) = lines.overlap() {
            let (field, value) =
                [("surface stride", buffer.surface_stride), ("line stride", buffer.line_stride)][level];
            return Err(Error::Stride { side, operation, name, field, value, least });
        }
        let surface = Self { side, buffer, cube };
        // The memory need not contain the unused channels of the last atom.
        let last = cube.element_offset(u32::from(channels) - 1, u32::from(height) - 1, u32::from(width) - 1);
        let end = u64::from(buffer.address_offset) + last + surface.element();
        let size = memory.size(index.into());
        if size.is_none_or(|size| end > size) {
            return Err(Error::OutOfRange { side, operation, name, end, index, size });
        }
        Ok(surface)
    }

    /// Bytes of an element.
    fn element(&self) -> u64 {
        layout::bytes(self.cube.precision()).into()
    }

    /// How its elements lie.
    pub(super) fn format(&self) -> Format {
        self.buffer.format
    }

    /// The numbers of its surfaces, each of one atom of channels.
    pub(super) fn surfaces(&self) -> Range<u32> {
        0..self.cube.surfaces()
    }

    /// The channels of a surface.
    pub(super) fn channels(&self, surface: u32) -> Range<u32> {
        self.cube.channels_of(surface)
    }

    /// The line and the column of each pixel.
    pub(super) fn pixels(&self) -> impl Iterator<Item = (u16, u16)> {
        let (height, width) = (self.buffer.height, self.buffer.width);
        (0..height).flat_map(move |y| (0..width).map(move |x| (y, x)))
    }

    /// Offset of the atom of a surface, line and column in its address entry.
    fn offset(&self, (surface, y, x): (u32, u16, u16)) -> u64 {
        u64::from(self.buffer.address_offset) + self.cube.atom_offset(surface, y.into(), x.into())
    }

    /// Reads the bytes of an atom that hold channels. The last atom may have fewer than its size.
    pub(super) fn read<'a, M: Memory + ?Sized>(
        &self,
        memory: &M,
        place: (u32, u16, u16),
        atom: &'a mut Atom,
    ) -> Result<&'a mut [u8], Stopped> {
        let bytes = &mut atom.0[..self.cube.channels_of(place.0).len() * self.element() as usize];
        let offset = self.offset(place);
        if memory.read(self.buffer.address_index.into(), offset, bytes) {
            Ok(bytes)
        } else {
            Err(self.outside(offset, bytes))
        }
    }

    /// Writes the bytes of an atom that hold channels. Those behind them are not changed.
    pub(super) fn write<M: Memory + ?Sized>(
        &self,
        memory: &mut M,
        place: (u32, u16, u16),
        bytes: &[u8],
    ) -> Result<(), Stopped> {
        let offset = self.offset(place);
        let written = memory.write(self.buffer.address_index.into(), offset, bytes);
        written.then_some(()).ok_or_else(|| self.outside(offset, bytes))
    }

    /// Writes an element in half precision.
    pub(super) fn write_half<M: Memory + ?Sized>(
        &self,
        memory: &mut M,
        (channel, y, x): (u32, u16, u16),
        value: half::f16,
    ) -> Result<(), Stopped> {
        let offset = u64::from(self.buffer.address_offset) + self.cube.element_offset(channel, y.into(), x.into());
        let bytes = value.to_le_bytes();
        let written = memory.write(self.buffer.address_index.into(), offset, &bytes);
        written.then_some(()).ok_or_else(|| self.outside(offset, &bytes))
    }

    fn outside(&self, offset: u64, bytes: &[u8]) -> Stopped {
        Stopped::Outside { side: self.side, index: self.buffer.address_index, end: offset + bytes.len() as u64 }
    }
}
