// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Where an image's pixels lie: pitch linear planes, with an x offset from the aligned start to the first pixel.

use super::super::super::reg::values::PixelFormat;
use super::super::element::Element;
use super::super::error::{Error, Rule};
use super::super::extents::{multiply_add, round_up, Extents, Index, Order};
use super::format::{Component, Format};

/// An image in memory.
///
/// Each plane has its own address. The x offset counts pixels from the address to the first pixel. The address of the
/// second plane is behind whole aligned units, so its x offset is only the remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    pub(in super::super) format: Format,
    pub(in super::super) width: u32,
    pub(in super::super) height: u32,
    x_offset: u32,
    alignment: u32,
    line_strides: [u64; 2],
    spans: [u64; 2],
}

impl Image {
    /// An image with lines that are padded only to `alignment` (32 bytes, or the configuration's atom).
    pub const fn packed(
        format: PixelFormat,
        width: u32,
        height: u32,
        x_offset: u32,
        alignment: u32,
    ) -> Result<Self, Error> {
        let mut image = Self {
            format: Format::new(format),
            width,
            height,
            x_offset,
            alignment,
            line_strides: [0; 2],
            spans: [0; 2],
        };
        if !matches!(alignment, 8 | 16 | 32) {
            return Err(Error::new(Rule::Atom, alignment as u64, 0));
        }
        image.line_strides =
            [round_up(image.line_end(0), alignment as u64), round_up(image.line_end(1), alignment as u64)];
        Self::unpacked(format, width, height, x_offset, alignment, image.line_strides)
    }

    /// An image with these line strides in bytes; the second is of the chroma plane, and ignored without one.
    pub const fn unpacked(
        format: PixelFormat,
        width: u32,
        height: u32,
        x_offset: u32,
        alignment: u32,
        line_strides: [u64; 2],
    ) -> Result<Self, Error> {
        let image = match Self::as_programmed(format, width, height, x_offset, alignment, line_strides) {
            Ok(image) => image,
            Err(error) => return Err(error),
        };
        let max = image.max_x_offset() as u64;
        if let Err(error) = Error::unless_at_most(Rule::PixelXOffset, x_offset as u64, max) {
            return Err(error);
        }
        let mut plane = 0;
        while plane < image.format.planes {
            let stride = line_strides[plane as usize];
            if let Err(error) = Error::unless_multiple(Rule::PixelLineStride, stride, alignment as u64) {
                return Err(error);
            }
            if height > 1 {
                if let Err(error) = Error::unless_at_least(Rule::PixelLineOverlap, stride, image.line_end(plane)) {
                    return Err(error);
                }
            }
            plane += 1;
        }
        Ok(image)
    }

    /// The image that the hardware reads when it is programmed with this line stride. Any stride is allowed whose
    /// offsets fit 64 bits.
    pub const fn as_programmed(
        format: PixelFormat,
        width: u32,
        height: u32,
        x_offset: u32,
        alignment: u32,
        line_strides: [u64; 2],
    ) -> Result<Self, Error> {
        let format = Format::new(format);
        if let Err(error) = Extents::new(1, format.channels, height, width).check() {
            return Err(error);
        }
        if !matches!(alignment, 8 | 16 | 32) {
            return Err(Error::new(Rule::Atom, alignment as u64, 0));
        }
        let mut image = Self { format, width, height, x_offset, alignment, line_strides, spans: [0; 2] };
        let mut plane = 0;
        while plane < format.planes {
            let line = round_up(image.line_end(plane), alignment as u64);
            match multiply_add(height as u64 - 1, line_strides[plane as usize], line) {
                Some(span) => image.spans[plane as usize] = span,
                None => return Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
            }
            plane += 1;
        }
        Ok(image)
    }

    /// Bytes of a line's pixels in a plane.
    pub const fn line_bytes(&self, plane: u32) -> u64 {
        self.width as u64 * self.format.bytes_per_pixel[(plane & 1) as usize] as u64
    }

    /// The format of the pixels.
    pub const fn format(&self) -> &Format {
        &self.format
    }

    /// The image's sizes, as a tensor.
    pub const fn extents(&self) -> Extents {
        Extents::new(1, self.format.channels, self.height, self.width)
    }

