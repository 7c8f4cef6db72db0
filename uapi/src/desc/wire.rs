// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Descriptors as bytes: reading, writing and checking them, and the macros that declare them.

use super::super::reg::FieldValue;
use core::fmt;

/// Number of processors, of slots in [`CommonOp::consumers`](super::CommonOp::consumers) and in
/// [`Network::op_head`](super::Network::op_head).
pub const PROCESSORS: usize = 6;

/// Why bytes are no descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There are fewer bytes than the descriptor has.
    Short {
        /// The descriptor's name.
        descriptor: &'static str,
        /// Bytes that it has.
        needed: usize,
        /// Bytes that are there.
        available: usize,
    },
    /// A field holds a value that the interface does not name.
    Unknown {
        /// The field.
        field: Path,
        /// Its value.
        value: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { descriptor, needed, available } => {
                write!(f, "{descriptor} has {needed} bytes, only {available} are there")
            }
            Self::Unknown { field, value } => write!(f, "{field} is {value}, which the interface does not name"),
        }
    }
}

impl core::error::Error for Error {}

/// The name of a field, from the outermost descriptor to the field itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Innermost first; the unused end is empty.
    names: [&'static str; 3],
}

impl Path {
    /// The path of a field of that name.
    pub const fn new(name: &'static str) -> Self {
        Self { names: [name, "", ""] }
    }

    /// The same field seen from a descriptor that holds it in its field `name`.
    #[must_use]
    pub fn within(mut self, name: &'static str) -> Self {
        if let Some(free) = self.names.iter_mut().find(|name| name.is_empty()) {
            *free = name;
        }
        self
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = self.names.iter().rev().filter(|name| !name.is_empty());
        if let Some(name) = names.next() {
            f.write_str(name)?;
        }
        names.try_for_each(|name| write!(f, ".{name}"))
    }
}

/// A field's place in a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The field's name.
    pub name: &'static str,
    /// Bytes from the start of what holds it.
    pub offset: usize,
    /// Bytes of the field.
    pub size: usize,
    /// Bytes of one element; `size` where the field is no array.
    pub element: usize,
    /// The fields of an element; none where it is one number.
    pub parts: &'static [Part],
}

/// A value with a fixed place in a descriptor.
pub trait Wire: Copy {
    /// Bytes that it takes.
    const SIZE: usize;
    /// Bytes of one element, where the value is an array.
    const ELEMENT: usize = Self::SIZE;
    /// The fields of the value, or of an array's element; none where that is one number.
    const PARTS: &'static [Part] = &[];
    /// The value whose numbers are 0 and whose optional parts are absent.
    const ZERO: Self;
    /// The value that the first [`Self::SIZE`] bytes hold.
    fn load(bytes: &[u8]) -> Result<Self, Error>;
    /// Writes the first [`Self::SIZE`] bytes.
    fn store(&self, bytes: &mut [u8]);
}

/// A descriptor: a structure of the interface.
pub trait Descriptor: Wire {
    /// Its name, for errors.
    const NAME: &'static str;

    /// Reads the descriptor at the start of `bytes`.
    fn parse(bytes: &[u8]) -> Result<Self, Error> {
        match bytes.get(..Self::SIZE) {
            Some(bytes) => Self::load(bytes),
            None => Err(Error::Short { descriptor: Self::NAME, needed: Self::SIZE, available: bytes.len() }),
        }
    }

