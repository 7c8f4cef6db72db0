// SPDX-License-Identifier: MIT OR Apache-2.0

//! Records what a simulated device does as a hardware trace: register writes, the contents of memory, and results.
//!
//! `nvdla_trace` plays such a trace on the model or on the RTL. `tools/trace/src/trace.rs` has the commands. The writes are in
//! the driver's order. The trace waits for an interrupt where the driver noticed it, and for a clear convolution buffer where the
//! driver read that it is clear. Therefore a device on which operations take longer than on the recorded one also gets every
//! write in a state that permits it.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use nvdla_engine::{Slot, Task};
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::RamType;
use nvdla_uapi::reg::{cdma, glb, Block, Register};

use super::fence::lock;
use super::store::Store;
use super::types::Handle;
use super::view::Reach;
use crate::files::Pending;

/// The file with the commands.
const TRACE: &str = "trace.txt";
/// The file with the contents of memory before each task.
const MEMORY: &str = "memory.bin";
/// The file with the bytes that operations write.
const EXPECTED: &str = "expected.bin";

/// A trace that is being recorded. Clones are the same trace.
#[derive(Clone, Debug)]
pub struct Recording(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    trace: Part,
    memory: Data,
    expected: Data,
    /// The interrupt status that the driver has read last.
    status: u32,
    /// The versions of the buffers whose bytes are in the trace.
    loaded: HashMap<Handle, u64>,
    failure: Option<io::Error>,
}

/// A file of the trace. It appears under its name when the trace is finished.
#[derive(Debug)]
struct Part(Option<Pending>);

impl Part {
    fn create(folder: &Path, name: &str) -> io::Result<Self> {
        Ok(Self(Some(Pending::create(folder.join(name))?)))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), Pending::finish)
    }
}

impl io::Write for Part {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_mut().map_or(Err(io::ErrorKind::BrokenPipe.into()), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), io::Write::flush)
    }
}

/// A file of bytes that the trace refers to.
#[derive(Debug)]
struct Data {
    name: &'static str,
    file: Part,
    length: u64,
}

impl Data {
    fn create(folder: &Path, name: &'static str) -> io::Result<Self> {
        Ok(Self { name, file: Part::create(folder, name)?, length: 0 })
    }

    /// Appends bytes. Returns their place in the file, as the words of a command.
    fn add(&mut self, bytes: &[u8]) -> io::Result<String> {
        self.file.write_all(bytes)?;
        let place = format!("{} {:#x} {:#x}", self.name, self.length, bytes.len());
        self.length += bytes.len() as u64;
        Ok(place)
    }
}

/// The name of a memory in a trace.
fn port(memory: RamType) -> &'static str {
    match memory {
        RamType::Mcif => "dram",
        RamType::Cvif => "sram",
    }
}

/// The names of the interrupts in a trace, with their bits of the status.
fn interrupts() -> impl Iterator<Item = (String, u32)> {
    use glb::S_INTR_STATUS as status;
    let units = [
        ("sdp", status::SDP_DONE_STATUS0),
        ("cdp", status::CDP_DONE_STATUS0),
        ("pdp", status::PDP_DONE_STATUS0),
        ("bdma", status::BDMA_DONE_STATUS0),
        ("rubik", status::RUBIK_DONE_STATUS0),
        ("cdma_dat", status::CDMA_DAT_DONE_STATUS0),
        ("cdma_wt", status::CDMA_WT_DONE_STATUS0),
        ("cacc", status::CACC_DONE_STATUS0),
    ];
    units
        .into_iter()
        .flat_map(|(unit, first)| (0..2).map(move |group| (format!("{unit}_{group}"), first.mask() << group)))
}

impl Recording {
    /// The files of a trace.
    pub const FILES: [&str; 3] = [TRACE, MEMORY, EXPECTED];

    /// Starts a trace in a folder, which is created if it does not exist. Its files appear in [`Self::finish`].
    ///
    /// # Errors
    ///
    /// If the folder or its files cannot be created.
    pub fn create(folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = folder.as_ref();
        fs::create_dir_all(folder)?;
        Ok(Self(Arc::new(Mutex::new(Inner {
            trace: Part::create(folder, TRACE)?,
            memory: Data::create(folder, MEMORY)?,
            expected: Data::create(folder, EXPECTED)?,
            status: 0,
            loaded: HashMap::new(),
            failure: None,
        }))))
    }

