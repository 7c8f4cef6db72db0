// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! SDP's operands in memory: bias, PReLU, batch normalisation and element-wise data.
//!
//! Operands vary by kernel (channel) as a continuous 1x1xC cube, or by element as a WxHxC cube. Each element has one or
//! two components (for ALU, multiplier or both, ALU first), each of one or two bytes. An atom holds as many elements as
//! a feature atom of the processing precision does (32 for int8, 16 for int16 and fp16, with 32-byte atoms), so its
//! bytes are elements per atom x components per element x bytes per component. Operands of a whole layer are in
//! registers and have no layout.
//!
//! Source: "In-memory data formats", sections "Bias Data Format" to "Element-Wise Data Format". The channel stands for
//! N, C, H, W as in a feature cube; [`Operands::component_offset`] addresses the two components.

use super::super::reg::values::{OperandMode, OperandSize, OperandUse, Precision};
use super::contract::Layout;
use super::error::{Error, Rule};
use super::extents::{bytes, multiply_add, round_up, Extents, Index};
use core::ops::Range;

/// A component of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    /// What the ALU takes (bias, mean).
    Alu,
    /// What the multiplier takes (PReLU's slope, batch normalisation's scale).
    Mul,
}

/// What operands are used for, in the document's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UseCase {
    /// Added to a convolution's result: per channel or element.
    Bias,
    /// The slope of negative values: per channel.
    Prelu,
    /// Added and multiplied: per channel.
    BatchNormalization,
    /// One operation with another cube: per element.
    Elementwise,
    /// Both operations with another cube: per element.
    ElementwiseBoth,
}

impl UseCase {
    /// Components per element.
    pub const fn components(self) -> u32 {
        match self {
            Self::Bias | Self::Prelu | Self::Elementwise => 1,
            Self::BatchNormalization | Self::ElementwiseBoth => 2,
        }
    }

    /// Whether operands of this use may vary so (per kernel or per element, from memory).
    pub const fn allows(self, mode: OperandMode) -> bool {
        match self {
            Self::Bias => true,
            Self::Prelu | Self::BatchNormalization => matches!(mode, OperandMode::PerKernel),
            Self::Elementwise | Self::ElementwiseBoth => matches!(mode, OperandMode::PerElement),
        }
    }
}

/// Operands in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operands {
    extents: Extents,
    mode: OperandMode,
    data_use: OperandUse,
    data_size: OperandSize,
    atom_elements: u32,
    line_stride: u64,
    surface_stride: u64,
    span: u64,
}

/// How operands are made: what SDP_RDMA's data-use, data-size and precision fields say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// Per kernel or per element.
    pub mode: OperandMode,
    /// Components.
    pub data_use: OperandUse,
    /// Bytes of a component.
    pub data_size: OperandSize,
    /// SDP's processing precision.
    pub processing: Precision,
    /// Bytes of a feature atom (`memory_atomic`).
    pub atom: u32,
}

impl Format {
    /// Elements per atom: as many as a feature atom of the processing precision has.
    pub const fn atom_elements(self) -> u32 {
        self.atom / bytes(self.processing)
    }

    /// Components per element.
    pub const fn components(self) -> u32 {
        match self.data_use {
            OperandUse::Mul | OperandUse::Alu => 1,
            OperandUse::Both => 2,
        }
    }

    /// Bytes per component.
    pub const fn component_bytes(self) -> u32 {
        match self.data_size {
            OperandSize::OneByte => 1,
            OperandSize::TwoByte => 2,
        }
    }

    /// Bytes of an atom of operands: elements per atom x components per element x bytes per component.
    pub const fn bytes_per_atom(self) -> u32 {
        self.atom_elements() * self.components() * self.component_bytes()
    }
}

impl Operands {
    /// Operands for an output cube of these extents, without gaps but those that align lines (where an atom of operands
    /// is smaller than a feature atom). Per kernel, width and height do not matter.
    pub const fn packed(extents: Extents, format: Format) -> Result<Self, Error> {
        let line = round_up(extents.w as u64 * format.bytes_per_atom() as u64, format.atom as u64);
        Self::unpacked(extents, format, line, line.saturating_mul(extents.h as u64))
    }

