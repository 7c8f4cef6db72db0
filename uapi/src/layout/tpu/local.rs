// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Tensors in local memory: scattered over NPUs, with strides; the aligned and the compact layout.
//!
//! Source: "Scatter Features to Different NPUs", "Strides in Local Memory", "128-Byte Aligned Layout", "Compact
//! Layout".

use super::super::contract::Layout;
use super::super::element::Element;
use super::super::error::{Error, Rule};
use super::super::extents::{multiply_add, Extents, Index, Order};
use super::memory::Memory;

/// Strides in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strides {
    /// From (n, c, h, w) to (n + 1, c, h, w).
    pub n: u64,
    /// In local memory from (n, c, h, w) to (n, c + X, h, w), in system memory to (n, c + 1, h, w).
    pub c: u64,
    /// From (n, c, h, w) to (n, c, h + 1, w).
    pub h: u64,
    /// From (n, c, h, w) to (n, c, h, w + 1).
    pub w: u64,
}

impl Strides {
    /// Elements from the start, for a position whose `c` counts in strides.
    pub(super) const fn elements(self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        (n as u64)
            .wrapping_mul(self.n)
            .wrapping_add((c as u64).wrapping_mul(self.c))
            .wrapping_add((h as u64).wrapping_mul(self.h))
            .wrapping_add((w as u64).wrapping_mul(self.w))
    }
}

/// A tensor in local memory. Offsets are addresses of the whole local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    memory: Memory,
    address: u64,
    extents: Extents,
    element: u32,
    strides: Strides,
    /// Elements of each NPU's memory that the tensor claims.
    reserved: u64,
}

/// How much of an NPU's memory a tensor takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Usage {
    /// What the tensor claims there, empty blocks and padding included.
    pub reserved: u64,
    /// What holds elements.
    pub used: u64,
}

impl Usage {
    /// What holds none.
    pub const fn wasted(self) -> u64 {
        self.reserved - self.used
    }
}

impl Local {
    /// A tensor with these strides. A stride along which there is only one element makes no sense and is ignored.
    pub const fn strided(
        memory: Memory,
        address: u64,
        extents: Extents,
        element: u32,
        strides: Strides,
    ) -> Result<Self, Error> {
        if let Err(error) = extents.check() {
            return Err(error);
        }
        if !matches!(element, 1 | 2 | 4 | 8) {
            return Err(Error::new(Rule::TpuElement, element as u64, 0));
        }
        let start = match memory.locate(address) {
            Ok((npu, _)) => npu,
            Err(error) => return Err(error),
        };
        let rows = match start.checked_add(extents.c) {
            Some(end) => end.div_ceil(memory.npus()),
            None => return Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
        };
        let dimensions = sorted(strides, [extents.n, rows, extents.h, extents.w]);
        let reserved = match reach(dimensions, element) {
            Ok(reach) => reach / element as u64,
            Err(error) => return Err(error),
        };
        Self { memory, address, extents, element, strides, reserved }.check_capacity()
    }

    /// The 128-byte aligned layout: the address is a multiple of 128, the W stride 1, the H stride W, the C stride
    /// H x W rounded up to 128 bytes, the N stride the C stride times the channels per NPU.
    pub const fn aligned(memory: Memory, address: u64, extents: Extents, element: u32) -> Result<Self, Error> {
        if let Err(error) = Error::unless_multiple(Rule::TpuAligned, address, 128) {
            return Err(error);
        }
        if !matches!(element, 1 | 2 | 4 | 8) {
            return Err(Error::new(Rule::TpuElement, element as u64, 0));
        }
        Self::nested(memory, address, extents, element, 128 / element as u64)
    }

    /// The compact layout: the address is a multiple of 4, the W stride 1, the H stride W, the C stride H x W, the N
    /// stride the C stride times the channels per NPU.
    pub const fn compact(memory: Memory, address: u64, extents: Extents, element: u32) -> Result<Self, Error> {
        if let Err(error) = Error::unless_multiple(Rule::TpuCompact, address, 4) {
            return Err(error);
        }
        Self::nested(memory, address, extents, element, 1)
    }

