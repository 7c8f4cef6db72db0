// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel's dumps of devices.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nvdla_guest::node::Node;
use nvdla_guest::system::{bind, node_of, unbind, HANG};
use nvdla_uapi::dump::{self, kind};

use crate::expect::{ensure, equal, first};

/// The least time between two dumps of a device, and a second.
pub(crate) const INTERVAL: Duration = Duration::from_secs(11);

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir("/sys/class/devcoredump").into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join("data")).filter(|data| data.exists()).collect()
}

/// The first device, bound anew, so that an earlier dump does not forbid the next one. There are no dumps.
pub(crate) fn bound_anew() -> Result<Node, Failed> {
    let device = first()?.device()?;
    unbind(&device)?;
    bind(&device)?;
    remove()?;
    Ok(Node::open(&node_of(&device)?)?)
}

/// Removes all dumps: writing to one removes it.
pub(crate) fn remove() -> Result<(), Failed> {
    for data in files() {
        fs::write(data, "1")?;
    }
    Ok(())
}

/// A dump.
pub(crate) struct Dump {
    bytes: Vec<u8>,
    words: Vec<u32>,
}

impl Dump {
    /// Waits for the only dump, and removes it.
    pub(crate) fn take() -> Result<Self, Failed> {
        let start = Instant::now();
        while files().is_empty() && start.elapsed() < HANG {
            std::thread::sleep(Duration::from_millis(20));
        }
        let [data] = files().try_into().map_err(|found| format!("the dumps are {found:?}"))?;
        let bytes = fs::read(data)?;
        remove()?;
        let words =
            bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect();
        Ok(Self { bytes, words })
    }

    fn sections(&self, wanted: u32) -> Result<Vec<&[u32]>, Failed> {
        let sections = dump::sections(&self.words).ok_or("the file is no dump")?;
        Ok(sections.filter(|(kind, _)| *kind == wanted).map(|(_, words)| words).collect())
    }

    /// Fails unless it has the device and all registers, the reason, as many tasks, and no bytes of the test's input.
    pub(crate) fn check(&self, reason: &str, tasks: usize) -> Result<(), Failed> {
        for (kind, wanted) in [(kind::DEVICE, 1), (kind::TASK, tasks), (kind::REASON, 1), (kind::REGISTERS, 2)] {
            equal(&format!("sections of kind {kind}"), self.sections(kind)?.len(), wanted)?;
        }
        let text: Vec<u8> = self.sections(kind::REASON)?.concat().into_iter().flat_map(u32::to_ne_bytes).collect();
        let text = String::from_utf8_lossy(&text);
        println!("a dump of {} bytes: {}", self.bytes.len(), text.trim_end_matches('\0'));
        ensure!(text.contains(reason), "the reason is {text}");
        // The test's input is a rising sequence.
        let pattern: Vec<u8> = (0..32u8).map(|index| index.wrapping_mul(31).wrapping_add(1) & 0x7f).collect();
        ensure!(!self.bytes.windows(32).any(|window| window == pattern), "the dump has bytes of a buffer");
        Ok(())
    }

    /// Fails unless it has the task's first operation, with the register values that the device holds, and the task's addresses.
    pub(crate) fn check_operation(&self) -> Result<(), Failed> {
        let operations = self.sections(kind::OPERATION)?;
        let operation = operations.first().ok_or("no operation")?;
        // Number, region, unit 2 (SDP), group, enabled.
        equal("the operation", &operation[..5], &[0, 0, 2, operation[3], 1][..])?;
        let registers = self.sections(kind::REGISTERS)?;
        let registers =
            registers.iter().find(|words| words.first() == Some(&operation[3])).ok_or("no registers of its group")?;
        let held = |offset| registers[1..].chunks_exact(2).find(|pair| pair[0] == offset).map(|pair| pair[1]);
        ensure!(operation.len() > 6, "the operation has no registers");
        let differ = operation[6..].chunks_exact(2).filter(|pair| held(pair[0]) != Some(pair[1])).count();
        equal("registers that differ", differ, 0)?;
        equal("sections of addresses", self.sections(kind::ADDRESSES)?.len(), 1)
    }
}