    /// Writes the rest of the trace. Nothing can be added to it afterwards.
    ///
    /// # Errors
    ///
    /// The first error of anything that was written.
    pub fn finish(&self) -> io::Result<()> {
        let mut inner = lock(&self.0);
        if let Some(failure) = inner.failure.take() {
            return Err(failure);
        }
        inner.memory.file.finish()?;
        inner.expected.file.finish()?;
        inner.trace.finish()
    }

    fn with(&self, work: impl FnOnce(&mut Inner) -> io::Result<()>) {
        let mut inner = lock(&self.0);
        if inner.failure.is_none() {
            inner.failure = work(&mut inner).err();
        }
    }

    /// The driver has read a register.
    pub(super) fn read(&self, config: &Config, offset: u32, value: u32) {
        self.with(|inner| match name(config, offset) {
            Some((Block::Glb, register)) if register == glb::S_INTR_STATUS => {
                inner.status = value;
                Ok(())
            }
            Some((Block::Cdma, register)) if register == cdma::S_CBUF_FLUSH_STATUS => {
                let done = cdma::S_CBUF_FLUSH_STATUS::FLUSH_DONE.mask();
                if value & done == 0 {
                    return Ok(());
                }
                writeln!(inner.trace, "expect CDMA.S_CBUF_FLUSH_STATUS {done:#x} {done:#x}")
            }
            _ => Ok(()),
        });
    }

    /// The driver writes a register.
    pub(super) fn write(&self, config: &Config, offset: u32, value: u32) {
        self.with(|inner| {
            let Some((block, register)) = name(config, offset) else {
                return Err(io::Error::other(format!("no register lies at {offset:#x}")));
            };
            if block == Block::Glb && register == glb::S_INTR_STATUS && value != 0 && value & !inner.status == 0 {
                for (name, bit) in interrupts().filter(|(_, bit)| value & bit != 0) {
                    writeln!(inner.trace, "interrupt {name} {name}_{bit:x}")?;
                }
                return Ok(());
            }
            let described = block.registers().iter().find(|known| known.register == register);
            let register = described.map_or("", |known| known.name);
            writeln!(inner.trace, "write {}.{register} {value:#x}", block.name())
        });
    }

    /// A task is about to be submitted.
    pub(super) fn begin(&self, config: &'static Config, task: &Task<Vec<Slot>>, store: &Store, reach: &[Reach]) {
        self.with(|inner| {
            let mut accesses = Vec::new();
            for operation in task.iter() {
                operation.accesses(config, |access| accesses.push(access.start..access.end));
            }
            for reach in reach {
                let Some(buffer) = store.get(reach.handle()) else { continue };
                if inner.loaded.get(&reach.handle()) == Some(&buffer.version()) {
                    continue;
                }
                let range = reach.range();
                if !accesses.iter().any(|touched| touched.start < range.end && range.start < touched.end) {
                    // These are descriptors, which only the driver reads.
                    continue;
                }
                let start = range.start - buffer.address();
                let bytes = buffer.pages().get(start as usize..(range.end - buffer.address()) as usize);
                let bytes = bytes.unwrap_or_default();
                let (port, address) = (port(buffer.memory()), range.start);
                if bytes.iter().all(|&byte| byte == 0) {
                    writeln!(inner.trace, "fill {port} {address:#x} {:#x} all_zero", bytes.len())?;
                } else {
                    let place = inner.memory.add(bytes)?;
                    writeln!(inner.trace, "load {port} {address:#x} {place}")?;
                }
            }
            Ok(())
        });
    }

    /// An operation has completed, and has written these bytes of a buffer in that memory.
    pub(super) fn completed(&self, memory: RamType, address: u64, bytes: &[u8]) {
        self.with(|inner| {
            let place = inner.expected.add(bytes)?;
            writeln!(inner.trace, "compare {} {address:#x} {place}", port(memory))
        });
    }

    /// The task has ended.
    pub(super) fn end(&self, store: &Store, reach: &[Reach]) {
        self.with(|inner| {
            let version = |reach: &Reach| Some((reach.handle(), store.get(reach.handle())?.version()));
            inner.loaded.extend(reach.iter().filter_map(version));
            Ok(())
        });
    }
}

/// The register at an offset of the window.
fn name(config: &Config, offset: u32) -> Option<(Block, Register)> {
    let block = Block::at(config.family, offset)?;
    let base = block.base(config.family)?;
    let known = block.registers().iter().find(|known| base + u32::from(known.register.offset) == offset)?;
    Some((block, known.register))
}
