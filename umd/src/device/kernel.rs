// SPDX-License-Identifier: MIT OR Apache-2.0

//! NVDLA behind its kernel driver: a DRM render node, GEM buffers, PRIME descriptors, the four ioctls that every driver of
//! NVDLA has, and the query that newer ones add.
//!
//! Source: [`nvdla_uapi::ioctl`] and [`nvdla_uapi::queue`] for the driver's own ioctls; the kernel's `include/uapi/drm/drm.h` for DRM's.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use memmap2::{MmapMut, MmapOptions};
use nix::errno::Errno;
use nvdla_uapi::config::Config;
use nvdla_uapi::ioctl::{
    GemCreateArgs, GemDestroyArgs, GemMapOffsetArgs, MemHandle, SubmitArgs, SubmitTask, DRIVER_NAME,
    MAX_BUFFERS_PER_TASK, NO_TIMEOUT, SUBMIT_VERSION_TIMEOUT,
};

use nvdla_uapi::queue::Query;

use super::{refusal, AddressEntry, Buffers, Device, DeviceInfo, Error, Handle, Kind, Observer, TaskReport};

/// DRM's own structures and ioctls.
mod drm {
    use std::ffi::c_char;

    /// `struct drm_version`.
    #[repr(C)]
    pub(super) struct Version {
        pub(super) major: i32,
        pub(super) minor: i32,
        pub(super) patch_level: i32,
        pub(super) name_len: usize,
        pub(super) name: *mut c_char,
        pub(super) date_len: usize,
        pub(super) date: *mut c_char,
        pub(super) desc_len: usize,
        pub(super) desc: *mut c_char,
    }

    /// `struct drm_prime_handle`.
    #[repr(C)]
    pub(super) struct PrimeHandle {
        pub(super) handle: u32,
        pub(super) flags: u32,
        pub(super) fd: i32,
    }

    nix::ioctl_readwrite!(version, b'd', 0x00, Version);
    nix::ioctl_readwrite!(prime_handle_to_fd, b'd', 0x2d, PrimeHandle);
}

/// The driver's ioctls.
mod nvdla {
    use nvdla_uapi::ioctl::{self, GemCreateArgs, GemDestroyArgs, GemMapOffsetArgs, SubmitArgs};
    use nvdla_uapi::queue::{Query, QUERY_COMMAND};

    nix::ioctl_readwrite!(submit, b'd', 0x40, SubmitArgs);
    nix::ioctl_readwrite!(gem_create, b'd', 0x41, GemCreateArgs);
    nix::ioctl_readwrite!(gem_mmap, b'd', 0x42, GemMapOffsetArgs);
    nix::ioctl_readwrite!(gem_destroy, b'd', 0x43, GemDestroyArgs);
    nix::ioctl_readwrite!(query, b'd', 0x40 + QUERY_COMMAND, Query);

    // The two ways to a number agree.
    #[allow(clippy::unnecessary_cast)]
    const _: () = {
        const fn number<T>(command: u64) -> u64 {
            nix::request_code_readwrite!(b'd', command, size_of::<T>()) as u64
        }
        assert!(number::<SubmitArgs>(0x40) == ioctl::SUBMIT as u64);
        assert!(number::<GemCreateArgs>(0x41) == ioctl::GEM_CREATE as u64);
        assert!(number::<GemMapOffsetArgs>(0x42) == ioctl::GEM_MMAP as u64);
        assert!(number::<GemDestroyArgs>(0x43) == ioctl::GEM_DESTROY as u64);
    };
}

/// The first render node: DRM numbers them from here.
const FIRST_RENDER_MINOR: u32 = 128;

/// The nodes of all NVDLA devices of this machine, in order of their numbers.
///
/// Nodes of other drivers are passed over, and so is one that this user may not open, with a warning in the log.
pub fn discover() -> Vec<PathBuf> {
    let mut nodes: Vec<(u32, PathBuf)> = fs::read_dir("/dev/dri")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let minor = path.file_name()?.to_str()?.strip_prefix("renderD")?.parse().ok()?;
            (minor >= FIRST_RENDER_MINOR).then_some((minor, path))
        })
        .collect();
    nodes.sort();
    nodes.into_iter().map(|(_, path)| path).filter(|path| is_nvdla(path)).collect()
}

fn is_nvdla(path: &Path) -> bool {
    match KernelDevice::open(path) {
        Ok(_) => true,
        Err(error) => {
            if let Error::Open { source, .. } = &error {
                log::warn!("{error}: {source}");
            }
            false
        }
    }
}

/// A buffer that the driver made, mapped into this process.
struct Buffer {
    /// The GEM handle.
    gem: u32,
    /// The buffer's dma-buf, by which a submission names it.
    dma_buf: OwnedFd,
    /// Bytes that were asked for.
    size: usize,
    /// Whole pages.
    map: MmapMut,
}

/// What a driver's buffers are made of.
const PAGE: usize = 4096;

/// An NVDLA behind its kernel driver.
pub struct KernelDevice {
    file: File,
    path: PathBuf,
    /// What the driver says that the device is; the first driver cannot be asked.
    config: Option<&'static Config>,
    /// How long a task may run at most; the first driver cannot be asked.
    longest: Option<Duration>,
    buffers: Vec<Option<Buffer>>,
}

