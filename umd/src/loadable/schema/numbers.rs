// SPDX-License-Identifier: MIT OR Apache-2.0

//! Values that a loadable holds as numbers: enumerations and flags.

use std::fmt;

/// A value that the file holds as a number.
pub trait Numbered: Into<Self::Number> + From<Self::Number> {
    /// The number's type in the file.
    type Number: Default + PartialEq + Copy;
}

/// An enumeration of the schema. A number without a name is kept; code that needs the value refuses it.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident: $number:ident { $($(#[$value_doc:meta])* $value:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $value,)*
            /// A number that the schema does not name.
            Other($number),
        }

        impl From<$number> for $name {
            fn from(number: $number) -> Self {
                match number {
                    $($code => Self::$value,)*
                    other => Self::Other(other),
                }
            }
        }

        impl From<$name> for $number {
            fn from(value: $name) -> Self {
                match value {
                    $($name::$value => $code,)*
                    $name::Other(other) => other,
                }
            }
        }

        impl Numbered for $name {
            type Number = $number;
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from(0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$value => f.write_str(stringify!($value)),)*
                    Self::Other(number) => write!(f, "unknown value {number}"),
                }
            }
        }
    };
}

numbered! {
    /// The executor of a task, or of the descriptors in a blob.
    Interface: u32 {
        /// Plain data.
        None = 0,
        /// NVDLA itself.
        Dla1 = 1,
        /// The emulator on the CPU.
        Emu1 = 2,
    }
}

numbered! {
    /// The kind of a memory.
    MemoryDomain: u8 {
        /// System memory, "DRAM".
        System = 0,
        /// The device's own SRAM.
        Sram = 1,
    }
}

numbered! {
    /// What an event does.
    EventOp: u8 {
        /// The task waits until the number has reached the value.
        Wait = 0,
        /// The task sets the number to the value.
        Signal = 1,
    }
}

numbered! {
    /// The order of a tensor's dimensions.
    DataFormat: u8 {
        /// Not stated.
        Unknown = 0,
        /// Batch, channel, height, width.
        Nchw = 1,
        /// Batch, height, width, channel.
        Nhwc = 2,
        /// NVDLA's feature format: surfaces of as many channels as a memory atom holds.
        Ncxhwx = 3,
    }
}

numbered! {
    /// The type of a tensor's elements.
    DataType: u8 {
        /// Not stated.
        Unknown = 0,
        /// 32-bit float.
        Float = 1,
        /// 16-bit float.
        Half = 2,
        /// 16-bit integer.
        Int16 = 3,
        /// 8-bit integer.
        Int8 = 4,
    }
}

numbered! {
    /// The use of a tensor by the hardware.
    DataCategory: u8 {
        /// An image.
        Image = 0,
        /// Weights.
        Weight = 1,
        /// A feature cube.
        Feature = 2,
        /// An image in planes.
        Planar = 3,
        /// Bias data.
        Bias = 4,
    }
}

numbered! {
    /// The order of the pixels of an image.
    PixelMapping: u8 {
        /// Lines at a fixed distance.
        PitchLinear = 0,
        /// None.
        Invalid = 1,
    }
}

numbered! {
    /// The element format of a tensor. Channels are named from the highest bits of a pixel to the lowest.
    #[allow(non_camel_case_types, missing_docs)]
    PixelFormat: u8 {
        R8 = 0,
        R10 = 1,
        R12 = 2,
        R16 = 3,
        R16_I = 4,
        R16_F = 5,
        A16B16G16R16 = 6,
        X16B16G16R16 = 7,
        A16B16G16R16_F = 8,
        A16Y16U16V16 = 9,
        V16U16Y16A16 = 10,
        A16Y16U16V16_F = 11,
        A8B8G8R8 = 12,
        A8R8G8B8 = 13,
        B8G8R8A8 = 14,
        R8G8B8A8 = 15,
        X8B8G8R8 = 16,
        X8R8G8B8 = 17,
        B8G8R8X8 = 18,
        R8G8B8X8 = 19,
        A2B10G10R10 = 20,
        A2R10G10B10 = 21,
        B10G10R10A2 = 22,
        R10G10B10A2 = 23,
        A2Y10U10V10 = 24,
        V10U10Y10A2 = 25,
        A8Y8U8V8 = 26,
        V8U8Y8A8 = 27,
        Y8_U8V8_N444 = 28,
        Y8_V8U8_N444 = 29,
        Y10_U10V10_N444 = 30,
        Y10_V10U10_N444 = 31,
        Y12_U12V12_N444 = 32,
        Y12_V12U12_N444 = 33,
        Y16_U16V16_N444 = 34,
        Y16_V16U16_N444 = 35,
        FEATURE = 36,
        /// A feature cube with atoms of 8 bytes.
        FEATURE_X8 = 37,
    }
}

/// How a memory is used: bits of a memory's field `flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemoryFlags(pub u16);

impl MemoryFlags {
    /// Allocate it.
    pub const ALLOC: Self = Self(1);
    /// Fill it from the blobs that `contents` names.
    pub const SET: Self = Self(2);
    /// It is an input that an application binds.
    pub const INPUT: Self = Self(4);
    /// It is an output that an application binds.
    pub const OUTPUT: Self = Self(8);
    /// Every bit that has a meaning.
    pub const ALL: Self = Self(15);

    /// Whether every bit of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for MemoryFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl From<u16> for MemoryFlags {
    fn from(bits: u16) -> Self {
        Self(bits)
    }
}

impl From<MemoryFlags> for u16 {
    fn from(flags: MemoryFlags) -> Self {
        flags.0
    }
}

impl Numbered for MemoryFlags {
    type Number = u16;
}
