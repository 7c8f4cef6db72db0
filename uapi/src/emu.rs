// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Descriptors of emulated tasks: the operations that a network needs and the hardware lacks (power and softmax), which
//! the runtime computes between the hardware's tasks.
//!
//! A task's address list names, in this order of use: a network descriptor (entry 0), which holds the positions of the
//! operation list and of the buffer list, and the number of operations; the operation list, one [`Operation`] per entry;
//! the buffer list, a source and a destination [`Buffer`] per entry. All fields are little-endian.
//!
//! Two forms exist, and both have version 0.0.1. The current form has scale factors in an operation and an offset in a
//! buffer's address. The older form, of DLA interfaces 0.10 and 0.11, has neither, begins its floats at byte 1, and
//! uses 2 for half precision. The length of the operation list distinguishes them: 24 bytes per operation, or 16.
//! [`Form::of`] finds the form, `parse` takes it, and `to_bytes` always writes the current one.
//!
//! Source: nvdla/sw, `umd/core/src/common/include/priv/emu/emu1/A/emu_interface.h` and `priv/EMUInterface.h` (formats);
//! for the older form, the loadables of its regression set made before April 2019.
//!
//! Floats stay bit patterns ([`Single`]) here, because the kernel has no floating point.

use core::fmt;
use core::mem::{offset_of, size_of};

/// Bytes that a network descriptor occupies.
pub const NETWORK_SIZE: usize = 256;
/// Bytes of an entry of the operation list.
pub const OPERATION_SIZE: usize = 24;
/// Bytes of an entry of the operation list in the older form.
pub const OPERATION_SIZE_WITHOUT_SCALES: usize = 16;
/// Bytes that a buffer descriptor occupies.
pub const BUFFER_SIZE: usize = 256;
/// Bytes of an entry of the buffer list: source, then destination.
pub const BUFFERS_SIZE: usize = 2 * BUFFER_SIZE;

/// The descriptors as they lie in memory. They give the offsets; nothing is ever cast to them.
#[allow(missing_docs)]
pub mod raw {
    /// Network descriptor.
    #[repr(C, packed)]
    pub struct Network {
        pub operation_desc_index: i16,
        pub operation_buffer_desc_index: i16,
        pub num_operations: u16,
    }

    /// Operation; what follows the scales depends on the type.
    #[repr(C, packed)]
    pub struct Operation {
        pub op_type: u8,
        pub pad: [u8; 3],
        pub input_scale_factor: u32,
        pub output_scale_factor: u32,
        pub parameters: [u8; 12],
    }

    /// Operation of the older form.
    #[repr(C, packed)]
    pub struct OperationWithoutScales {
        pub op_type: u8,
        pub parameters: [u8; 12],
        pub pad: [u8; 3],
    }

    /// Power's parameters.
    #[repr(C, packed)]
    pub struct Power {
        pub power: u32,
        pub scale: u32,
        pub shift: u32,
    }

    /// Buffer.
    #[repr(C, packed)]
    pub struct Buffer {
        pub address_index: i16,
        pub address_index_offset: u32,
        pub size: u32,
        pub format: u16,
        pub width: u16,
        pub height: u16,
        pub channel: u16,
        pub line_stride: u32,
        pub surf_stride: u32,
    }

    /// Buffer of the older form.
    #[repr(C, packed)]
    pub struct BufferWithoutOffset {
        pub address_index: i16,
        pub size: u32,
        pub format: u16,
        pub width: u16,
        pub height: u16,
        pub channel: u16,
        pub line_stride: u32,
        pub surf_stride: u32,
    }
}

