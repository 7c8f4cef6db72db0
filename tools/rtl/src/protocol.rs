// SPDX-License-Identifier: MIT OR Apache-2.0

//! The messages between a host and a simulator (`docs/rtl.md`): a kind, a length and a payload, all numbers little-endian. The
//! simulator answers each request with one reply.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// The protocol's version.
pub const VERSION: u32 = 2;
/// The number of DMA clients whose traffic a simulator counts.
pub(crate) const CLIENTS: usize = 10;
/// The greatest size of a reply in bytes. The reply to a run of many operations has a done pulse for each.
const LONGEST_REPLY: u32 = 1 << 28;

pub(crate) const HELLO: u32 = 1;
pub(crate) const READ: u32 = 2;
pub(crate) const WRITE: u32 = 3;
pub(crate) const RUN: u32 = 4;
pub(crate) const MAP: u32 = 5;
pub(crate) const UNMAP: u32 = 6;
pub(crate) const ALLOW: u32 = 7;
pub(crate) const RESET: u32 = 8;
pub(crate) const WAVES: u32 = 9;
const FAILED: u32 = u32::MAX;

/// A run ended because the interrupt line changed.
pub(crate) const INTERRUPT: u32 = 1;
/// A run ended because the design is idle.
pub(crate) const IDLE: u32 = 5;

/// Why a request has no reply.
pub(crate) enum RequestError {
    /// The simulator refuses it.
    Refused(String),
    /// The connection is broken.
    Broken(io::Error),
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// A request's payload.
#[derive(Default)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    pub(crate) fn word(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn long(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
}

/// Sends a request and waits for its reply.
pub(crate) fn ask(socket: &mut UnixStream, kind: u32, request: &Request) -> Result<Vec<u8>, RequestError> {
    let length = u32::try_from(request.0.len()).map_err(io::Error::other)?;
    let mut message = Vec::with_capacity(8 + request.0.len());
    message.extend(kind.to_le_bytes());
    message.extend(length.to_le_bytes());
    message.extend(&request.0);
    socket.write_all(&message)?;
    let mut header = [0; 8];
    socket.read_exact(&mut header)?;
    let header = u64::from_le_bytes(header);
    let (answered, length) = (header as u32, (header >> 32) as u32);
    if length > LONGEST_REPLY {
        return Err(io::Error::other(format!("a reply of {length} bytes")).into());
    }
    let mut bytes = vec![0; length as usize];
    socket.read_exact(&mut bytes)?;
    if answered == FAILED {
        return Err(RequestError::Refused(String::from_utf8_lossy(&bytes).into_owned()));
    }
    if answered != kind {
        return Err(io::Error::other(format!("request {kind} is answered as {answered}")).into());
    }
    Ok(bytes)
}

/// A reply that is being parsed.
pub(crate) struct Reply<'b>(pub(crate) &'b [u8]);

impl Reply<'_> {
    pub(crate) fn word(&mut self) -> io::Result<u32> {
        let (word, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*word))
    }

    pub(crate) fn long(&mut self) -> io::Result<u64> {
        let (long, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*long))
    }
}

fn short() -> io::Error {
    io::Error::other("a reply is too short")
}

/// The simulator's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) dbb_bytes: u32,
    pub(crate) address_bits: u32,
    pub(crate) sram_bytes: u32,
    pub(crate) waves: bool,
    pub(crate) config: String,
}

impl Hello {
    pub(crate) fn read(bytes: &[u8]) -> io::Result<Self> {
        let mut reply = Reply(bytes);
        let version = reply.word()?;
        if version != VERSION {
            return Err(io::Error::other(format!("it speaks version {version} of the protocol, not {VERSION}")));
        }
        Ok(Self {
            dbb_bytes: reply.word()?,
            address_bits: reply.word()?,
            sram_bytes: reply.word()?,
            waves: reply.word()? != 0,
            config: String::from_utf8_lossy(reply.0).into_owned(),
        })
    }
}

/// The traffic of a DMA client since reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) waited: u64,
}

/// A done pulse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) cycle: u64,
    /// The bits of GLB's `S_INTR_STATUS`.
    pub(crate) bits: u32,
    pub(crate) traffic: [Traffic; CLIENTS],
}

/// An access outside of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outside {
    pub(crate) interface: u32,
    pub(crate) write: bool,
    pub(crate) client: u32,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// The state in the replies to accesses, runs and resets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The result of the request: the register's value, or why a run ended.
    pub(crate) value: u32,
    pub(crate) cycle: u64,
    pub(crate) interrupt: bool,
    pub(crate) outside: Option<Outside>,
    pub(crate) done: Vec<Done>,
    /// The assertion of the design that failed first.
    pub(crate) assertion: Option<String>,
}

impl State {
    pub(crate) fn read(bytes: &[u8]) -> io::Result<Self> {
        let mut reply = Reply(bytes);
        let (value, cycle, interrupt) = (reply.word()?, reply.long()?, reply.word()? != 0);
        let happened = reply.word()? != 0;
        let (interface, write, client) = (reply.word()?, reply.word()? != 0, reply.word()?);
        let count = reply.word()?;
        let outside = Outside { interface, write, client, address: reply.long()?, bytes: reply.long()? };
        let mut done = Vec::new();
        for _ in 0..count {
            let (cycle, bits) = (reply.long()?, reply.long()? as u32);
            let mut traffic = [Traffic::default(); CLIENTS];
            for client in &mut traffic {
                *client = Traffic { read: reply.long()?, written: reply.long()?, waited: reply.long()? };
            }
            done.push(Done { cycle, bits, traffic });
        }
        let assertion = (!reply.0.is_empty()).then(|| String::from_utf8_lossy(reply.0).into_owned());
        Ok(Self { value, cycle, interrupt, outside: happened.then_some(outside), done, assertion })
    }
}
