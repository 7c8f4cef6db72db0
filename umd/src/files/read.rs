// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads the files that a user names: whole files, into memory of this process, up to a size limit.
//!
//! If another program changes the file during the read, the result is changed bytes or an error. A mapped file would be worse,
//! because the system ends a process that reads a mapped page that no longer exists. Endless files (`/dev/zero`) and named pipes
//! without a writer give an error.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

/// Seconds after which reading from a pipe without data fails, and writing to one that nobody reads.
pub(super) const PIPE_TIMEOUT: u16 = 10;
/// Bytes that are read from a pipe at once.
const PIECE: usize = 1 << 16;

/// Opens a file without waiting for the writer of a pipe.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)
}

/// The text of a file: see [`read`].
///
/// # Errors
///
/// As [`read`], and if the bytes are not UTF-8.
pub fn read_text(path: impl AsRef<Path>, limit: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, limit)?);
    text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not a text in UTF-8"))
}

/// `length` bytes from `offset` of a regular file, or all from there on if no length is given.
///
/// # Errors
///
/// Fails if the file cannot be read, is not a regular file, ends before the last of these bytes, or if they are more than `limit`.
pub fn read_part(path: impl AsRef<Path>, offset: u64, length: Option<u64>, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path.as_ref())?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let size = metadata.len();
    let length = length.unwrap_or(size.saturating_sub(offset));
    if offset.checked_add(length).is_none_or(|end| end > size) {
        let sentence = format!("{length} bytes from {offset} end beyond its {size} bytes");
        return Err(io::Error::new(ErrorKind::UnexpectedEof, sentence));
    }
    if length > limit {
        return Err(too_long(&format!("{length} bytes, more"), limit));
    }
    let mut bytes = Vec::new();
    reserve(&mut bytes, length)?;
    file.seek(SeekFrom::Start(offset))?;
    file.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// The bytes of a regular file or a pipe; of the standard input for `-`.
///
/// # Errors
///
/// Fails if the file cannot be read, is a device or a folder, or has more than `limit` bytes, or if a pipe has no data
/// for ten seconds.
pub fn read(path: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    let mut file =
        if path == Path::new("-") { File::from(io::stdin().as_fd().try_clone_to_owned()?) } else { open(path)? };
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    let mut bytes = Vec::new();
    if kind.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    } else if kind.is_file() {
        let length = metadata.len();
        if length > limit {
            return Err(too_long(&format!("{length} bytes, more"), limit));
        }
        reserve(&mut bytes, length)?;
        // One byte more than the limit, to detect a file that has grown since.
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    } else if kind.is_fifo() || kind.is_socket() {
        from_pipe(&mut file, limit, &mut bytes)?;
    } else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a device, not a file or a pipe"));
    }
    if bytes.len() as u64 > limit {
        return Err(too_long("more bytes", limit));
    }
    Ok(bytes)
}

/// Reads until the last writer closes the pipe, or until there is one byte more than `limit`.
fn from_pipe(pipe: &mut File, limit: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    while bytes.len() as u64 <= limit {
        let mut ready = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, PollTimeout::from(PIPE_TIMEOUT * 1000))? == 0 {
            let sentence = format!("nothing was written to the pipe for {PIPE_TIMEOUT} s");
            return Err(io::Error::new(ErrorKind::TimedOut, sentence));
        }
        match pipe.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => {
                reserve(bytes, count as u64)?;
                bytes.extend(piece.iter().take(count));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reserves memory for `more` bytes. Fails if there is not enough.
fn reserve(bytes: &mut Vec<u8>, more: u64) -> io::Result<()> {
    let more = usize::try_from(more).map_err(|_| ErrorKind::OutOfMemory)?;
    bytes.try_reserve(more).map_err(|_| ErrorKind::OutOfMemory.into())
}

fn too_long(how_many: &str, limit: u64) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("it has {how_many} than the {limit} that can be used"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 100]).unwrap();
        assert_eq!(read(&path, 100).unwrap(), [7; 100]);
        let error = read(&path, 99).unwrap_err().to_string();
        assert_eq!(error, "it has 100 bytes, more than the 99 that can be used");
        assert_eq!(read(folder.path(), 99).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(read(folder.path().join("none"), 99).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_device_is_refused() {
        for path in ["/dev/zero", "/dev/null"] {
            assert_eq!(read(path, 10).unwrap_err().to_string(), "it is a device, not a file or a pipe");
            assert_eq!(read_part(path, 0, Some(1), 10).unwrap_err().to_string(), "it is not a regular file");
        }
    }

    #[test]
    fn a_part_of_a_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [1, 2, 3, 4]).unwrap();
        assert_eq!(read_part(&path, 1, Some(2), 9).unwrap(), [2, 3]);
        assert_eq!(read_part(&path, 3, None, 9).unwrap(), [4]);
        assert_eq!(read_part(&path, 9, None, 9).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(read_part(&path, 2, Some(3), 9).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(read_part(&path, 0, Some(u64::MAX), 9).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(read_part(&path, 0, None, 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read_part(&fifo, 0, Some(1), 9).is_err(), "it does not wait for a writer");
    }

    #[test]
    fn a_pipe_is_read_to_its_end_or_its_limit() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        writer.write_all(&[1; 1000]).unwrap();
        let error = read(&path, 999).unwrap_err().to_string();
        assert_eq!(error, "it has more bytes than the 999 that can be used");
        writer.write_all(&[2; 1000]).unwrap();
        drop(writer);
        assert_eq!(read(&path, 1000).unwrap(), [2; 1000]);
    }
}
