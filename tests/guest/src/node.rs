// SPDX-License-Identifier: MIT OR Apache-2.0

//! An open node of the driver, and its buffers.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{MmapMut, MmapOptions};
use nix::errno::Errno;
use nvdla_uapi::ioctl::{
    self as first, GemCreateArgs, GemDestroyArgs, GemMapOffsetArgs, MemHandle, SubmitArgs, SubmitTask,
};
use nvdla_uapi::queue::{self, Access, Address, Query, Submit, Sync, Task, Wait};

use crate::drm::{call, read_write, Prime, Result, PRIME_FD_TO_HANDLE, PRIME_HANDLE_TO_FD};
use crate::system::HANG;

/// First ioctl number that DRM leaves to drivers.
const BASE: u32 = 0x40;
/// [`Query`]'s ioctl.
pub const QUERY: u64 = read_write(b'd', BASE + queue::QUERY_COMMAND, size_of::<Query>());
/// [`Submit`]'s ioctl.
pub const SUBMIT: u64 = read_write(b'd', BASE + queue::SUBMIT_COMMAND, size_of::<Submit>());
/// [`Wait`]'s ioctl.
pub const WAIT: u64 = read_write(b'd', BASE + queue::WAIT_COMMAND, size_of::<Wait>());

/// [`Access`]'s ioctl.
pub const ACCESS: u64 = read_write(b'd', BASE + queue::ACCESS_COMMAND, size_of::<Access>());

/// The current time on the clock of all deadlines, in nanoseconds.
pub fn now_ns() -> u64 {
    let now =
        nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap_or(nix::sys::time::TimeSpec::new(0, 0));
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// A kind of node.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its folder.
    pub folder: &'static str,
    /// What its names start with.
    pub prefix: &'static str,
    /// Its class in `/sys`, and the folder of a device there.
    pub class: &'static str,
    /// Its folder in debugfs, whose folders have the names of devices.
    debugfs: &'static str,
}

/// Render nodes, and the accel nodes of a driver that is in the kernel's tree.
pub const KINDS: [Kind; 2] = [
    Kind { folder: "/dev/dri", prefix: "renderD", class: "drm", debugfs: "/sys/kernel/debug/dri" },
    Kind { folder: "/dev/accel", prefix: "accel", class: "accel", debugfs: "/sys/kernel/debug/accel" },
];

impl Kind {
    /// The kind of a node.
    fn of(path: &Path) -> Option<Self> {
        KINDS.into_iter().find(|kind| {
            let number = path.strip_prefix(kind.folder).ok().and_then(|name| name.to_str()?.strip_prefix(kind.prefix));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        })
    }
}

/// Whether a test has needed NVIDIA's submission since [`lacking`] was called, of a driver that does not have it.
static LACKING: AtomicBool = AtomicBool::new(false);

/// Whether a test has needed NVIDIA's submission since this was called last, of a driver that does not have it.
pub fn lacking() -> bool {
    LACKING.swap(false, Ordering::Relaxed)
}

/// The nodes of NVDLA devices, in order.
pub fn nodes() -> Vec<PathBuf> {
    let mut nodes: Vec<PathBuf> = KINDS
        .into_iter()
        .flat_map(|kind| fs::read_dir(kind.folder).into_iter().flatten())
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| Kind::of(path).is_some())
        .filter(|path| Node::open(path).is_ok_and(|node| node.query().is_ok()))
        .collect();
    nodes.sort();
    nodes
}

/// An open node.
#[derive(Debug)]
pub struct Node {
    file: File,
    path: PathBuf,
}

