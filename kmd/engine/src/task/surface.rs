// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Where surfaces lie: every byte that the device will touch is in the buffer that the surface's address names.

use super::super::error::{Name, Reason, Why};
use super::super::image::BufferAddress;
use super::super::memory::TaskMemory;
use super::super::slot;
use crate::uapi::config::Config;
use crate::uapi::desc::{DataCube, MemoryType, Roi};
use crate::uapi::layout::align::{self, Alignment, Data};
use crate::uapi::layout::{feature, Extents, Nest};
use crate::uapi::reg::values::Precision;

/// A region of interest, and the surface that it is cut from: a position in the address list.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegionOfInterest {
    pub(super) address: i16,
    pub(super) roi: Roi,
}

/// What the surfaces of an operation are checked against.
pub(super) struct Context<'a, M: ?Sized> {
    pub(super) config: &'static Config,
    pub(super) memory: &'a M,
    /// Units count what they do.
    pub(super) counted: bool,
    /// Where the operation's input is, when it reads a region of interest.
    pub(super) region: Option<RegionOfInterest>,
}

/// A cube's surface and the name it has in its descriptor.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) name: &'static str,
    pub(super) cube: &'a DataCube,
}

impl Named<'_> {
    /// The name of one of its fields.
    pub(super) const fn field(&self, field: &'static str) -> Name {
        Name::of(self.name, field)
    }

    /// The surface is handed over between units, and lies in no memory.
    pub(super) fn is_on_the_fly(&self) -> bool {
        self.cube.mem_type == MemoryType::Hw
    }

    /// Its sizes, with `n` batches.
    pub(super) fn extents(&self, n: u32) -> Extents {
        let DataCube { width, height, channel, .. } = *self.cube;
        Extents::new(n, u32::from(channel), u32::from(height), u32::from(width))
    }

    /// One of its sizes must be another's.
    pub(super) fn same(
        &self,
        field: &'static str,
        value: u16,
        other: &'static str,
        expected: u16,
    ) -> Result<(), Reason> {
        if value == expected {
            return Ok(());
        }
        let (value, expected) = (i64::from(value), i64::from(expected));
        Err(Why::Mismatch { name: self.field(field), value, other, expected }.reason())
    }

    /// Where it lies in the task's memory, as its descriptor says.
    pub(super) fn output(&self) -> Option<slot::MemoryRange> {
        let address = u16::try_from(self.cube.address).ok()?;
        (!self.is_on_the_fly()).then(|| slot::MemoryRange {
            address,
            offset: u64::from(self.cube.offset),
            size: u64::from(self.cube.size),
        })
    }
}

/// What a surface's bytes are, for the rules of alignment.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    pub(super) data: Data,
    /// From the first to the last byte that the device touches.
    pub(super) span: u64,
    pub(super) line_stride: Option<u32>,
    pub(super) surface_stride: Option<u32>,
    pub(super) cube_stride: Option<u32>,
    pub(super) size: Option<u32>,
}

impl Bytes {
    /// Bytes without strides.
    pub(super) const fn plain(data: Data, span: u64) -> Self {
        Self { data, span, line_stride: None, surface_stride: None, cube_stride: None, size: None }
    }
}

/// Refuses pieces that overlap. `names` and `values` are those of the strides of the nest's levels.
pub(super) fn require_disjoint<const LEVELS: usize>(
    pieces: &Nest<LEVELS>,
    names: [Name; LEVELS],
    strides: [u64; LEVELS],
) -> Result<(), Reason> {
    let Some((level, least)) = pieces.overlap() else { return Ok(()) };
    let (value, minimum) = (strides[level] as i64, i64::try_from(least).unwrap_or(i64::MAX));
    Err(Why::Range { name: names[level], value, minimum, maximum: i64::from(u32::MAX) }.reason())
}

/// The surface must lie in memory. Its descriptor says in which memory the compiler wants it. The interface follows from
/// the buffer that the surface lies in ([`BufferAddress::ram`]), so that a loadable runs on devices with and without SRAM.
pub(super) fn require_memory(name: Name, memory: MemoryType) -> Result<(), Reason> {
    if memory != MemoryType::Hw {
        return Ok(());
    }
    let why = "this surface must lie in memory and cannot be handed over on the fly";
    Err(Why::Invalid { name, value: memory as i64, why }.reason())
}

