// SPDX-License-Identifier: MIT OR Apache-2.0

//! Feature cubes in memory, at addresses and strides from registers.

use std::ops::Range;

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::Extents;
use nvdla_uapi::reg::values::Precision;

use crate::memory::{read, write, Fault, Memory, Port, Span, Stop};
use crate::threads::share;

/// Operations that access up to this many bytes are allowed any strides.
const SMALL: u64 = 64 << 20;

/// Refuses large operations whose lines overlap: lines of `bytes` bytes in total, in a range of `span` bytes. Real
/// strides do not make lines overlap. With a stride of zero, a few registers could keep the model busy for hours.
pub(crate) fn check_overlap(unit: &'static str, bytes: u64, span: u64) -> Result<(), Stop> {
    if bytes > SMALL && bytes / 16 > span {
        let what = format!("lines of {bytes} bytes in total overlap in {span} bytes");
        return Err(Stop::unsupported(unit, what));
    }
    Ok(())
}

/// A feature cube in memory.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// The unit that accesses the cube, for faults.
    pub unit: &'static str,
    /// The memory interface.
    pub port: Port,
    /// Address of the first byte.
    pub address: u64,
    /// The layout.
    pub cube: Cube,
}

impl Placed {
    /// A cube of `[width, height, channels]` elements with the given strides.
    pub fn new(
        unit: &'static str,
        config: &Config,
        precision: Precision,
        [width, height, channels]: [usize; 3],
        (port, address): (Port, u64),
        [line_stride, surface_stride]: [u32; 2],
    ) -> Result<Self, Stop> {
        let extents = Extents::new(1, channels as u32, height as u32, width as u32);
        let (line, surface) = (line_stride.into(), surface_stride.into());
        let cube = Cube::as_programmed(extents, precision, config.memory_atomic, line, surface, 0)
            .map_err(|error| Stop::unsupported(unit, error.to_string()))?;
        check_overlap(unit, cube.volume(), cube.span())?;
        Ok(Self { unit, port, address, cube })
    }

    /// Reads `atoms` atoms of line `y` from column `x` on.
    pub fn read<'m>(
        &self,
        memory: &'m dyn Memory,
        surface: usize,
        [y, x]: [usize; 2],
        atoms: usize,
    ) -> Result<&'m [u8], Fault> {
        read(memory, self.unit, self.port, self.at(surface, y, x), self.cube.atoms().span(atoms))
    }

    /// Writes atoms to line `y` from column `x` on.
    pub fn write(
        &self,
        memory: &mut dyn Memory,
        surface: usize,
        [y, x]: [usize; 2],
        atoms: &[u8],
    ) -> Result<(), Fault> {
        write(memory, self.unit, self.port, self.at(surface, y, x), atoms.len())?.copy_from_slice(atoms);
        Ok(())
    }

    /// Writes lines of `line` bytes from line `y` on, each from column `x` on. Uses several threads if the lines are
    /// adjacent in memory.
    pub(crate) fn write_lines(
        &self,
        memory: &mut dyn Memory,
        surface: usize,
        [y, x]: [usize; 2],
        line: usize,
        lines: &[u8],
    ) -> Result<(), Fault> {
        if self.cube.is_line_packed() && line as u64 == self.cube.line_bytes() {
            if let Some(to) = memory.write(self.port, self.at(surface, y, x), lines.len()) {
                share::copy(lines, to);
                return Ok(());
            }
        }
        lines.chunks_exact(line).zip(y..).try_for_each(|(atoms, y)| self.write(memory, surface, [y, x], atoms))
    }

    /// Returns the bytes of `atoms` atoms of line `y` from column `x` on, to be written.
    pub fn write_to<'m>(
        &self,
        memory: &'m mut dyn Memory,
        surface: usize,
        [y, x]: [usize; 2],
        atoms: usize,
    ) -> Result<&'m mut [u8], Fault> {
        write(memory, self.unit, self.port, self.at(surface, y, x), self.cube.atoms().span(atoms))
    }

    /// The span of the whole cube, if it has no gaps.
    pub(crate) fn all(&self) -> Option<Span> {
        let length = usize::try_from(self.cube.span()).ok().filter(|_| self.cube.is_packed())?;
        Some(Span { port: self.port, address: self.address, length })
    }

    /// The range of `atoms` atoms of line `y` from column `x` on, in [`Self::all`].
    pub(crate) fn within(&self, surface: usize, [y, x]: [usize; 2], atoms: usize) -> Range<usize> {
        let start = self.cube.atom_offset(surface as u32, y as u32, x as u32) as usize;
        start..start + self.cube.atoms().span(atoms)
    }

    fn at(&self, surface: usize, y: usize, x: usize) -> u64 {
        self.address.wrapping_add(self.cube.atom_offset(surface as u32, y as u32, x as u32))
    }
}