    /// Operands with these strides in bytes (per kernel they do not matter).
    pub const fn unpacked(
        extents: Extents,
        format: Format,
        line_stride: u64,
        surface_stride: u64,
    ) -> Result<Self, Error> {
        let operands = match Self::as_programmed(extents, format, line_stride, surface_stride) {
            Ok(operands) => operands,
            Err(error) => return Err(error),
        };
        if matches!(format.mode, OperandMode::PerKernel) {
            return Ok(operands);
        }
        let atom = format.atom as u64;
        let line = extents.w as u64 * format.bytes_per_atom() as u64;
        let plane = (extents.h as u64 - 1).saturating_mul(line_stride).saturating_add(line);
        if let Err(error) = Error::unless_multiple(Rule::OperandLineStride, line_stride, atom) {
            return Err(error);
        }
        if let Err(error) = Error::unless_multiple(Rule::OperandSurfaceStride, surface_stride, atom) {
            return Err(error);
        }
        if extents.h > 1 {
            if let Err(error) = Error::unless_at_least(Rule::OperandLineOverlap, line_stride, line) {
                return Err(error);
            }
        }
        if operands.surfaces() > 1 {
            if let Err(error) = Error::unless_at_least(Rule::OperandSurfaceOverlap, surface_stride, plane) {
                return Err(error);
            }
        }
        Ok(operands)
    }

    /// The operands that SDP_RDMA reads when it is programmed with these strides. Any stride is allowed whose offsets
    /// fit 64 bits.
    pub const fn as_programmed(
        extents: Extents,
        format: Format,
        line_stride: u64,
        surface_stride: u64,
    ) -> Result<Self, Error> {
        let Extents { c, h, w, .. } = extents;
        let (extents, line_stride, surface_stride) = match format.mode {
            OperandMode::PerElement => (Extents::new(1, c, h, w), line_stride, surface_stride),
            OperandMode::PerKernel => {
                let atom = format.bytes_per_atom() as u64;
                (Extents::new(1, c, 1, 1), atom, atom)
            }
        };
        if let Err(error) = extents.check() {
            return Err(error);
        }
        if !matches!(format.atom, 8 | 16 | 32) {
            return Err(Error::new(Rule::Atom, format.atom as u64, 0));
        }
        if matches!((format.processing, format.data_size), (Precision::Fp16, OperandSize::OneByte)) {
            return Err(Error::new(Rule::OperandFp16, 1, 2));
        }
        let mut operands = Self {
            extents,
            mode: format.mode,
            data_use: format.data_use,
            data_size: format.data_size,
            atom_elements: format.atom_elements(),
            line_stride,
            surface_stride,
            span: 0,
        };
        let line = extents.w as u64 * format.bytes_per_atom() as u64;
        let span = match multiply_add(extents.h as u64 - 1, line_stride, line) {
            Some(plane) => multiply_add(operands.surfaces() as u64 - 1, surface_stride, plane),
            None => None,
        };
        match span {
            Some(span) => {
                operands.span = span;
                Ok(operands)
            }
            None => Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
        }
    }

    /// How the operands are made, for one use case; refuses a mode or components that the document does not give it.
    pub const fn check_use(use_case: UseCase, format: Format) -> Result<(), Error> {
        if !use_case.allows(format.mode) {
            return Err(Error::new(Rule::OperandMode, format.mode as u64, 0));
        }
        if format.components() != use_case.components() {
            let (value, limit) = (format.components() as u64, use_case.components() as u64);
            return Err(Error::new(Rule::OperandComponents, value, limit));
        }
        Ok(())
    }

    /// Per kernel or per element.
    pub const fn mode(&self) -> OperandMode {
        self.mode
    }

    /// Which components each element has.
    pub const fn data_use(&self) -> OperandUse {
        self.data_use
    }

    /// Components per element.
    pub const fn components(&self) -> u32 {
        match self.data_use {
            OperandUse::Mul | OperandUse::Alu => 1,
            OperandUse::Both => 2,
        }
    }

    /// Bytes per component.
    pub const fn component_bytes(&self) -> u32 {
        match self.data_size {
            OperandSize::OneByte => 1,
            OperandSize::TwoByte => 2,
        }
    }