    const fn nested(memory: Memory, address: u64, extents: Extents, element: u32, unit: u64) -> Result<Self, Error> {
        let plane = (extents.h as u64).saturating_mul(extents.w as u64);
        let c = super::super::extents::round_up(plane, unit);
        let start = match memory.locate(address) {
            Ok((npu, _)) => npu as u64,
            Err(error) => return Err(error),
        };
        let rows = (start + extents.c as u64).div_ceil(memory.npus() as u64);
        let n = c.saturating_mul(rows);
        let strides = Strides { n, c, h: extents.w as u64, w: 1 };
        match Self::strided(memory, address, extents, element, strides) {
            Ok(mut tensor) => match n.checked_mul(extents.n as u64) {
                Some(reserved) => {
                    tensor.reserved = reserved;
                    tensor.check_capacity()
                }
                None => Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
            },
            Err(error) => Err(error),
        }
    }

    const fn check_capacity(self) -> Result<Self, Error> {
        let end = multiply_add(self.reserved, self.element as u64, self.start_offset());
        match end {
            Some(end) if end <= self.memory.bytes() => Ok(self),
            Some(end) => Err(Error::new(Rule::TpuCapacity, end, self.memory.bytes())),
            None => Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
        }
    }

    /// The memory.
    pub const fn memory(&self) -> Memory {
        self.memory
    }

    /// The tensor's address.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// The strides.
    pub const fn strides(&self) -> Strides {
        self.strides
    }

    /// The NPU at which the tensor starts (Q).
    pub const fn start_npu(&self) -> u32 {
        (self.address / self.memory.bytes()) as u32
    }

    /// Where the tensor starts in each NPU's memory (R).
    pub const fn start_offset(&self) -> u64 {
        self.address % self.memory.bytes()
    }

    /// The most channels that an NPU holds: ceil((Q + C) / X).
    pub const fn channels_per_npu(&self) -> u32 {
        (self.start_npu() + self.extents.c).div_ceil(self.memory.npus())
    }

    /// The NPU that holds channel `c`.
    pub const fn npu(&self, c: u32) -> u32 {
        self.start_npu().wrapping_add(c) % self.memory.npus()
    }

    /// The block row of channel `c` in its NPU.
    pub const fn row(&self, c: u32) -> u32 {
        self.start_npu().wrapping_add(c) / self.memory.npus()
    }

    /// The channel in a block row of an NPU; `None` where the block is empty.
    pub const fn channel(&self, npu: u32, row: u32) -> Option<u32> {
        let place = row as u64 * self.memory.npus() as u64 + npu as u64;
        let start = self.start_npu() as u64;
        if place >= start && place - start < self.extents.c as u64 {
            Some((place - start) as u32)
        } else {
            None
        }
    }

    /// Channels in an NPU.
    pub const fn channels_in(&self, npu: u32) -> u32 {
        let (npus, start, channels) = (self.memory.npus(), self.start_npu(), self.extents.c);
        if npu >= npus {
            return 0;
        }
        let first = (npu + npus - start) % npus;
        if first < channels {
            (channels - first).div_ceil(npus)
        } else {
            0
        }
    }

    /// The offset of an element in its NPU's memory.
    pub const fn npu_offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        self.strides.elements(n, self.row(c), h, w).wrapping_mul(self.element as u64).wrapping_add(self.start_offset())
    }

    /// The address of an element.
    pub const fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        (self.npu(c) as u64).wrapping_mul(self.memory.bytes()).wrapping_add(self.npu_offset(n, c, h, w))
    }

    /// How much of an NPU's memory the tensor takes.
    pub const fn usage(&self, npu: u32) -> Usage {
        let Extents { n, h, w, .. } = self.extents;
        let elements = n as u64 * self.channels_in(npu) as u64 * h as u64 * w as u64;
        Usage { reserved: self.reserved * self.element as u64, used: elements * self.element as u64 }
    }

    const fn dimensions(&self) -> [Dimension; 4] {
        sorted(self.strides, [self.extents.n, self.channels_per_npu(), self.extents.h, self.extents.w])
    }

    /// The first element in an NPU at or after `npu`.
    fn first_in(&self, npu: u32) -> Option<Index> {
        (npu..self.memory.npus()).find_map(|npu| self.first_channel(npu)).map(|c| Index::new(0, c, 0, 0))
    }

    /// The channel in the lowest block row of an NPU.
    fn first_channel(&self, npu: u32) -> Option<u32> {
        self.channel(npu, 0).or_else(|| self.channel(npu, 1))
    }
}

impl Layout for Local {
    fn extents(&self) -> Extents {
        self.extents
    }

