// SPDX-License-Identifier: MIT OR Apache-2.0

//! The messages of the protocol vfio-user, as a client sends them. The server is another program, so nothing of what it sends is
//! believed: an answer has a greatest size, and must belong to its request.
//!
//! Source: "vfio-user Protocol Specification", version 0.9 (QEMU's `docs/interop/vfio-user.rst`).

use std::io::{self, Read as _};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use vmm_sys_util::sock_ctrl_msg::ScmSocket as _;

const HEADER: usize = 16;
/// The greatest size of an answer after its header. The longest one that is asked for is the server's version, a text.
const LARGEST: usize = 64 << 10;
/// Flags of a header: the kind of a message, and an error.
const KIND: u32 = 0xf;
const REPLY: u32 = 1;
const ERROR: u32 = 1 << 5;
/// The device may read and write the memory.
const READ_WRITE: u32 = 3;

/// The numbers of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Command {
    Version = 1,
    DmaMap = 2,
    DmaUnmap = 3,
    RegionInfo = 5,
    IrqInfo = 7,
    SetIrqs = 8,
    RegionRead = 9,
    RegionWrite = 10,
    Reset = 13,
}

/// A connection to a server.
pub(super) struct Client {
    stream: UnixStream,
    /// The number of the next message.
    next: u16,
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// The 32-bit word at an offset.
fn word(bytes: &[u8], at: usize) -> io::Result<u32> {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    bytes.map(u32::from_le_bytes).ok_or_else(|| invalid("an answer is too short"))
}

impl Client {
    /// Connects, and agrees on the version.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let mut client = Self { stream: UnixStream::connect(path)?, next: 0 };
        let capabilities = "{\"capabilities\":{\"max_msg_fds\":1,\"max_data_xfer_size\":1048576}}\0";
        // Version 0.1 of the protocol.
        let body = [&[0, 0, 1, 0], capabilities.as_bytes()].concat();
        let answer = client.request(Command::Version, &body, &[])?;
        match answer.get(..2) {
            Some([0, 0]) => Ok(client),
            Some(&[low, high]) => {
                Err(invalid(format!("it has version {} of the protocol", u16::from_le_bytes([low, high]))))
            }
            _ => Err(invalid("its answer has no version")),
        }
    }

