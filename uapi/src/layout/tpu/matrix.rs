// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Matrices in local memory: columns cut into channels of W, in the aligned layout.
//!
//! Source: "Matrix Layout".

use super::super::contract::Layout;
use super::super::element::Element;
use super::super::error::{Error, Rule};
use super::super::extents::{Extents, Index, Order};
use super::local::{Local, Usage};
use super::memory::Memory;

/// An N-by-M matrix as the tensor (N, ceil(M / W), 1, W) in the 128-byte aligned layout.
///
/// Its extents are N, 1, 1, M: an element's `w` is its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    tensor: Local,
    columns: u32,
    width: u32,
}

impl Matrix {
    /// A matrix of `rows` x `columns` with `width` columns (W, 1 to M) in each channel.
    pub const fn new(
        memory: Memory,
        address: u64,
        rows: u32,
        columns: u32,
        width: u32,
        element: u32,
    ) -> Result<Self, Error> {
        if rows == 0 || columns == 0 || width == 0 {
            return Err(Error::new(Rule::Extents, 0, 1));
        }
        if let Err(error) = Error::unless_at_most(Rule::TpuMatrixWidth, width as u64, columns as u64) {
            return Err(error);
        }
        let extents = Extents::new(rows, columns.div_ceil(width), 1, width);
        match Local::aligned(memory, address, extents, element) {
            Ok(tensor) => Ok(Self { tensor, columns, width }),
            Err(error) => Err(error),
        }
    }

    /// The tensor, whose last channel may be partly empty.
    pub const fn tensor(&self) -> Local {
        self.tensor
    }

    /// Columns in the last channel: M - W * floor(M / W), or W where that is 0.
    pub const fn last_columns(&self) -> u32 {
        match self.columns % self.width {
            0 => self.width,
            rest => rest,
        }
    }

    /// The address of an element.
    pub const fn element_offset(&self, row: u32, column: u32) -> u64 {
        self.tensor.offset(row, column / self.width, 0, column % self.width)
    }

    /// How much of an NPU's memory the matrix takes.
    pub fn usage(&self, npu: u32) -> Usage {
        let usage = self.tensor.usage(npu);
        let extents = self.tensor.extents();
        let missing = if self.tensor.npu(extents.c - 1) == npu { self.width - self.last_columns() } else { 0 };
        let missing = u64::from(missing) * u64::from(extents.n) * u64::from(self.tensor.element_bytes());
        Usage { used: usage.used - missing, ..usage }
    }
}

impl Layout for Matrix {
    fn extents(&self) -> Extents {
        Extents::new(self.tensor.extents().n, 1, 1, self.columns)
    }

    fn element_bytes(&self) -> u32 {
        self.tensor.element_bytes()
    }

    fn offset(&self, n: u32, _c: u32, _h: u32, w: u32) -> u64 {
        self.element_offset(n, w)
    }

    fn size(&self) -> u64 {
        self.tensor.size()
    }

    fn at(&self, offset: u64) -> Option<Index> {
        let at = self.tensor.at(offset)?;
        let column = at.c * self.width + at.w;
        (column < self.columns).then(|| Index::new(at.n, 0, 0, column))
    }

    fn first(&self) -> Index {
        let at = self.tensor.first();
        Index::new(at.n, 0, 0, at.c * self.width + at.w)
    }

    fn following(&self, at: Index) -> Option<Index> {
        let mut next = Index::new(at.n, at.w / self.width, 0, at.w % self.width);
        loop {
            next = self.tensor.following(next)?;
            let column = next.c * self.width + next.w;
            if column < self.columns {
                return Some(Index::new(next.n, 0, 0, column));
            }
        }
    }

    fn pack<T: Element>(&self, order: Order, plain: &[T], memory: &mut [u8]) -> Result<(), Error> {
        super::super::contract::check(self, plain, memory.len())?;
        super::super::contract::write_portable(self, order, plain, memory);
        Ok(())
    }
}
