// SPDX-License-Identifier: MIT OR Apache-2.0

//! Poolings on the fly: PDP takes its input directly from SDP. SDP then writes no memory and PDP reads none. Together with the
//! convolution before them they take as long as the slowest of them alone.
//!
//! The condition is that SDP operations write the whole input in whole surfaces, that windows read all of it, and that no other
//! operation reads it. PDP processes surfaces one after another, so a pooling whose input several operations write, such as the
//! branches of a concatenation, becomes one operation per branch.

use std::collections::HashMap;

use nvdla_uapi::desc::SdpOp;
use nvdla_uapi::layout::feature::{Atoms, View};
use nvdla_uapi::reg::values::ConvMode;

use crate::schedule::program::{Cube, Operation, Program, Storage, Task, Unit};

/// Joins poolings with the operations that write their inputs.
pub fn join(program: &mut Program) {
    let atoms = program.atoms();
    let mut readers = vec![0; program.buffers.len()];
    let mut writers = vec![0; program.buffers.len()];
    let mut count = |read: &mut dyn Iterator<Item = &Cube>, written: &Cube| {
        read.filter_map(Cube::buffer).for_each(|buffer| readers[buffer] += 1);
        written.buffer().into_iter().for_each(|buffer| writers[buffer] += 1);
    };
    for task in &program.tasks {
        match task {
            Task::Dla(list) => {
                for operation in list {
                    count(&mut operation.unit.reads(), operation.unit.target());
                }
            }
            Task::Emulated(list) => {
                for operation in list {
                    count(&mut std::iter::once(&operation.source), &operation.target);
                }
            }
        }
    }
    for task in &mut program.tasks {
        let Task::Dla(list) = task else { continue };
        // The poolings that follow each operation, and the operations that they replace.
        let mut behind: HashMap<usize, Operation> = HashMap::new();
        let mut replaced = vec![false; list.len()];
        for (index, operation) in list.iter().enumerate() {
            let Unit::Pdp { op, source, target } = &operation.unit else { continue };
            let Some(buffer) = source.buffer() else { continue };
            if readers[buffer] != 1 || program.buffers[buffer].place != Storage::Pool {
                continue;
            }
            let is_maker = |at: &usize| {
                // PDP takes neither Winograd's tiles nor 16 bits that SDP makes of 8.
                let takes = |op: &SdpOp| op.conv_mode == ConvMode::Direct && op.src_precision == op.dst_precision;
                let taken = matches!(&list[*at].unit, Unit::Sdp { op, .. } if takes(op));
                taken && list[*at].unit.target().buffer() == Some(buffer)
            };
            let mut makers: Vec<usize> = (0..index).filter(is_maker).collect();
            makers.sort_by_key(|&at| list[at].unit.target().offset);
            let Some(surfaces) = surfaces(source, makers.iter().map(|&at| list[at].unit.target()), atoms) else {
                continue;
            };
            if makers.len() != writers[buffer] {
                continue;
            }
            for (&at, (first, count)) in makers.iter().zip(surfaces) {
                let made = list[at].unit.target().sums();
                let view = view(target, atoms);
                let last = [usize::from(target.height) - 1, 0];
                let target = Cube {
                    offset: target.offset + view.atom_offset(0, first, 0, 0) as u32,
                    size: view.atoms(0, count - 1, last, target.width.into()).end as u32,
                    channels: made.channels,
                    surfaces: made.surfaces,
                    ..*target
                };
                let unit = Unit::Pdp { op: op.clone(), source: made, target };
                behind.insert(at, Operation { unit, alone: false, ..operation.clone() });
            }
            replaced[index] = true;
        }
        let operations = std::mem::take(list).into_iter().enumerate();
        for (index, mut operation) in operations.filter(|(index, _)| !replaced[*index]) {
            let pooling = behind.remove(&index);
            if let (Some(pooling), Unit::Sdp { target, .. }) = (&pooling, &mut operation.unit) {
                *target = *pooling.unit.source();
            }
            list.push(operation);
            list.extend(pooling);
        }
    }
}

/// The lines and surfaces of a cube.
fn view(cube: &Cube, atoms: Atoms) -> View {
    View { cube: 0, surface: cube.surface_stride as usize, line: cube.line_stride as usize, atom: atoms.bytes() }
}

/// The first surface and the number of surfaces of each part, if the parts, in the order of their offsets, are all surfaces of
/// `whole`. They must not have more lines or columns: in NVIDIA's Verilog PDP does not take elements that no window reads, and
/// the next pooling on the fly then never ends.
fn surfaces<'a>(whole: &Cube, parts: impl Iterator<Item = &'a Cube>, atoms: Atoms) -> Option<Vec<(usize, usize)>> {
    let (mut next, mut found) = (0, Vec::new());
    for part in parts {
        let shape = |cube: &Cube| (cube.width, cube.height, cube.line_stride, cube.surface_stride);
        let begin = whole.offset as usize + view(whole, atoms).atom_offset(0, next, 0, 0);
        if shape(part) != shape(whole) || part.offset as usize != begin {
            return None;
        }
        let count = part.surfaces as usize;
        found.push((next, count));
        next += count;
    }
    (next == whole.surfaces as usize).then_some(found)
}
