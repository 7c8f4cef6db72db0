// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several pictures per run, which share the weights.
//!
//! Each operation becomes one per picture, and those of a layer follow one another, so that the convolution buffer can keep weights
//! from one picture to the next ([`super::prefetch`]). An input or output holds one picture after the other. A buffer between layers
//! has the pictures one below the other in each surface, so that a convolution whose windows have one line can take them as one high
//! picture.

use nvdla_uapi::layout::align::{Alignment, Data};
use nvdla_uapi::layout::round_up;

use crate::error::Error;
use crate::schedule::prefetch;
use crate::schedule::program::{Base, Buffer, Cube, Emulated, Format, Operation, Program, Task, Unit};

/// Where the pictures of a buffer are.
#[derive(Clone, Copy)]
enum Place {
    /// In this buffer, one below the other in each surface.
    Below,
    /// In this buffer, one after another: bytes from one to the next.
    Behind(u32),
    /// The first is in this buffer, and the others are in buffers of their own, from this number on.
    Apart(usize),
}

/// Makes a program compute that many pictures.
///
/// # Errors
///
/// When the size of an input or output exceeds 32 bits.
pub(crate) fn repeat(program: &mut Program, pictures: u32) -> Result<(), Error> {
    if pictures == 1 {
        return Ok(());
    }
    let uneven = uneven(program);
    let (mut places, mut copies) = (Vec::new(), Vec::new());
    let own = program.buffers.len();
    for (buffer, uneven) in program.buffers.iter_mut().zip(uneven) {
        let stacked = if uneven || !buffer.place.is_pool() { None } else { buffer.stacked(pictures) };
        places.push(if let Some(stacked) = stacked {
            *buffer = stacked;
            Place::Below
        } else if buffer.place.is_pool() {
            copies.extend((1..pictures).map(|_| buffer.clone()));
            Place::Apart(own + copies.len() + 1 - pictures as usize)
        } else {
            let size = behind(buffer, pictures);
            let large = || Error::Network(format!("{:?}: {pictures} times {} bytes", buffer.name, buffer.size));
            let (one, all) = size.ok_or_else(large)?;
            (buffer.size, buffer.pictures) = (all, pictures);
            Place::Behind(one)
        });
    }
    program.buffers.extend(copies);
    let of = |cube: &Cube, picture: u32| {
        let Some(number) = cube.buffer() else { return *cube };
        match places[number] {
            Place::Below => cube.of_picture(picture, pictures),
            Place::Behind(one) => Cube { offset: cube.offset + picture * one, ..*cube },
            Place::Apart(_) if picture == 0 => *cube,
            Place::Apart(first) => Cube { base: Base::Buffer(first + picture as usize - 1), ..*cube },
        }
    };
    for task in &mut program.tasks {
        match task {
            Task::Dla(list) => {
                let copies = |run: &[Operation], picture: u32| -> Vec<_> {
                    let mut run: Vec<_> = run.iter().map(|one| Operation { picture, ..one.clone() }).collect();
                    for at in 0..run.len() {
                        let before = run[at].unit.target().sums();
                        run[at].unit.cubes_mut().for_each(|cube| *cube = of(cube, picture));
                        // What SDP takes on the fly has the form of what it writes.
                        let sums = run[at].unit.target().sums();
                        let Unit::Sdp { source, .. } = &mut run[at].unit else { continue };
                        if *source != before {
                            continue;
                        }
                        *source = sums;
                        let maker = at.checked_sub(1).map(|at| &mut run[at].unit);
                        if let Some(Unit::Convolution { target, .. }) = maker {
                            *target = sums;
                        }
                    }
                    run
                };
                let runs = prefetch::runs(list, 1);
                *list = runs.flat_map(|run| (0..pictures).flat_map(move |picture| copies(run, picture))).collect();
            }
            Task::Emulated(list) => {
                let copy = |operation: &Emulated, picture: u32| Emulated {
                    source: of(&operation.source, picture),
                    target: of(&operation.target, picture),
                    ..operation.clone()
                };
                *list = list.iter().flat_map(|one| (0..pictures).map(move |picture| copy(one, picture))).collect();
            }
        }
    }
    Ok(())
}

/// Bytes from a picture of an input or output to the next, and bytes of all.
fn behind(buffer: &Buffer, pictures: u32) -> Option<(u32, u32)> {
    let data = if buffer.format == Format::Feature { Data::Feature } else { Data::Pixel };
    let one = round_up(buffer.size.into(), Alignment::documented(data).start.into());
    Some((one.try_into().ok()?, one.checked_mul(pictures.into())?.try_into().ok()?))
}

/// For each buffer, whether an operation takes it with other surfaces than its own, as Rubik and the processor do, or takes a single
/// element, for which CDMA and SDP ignore the distance of surfaces.
fn uneven(program: &Program) -> Vec<bool> {
    let mut uneven = vec![false; program.buffers.len()];
    for task in &program.tasks {
        match task {
            Task::Dla(list) => {
                for unit in list.iter().map(|operation| &operation.unit) {
                    for cube in unit.reads().chain([unit.target()]) {
                        let Some(number) = cube.buffer() else { continue };
                        let own = cube.has_surfaces_of(&program.buffers[number], program.config.memory_atomic);
                        let single = (cube.width, cube.height) == (1, 1);
                        uneven[number] |= !own || single || matches!(unit, Unit::Rubik { .. });
                    }
                }
            }
            Task::Emulated(list) => {
                for cube in list.iter().flat_map(|operation| [&operation.source, &operation.target]) {
                    cube.buffer().into_iter().for_each(|number| uneven[number] = true);
                }
            }
        }
    }
    uneven
}
