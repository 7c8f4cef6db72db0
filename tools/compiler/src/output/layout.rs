// SPDX-License-Identifier: MIT OR Apache-2.0

//! The places of a loadable's tensors in memory, for those who look at them while it runs.

use std::collections::{HashMap, HashSet};

use nvdla_runtime::half;
use nvdla_runtime::session::Completed;
use nvdla_uapi::layout::feature::{Atoms, View};
use nvdla_uapi::reg::values::Precision;

use crate::schedule::program::Cube;

/// The places of a loadable's tensors in memory.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Bytes of an atom.
    pub(crate) atom: usize,
    /// The cubes that each operation of each task writes; none for tasks of the emulator.
    pub(crate) written: Vec<Vec<Cube>>,
    /// Bytes of each buffer.
    pub(crate) buffers: Vec<u32>,
    /// The tensors that steps write, with their places.
    pub(crate) tensors: Vec<Stored>,
}

/// A tensor in a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// Its number in the network of steps; the graph's tensors come first.
    pub(crate) tensor: usize,
    /// Lines and columns.
    pub(crate) size: [u32; 2],
    /// The buffer's number.
    pub(crate) buffer: usize,
    /// Bytes from the buffer's start.
    pub(crate) offset: u32,
    /// Bytes from a line to the next.
    pub(crate) line_stride: u32,
    /// Bytes from a surface to the next.
    pub(crate) surface_stride: u32,
    /// The physical channel of each channel.
    pub(crate) channels: Vec<u32>,
    /// The precision of its elements.
    pub(crate) precision: Precision,
    /// The atoms of that precision.
    pub(crate) atoms: Atoms,
    /// Real value = (integer - zero) * scale; 1 in fp16.
    pub(crate) scale: f64,
    /// The integer that represents zero.
    pub(crate) zero: i32,
}

impl Layout {
    /// The lines and surfaces of a cube or a tensor, in bytes.
    fn view(&self, line: u32, surface: u32) -> View {
        View { cube: 0, surface: surface as usize, line: line as usize, atom: self.atom }
    }

    /// The offsets of a cube's atoms in its buffer.
    fn places<'a>(&'a self, cube: &'a Cube) -> impl Iterator<Item = usize> + 'a {
        let surfaces = cube.surfaces as usize;
        let view = self.view(cube.line_stride, cube.surface_stride);
        (0..surfaces).flat_map(move |surface| {
            (0..usize::from(cube.height)).flat_map(move |y| {
                (0..usize::from(cube.width)).map(move |x| cube.offset as usize + view.atom_offset(0, surface, y, x))
            })
        })
    }

    /// Leaves out the tensors of which the emulator writes elements into these cubes, because [`Self::keep`] does not see them.
    pub(crate) fn without(self, cubes: &[Cube]) -> Self {
        let mut unseen: HashMap<usize, HashSet<usize>> = HashMap::new();
        for cube in cubes {
            let Some(buffer) = cube.buffer() else { continue };
            unseen.entry(buffer).or_default().extend(self.places(cube));
        }
        let seen = |stored: &Stored| {
            let unseen = unseen.get(&stored.buffer);
            unseen.is_none_or(|unseen| !self.lanes(stored).any(|(atom, _)| unseen.contains(&atom)))
        };
        let tensors = self.tensors.iter().filter(|stored| seen(stored)).cloned().collect();
        Self { tensors, ..self }
    }

    /// The atoms of a tensor's elements, as offsets in its buffer, and the elements' numbers in them.
    fn lanes<'a>(&self, stored: &'a Stored) -> impl Iterator<Item = (usize, usize)> + 'a {
        let [height, width] = stored.size.map(|size| size as usize);
        let view = self.view(stored.line_stride, stored.surface_stride);
        stored.channels.iter().flat_map(move |&channel| {
            let (surface, lane) = stored.atoms.place(channel as usize);
            let atom = move |y, x| (stored.offset as usize + view.atom_offset(0, surface, y, x), lane);
            (0..height).flat_map(move |y| (0..width).map(move |x| atom(y, x)))
        })
    }

    /// The elements of a tensor: integers, or bits of fp16.
    fn elements(&self, stored: &Stored, bytes: &[u8]) -> Vec<i16> {
        let element = |(atom, lane): (usize, usize)| match stored.precision {
            Precision::Int8 => i16::from(bytes[atom + lane] as i8),
            _ => i16::from_le_bytes([bytes[atom + 2 * lane], bytes[atom + 2 * lane + 1]]),
        };
        self.lanes(stored).map(element).collect()
    }

    pub(crate) fn values(&self, stored: &Stored, bytes: &[u8]) -> Vec<f32> {
        let elements = self.elements(stored, bytes).into_iter();
        let integer = |value: i16| (f64::from(i32::from(value) - stored.zero) * stored.scale) as f32;
        match stored.precision {
            Precision::Fp16 => elements.map(|bits| half::to_f32(half::f16::from_bits(bits as u16))).collect(),
            _ => elements.map(integer).collect(),
        }
    }

    /// Buffers for [`Self::keep`].
    pub fn buffers(&self) -> Vec<Vec<u8>> {
        self.buffers.iter().map(|&size| vec![0; size as usize]).collect()
    }

    /// Copies what an operation has written into `buffers`.
    pub fn keep(&self, completed: &Completed<'_>, buffers: &mut [Vec<u8>]) {
        let cube = self.written.get(usize::from(completed.task)).and_then(|list| list.get(completed.operation));
        let (Some(cube), Some(bytes)) = (cube, completed.surface) else { return };
        let Some(buffer) = cube.buffer() else { return };
        for place in self.places(cube) {
            let from = bytes.get(place - cube.offset as usize..).and_then(|rest| rest.get(..self.atom));
            if let (Some(from), Some(into)) = (from, buffers[buffer].get_mut(place..place + self.atom)) {
                into.copy_from_slice(from);
            }
        }
    }

    /// The elements of every tensor that operations have written into `buffers`, by its number: integers, or bits of fp16.
    pub fn tensors<'a>(&'a self, buffers: &'a [Vec<u8>]) -> impl Iterator<Item = (usize, Vec<i16>)> + 'a {
        self.tensors.iter().map(|stored| (stored.tensor, self.elements(stored, &buffers[stored.buffer])))
    }
}
