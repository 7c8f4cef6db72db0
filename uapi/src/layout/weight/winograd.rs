// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Weights for Winograd convolution: channel extension, conversion to 4x4, and the mapping of 4x4x4 cubes.
//!
//! Phase 1: channels are padded with zeros to 32 bytes; a kernel for strides is extended in channels, so that it is 3x3
//! (each of stride x stride positions becomes its own set of channels, x changing before y); each 3x3 plane W becomes
//! G W G^T. Phase 2: in a group of kernels the order is the 4x4x4 cube's row, column and channel (channel fastest), K,
//! C. Only the end of all weights is padded.
//!
//! [`Winograd`]'s elements are the converted ones: its extents are kernels, extended channels, 4 rows, 4 columns.
//!
//! Source: "In-memory data formats", section "Basic Weight for Winograd Convolution"; the order inside a cube and of
//! the extended channels as the reference compiler and model have them.

use super::super::super::reg::values::Precision;
use super::super::contract::Layout;
use super::super::element::Element;
use super::super::error::{Error, Rule};
use super::super::extents::{Extents, Index, Order};
use super::super::half;
use super::super::pixel::saturating_shift;
use super::direct::Direct;
use super::geometry::{Geometry, Groups};

/// Winograd weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Winograd {
    original: Extents,
    stride_x: u32,
    stride_y: u32,
    channels: u32,
    /// Kernel groups, sizes and padding are those of direct weights with small cubes of four channels.
    converted: Direct,
}

/// A scaling factor of the conversion: a converted weight is multiplied and then divided by 2^`truncate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scaling {
    /// Multiplied.
    pub scale: i16,
    /// The number of bits that are shifted out, rounded half away from zero (fp16: exact).
    pub truncate: u8,
}

impl Scaling {
    /// No scaling.
    pub const NONE: Self = Self { scale: 1, truncate: 0 };
}

/// Channels of a small cube.
const CUBE_CHANNELS: u32 = 4;
/// Bytes to which a kernel's channels are padded.
const CHANNEL_BYTES: u32 = 32;

impl Winograd {
    /// Weights of `extents` (kernels, channels, rows, columns) for a convolution with these strides.
    pub const fn new(extents: Extents, stride_x: u32, stride_y: u32, geometry: Geometry) -> Result<Self, Error> {
        if let Err(error) = extents.check() {
            return Err(error);
        }
        if stride_x == 0 || stride_y == 0 {
            return Err(Error::new(Rule::Stride, 0, 1));
        }
        let (rows, columns) = (extents.h.div_ceil(stride_y), extents.w.div_ceil(stride_x));
        if rows != 3 || columns != 3 {
            return Err(Error::new(Rule::WinogradKernel, if rows == 3 { columns } else { rows } as u64, 3));
        }
        let unit = (CHANNEL_BYTES / geometry.element_bytes()) as u64;
        let channels = (extents.c as u64).next_multiple_of(unit);
        let extended = channels.saturating_mul(stride_x as u64).saturating_mul(stride_y as u64);
        if extended > u32::MAX as u64 {
            return Err(Error::new(Rule::Size, extended, u32::MAX as u64));
        }
        let geometry = Geometry { cube_channels: CUBE_CHANNELS, ..geometry };
        match Direct::new(Extents::new(extents.n, extended as u32, 4, 4), geometry) {
            Ok(converted) => Ok(Self { original: extents, stride_x, stride_y, channels: channels as u32, converted }),
            Err(error) => Err(error),
        }
    }

    /// The weights' sizes before extension and conversion.
    pub const fn original(&self) -> Extents {
        self.original
    }

    /// Channels after padding to 32 bytes.
    pub const fn padded_channels(&self) -> u32 {
        self.channels
    }

    /// Channels after extension.
    pub const fn extended_channels(&self) -> u32 {
        self.channels * self.stride_x * self.stride_y
    }

