// SPDX-License-Identifier: MIT OR Apache-2.0

//! Writes files whole or not at all: a temporary file in the same folder gets the bytes, and is renamed after the last one.
//!
//! Devices and pipes are written in place, as is a file in a folder in which no file can be made. A pipe that nobody reads gives an
//! error.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{fchown, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::unistd::{access, AccessFlags};

use super::read::PIPE_TIMEOUT;

/// Writes a file. If this fails, a file of that name keeps its bytes.
///
/// # Errors
///
/// When the file cannot be made or written.
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = Pending::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.finish()
}

/// Checks that a file can be written, without changing anything.
///
/// # Errors
///
/// When it cannot: the name is too long, the folder does not exist, permissions do not allow it.
pub fn check_writable(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        _ if path.as_os_str().as_bytes().ends_with(b"/") => Err(ErrorKind::IsADirectory.into()),
        _ if path.as_os_str().is_empty() => Err(io::Error::new(ErrorKind::InvalidInput, "the name is empty")),
        Ok(_) => Ok(access(path, AccessFlags::W_OK)?),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if let Ok(target) = fs::read_link(path) {
                return check_writable(folder_of(path).join(target));
            }
            Ok(access(folder_of(path), AccessFlags::W_OK | AccessFlags::X_OK)?)
        }
        Err(error) => Err(error),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where the bytes go.
#[derive(Debug)]
enum Sink {
    File(File),
    /// A pipe, which does not block.
    Pipe(File),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let pipe = match self {
            Self::File(file) => return file.write(bytes),
            Self::Pipe(pipe) => pipe,
        };
        loop {
            match pipe.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            let mut ready = [PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)];
            if poll(&mut ready, PollTimeout::from(1000 * PIPE_TIMEOUT))? == 0 {
                return Err(unread());
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn unread() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, format!("nobody has read from the pipe for {PIPE_TIMEOUT} s"))
}

/// Opens a named pipe, and waits for its reader.
fn open_pipe(path: &Path) -> io::Result<File> {
    let start = Instant::now();
    loop {
        match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {}
            result => return result,
        }
        if start.elapsed() > Duration::from_secs(PIPE_TIMEOUT.into()) {
            return Err(unread());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A file that is being written. It appears under its name in [`Pending::finish`]; if that is not called, nothing remains.
#[derive(Debug)]
pub struct Pending {
    file: BufWriter<Sink>,
    /// The temporary file and the file that it becomes; none for what is written in place.
    rename: Option<(PathBuf, PathBuf)>,
}

impl Pending {
    /// Begins a file.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let (target, found) = match fs::metadata(path) {
            // A link stays, and the file that it names is replaced.
            Ok(found) if found.is_file() => (path.canonicalize()?, Some(found)),
            Ok(_) => return Self::in_place(path),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if path.is_symlink() {
                    return Self::in_place(path);
                }
                (path.to_owned(), None)
            }
            Err(error) => return Err(error),
        };
        match Self::beside(&target, found.as_ref()) {
            Err(error)
                if found.is_some()
                    && matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
            {
                Self::in_place(path)
            }
            result => result,
        }
    }

    fn in_place(path: &Path) -> io::Result<Self> {
        let sink = match fs::metadata(path) {
            Ok(found) if found.file_type().is_fifo() => Sink::Pipe(open_pipe(path)?),
            _ => Sink::File(File::create(path)?),
        };
        Ok(Self { file: BufWriter::new(sink), rename: None })
    }

    /// Begins a temporary file beside `target`, with the permissions and the owner of the file that it replaces.
    fn beside(target: &Path, found: Option<&Metadata>) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = folder_of(target).join(format!(".nvdla-{}-{number}.tmp", std::process::id()));
            let file = match OpenOptions::new().write(true).create_new(true).open(&name) {
                // An earlier process of this number has left it.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                result => result?,
            };
            if let Some(found) = found {
                // Only root may give a file away. Without that it belongs to who writes it, as a new file does.
                let _ = fchown(&file, Some(found.uid()), Some(found.gid()));
                file.set_permissions(found.permissions())?;
            }
            return Ok(Self { file: BufWriter::new(Sink::File(file)), rename: Some((name, target.to_owned())) });
        }
    }

    /// Gives the file its name.
    ///
    /// # Errors
    ///
    /// When the last bytes cannot be written, or the file cannot be renamed.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if let Some((temporary, target)) = &self.rename {
            fs::rename(temporary, target)?;
        }
        self.rename = None;
        Ok(())
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.rename {
            // If it cannot be removed, nothing else can be done about it.
            let _ = fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net");
        write(&path, b"first").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let mut pending = Pending::create(&path).unwrap();
        pending.write_all(b"half of the").unwrap();
        pending.flush().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        drop(pending);
        assert_eq!((fs::read(&path).unwrap(), names(folder.path())), (b"first".to_vec(), vec!["net".to_owned()]));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("net", &link).unwrap();
        write(&link, b"second").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["link", "net"]);
    }

    #[test]
    fn a_full_device_is_an_error() {
        assert_eq!(write("/dev/full", b"x").unwrap_err().kind(), ErrorKind::StorageFull);
        write("/dev/null", b"x").unwrap();
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(write(&path, b"x").unwrap_err().kind(), ErrorKind::TimedOut);
        // More than a pipe holds.
        let bytes = vec![7; 1 << 20];
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| fs::read(&path).unwrap());
            write(&path, &bytes).unwrap();
            assert_eq!(reader.join().unwrap(), bytes);
        });
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        check_writable(at("new")).unwrap();
        let long = check_writable(at(&"n".repeat(256))).unwrap_err();
        assert_eq!(long.kind(), ErrorKind::InvalidFilename);
        assert_eq!(check_writable(at("none/new")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(check_writable(folder.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
        check_writable("/dev/null").unwrap();
        assert_eq!(check_writable("").unwrap_err().to_string(), "the name is empty");
        assert_eq!(check_writable(at("new/")).unwrap_err().kind(), ErrorKind::IsADirectory);
        std::os::unix::fs::symlink("none/new", at("link")).unwrap();
        assert_eq!(check_writable(at("link")).unwrap_err().kind(), ErrorKind::NotFound);
        fs::remove_file(at("link")).unwrap();
        assert!(names(folder.path()).is_empty());
    }
}
