// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The ioctls of the NVDLA driver, byte for byte as existing user space calls them.
//!
//! Source: `kmd/port/linux/include/nvdla_ioctl.h` and `nvdla_gem.c` of nvdla/sw. The numbers are those of the generic
//! ioctl encoding (direction, size, type, number), which x86, Arm and RISC-V share.
//!
//! Every structure is plain little-endian data (NVDLA hosts are little-endian) with `from_bytes` and `to_bytes`: a
//! driver copies the bytes in and parses them, and never looks at user memory through a reference.

/// DRM's ioctl type.
const DRM_TYPE: u32 = b'd' as u32;
/// First ioctl number that DRM leaves to drivers.
const DRM_COMMAND_BASE: u32 = 0x40;

/// The number of an ioctl that reads and writes `size` bytes: the generic encoding of `DRM_IOWR`.
const fn drm_iowr(command: u32, size: usize) -> u32 {
    const READ_WRITE: u32 = 3;
    (READ_WRITE << 30) | ((size as u32) << 16) | (DRM_TYPE << 8) | (DRM_COMMAND_BASE + command)
}

/// The name that the driver gives DRM, by which user space recognises it.
pub const DRIVER_NAME: &str = "nvdla";

/// The most addresses that a task may have.
pub const MAX_BUFFERS_PER_TASK: u32 = 6144;
/// The most tasks that one submission may have.
pub const MAX_TASKS_PER_SUBMIT: u16 = 24;
/// [`SubmitTask::timeout`]: wait without end.
pub const NO_TIMEOUT: u32 = 0xffff_ffff;
/// [`SubmitArgs::flags`]: all tasks or none.
pub const SUBMIT_FLAGS_ATOMIC: u16 = 1;
/// [`SubmitArgs::version`] of NVIDIA's own programs is 0: they leave [`SubmitTask::timeout`] undefined, and the driver does
/// not look at it. From this version on it says how long the task may run.
pub const SUBMIT_VERSION_TIMEOUT: u32 = 1;

/// A field's type: how it is written and read.
trait Field: Copy {
    fn put(self, into: &mut [u8]);
    fn take(from: &[u8]) -> Self;
}

macro_rules! fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn put(self, into: &mut [u8]) {
                for (to, byte) in into.iter_mut().zip(self.to_le_bytes()) {
                    *to = byte;
                }
            }
            fn take(from: &[u8]) -> Self {
                let mut bytes = [0; size_of::<$type>()];
                for (to, byte) in bytes.iter_mut().zip(from) {
                    *to = *byte;
                }
                Self::from_le_bytes(bytes)
            }
        }
    )*};
}
fields!(u16, u32, u64);

use core::mem::{offset_of, size_of};

macro_rules! ioctl_struct {
    ($(#[$doc:meta])* $name:ident, $size:literal {
        $($(#[$field_doc:meta])* $field:ident: $type:ty = $offset:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        // The layout is an agreement with compiled programs.
        const _: () = assert!(size_of::<$name>() == $size);
        $(const _: () = assert!(offset_of!($name, $field) == $offset);)*

        impl $name {
            /// Bytes of the structure.
            pub const SIZE: usize = $size;

            /// The structure in these bytes.
            pub fn from_bytes(bytes: &[u8; $size]) -> Self {
                Self { $($field: Field::take(&bytes[$offset..]),)* }
            }

            /// The structure's bytes.
            pub fn to_bytes(self) -> [u8; $size] {
                let mut bytes = [0; $size];
                $(Field::put(self.$field, &mut bytes[$offset..]);)*
                bytes
            }
        }
    };
}

ioctl_struct! {
    /// An address of a task: a place in a buffer.
    MemHandle, 16 {
        /// File descriptor of the buffer's dma-buf.
        handle: u32 = 0,
        /// Padding.
        reserved: u32 = 4,
        /// Bytes from the buffer's start.
        offset: u64 = 8,
    }
}

ioctl_struct! {
    /// A task. Its first address is the network descriptor, in which all others are named by position.
    SubmitTask, 16 {
        /// Entries of the address list.
        num_addresses: u32 = 0,
        /// Milliseconds, or [`NO_TIMEOUT`]; only with [`SUBMIT_VERSION_TIMEOUT`].
        timeout: u32 = 4,
        /// User pointer to an array of [`MemHandle`].
        address_list: u64 = 8,
    }
}

ioctl_struct! {
    /// Argument of [`SUBMIT`].
    SubmitArgs, 16 {
        /// User pointer to an array of [`SubmitTask`].
        tasks: u64 = 0,
        /// Entries of it.
        num_tasks: u16 = 8,
        /// [`SUBMIT_FLAGS_ATOMIC`] or 0.
        flags: u16 = 10,
        /// 0 or [`SUBMIT_VERSION_TIMEOUT`].
        version: u32 = 12,
    }
}

ioctl_struct! {
    /// Argument of [`GEM_CREATE`].
    GemCreateArgs, 16 {
        /// The buffer's handle (out).
        handle: u32 = 0,
        /// 0.
        flags: u32 = 4,
        /// Bytes.
        size: u64 = 8,
    }
}

ioctl_struct! {
    /// Argument of [`GEM_MMAP`].
    GemMapOffsetArgs, 16 {
        /// The buffer's handle.
        handle: u32 = 0,
        /// Padding.
        reserved: u32 = 4,
        /// The offset to give mmap (out).
        offset: u64 = 8,
    }
}

ioctl_struct! {
    /// Argument of [`GEM_DESTROY`].
    GemDestroyArgs, 4 {
        /// The buffer's handle.
        handle: u32 = 0,
    }
}

/// Runs tasks and returns when they have ended.
pub const SUBMIT: u32 = drm_iowr(0, SubmitArgs::SIZE);
/// Creates a buffer.
pub const GEM_CREATE: u32 = drm_iowr(1, GemCreateArgs::SIZE);
/// Asks for the offset at which a buffer can be mapped with mmap.
pub const GEM_MMAP: u32 = drm_iowr(2, GemMapOffsetArgs::SIZE);
/// Closes a buffer's handle.
pub const GEM_DESTROY: u32 = drm_iowr(3, GemDestroyArgs::SIZE);

// What compiled programs call.
const _: () = assert!(SUBMIT == 0xc010_6440);
const _: () = assert!(GEM_CREATE == 0xc010_6441);
const _: () = assert!(GEM_MMAP == 0xc010_6442);
const _: () = assert!(GEM_DESTROY == 0xc004_6443);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        let args = SubmitArgs { tasks: 0x1122_3344_5566_7788, num_tasks: 0x99aa, flags: 1, version: 0xbbcc_ddee };
        let bytes = args.to_bytes();
        assert_eq!(bytes, [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xaa, 0x99, 1, 0, 0xee, 0xdd, 0xcc, 0xbb]);
        assert_eq!(SubmitArgs::from_bytes(&bytes), args);
        let handle = MemHandle { handle: 7, reserved: 0, offset: 1 << 40 };
        assert_eq!(MemHandle::from_bytes(&handle.to_bytes()), handle);
    }
}
