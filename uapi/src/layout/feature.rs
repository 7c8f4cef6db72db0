// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Feature data: the 3D cubes that every unit reads and writes.
//!
//! A cube's channels are cut into atoms of 1x1x32 bytes (16 or 8 in smaller configurations: `memory_atomic`). The atoms
//! of a line are adjacent. Lines, and surfaces (all atoms of one channel group), are at strides that are multiples of
//! the atom. So the order in memory is C' (inside the atom), W, H, C (surface). A cube whose strides leave no gap is
//! packed. Channels that fill up the last atom are padding: any value but NaN, and zero when packed here.
//!
//! Source: "In-memory data formats", section "Feature Data Format", table 35 for the strides.

use super::super::config::Config;
use super::super::reg::values::Precision;
use super::contract::Layout;
use super::element::Element;
use super::error::{Error, Rule};
use super::extents::{bytes, multiply_add, Extents, Order};
use core::ops::Range;

/// The atoms that channels are cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Atoms {
    bytes: usize,
    elements: usize,
}

impl Atoms {
    /// Atoms of `bytes` bytes, with elements of this precision.
    pub const fn new(bytes: u32, precision: Precision) -> Result<Self, Error> {
        if !matches!(bytes, 8 | 16 | 32) {
            return Err(Error::new(Rule::Atom, bytes as u64, 0));
        }
        Ok(Self::valid(bytes, precision))
    }

    /// Atoms as a configuration's units read and write them.
    pub const fn of(config: &Config, precision: Precision) -> Self {
        Self::valid(config.memory_atomic, precision)
    }

    /// The largest atoms of which `width` fit a line stride. Loadables for interface 0.10 use one format name for all cubes, so
    /// only the line stride shows which atoms a cube has.
    pub const fn of_line(width: u32, line_stride: u32, precision: Precision) -> Option<Self> {
        let mut bytes = 32;
        while bytes >= 8 {
            if line_stride as u64 >= width as u64 * bytes as u64 {
                return Some(Self::valid(bytes, precision));
            }
            bytes /= 2;
        }
        None
    }

    const fn valid(bytes: u32, precision: Precision) -> Self {
        Self { bytes: bytes as usize, elements: (bytes / self::bytes(precision)) as usize }
    }

    /// Bytes of an atom.
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// Elements of an atom: channels of a surface.
    pub const fn elements(self) -> usize {
        self.elements
    }

    /// The number of surfaces of this many channels.
    pub const fn surfaces(self, channels: usize) -> usize {
        channels.div_ceil(self.elements)
    }

    /// Channels that fill whole atoms, at least `channels`.
    pub const fn filled(self, channels: usize) -> usize {
        self.channels(self.surfaces(channels))
    }

    /// The number of channels of this many surfaces, which is also the first channel of the next surface.
    pub const fn channels(self, surfaces: usize) -> usize {
        surfaces * self.elements
    }

    /// The channels of a surface, out of `channels`.
    pub const fn channels_of(self, surface: usize, channels: usize) -> Range<usize> {
        let (first, end) = (self.channels(surface), self.channels(surface + 1));
        first..if end < channels { end } else { channels }
    }

    /// Line and surface stride of a cube without gaps.
    pub const fn packed_strides(self, width: u32, height: u32) -> [u64; 2] {
        let line = width as u64 * self.bytes as u64;
        [line, line.saturating_mul(height as u64)]
    }

    /// Bytes of a plane's line of `width` elements, which is read and written in whole atoms (Rubik's planar data).
    pub const fn planar_line(self, width: usize) -> usize {
        (width * (self.bytes / self.elements)).next_multiple_of(self.bytes)
    }

    /// A channel's surface, and its place in the atom.
    pub const fn place(self, channel: usize) -> (usize, usize) {
        (channel / self.elements, channel % self.elements)
    }

    /// The channel at a place of a surface's atoms.
    pub const fn channel(self, surface: usize, lane: usize) -> usize {
        self.channels(surface) + lane
    }

    /// The bytes of this many atoms, which is also the offset of the next atom.
    #[inline]
    pub const fn span(self, atoms: usize) -> usize {
        atoms * self.bytes
    }
}

/// Where the parts of a cube's lines lie in a program's own buffer. All fields are counted in the unit of `atom`, which is bytes
/// or elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    /// From batch to batch.
    pub cube: usize,
    /// From surface to surface.
    pub surface: usize,
    /// From line to line.
    pub line: usize,
    /// Bytes from column to column: one atom of a surface.
    pub atom: usize,
}