    /// The original channel, row and column of a place in the 3x3 extended kernel; `None` where that is a zero.
    pub const fn source(&self, channel: u32, y: u32, x: u32) -> Option<(u32, u32, u32)> {
        let c = channel % self.channels;
        let position = channel / self.channels;
        let r = y.wrapping_mul(self.stride_y).wrapping_add(position / self.stride_x);
        let s = x.wrapping_mul(self.stride_x).wrapping_add(position % self.stride_x);
        if c < self.original.c && r < self.original.h && s < self.original.w {
            Some((c, r, s))
        } else {
            None
        }
    }

    /// Bytes of a converted cube of 4x4x4 elements.
    pub const fn cube_bytes(&self) -> u32 {
        CUBE_CHANNELS * 16 * self.converted.geometry().element_bytes()
    }

    /// Bytes of the weights with the padding at the end.
    pub const fn size(&self) -> u64 {
        self.converted.size()
    }

    /// Bytes of the weights without it.
    pub const fn mapped_bytes(&self) -> u64 {
        self.converted.mapped_bytes()
    }

    /// Offset of a converted weight.
    pub const fn offset(&self, k: u32, c: u32, y: u32, x: u32) -> u64 {
        let geometry = self.converted.geometry();
        let group = k / geometry.group_kernels;
        let cube = ((c / CUBE_CHANNELS) as u64)
            .wrapping_mul(self.converted.kernels_in(group) as u64)
            .wrapping_add((k % geometry.group_kernels) as u64);
        let inside = ((y * 4 + x) * CUBE_CHANNELS + c % CUBE_CHANNELS) as u64;
        let elements = cube.wrapping_mul(64).wrapping_add(inside);
        self.converted.group_offset(group).wrapping_add(elements.wrapping_mul(geometry.element_bytes() as u64))
    }

    /// Extends, converts and maps plain weights (KCRS or KRSC, of the original extents).
    ///
    /// Integers saturate. fp16 is computed exactly and rounded once; a NaN makes every weight that it enters NaN.
    pub fn convert<T: Element>(
        &self,
        order: Order,
        plain: &[T],
        scaling: Scaling,
        memory: &mut [u8],
    ) -> Result<(), Error> {
        let bytes = self.converted.geometry().element_bytes();
        super::super::contract::check_sizes(self.original, bytes, self.size(), T::BYTES, plain.len(), memory.len())?;
        memory[..self.size() as usize].fill(0);
        let value = |k, c, r, s| {
            let mut bits = [0; 8];
            plain[self.original.plain(order, Index::new(k, c, r, s)) as usize].write(&mut bits);
            u16::from_le_bytes([bits[0], bits[1]])
        };
        for k in 0..self.original.n {
            for c in 0..self.extended_channels() {
                let mut kernel = [[0; 3]; 3];
                for (y, row) in kernel.iter_mut().enumerate() {
                    for (x, weight) in row.iter_mut().enumerate() {
                        if let Some((c, r, s)) = self.source(c, y as u32, x as u32) {
                            *weight = value(k, c, r, s);
                        }
                    }
                }
                let converted = convert_plane(kernel, self.converted.geometry().precision, scaling);
                for (y, row) in converted.into_iter().enumerate() {
                    for (x, weight) in row.into_iter().enumerate() {
                        let at = self.offset(k, c, y as u32, x as u32) as usize;
                        memory[at..at + bytes as usize].copy_from_slice(&weight.to_le_bytes()[..bytes as usize]);
                    }
                }
            }
        }
        Ok(())
    }
}

