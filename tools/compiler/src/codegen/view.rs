// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tensors in their buffers, and parts of them as cubes.

use nvdla_uapi::layout::feature::{self, Atoms};
use nvdla_uapi::reg::values::Precision;

use crate::passes::place::Map;
use crate::schedule::program::{Base, Cube, Format};

/// A part of a tensor: first and number of physical channels, lines and columns. Its channels start at an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) channels: (u32, u32),
    pub(crate) lines: (u32, u32),
    pub(crate) columns: (u32, u32),
}

/// A tensor's place in its buffer.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) buffer: usize,
    pub(crate) format: Format,
    pub(crate) offset: u32,
    pub(crate) line_stride: u32,
    pub(crate) surface_stride: u32,
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) map: Map,
    /// The precision of its elements; of an image, that of the convolution that reads it.
    pub(crate) precision: Precision,
    /// The atoms of that precision.
    pub(crate) atoms: Atoms,
}

impl View {
    /// The whole tensor.
    pub(crate) fn all(&self) -> Region {
        Region { channels: (0, self.map.extent), lines: (0, self.height), columns: (0, self.width) }
    }

    /// The strides of its lines and surfaces.
    pub(crate) fn layout(&self) -> feature::View {
        let (surface, line) = (self.surface_stride as usize, self.line_stride as usize);
        feature::View { cube: 0, surface, line, atom: self.atoms.bytes() }
    }

    /// The shape of this tensor in packed feature data with other atoms. None if its strides exceed 32 bits.
    pub(crate) fn packed(&self, atoms: Atoms) -> Option<Self> {
        let [line_stride, surface_stride] =
            atoms.packed_strides(self.width, self.height).map(|stride| u32::try_from(stride).ok());
        let (line_stride, surface_stride) = (line_stride?, surface_stride?);
        Some(Self { offset: 0, line_stride, surface_stride, format: Format::Feature, atoms, ..self.clone() })
    }

    /// A part as a cube. `atoms` are those of the operation. If they have 8 bits and the tensor has 16, the operation reads or
    /// writes two surfaces per atom.
    pub(crate) fn cube(&self, part: &Region, atoms: Atoms) -> Cube {
        let (lines, columns) = (part.lines, part.columns);
        let view = self.layout();
        let surfaces = self.atoms.surfaces(atoms.filled(part.channels.1 as usize));
        let (start, size) = match self.format {
            Format::Feature => {
                let first = self.atoms.place(part.channels.0 as usize).0;
                let last = view.atoms(0, surfaces - 1, [lines.1 as usize - 1, 0], columns.1 as usize);
                (view.atom_offset(0, first, 0, columns.0 as usize) as u32, last.end as u32)
            }
            Format::Pixel(_) => (0, view.line_offset(lines.1 as usize) as u32),
        };
        Cube {
            base: Base::Buffer(self.buffer),
            offset: self.offset + view.line_offset(lines.0 as usize) as u32 + start,
            size,
            width: columns.1 as u16,
            height: lines.1 as u16,
            channels: part.channels.1 as u16,
            line_stride: self.line_stride,
            surface_stride: self.surface_stride,
            surfaces: surfaces as u32,
        }
    }
}
