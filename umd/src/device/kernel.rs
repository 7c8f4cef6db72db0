// SPDX-License-Identifier: MIT OR Apache-2.0

//! NVDLA behind its kernel driver: a DRM render node, GEM buffers, PRIME descriptors, the four ioctls that every driver of NVDLA
//! has, and the query that newer drivers add.
//!
//! Source: [`nvdla_uapi::ioctl`] and [`nvdla_uapi::queue`] for the driver's own ioctls; the kernel's `include/uapi/drm/drm.h` for
//! DRM's.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use memmap2::MmapOptions;
use nix::errno::Errno;
use nix::time::{clock_gettime, ClockId};
use nvdla_uapi::config::Config;
use nvdla_uapi::ioctl::{
    GemCreateArgs, GemDestroyArgs, GemMapOffsetArgs, MemHandle, SubmitArgs, SubmitTask, DRIVER_NAME,
    MAX_BUFFERS_PER_TASK, NO_TIMEOUT, SUBMIT_VERSION_TIMEOUT,
};

use nvdla_uapi::queue::{self, Query};
use nvdla_uapi::reg::values::RamType;

use super::contract::Device;
use super::error::Error;
use super::fence::Fence;
use super::ioctl::{self, retry};
use super::pages::{Cache, Pages};
use super::types::{AddressEntry, Buffers, DeviceInfo, Handle, Kind, Observer, TaskReport};
use super::{dma_buf, refusal};

/// The number of the first render node in DRM.
const FIRST_RENDER_MINOR: u32 = 128;

/// The nodes of all NVDLA devices of this machine, in order of their numbers.
///
/// Nodes of other drivers are left out. A node that this user may not open is left out too, with a warning in the log.
pub fn discover() -> Vec<PathBuf> {
    // The driver of a kernel that contains it makes accel nodes.
    [("/dev/dri", "renderD", FIRST_RENDER_MINOR), ("/dev/accel", "accel", 0)]
        .into_iter()
        .flat_map(|(folder, prefix, first)| {
            let mut nodes: Vec<(u32, PathBuf)> = fs::read_dir(folder)
                .into_iter()
                .flatten()
                .filter_map(|entry| {
                    let path = entry.ok()?.path();
                    let minor = path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok()?;
                    (minor >= first).then_some((minor, path))
                })
                .collect();
            nodes.sort();
            nodes.into_iter().map(|(_, path)| path)
        })
        .filter(|path| is_nvdla(path))
        .collect()
}

fn is_nvdla(path: &Path) -> bool {
    match KernelDevice::open(path) {
        Ok(_) => true,
        Err(error) => {
            if let Error::Open { source, .. } = &error {
                tracing::warn!("{error}: {source}");
            }
            false
        }
    }
}

/// A buffer that the driver made, mapped into this process.
struct Buffer {
    /// The GEM handle.
    gem: u32,
    /// The buffer's dma-buf, by which the first driver's submission names it.
    dma_buf: Option<OwnedFd>,
    pages: Arc<Pages>,
    /// The memory interface behind which it lies.
    memory: RamType,
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes do not change during the borrow. The device writes them only while `submit` holds the buffer
        // exclusively, or during a run of the context that owns the buffer; the context does not access them then.
        unsafe { self.pages.bytes() }
    }
}

/// A buffer in the processor's cache, which the device does not see.
#[derive(Debug)]
struct Cached {
    file: Arc<File>,
    gem: u32,
}

impl Cached {
    fn access(&self, flags: u32) {
        let mut args = queue::Access { handle: self.gem, flags, deadline_ns: u64::MAX };
        // SAFETY: the descriptor is open and the argument is the structure that the ioctl names.
        if let Err(error) = retry(|| unsafe { ioctl::access(self.file.as_raw_fd(), &raw mut args) }) {
            // The device is gone, and its tasks fail.
            tracing::warn!("DRM_IOCTL_NVDLA_ACCESS of handle {}: {error}", self.gem);
        }
    }
}

impl Cache for Cached {
    fn clean(&self) {
        self.access(queue::ACCESS_WRITE | queue::ACCESS_END);
    }

    fn invalidate(&self) {
        self.access(queue::ACCESS_READ);
    }
}

