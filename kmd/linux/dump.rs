// SPDX-License-Identifier: GPL-2.0-only

//! The evidence of a task that the driver has ended, or of a device that no reset has stopped: a file of the kernel's device dumps
//! (`uapi/src/dump.rs` has its format).
//!
//! It is written where no memory can be allocated, into memory of the probe, and made available by the work that frees jobs. The
//! kernel keeps one dump per device until somebody has read and removed it, or for five minutes.

use kernel::prelude::*;

use super::{
    engine::TaskMemory,
    identity::Identity,
    state::{
        Ending,
        Phase,
        Running,
        State, //
    },
    uapi::{
        dump::{
            kind,
            Writer,
            MAX_WORDS, //
        },
        reg::values::RamType, //
    },
    window::{
        Device,
        Record, //
    },
};

/// Room for a dump.
pub(crate) struct Dump {
    /// Empty while it is made available.
    words: KVVec<u32>,
    /// How many words of a task's dump wait to be made available.
    used: usize,
    /// When the last one was written.
    taken_ns: u64,
}

/// The least time between two dumps. The kernel keeps only one, and reading all registers takes time that other clients lose.
const INTERVAL_NS: u64 = 10_000_000_000;

impl Dump {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { words: KVVec::from_elem(0, MAX_WORDS, GFP_KERNEL)?, used: 0, taken_ns: 0 })
    }

    /// Takes the dump, if there is one, and its room.
    pub(crate) fn take(&mut self) -> Option<Full> {
        let used = core::mem::take(&mut self.used);
        (used != 0).then(|| Full { words: core::mem::replace(&mut self.words, KVVec::new()), used })
    }

    /// Gives back the room.
    pub(crate) fn give_back(&mut self, full: Full) {
        self.words = full.words;
    }
}

/// A dump that is not in its place.
pub(crate) struct Full {
    words: KVVec<u32>,
    used: usize,
}

impl core::ops::Deref for Full {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        self.words.get(..self.used).unwrap_or_default()
    }
}

/// Writes the dump of the task on the device, if there is one, unless there was a dump recently. The device must be reset after that.
pub(crate) fn take(
    dump: &mut Dump,
    identity: &Identity,
    state: &mut State,
    reason: impl core::fmt::Display,
    history: impl Iterator<Item = Record>,
    mut hardware: Device<'_>,
    now_ns: u64,
) {
    let recent = dump.taken_ns != 0 && now_ns.saturating_sub(dump.taken_ns) < INTERVAL_NS;
    if recent || dump.used != 0 || dump.words.is_empty() {
        return;
    }
    dump.taken_ns = now_ns;
    let deadline = state.end_ns();
    let mut out = Writer::new(&mut dump.words);
    out.section(kind::DEVICE);
    let mut name = [0; 32];
    name.iter_mut().zip(identity.config.name.bytes()).for_each(|(to, from)| *to = from);
    out.bytes(&name);
    out.put(identity.version);
    if let Some(Running { job, started_ns, .. }) = state.running() {
        out.section(kind::TASK);
        out.put(job.client as u32);
        out.put(job.process.id());
        [job.sequence, now_ns, *started_ns, deadline].into_iter().for_each(|number| out.long(number));
        out.section(kind::ADDRESSES);
        for index in 0..job.address_list.count() {
            if let Some(buffer) = job.address_list.buffer(index) {
                out.long(buffer.address);
                out.long(buffer.size);
                out.put(u32::from(buffer.memory == RamType::Mcif));
            }
        }
    }
    out.section(kind::REASON);
    let mut text = Text { bytes: [0; 1024], used: 0 };
    let _ = core::fmt::write(&mut text, format_args!("{reason}"));
    out.bytes(&text.bytes[..text.used]);
    out.section(kind::INTERRUPTS);
    for (time, status) in history {
        out.long(time);
        out.put(status);
    }
    let State { engine, phase, .. } = state;
    let mut none = None;
    let aborted = match phase {
        Phase::Ending(Ending { running, .. }) => &mut running.job.task,
        _ => &mut none,
    };
    engine.dump(&mut hardware, aborted, &mut out);
    dump.used = out.len();
}

/// A text of limited length.
struct Text {
    bytes: [u8; 1024],
    used: usize,
}

impl core::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for &byte in text.as_bytes() {
            *self.bytes.get_mut(self.used).ok_or(core::fmt::Error)? = byte;
            self.used += 1;
        }
        Ok(())
    }
}