impl<M: TaskMemory + ?Sized> Context<'_, M> {
    /// The configuration must have it.
    pub(super) fn require(&self, has: bool, name: Name, what: &'static str) -> Result<(), Reason> {
        if has {
            Ok(())
        } else {
            Err(Why::Unsupported { name, what, config: self.config.name }.reason())
        }
    }

    /// The configuration must process that precision.
    pub(super) fn require_precision(&self, name: Name, precision: Precision) -> Result<(), Reason> {
        let what = match precision {
            Precision::Int8 => "int8",
            Precision::Int16 => "int16",
            Precision::Fp16 => "fp16",
        };
        self.require(self.config.has_feature_type(precision), name, what)
    }

    /// The DMA address of a surface. All its bytes must lie in its buffer and be aligned as the hardware requires.
    pub(super) fn address(&self, surface: Named<'_>, bytes: &Bytes) -> Result<BufferAddress, Reason> {
        self.address_at(surface.name, surface.cube.address, u64::from(surface.cube.offset), bytes)
    }

    /// The DMA address of an operation's input, which may be a region of interest. `pixel` is the bytes of a pixel.
    pub(super) fn input_address(&self, surface: Named<'_>, bytes: &Bytes, pixel: u32) -> Result<BufferAddress, Reason> {
        let Some(RegionOfInterest { address, roi }) = self.region else { return self.address(surface, bytes) };
        if surface.cube.address != -1 {
            let why = "the input of the operation that reads regions of interest has no address of its own";
            let value = i64::from(surface.cube.address);
            return Err(Why::Invalid { name: surface.field("address"), value, why }.reason());
        }
        let pixels = Nest::of_strides([surface.cube.line_stride, pixel].map(u64::from));
        self.address_at(surface.name, address, pixels.offset([roi.top, roi.left].map(u64::from)), bytes)
    }

    /// The DMA address of bytes at an offset of an entry of the address list.
    pub(super) fn address_at(
        &self,
        surface: &'static str,
        address: i16,
        start: u64,
        bytes: &Bytes,
    ) -> Result<BufferAddress, Reason> {
        let count = self.memory.count();
        let index = usize::try_from(address).ok().filter(|&index| index < count);
        let buffer = index.and_then(|index| self.memory.buffer(index)).ok_or(
            Why::Index {
                name: Name::of(surface, "address"),
                value: i64::from(address),
                of: "addresses",
                count: count as u64,
            }
            .reason(),
        )?;
        let end = start.saturating_add(bytes.span);
        if end > buffer.size {
            return Err(Why::Surface { surface, address: i64::from(address), start, end, size: buffer.size }.reason());
        }
        let bits = self.config.address_width.unwrap_or(u64::BITS).min(u64::BITS);
        let last = buffer.address.checked_add(end).filter(|&last| bits == u64::BITS || last <= 1 << bits);
        if last.is_none() {
            return Err(Why::Unreachable { surface, end: buffer.address.saturating_add(end), bits }.reason());
        }
        let dma = buffer.address + start;
        let values = align::Surface {
            address: dma,
            line_stride: bytes.line_stride.map(u64::from),
            surface_stride: bytes.surface_stride.map(u64::from),
            cube_stride: bytes.cube_stride.map(u64::from),
            size: bytes.size.map(u64::from),
        };
        Alignment::required(self.config, bytes.data)
            .check(&values)
            .map_err(|error| Why::Layout { surface, error }.reason())?;
        Ok(BufferAddress { address: dma, index: index.map_or(u16::MAX, |index| index as u16), buffer })
    }

    /// A feature cube with these sizes, as a unit of this configuration reads or writes it. Its lines and surfaces must
    /// not overlap.
    pub(super) fn feature(
        &self,
        surface: Named<'_>,
        extents: Extents,
        precision: Precision,
        cube_stride: u32,
    ) -> Result<Bytes, Reason> {
        let DataCube { line_stride, surf_stride, .. } = *surface.cube;
        let atom = self.config.memory_atomic;
        let layout = |error| Why::Layout { surface: surface.name, error }.reason();
        let cube = feature::Cube::unpacked(extents, precision, atom, u64::from(line_stride), u64::from(surf_stride))
            .and_then(|cube| if extents.n > 1 { cube.with_cube_stride(u64::from(cube_stride)) } else { Ok(cube) })
            .map_err(layout)?;
        Ok(Bytes {
            data: Data::Feature,
            span: cube.span(),
            line_stride: Some(line_stride),
            surface_stride: Some(surf_stride),
            cube_stride: (extents.n > 1).then_some(cube_stride),
            size: None,
        })
    }
}
