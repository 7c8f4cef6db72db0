// SPDX-License-Identifier: MIT OR Apache-2.0

//! ioctls with arbitrary numbers, sizes and pointers.
//!
//! Source: the kernel's `include/uapi/drm/drm.h`, `include/uapi/linux/udmabuf.h`, `include/uapi/linux/dma-heap.h`.

use std::os::fd::RawFd;

use nix::errno::Errno;

/// The result of an ioctl.
pub type Result<T = ()> = std::result::Result<T, Errno>;

/// The number of an ioctl that reads and writes `size` bytes.
pub const fn read_write(kind: u8, number: u32, size: usize) -> u64 {
    3 << 30 | (size as u64) << 16 | (kind as u64) << 8 | number as u64
}

/// DRM's own: gives a GEM handle back.
pub const GEM_CLOSE: u64 = 1 << 30 | 8 << 16 | (b'd' as u64) << 8 | 0x09;
/// DRM's own: a dma-buf of a handle.
pub const PRIME_HANDLE_TO_FD: u64 = read_write(b'd', 0x2d, 12);
/// DRM's own: a handle of a dma-buf.
pub const PRIME_FD_TO_HANDLE: u64 = read_write(b'd', 0x2e, 12);

/// `struct drm_prime_handle`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Prime {
    /// The GEM handle.
    pub handle: u32,
    /// `O_CLOEXEC`, `O_RDWR`.
    pub flags: u32,
    /// The dma-buf's descriptor.
    pub fd: i32,
}

/// Calls an ioctl once with `argument`, which may be invalid; the kernel checks the pointer.
///
/// # Safety
///
/// The memory that the ioctl may write through `argument` must belong to the caller, or not be mapped.
pub unsafe fn raw(fd: RawFd, number: u64, argument: u64) -> Result<i32> {
    // SAFETY: by this function's condition.
    Errno::result(unsafe { libc::ioctl(fd, number as _, argument) })
}

/// Calls an ioctl with a structure, once.
///
/// # Panics
///
/// If the number encodes more bytes than the structure has.
pub fn call<T: Copy>(fd: RawFd, number: u64, argument: &mut T) -> Result<i32> {
    // The kernel may write as many bytes as the number encodes.
    assert!((number >> 16 & 0x3fff) as usize <= size_of::<T>(), "the number asks for more than the structure has");
    // SAFETY: the structure is plain data of at least the size in the number.
    unsafe { raw(fd, number, std::ptr::from_mut(argument) as u64) }
}

/// A buffer of a dma-buf heap of that name.
pub fn heap(name: &str, size: u64) -> std::io::Result<std::os::fd::OwnedFd> {
    /// `struct dma_heap_allocation_data`.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Allocation {
        size: u64,
        fd: u32,
        fd_flags: u32,
        heap_flags: u64,
    }
    let heap = std::fs::File::options().read(true).write(true).open(format!("/dev/dma_heap/{name}"))?;
    let mut allocation = Allocation { size, fd: 0, fd_flags: (libc::O_RDWR | libc::O_CLOEXEC) as u32, heap_flags: 0 };
    call(std::os::fd::AsRawFd::as_raw_fd(&heap), read_write(b'H', 0, size_of::<Allocation>()), &mut allocation)?;
    // SAFETY: the ioctl gave a new descriptor.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(allocation.fd as i32) })
}

/// A buffer of pages that need not be contiguous, as another driver's.
pub fn udmabuf(memory: RawFd, size: u64) -> std::io::Result<std::os::fd::OwnedFd> {
    /// `struct udmabuf_create`.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Create {
        memory: u32,
        flags: u32,
        offset: u64,
        size: u64,
    }
    let device = std::fs::File::options().read(true).write(true).open("/dev/udmabuf")?;
    let mut create = Create { memory: memory as u32, flags: 1, offset: 0, size };
    let number = 1 << 30 | (size_of::<Create>() as u64) << 16 | (b'u' as u64) << 8 | 0x42;
    let fd = call(std::os::fd::AsRawFd::as_raw_fd(&device), number, &mut create)?;
    // SAFETY: the ioctl gave a new descriptor.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) })
}

