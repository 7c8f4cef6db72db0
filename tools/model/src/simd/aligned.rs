// SPDX-License-Identifier: MIT OR Apache-2.0

//! Scratch memory at cache line boundaries, kept from one operation to the next.

/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// An element type for which every bit pattern is a value.
pub trait Plain: Copy + 'static + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! plain {
    ($($kind:ty)*) => {$(
        impl sealed::Sealed for $kind {}
        impl Plain for $kind {}
    )*};
}
plain!(u8 i8 u16 i16 u32 i32 i64 f32 f64 [u8; 2]);

/// Aligned memory that grows and never shrinks.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    lines: Vec<Line>,
}

impl Aligned {
    /// `count` elements, whose values are left from earlier use.
    pub(crate) fn get<T: Plain>(&mut self, count: usize) -> &mut [T] {
        let lines = (count * size_of::<T>()).div_ceil(64);
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0; 64]));
        }
        // SAFETY: the lines are initialised, at least as long as `count` elements and aligned to 64 bytes, and any bytes
        // are a `T` (`Plain`). The borrow of `self` is the borrow of the slice.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast::<T>(), count) }
    }
}
