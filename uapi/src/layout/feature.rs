// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Feature data: the 3D cubes that every unit reads and writes.
//!
//! A cube's channels are cut into atoms of 1x1x32 bytes (16 or 8 in smaller configurations: `memory_atomic`). The atoms
//! of a line lie compactly; lines and surfaces (all atoms of one channel group) lie at a stride, which is a multiple of
//! the atom. So the order in memory is C' (inside the atom), W, H, C (surface). A cube whose strides leave no gap is
//! packed. Channels that fill up the last atom are padding: any value but NaN, and zero when packed here.
//!
//! Source: "In-memory data formats", section "Feature Data Format", table 35 for the strides.

use super::super::reg::values::Precision;
use super::{bytes, multiply_add, Element, Error, Extents, Index, Layout, Order, Rule};

/// A feature cube, or a batch of them.
#[allow(clippy::struct_field_names)] // "cube stride" is the document's name
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cube {
    extents: Extents,
    precision: Precision,
    atom: u32,
    line_stride: u64,
    surface_stride: u64,
    cube_stride: u64,
    span: u64,
}

impl Cube {
    /// A packed cube: no gap between lines, surfaces or batches.
    pub const fn packed(extents: Extents, precision: Precision, atom: u32) -> Result<Self, Error> {
        let line = (extents.w as u64).saturating_mul(atom as u64);
        let surface = line.saturating_mul(extents.h as u64);
        Self::unpacked(extents, precision, atom, line, surface)
    }

    /// A cube with these strides in bytes. Batches follow one another without a gap; see
    /// [`Self::with_cube_stride`].
    ///
    /// The line stride of a cube of one line, and the surface stride of one surface, may be anything aligned.
    pub const fn unpacked(
        extents: Extents,
        precision: Precision,
        atom: u32,
        line_stride: u64,
        surface_stride: u64,
    ) -> Result<Self, Error> {
        let cube = match Self::as_programmed(extents, precision, atom, line_stride, surface_stride, 0) {
            Ok(cube) => cube,
            Err(error) => return Err(error),
        };
        let cube = match cube.check_strides() {
            Ok(()) => cube,
            Err(error) => return Err(error),
        };
        let one = match multiply_add(cube.surfaces() as u64, surface_stride, 0) {
            Some(size) if size > cube.plane_span() => size,
            _ => cube.plane_span(),
        };
        cube.with_cube_stride(one)
    }

    /// The cube that hardware would read or write when programmed with these strides: nothing is checked but that
    /// extents are not zero, the atom is valid, and every offset fits 64 bits. Strides may make elements overlap.
    pub const fn as_programmed(
        extents: Extents,
        precision: Precision,
        atom: u32,
        line_stride: u64,
        surface_stride: u64,
        cube_stride: u64,
    ) -> Result<Self, Error> {
        if let Err(error) = extents.check() {
            return Err(error);
        }
        if !matches!(atom, 8 | 16 | 32) {
            return Err(Error::new(Rule::Atom, atom as u64, 0));
        }
        let mut cube = Self { extents, precision, atom, line_stride, surface_stride, cube_stride, span: 0 };
        let line = extents.w as u64 * atom as u64;
        let span = match multiply_add(extents.h as u64 - 1, line_stride, line) {
            Some(plane) => match multiply_add(cube.surfaces() as u64 - 1, surface_stride, plane) {
                Some(one) => multiply_add(extents.n as u64 - 1, cube_stride, one),
                None => None,
            },
            None => None,
        };
        match span {
            Some(span) => {
                cube.span = span;
                Ok(cube)
            }
            None => Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
        }
    }

    /// The same cubes with this distance in bytes from one batch to the next.
    pub const fn with_cube_stride(self, cube_stride: u64) -> Result<Self, Error> {
        let Self { extents, precision, atom, line_stride, surface_stride, .. } = self;
        if extents.n > 1 {
            if let Err(error) = Error::unless_multiple(Rule::FeatureCubeStride, cube_stride, atom as u64) {
                return Err(error);
            }
            if let Err(error) = Error::unless_at_least(Rule::FeatureCubeOverlap, cube_stride, self.plane_span()) {
                return Err(error);
            }
        }
        Self::as_programmed(extents, precision, atom, line_stride, surface_stride, cube_stride)
    }