const _: () = {
    assert!(size_of::<raw::Network>() == 6);
    assert!(size_of::<raw::Operation>() == OPERATION_SIZE);
    assert!(size_of::<raw::OperationWithoutScales>() == OPERATION_SIZE_WITHOUT_SCALES);
    assert!(size_of::<raw::Power>() == 12);
    assert!(offset_of!(raw::Operation, parameters) == 12);
    assert!(size_of::<raw::Buffer>() == 26);
    assert!(offset_of!(raw::Buffer, format) == 10);
    // The offsets that the relocations of existing loadables name.
    assert!(offset_of!(raw::Buffer, line_stride) == 18);
    assert!(offset_of!(raw::Buffer, surf_stride) == 22);
    assert!(offset_of!(raw::BufferWithoutOffset, line_stride) == 14);
    assert!(offset_of!(raw::BufferWithoutOffset, surf_stride) == 18);
};

/// What is wrong with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Fewer bytes than the descriptor needs.
    Short {
        /// The descriptor.
        what: &'static str,
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that there are.
        got: usize,
    },
    /// A position in the address list below zero.
    Index {
        /// The field that holds it.
        field: &'static str,
        /// Its value.
        value: i16,
    },
    /// An operation type that does not exist.
    Type(u8),
    /// A surface format that does not exist in this form.
    Format(u16),
    /// The operation list's length fits neither form.
    OperationList {
        /// Bytes of the list.
        bytes: usize,
        /// Operations that the network descriptor promises.
        operations: u16,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Short { what, needed, got } => write!(f, "{what} needs {needed} bytes and has {got}"),
            Self::Index { field, value } => write!(f, "{field} is {value}, not a position in the address list"),
            Self::Type(value) => write!(f, "operation type {value} is neither power (0) nor softmax (1)"),
            Self::Format(value) => write!(f, "surface format {value} does not exist"),
            Self::OperationList { bytes, operations } => {
                write!(f, "an operation list of {bytes} bytes cannot hold {operations} operations")
            }
        }
    }
}

impl core::error::Error for Error {}

/// The form that a task's descriptors have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Before April 2019: no scale factors, no address offset, half precision is format 2.
    WithoutScales,
    /// The current one.
    WithScales,
}

impl Form {
    /// The form of a task whose operation list has `bytes` bytes for `operations` operations.
    pub const fn of(bytes: usize, operations: u16) -> Result<Self, Error> {
        if bytes >= operations as usize * OPERATION_SIZE {
            Ok(Self::WithScales)
        } else if bytes >= operations as usize * OPERATION_SIZE_WITHOUT_SCALES {
            Ok(Self::WithoutScales)
        } else {
            Err(Error::OperationList { bytes, operations })
        }
    }

    /// Bytes of an entry of the operation list.
    pub const fn operation_size(self) -> usize {
        match self {
            Self::WithoutScales => OPERATION_SIZE_WITHOUT_SCALES,
            Self::WithScales => OPERATION_SIZE,
        }
    }
}

/// The bits of an IEEE 754 single-precision number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Single(pub u32);

impl Single {
    /// 1.0.
    pub const ONE: Self = Self(0x3f80_0000);
}

/// How a buffer's elements lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Format {
    /// int8, atoms of 32 bytes.
    Int8 = 0,
    /// int8, atoms of 8 bytes.
    Int8x8 = 1,
    /// int16.
    Int16 = 2,
    /// Half precision, atoms of 32 bytes.
    Fp16 = 3,
    /// Unsigned 8 bits.
    Uint8 = 4,
    /// Unsigned 16 bits.
    Uint16 = 5,
}

impl Format {
    fn from_bits(bits: u16, form: Form) -> Result<Self, Error> {
        Ok(match (bits, form) {
            (0, _) => Self::Int8,
            (1, Form::WithScales) => Self::Int8x8,
            (1, Form::WithoutScales) | (2, Form::WithScales) => Self::Int16,
            (2, Form::WithoutScales) | (3, Form::WithScales) => Self::Fp16,
            (4, Form::WithScales) => Self::Uint8,
            (5, Form::WithScales) => Self::Uint16,
            _ => return Err(Error::Format(bits)),
        })
    }
}