/// `DRM_IOCTL_SYNCOBJ_CREATE`: a synchronisation object without a fence. Returns its handle.
pub fn sync_object(node: RawFd) -> Result<u32> {
    let mut create = [0u32; 2];
    call(node, read_write(b'd', 0xbf, size_of_val(&create)), &mut create)?;
    Ok(create[0])
}

/// `DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE`: gives a synchronisation object the fence of a sync_file, at a point of a timeline, or, if that is
/// 0, as its only fence.
pub fn sync_import(node: RawFd, handle: u32, point: u64, fence: RawFd) -> Result {
    /// `struct drm_syncobj_handle`.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Import {
        handle: u32,
        flags: u32,
        fd: i32,
        pad: u32,
        point: u64,
    }
    /// `DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE` and `…_TIMELINE`.
    const FLAGS: [u32; 2] = [1, 2];
    let flags = FLAGS[0] | if point == 0 { 0 } else { FLAGS[1] };
    let mut import = Import { handle, flags, fd: fence, pad: 0, point };
    call(node, read_write(b'd', 0xc2, size_of::<Import>()), &mut import).map(drop)
}

/// `struct drm_syncobj_timeline_wait`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct SyncWait {
    handles: u64,
    points: u64,
    timeout_ns: i64,
    count: u32,
    flags: u32,
    first_signaled: u32,
    pad: u32,
    deadline_ns: u64,
}

/// `DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT`: waits for a point of a timeline, 0 for an object that is none, until the deadline (`ETIME`).
pub fn sync_wait(node: RawFd, handle: u32, point: u64, deadline_ns: u64) -> Result {
    let (handles, points) = ([handle], [point]);
    let mut wait = SyncWait {
        handles: handles.as_ptr() as u64,
        points: points.as_ptr() as u64,
        timeout_ns: deadline_ns as i64,
        count: 1,
        ..SyncWait::default()
    };
    call(node, read_write(b'd', 0xca, size_of::<SyncWait>()), &mut wait).map(drop)
}

/// `DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL`: signals a point of a timeline.
pub fn sync_signal(node: RawFd, handle: u32, point: u64) -> Result {
    /// `struct drm_syncobj_timeline_array`.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Array {
        handles: u64,
        points: u64,
        count: u32,
        flags: u32,
    }
    let (handles, points) = ([handle], [point]);
    let mut array = Array { handles: handles.as_ptr() as u64, points: points.as_ptr() as u64, count: 1, flags: 0 };
    call(node, read_write(b'd', 0xcd, size_of::<Array>()), &mut array).map(drop)
}

/// Which fences of a dma-buf: those of who writes it, or of all.
const DMA_BUF_SYNC: [u32; 2] = [1, 2];

/// `DMA_BUF_IOCTL_IMPORT_SYNC_FILE`: makes others wait for a sync_file before they use the dma-buf, or, if it only reads, before they
/// write it.
pub fn attach_fence(buffer: RawFd, fence: RawFd, writes: bool) -> Result {
    let mut argument = [DMA_BUF_SYNC[usize::from(writes)], fence as u32];
    call(buffer, 1 << 30 | 8 << 16 | (b'b' as u64) << 8 | 3, &mut argument).map(drop)
}

/// `DMA_BUF_IOCTL_EXPORT_SYNC_FILE`: a sync_file of who writes the dma-buf, or, for somebody who writes it, of all who use it.
pub fn detach_fence(buffer: RawFd, writes: bool) -> Result<std::os::fd::OwnedFd> {
    let mut argument = [DMA_BUF_SYNC[usize::from(writes)], 0];
    call(buffer, read_write(b'b', 2, 8), &mut argument)?;
    // SAFETY: the ioctl gave a new descriptor.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(argument[1] as i32) })
}