    /// Strides are aligned, and neither lines nor surfaces overlap. Surfaces may lie between lines.
    const fn check_strides(&self) -> Result<(), Error> {
        let (atom, line) = (self.atom as u64, self.line_bytes());
        let (lines, surfaces) = (self.extents.h as u64, self.surfaces() as u64);
        if let Err(error) = Error::unless_multiple(Rule::FeatureLineStride, self.line_stride, atom) {
            return Err(error);
        }
        if let Err(error) = Error::unless_multiple(Rule::FeatureSurfaceStride, self.surface_stride, atom) {
            return Err(error);
        }
        if lines > 1 {
            if let Err(error) = Error::unless_at_least(Rule::FeatureLineOverlap, self.line_stride, line) {
                return Err(error);
            }
        }
        if surfaces > 1 {
            let plane =
                if lines > 1 { (lines - 1).saturating_mul(self.line_stride).saturating_add(line) } else { line };
            let between = self.surface_stride >= line
                && (surfaces - 1).saturating_mul(self.surface_stride).saturating_add(line) <= self.line_stride;
            if self.surface_stride < plane && !between {
                return Err(Error::new(Rule::FeatureSurfaceOverlap, self.surface_stride, plane));
            }
        }
        Ok(())
    }

    /// Elements of an atom.
    pub const fn atom_elements(&self) -> u32 {
        self.atom / bytes(self.precision)
    }

    /// Bytes of an atom.
    pub const fn atom(&self) -> u32 {
        self.atom
    }

    /// How elements are stored.
    pub const fn precision(&self) -> Precision {
        self.precision
    }

    /// Surfaces: channel groups of one atom.
    pub const fn surfaces(&self) -> u32 {
        self.extents.c.div_ceil(self.atom_elements())
    }

    /// Bytes that the atoms of one line take.
    pub const fn line_bytes(&self) -> u64 {
        self.extents.w as u64 * self.atom as u64
    }

    /// Bytes from one line to the next.
    pub const fn line_stride(&self) -> u64 {
        self.line_stride
    }

    /// Bytes from one surface to the next.
    pub const fn surface_stride(&self) -> u64 {
        self.surface_stride
    }

    /// Bytes from one batch's cube to the next.
    pub const fn cube_stride(&self) -> u64 {
        self.cube_stride
    }

    /// Whether the lines of a surface follow one another without a gap.
    pub const fn is_line_packed(&self) -> bool {
        self.extents.h == 1 || self.line_stride == self.line_bytes()
    }

    /// Whether the surfaces follow one another without a gap.
    pub const fn is_surface_packed(&self) -> bool {
        self.surfaces() == 1 || self.surface_stride == self.line_bytes().wrapping_mul(self.extents.h as u64)
    }

    /// Whether the whole cube has no gap ("packed feature data").
    pub const fn is_packed(&self) -> bool {
        self.is_line_packed() && self.is_surface_packed()
    }

    /// A surface-packed 1x1xC cube as the cube of one surface that is C/32 wide (in units of the atom), which saves
    /// bandwidth. `None` for other cubes, and where C does not fill its atoms.
    pub const fn folded(&self) -> Option<Self> {
        let Extents { n, c, h, w } = self.extents;
        if h != 1 || w != 1 || !self.is_surface_packed() || c % self.atom_elements() != 0 {
            return None;
        }
        let extents = Extents::new(n, self.atom_elements(), 1, self.surfaces());
        let stride = self.surfaces() as u64 * self.atom as u64;
        match Self::as_programmed(extents, self.precision, self.atom, stride, stride, self.cube_stride) {
            Ok(cube) => Some(cube),
            Err(_) => None,
        }
    }