/// Network descriptor: where the lists are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Position of the operation list in the task's address list.
    pub operations: u16,
    /// Position of the buffer list in the task's address list.
    pub buffers: u16,
    /// Number of operations.
    pub num_operations: u16,
}

impl Network {
    /// Reads a network descriptor.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = Fields::new("the emulator's network descriptor", bytes, size_of::<raw::Network>())?;
        Ok(Self {
            operations: bytes.index(offset_of!(raw::Network, operation_desc_index), "operation_desc_index")?,
            buffers: bytes
                .index(offset_of!(raw::Network, operation_buffer_desc_index), "operation_buffer_desc_index")?,
            num_operations: bytes.u16(offset_of!(raw::Network, num_operations)),
        })
    }

    /// The descriptor as it lies in memory.
    pub fn to_bytes(self) -> [u8; NETWORK_SIZE] {
        let mut bytes = [0; NETWORK_SIZE];
        put(&mut bytes, offset_of!(raw::Network, operation_desc_index), &self.operations.to_le_bytes());
        put(&mut bytes, offset_of!(raw::Network, operation_buffer_desc_index), &self.buffers.to_le_bytes());
        put(&mut bytes, offset_of!(raw::Network, num_operations), &self.num_operations.to_le_bytes());
        bytes
    }
}

/// What an operation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// (shift + scale * x) ^ power, element by element.
    Power {
        /// Exponent.
        power: Single,
        /// Factor.
        scale: Single,
        /// Addend.
        shift: Single,
    },
    /// Softmax over the channels of each pixel.
    Softmax {
        /// The axis that the network named. The reference ignores it: channels are the only one.
        axis: u8,
    },
}

/// An entry of the operation list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it computes.
    pub kind: Kind,
    /// An int8 input times this is the real value.
    pub input_scale: Single,
    /// A real value divided by this is the int8 output.
    pub output_scale: Single,
}

impl Operation {
    /// Reads an entry of the operation list; the older form's scales are 1.
    pub fn parse(bytes: &[u8], form: Form) -> Result<Self, Error> {
        let bytes = Fields::new("an emulated operation", bytes, form.operation_size())?;
        let (parameters, input_scale, output_scale) = match form {
            Form::WithoutScales => (offset_of!(raw::OperationWithoutScales, parameters), Single::ONE, Single::ONE),
            Form::WithScales => (
                offset_of!(raw::Operation, parameters),
                bytes.single(offset_of!(raw::Operation, input_scale_factor)),
                bytes.single(offset_of!(raw::Operation, output_scale_factor)),
            ),
        };
        let kind = match bytes.u8(offset_of!(raw::Operation, op_type)) {
            0 => Kind::Power {
                power: bytes.single(parameters + offset_of!(raw::Power, power)),
                scale: bytes.single(parameters + offset_of!(raw::Power, scale)),
                shift: bytes.single(parameters + offset_of!(raw::Power, shift)),
            },
            1 => Kind::Softmax { axis: bytes.u8(parameters) },
            other => return Err(Error::Type(other)),
        };
        Ok(Self { kind, input_scale, output_scale })
    }

    /// The entry as it lies in memory, in the current form.
    pub fn to_bytes(self) -> [u8; OPERATION_SIZE] {
        let mut bytes = [0; OPERATION_SIZE];
        put(&mut bytes, offset_of!(raw::Operation, input_scale_factor), &self.input_scale.0.to_le_bytes());
        put(&mut bytes, offset_of!(raw::Operation, output_scale_factor), &self.output_scale.0.to_le_bytes());
        let parameters = offset_of!(raw::Operation, parameters);
        match self.kind {
            Kind::Power { power, scale, shift } => {
                put(&mut bytes, parameters + offset_of!(raw::Power, power), &power.0.to_le_bytes());
                put(&mut bytes, parameters + offset_of!(raw::Power, scale), &scale.0.to_le_bytes());
                put(&mut bytes, parameters + offset_of!(raw::Power, shift), &shift.0.to_le_bytes());
            }
            Kind::Softmax { axis } => {
                bytes[0] = 1;
                bytes[parameters] = axis;
            }
        }
        bytes
    }
}

