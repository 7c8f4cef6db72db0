// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rubik element by element. The fast implementation is compared with it.

use nvdla_uapi::config::Config;

use super::operation::{done, Contract, Extent, Operation, Planes, UNIT};
use crate::cube::Placed;
use crate::memory::{write, Memory, Stop};
use crate::registers::Registers;
use crate::stream::Done;

/// As [`super::run`].
pub fn run(config: &Config, registers: &Registers, memory: &mut dyn Memory) -> Result<Done<()>, Stop> {
    match Operation::new(config, registers)? {
        Operation::Contract(operation) => contract(&operation, memory)?,
        Operation::Split(cube, planes, extent) => split(&cube, &planes, &extent, memory)?,
        Operation::Merge(planes, cube, extent) => merge(&planes, &cube, &extent, memory)?,
    }
    Ok(done())
}

fn contract(operation: &Contract, memory: &mut dyn Memory) -> Result<(), Stop> {
    let [stride_x, stride_y] = operation.stride;
    for surface in 0..operation.surfaces {
        for y in 0..operation.height {
            for inner_y in 0..stride_y {
                for x in 0..operation.width {
                    for inner_x in 0..stride_x {
                        let from = operation.input_surface(surface, [inner_x, inner_y]);
                        let atom = operation.input.read(memory, from, [y, x], 1)?.to_vec();
                        let column = operation.input.cube.atoms().span(x * stride_x + inner_x);
                        let to = operation.line(surface, y, inner_y).wrapping_add(column as u64);
                        write(memory, UNIT, operation.port, to, atom.len())?.copy_from_slice(&atom);
                    }
                }
            }
        }
    }
    Ok(())
}

fn split(cube: &Placed, planes: &Planes, extent: &Extent, memory: &mut dyn Memory) -> Result<(), Stop> {
    let bytes = extent.bytes;
    for channel in 0..extent.channels {
        let (surface, lane) = extent.atoms.place(channel);
        for y in 0..extent.height {
            let mut line = vec![0; extent.line()];
            for x in 0..extent.width {
                let atom = cube.read(memory, surface, [y, x], 1)?;
                line[x * bytes..][..bytes].copy_from_slice(&atom[lane * bytes..][..bytes]);
            }
            planes.write(memory, channel, y, &line)?;
        }
    }
    Ok(())
}

fn merge(planes: &Planes, cube: &Placed, extent: &Extent, memory: &mut dyn Memory) -> Result<(), Stop> {
    let bytes = extent.bytes;
    for surface in 0..extent.atoms.surfaces(extent.channels) {
        for y in 0..extent.height {
            for x in 0..extent.width {
                let mut atom = vec![0; extent.atoms.bytes()];
                for (lane, channel) in extent.atoms.channels_of(surface, extent.channels).enumerate() {
                    let line = planes.read(memory, channel, y, extent.line())?;
                    atom[lane * bytes..][..bytes].copy_from_slice(&line[x * bytes..][..bytes]);
                }
                cube.write(memory, surface, [y, x], &atom)?;
            }
        }
    }
    Ok(())
}