impl Node {
    /// Opens a node.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::options().read(true).write(true).open(path)?, path: path.to_owned() })
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The open file.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// The node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn kind(&self) -> io::Result<Kind> {
        Kind::of(&self.path).ok_or_else(|| io::Error::other("no node of a device"))
    }

    /// The device behind it, in `/sys`.
    pub fn device(&self) -> io::Result<PathBuf> {
        let kind = self.kind()?;
        let name = self.path.file_name().unwrap_or_default();
        fs::canonicalize(Path::new("/sys/class").join(kind.class).join(name).join("device"))
    }

    /// The state of the device that debugfs shows.
    pub fn state(&self) -> io::Result<String> {
        let (kind, device) = (self.kind()?, self.device()?);
        let name = device.file_name().unwrap_or_default();
        fs::read_to_string(Path::new(kind.debugfs).join(name).join("state"))
    }

    /// Describes the device.
    pub fn query(&self) -> Result<Query> {
        let mut query = Query::default();
        call(self.fd(), QUERY, &mut query)?;
        Ok(query)
    }

    /// The configuration's name.
    pub fn config(&self) -> Result<String> {
        let name = self.query()?.config;
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        Ok(String::from_utf8_lossy(&name[..length]).into_owned())
    }

    /// Makes a buffer. Returns its handle.
    pub fn create(&self, size: u64) -> Result<u32> {
        self.create_with(size, 0)
    }

    /// The same with flags.
    pub fn create_with(&self, size: u64, flags: u32) -> Result<u32> {
        let mut args = GemCreateArgs { size, flags, ..Default::default() };
        call(self.fd(), first::GEM_CREATE.into(), &mut args)?;
        Ok(args.handle)
    }

    /// The offset at which a buffer can be mapped.
    pub fn map_offset(&self, handle: u32) -> Result<u64> {
        let mut args = GemMapOffsetArgs { handle, ..Default::default() };
        call(self.fd(), first::GEM_MMAP.into(), &mut args)?;
        Ok(args.offset)
    }

    /// Releases a handle.
    pub fn destroy(&self, handle: u32) -> Result {
        call(self.fd(), first::GEM_DESTROY.into(), &mut GemDestroyArgs { handle }).map(drop)
    }

    /// Maps the file at an offset.
    pub fn map(&self, offset: u64, length: usize) -> io::Result<MmapMut> {
        // SAFETY: the tests read and write plain bytes, and wait for the device's writes before they read.
        unsafe { MmapOptions::new().offset(offset).len(length).map_mut(&self.file) }
    }

    /// A buffer with its mapping.
    pub fn buffer(&self, size: usize) -> io::Result<Buffer> {
        self.buffer_with(size, 0)
    }

    /// A buffer that is made with flags, with its mapping.
    pub fn buffer_with(&self, size: usize, flags: u32) -> io::Result<Buffer> {
        let handle = self.create_with(size as u64, flags)?;
        let map = self.map(self.map_offset(handle)?, size)?;
        Ok(Buffer { handle, map })
    }

    /// A dma-buf of a handle.
    pub fn export(&self, handle: u32) -> Result<OwnedFd> {
        let mut prime = Prime { handle, flags: (libc::O_CLOEXEC | libc::O_RDWR) as u32, fd: -1 };
        call(self.fd(), PRIME_HANDLE_TO_FD, &mut prime)?;
        // SAFETY: the ioctl gave a new descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(prime.fd) })
    }

    /// Makes a handle for a dma-buf.
    pub fn import(&self, fd: RawFd) -> Result<u32> {
        let mut prime = Prime { handle: 0, flags: 0, fd };
        call(self.fd(), PRIME_FD_TO_HANDLE, &mut prime)?;
        Ok(prime.handle)
    }

    /// Whether the driver has NVIDIA's submission. The driver in the kernel's tree, which makes accel nodes, does not.
    pub fn has_first(&self) -> bool {
        !self.path.starts_with(KINDS[1].folder)
    }

    /// Fails if the driver does not have NVIDIA's submission.
    pub(crate) fn needs_first(&self) -> Result {
        if self.has_first() {
            return Ok(());
        }
        LACKING.store(true, Ordering::Relaxed);
        Err(Errno::ENOTTY)
    }

    /// NVIDIA's submission of one task: dma-buf descriptors and offsets.
    pub fn submit_first(&self, addresses: &[MemHandle], timeout: u32) -> Result {
        self.needs_first()?;
        let task =
            SubmitTask { num_addresses: addresses.len() as u32, timeout, address_list: addresses.as_ptr() as u64 };
        let version = first::SUBMIT_VERSION_TIMEOUT;
        let mut args = SubmitArgs { tasks: std::ptr::from_ref(&task) as u64, num_tasks: 1, flags: 0, version };
        call(self.fd(), first::SUBMIT.into(), &mut args).map(drop)
    }

    /// Submits tasks, whose addresses are GEM handles and offsets.
    pub fn submit(&self, tasks: &[&[Address]], options: Options<'_>) -> Result<Submitted> {
        let records: Vec<_> = tasks.iter().map(|addresses| record(addresses)).collect();
        let mut submit = Submit {
            tasks: records.as_ptr() as u64,
            num_tasks: records.len() as u32,
            task_size: size_of::<Task>() as u32,
            in_fences: options.in_fences.as_ptr() as u64,
            num_in_fences: options.in_fences.len() as u32,
            flags: if options.out_fence { queue::SUBMIT_OUT_FENCE } else { 0 }
                | if options.urgent { queue::SUBMIT_URGENT } else { 0 },
            deadline_ns: options.deadline_ns,
            in_syncs: options.in_syncs.as_ptr() as u64,
            out_syncs: options.out_syncs.as_ptr() as u64,
            num_in_syncs: options.in_syncs.len() as u32,
            num_out_syncs: options.out_syncs.len() as u32,
            sync_size: size_of::<Sync>() as u32,
            ..Submit::default()
        };
        call(self.fd(), SUBMIT, &mut submit)?;
        // SAFETY: with this flag the ioctl gave a new descriptor.
        let fence = options.out_fence.then(|| unsafe { OwnedFd::from_raw_fd(submit.out_fence) });
        Ok(Submitted { sequence: submit.sequence, fence })
    }

    /// Begins accesses of the processor to a buffer, or ends them with [`queue::ACCESS_END`].
    pub fn access(&self, handle: u32, flags: u32, deadline_ns: u64) -> Result {
        call(self.fd(), ACCESS, &mut Access { handle, flags, deadline_ns }).map(drop)
    }

    /// Waits for a task until the deadline, and returns its status.
    pub fn wait_until(&self, sequence: u64, deadline_ns: u64) -> Result<i32> {
        let mut wait = Wait { sequence, deadline_ns, ..Wait::default() };
        call(self.fd(), WAIT, &mut wait)?;
        Ok(wait.status)
    }

    /// Waits at most this many seconds for a task, and returns its status.
    pub fn wait(&self, sequence: u64, seconds: u64) -> Result<i32> {
        self.wait_until(sequence, now_ns() + seconds * 1_000_000_000)
    }

    /// Waits until a task has ended, and returns its status; an error if it hangs.
    pub fn end(&self, sequence: u64) -> Result<i32> {
        self.wait(sequence, HANG.as_secs())
    }

    /// The kernel's information about the open file (fdinfo).
    pub fn fdinfo(&self) -> io::Result<String> {
        fs::read_to_string(format!("/proc/self/fdinfo/{}", self.fd()))
    }

    /// A number of fdinfo; bytes where it is a size.
    pub fn usage(&self, key: &str) -> io::Result<u64> {
        let text = self.fdinfo()?;
        let value = text.lines().find_map(|line| {
            let mut words = line.strip_prefix(key)?.strip_prefix(':')?.split_whitespace();
            let number: u64 = words.next()?.parse().ok()?;
            Some(match words.next() {
                Some("KiB") => number << 10,
                Some("MiB") => number << 20,
                _ => number,
            })
        });
        value.ok_or_else(|| io::Error::other(format!("fdinfo has no {key}:\n{text}")))
    }
}

/// A task's record for [`Submit`].
pub fn record(addresses: &[Address]) -> Task {
    Task {
        addresses: addresses.as_ptr() as u64,
        num_addresses: addresses.len() as u32,
        address_size: size_of::<Address>() as u32,
        ..Task::default()
    }
}

/// Options of a submission.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Descriptors of fences to wait for.
    pub in_fences: &'a [i32],
    /// Synchronisation objects to wait for.
    pub in_syncs: &'a [Sync],
    /// Synchronisation objects that signal the end.
    pub out_syncs: &'a [Sync],
    /// Whether a fence is requested.
    pub out_fence: bool,
    /// Whether the tasks run before those of others.
    pub urgent: bool,
    /// The deadline of each task; 0 for the default.
    pub deadline_ns: u64,
}

/// An accepted submission.
#[derive(Debug)]
pub struct Submitted {
    /// The last task's number.
    pub sequence: u64,
    /// Its fence.
    pub fence: Option<OwnedFd>,
}

/// A mapped buffer. Its handle is closed with its node.
#[derive(Debug)]
pub struct Buffer {
    /// The GEM handle.
    pub handle: u32,
    /// Its bytes.
    pub map: MmapMut,
}
