// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Storage modes: neighbours along N (input channels, for weights) share one wider element.
//!
//! Source: "4N-mode", "2N-mode", "2IC-mode".

use super::super::contract::Layout;
use super::super::element::Element;
use super::super::error::Error;
use super::super::extents::{Extents, Index, Order};
use super::local::{Local, Strides, Usage};
use super::memory::Memory;

/// A storage mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Four 8-bit elements at 4m to 4m + 3 of N make one of 32 bits.
    FourN,
    /// Two 16-bit elements at 2m and 2m + 1 of N make one of 32 bits.
    TwoN,
    /// Two fp32 elements at 2j and 2j + 1 of the input channels make one of 64 bits.
    TwoIc,
}

impl Mode {
    /// Elements that share one wider element.
    pub const fn lanes(self) -> u32 {
        match self {
            Self::FourN => 4,
            Self::TwoN | Self::TwoIc => 2,
        }
    }

    /// Bytes of an original element.
    pub const fn element_bytes(self) -> u32 {
        match self {
            Self::FourN => 1,
            Self::TwoN => 2,
            Self::TwoIc => 4,
        }
    }

    /// Bytes of the wider element.
    pub const fn wide_bytes(self) -> u32 {
        self.lanes() * self.element_bytes()
    }
}

/// A tensor in a storage mode. Strides and shape of [`Self::wide`] are against the wider element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packed {
    mode: Mode,
    n: u32,
    wide: Local,
}

impl Packed {
    /// A tensor of `extents` (for 2IC: input channels, output channels, height, width) in the aligned layout.
    pub const fn aligned(mode: Mode, memory: Memory, address: u64, extents: Extents) -> Result<Self, Error> {
        Self::from_wide(
            mode,
            extents.n,
            Local::aligned(memory, address, Self::wide_extents(mode, extents), mode.wide_bytes()),
        )
    }

    /// The same in the compact layout.
    pub const fn compact(mode: Mode, memory: Memory, address: u64, extents: Extents) -> Result<Self, Error> {
        Self::from_wide(
            mode,
            extents.n,
            Local::compact(memory, address, Self::wide_extents(mode, extents), mode.wide_bytes()),
        )
    }

    /// The same with strides in wider elements.
    pub const fn strided(
        mode: Mode,
        memory: Memory,
        address: u64,
        extents: Extents,
        strides: Strides,
    ) -> Result<Self, Error> {
        let wide = Self::wide_extents(mode, extents);
        Self::from_wide(mode, extents.n, Local::strided(memory, address, wide, mode.wide_bytes(), strides))
    }

    const fn from_wide(mode: Mode, n: u32, wide: Result<Local, Error>) -> Result<Self, Error> {
        match wide {
            Ok(wide) => Ok(Self { mode, n, wide }),
            Err(error) => Err(error),
        }
    }

    /// The shape against the wider element: M = ceil(N / lanes).
    pub const fn wide_extents(mode: Mode, extents: Extents) -> Extents {
        Extents::new(extents.n.div_ceil(mode.lanes()), extents.c, extents.h, extents.w)
    }

    /// The tensor of wider elements.
    pub const fn wide(&self) -> Local {
        self.wide
    }

    /// The storage mode.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Dummy elements at the end of N: those that make it a multiple of the lanes.
    pub const fn dummies(&self) -> u32 {
        self.n.next_multiple_of(self.mode.lanes()) - self.n
    }

    /// The address of an element.
    pub const fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        let lane = (n % self.mode.lanes()) as u64 * self.mode.element_bytes() as u64;
        self.wide.offset(n / self.mode.lanes(), c, h, w).wrapping_add(lane)
    }

    /// How much of an NPU's memory the tensor takes; dummy elements are wasted.
    pub fn usage(&self, npu: u32) -> Usage {
        let usage = self.wide.usage(npu);
        let Extents { h, w, .. } = self.wide.extents();
        let plane = u64::from(self.wide.channels_in(npu)) * u64::from(h) * u64::from(w);
        let dummies = u64::from(self.dummies()) * plane * u64::from(self.mode.element_bytes());
        Usage { used: usage.used - dummies, ..usage }
    }
}

impl Layout for Packed {
    fn extents(&self) -> Extents {
        Extents { n: self.n, ..self.wide.extents() }
    }

    fn element_bytes(&self) -> u32 {
        self.mode.element_bytes()
    }

    fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        Self::offset(self, n, c, h, w)
    }

    fn size(&self) -> u64 {
        self.wide.size()
    }

    fn at(&self, offset: u64) -> Option<Index> {
        let at = self.wide.at(offset)?;
        let start = self.wide.offset(at.n, at.c, at.h, at.w);
        let lane = (offset - start) as u32 / self.mode.element_bytes();
        let n = at.n * self.mode.lanes() + lane;
        (n < self.n).then_some(Index { n, ..at })
    }

    fn first(&self) -> Index {
        self.wide.first()
    }

    fn following(&self, at: Index) -> Option<Index> {
        let lanes = self.mode.lanes();
        if at.n % lanes + 1 < lanes && at.n + 1 < self.n {
            return Some(Index { n: at.n + 1, ..at });
        }
        let next = self.wide.following(Index { n: at.n / lanes, ..at })?;
        Some(Index { n: next.n * lanes, ..next })
    }

    /// Writes the elements, and zero for dummy elements.
    fn pack<T: Element>(&self, order: Order, plain: &[T], memory: &mut [u8]) -> Result<(), Error> {
        super::super::contract::check(self, plain, memory.len())?;
        if self.dummies() > 0 {
            let wide = self.wide.extents();
            for c in 0..wide.c {
                for h in 0..wide.h {
                    for w in 0..wide.w {
                        let at = self.wide.offset(wide.n - 1, c, h, w) as usize;
                        memory[at..at + self.mode.wide_bytes() as usize].fill(0);
                    }
                }
            }
        }
        super::super::contract::write_portable(self, order, plain, memory);
        Ok(())
    }
}