/// A surface that an operation reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Position in the task's address list.
    pub address_index: u16,
    /// Bytes from that address to the surface.
    pub address_offset: u32,
    /// Bytes of the surface.
    pub size: u32,
    /// How its elements lie.
    pub format: Format,
    /// Elements per line.
    pub width: u16,
    /// Lines.
    pub height: u16,
    /// Channels.
    pub channels: u16,
    /// Bytes from a line to the next.
    pub line_stride: u32,
    /// Bytes from a surface (one atom of channels) to the next.
    pub surface_stride: u32,
}

impl Buffer {
    /// Reads a buffer descriptor; the older form's offset is 0.
    pub fn parse(bytes: &[u8], form: Form) -> Result<Self, Error> {
        let bytes = Fields::new("an emulated operation's buffer", bytes, size_of::<raw::Buffer>())?;
        // What follows the index is the same in both forms, four bytes further in the current one.
        let (address_offset, back) = match form {
            Form::WithoutScales => (0, offset_of!(raw::Buffer, size) - offset_of!(raw::BufferWithoutOffset, size)),
            Form::WithScales => (bytes.u32(offset_of!(raw::Buffer, address_index_offset)), 0),
        };
        Ok(Self {
            address_index: bytes.index(offset_of!(raw::Buffer, address_index), "address_index")?,
            address_offset,
            size: bytes.u32(offset_of!(raw::Buffer, size) - back),
            format: Format::from_bits(bytes.u16(offset_of!(raw::Buffer, format) - back), form)?,
            width: bytes.u16(offset_of!(raw::Buffer, width) - back),
            height: bytes.u16(offset_of!(raw::Buffer, height) - back),
            channels: bytes.u16(offset_of!(raw::Buffer, channel) - back),
            line_stride: bytes.u32(offset_of!(raw::Buffer, line_stride) - back),
            surface_stride: bytes.u32(offset_of!(raw::Buffer, surf_stride) - back),
        })
    }

    /// The descriptor as it lies in memory, in the current form.
    pub fn to_bytes(self) -> [u8; BUFFER_SIZE] {
        let mut bytes = [0; BUFFER_SIZE];
        put(&mut bytes, offset_of!(raw::Buffer, address_index), &self.address_index.to_le_bytes());
        put(&mut bytes, offset_of!(raw::Buffer, address_index_offset), &self.address_offset.to_le_bytes());
        put(&mut bytes, offset_of!(raw::Buffer, size), &self.size.to_le_bytes());
        put(&mut bytes, offset_of!(raw::Buffer, format), &(self.format as u16).to_le_bytes());
        put(&mut bytes, offset_of!(raw::Buffer, width), &self.width.to_le_bytes());
        put(&mut bytes, offset_of!(raw::Buffer, height), &self.height.to_le_bytes());
        put(&mut bytes, offset_of!(raw::Buffer, channel), &self.channels.to_le_bytes());
        put(&mut bytes, offset_of!(raw::Buffer, line_stride), &self.line_stride.to_le_bytes());
        put(&mut bytes, offset_of!(raw::Buffer, surf_stride), &self.surface_stride.to_le_bytes());
        bytes
    }
}