impl std::fmt::Debug for KernelDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelDevice").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Calls an ioctl until no signal interrupts it.
fn retry(mut call: impl FnMut() -> nix::Result<i32>) -> io::Result<()> {
    loop {
        match call() {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl KernelDevice {
    /// Opens a render node.
    ///
    /// # Errors
    ///
    /// When the node cannot be opened, or belongs to another driver.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path).map_err(failed)?;
        let driver = driver_name(file.as_raw_fd()).map_err(|source| Error::Ioctl {
            ioctl: "DRM_IOCTL_VERSION",
            path: path.to_owned(),
            source,
        })?;
        if driver != DRIVER_NAME {
            return Err(Error::OtherDriver { path: path.to_owned(), driver });
        }
        let query = query(file.as_raw_fd());
        let config = query.as_ref().and_then(configuration);
        let longest = query.map(|query| Duration::from_nanos(query.max_timeout_ns));
        Ok(Self { file, path: path.to_owned(), config, longest, buffers: Vec::new() })
    }

    /// Why the driver has refused the task, where the configuration is known.
    fn refusal(&self, addresses: &[AddressEntry]) -> Option<nvdla_engine::Error> {
        let entry =
            |entry: &AddressEntry| Some((entry.handle.0 as usize, entry.offset, &*self.buffer(entry.handle)?.map));
        refusal::of(self.config?, &addresses.iter().map(entry).collect::<Option<Vec<_>>>()?)
    }

    fn failed(&self, ioctl: &'static str) -> impl FnOnce(io::Error) -> Error + '_ {
        move |source| Error::Ioctl { ioctl, path: self.path.clone(), source }
    }

    fn buffer(&self, handle: Handle) -> Option<&Buffer> {
        self.buffers.get(handle.0 as usize)?.as_ref()
    }

    /// Makes and maps a buffer whose GEM handle exists already.
    fn map(&self, gem: u32, length: usize) -> Result<Buffer, Error> {
        let fd = self.file.as_raw_fd();
        let mut prime = drm::PrimeHandle { handle: gem, flags: libc::O_CLOEXEC as u32, fd: -1 };
        // SAFETY: the descriptor is open and the argument is the structure that the ioctl names.
        retry(|| unsafe { drm::prime_handle_to_fd(fd, &raw mut prime) })
            .map_err(self.failed("DRM_IOCTL_PRIME_HANDLE_TO_FD"))?;
        // SAFETY: the ioctl succeeded, so this is a new descriptor that nobody else owns.
        let dma_buf = unsafe { OwnedFd::from_raw_fd(prime.fd) };

        let mut place = GemMapOffsetArgs { handle: gem, ..Default::default() };
        // SAFETY: as above.
        retry(|| unsafe { nvdla::gem_mmap(fd, &raw mut place) }).map_err(self.failed("DRM_IOCTL_NVDLA_GEM_MMAP"))?;
        let whole = length.next_multiple_of(PAGE);
        // SAFETY: the mapping is of a buffer that only this value's owner names. The device writes to it only while
        // `submit` holds the value exclusively, so no slice of it exists then.
        let map = unsafe { MmapOptions::new().offset(place.offset).len(whole).map_mut(&self.file) }
            .map_err(self.failed("mmap of a buffer"))?;
        Ok(Buffer { gem, dma_buf, size: length, map })
    }

    fn destroy(&self, gem: u32) {
        let mut args = GemDestroyArgs { handle: gem };
        // SAFETY: the descriptor is open and the argument is the structure that the ioctl names.
        if let Err(error) = retry(|| unsafe { nvdla::gem_destroy(self.file.as_raw_fd(), &raw mut args) }) {
            // Closing the node gives the handle back in any case.
            log::warn!("{}: DRM_IOCTL_NVDLA_GEM_DESTROY of handle {gem}: {error}", self.path.display());
        }
    }
}

/// What the driver says of its device and itself; `None` for a driver that does not know the question.
fn query(fd: RawFd) -> Option<Query> {
    let mut query = Query::default();
    // SAFETY: the argument is the structure that the ioctl names. A driver that does not know it says so.
    retry(|| unsafe { nvdla::query(fd, &raw mut query) }).ok()?;
    Some(query)
}

/// The configuration of the device.
fn configuration(query: &Query) -> Option<&'static Config> {
    let length = query.config.iter().position(|&byte| byte == 0)?;
    Config::by_name(std::str::from_utf8(query.config.get(..length)?).ok()?)
}

/// The name that the driver of an open node gives itself.
fn driver_name(fd: RawFd) -> io::Result<String> {
    let mut name = [0u8; 64];
    let null = std::ptr::null_mut();
    let mut version = drm::Version {
        major: 0,
        minor: 0,
        patch_level: 0,
        name_len: name.len(),
        name: name.as_mut_ptr().cast(),
        date_len: 0,
        date: null,
        desc_len: 0,
        desc: null,
    };
    // SAFETY: `name` has `name_len` bytes and outlives the call; the other texts have no room and are not written.
    retry(|| unsafe { drm::version(fd, &raw mut version) })?;
    let length = version.name_len.min(name.len());
    Ok(String::from_utf8_lossy(name.get(..length).unwrap_or_default()).trim_end_matches('\0').to_owned())
}

impl Buffers for KernelDevice {
    fn bytes(&self, handle: Handle) -> &[u8] {
        self.buffer(handle).and_then(|buffer| buffer.map.get(..buffer.size)).unwrap_or_default()
    }
}

impl Device for KernelDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { kind: Kind::Hardware, config: self.config, path: Some(self.path.clone()) }
    }

    fn allocate(&mut self, size: u64) -> Result<Handle, Error> {
        let failed = |source| Error::Allocate { size, device: self.path.display().to_string(), source };
        let length = usize::try_from(size)
            .ok()
            .filter(|&length| length > 0)
            .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let mut args = GemCreateArgs { size, ..Default::default() };
        // SAFETY: the descriptor is open and the argument is the structure that the ioctl names.
        retry(|| unsafe { nvdla::gem_create(self.file.as_raw_fd(), &raw mut args) }).map_err(failed)?;
        let mut buffer = match self.map(args.handle, length) {
            Ok(buffer) => buffer,
            Err(error) => {
                self.destroy(args.handle);
                return Err(error);
            }
        };
        // Not every driver clears what it hands out.
        buffer.map.fill(0);
        let free = self.buffers.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.buffers.push(None);
            self.buffers.len() - 1
        });
        self.buffers[at] = Some(buffer);
        Ok(Handle(at as u32))
    }

    fn free(&mut self, handle: Handle) {
        if let Some(buffer) = self.buffers.get_mut(handle.0 as usize).and_then(Option::take) {
            let Buffer { gem, dma_buf, map, .. } = buffer;
            drop((map, dma_buf));
            self.destroy(gem);
        }
    }

    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        match self.buffers.get_mut(handle.0 as usize) {
            Some(Some(buffer)) => buffer.map.get_mut(..buffer.size).unwrap_or_default(),
            _ => &mut [],
        }
    }

    fn submit(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        _observer: Option<Observer<'_>>,
    ) -> Result<TaskReport, Error> {
        let limit = MAX_BUFFERS_PER_TASK as usize;
        if addresses.len() > limit {
            return Err(Error::TooManyAddresses { count: addresses.len(), limit });
        }
        let list = addresses
            .iter()
            .enumerate()
            .map(|(position, address)| {
                let buffer = self.buffer(address.handle).ok_or(Error::Address { position })?;
                Ok(MemHandle { handle: buffer.dma_buf.as_raw_fd() as u32, reserved: 0, offset: address.offset })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        // The largest number means "no timeout", and zero would end the task before it starts.
        let milliseconds = timeout.map_or(NO_TIMEOUT, |timeout| {
            u32::try_from(timeout.as_millis()).unwrap_or(NO_TIMEOUT - 1).clamp(1, NO_TIMEOUT - 1)
        });
        let task =
            SubmitTask { num_addresses: list.len() as u32, timeout: milliseconds, address_list: list.as_ptr() as u64 };
        let version = SUBMIT_VERSION_TIMEOUT;
        let mut args = SubmitArgs { tasks: std::ptr::from_ref(&task) as u64, num_tasks: 1, flags: 0, version };
        // SAFETY: the argument points to one task, that to `num_addresses` addresses; both outlive the call. The buffers
        // are this value's own and `&mut self` keeps every slice of them away while the device writes.
        // A submission that a signal interrupts is not repeated: the task may have run.
        let result = unsafe { nvdla::submit(self.file.as_raw_fd(), &raw mut args) };
        match result {
            Ok(_) => Ok(TaskReport::default()),
            Err(Errno::ETIMEDOUT | Errno::ETIME) => {
                // No task runs for longer than the driver's operator allows.
                let timeout = timeout.map(|timeout| self.longest.map_or(timeout, |longest| timeout.min(longest)));
                Err(Error::TimedOut { timeout, device: self.path.display().to_string() })
            }
            Err(error) => {
                let reason = if error == Errno::EINVAL { self.refusal(addresses) } else { None };
                Err(reason.map_or_else(|| self.failed("DRM_IOCTL_NVDLA_SUBMIT")(error.into()), Error::Refused))
            }
        }
    }
}

impl Drop for KernelDevice {
    fn drop(&mut self) {
        for at in 0..self.buffers.len() {
            self.free(Handle(at as u32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_device_is_refused() {
        assert!(matches!(KernelDevice::open("/dev/null"), Err(Error::Ioctl { ioctl: "DRM_IOCTL_VERSION", .. })));
        let error = KernelDevice::open("/dev/dri/renderD999").unwrap_err();
        assert_eq!(error.to_string(), "cannot open /dev/dri/renderD999");
    }

    #[test]
    fn discovery_on_a_machine_without_devices_finds_nothing_or_nodes() {
        assert!(discover().iter().all(|path| path.starts_with("/dev/dri")));
    }
}