/// G W G^T of one 3x3 plane, as bits in and bits out.
///
/// ```
/// use nvdla_uapi::layout::weight::{convert_plane, Scaling};
/// use nvdla_uapi::reg::values::Precision;
/// let ones = convert_plane([[4; 3]; 3], Precision::Int16, Scaling::NONE);
/// assert_eq!(ones, [[4, 6, 2, 4], [6, 9, 3, 6], [2, 3, 1, 2], [4, 6, 2, 4]]);
/// ```
pub fn convert_plane(plane: [[u16; 3]; 3], precision: Precision, scaling: Scaling) -> [[u16; 4]; 4] {
    let Scaling { scale, truncate } = scaling;
    // Everything is four times the value, so that it is an integer.
    match precision {
        Precision::Int8 => quadruple(plane.map(|row| row.map(|weight| i64::from(weight as i8)))).map(|row| {
            row.map(|value| saturating_shift(value * i64::from(scale), truncate.saturating_add(2), 8) as u8 as u16)
        }),
        Precision::Int16 => quadruple(plane.map(|row| row.map(|weight| i64::from(weight as i16)))).map(|row| {
            row.map(|value| saturating_shift(value * i64::from(scale), truncate.saturating_add(2), 16) as u16)
        }),
        Precision::Fp16 => {
            let unit = 26 + u32::from(truncate.min(63));
            let values = quadruple(plane.map(|row| row.map(|weight| half::to_fixed(weight).unwrap_or(0))));
            let nans = quadruple_touches(plane.map(|row| row.map(|weight| half::to_fixed(weight).is_none())));
            let mut converted = [[0; 4]; 4];
            for y in 0..4 {
                for x in 0..4 {
                    let value = values[y][x] * i64::from(scale);
                    converted[y][x] = if nans[y][x] { 0x7e00 } else { half::from_fixed(value, unit) };
                }
            }
            converted
        }
    }
}

/// Twice the rows of G.
const TWICE_G: [[i64; 3]; 4] = [[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]];

/// (2G) W (2G)^T.
fn quadruple(w: [[i64; 3]; 3]) -> [[i64; 4]; 4] {
    let mut gw = [[0; 3]; 4];
    let mut result = [[0; 4]; 4];
    for y in 0..4 {
        for x in 0..3 {
            gw[y][x] = (0..3).map(|i| TWICE_G[y][i] * w[i][x]).sum();
        }
        for x in 0..4 {
            result[y][x] = (0..3).map(|i| gw[y][i] * TWICE_G[x][i]).sum();
        }
    }
    result
}

/// Which results of [`quadruple`] a marked weight enters.
fn quadruple_touches(marked: [[bool; 3]; 3]) -> [[bool; 4]; 4] {
    let mut result = [[false; 4]; 4];
    for (y, row) in marked.into_iter().enumerate() {
        for (x, _) in row.into_iter().enumerate().filter(|(_, marked)| *marked) {
            for (i, line) in result.iter_mut().enumerate() {
                for (j, touched) in line.iter_mut().enumerate() {
                    *touched |= TWICE_G[i][y] != 0 && TWICE_G[j][x] != 0;
                }
            }
        }
    }
    result
}

impl Layout for Winograd {
    fn extents(&self) -> Extents {
        self.converted.extents()
    }

    fn element_bytes(&self) -> u32 {
        self.converted.geometry().element_bytes()
    }

    fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        Self::offset(self, n, c, h, w)
    }

    fn size(&self) -> u64 {
        Self::size(self)
    }

    fn at(&self, offset: u64) -> Option<Index> {
        if offset >= self.mapped_bytes() {
            return None;
        }
        let group_bytes = self.converted.group_offset(1);
        let group = (offset / group_bytes) as u32;
        let element = offset % group_bytes / u64::from(self.element_bytes());
        let kernels = u64::from(self.converted.kernels_in(group));
        let (cube, inside) = (element / 64, (element % 64) as u32);
        let k = group * self.converted.geometry().group_kernels + (cube % kernels) as u32;
        let c = (cube / kernels) as u32 * CUBE_CHANNELS + inside % CUBE_CHANNELS;
        Some(Index::new(k, c, inside / 16, inside / CUBE_CHANNELS % 4))
    }

    fn following(&self, at: Index) -> Option<Index> {
        self.at(self.offset(at.n, at.c, at.h, at.w) + u64::from(self.element_bytes()))
    }
}

impl Groups for Winograd {
    fn groups(&self) -> u32 {
        self.converted.groups()
    }

    fn group_elements(&self, group: u32) -> u64 {
        self.converted.group_elements(group)
    }
}
