// SPDX-License-Identifier: MIT OR Apache-2.0

//! A trace, parsed into typed commands.

use std::fs;
use std::path::{Component, Path, PathBuf};

use nvdla_model::glb::Source;
use nvdla_model::memory::Port;
use nvdla_runtime::files;
use nvdla_uapi::reg::{Block, Described};
use thiserror::Error;

/// The greatest size of a text of a trace in bytes.
pub(crate) const MAX_TEXT: u64 = 256 << 20;
/// The greatest size of a file with the contents of memory in bytes.
const MAX_BYTES: u64 = 4 << 30;

/// Bytes of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The memory.
    pub port: Port,
    /// Address of the first byte.
    pub address: u64,
    /// Bytes.
    pub length: usize,
}

/// A register by the names of its block and itself.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The block.
    pub block: Block,
    /// The register.
    pub register: &'static Described,
}

/// A check when an interrupt arrives.
#[derive(Clone, Debug)]
pub enum Check {
    /// The region's CRC-32.
    Crc(Region, u32),
    /// No check besides the interrupt.
    Nothing,
}

/// A line of a trace.
#[derive(Clone, Debug)]
pub enum Command {
    /// Fill with zeros.
    Zero(Region),
    /// Copy from a file.
    Load(Region, Bytes),
    /// Write a register.
    Write(Named, u32),
    /// Wait until the register reads the value.
    Poll(Named, u32),
    /// Wait until the register's bits under the mask equal the value.
    Expect {
        /// The register.
        register: Named,
        /// Bits to compare.
        mask: u32,
        /// Their value.
        value: u32,
    },
    /// Wait until the interrupt line is up.
    WaitInterrupt,
    /// Wait for the unit's interrupt for that group, and perform the checks of that name.
    Interrupt {
        /// The unit.
        source: Source,
        /// The register group.
        group: usize,
        /// The checks' name.
        id: String,
    },
    /// Memory must equal the file.
    Compare(Region, Bytes),
}

/// Bytes of one of the trace's files.
#[derive(Clone, Debug)]
pub struct Bytes {
    /// The file, an index into [`Trace::files`].
    pub file: usize,
    /// Offset of the first byte.
    pub offset: usize,
}

/// A file that a trace names.
#[derive(Debug)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// A trace.
#[derive(Debug)]
pub struct Trace {
    /// The folder's name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// The commands with their line numbers, without the checks.
    pub commands: Vec<(usize, Command)>,
    /// The checks, by the interrupts' names.
    pub checks: Vec<(String, Check)>,
    /// The files.
    pub files: Vec<File>,
}

/// Why a trace cannot be read.
#[derive(Debug, Error)]
pub enum ParseError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A line cannot be parsed.
    #[error("line {line}: {what}: {text:?}")]
    Line {
        /// The line's number.
        line: usize,
        /// What is wrong.
        what: String,
        /// The line.
        text: String,
    },
    /// A folder holds no trace.
    #[error("{}: neither a trace nor a folder of traces (no trace.txt)", path.display())]
    NoTrace {
        /// The folder.
        path: PathBuf,
    },
}

/// The traces in `folder`, which may itself be a trace, in the order of their names.
pub fn find(folder: &Path) -> Result<Vec<PathBuf>, ParseError> {
    if folder.join("trace.txt").is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let error = |error| ParseError::File { path: folder.to_owned(), error };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        if path.join("trace.txt").is_file() {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(ParseError::NoTrace { path: folder.to_owned() });
    }
    Ok(found)
}

impl Trace {
    /// Reads the trace in `folder`.
    pub fn read(folder: &Path) -> Result<Self, ParseError> {
        let path = folder.join("trace.txt");
        let text = files::read_text(&path, MAX_TEXT).map_err(|error| ParseError::File { path, error })?;
        let name = folder.file_name().map_or_else(|| folder.to_string_lossy(), |name| name.to_string_lossy());
        let mut trace = Self {
            name: name.into_owned(),
            folder: folder.to_owned(),
            commands: Vec::new(),
            checks: Vec::new(),
            files: Vec::new(),
        };
        for (line, text) in (1..).zip(text.lines()) {
            trace.line(line, text).map_err(|error| match error {
                LineError::What(what) => ParseError::Line { line, what, text: text.to_owned() },
                LineError::File(error) => error,
            })?;
        }
        Ok(trace)
    }