    /// Sends a command, and returns the answer without its header.
    fn request(&mut self, command: Command, body: &[u8], fds: &[RawFd]) -> io::Result<Vec<u8>> {
        let (id, number) = (self.next, command as u16);
        self.next = self.next.wrapping_add(1);
        let size = (HEADER + body.len()) as u32;
        let mut message = [id.to_le_bytes(), number.to_le_bytes()].concat();
        message.extend(words(&[size, 0, 0]));
        message.extend_from_slice(body);
        let sent = self.stream.send_with_fds(&[&message[..]], fds).map_err(io::Error::from)?;
        // The descriptors were sent with the first byte.
        io::Write::write_all(&mut self.stream, message.get(sent..).unwrap_or_default())?;

        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header)?;
        let (size, flags, error) = (word(&header, 4)? as usize, word(&header, 8)?, word(&header, 12)?);
        let answers = [u16::from_le_bytes([header[0], header[1]]), u16::from_le_bytes([header[2], header[3]])];
        if answers != [id, number] || flags & KIND != REPLY {
            return Err(invalid(format!("it answers {command:?}, message {id}, with another message: {header:02x?}")));
        }
        let length = size.checked_sub(HEADER).filter(|length| *length <= LARGEST);
        let length = length.ok_or_else(|| invalid(format!("its answer to {command:?} has {size} bytes")))?;
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        if flags & ERROR != 0 {
            return Err(match error {
                0 => io::Error::other(format!("it refuses {command:?}")),
                number => io::Error::from_raw_os_error(i32::try_from(number).unwrap_or(i32::MAX)),
            });
        }
        Ok(answer)
    }

    /// Bytes of a region; 0 if there is none.
    pub(super) fn region_size(&mut self, index: u32) -> io::Result<u64> {
        let mut body = words(&[32, 0, index, 0]);
        body.extend([0; 16]);
        let answer = self.request(Command::RegionInfo, &body, &[])?;
        Ok(u64::from(word(&answer, 16)?) | u64::from(word(&answer, 20)?) << 32)
    }

    /// The number of interrupts of a kind.
    pub(super) fn interrupts(&mut self, index: u32) -> io::Result<u32> {
        word(&self.request(Command::IrqInfo, &words(&[16, 0, index, 0]), &[])?, 12)
    }

    /// Sets what an interrupt of a kind does.
    pub(super) fn set_interrupt(&mut self, index: u32, flags: u32, fds: &[RawFd]) -> io::Result<()> {
        self.request(Command::SetIrqs, &words(&[20, flags, index, 0, 1]), fds).map(drop)
    }

    fn access(region: u32, offset: u64, count: usize) -> Vec<u8> {
        let mut body = offset.to_le_bytes().to_vec();
        body.extend(words(&[region, count as u32]));
        body
    }

    /// Reads from a region.
    pub(super) fn region_read(&mut self, region: u32, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let answer = self.request(Command::RegionRead, &Self::access(region, offset, into.len()), &[])?;
        let data = answer.get(16..).filter(|data| data.len() == into.len());
        into.copy_from_slice(data.ok_or_else(|| invalid("it answers a read with another number of bytes"))?);
        Ok(())
    }

    /// Writes to a region.
    pub(super) fn region_write(&mut self, region: u32, offset: u64, from: &[u8]) -> io::Result<()> {
        let body = [&Self::access(region, offset, from.len()), from].concat();
        self.request(Command::RegionWrite, &body, &[]).map(drop)
    }

    /// Lets the device access memory of a file.
    pub(super) fn map(&mut self, address: u64, size: u64, fd: RawFd) -> io::Result<()> {
        let mut body = words(&[32, READ_WRITE]);
        body.extend([0, address, size].iter().flat_map(|word| word.to_le_bytes()));
        self.request(Command::DmaMap, &body, &[fd]).map(drop)
    }

    /// Ends the access to memory.
    pub(super) fn unmap(&mut self, address: u64, size: u64) -> io::Result<()> {
        let mut body = words(&[24, 0]);
        body.extend([address, size].iter().flat_map(|word| word.to_le_bytes()));
        self.request(Command::DmaUnmap, &body, &[]).map(drop)
    }

    /// Resets the device.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        self.request(Command::Reset, &[], &[]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// What a client makes of a server that answers with these bytes, whatever it is asked.
    fn answered(bytes: &[u8]) -> io::Error {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(bytes).unwrap();
                // The client may have gone.
                let _ = stream.read(&mut [0; 256]);
            });
            Client::new(&path).map(drop).unwrap_err()
        })
    }

    #[test]
    fn answers_that_no_server_should_give_are_refused() {
        let header = |size: u32, flags: u32, error: u32| [vec![0, 0, 1, 0], words(&[size, flags, error])].concat();
        assert!(answered(&header(u32::MAX, REPLY, 0)).to_string().contains("has 4294967295 bytes"));
        assert!(answered(&header(15, REPLY, 0)).to_string().contains("has 15 bytes"));
        assert!(answered(&header(16, REPLY, 0)).to_string().contains("no version"));
        assert!(answered(&header(16, 0, 0)).to_string().contains("another message"));
        assert!(answered(&header(16, REPLY | ERROR, 13)).to_string().contains("Permission denied"));
        assert!(answered(&[header(18, REPLY, 0), vec![7, 0]].concat()).to_string().contains("version 7"));
        assert_eq!(answered(&header(1000, REPLY, 0)[..7]).kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(answered(&header(1000, REPLY, 0)).kind(), io::ErrorKind::UnexpectedEof);
    }
}
