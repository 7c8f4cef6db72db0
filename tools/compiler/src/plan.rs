// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where in memory everything lies: constants one behind another in one memory, activations in a pool in which a
//! surface takes the place of those that nobody needs any more.
//!
//! A place is free for a surface when the operations that wrote and read what was there have completed before the first
//! operation that writes the new one can start; that follows from the dependency graph, not from the order of the list,
//! because processors run beside one another. Each surface goes to the lowest place that is free.

use nvdla_uapi::layout::align::{Alignment, Data};
use nvdla_uapi::layout::round_up;

use crate::error::Error;
use crate::program::{Base, Cube, Operation, Place, Program, Softmax, SurfaceId, Task};
use crate::schedule;

/// Constants start at multiples of this: weights need the most.
const CONSTANT_ALIGNMENT: u64 = Alignment::documented(Data::Weight).start as u64;
/// Surfaces start at multiples of this: the widest bus, so that no two surfaces share a beat.
const SURFACE_ALIGNMENT: u64 = 64;
const _: () = assert!(SURFACE_ALIGNMENT.is_multiple_of(Alignment::documented(Data::Feature).start as u64));

/// The plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Offset of each constant.
    pub constants: Vec<u32>,
    /// Bytes of all constants.
    pub constants_size: u64,
    /// Offset of each surface of the pool; 0 of the others, which have memories of their own.
    pub surfaces: Vec<u32>,
    /// Bytes of the pool.
    pub pool_size: u64,
}

/// What touches a surface, as positions in the order of all operations of all tasks.
struct Uses {
    writers: Vec<usize>,
    readers: Vec<usize>,
}

/// Plans a program's memory.
pub fn plan(program: &Program) -> Result<Plan, Error> {
    let mut constants = Vec::new();
    let mut constants_size = 0;
    for constant in &program.constants {
        constants_size = round_up(constants_size, CONSTANT_ALIGNMENT);
        constants.push(offset(constants_size)?);
        constants_size += constant.bytes.len() as u64;
    }

    let (uses, before) = uses(program)?;
    let mut surfaces = vec![0u32; program.surfaces.len()];
    let mut pool_size = 0;
    // Placed so far: surface, first byte, first byte behind it.
    let mut placed: Vec<(usize, u64, u64)> = Vec::new();
    let mut order: Vec<usize> = (0..program.surfaces.len())
        .filter(|&id| program.surfaces[id].place == Place::Pool && !uses[id].writers.is_empty())
        .collect();
    order.sort_by_key(|&id| uses[id].writers[0]);
    for id in order {
        let size = u64::from(program.surfaces[id].size);
        let over = |old: usize, new: usize| {
            uses[old].writers.iter().chain(&uses[old].readers).all(|&used| before[uses[new].writers[0]][used])
        };
        let mut taken: Vec<(u64, u64)> = placed
            .iter()
            .filter(|&&(old, ..)| !over(old, id) && !over(id, old))
            .map(|&(_, begin, end)| (begin, end))
            .collect();
        taken.sort_unstable();
        let mut begin = 0;
        for (taken_begin, taken_end) in taken {
            if begin + size <= taken_begin {
                break;
            }
            begin = begin.max(round_up(taken_end, SURFACE_ALIGNMENT));
        }
        placed.push((id, begin, begin + size));
        surfaces[id] = offset(begin)?;
        pool_size = pool_size.max(begin + size);
    }
    Ok(Plan { constants, constants_size, surfaces, pool_size })
}

fn offset(bytes: u64) -> Result<u32, Error> {
    u32::try_from(bytes).map_err(|_| Error::Network(format!("a memory of more than {bytes} bytes passes 32 bits")))
}

