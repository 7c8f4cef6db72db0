// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Registers, their fields, and the macros that declare both.

use core::marker::PhantomData;

/// A register: where it lies in its block and which of its bits can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Byte offset from the block's base.
    pub offset: u16,
    /// Value after reset.
    pub reset: u32,
    /// Bits that a write changes (later family).
    pub writable: u32,
    /// Bits that a write changes on nv_full.
    pub writable_nv_full: u32,
}

/// A value that a register field can hold.
pub trait FieldValue: Sized {
    /// The value that `bits` (already shifted down and masked) encode, if the specification names it.
    fn from_bits(bits: u32) -> Option<Self>;
    /// The encoding, not yet shifted.
    fn to_bits(self) -> u32;
}

impl FieldValue for u32 {
    fn from_bits(bits: u32) -> Option<Self> {
        Some(bits)
    }
    fn to_bits(self) -> u32 {
        self
    }
}

impl FieldValue for bool {
    fn from_bits(bits: u32) -> Option<Self> {
        Some(bits != 0)
    }
    fn to_bits(self) -> u32 {
        u32::from(self)
    }
}

/// A register as a type, which ties fields and values to their register. Each register of a block has a constant and a
/// type of the same name. The type has the fields: `cdma::D_ZERO_PADDING::PAD_LEFT`.
pub trait Tied {
    /// The register.
    const REGISTER: Register;
}

/// A field of the register `R`, holding a `T`.
#[derive(Debug)]
pub struct Field<T, R> {
    lsb: u8,
    width: u8,
    of: PhantomData<(T, R)>,
}

impl<T, R> Clone for Field<T, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, R> Copy for Field<T, R> {}

impl<T, R> Field<T, R> {
    /// The field of `width` bits whose lowest is `lsb`.
    pub const fn new(lsb: u8, width: u8) -> Self {
        Self { lsb, width, of: PhantomData }
    }

    /// Position of the lowest bit.
    pub const fn lsb(self) -> u32 {
        self.lsb as u32
    }

    /// Number of bits.
    pub const fn width(self) -> u32 {
        self.width as u32
    }

    /// The field's largest value, not shifted.
    pub const fn max(self) -> u32 {
        u32::MAX >> (32 - self.width as u32)
    }

    /// The field's bits within the register.
    pub const fn mask(self) -> u32 {
        self.max() << self.lsb
    }
}

impl<T: FieldValue, R> Field<T, R> {
    /// The register bits that set the field to `value`. Bits that do not fit are cut off.
    pub fn put(self, value: T) -> u32 {
        (value.to_bits() & self.max()) << self.lsb
    }
}

/// A value of the register `R`, which only that register's fields can be read from and written to.
#[derive(Debug)]
pub struct Word<R> {
    bits: u32,
    of: PhantomData<R>,
}

impl<R> Clone for Word<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Word<R> {}

impl<R: Tied> Word<R> {
    /// The value with these bits.
    pub const fn new(bits: u32) -> Self {
        Self { bits, of: PhantomData }
    }

    /// All bits.
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// A field's bits, shifted down.
    pub const fn raw<T>(self, field: Field<T, R>) -> u32 {
        (self.bits >> field.lsb) & field.max()
    }

    /// A field's value; `None` when the specification does not name the encoding.
    pub fn get<T: FieldValue>(self, field: Field<T, R>) -> Option<T> {
        T::from_bits(self.raw(field))
    }

    /// The value of a field that holds a number.
    pub const fn value(self, field: Field<u32, R>) -> u32 {
        self.raw(field)
    }

    /// Whether a field's bit is set.
    pub const fn is_set(self, field: Field<bool, R>) -> bool {
        self.raw(field) != 0
    }

    /// The value with the field set to `value`. Bits of `value` that do not fit are cut off.
    #[must_use]
    pub fn with<T: FieldValue>(self, field: Field<T, R>, value: T) -> Self {
        Self::new(self.bits & !field.mask() | field.put(value))
    }
}

/// The bits of both.
impl<R: Tied> core::ops::BitOr for Word<R> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self::new(self.bits | other.bits)
    }
}

/// A register with its name and fields, for tools and logs.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// The register's name in the specification.
    pub name: &'static str,
    /// The register.
    pub register: Register,
    /// Name, lowest bit and width of each field.
    pub fields: &'static [(&'static str, u8, u8)],
}

/// Declares a block's registers. Each register has a constant and a type of its name; the type has the fields. `ALL` is
/// the table of all registers.
macro_rules! registers {
    ($(
        $name:ident @ $offset:literal, reset $reset:literal, writable $writable:literal / $full:literal {
            $($field:ident: $kind:ty = $lsb:literal, $width:literal;)*
        }
    )*) => {
        use super::register::{Described, Field, Register, Tied};

        $(
            #[doc = concat!("`", stringify!($name), "`, at offset ", $offset, ".")]
            pub const $name: Register = Register {
                offset: $offset,
                reset: $reset,
                writable: $writable,
                writable_nv_full: $full,
            };

            #[doc = concat!("`", stringify!($name), "` as a type, with its fields.")]
            #[allow(non_camel_case_types)]
            #[derive(Debug)]
            pub enum $name {}

            impl Tied for $name {
                const REGISTER: Register = $name;
            }

            impl $name {
                $(
                    #[doc = concat!("`", stringify!($field), "`: lowest bit ", $lsb, ", ", $width, " bits.")]
                    pub const $field: Field<$kind, Self> = Field::new($lsb, $width);
                )*
            }
        )*

        /// Every register of the block, in address order.
        pub static REGISTERS: &[Register] = &[$($name),*];

        /// The same with names and fields.
        pub static ALL: &[Described] = &[$(
            Described {
                name: stringify!($name),
                register: $name,
                fields: &[$((stringify!($field), $lsb, $width)),*],
            },
        )*];
    };
}
pub(super) use registers;

/// Declares enumerations that fields hold.
macro_rules! encodings {
    ($($(#[$attribute:meta])* $name:ident { $($variant:ident = $value:literal),* $(,)? })*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = concat!("Encoding ", $value, ".")] $variant = $value,)*
        }

        impl $name {
            /// Every value, in the order of the encodings.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
        }

        impl FieldValue for $name {
            fn from_bits(bits: u32) -> Option<Self> {
                match bits {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn to_bits(self) -> u32 {
                self as u32
            }
        }
    )*};
}
pub(in super::super) use encodings;