    /// The largest x offset: one less than the number of pixels that fit in an aligned unit.
    pub const fn max_x_offset(&self) -> u32 {
        let fit = self.alignment / self.format.bytes_per_pixel[0];
        if fit == 0 {
            0
        } else {
            fit - 1
        }
    }

    /// Pixels from the start of a line to the first one.
    pub const fn x_offset(&self) -> u32 {
        self.x_offset
    }

    /// Bytes from one line of a plane to the next.
    pub const fn line_stride(&self, plane: u32) -> u64 {
        self.line_strides[(plane & 1) as usize]
    }

    /// Bytes of the plane's address to the first pixel.
    pub const fn first_pixel(&self, plane: u32) -> u64 {
        let bytes = self.x_offset as u64 * self.format.bytes_per_pixel[(plane & 1) as usize] as u64;
        if plane == 0 {
            bytes
        } else {
            bytes % self.alignment as u64
        }
    }

    /// Bytes of the start of a line to its last pixel's end.
    const fn line_end(&self, plane: u32) -> u64 {
        self.first_pixel(plane) + self.width as u64 * self.format.bytes_per_pixel[(plane & 1) as usize] as u64
    }

    /// Offset of a line from its plane's address.
    pub const fn line_offset(&self, plane: u32, h: u32) -> u64 {
        (h as u64).wrapping_mul(self.line_stride(plane))
    }

    /// Offset of a pixel from its plane's address.
    pub const fn pixel_offset(&self, plane: u32, h: u32, w: u32) -> u64 {
        self.line_offset(plane, h)
            .wrapping_add(self.first_pixel(plane))
            .wrapping_add(w as u64 * self.format.bytes_per_pixel[(plane & 1) as usize] as u64)
    }

    /// The plane, the byte offset in it, and the bits of one component: its byte, and for packed formats its pixel.
    pub const fn component_offset(&self, c: u32, h: u32, w: u32) -> Option<(u32, u64, Component)> {
        let Some(component) = self.format.component(c) else { return None };
        let pixel = self.pixel_offset(component.plane as u32, h, w);
        if self.format.is_packed() {
            return Some((component.plane as u32, pixel, component));
        }
        Some((component.plane as u32, pixel + component.lsb as u64 / 8, Component { lsb: 0, ..component }))
    }

    /// Bytes from a plane's address to the end of the last aligned unit that the hardware reads; 0 without the plane.
    pub const fn span(&self, plane: u32) -> u64 {
        self.spans[(plane & 1) as usize]
    }

    /// The bits of a component, from memory that was checked to hold the planes.
    fn read(&self, planes: [&[u8]; 2], c: u32, h: u32, w: u32) -> u16 {
        let Some((plane, offset, component)) = self.component_offset(c, h, w) else { return 0 };
        let bytes = if self.format.is_packed() { 4 } else { self.format.component_bytes() as usize };
        let at = offset as usize;
        let mut pixel = [0; 8];
        pixel[..bytes].copy_from_slice(&planes[plane as usize][at..at + bytes]);
        component.extract(u64::from_le_bytes(pixel))
    }

    fn check(&self, plain_bytes: usize, plain: usize, planes: [usize; 2]) -> Result<(), Error> {
        let extents = self.extents();
        super::super::contract::check_sizes(
            extents,
            self.format.component_bytes(),
            self.span(0),
            plain_bytes,
            plain,
            planes[0],
        )?;
        Error::unless_at_least(Rule::MemoryLength, planes[1] as u64, self.span(1))
    }

