// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Selects the code that converts the layouts with bulk code: feature cubes, direct weights and pixels from RGB. Without
//! the feature `bulk` it is the portable code.

#[cfg(feature = "bulk")]
use super::bulk;
#[cfg(feature = "bulk")]
use super::contract::check;
use super::contract::Layout;
#[cfg(feature = "bulk")]
use super::element::Element;
use super::error::{Error, Rule};
#[cfg(feature = "bulk")]
use super::extents::Order;
use super::extents::{bytes, next_in_atoms, split, Extents, Index};
use super::feature::Cube;
use super::pixel::Image;
use super::weight::Direct;

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
        let (n, rest) = split(offset, self.cube_stride, cubes);
        let (surface, h, rest) = if self.is_between() {
            let (h, rest) = split(rest, self.line_stride, lines);
            let (surface, rest) = split(rest, self.surface_stride, self.surfaces());
            (surface, h, rest)
        } else {
            let (surface, rest) = split(rest, self.surface_stride, self.surfaces());
            let (h, rest) = split(rest, self.line_stride, lines);
            (surface, h, rest)
        };
        let (w, rest) = split(rest, u64::from(self.atom), width);
        let lane = u32::try_from(rest).ok().filter(|rest| *rest < self.atom)? / bytes(self.precision);
        let c = surface.checked_mul(self.atom_elements())?.checked_add(lane)?;
        let index = Index::new(n, c, h, w);
        self.extents.contains(index).then_some(index)
    }

    fn following(&self, at: Index) -> Option<Index> {
        next_in_atoms(self.extents, self.atom_elements(), self.is_between(), at)
    }

    #[cfg(feature = "bulk")]
    fn pack<T: Element>(&self, order: Order, plain: &[T], memory: &mut [u8]) -> Result<(), Error> {
        check(self, plain, memory.len())?;
        bulk::pack_feature(self, order, plain, memory);
        Ok(())
    }

    #[cfg(feature = "bulk")]
    fn unpack<T: Element>(&self, order: Order, memory: &[u8], plain: &mut [T]) -> Result<(), Error> {
        check(self, plain, memory.len())?;
        bulk::unpack_feature(self, order, memory, plain);
        Ok(())
    }
}

impl Layout for Direct {
    fn extents(&self) -> Extents {
        self.extents
    }

    fn element_bytes(&self) -> u32 {
        self.geometry.element_bytes()
    }

    fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        Self::offset(self, n, c, h, w)
    }

    fn size(&self) -> u64 {
        Self::size(self)
    }

    fn at(&self, offset: u64) -> Option<Index> {
        if offset >= self.bytes {
            return None;
        }
        let element = offset / u64::from(self.element_bytes());
        let Extents { h: rows, w: columns, .. } = self.extents;
        let group_elements = self.kernel_elements() * u64::from(self.geometry.group_kernels);
        let group = (element / group_elements) as u32;
        let rest = element % group_elements;
        let kernels = u64::from(self.kernels_in(group));
        let plane = kernels * u64::from(rows) * u64::from(columns);
        let block = (rest / (plane * u64::from(self.geometry.cube_channels))) as u32;
        let rest = rest - plane * u64::from(self.geometry.cube_channels) * u64::from(block);
        let channels = u64::from(self.channels_in(block));
        let (place, lane) = (rest / channels, (rest % channels) as u32);
        let (position, k) = (place / kernels, (place % kernels) as u32);
        Some(Index::new(
            group * self.geometry.group_kernels + k,
            block * self.geometry.cube_channels + lane,
            (position / u64::from(columns)) as u32,
            (position % u64::from(columns)) as u32,
        ))
    }

    fn following(&self, at: Index) -> Option<Index> {
        self.at(self.offset(at.n, at.c, at.h, at.w) + u64::from(self.element_bytes()))
    }

    #[cfg(feature = "bulk")]
    fn pack<T: Element>(&self, order: Order, plain: &[T], memory: &mut [u8]) -> Result<(), Error> {
        check(self, plain, memory.len())?;
        bulk::pack_direct(self, order, plain, memory);
        Ok(())
    }

    #[cfg(feature = "bulk")]
    fn unpack<T: Element>(&self, order: Order, memory: &[u8], plain: &mut [T]) -> Result<(), Error> {
        check(self, plain, memory.len())?;
        bulk::unpack_direct(self, order, memory, plain);
        Ok(())
    }
}

impl Image {
    /// Writes 8-bit RGB (three bytes per pixel, red first) to the planes of a format with three or four channels. R, G,
    /// B become its first three channels, and `alpha` the fourth.
    ///
    /// Integers are widened by repeating their bits, so that 0 and 255 become 0 and the largest value; fp16 gets the
    /// number 0 to 255.
    pub fn pack_rgb(&self, rgb: &[u8], alpha: u8, planes: [&mut [u8]; 2]) -> Result<(), Error> {
        if self.format.channels == 1 {
            return Err(Error::new(Rule::PixelRgb, 1, 3));
        }
        let pixels = self.width as u64 * self.height as u64;
        if rgb.len() as u64 != pixels.saturating_mul(3) {
            return Err(Error::new(Rule::PlainLength, rgb.len() as u64, pixels.saturating_mul(3)));
        }
        let [first, second] = planes;
        Error::unless_at_least(Rule::MemoryLength, first.len() as u64, self.span(0))?;
        Error::unless_at_least(Rule::MemoryLength, second.len() as u64, self.span(1))?;
        for (plane, memory) in [&mut *first, &mut *second].into_iter().enumerate() {
            self.clear_gaps(plane as u32, memory);
        }
        #[cfg(feature = "bulk")]
        let done = bulk::pack_rgb(self, rgb, alpha, [&mut *first, &mut *second]);
        #[cfg(not(feature = "bulk"))]
        let done = 0;
        if done < self.width {
            self.pack_rgb_from(done, rgb, alpha, [first, second]);
        }
        Ok(())
    }
}
