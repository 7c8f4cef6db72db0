// SPDX-License-Identifier: MIT OR Apache-2.0

//! Feature cubes where the registers say that they lie.

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::Extents;
use nvdla_uapi::reg::values::Precision;

use crate::memory::{read, write, Fault, Memory, Port, Stop};

/// A feature cube in memory.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// The unit that reads or writes it, for faults.
    pub unit: &'static str,
    /// The memory.
    pub port: Port,
    /// Where it begins.
    pub address: u64,
    /// Its layout.
    pub cube: Cube,
}

impl Placed {
    /// The cube of `[width, height, channels]` elements with these strides.
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
        Ok(Self { unit, port, address, cube })
    }

    /// `atoms` atoms of line `y` from column `x` on.
    pub fn read<'m>(
        &self,
        memory: &'m dyn Memory,
        surface: usize,
        [y, x]: [usize; 2],
        atoms: usize,
    ) -> Result<&'m [u8], Fault> {
        read(memory, self.unit, self.port, self.at(surface, y, x), atoms * self.cube.atom() as usize)
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

    fn at(&self, surface: usize, y: usize, x: usize) -> u64 {
        self.address.wrapping_add(self.cube.atom_offset(surface as u32, y as u32, x as u32))
    }
}
