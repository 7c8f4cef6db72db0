// SPDX-License-Identifier: MIT OR Apache-2.0

//! Inputs and outputs: their shapes, and where each element lies.

use nvdla_uapi::layout::feature::{Atoms, Cube};
use nvdla_uapi::layout::pixel::{Image, Kind};
use nvdla_uapi::layout::Extents;
use nvdla_uapi::reg::values::{PixelFormat, Precision};
use nvdla_uapi::reg::FieldValue;

use super::error::Error;
use super::loadable::{Loadable, Memory, Place};

/// Formats of a tensor in a loadable: cubes, the second with atoms of 8 bytes. Lower numbers are images.
const FEATURE: u8 = 36;
const FEATURE_X8: u8 = 37;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Signed, 8 bits.
    Int8,
    /// Unsigned, 8 bits.
    Uint8,
    /// Signed, 16 bits.
    Int16,
    /// Unsigned, 16 bits.
    Uint16,
    /// Half precision.
    Half,
}

/// Where the elements lie.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Cube(Cube),
    Image(Image),
}

/// An input or an output.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    name: &'a [u8],
    element: Element,
    shape: [u32; 4],
    layout: Layout,
    pub(crate) place: Place,
}

impl<'a> Tensor<'a> {
    /// The tensor of a bound memory.
    pub(crate) fn new(loadable: Loadable<'a>, memory: Memory<'a>) -> Result<Self, Error> {
        let table = loadable.tensor(memory.tensor)?;
        let entry = usize::from(memory.tensor);
        let refuse = |field, value| Error::Entry { list: "tensor list", entry, field, value };
        let mut shape = [0; 4];
        for (slot, (extent, field)) in (10..).zip(shape.iter_mut().zip(["n", "c", "h", "w"])) {
            *extent = table.u32(slot)?;
            if *extent == 0 || *extent > i32::MAX as u32 {
                return Err(refuse(field, (*extent).into()));
            }
        }
        let [batch, channels, height, width] = shape;
        let (size, offset) = (table.u64(3)?, table.u64(4)?);
        if offset.checked_add(size).is_none_or(|end| end > memory.place.size) {
            return Err(refuse("size", size));
        }
        let (format, line, surface) = (table.u8(8)?, table.u32(15)?, table.u32(16)?);
        let wrong = |_| refuse("stride_1", line.into());
        let (element, layout, last) = if matches!(format, FEATURE | FEATURE_X8) {
            let (element, precision, bytes) = match table.u8(6)? {
                2 => (Element::Half, Precision::Fp16, 2),
                3 => (Element::Int16, Precision::Int16, 2),
                4 => (Element::Int8, Precision::Int8, 1),
                other => return Err(refuse("data_type", other.into())),
            };
            // Both formats are used for the cubes of every configuration, so the line stride says how large an atom is.
            let atom = if format == FEATURE_X8 {
                8
            } else {
                Atoms::of_line(width, line, Precision::Int8).map_or(8, |atoms| atoms.bytes() as u32)
            };
            let extents = Extents::new(1, channels, height, width);
            let cube = Cube::as_programmed(extents, precision, atom, line.into(), surface.into(), 0).map_err(wrong)?;
            let last = cube.element_offset(channels - 1, height - 1, width - 1);
            (element, Layout::Cube(cube), last + bytes)
        } else {
            let pixels: PixelFormat =
                FieldValue::from_bits(format.into()).ok_or_else(|| refuse("pixel_format", format.into()))?;
            let image = Image::as_programmed(pixels, width, height, 0, 32, [line.into(), 0]).map_err(wrong)?;
            let format = *image.format();
            if format.planes != 1 || format.is_packed() || channels > format.channels {
                return Err(refuse("pixel_format", table.u8(8)?.into()));
            }
            let element = match (format.kind, format.component_bytes()) {
                (Kind::Float, _) => Element::Half,
                (Kind::Signed, 1) => Element::Int8,
                (Kind::Signed, _) => Element::Int16,
                (Kind::Unsigned, 1) => Element::Uint8,
                (Kind::Unsigned, _) => Element::Uint16,
            };
            (element, Layout::Image(image), image.pixel_offset(0, height - 1, 0) + image.line_bytes(0))
        };
        // The parts of a batch lie one after another.
        if last > size / u64::from(batch) {
            return Err(refuse("size", size));
        }
        let place = Place { offset: memory.place.offset + offset, size };
        Ok(Self { name: table.bytes(0)?, element, shape, layout, place })
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        core::str::from_utf8(self.name).unwrap_or_default()
    }

    /// The type of its elements.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Batch, channels, lines and columns.
    pub fn shape(&self) -> [u32; 4] {
        self.shape
    }

    /// Its bytes.
    pub fn size(&self) -> usize {
        self.place.size as usize
    }

    /// The offset in bytes of an element in the tensor's bytes, by its place in the batch, channel, line and column; none outside
    /// the shape. The channels of an image are in the order red, green, blue, alpha.
    pub fn offset(&self, place: [u32; 4]) -> Option<usize> {
        if place.iter().zip(self.shape).any(|(&at, extent)| at >= extent) {
            return None;
        }
        let [part, channel, line, column] = place;
        let start = self.size() / self.shape[0] as usize * part as usize;
        let within = match &self.layout {
            Layout::Cube(cube) => cube.element_offset(channel, line, column) as usize,
            Layout::Image(image) => image.component_offset(channel, line, column)?.1 as usize,
        };
        Some(start + within)
    }
}
