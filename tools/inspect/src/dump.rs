// SPDX-License-Identifier: MIT OR Apache-2.0

//! Shows the file that the driver leaves when it ends a task (`nvdla_uapi::dump` has its format): why the task was ended, the last
//! interrupts, the task's addresses, the operations that ran with the registers that they were programmed with, and what the
//! device's registers held. A register that differs from what an operation of its group was programmed with is marked.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use nvdla_uapi::config::Config;
use nvdla_uapi::dump::{kind, sections};
use nvdla_uapi::reg::{Block, Described};

/// The units by their numbers.
const UNITS: [&str; 6] = ["BDMA", "CONV", "SDP", "PDP", "CDP", "RUBIK"];

/// Why a file cannot be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It does not begin as a dump of this version.
    NoDump,
    /// It names no configuration, or one that is not known.
    NoConfiguration,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDump => "the file is not a dump of this version of the driver",
            Self::NoConfiguration => "the dump names no known hardware configuration",
        })
    }
}

impl std::error::Error for Error {}

/// Whether a file begins as a dump.
pub fn is_dump(bytes: &[u8]) -> bool {
    bytes.starts_with(b"NVDLADMP")
}

/// A 64-bit number in two words, 0 if they are missing.
fn long(words: &[u32], at: usize) -> u64 {
    let word = |at: usize| u64::from(words.get(at).copied().unwrap_or(0));
    word(at) | word(at + 1) << 32
}

/// The bytes of words.
fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A text that ends with zero bytes. Control characters are shown as dots.
fn text(words: &[u32]) -> String {
    let bytes = bytes(words);
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let shown = |character: char| if character.is_control() { '.' } else { character };
    String::from_utf8_lossy(&bytes[..end]).chars().map(shown).collect()
}

/// The register at an offset of the window.
fn register(config: &Config, offset: u32) -> Option<(Block, &'static Described)> {
    let block = Block::at(config.family, offset)?;
    let found = block.registers().iter().find(|found| u32::from(found.register.offset) == offset % Block::SIZE)?;
    Some((block, found))
}

/// A register's name and value, with the fields that are not zero.
fn show(config: &Config, offset: u32, value: u32) -> String {
    let Some((block, found)) = register(config, offset) else { return format!("{offset:#x} = {value:#x}") };
    let mut line = format!("{}.{} = {value:#x}", block.name(), found.name);
    let mut fields = found.fields.iter().filter_map(|&(name, low, width)| {
        let field = (u64::from(value) >> low) & ((1 << width) - 1);
        (field != 0 && found.fields.len() > 1).then(|| format!("{name} {field:#x}"))
    });
    if let Some(first) = fields.next() {
        let _ = write!(line, " ({first}");
        fields.for_each(|field| line.extend([", ", &field]));
        line.push(')');
    }
    line
}