    /// Offset of an element of batch 0.
    pub const fn element_offset(&self, c: u32, h: u32, w: u32) -> u64 {
        let lanes = self.atom_elements();
        self.atom_offset(c / lanes, h, w).wrapping_add((c % lanes) as u64 * bytes(self.precision) as u64)
    }

    /// Offset of an element.
    pub const fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        (n as u64).wrapping_mul(self.cube_stride).wrapping_add(self.element_offset(c, h, w))
    }

    /// Offset of the atom of surface `surface` at line `h`, position `w` of batch 0.
    pub const fn atom_offset(&self, surface: u32, h: u32, w: u32) -> u64 {
        self.line_offset(surface, h).wrapping_add(w as u64 * self.atom as u64)
    }

    /// Offset of line `h` of a surface of batch 0.
    pub const fn line_offset(&self, surface: u32, h: u32) -> u64 {
        (surface as u64).wrapping_mul(self.surface_stride).wrapping_add((h as u64).wrapping_mul(self.line_stride))
    }

    /// Bytes from the first to the last byte that a unit touches: whole atoms, with the strides between them.
    pub const fn span(&self) -> u64 {
        self.span
    }

    /// Whether surfaces lie between lines, not lines between surfaces.
    const fn is_between(&self) -> bool {
        self.surfaces() > 1 && self.extents.h > 1 && self.surface_stride < self.line_stride
    }

    /// The span of one batch's cube.
    const fn plane_span(&self) -> u64 {
        self.span - (self.extents.n as u64 - 1) * self.cube_stride
    }

    /// Packs a plain slice; see [`Layout::pack`].
    pub fn pack<T: Element>(&self, order: Order, plain: &[T], memory: &mut [u8]) -> Result<(), Error> {
        Layout::pack(self, order, plain, memory)
    }

    /// Unpacks into a plain slice; see [`Layout::unpack`].
    pub fn unpack<T: Element>(&self, order: Order, memory: &[u8], plain: &mut [T]) -> Result<(), Error> {
        Layout::unpack(self, order, memory, plain)
    }
}

impl Layout for Cube {
    fn extents(&self) -> Extents {
        self.extents
    }

    fn element_bytes(&self) -> u32 {
        bytes(self.precision)
    }

    fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        Self::offset(self, n, c, h, w)
    }

    fn size(&self) -> u64 {
        self.span
    }

    fn at(&self, offset: u64) -> Option<Index> {
        let Extents { n: cubes, h: lines, w: width, .. } = self.extents;
        let (n, rest) = super::split(offset, self.cube_stride, cubes);
        let (surface, h, rest) = if self.is_between() {
            let (h, rest) = super::split(rest, self.line_stride, lines);
            let (surface, rest) = super::split(rest, self.surface_stride, self.surfaces());
            (surface, h, rest)
        } else {
            let (surface, rest) = super::split(rest, self.surface_stride, self.surfaces());
            let (h, rest) = super::split(rest, self.line_stride, lines);
            (surface, h, rest)
        };
        let (w, rest) = super::split(rest, u64::from(self.atom), width);
        let lane = u32::try_from(rest).ok().filter(|rest| *rest < self.atom)? / bytes(self.precision);
        let c = surface.checked_mul(self.atom_elements())?.checked_add(lane)?;
        let index = Index::new(n, c, h, w);
        self.extents.contains(index).then_some(index)
    }

    fn following(&self, at: Index) -> Option<Index> {
        super::next_in_atoms(self.extents, self.atom_elements(), self.is_between(), at)
    }

    #[cfg(feature = "bulk")]
    fn pack<T: Element>(&self, order: Order, plain: &[T], memory: &mut [u8]) -> Result<(), Error> {
        super::transfer::check(self, plain, memory.len())?;
        super::bulk::pack_feature(self, order, plain, memory);
        Ok(())
    }

    #[cfg(feature = "bulk")]
    fn unpack<T: Element>(&self, order: Order, memory: &[u8], plain: &mut [T]) -> Result<(), Error> {
        super::transfer::check(self, plain, memory.len())?;
        super::bulk::unpack_feature(self, order, memory, plain);
        Ok(())
    }
}