/// Each surface's uses, and for each operation those that have completed before it touches memory.
fn uses(program: &Program) -> Result<(Vec<Uses>, Vec<Vec<bool>>), Error> {
    let mut uses: Vec<Uses> =
        program.surfaces.iter().map(|_| Uses { writers: Vec::new(), readers: Vec::new() }).collect();
    let mut before: Vec<Vec<bool>> = Vec::new();
    let total: usize = program
        .tasks
        .iter()
        .map(|task| match task {
            Task::Dla(operations) => operations.len(),
            Task::Emulated(operations) => operations.len(),
        })
        .sum();
    for task in &program.tasks {
        let first = before.len();
        // A task starts when all before it have ended.
        let row = |own: &[bool]| {
            let mut row = vec![true; first];
            row.extend(own);
            row.resize(total, false);
            row
        };
        let cubes: Vec<(Vec<SurfaceId>, Cube)> = match task {
            Task::Dla(operations) => {
                before.extend(schedule::completed_before(operations).iter().map(|own| row(own)));
                let of = |operation: &Operation| (operation.kind.surfaces_read().collect(), *operation.kind.target());
                operations.iter().map(of).collect()
            }
            Task::Emulated(operations) => {
                // One after another.
                before.extend((0..operations.len()).map(|done| row(&vec![true; done])));
                let of = |softmax: &Softmax| (softmax.source.surface().into_iter().collect(), softmax.target);
                operations.iter().map(of).collect()
            }
        };
        for (position, (sources, target)) in cubes.into_iter().enumerate() {
            for SurfaceId(id) in sources {
                uses[id].readers.push(first + position);
            }
            if let Base::Surface(SurfaceId(id)) = target.base {
                uses[id].writers.push(first + position);
            }
        }
    }
    match uses
        .iter()
        .zip(&program.surfaces)
        .find(|(uses, surface)| uses.writers.is_empty() && !matches!(surface.place, Place::Input(_)))
    {
        Some((_, surface)) => Err(Error::Network(format!("nothing writes the surface of layer \"{}\"", surface.name))),
        None => Ok((uses, before)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Shape;
    use crate::program::{Constant, Format, Kind, Surface};
    use nvdla_uapi::config::NV_SMALL;
    use nvdla_uapi::desc::PdpOp;

    fn program(surfaces: &[(u32, Place)], edges: &[(usize, usize)]) -> Program {
        let mut program = Program { config: &NV_SMALL, surfaces: Vec::new(), constants: Vec::new(), tasks: Vec::new() };
        for (id, &(size, place)) in surfaces.iter().enumerate() {
            program.surfaces.push(Surface {
                name: id.to_string(),
                shape: Shape { channels: 1, height: 1, width: 1 },
                format: Format::Feature,
                line_stride: 8,
                surface_stride: 8,
                size,
                place,
            });
        }
        for &(from, to) in edges {
            let (source, target) = (program.whole(SurfaceId(from)), program.whole(SurfaceId(to)));
            let kind = Kind::Pdp { op: Box::new(PdpOp::default()), source, target };
            program.push(Operation { layer: to.to_string(), kind });
        }
        program
    }

    #[test]
    fn a_chain_takes_turns_in_two_places() {
        use Place::{Input, Output, Pool};
        let surfaces = [(8, Input(0)), (100, Pool), (50, Pool), (90, Pool), (60, Pool), (8, Output(0))];
        let plan = plan(&program(&surfaces, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])).unwrap();
        assert_eq!(plan.surfaces, [0, 0, 128, 0, 128, 0]);
        assert_eq!(plan.pool_size, 188);
    }

    /// What is read twice stays, and what runs beside it does not share its place.
    #[test]
    fn what_is_needed_later_stays() {
        use Place::{Input, Output, Pool};
        let surfaces = [(8, Input(0)), (64, Pool), (64, Pool), (64, Pool), (8, Output(0)), (8, Output(1))];
        let plan = plan(&program(&surfaces, &[(0, 1), (1, 2), (2, 3), (3, 4), (1, 5)])).unwrap();
        assert_eq!(plan.surfaces[1..4], [0, 64, 128]);
    }

    #[test]
    fn constants_are_aligned() {
        let mut program = program(&[(8, Place::Input(0)), (8, Place::Output(0))], &[(0, 1)]);
        program.constants =
            [10, 300, 1].map(|size| Constant { name: String::new(), bytes: vec![0; size] }).into_iter().collect();
        let plan = plan(&program).unwrap();
        assert_eq!((plan.constants, plan.constants_size), (vec![0, 256, 768], 769));
        assert_eq!(plan.pool_size, 0);
    }
}
