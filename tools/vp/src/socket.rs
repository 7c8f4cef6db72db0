// SPDX-License-Identifier: MIT OR Apache-2.0

//! The socket on which the server listens. A file of another kind, or a socket on which another server listens, is never removed.
//!
//! Clients are served one after another. A client that connects and does not use the device keeps the others waiting only for
//! [`IDLE_LIMIT`].

use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, RawFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

/// How long a client that does not use the device keeps another one waiting.
const IDLE_LIMIT: Duration = Duration::from_secs(5);
/// The time between two looks at the clients.
const INTERVAL: u16 = 250;

/// A socket that this process has made. Its file is removed when this value is dropped.
pub(crate) struct Socket {
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl Socket {
    /// Listens on a path.
    pub(crate) fn listen(path: &Path) -> io::Result<(Self, UnixListener)> {
        let listener = match bind(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                remove_abandoned(path)?;
                bind(path)?
            }
            result => result?,
        };
        let found = path.symlink_metadata()?;
        Ok((Self { path: path.to_owned(), file: (found.dev(), found.ino()) }, listener))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.path.symlink_metadata().is_ok_and(|found| (found.dev(), found.ino()) == self.file) {
            // If it stays, the next server removes it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes a socket that accepts clients from the moment at which its path exists. Between `bind` and `listen` a socket refuses
/// connections, as an abandoned one does, so it has another name until then.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let hidden = path.with_file_name(format!(".{}", std::process::id()));
    let listener = UnixListener::bind(&hidden)?;
    let named = std::fs::hard_link(&hidden, path);
    std::fs::remove_file(&hidden)?;
    named.map(|()| listener)
}

/// Removes a socket on which nobody listens.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata()?.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is not a socket has this name"));
    }
    // A datagram socket cannot connect to a server's socket, so the server does not notice. The error says whether there is one.
    let refused = UnixDatagram::unbound()?.connect(path).err();
    if refused.is_some_and(|error| error.raw_os_error() == Some(Errno::ECONNREFUSED as i32)) {
        return std::fs::remove_file(path);
    }
    Err(io::Error::new(ErrorKind::AddrInUse, "another server listens on it"))
}

/// Disconnects a client that has not used the device for [`IDLE_LIMIT`] since another one waits.
pub(crate) fn watch(listener: UnixListener, used: Arc<AtomicBool>) -> io::Result<()> {
    std::thread::Builder::new().name("clients".into()).spawn(move || {
        let mut since: Option<Instant> = None;
        loop {
            let mut ready = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
            let waits = matches!(poll(&mut ready, PollTimeout::from(INTERVAL)), Ok(1..));
            if !waits || used.load(Ordering::Acquire) {
                since = None;
            }
            if waits {
                std::thread::sleep(Duration::from_millis(INTERVAL.into()));
                if since.get_or_insert_with(Instant::now).elapsed() > IDLE_LIMIT && !used.load(Ordering::Acquire) {
                    log::warn!("a client that does not use the device is disconnected, because another one waits");
                    disconnect(&listener);
                    since = None;
                }
            }
        }
    })?;
    Ok(())
}

/// Ends the connections that were accepted on a listener. The crate that accepts them does not show them, but they have the
/// address of the listener.
fn disconnect(listener: &UnixListener) {
    let address = |stream: io::Result<std::os::unix::net::SocketAddr>| stream.ok()?.as_pathname().map(Path::to_owned);
    let own = address(listener.local_addr());
    let descriptors = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    for number in descriptors.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok()) {
        if number == listener.as_raw_fd() {
            continue;
        }
        // SAFETY: the calls fail for a descriptor that is no socket or was closed since, and the descriptor is not closed here.
        let stream = ManuallyDrop::new(unsafe { UnixStream::from_raw_fd(number) });
        // A listener has no peer.
        if own.is_some() && address(stream.local_addr()) == own && stream.peer_addr().is_ok() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("nvdla-socket-{name}-{}", std::process::id()))
    }

    #[test]
    fn only_an_abandoned_socket_is_removed() {
        let file = path("file");
        std::fs::write(&file, b"a thesis").unwrap();
        let error = Socket::listen(&file).map(drop).unwrap_err();
        assert_eq!(error.to_string(), "a file that is not a socket has this name");
        assert_eq!(std::fs::read(&file).unwrap(), b"a thesis");
        std::fs::remove_file(&file).unwrap();

        let live = path("live");
        let (socket, listener) = Socket::listen(&live).unwrap();
        let error = Socket::listen(&live).map(drop).unwrap_err();
        assert_eq!(error.to_string(), "another server listens on it");
        UnixStream::connect(&live).unwrap();
        // The server is killed: its file stays.
        std::mem::forget(socket);
        drop(listener);
        let again = Socket::listen(&live).unwrap();
        UnixStream::connect(&live).unwrap();
        drop(again);
        assert!(!live.exists());
    }
}