    /// The memory regions that the trace uses.
    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        let commands = self.commands.iter().filter_map(|(_, command)| match command {
            Command::Zero(region) | Command::Load(region, _) | Command::Compare(region, _) => Some(region),
            _ => None,
        });
        let checks = self.checks.iter().filter_map(|(_, check)| match check {
            Check::Crc(region, _) => Some(region),
            Check::Nothing => None,
        });
        commands.chain(checks)
    }

    /// The bytes of a region's file contents.
    pub fn bytes(&self, region: &Region, bytes: &Bytes) -> &[u8] {
        &self.files[bytes.file].bytes[bytes.offset..bytes.offset + region.length]
    }

    fn line(&mut self, number: usize, text: &str) -> Result<(), LineError> {
        let mut words = Words(text.split_whitespace());
        let Some(name) = words.0.next().filter(|name| !name.starts_with('#')) else { return Ok(()) };
        let command = match name {
            "fill" => {
                let region = words.region(|words| words.size("size"))?;
                if words.word("pattern")? != "all_zero" {
                    return Err("the only pattern is all_zero".to_owned().into());
                }
                Command::Zero(region)
            }
            "load" | "compare" => {
                let (port, address) = (words.port()?, words.number("address")?);
                let file = self.file(words.word("file")?)?;
                let (offset, length) = (words.size("offset")?, words.size("length")?);
                let size = self.files[file].bytes.len();
                if offset.checked_add(length).is_none_or(|end| end > size) {
                    return Err(format!("the file has only {size:#x} bytes").into());
                }
                let region = Region { port, address, length };
                let bytes = Bytes { file, offset };
                if name == "load" {
                    Command::Load(region, bytes)
                } else {
                    Command::Compare(region, bytes)
                }
            }
            "write" => Command::Write(words.register()?, words.value("value")?),
            "poll" => Command::Poll(words.register()?, words.value("value")?),
            "expect" => Command::Expect {
                register: words.register()?,
                mask: words.value("mask")?,
                value: words.value("value")?,
            },
            "wait_interrupt" => Command::WaitInterrupt,
            "interrupt" => {
                let (source, group) = words.interrupt()?;
                Command::Interrupt { source, group, id: words.word("name")?.to_owned() }
            }
            "crc32" => {
                let id = words.word("name")?.to_owned();
                let region = words.region(|words| words.size("size"))?;
                self.checks.push((id, Check::Crc(region, words.value("value")?)));
                return words.end();
            }
            "check_nothing" => {
                self.checks.push((words.word("name")?.to_owned(), Check::Nothing));
                return words.end();
            }
            // The commands are played in order, so the streams of blocks need no synchronisation.
            "sync_notify" | "sync_wait" => return Ok(()),
            _ => return Err("unknown command".to_owned().into()),
        };
        words.end()?;
        self.commands.push((number, command));
        Ok(())
    }

    /// The index of the file with that name, which is read when it is named first.
    fn file(&mut self, name: &str) -> Result<usize, LineError> {
        if let Some(known) = self.files.iter().position(|file| file.name == name) {
            return Ok(known);
        }
        if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(format!("{name:?} is not a file in the trace's folder").into());
        }
        let path = self.folder.join(name);
        let bytes = files::read(&path, MAX_BYTES).map_err(|error| LineError::File(ParseError::File { path, error }))?;
        self.files.push(File { name: name.to_owned(), bytes });
        Ok(self.files.len() - 1)
    }
}

/// What is wrong with a line.
#[derive(Debug)]
pub(crate) enum LineError {
    What(String),
    File(ParseError),
}

impl From<String> for LineError {
    fn from(what: String) -> Self {
        Self::What(what)
    }
}

/// The words of a line.
pub(crate) struct Words<'l>(pub(crate) std::str::SplitWhitespace<'l>);

impl<'l> Words<'l> {
    pub(crate) fn word(&mut self, what: &str) -> Result<&'l str, LineError> {
        self.0.next().ok_or_else(|| format!("no {what}").into())
    }

    fn number(&mut self, what: &str) -> Result<u64, LineError> {
        let word = self.word(what)?;
        let parsed = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        parsed.map_err(|_| format!("{what} is not a number: {word}").into())
    }

    pub(crate) fn value(&mut self, what: &str) -> Result<u32, LineError> {
        let number = self.number(what)?;
        u32::try_from(number).map_err(|_| format!("{what} {number:#x} needs more than 32 bits").into())
    }

    fn size(&mut self, what: &str) -> Result<usize, LineError> {
        let number = self.number(what)?;
        usize::try_from(number).map_err(|_| format!("{what} {number:#x} is too large").into())
    }

    fn port(&mut self) -> Result<Port, LineError> {
        match self.word("memory")? {
            "dram" => Ok(Port::Primary),
            "sram" => Ok(Port::Secondary),
            other => Err(format!("no memory is called {other}").into()),
        }
    }

    fn region(&mut self, length: impl FnOnce(&mut Self) -> Result<usize, LineError>) -> Result<Region, LineError> {
        Ok(Region { port: self.port()?, address: self.number("address")?, length: length(self)? })
    }

    pub(crate) fn register(&mut self) -> Result<Named, LineError> {
        let word = self.word("register")?;
        let found = word.split_once('.').and_then(|(block, register)| {
            let block = Block::ALL.into_iter().find(|known| known.name() == block)?;
            let register = block.registers().iter().find(|known| known.name == register)?;
            Some(Named { block, register })
        });
        found.ok_or_else(|| format!("no register is called {word}").into())
    }

    fn interrupt(&mut self) -> Result<(Source, usize), LineError> {
        let word = self.word("unit and group")?;
        let found = word.rsplit_once('_').and_then(|(unit, group)| {
            let source = match unit.to_ascii_uppercase().as_str() {
                "SDP" => Source::Sdp,
                "CDP" => Source::Cdp,
                "PDP" => Source::Pdp,
                "BDMA" => Source::Bdma,
                "RUBIK" => Source::Rubik,
                "CDMA_DAT" => Source::CdmaData,
                "CDMA_WT" => Source::CdmaWeight,
                "CACC" => Source::Cacc,
                _ => return None,
            };
            let group = group.parse().ok().filter(|&group: &usize| group < 2)?;
            Some((source, group))
        });
        found.ok_or_else(|| format!("no interrupt is called {word}").into())
    }

    fn end(&mut self) -> Result<(), LineError> {
        match self.0.next() {
            None => Ok(()),
            Some(word) => Err(format!("unexpected {word}").into()),
        }
    }
}
