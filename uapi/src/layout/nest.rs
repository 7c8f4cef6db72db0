// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Pieces of bytes at nested strides: a channel's planes and their lines (Rubik's planar data), the lines that a transfer
//! of BDMA moves, the cells of a contraction, the start of a region of interest.
//!
//! Source: the register specification (RBK, BDMA), which gives these surfaces as strides only.

use super::error::{Error, Rule};
use super::extents::multiply_add;

/// Pieces of `bytes` bytes; level 0 is the outermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nest<const LEVELS: usize> {
    bytes: u64,
    counts: [u64; LEVELS],
    strides: [u64; LEVELS],
    /// Bytes from the first to the last of all pieces.
    span: u64,
}

impl<const LEVELS: usize> Nest<LEVELS> {
    /// Pieces at nested levels, with a count and a stride in bytes per level, as the hardware accesses them when it is
    /// programmed with these values. Pieces may overlap. Checks that the span fits 64 bits and that no count is zero.
    pub const fn as_programmed(bytes: u64, counts: [u64; LEVELS], strides: [u64; LEVELS]) -> Result<Self, Error> {
        let nest = Self { bytes, counts, strides, span: 0 };
        let mut level = 0;
        while level < LEVELS {
            if counts[level] == 0 {
                return Err(Error::new(Rule::Extents, 0, 1));
            }
            level += 1;
        }
        match nest.checked_span(0) {
            Some(span) => Ok(Self { span, ..nest }),
            None => Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
        }
    }

    /// Only strides, for [`Self::offset`]: a piece without bytes.
    pub const fn of_strides(strides: [u64; LEVELS]) -> Self {
        Self { bytes: 0, counts: [1; LEVELS], strides, span: 0 }
    }

    const fn checked_span(&self, level: usize) -> Option<u64> {
        let (mut span, mut at) = (self.bytes, LEVELS);
        while at > level {
            at -= 1;
            span = match multiply_add(self.counts[at] - 1, self.strides[at], span) {
                Some(span) => span,
                None => return None,
            };
        }
        Some(span)
    }

    /// Bytes of one part of a level, from its first to its last: of all for 0, of a piece for `LEVELS`.
    pub const fn span_of(&self, level: usize) -> u64 {
        match self.checked_span(level) {
            Some(span) => span,
            None => self.span,
        }
    }

    /// Bytes from the first to the last of all pieces.
    pub const fn span(&self) -> u64 {
        self.span
    }

    /// Bytes of all pieces together; saturates.
    pub const fn volume(&self) -> u64 {
        let (mut volume, mut level) = (self.bytes, 0);
        while level < LEVELS {
            volume = volume.saturating_mul(self.counts[level]);
            level += 1;
        }
        volume
    }

    /// Bytes of a piece.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Offset of a piece.
    #[inline]
    pub const fn offset(&self, at: [u64; LEVELS]) -> u64 {
        let (mut offset, mut level) = (0u64, 0);
        while level < LEVELS {
            offset = offset.wrapping_add(at[level].wrapping_mul(self.strides[level]));
            level += 1;
        }
        offset
    }

    /// The innermost level at which parts overlap, with the bytes that a part spans. Its stride should be at least that
    /// many bytes.
    pub const fn overlap(&self) -> Option<(usize, u64)> {
        let mut level = LEVELS;
        while level > 0 {
            level -= 1;
            let part = self.span_of(level + 1);
            if self.counts[level] > 1 && self.strides[level] < part {
                return Some((level, part));
            }
        }
        None
    }
}