impl View {
    /// Cubes without gaps, one after another.
    pub const fn packed(surfaces: usize, height: usize, width: usize, atom: usize) -> Self {
        let line = width * atom;
        let surface = height * line;
        Self { cube: surfaces * surface, surface, line, atom }
    }

    /// Lines in order, each with all batches, and each of those with all its surfaces.
    pub const fn by_lines(batches: usize, surfaces: usize, width: usize, atom: usize) -> Self {
        let surface = width * atom;
        let cube = surfaces * surface;
        Self { cube, surface, line: batches * cube, atom }
    }

    /// The bytes of this many cubes that follow one another.
    pub const fn span(&self, cubes: usize) -> usize {
        cubes * self.cube
    }

    /// Where line `y` of the first surface starts.
    #[inline]
    pub const fn line_offset(&self, y: usize) -> usize {
        y * self.line
    }

    /// The elements, of `bytes` bytes each, that a column has in a surface.
    pub const fn elements(&self, bytes: usize) -> usize {
        self.atom / bytes
    }

    /// The offset of part `part` of a column's channels over all surfaces. A part is a byte or a channel.
    #[inline]
    pub const fn offset(&self, batch: usize, y: usize, x: usize, part: usize) -> usize {
        self.atom_offset(batch, part / self.atom, y, x) + part % self.atom
    }

    /// Where an atom starts.
    #[inline]
    pub const fn atom_offset(&self, batch: usize, surface: usize, y: usize, x: usize) -> usize {
        batch * self.cube + surface * self.surface + y * self.line + x * self.atom
    }

    /// Where `atoms` atoms of a line lie, from column `x` on.
    #[inline]
    pub const fn atoms(&self, batch: usize, surface: usize, [y, x]: [usize; 2], atoms: usize) -> Range<usize> {
        let start = self.atom_offset(batch, surface, y, x);
        start..start + atoms * self.atom
    }

    /// Which surface, line and column atom number `atom` of packed cubes is.
    #[inline]
    pub const fn locate(&self, atom: usize) -> [usize; 3] {
        let offset = atom * self.atom;
        [offset / self.surface, offset % self.surface / self.line, offset % self.line / self.atom]
    }
}

/// Cubes that together form one wider cube: its surfaces are those of the first cube, then of the second, and so on. A
/// deconvolution's kernel sets write them, and Winograd's channel extension for strides reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cells {
    /// Cubes along x.
    pub stride_x: usize,
    /// Surfaces of one cube.
    pub surfaces: usize,
}

impl Cells {
    /// The surface of the whole that surface `surface` of the cube at `(x, y)` inside each cell is.
    #[inline]
    pub const fn surface(self, surface: usize, [x, y]: [usize; 2]) -> usize {
        (y * self.stride_x + x) * self.surfaces + surface
    }
}

/// A feature cube, or a batch of them.
#[allow(clippy::struct_field_names)] // "cube stride" is the document's name
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cube {
    pub(super) extents: Extents,
    pub(super) precision: Precision,
    pub(super) atom: u32,
    pub(super) line_stride: u64,
    pub(super) surface_stride: u64,
    pub(super) cube_stride: u64,
    pub(super) span: u64,
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
        cube.with_cube_stride(cube.footprint())
    }

    /// The cube that the hardware reads or writes when it is programmed with these strides. Checks only that extents are
    /// not zero, that the atom is valid, and that every offset fits 64 bits. Strides may make elements overlap.
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

    /// The atoms that it is made of.
    pub const fn atoms(&self) -> Atoms {
        Atoms::valid(self.atom, self.precision)
    }

    /// The bytes of all atoms, without gaps; saturates.
    pub const fn volume(&self) -> u64 {
        let lines = (self.extents.n as u64 * self.extents.h as u64).saturating_mul(self.surfaces() as u64);
        lines.saturating_mul(self.line_bytes())
    }

    /// The bytes that a cube of a batch occupies, including the gaps behind its lines and surfaces, so that the next
    /// cube can follow.
    pub const fn footprint(&self) -> u64 {
        match multiply_add(self.surfaces() as u64, self.surface_stride, 0) {
            Some(size) if size > self.plane_span() => size,
            _ => self.plane_span(),
        }
    }

    /// The channels of a surface.
    pub const fn channels_of(&self, surface: u32) -> Range<u32> {
        let channels = self.atoms().channels_of(surface as usize, self.extents.c as usize);
        channels.start as u32..channels.end as u32
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

    /// Offset of an atom of any batch.
    pub const fn atom_offset_of(&self, n: u32, surface: u32, h: u32, w: u32) -> u64 {
        (n as u64).wrapping_mul(self.cube_stride).wrapping_add(self.atom_offset(surface, h, w))
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
    pub(super) const fn is_between(&self) -> bool {
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