    /// Writes components of a plain slice (`u8` for 8-bit formats, else `u16`, values in the low bits) to the planes.
    /// Bytes that hold no pixel become zero. Without a second plane, its slice may be empty.
    pub fn pack<T: Element>(&self, order: Order, plain: &[T], planes: [&mut [u8]; 2]) -> Result<(), Error> {
        self.check(T::BYTES, plain.len(), [planes[0].len(), planes[1].len()])?;
        let extents = self.extents();
        let [first, second] = planes;
        first[..self.span(0) as usize].fill(0);
        second[..self.span(1) as usize].fill(0);
        for h in 0..self.height {
            for w in 0..self.width {
                let mut packed = 0;
                for c in 0..self.format.channels {
                    let Some((plane, offset, component)) = self.component_offset(c, h, w) else { continue };
                    let value = plain[extents.plain(order, Index::new(0, c, h, w)) as usize];
                    let memory = if plane == 0 { &mut *first } else { &mut *second };
                    if self.format.is_packed() {
                        let mut bits = [0; 2];
                        value.write(&mut bits);
                        packed = component.insert(packed, u16::from_le_bytes(bits));
                        memory[offset as usize..][..4].copy_from_slice(&packed.to_le_bytes()[..4]);
                    } else {
                        value.write(&mut memory[offset as usize..]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the components of the planes into a plain slice; see [`Self::pack`].
    pub fn unpack<T: Element>(&self, order: Order, planes: [&[u8]; 2], plain: &mut [T]) -> Result<(), Error> {
        self.check(T::BYTES, plain.len(), [planes[0].len(), planes[1].len()])?;
        let extents = self.extents();
        for h in 0..self.height {
            for w in 0..self.width {
                for c in 0..self.format.channels {
                    let value = self.read(planes, c, h, w);
                    plain[extents.plain(order, Index::new(0, c, h, w)) as usize] = T::read(&value.to_le_bytes());
                }
            }
        }
        Ok(())
    }

    /// Converts the pixels of each line from `first` on.
    pub(in super::super) fn pack_rgb_from(&self, first: u32, rgb: &[u8], alpha: u8, planes: [&mut [u8]; 2]) {
        let [luma, chroma] = planes;
        let widen = |value: u8, component: Component| match self.format.kind {
            super::format::Kind::Float => super::super::half::from_fixed(i64::from(value), 0),
            super::format::Kind::Unsigned | super::format::Kind::Signed => {
                let repeated = u32::from(value) * 0x0101;
                (repeated >> (16 - component.bits)) as u16
            }
        };
        // What each value of each channel adds to its plane's pixel.
        let mut tables = [[0u64; 256]; 4];
        let mut in_plane = [0; 4];
        for (channel, component) in self.format.components().iter().enumerate() {
            in_plane[channel] = component.plane as usize;
            for (value, bits) in tables[channel].iter_mut().enumerate() {
                *bits = component.insert(0, widen(value as u8, *component));
            }
        }
        let fixed = if self.format.channels == 4 { tables[3][alpha as usize] } else { 0 };
        for h in 0..self.height {
            let line = &rgb[h as usize * self.width as usize * 3..][..self.width as usize * 3];
            for plane in 0..self.format.planes {
                let memory = if plane == 0 { &mut *luma } else { &mut *chroma };
                let bytes = self.format.bytes_per_pixel[plane as usize] as usize;
                let start = self.pixel_offset(plane, h, first) as usize;
                let pixels = memory[start..].chunks_exact_mut(bytes);
                for (pixel, rgb) in pixels.zip(line[first as usize * 3..].chunks_exact(3)) {
                    let mut bits = fixed;
                    for channel in 0..3 {
                        if in_plane[channel] == plane as usize {
                            bits |= tables[channel][rgb[channel] as usize];
                        }
                    }
                    match bytes {
                        8 => pixel.copy_from_slice(&bits.to_le_bytes()),
                        4 => pixel.copy_from_slice(&(bits as u32).to_le_bytes()),
                        2 => pixel.copy_from_slice(&(bits as u16).to_le_bytes()),
                        _ => pixel.copy_from_slice(&[bits as u8]),
                    }
                }
            }
        }
    }

    /// Clears the bytes of a plane that hold no pixel.
    pub(in super::super) fn clear_gaps(&self, plane: u32, memory: &mut [u8]) {
        let span = self.span(plane) as usize;
        let pixels = self.width as usize * self.format.bytes_per_pixel[(plane & 1) as usize] as usize;
        if pixels == 0 {
            return;
        }
        let mut done = 0;
        for h in 0..self.height {
            let first = self.pixel_offset(plane, h, 0) as usize;
            memory[done..first].fill(0);
            done = first + pixels;
        }
        memory[done..span].fill(0);
    }
}
