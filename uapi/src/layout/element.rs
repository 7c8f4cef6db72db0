// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The types that plain slices hold. Layouts move bytes and do not interpret them, so fp16 travels as its `u16` bits.

mod sealed {
    pub trait Sealed {}
}

/// A plain element: an integer. Memory holds its bytes in little-endian order.
///
/// fp16 is `u16` (its bits), fp32 is `u32`.
pub trait Element: Copy + Default + PartialEq + sealed::Sealed + Send + Sync + 'static {
    /// Bytes of an element.
    const BYTES: usize;
    /// Writes the element to the first [`Self::BYTES`] bytes of `memory`.
    fn write(self, memory: &mut [u8]);
    /// Reads an element from the first [`Self::BYTES`] bytes of `memory`.
    fn read(memory: &[u8]) -> Self;
}

macro_rules! element {
    ($($name:ident)*) => {$(
        impl sealed::Sealed for $name {}

        impl Element for $name {
            const BYTES: usize = core::mem::size_of::<$name>();

            #[inline]
            fn write(self, memory: &mut [u8]) {
                memory[..Self::BYTES].copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn read(memory: &[u8]) -> Self {
                let mut bytes = [0; core::mem::size_of::<$name>()];
                bytes.copy_from_slice(&memory[..Self::BYTES]);
                Self::from_le_bytes(bytes)
            }
        }
    )*};
}

element! { i8 u8 i16 u16 i32 u32 i64 u64 }
