// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The descriptors of a task, interface version 0.12: what a compiler writes into a loadable and the scheduler reads.
//!
//! A task is a network descriptor ([`Network`]) and the lists that it points to through the task's address list: the
//! dependency graph ([`CommonOp`], 36 bytes per entry), the operations ([`Operation`], 116), their surfaces
//! ([`Surface`], 644), lookup tables ([`Lut`], 700), regions of interest ([`Roi`]) and statistics ([`Stat`]).
//!
//! Every type here is plain values. [`Descriptor::parse`] reads one from untrusted bytes and refuses encodings that the
//! interface does not name; [`Descriptor::write`] is its inverse. Reserved bytes are ignored when read and written as
//! zero. Numbers are little-endian. The constants of a descriptor's own module (`data_cube::line_stride`) are the byte
//! offsets of its fields.
//!
//! Source: `kmd/firmware/include/dla_interface.h` of the software project, whose names the fields keep.

use super::reg::FieldValue;
use core::fmt;

mod bdma;
mod cdp;
mod conv;
mod cube;
mod graph;
mod pdp;
mod rubik;
mod sdp;
mod tables;
mod task;
mod types;
mod upgrade;

pub use bdma::*;
pub use cdp::*;
pub use conv::*;
pub use cube::*;
pub use graph::*;
pub use pdp::*;
pub use rubik::*;
pub use sdp::*;
pub use tables::*;
pub use task::*;
pub use types::*;
pub use upgrade::*;

/// Number of processors, of slots in [`CommonOp::consumers`] and in [`Network::op_head`].
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
        impl super::Wire for $kind {
            const SIZE: usize = 1;
            const ZERO: Self = $zero;

            #[inline]
            fn load(bytes: &[u8]) -> Result<Self, super::Error> {
                let value = u32::from(bytes[0]);
                <$kind as super::FieldValue>::from_bits(value)
                    .ok_or(super::Error::Unknown { field: super::Path::default(), value })
            }

            #[inline]
            fn store(&self, bytes: &mut [u8]) {
                bytes[0] = <$kind as super::FieldValue>::to_bits(*self) as u8;
            }
        }
    )*};
}
use byte_encodings;

impl Error {
    /// The same error, seen from the descriptor that holds the value in its field `name`.
    fn within(self, name: &'static str) -> Self {
        match self {
            Self::Unknown { field, value } => Self::Unknown { field: field.within(name), value },
            Self::Short { .. } => self,
        }
    }
}

/// Checks that fields lie in order within `size` bytes and do not overlap; for use at compile time.
const fn lies_in_order(fields: &[(usize, usize)], size: usize) -> bool {
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

        const _: () = assert!(super::lies_in_order(
            &[$(($offset, super::descriptor!(@size $kind $(, $int)?))),*],
            $size,
        ));

        impl super::Wire for $name {
            const SIZE: usize = $size;
            const PARTS: &'static [super::Part] = &[$(super::descriptor!(@part $offset, $field, $kind $(, $int)?)),*];
            const ZERO: Self = Self { $($field: <$kind as super::Wire>::ZERO,)* };

            #[inline]
            fn load(bytes: &[u8]) -> Result<Self, super::Error> {
                Ok(Self {$(
                    $field: super::descriptor!(@load &bytes[$offset..], $kind $(, $int)?)
                        .map_err(|error| error.within(stringify!($field)))?,
                )*})
            }

            #[inline]
            fn store(&self, bytes: &mut [u8]) {
                $(<$kind as super::Wire>::store(&self.$field, &mut bytes[$offset..]);)*
            }
        }

        impl super::Descriptor for $name {
            const NAME: &'static str = $title;
        }

        impl Default for $name {
            fn default() -> Self {
                <Self as super::Wire>::ZERO
            }
        }
    )*};
    (@part $offset:literal, $field:ident, $kind:ty) => {
        super::Part {
            name: stringify!($field),
            offset: $offset,
            size: <$kind as super::Wire>::SIZE,
            element: <$kind as super::Wire>::ELEMENT,
            parts: <$kind as super::Wire>::PARTS,
        }
    };
    (@part $offset:literal, $field:ident, $kind:ty, $int:ty) => {
        super::descriptor!(@part $offset, $field, $int)
    };
    (@size $kind:ty) => { <$kind as super::Wire>::SIZE };
    (@size $kind:ty, $int:ty) => { <$int as super::Wire>::SIZE };
    (@load $bytes:expr, $kind:ty) => { <$kind as super::Wire>::load($bytes) };
    (@load $bytes:expr, $kind:ty, $int:ty) => {
        super::load_wide::<$kind>(u32::from(<$int as super::Wire>::load($bytes)?))
    };
}
use descriptor;

/// The value that a field wider than a byte encodes.
fn load_wide<T: FieldValue>(value: u32) -> Result<T, Error> {
    T::from_bits(value).ok_or(Error::Unknown { field: Path::default(), value })
}