/// The page size that all drivers' buffers are a multiple of.
const PAGE: usize = 4096;

/// An NVDLA behind its kernel driver.
pub struct KernelDevice {
    file: Arc<File>,
    path: PathBuf,
    /// The configuration that the driver reports; none for the first driver, which has no query.
    config: Option<&'static Config>,
    /// The longest time that a task may run; none for the first driver, which has no query.
    longest: Option<Duration>,
    /// Bytes of the device's SRAM.
    sram: u64,
    /// Whether buffers are cached only if that is requested, because the device does not see the cache.
    is_uncached: bool,
    /// Whether the driver has a queue; the first driver has none.
    has_queue: bool,
    buffers: Vec<Option<Buffer>>,
}

impl std::fmt::Debug for KernelDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelDevice").field("path", &self.path).finish_non_exhaustive()
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
        let has_queue = query.is_some();
        let sram = query.as_ref().map_or(0, |query| query.sram_size);
        let is_uncached = query.as_ref().is_some_and(|query| query.flags & queue::QUERY_UNCACHED != 0);
        let longest = query.map(|query| Duration::from_nanos(query.max_timeout_ns));
        let (file, path) = (Arc::new(file), path.to_owned());
        Ok(Self { file, path, config, longest, sram, is_uncached, has_queue, buffers: Vec::new() })
    }

    /// Why the driver has refused the task, where the configuration is known.
    fn refusal(&self, addresses: &[AddressEntry]) -> Option<nvdla_engine::Error> {
        let entry = |entry: &AddressEntry| {
            let buffer = self.buffer(entry.handle)?;
            // Validation reads no list in SRAM, and every other byte of it is slow to read.
            Some(refusal::Entry {
                buffer: entry.handle.0 as usize,
                offset: entry.offset,
                bytes: buffer.bytes(),
                memory: buffer.memory,
            })
        };
        refusal::of(self.config?, &addresses.iter().map(entry).collect::<Option<Vec<_>>>()?)
    }

    fn failed(&self, ioctl: &'static str) -> impl FnOnce(io::Error) -> Error + '_ {
        move |source| Error::Ioctl { ioctl, path: self.path.clone(), source }
    }

    fn buffer(&self, handle: Handle) -> Option<&Buffer> {
        self.buffers.get(handle.0 as usize)?.as_ref()
    }

    /// A dma-buf of a GEM handle.
    fn prime(&self, gem: u32) -> io::Result<OwnedFd> {
        let flags = (libc::O_CLOEXEC | libc::O_RDWR) as u32;
        let mut prime = ioctl::PrimeHandle { handle: gem, flags, fd: -1 };
        // SAFETY: the descriptor is open and the argument is the structure that the ioctl names.
        retry(|| unsafe { ioctl::prime_handle_to_fd(self.file.as_raw_fd(), &raw mut prime) })?;
        // SAFETY: the ioctl succeeded, so this is a new descriptor with no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(prime.fd) })
    }

    /// Makes and maps a buffer for an existing GEM handle, which was made with these flags.
    fn map(&self, gem: u32, length: usize, flags: u32) -> Result<Buffer, Error> {
        let dma_buf = if self.has_queue {
            None
        } else {
            Some(self.prime(gem).map_err(self.failed("DRM_IOCTL_PRIME_HANDLE_TO_FD"))?)
        };
        let mut place = GemMapOffsetArgs { handle: gem, ..Default::default() };
        // SAFETY: the descriptor is open and the argument is the structure that the ioctl names.
        retry(|| unsafe { ioctl::gem_mmap(self.file.as_raw_fd(), &raw mut place) })
            .map_err(self.failed("DRM_IOCTL_NVDLA_GEM_MMAP"))?;
        let memory = if flags & queue::GEM_CREATE_SRAM != 0 { RamType::Cvif } else { RamType::Mcif };
        let whole = length.next_multiple_of(PAGE);
        // SAFETY: only this device's owners name the mapped buffer. While the device writes to it no slice of it exists, as
        // `Pages` says.
        let mut map = unsafe { MmapOptions::new().offset(place.offset).len(whole).map_mut(&*self.file) }
            .map_err(self.failed("mmap of a buffer"))?;
        // Not every driver clears new buffers. Drivers that have SRAM do.
        if memory == RamType::Mcif {
            map.fill(0);
        }
        let cache = (flags & queue::GEM_CREATE_CACHED != 0)
            .then(|| Box::new(Cached { file: Arc::clone(&self.file), gem }) as Box<dyn Cache>);
        Ok(Buffer { gem, dma_buf, pages: Pages::with_cache(map, length, cache), memory })
    }

    /// Makes a buffer with these flags and maps it.
    fn create(&mut self, size: u64, flags: u32) -> Result<Handle, Error> {
        let failed = |source| Error::Allocate { size, device: self.path.display().to_string(), source };
        let length = usize::try_from(size)
            .ok()
            .filter(|&length| length > 0)
            .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let mut args = GemCreateArgs { size, flags, ..Default::default() };
        // SAFETY: the descriptor is open and the argument is the structure that the ioctl names.
        retry(|| unsafe { ioctl::gem_create(self.file.as_raw_fd(), &raw mut args) }).map_err(failed)?;
        match self.map(args.handle, length, flags) {
            Ok(buffer) => Ok(self.add(buffer)),
            Err(error) => {
                self.destroy(args.handle);
                Err(error)
            }
        }
    }

    fn add(&mut self, buffer: Buffer) -> Handle {
        let free = self.buffers.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.buffers.push(None);
            self.buffers.len() - 1
        });
        self.buffers[at] = Some(buffer);
        Handle(at as u32)
    }

    fn destroy(&self, gem: u32) {
        let mut args = GemDestroyArgs { handle: gem };
        // SAFETY: the descriptor is open and the argument is the structure that the ioctl names.
        if let Err(error) = retry(|| unsafe { ioctl::gem_destroy(self.file.as_raw_fd(), &raw mut args) }) {
            // Closing the node also releases the handle.
            tracing::warn!("{}: DRM_IOCTL_NVDLA_GEM_DESTROY of handle {gem}: {error}", self.path.display());
        }
    }

    /// The meaning of a task's error number.
    fn meaning(&self, timeout: Option<Duration>) -> impl Fn(i32) -> Error + Send + Sync + 'static {
        // The driver's limit, which the administrator sets, holds for every task.
        let timeout = timeout.map(|timeout| self.longest.map_or(timeout, |longest| timeout.min(longest)));
        let path = self.path.clone();
        move |status| match Errno::from_raw(-status) {
            Errno::ETIMEDOUT | Errno::ETIME => Error::TimedOut { timeout, device: path.display().to_string() },
            error => Error::Failed { device: path.display().to_string(), source: error.into() },
        }
    }

    /// Queues a task. Returns the number by which it can be waited for, and its fence if that is requested.
    fn enqueue(
        &self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        after: Option<&Fence>,
        fence: bool,
    ) -> Result<(u64, Option<OwnedFd>), Error> {
        check_count(addresses)?;
        let list = addresses.iter().enumerate().map(|(position, entry)| {
            let buffer = self.buffer(entry.handle).ok_or(Error::Address { position })?;
            Ok(queue::Address { handle: buffer.gem, flags: 0, offset: entry.offset })
        });
        let list = list.collect::<Result<Vec<_>, Error>>()?;
        addresses.iter().filter_map(|entry| self.buffer(entry.handle)).for_each(|buffer| buffer.pages.give());
        let task = queue::Task {
            addresses: list.as_ptr() as u64,
            num_addresses: list.len() as u32,
            address_size: size_of::<queue::Address>() as u32,
            ..queue::Task::default()
        };
        let in_fences: Vec<i32> = after.iter().map(|fence| fence.as_fd().as_raw_fd()).collect();
        let mut args = queue::Submit {
            tasks: std::ptr::from_ref(&task) as u64,
            num_tasks: 1,
            task_size: size_of::<queue::Task>() as u32,
            in_fences: in_fences.as_ptr() as u64,
            num_in_fences: in_fences.len() as u32,
            flags: if fence { queue::SUBMIT_OUT_FENCE } else { 0 },
            deadline_ns: timeout.map_or(0, |timeout| now().saturating_add(nanoseconds(timeout))),
            ..queue::Submit::default()
        };
        // SAFETY: the argument points to one task, which points to `num_addresses` addresses and `num_in_fences` descriptors; all
        // outlive the call.
        let result = retry(|| unsafe { ioctl::submit_tasks(self.file.as_raw_fd(), &raw mut args) });
        result.map_err(|error| {
            let invalid = error.raw_os_error() == Some(Errno::EINVAL as i32);
            let reason = if invalid { self.refusal(addresses) } else { None };
            reason.map_or_else(|| self.failed("DRM_IOCTL_NVDLA_SUBMIT_TASKS")(error), Error::Refused)
        })?;
        // SAFETY: with this flag the ioctl returned a new descriptor with no other owner.
        Ok((args.sequence, fence.then(|| unsafe { OwnedFd::from_raw_fd(args.out_fence) })))
    }
}