    fn element_bytes(&self) -> u32 {
        self.element
    }

    fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        Self::offset(self, n, c, h, w)
    }

    /// All of local memory.
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn at(&self, offset: u64) -> Option<Index> {
        let (npu, offset) = self.memory.locate(offset).ok()?;
        let element = offset.checked_sub(self.start_offset())? / u64::from(self.element);
        let [n, row, h, w] = decompose(self.dimensions(), element)?;
        self.channel(npu, row).map(|c| Index::new(n, c, h, w))
    }

    fn first(&self) -> Index {
        self.first_in(0).unwrap_or(Index::new(0, 0, 0, 0))
    }

    fn following(&self, at: Index) -> Option<Index> {
        let npu = self.npu(at.c);
        let lowest = self.first_channel(npu).map_or(0, |c| self.row(c));
        let mut dimensions = self.dimensions();
        for dimension in &mut dimensions {
            if dimension.which == 1 {
                dimension.count = lowest + self.channels_in(npu);
            }
        }
        let mut place = [at.n, self.row(at.c), at.h, at.w];
        if increment(dimensions, &mut place, [0, lowest, 0, 0]) {
            let [n, row, h, w] = place;
            return self.channel(npu, row).map(|c| Index::new(n, c, h, w));
        }
        self.first_in(npu + 1)
    }

    /// Writes the elements; every other byte of local memory stays as it is.
    fn pack<T: Element>(&self, order: Order, plain: &[T], memory: &mut [u8]) -> Result<(), Error> {
        super::super::contract::check(self, plain, memory.len())?;
        super::super::contract::write_portable(self, order, plain, memory);
        Ok(())
    }
}

/// One of the four directions in which elements repeat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dimension {
    stride: u64,
    count: u32,
    /// Its place in N, C, H, W.
    which: usize,
}

/// The dimensions by stride, smallest first. Dimensions with one element come before all others.
pub(super) const fn sorted(strides: Strides, counts: [u32; 4]) -> [Dimension; 4] {
    let mut dimensions = [
        Dimension { stride: strides.w, count: counts[3], which: 3 },
        Dimension { stride: strides.h, count: counts[2], which: 2 },
        Dimension { stride: strides.c, count: counts[1], which: 1 },
        Dimension { stride: strides.n, count: counts[0], which: 0 },
    ];
    let mut i = 1;
    while i < 4 {
        let mut j = i;
        while j > 0 && dimensions[j].rank() < dimensions[j - 1].rank() {
            let swapped = dimensions[j];
            dimensions[j] = dimensions[j - 1];
            dimensions[j - 1] = swapped;
            j -= 1;
        }
        i += 1;
    }
    dimensions
}

impl Dimension {
    const fn rank(&self) -> u64 {
        if self.count > 1 {
            self.stride
        } else {
            0
        }
    }
}

/// Bytes from the first to the last element, or the stride that makes elements overlap.
pub(super) const fn reach(dimensions: [Dimension; 4], element: u32) -> Result<u64, Error> {
    let mut span = 1u64;
    let mut i = 0;
    while i < 4 {
        let Dimension { stride, count, .. } = dimensions[i];
        if count > 1 {
            if stride < span {
                return Err(Error::new(Rule::TpuOverlap, stride, span));
            }
            span = match multiply_add(count as u64 - 1, stride, span) {
                Some(span) => span,
                None => return Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
            };
        }
        i += 1;
    }
    match span.checked_mul(element as u64) {
        Some(reach) => Ok(reach),
        None => Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
    }
}

/// The position in N, C, H, W of an element at that distance; `None` in a gap.
pub(super) fn decompose(dimensions: [Dimension; 4], element: u64) -> Option<[u32; 4]> {
    let mut place = [0; 4];
    let mut rest = element;
    for Dimension { stride, count, which } in dimensions.into_iter().rev() {
        if count > 1 {
            let index = (rest / stride).min(u64::from(count) - 1);
            place[which] = index as u32;
            rest -= index * stride;
        }
    }
    (rest == 0).then_some(place)
}

/// The next position in memory order; `false` after the last.
pub(super) fn increment(dimensions: [Dimension; 4], place: &mut [u32; 4], lowest: [u32; 4]) -> bool {
    for Dimension { count, which, .. } in dimensions {
        place[which] += 1;
        if place[which] < count {
            return true;
        }
        place[which] = lowest[which];
    }
    false
}
