// SPDX-License-Identifier: MIT OR Apache-2.0

//! Video for Linux: what the example needs of it.
//!
//! Source: the kernel's `include/uapi/linux/videodev2.h`, for 64-bit processors.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;

use memmap2::{MmapMut, MmapOptions};

/// Blue, green, red and a byte without meaning, in this order in memory.
const PIXEL_FORMAT: u32 = u32::from_le_bytes(*b"XR24");
/// Whole pictures, line by line.
const PROGRESSIVE: u32 = 1;
/// The driver allocates the buffers.
const MMAP: u32 = 1;

/// The direction of a queue of buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Capture = 1,
    Output = 2,
}

/// `struct v4l2_format` with a `struct v4l2_pix_format`.
#[repr(C)]
struct Format {
    kind: u32,
    _align: u32,
    width: u32,
    height: u32,
    fourcc: u32,
    field: u32,
    bytes_per_line: u32,
    size: u32,
    rest: [u32; 44],
}

/// `struct v4l2_requestbuffers`.
#[repr(C)]
struct Request {
    count: u32,
    kind: u32,
    memory: u32,
    rest: [u32; 2],
}

/// `struct v4l2_buffer`.
#[repr(C)]
#[derive(Default)]
struct Buffer {
    index: u32,
    kind: u32,
    bytes_used: u32,
    flags: u32,
    field: u32,
    time: [i64; 2],
    timecode: [u32; 4],
    sequence: u32,
    memory: u32,
    offset: u64,
    length: u32,
    rest: [u32; 2],
}

/// `struct v4l2_exportbuffer`.
#[repr(C)]
#[derive(Default)]
struct Export {
    kind: u32,
    index: u32,
    plane: u32,
    flags: u32,
    fd: i32,
    rest: [u32; 11],
}

/// `struct v4l2_control`.
#[repr(C)]
struct Control {
    id: u32,
    value: i32,
}

nix::ioctl_readwrite!(set_format, b'V', 5, Format);
nix::ioctl_readwrite!(request_buffers, b'V', 8, Request);
nix::ioctl_readwrite!(query_buffer, b'V', 9, Buffer);
nix::ioctl_readwrite!(queue_buffer, b'V', 15, Buffer);
nix::ioctl_readwrite!(export_buffer, b'V', 16, Export);
nix::ioctl_readwrite!(dequeue_buffer, b'V', 17, Buffer);
nix::ioctl_write_ptr!(stream_on, b'V', 18, i32);
nix::ioctl_readwrite!(set_control, b'V', 28, Control);

/// A device node with a queue of buffers.
pub(crate) struct Video {
    file: File,
    kind: Kind,
}

impl Video {
    /// Opens a node, and gives its pictures the network's size and layout.
    pub(crate) fn open(path: &Path, kind: Kind, width: u32, height: u32, line: u32) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let size = line * height;
        let mut format = Format {
            kind: kind as u32,
            _align: 0,
            width,
            height,
            fourcc: PIXEL_FORMAT,
            field: PROGRESSIVE,
            bytes_per_line: line,
            size,
            rest: [0; 44],
        };
        // SAFETY: the descriptor is open, and the argument is the structure that the ioctl names.
        unsafe { set_format(file.as_raw_fd(), &raw mut format) }?;
        let given = (format.width, format.height, format.bytes_per_line, format.fourcc);
        if given != (width, height, line, PIXEL_FORMAT) {
            let name = String::from_utf8_lossy(&format.fourcc.to_le_bytes()).into_owned();
            return Err(io::Error::other(format!(
                "{} gives {} x {} pixels of {name} in lines of {} bytes; the network takes {width} x {height} of XR24 in lines of {line}",
                path.display(),
                format.width,
                format.height,
                format.bytes_per_line,
            )));
        }
        Ok(Self { file, kind })
    }

    /// Has the driver allocate buffers, and returns how many there are.
    pub(crate) fn allocate(&self, count: u32) -> io::Result<u32> {
        let mut request = Request { count, kind: self.kind as u32, memory: MMAP, rest: [0; 2] };
        // SAFETY: the descriptor is open, and the argument is the structure that the ioctl names.
        unsafe { request_buffers(self.file.as_raw_fd(), &raw mut request) }?;
        Ok(request.count)
    }

    /// A buffer as a dma-buf, which other drivers take.
    pub(crate) fn export(&self, index: u32) -> io::Result<OwnedFd> {
        const CLOEXEC_AND_RDWR: u32 = (libc::O_CLOEXEC | libc::O_RDWR) as u32;
        let mut export = Export { kind: self.kind as u32, index, flags: CLOEXEC_AND_RDWR, ..Export::default() };
        // SAFETY: the descriptor is open, and the argument is the structure that the ioctl names.
        unsafe { export_buffer(self.file.as_raw_fd(), &raw mut export) }?;
        // SAFETY: the driver has made this descriptor for the caller.
        Ok(unsafe { OwnedFd::from_raw_fd(export.fd) })
    }

    /// A buffer's bytes, for programs that look at a picture or write one.
    pub(crate) fn map(&self, index: u32) -> io::Result<MmapMut> {
        let mut buffer = self.buffer(index);
        // SAFETY: the descriptor is open, and the argument is the structure that the ioctl names.
        unsafe { query_buffer(self.file.as_raw_fd(), &raw mut buffer) }?;
        let mut options = MmapOptions::new();
        let offset = buffer.offset & u64::from(u32::MAX);
        // SAFETY: the memory is the driver's, and holds plain bytes; it does not become shorter.
        unsafe { options.offset(offset).len(buffer.length as usize).map_mut(&self.file) }
    }

    /// Gives a buffer to the driver.
    pub(crate) fn queue(&self, index: u32, bytes: u32) -> io::Result<()> {
        let mut buffer = Buffer { bytes_used: bytes, field: PROGRESSIVE, ..self.buffer(index) };
        // SAFETY: the descriptor is open, and the argument is the structure that the ioctl names.
        unsafe { queue_buffer(self.file.as_raw_fd(), &raw mut buffer) }?;
        Ok(())
    }

    /// Waits for a buffer that the driver has filled.
    pub(crate) fn dequeue(&self) -> io::Result<u32> {
        let mut buffer = self.buffer(0);
        // SAFETY: the descriptor is open, and the argument is the structure that the ioctl names.
        unsafe { dequeue_buffer(self.file.as_raw_fd(), &raw mut buffer) }?;
        Ok(buffer.index)
    }

    /// Starts the stream.
    pub(crate) fn start(&self) -> io::Result<()> {
        let kind = self.kind as i32;
        // SAFETY: the descriptor is open, and the argument is the number that the ioctl names.
        unsafe { stream_on(self.file.as_raw_fd(), &raw const kind) }?;
        Ok(())
    }

    /// Sets a control of the device.
    pub(crate) fn control(&self, id: u32, value: i32) -> io::Result<()> {
        let mut control = Control { id, value };
        // SAFETY: the descriptor is open, and the argument is the structure that the ioctl names.
        unsafe { set_control(self.file.as_raw_fd(), &raw mut control) }?;
        Ok(())
    }

    fn buffer(&self, index: u32) -> Buffer {
        Buffer { index, kind: self.kind as u32, memory: MMAP, ..Buffer::default() }
    }
}