/// Checks that the driver accepts this many addresses.
fn check_count(addresses: &[AddressEntry]) -> Result<(), Error> {
    let limit = MAX_BUFFERS_PER_TASK as usize;
    if addresses.len() > limit {
        return Err(Error::TooManyAddresses { count: addresses.len(), limit });
    }
    Ok(())
}

/// The current time on the clock of the driver's deadlines.
fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| nanoseconds(now.into()))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The driver's answer to NVDLA_QUERY; `None` for a driver that does not have this ioctl.
fn query(fd: RawFd) -> Option<Query> {
    let mut query = Query::default();
    // SAFETY: the argument is the structure of the ioctl. A driver that does not have the ioctl returns an error.
    retry(|| unsafe { ioctl::query(fd, &raw mut query) }).ok()?;
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
    let mut version = ioctl::Version {
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
    // SAFETY: `name` has `name_len` bytes and outlives the call; the other texts have length 0 and are not written.
    retry(|| unsafe { ioctl::drm_version(fd, &raw mut version) })?;
    let length = version.name_len.min(name.len());
    Ok(String::from_utf8_lossy(name.get(..length).unwrap_or_default()).trim_end_matches('\0').to_owned())
}

impl Buffers for KernelDevice {
    fn bytes(&self, handle: Handle) -> &[u8] {
        self.buffer(handle).and_then(|buffer| buffer.bytes().get(..buffer.pages.size())).unwrap_or_default()
    }
}

impl Device for KernelDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { kind: Kind::Hardware, config: self.config, path: Some(self.path.clone()) }
    }

    fn allocate(&mut self, size: u64) -> Result<Handle, Error> {
        self.create(size, if self.is_uncached { queue::GEM_CREATE_CACHED } else { 0 })
    }

    fn allocate_sram(&mut self, size: u64) -> Result<Option<Handle>, Error> {
        if self.sram == 0 {
            return Ok(None);
        }
        match self.create(size, queue::GEM_CREATE_SRAM) {
            Err(Error::Allocate { source, .. }) if source.raw_os_error() == Some(libc::ENOSPC) => Ok(None),
            result => result.map(Some),
        }
    }

    fn free(&mut self, handle: Handle) {
        if let Some(buffer) = self.buffers.get_mut(handle.0 as usize).and_then(Option::take) {
            let gem = buffer.gem;
            // Others may hold the pages, and the cache can be invalidated only with the handle.
            buffer.pages.take();
            drop(buffer);
            // A dma-buf of one of this driver's own buffers gives the handle that the buffer already has.
            if !self.buffers.iter().flatten().any(|buffer| buffer.gem == gem) {
                self.destroy(gem);
            }
        }
    }

    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        match self.buffers.get_mut(handle.0 as usize) {
            Some(Some(buffer)) => {
                // SAFETY: as in `Buffer::bytes`, and the exclusive reference keeps every other slice of this device away.
                unsafe { buffer.pages.bytes_mut() }.get_mut(..buffer.pages.size()).unwrap_or_default()
            }
            _ => &mut [],
        }
    }

    fn keeps_graphs(&self) -> bool {
        self.has_queue
    }

    fn pages(&self, handle: Handle) -> Option<Arc<Pages>> {
        self.buffer(handle).map(|buffer| Arc::clone(&buffer.pages))
    }

    fn has_queue(&self) -> bool {
        self.has_queue
    }

    fn queue(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        after: Option<&Fence>,
    ) -> Result<Fence, Error> {
        let (_, fence) = self.enqueue(addresses, timeout, after, true)?;
        let fence = fence.ok_or_else(|| Error::Fence { source: io::ErrorKind::NotFound.into() })?;
        Ok(Fence::sync_file(fence, self.meaning(timeout)))
    }

    fn export(&mut self, handle: Handle) -> Result<OwnedFd, Error> {
        let result = match self.buffer(handle) {
            Some(buffer) => self.prime(buffer.gem),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        result.map_err(|source| Error::Share { device: self.path.display().to_string(), source })
    }

    fn import(&mut self, fd: BorrowedFd<'_>) -> Result<Handle, Error> {
        let import = || -> io::Result<Buffer> {
            let dma_buf = fd.try_clone_to_owned()?;
            let file = File::from(dma_buf.try_clone()?);
            let size = dma_buf::size(&file)?;
            let map = dma_buf::map(&file, size)?;
            let mut prime = ioctl::PrimeHandle { handle: 0, flags: 0, fd: fd.as_raw_fd() };
            // SAFETY: the descriptor is open and the argument is the structure that the ioctl names.
            retry(|| unsafe { ioctl::prime_fd_to_handle(self.file.as_raw_fd(), &raw mut prime) })?;
            Ok(Buffer {
                gem: prime.handle,
                dma_buf: Some(dma_buf),
                pages: Pages::new(map, size as usize),
                memory: RamType::Mcif,
            })
        };
        let buffer = import().map_err(|source| Error::Share { device: self.path.display().to_string(), source })?;
        Ok(self.add(buffer))
    }

    fn submit(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        _observer: Option<Observer<'_>>,
    ) -> Result<TaskReport, Error> {
        if self.has_queue {
            let (sequence, _) = self.enqueue(addresses, timeout, None, false)?;
            // The driver limits the time of each task.
            let mut args = queue::Wait { sequence, deadline_ns: u64::MAX, ..queue::Wait::default() };
            // SAFETY: the descriptor is open and the argument is the structure that the ioctl names. The buffers are this
            // value's own and `&mut self` keeps every slice of them away while the device writes.
            retry(|| unsafe { ioctl::wait(self.file.as_raw_fd(), &raw mut args) })
                .map_err(self.failed("DRM_IOCTL_NVDLA_WAIT"))?;
            return if args.status < 0 { Err(self.meaning(timeout)(args.status)) } else { Ok(TaskReport::default()) };
        }
        check_count(addresses)?;
        let list = addresses
            .iter()
            .enumerate()
            .map(|(position, address)| {
                let buffer = self.buffer(address.handle).ok_or(Error::Address { position })?;
                let fd = buffer.dma_buf.as_ref().ok_or(Error::Address { position })?.as_raw_fd();
                Ok(MemHandle { handle: fd as u32, reserved: 0, offset: address.offset })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        // The greatest number means "no timeout", and zero would end the task before it starts.
        let milliseconds = timeout.map_or(NO_TIMEOUT, |timeout| {
            u32::try_from(timeout.as_millis()).unwrap_or(NO_TIMEOUT - 1).clamp(1, NO_TIMEOUT - 1)
        });
        let task =
            SubmitTask { num_addresses: list.len() as u32, timeout: milliseconds, address_list: list.as_ptr() as u64 };
        let version = SUBMIT_VERSION_TIMEOUT;
        let mut args = SubmitArgs { tasks: std::ptr::from_ref(&task) as u64, num_tasks: 1, flags: 0, version };
        // SAFETY: the argument points to one task, which points to `num_addresses` addresses; both outlive the call. The buffers
        // are this value's own and `&mut self` keeps every slice of them away while the device writes. A submission that a signal
        // interrupts is not repeated: the task may have run.
        let result = ioctl::once(|| unsafe { ioctl::submit(self.file.as_raw_fd(), &raw mut args) });
        match result {
            Ok(()) => Ok(TaskReport::default()),
            Err(error @ (Errno::ETIMEDOUT | Errno::ETIME)) => Err(self.meaning(timeout)(-(error as i32))),
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
        assert!(discover().iter().all(|path| path.starts_with("/dev/dri") || path.starts_with("/dev/accel")));
    }
}