    /// Writes the descriptor at the start of `bytes`.
    fn write(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let available = bytes.len();
        match bytes.get_mut(..Self::SIZE) {
            Some(bytes) => {
                bytes.fill(0);
                self.store(bytes);
                Ok(())
            }
            None => Err(Error::Short { descriptor: Self::NAME, needed: Self::SIZE, available }),
        }
    }
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Wire for $kind {
            const SIZE: usize = core::mem::size_of::<$kind>();
            const ZERO: Self = 0;

            #[inline]
            fn load(bytes: &[u8]) -> Result<Self, Error> {
                let mut value = [0; Self::SIZE];
                value.copy_from_slice(&bytes[..Self::SIZE]);
                Ok(Self::from_le_bytes(value))
            }

            #[inline]
            fn store(&self, bytes: &mut [u8]) {
                bytes[..Self::SIZE].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
integers!(u8, i8, u16, i16, u32, i32, u64, i64);

impl<T: Wire, const N: usize> Wire for [T; N] {
    const SIZE: usize = T::SIZE * N;
    const ELEMENT: usize = T::SIZE;
    const PARTS: &'static [Part] = T::PARTS;
    const ZERO: Self = [T::ZERO; N];

    fn load(bytes: &[u8]) -> Result<Self, Error> {
        let mut values = Self::ZERO;
        for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(T::SIZE)) {
            *value = T::load(bytes)?;
        }
        Ok(values)
    }

    fn store(&self, bytes: &mut [u8]) {
        for (value, bytes) in self.iter().zip(bytes.chunks_exact_mut(T::SIZE)) {
            value.store(bytes);
        }
    }
}

/// One byte that encodes a value of the register specification or of the interface.
macro_rules! byte_encodings {
    ($($kind:ty = $zero:expr),* $(,)?) => {$(
        impl super::wire::Wire for $kind {
            const SIZE: usize = 1;
            const ZERO: Self = $zero;

            #[inline]
            fn load(bytes: &[u8]) -> Result<Self, super::wire::Error> {
                let value = u32::from(bytes[0]);
                <$kind as super::super::reg::FieldValue>::from_bits(value)
                    .ok_or(super::wire::Error::Unknown { field: super::wire::Path::default(), value })
            }

            #[inline]
            fn store(&self, bytes: &mut [u8]) {
                bytes[0] = <$kind as super::super::reg::FieldValue>::to_bits(*self) as u8;
            }
        }
    )*};
}
pub(super) use byte_encodings;

impl Error {
    /// The same error, seen from the descriptor that holds the value in its field `name`.
    pub(super) fn within(self, name: &'static str) -> Self {
        match self {
            Self::Unknown { field, value } => Self::Unknown { field: field.within(name), value },
            Self::Short { .. } => self,
        }
    }
}

/// Checks that fields lie in order within `size` bytes and do not overlap; for use at compile time.
pub(super) const fn lies_in_order(fields: &[(usize, usize)], size: usize) -> bool {
    let mut end = 0;
    let mut index = 0;
    while index < fields.len() {
        let (offset, bytes) = fields[index];
        if offset < end {
            return false;
        }
        end = offset + bytes;
        index += 1;
    }
    end <= size
}

/// Declares a descriptor: its name, its size in bytes, the module of its fields' offsets, and offset, name and type of
/// each field. A type may be followed by the integer that holds it (`as u16`) when that is not one byte.
macro_rules! descriptor {
    ($(
        $(#[$attribute:meta])*
        $name:ident ($title:literal, $size:literal, $offsets:ident) {
            $($(#[$doc:meta])* $offset:literal $field:ident: $kind:ty $(as $int:ty)?;)*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $kind,)*
        }

        #[doc = concat!("Byte offsets of the fields of [`", stringify!($name), "`].")]
        #[allow(non_upper_case_globals)]
        pub mod $offsets {
            $(
                #[doc = concat!("`", stringify!($field), "` at byte ", $offset, ".")]
                pub const $field: usize = $offset;
            )*
        }

        const _: () = assert!(super::wire::lies_in_order(
            &[$(($offset, super::wire::descriptor!(@size $kind $(, $int)?))),*],
            $size,
        ));

        impl super::wire::Wire for $name {
            const SIZE: usize = $size;
            const PARTS: &'static [super::wire::Part] = &[$(super::wire::descriptor!(@part $offset, $field, $kind $(, $int)?)),*];
            const ZERO: Self = Self { $($field: <$kind as super::wire::Wire>::ZERO,)* };

            #[inline]
            fn load(bytes: &[u8]) -> Result<Self, super::wire::Error> {
                Ok(Self {$(
                    $field: super::wire::descriptor!(@load &bytes[$offset..], $kind $(, $int)?)
                        .map_err(|error| error.within(stringify!($field)))?,
                )*})
            }

            #[inline]
            fn store(&self, bytes: &mut [u8]) {
                $(<$kind as super::wire::Wire>::store(&self.$field, &mut bytes[$offset..]);)*
            }
        }

        impl super::wire::Descriptor for $name {
            const NAME: &'static str = $title;
        }

        impl Default for $name {
            fn default() -> Self {
                <Self as super::wire::Wire>::ZERO
            }
        }
    )*};
    (@part $offset:literal, $field:ident, $kind:ty) => {
        super::wire::Part {
            name: stringify!($field),
            offset: $offset,
            size: <$kind as super::wire::Wire>::SIZE,
            element: <$kind as super::wire::Wire>::ELEMENT,
            parts: <$kind as super::wire::Wire>::PARTS,
        }
    };
    (@part $offset:literal, $field:ident, $kind:ty, $int:ty) => {
        super::wire::descriptor!(@part $offset, $field, $int)
    };
    (@size $kind:ty) => { <$kind as super::wire::Wire>::SIZE };
    (@size $kind:ty, $int:ty) => { <$int as super::wire::Wire>::SIZE };
    (@load $bytes:expr, $kind:ty) => { <$kind as super::wire::Wire>::load($bytes) };
    (@load $bytes:expr, $kind:ty, $int:ty) => {
        super::wire::load_wide::<$kind>(u32::from(<$int as super::wire::Wire>::load($bytes)?))
    };
}
pub(super) use descriptor;

/// The value that a field wider than a byte encodes.
pub(super) fn load_wide<T: FieldValue>(value: u32) -> Result<T, Error> {
    T::from_bits(value).ok_or(Error::Unknown { field: Path::default(), value })
}