    /// Elements per atom.
    pub const fn atom_elements(&self) -> u32 {
        self.atom_elements
    }

    /// Bytes per atom.
    pub const fn bytes_per_atom(&self) -> u32 {
        self.atom_elements * self.components() * self.component_bytes()
    }

    /// Surfaces: channel groups of one atom.
    pub const fn surfaces(&self) -> u32 {
        self.extents.c.div_ceil(self.atom_elements)
    }

    /// Bytes from the first to the last byte of whole atoms that SDP_RDMA reads.
    pub const fn span(&self) -> u64 {
        self.span
    }

    /// Offset of line `h` of a surface. Per kernel, `h` is ignored.
    pub const fn line_offset(&self, surface: u32, h: u32) -> u64 {
        let h = match self.mode {
            OperandMode::PerKernel => 0,
            OperandMode::PerElement => h,
        };
        (surface as u64).wrapping_mul(self.surface_stride).wrapping_add((h as u64).wrapping_mul(self.line_stride))
    }

    /// Offset of the atom of a surface at line `h`, position `w`. Per kernel, `h` is ignored.
    pub const fn atom_offset(&self, surface: u32, h: u32, w: u32) -> u64 {
        self.line_offset(surface, h).wrapping_add(w as u64 * self.bytes_per_atom() as u64)
    }

    /// The bytes of this many atoms of a line.
    pub const fn span_of(&self, atoms: usize) -> usize {
        atoms * self.bytes_per_atom() as usize
    }

    /// The channels of a surface, those that fill its atoms included.
    pub const fn lanes_of(&self, surface: u32) -> Range<u32> {
        surface * self.atom_elements..(surface + 1) * self.atom_elements
    }

    /// Offset of an element's first component. Per kernel, `h` and `w` are ignored.
    pub const fn element_offset(&self, c: u32, h: u32, w: u32) -> u64 {
        let w = match self.mode {
            OperandMode::PerKernel => 0,
            OperandMode::PerElement => w,
        };
        let lane = (c % self.atom_elements) as u64 * (self.components() * self.component_bytes()) as u64;
        self.atom_offset(c / self.atom_elements, h, w).wrapping_add(lane)
    }

    /// Offset of one component of an element; `None` where the operands do not have it.
    pub const fn component_offset(&self, component: Component, c: u32, h: u32, w: u32) -> Option<u64> {
        let element = self.element_offset(c, h, w);
        match (self.data_use, component) {
            (OperandUse::Mul, Component::Mul) | (OperandUse::Alu | OperandUse::Both, Component::Alu) => Some(element),
            (OperandUse::Both, Component::Mul) => Some(element.wrapping_add(self.component_bytes() as u64)),
            (OperandUse::Mul, Component::Alu) | (OperandUse::Alu, Component::Mul) => None,
        }
    }
}

/// An element here is a whole operand: its one or two components together.
impl Layout for Operands {
    fn extents(&self) -> Extents {
        self.extents
    }

    fn element_bytes(&self) -> u32 {
        self.components() * self.component_bytes()
    }

    fn offset(&self, _n: u32, c: u32, h: u32, w: u32) -> u64 {
        self.element_offset(c, h, w)
    }

    fn size(&self) -> u64 {
        self.span
    }

    fn at(&self, offset: u64) -> Option<Index> {
        let (surface, rest) = super::extents::split(offset, self.surface_stride, self.surfaces());
        let (h, rest) = super::extents::split(rest, self.line_stride, self.extents.h);
        let (w, rest) = super::extents::split(rest, u64::from(self.bytes_per_atom()), self.extents.w);
        let lane = u32::try_from(rest).ok().filter(|rest| *rest < self.bytes_per_atom())? / self.element_bytes();
        let c = surface.checked_mul(self.atom_elements)?.checked_add(lane)?;
        let index = Index::new(0, c, h, w);
        self.extents.contains(index).then_some(index)
    }

    fn following(&self, at: Index) -> Option<Index> {
        super::extents::next_in_atoms(self.extents, self.atom_elements, false, at)
    }
}