/// The containers, of which an operation's type says what they hold.
macro_rules! containers {
    ($(
        $(#[$attribute:meta])*
        $name:ident ($title:literal, $size:literal) { $($variant:ident($kind:ty)),* $(,)? }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::large_enum_variant)]
        pub enum $name {
            $(#[doc = concat!("For [`OpType::", stringify!($variant), "`].")] $variant($kind),)*
        }

        $(const _: () = assert!(<$kind as Wire>::SIZE <= $size);)*

        impl $name {
            /// Bytes of the container, whatever it holds: the stride of the list.
            pub const SIZE: usize = $size;

            /// Reads the container of an operation of type `op_type` at the start of `bytes`.
            pub fn parse(op_type: OpType, bytes: &[u8]) -> Result<Self, Error> {
                if bytes.len() < Self::SIZE {
                    return Err(Error::Short { descriptor: $title, needed: Self::SIZE, available: bytes.len() });
                }
                match op_type {
                    $(OpType::$variant => <$kind as Descriptor>::parse(bytes).map(Self::$variant),)*
                }
            }

            /// Writes the whole container at the start of `bytes`.
            pub fn write(&self, bytes: &mut [u8]) -> Result<(), Error> {
                let available = bytes.len();
                let bytes = bytes.get_mut(..Self::SIZE).ok_or(Error::Short {
                    descriptor: $title,
                    needed: Self::SIZE,
                    available,
                })?;
                bytes.fill(0);
                match self {
                    $(Self::$variant(descriptor) => descriptor.write(bytes),)*
                }
            }

            /// The operation's type.
            pub const fn op_type(&self) -> OpType {
                match self {
                    $(Self::$variant(_) => OpType::$variant,)*
                }
            }
        }
    )*};
}

containers! {
    /// An entry of the operation list: how a unit works.
    Operation ("operation descriptor", 116) {
        Bdma(BdmaOp), Conv(ConvOp), Sdp(SdpOp), Pdp(PdpOp), Cdp(CdpOp), Rubik(RubikOp),
    }
    /// An entry of the surface list: the cubes that an operation reads and writes.
    Surface ("surface descriptor", 644) {
        Bdma(BdmaSurface), Conv(ConvSurface), Sdp(SdpSurface), Pdp(PdpSurface), Cdp(CdpSurface), Rubik(RubikSurface),
    }
    /// An entry of the statistics list: what a unit counted.
    Stat ("statistics descriptor", 44) {
        Bdma(BdmaStat), Conv(ConvStat), Sdp(SdpStat), Pdp(PdpStat), Cdp(CdpStat), Rubik(RubikStat),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parsing what was written gives the same value, and writing what was parsed the same bytes where a field is.
    fn round_trip<T: Descriptor + PartialEq + fmt::Debug>(fill: u8) {
        let mut bytes = [fill; 2048];
        bytes[T::SIZE..].fill(0xee);
        if let Ok(value) = T::parse(&bytes) {
            let mut again = [0; 2048];
            value.write(&mut again).unwrap();
            assert_eq!(T::parse(&again).unwrap(), value, "{}", T::NAME);
        }
        assert!(matches!(T::parse(&bytes[..T::SIZE - 1]), Err(Error::Short { .. })), "{}", T::NAME);
    }

    #[test]
    fn round_trips() {
        for fill in [0, 1, 2, 5, 0x7f, 0xff] {
            round_trip::<Network>(fill);
            round_trip::<CommonOp>(fill);
            round_trip::<Roi>(fill);
            round_trip::<RoiArray>(fill);
            round_trip::<DataCube>(fill);
            round_trip::<Lut>(fill);
            round_trip::<BdmaOp>(fill);
            round_trip::<BdmaSurface>(fill);
            round_trip::<ConvOp>(fill);
            round_trip::<ConvSurface>(fill);
            round_trip::<SdpOp>(fill);
            round_trip::<SdpSurface>(fill);
            round_trip::<PdpOp>(fill);
            round_trip::<PdpSurface>(fill);
            round_trip::<CdpOp>(fill);
            round_trip::<CdpSurface>(fill);
            round_trip::<RubikOp>(fill);
            round_trip::<RubikSurface>(fill);
            round_trip::<ConvStat>(fill);
            round_trip::<SdpStat>(fill);
        }
    }

    #[test]
    fn an_error_names_the_field_from_the_outside_in() {
        let mut bytes = [0; SdpOp::SIZE];
        bytes[sdp_op::x2_op + sdp_sub_unit::enable] = 1;
        bytes[sdp_op::x2_op + sdp_sub_unit::alu_type] = 9;
        let error = SdpOp::parse(&bytes).unwrap_err();
        assert_eq!(error, Error::Unknown { field: Path::new("alu_type").within("x2_op"), value: 9 });
        let mut text = Text::default();
        fmt::Write::write_fmt(&mut text, format_args!("{error}")).unwrap();
        assert_eq!(text.as_str(), "x2_op.alu_type is 9, which the interface does not name");
    }

    /// A small buffer to format into, since the crate has no allocator.
    #[derive(Default)]
    struct Text {
        bytes: [[u8; 32]; 2],
        length: usize,
    }

    impl Text {
        fn as_str(&self) -> &str {
            core::str::from_utf8(&self.bytes.as_flattened()[..self.length]).unwrap()
        }
    }

    impl fmt::Write for Text {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let place = self.bytes.as_flattened_mut().get_mut(self.length..).ok_or(fmt::Error)?;
            place.get_mut(..text.len()).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
            self.length += text.len();
            Ok(())
        }
    }
}