/// At least as many bytes as the descriptor needs, so reads within it cannot fail.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn new(what: &'static str, bytes: &'a [u8], needed: usize) -> Result<Self, Error> {
        bytes.get(..needed).map(Self).ok_or(Error::Short { what, needed, got: bytes.len() })
    }

    fn u8(self, offset: usize) -> u8 {
        self.0[offset]
    }

    fn u16(self, offset: usize) -> u16 {
        u16::from_le_bytes([self.0[offset], self.0[offset + 1]])
    }

    fn u32(self, offset: usize) -> u32 {
        u32::from(self.u16(offset)) | u32::from(self.u16(offset + 2)) << 16
    }

    fn single(self, offset: usize) -> Single {
        Single(self.u32(offset))
    }

    fn index(self, offset: usize, field: &'static str) -> Result<u16, Error> {
        let value = self.u16(offset) as i16;
        u16::try_from(value).map_err(|_| Error::Index { field, value })
    }
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOFTMAX: Operation =
        Operation { kind: Kind::Softmax { axis: 1 }, input_scale: Single::ONE, output_scale: Single(0x3d2a_1d99) };
    const BUFFER: Buffer = Buffer {
        address_index: 2,
        address_offset: 8192,
        size: 32,
        format: Format::Fp16,
        width: 1,
        height: 2,
        channels: 10,
        line_stride: 32,
        surface_stride: 64,
    };

    #[test]
    fn what_is_written_is_read_again() {
        let network = Network { operations: 5, buffers: 6, num_operations: 2 };
        assert_eq!(Network::parse(&network.to_bytes()), Ok(network));
        assert_eq!(Operation::parse(&SOFTMAX.to_bytes(), Form::WithScales), Ok(SOFTMAX));
        let power = Operation {
            kind: Kind::Power { power: Single::ONE, scale: Single(0x4000_0000), shift: Single(0xbf80_0000) },
            ..SOFTMAX
        };
        assert_eq!(Operation::parse(&power.to_bytes(), Form::WithScales), Ok(power));
        assert_eq!(Buffer::parse(&BUFFER.to_bytes(), Form::WithScales), Ok(BUFFER));
    }

    #[test]
    fn the_older_form_is_read() {
        // As the regression set's LeNet has it: type, power 1, scale 1, shift 0, packed.
        let power = [0, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f, 0, 0, 0, 0, 0, 0, 0];
        let form = Form::of(power.len(), 1).unwrap();
        assert_eq!(form, Form::WithoutScales);
        let kind = Kind::Power { power: Single::ONE, scale: Single::ONE, shift: Single(0) };
        assert_eq!(
            Operation::parse(&power, form),
            Ok(Operation { kind, input_scale: Single::ONE, output_scale: Single::ONE })
        );

        let mut old = [0; BUFFER_SIZE];
        let fields = [0x0a, 0, 0x20, 0, 0, 0, 2, 0, 1, 0, 2, 0, 0x0a, 0, 0x20, 0, 0, 0, 0x40];
        old[..fields.len()].copy_from_slice(&fields);
        assert_eq!(Buffer::parse(&old, form), Ok(Buffer { address_index: 10, address_offset: 0, ..BUFFER }));
    }

    #[test]
    fn bad_descriptors_are_refused() {
        assert!(matches!(Network::parse(&[0; 5]), Err(Error::Short { needed: 6, got: 5, .. })));
        let mut network = [0; NETWORK_SIZE];
        network[..2].copy_from_slice(&(-1i16).to_le_bytes());
        assert!(matches!(Network::parse(&network), Err(Error::Index { field: "operation_desc_index", value: -1 })));
        assert_eq!(Operation::parse(&[7; 24], Form::WithScales), Err(Error::Type(7)));
        let mut buffer = BUFFER.to_bytes();
        buffer[offset_of!(raw::Buffer, format)] = 9;
        assert_eq!(Buffer::parse(&buffer, Form::WithScales), Err(Error::Format(9)));
        assert_eq!(Form::of(31, 2), Err(Error::OperationList { bytes: 31, operations: 2 }));
    }

    #[test]
    fn no_length_of_input_panics() {
        let bytes = [0x55; 300];
        for length in 0..bytes.len() {
            for form in [Form::WithScales, Form::WithoutScales] {
                let _ = Network::parse(&bytes[..length]);
                let _ = Operation::parse(&bytes[..length], form);
                let _ = Buffer::parse(&bytes[..length], form);
            }
        }
    }
}
