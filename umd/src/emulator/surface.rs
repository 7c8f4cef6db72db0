// SPDX-License-Identifier: MIT OR Apache-2.0

//! Iterates over the surfaces of an emulated operation: line by line for element-wise operations, and pixel by pixel
//! for operations over all channels.

use super::error::Error;
use super::memory::Memory;
use nvdla_uapi::emu::{Buffer, Format};
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::{self, Extents, Nest};
use nvdla_uapi::reg::values::Precision;
use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::cancel::Cancel;

/// A surface that lies inside its memory.
pub(super) struct Surface {
    side: &'static str,
    buffer: Buffer,
    cube: Cube,
}

/// Why an operation was stopped.
pub(super) enum Stopped {
    /// An access was outside its memory although the surface was inside: the memory has changed its size since the check.
    Outside { side: &'static str, index: u16, end: u64 },
    /// The time limit was reached.
    Late,
    /// The run was cancelled.
    Cancelled,
}

/// The time limit of a task.
pub(super) struct Clock {
    deadline: Option<Instant>,
    cancel: Option<Cancel>,
    /// Bytes since the time was checked last.
    bytes: Cell<usize>,
}

impl Clock {
    /// Bytes between two checks of the time: some hundred microseconds of softmax.
    const BYTES: usize = 1 << 14;

    pub(super) fn new(limit: Option<Duration>, cancel: Option<Cancel>) -> Self {
        // A limit that the clock cannot represent is no limit. The first check reads the time.
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        Self { deadline, cancel, bytes: Cell::new(Self::BYTES) }
    }

    /// Called before `bytes` bytes are processed.
    fn check(&self, bytes: usize) -> Result<(), Stopped> {
        let since = self.bytes.get().saturating_add(bytes);
        if since < Self::BYTES {
            self.bytes.set(since);
            return Ok(());
        }
        self.bytes.set(0);
        if self.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(Stopped::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Stopped::Late),
            _ => Ok(()),
        }
    }
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

    fn atom_bytes(&self) -> usize {
        self.cube.atom() as usize
    }

    /// Offset of an atom in its address entry.
    fn atom(&self, surface: u32, y: u16, x: u16) -> u64 {
        u64::from(self.buffer.address_offset) + self.cube.atom_offset(surface, y.into(), x.into())
    }

    /// Bytes of the atoms of `surface` that hold channels; the last may have fewer.
    fn used(&self, surface: u32) -> usize {
        let channels = self.cube.channels_of(surface).len();
        channels * self.element() as usize
    }

    /// Bytes from the first to the last element of a line.
    fn line_bytes(&self, surface: u32) -> usize {
        self.cube.atoms().span(usize::from(self.buffer.width) - 1) + self.used(surface)
    }

    fn read<M: Memory + ?Sized>(&self, memory: &M, offset: u64, into: &mut [u8]) -> Result<(), Stopped> {
        memory
            .read(self.buffer.address_index.into(), offset, into)
            .then_some(())
            .ok_or_else(|| self.outside(offset, into))
    }

    fn write<M: Memory + ?Sized>(&self, memory: &mut M, offset: u64, from: &[u8]) -> Result<(), Stopped> {
        memory
            .write(self.buffer.address_index.into(), offset, from)
            .then_some(())
            .ok_or_else(|| self.outside(offset, from))
    }

    fn outside(&self, offset: u64, bytes: &[u8]) -> Stopped {
        Stopped::Outside { side: self.side, index: self.buffer.address_index, end: offset + bytes.len() as u64 }
    }
}

/// Passes each line of atoms through `compute`. The gap between the channels of one atom and of the next is not
/// changed.
pub(super) fn each_line<M: Memory + ?Sized>(
    memory: &mut M,
    source: &Surface,
    destination: &Surface,
    clock: &Clock,
    compute: impl Fn(Format, &mut [u8]),
) -> Result<(), Stopped> {
    let format = source.buffer.format;
    for surface in 0..source.cube.surfaces() {
        let (used, atom) = (source.used(surface), source.atom_bytes());
        let mut line = vec![0; source.line_bytes(surface)];
        let mut kept = vec![0; line.len()];
        for y in 0..source.buffer.height {
            clock.check(line.len())?;
            source.read(memory, source.atom(surface, y, 0), &mut line)?;
            compute(format, &mut line);
            let to = destination.atom(surface, y, 0);
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
    clock: &Clock,
    compute: impl Fn(Format, &mut [u8]),
) -> Result<(), Stopped> {
    let mut pixel = vec![0; usize::from(source.buffer.channels) * source.element() as usize];
    for y in 0..source.buffer.height {
        for x in 0..source.buffer.width {
            clock.check(pixel.len())?;
            for (surface, channels) in (0..).zip(pixel.chunks_mut(source.atom_bytes())) {
                source.read(memory, source.atom(surface, y, x), channels)?;
            }
            compute(source.buffer.format, &mut pixel);
            for (surface, channels) in (0..).zip(pixel.chunks(source.atom_bytes())) {
                destination.write(memory, destination.atom(surface, y, x), channels)?;
            }
        }
    }
    Ok(())
}
