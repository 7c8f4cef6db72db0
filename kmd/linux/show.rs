// SPDX-License-Identifier: GPL-2.0-only

//! Printing what is written for `core::fmt` with the kernel's own formatting.

use kernel::fmt;

/// A value whose text the kernel's printing takes.
pub(crate) struct Show<'a, T>(pub(crate) &'a T);

impl<T: core::fmt::Display> fmt::Display for Show<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(self.0, f)
    }
}
