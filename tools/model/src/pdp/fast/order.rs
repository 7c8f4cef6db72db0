// SPDX-License-Identifier: MIT OR Apache-2.0

//! Elements as integers that are ordered like them.

use super::portable::Element;
use crate::simd::aligned::Plain;

/// The type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only its vector code asks
pub(super) enum Kind {
    Bytes,
    Shorts,
    Halves,
}

/// Elements as integers that are ordered like them.
pub(super) trait Order: Sync {
    type Key: Plain + Ord;
    type Element: Element;
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only its vector code asks
    const KIND: Kind;
    fn key(&self, element: Self::Element) -> Self::Key;
    fn element(key: Self::Key) -> Self::Element;
    /// As [`Method::mark`].
    #[inline(always)]
    fn mark(_: Self::Element) -> u16 {
        0
    }
}
