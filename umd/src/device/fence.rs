// SPDX-License-Identifier: MIT OR Apache-2.0

//! The end of a submission: a descriptor to poll, and a result.
//!
//! Source: the kernel's `include/uapi/linux/sync_file.h` and `Documentation/driver-api/sync_file.rst`.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::error::Error;
use super::ioctl;
use super::types::TaskReport;

/// The longest time that one call to poll waits: its argument is an `i32` of milliseconds.
const LONGEST_POLL: Duration = Duration::from_secs(3600);

/// Locks a mutex even if it is poisoned. This is safe because each guarded value is replaced as a whole.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until one of the descriptors is readable. Returns for each whether it is readable.
pub(crate) fn readable(fds: &[BorrowedFd<'_>], deadline: Option<Instant>) -> io::Result<Vec<bool>> {
    let mut list: Vec<_> = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    loop {
        let left = deadline.map_or(LONGEST_POLL, |at| at.saturating_duration_since(Instant::now()).min(LONGEST_POLL));
        // Rounded up, so that the last wait does not end up to a millisecond early.
        let milliseconds = left.as_nanos().div_ceil(1_000_000) as i32;
        match poll(&mut list, PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::ZERO)) {
            Ok(0) if deadline.is_none_or(|at| at > Instant::now()) => {}
            Ok(_) => return Ok(list.iter().map(|fd| fd.any().unwrap_or(false)).collect()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A result that a thread leaves for others, with a descriptor that becomes readable when the result exists.
pub(crate) struct Signal<T> {
    event: EventFd,
    result: Mutex<Option<T>>,
    came: Condvar,
    ended: AtomicBool,
}

impl<T> Signal<T> {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Arc::new(Self { event, result: Mutex::new(None), came: Condvar::new(), ended: AtomicBool::new(false) }))
    }

    pub(crate) fn set(&self, result: T) {
        *lock(&self.result) = Some(result);
        self.ended.store(true, Ordering::Release);
        self.came.notify_all();
        // Writing fails only if the counter is at its maximum, 2^64 - 2.
        if let Err(error) = self.event.write(1) {
            tracing::error!("a fence cannot be signalled: {error}");
        }
    }

    /// Whether the result has arrived. It may have been taken since.
    pub(crate) fn is_set(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Waits for the result, and leaves it. False if the deadline came first.
    pub(crate) fn comes(&self, deadline: Option<Instant>) -> bool {
        let mut result = lock(&self.result);
        loop {
            if self.is_set() {
                return true;
            }
            result = match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
                None => self.came.wait(result).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return false,
                Some(left) => self.came.wait_timeout(result, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Waits for the result and takes it. None if it was taken before.
    pub(crate) fn take(&self, deadline: Option<Instant>) -> Waited<Option<T>> {
        if self.comes(deadline) {
            Waited::Ended(lock(&self.result).take())
        } else {
            Waited::NotYet
        }
    }
}

impl<T> AsFd for Signal<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// The outcome of a wait.
pub(crate) enum Waited<T> {
    /// The task has ended with this result.
    Ended(T),
    /// The deadline came first.
    NotYet,
}

/// The end of a submitted task.
pub struct Fence(Kind);

enum Kind {
    /// A fence of the kernel, and the meaning of its error numbers.
    SyncFile { fd: OwnedFd, error: Box<dyn Fn(i32) -> Error + Send + Sync> },
    /// A result that a thread leaves.
    Signal(Arc<Signal<Result<TaskReport, Error>>>),
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Kind::SyncFile { .. } => "sync_file",
            Kind::Signal(_) => "eventfd",
        };
        f.debug_struct("Fence").field("kind", &kind).field("fd", &self.as_fd()).finish()
    }
}

impl Fence {
    /// A fence of a sync_file; `error` converts its negative error numbers.
    pub fn sync_file(fd: OwnedFd, error: impl Fn(i32) -> Error + Send + Sync + 'static) -> Self {
        Self(Kind::SyncFile { fd, error: Box::new(error) })
    }

    pub(crate) fn signal(signal: Arc<Signal<Result<TaskReport, Error>>>) -> Self {
        Self(Kind::Signal(signal))
    }

    /// Whether the task has ended.
    pub(crate) fn is_ended(&self) -> bool {
        match &self.0 {
            Kind::SyncFile { fd, .. } => {
                matches!(readable(&[fd.as_fd()], Some(Instant::now())), Ok(readable) if readable[0])
            }
            Kind::Signal(signal) => signal.is_set(),
        }
    }

    /// Waits until the task has ended, and leaves its result. False if the deadline came first.
    pub(crate) fn ends(&self, deadline: Option<Instant>) -> bool {
        match &self.0 {
            // An error of the wait is the result, which `wait` returns.
            Kind::SyncFile { fd, .. } => readable(&[fd.as_fd()], deadline).map_or(true, |readable| readable[0]),
            Kind::Signal(signal) => signal.comes(deadline),
        }
    }

    /// Waits until the task has ended or the deadline has passed.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Waited<Result<TaskReport, Error>> {
        let (fd, error) = match &self.0 {
            Kind::Signal(signal) => {
                return match signal.take(deadline) {
                    Waited::NotYet => Waited::NotYet,
                    Waited::Ended(result) => Waited::Ended(result.unwrap_or(Ok(TaskReport::default()))),
                }
            }
            Kind::SyncFile { fd, error } => (fd, error),
        };
        let failed = |source| Error::Fence { source };
        match readable(&[fd.as_fd()], deadline) {
            Err(error) => return Waited::Ended(Err(failed(error))),
            Ok(readable) if !readable[0] => return Waited::NotYet,
            Ok(_) => {}
        }
        let mut info = ioctl::FileInfo::default();
        // SAFETY: the descriptor is open and the argument is the structure of the ioctl; with a count of zero no fences
        // are written.
        if let Err(error) = ioctl::retry(|| unsafe { ioctl::file_info(fd.as_raw_fd(), &raw mut info) }) {
            return Waited::Ended(Err(failed(error)));
        }
        Waited::Ended(if info.status < 0 { Err(error(info.status)) } else { Ok(TaskReport::default()) })
    }
}

impl AsFd for Fence {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::SyncFile { fd, .. } => fd.as_fd(),
            Kind::Signal(signal) => signal.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_readable_once_it_is_set_and_its_result_is_taken_once() {
        let signal = Signal::<u32>::new().unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(5));
        assert!(matches!(signal.take(soon()), Waited::NotYet));
        assert!(!readable(&[signal.as_fd()], soon()).unwrap()[0]);
        let setter = Arc::clone(&signal);
        let thread = std::thread::spawn(move || setter.set(7));
        assert!(matches!(signal.take(None), Waited::Ended(Some(7))));
        thread.join().unwrap();
        assert!(readable(&[signal.as_fd()], soon()).unwrap()[0]);
        assert!(matches!(signal.take(None), Waited::Ended(None)));
    }
}