/// The text of a dump.
///
/// # Errors
///
/// If the file is no dump, or of an unknown configuration. A dump that was cut off is shown as far as it goes.
pub fn text_of(file: &[u8]) -> Result<String, Error> {
    let words: Vec<u32> =
        file.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect();
    let all: Vec<(u32, &[u32])> = sections(&words).ok_or(Error::NoDump)?.collect();
    let of = |wanted: u32| all.iter().filter(move |(kind, _)| *kind == wanted).map(|(_, words)| *words);
    let device = of(kind::DEVICE).next().ok_or(Error::NoConfiguration)?;
    let name = text(device.get(..8).unwrap_or_default());
    let config = Config::by_name(&name).ok_or(Error::NoConfiguration)?;
    let mut out = String::new();
    let _ = writeln!(out, "device: {name}, hardware version {:#x}", device.get(8).copied().unwrap_or(0));
    let mut now = 0;
    for task in of(kind::TASK) {
        now = long(task, 4);
        let (client, process) = (task.first().copied().unwrap_or(0), task.get(1).copied().unwrap_or(0));
        let (started, deadline) = (long(task, 6), long(task, 8));
        let _ = writeln!(out, "task: number {} of client {client} (process {process})", long(task, 2));
        let _ = writeln!(
            out,
            "time: it ran for {} us of at most {} us",
            now.saturating_sub(started) / 1000,
            deadline.saturating_sub(started) / 1000
        );
    }
    for reason in of(kind::REASON) {
        let _ = writeln!(out, "reason: {}", text(reason));
    }
    for interrupts in of(kind::INTERRUPTS) {
        let _ = writeln!(out, "\ninterrupts:");
        for record in interrupts.chunks_exact(3) {
            let before = now.saturating_sub(long(record, 0)) / 1000;
            let _ = writeln!(out, "  {before} us before: status {:#x}", record[2]);
        }
    }
    for addresses in of(kind::ADDRESSES) {
        let _ = writeln!(out, "\naddresses:");
        for (index, entry) in addresses.chunks_exact(5).enumerate() {
            let (start, size) = (long(entry, 0), long(entry, 2));
            let memory = if entry[4] == 0 { "secondary" } else { "primary" };
            let _ = writeln!(out, "  {index}: {start:#x}..{:#x} of {memory} memory", start.saturating_add(size));
        }
    }
    // What each group's registers should hold, by operations that had them.
    let mut wanted = HashMap::new();
    for operation in of(kind::OPERATION) {
        let Some((head, registers)) = operation.split_at_checked(6) else { continue };
        let [index, roi, unit, group, enabled, waits] = head else { continue };
        let unit = UNITS.get(*unit as usize).copied().unwrap_or("?");
        let state = if *enabled != 0 { "was enabled".into() } else { format!("waited for {waits} events") };
        let _ = writeln!(out, "\noperation {index} ({unit}, group {group}, region {roi}) {state}, programmed with:");
        for pair in registers.chunks_exact(2) {
            let _ = writeln!(out, "  {}", show(config, pair[0], pair[1]));
            wanted.insert((*group, pair[0]), pair[1]);
        }
    }
    for group in of(kind::REGISTERS) {
        let Some((&number, registers)) = group.split_first() else { continue };
        let _ = writeln!(out, "\nregisters, group {number}:");
        for pair in registers.chunks_exact(2) {
            let differs = wanted.get(&(number, pair[0])).is_some_and(|&value| value != pair[1]);
            let mark = if differs { "   <- not what the operation was programmed with" } else { "" };
            let _ = writeln!(out, "  {}{mark}", show(config, pair[0], pair[1]));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::dump::Writer;
    use nvdla_uapi::reg::cdma;

    use super::*;

    fn dump() -> Vec<u8> {
        let mut words = [0; 256];
        let mut out = Writer::new(&mut words);
        out.section(kind::DEVICE);
        let mut name = [0; 32];
        name[..8].copy_from_slice(b"nv_small");
        out.bytes(&name);
        out.put(0x0030_3031);
        out.section(99);
        out.put(7);
        out.section(kind::REASON);
        out.bytes(b"the deadline passed\x1b");
        out.section(kind::OPERATION);
        let offset = Block::Cdma.base(nvdla_uapi::config::NV_SMALL.family).unwrap() + u32::from(cdma::D_BANK.offset);
        for word in [3, 0, 1, 0, 1, 0, offset, 0x0002_0001] {
            out.put(word);
        }
        out.section(kind::REGISTERS);
        for word in [0, offset, 0x0002_0000] {
            out.put(word);
        }
        let used = out.len();
        bytes(&words[..used])
    }

    #[test]
    fn a_dump_is_shown_with_names_and_differences() {
        let file = dump();
        assert!(is_dump(&file));
        let text = text_of(&file).unwrap();
        for line in [
            "device: nv_small, hardware version 0x303031",
            "reason: the deadline passed.",
            "operation 3 (CONV, group 0, region 0) was enabled, programmed with:",
            "  CDMA.D_BANK = 0x20001 (DATA_BANK 0x1, WEIGHT_BANK 0x2)",
            "  CDMA.D_BANK = 0x20000 (WEIGHT_BANK 0x2)   <- not what the operation was programmed with",
        ] {
            assert!(text.lines().any(|found| found == line), "no \"{line}\" in:\n{text}");
        }
    }

    #[test]
    fn a_dump_that_is_cut_off_or_changed_is_no_panic() {
        let file = dump();
        for length in 0..file.len() {
            let _ = text_of(&file[..length]);
        }
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 0xff;
            let _ = text_of(&changed);
        }
        assert_eq!(text_of(b"NVDLADMP"), Err(Error::NoDump));
    }
}
