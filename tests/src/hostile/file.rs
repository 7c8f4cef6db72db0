// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs whole loadables with a few changed bytes through the runtime: its loader, its session, and the built-in model.

use std::time::{Duration, Instant};

use nvdla_runtime::device::{recognise, Error as DeviceError, ModelDevice};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::{Error, RunOptions, Session};
use nvdla_uapi::config::Config;

use super::choices::{Choices, Seeded};
use super::network;

/// The time limit of a run, and the additional time for loading, allocating and the last operation.
const TIMEOUT: Duration = Duration::from_secs(2);
const MARGIN: Duration = Duration::from_secs(2);
/// The time after which a run has exceeded its limit even if other programs used the processor.
const LONGEST: Duration = Duration::from_secs(60);
/// The greatest size of a file that is changed, because small files allow many runs.
const LARGEST: usize = 64 << 10;
/// The greatest size of a blob of which any byte is changed: descriptors. Larger blobs are weights.
const DESCRIPTORS: usize = 16 << 10;

/// A valid loadable, and the positions of its significant bytes.
#[derive(Clone, Debug)]
pub struct File {
    /// Its origin.
    pub name: String,
    bytes: Vec<u8>,
    /// Positions of 32-bit words in the tables.
    tables: Vec<usize>,
    /// Positions of 16-bit words in descriptors.
    descriptors: Vec<usize>,
}

impl File {
    /// The file, if it is a loadable and small.
    pub fn new(name: &str, bytes: Vec<u8>) -> Option<Self> {
        if bytes.len() > LARGEST {
            return None;
        }
        let loadable = Loadable::from_bytes(bytes.clone()).ok()?;
        let base = loadable.as_bytes().as_ptr() as usize;
        let (mut is_blob, mut descriptors) = (vec![false; bytes.len()], Vec::new());
        for blob in loadable.blobs().iter() {
            let start = blob.data().as_ptr() as usize - base;
            is_blob[start..start + blob.data().len()].fill(true);
            if blob.data().len() <= DESCRIPTORS {
                // Zero bytes are mostly unused.
                descriptors.extend((start..start + blob.data().len() - 1).step_by(2).filter(|&at| bytes[at] != 0));
            }
        }
        let tables = (0..bytes.len().saturating_sub(3)).step_by(4).filter(|&at| !is_blob[at]).collect();
        Some(Self { name: name.to_owned(), bytes, tables, descriptors })
    }

    /// The file with one to three changes, and a description of them.
    pub fn mutate(&self, choices: &mut impl Choices) -> (Vec<u8>, String) {
        let (mut bytes, mut changes) = (self.bytes.clone(), Vec::new());
        for _ in 0..[1, 1, 2, 3][choices.below(4)] {
            if choices.chance(1, 50) {
                bytes.truncate(choices.below(bytes.len() + 1));
                changes.push(format!("cut to {} bytes", bytes.len()));
                continue;
            }
            let places = if choices.chance(2, 5) { &self.tables } else { &self.descriptors };
            let Some(&at) = places.get(choices.below(places.len())) else { continue };
            let width = [1, 2, 4, 8][choices.below(4)];
            let Some(place) = bytes.get_mut(at..at + width) else { continue };
            let mut old = [0; 8];
            old[..width].copy_from_slice(place);
            let old = u64::from_le_bytes(old);
            let value = match choices.below(12) {
                0 => 0,
                1 => u64::MAX,
                2 => u64::MAX >> 1,
                3..=4 => old.wrapping_add(1),
                5..=6 => old.wrapping_sub(1),
                7 => old.wrapping_mul(2),
                8 => old / 2,
                9 => 1 << choices.below(8 * width),
                10 => old ^ 1 << choices.below(8 * width),
                _ => choices.number(),
            };
            place.copy_from_slice(&value.to_le_bytes()[..width]);
            changes.push(format!("{width} bytes at {at:#x}: {old:#x} -> {value:#x}"));
        }
        (bytes, changes.join("; "))
    }
}

/// The outcome of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The file is not a loadable.
    NotLoaded,
    /// No session can be made.
    NoSession,
    /// The engine refused a task, or the runtime refused a run.
    Refused,
    /// It was stopped at its deadline.
    Deadline,
    /// It ran to its end.
    Ran,
}

/// Loads a file and runs it.
///
/// # Errors
///
/// If an accepted task stops or never ends, or if it exceeds its time limit: on the clock, and in processor time if other
/// programs used the processor.
pub fn run(bytes: Vec<u8>) -> Result<Outcome, String> {
    let (started, before) = (Instant::now(), processor_time());
    let outcome = attempt(bytes)?;
    let elapsed = started.elapsed();
    let used = processor_time().zip(before).map_or(elapsed, |(after, before)| after.saturating_sub(before));
    if elapsed > LONGEST || elapsed.min(used) > TIMEOUT + MARGIN {
        return Err(format!("{outcome:?} after {elapsed:.1?} ({used:.1?} computing), with {TIMEOUT:?} allowed"));
    }
    Ok(outcome)
}

/// The processor time of this process so far: `utime` and `stime` of `/proc/self/stat`, in hundredths of a second.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name before them is in parentheses and may contain spaces.
    let mut numbers = text.rsplit_once(')')?.1.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    Some(Duration::from_millis(10 * (numbers.next()? + numbers.next()?)))
}

fn attempt(bytes: Vec<u8>) -> Result<Outcome, String> {
    let Ok(loadable) = Loadable::from_bytes(bytes) else { return Ok(Outcome::NotLoaded) };
    let config = recognise(&loadable).config;
    let Ok(mut session) = Session::new(loadable, ModelDevice::new(config)) else { return Ok(Outcome::NoSession) };
    match session.run_with(RunOptions { timeout: Some(TIMEOUT), ..Default::default() }) {
        Ok(_) => Ok(Outcome::Ran),
        Err(Error::Task { source: source @ (DeviceError::Stopped { .. } | DeviceError::Stuck { .. }), .. }) => {
            Err(format!("after acceptance: {source}"))
        }
        Err(Error::Task { source: DeviceError::Deadline { .. }, .. }) => Ok(Outcome::Deadline),
        Err(_) => Ok(Outcome::Refused),
    }
}

/// Valid files as a starting point: those of random networks for each configuration, and those given.
pub fn corpus(given: Vec<(String, Vec<u8>)>) -> Vec<File> {
    let mut choices = Seeded::new(2, 0);
    let mut files = given;
    for number in 0..12 {
        let Ok(graph) = network::network(&mut choices) else { continue };
        for config in Config::ALL {
            if let Ok(file) = network::loadable(&graph, config) {
                files.push((format!("random network {number} for {}", config.name), file));
            }
        }
    }
    files.into_iter().filter_map(|(name, bytes)| File::new(&name, bytes)).collect()
}

/// File `number` of a seed, and a description of its changes.
pub fn make(corpus: &[File], seed: u64, number: u64) -> (Vec<u8>, String) {
    let mut choices = Seeded::new(seed, number);
    let file = &corpus[choices.below(corpus.len())];
    let (bytes, changes) = file.mutate(&mut choices);
    (bytes, format!("{}: {changes}", file.name))
}
