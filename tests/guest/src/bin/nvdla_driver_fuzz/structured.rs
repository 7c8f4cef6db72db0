// SPDX-License-Identifier: MIT OR Apache-2.0

//! `--structured`: submits valid tasks of which one to three fields were changed (`nvdla_tests::hostile`) through the ioctls.
//!
//! The driver must accept a task if and only if the engine that is compiled into this program accepts it. An accepted task must
//! succeed, because the device does not fail here. Buffers and submissions have random flags, which must not matter. A task may wait
//! for fences, and must not end before they have signalled.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nvdla_guest::control::Control;
use nvdla_guest::drm::{sync_import, sync_object};
use nvdla_guest::fence::Timeline;
use nvdla_guest::node::{nodes, Buffer, Node, Options};
use nvdla_tests::hostile::base::own;
use nvdla_tests::hostile::run::Plan;
use nvdla_tests::hostile::{Base, Bench};
use nvdla_tests::random::Random;
use nvdla_uapi::config::Config;
use nvdla_uapi::queue::{Address, Sync, ACCESS_END, ACCESS_WRITE, ADDRESS_READ, ADDRESS_WRITE, GEM_CREATE_CACHED};

use crate::arguments::{Arguments, Outcome, RANGES};
use crate::tally::{Count, Tally};

/// The number of random networks with tasks to change. Compiling takes time in a virtual machine.
const NETWORKS: usize = 12;
/// The model's steps for a valid and for a changed task, so that each takes a fraction of a second.
const STEPS: u64 = 1 << 21;
/// The greatest size of a task's memories in bytes. All are rewritten for each task.
const BYTES: usize = 256 << 10;
/// Seconds within which an accepted task must end.
const SECONDS: u64 = 60;

/// A valid task in buffers of an open file.
struct Loaded {
    node: Node,
    buffers: Vec<Buffer>,
    /// A synchronisation object that signals the end of a task.
    after: u32,
    /// Two that a task waits for, the second as a timeline.
    before: [u32; 2],
    /// Where their fences are, and how many it has had.
    timeline: Timeline,
    fences: u32,
}

impl Loaded {
    fn new(
        base: &Base,
        path: &std::path::Path,
        program: usize,
        random: &mut Random,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let node = Node::open(path)?;
        let control = Control::open(&node.device()?)?;
        let mut buffers = Vec::new();
        for (entry, bytes) in base.areas.iter().enumerate() {
            let mut buffer = node.buffer_with(bytes.len(), random.pick(&[0, GEM_CREATE_CACHED]))?;
            control.allow_buffer(program * RANGES + entry, &mut buffer.map[..bytes.len()])?;
            buffers.push(buffer);
        }
        for entry in base.areas.len()..RANGES {
            control.allow(program * RANGES + entry, 0, 0);
        }
        let [after, first, second] = [sync_object(node.fd())?, sync_object(node.fd())?, sync_object(node.fd())?];
        Ok(Self { node, buffers, after, before: [first, second], timeline: Timeline::new()?, fences: 0 })
    }

    /// Submits the task in the bench. Returns `None` if the driver refuses it, else its status.
    fn submit(
        &mut self,
        bench: &Bench,
        tally: &Tally,
        random: &mut Random,
    ) -> Result<Option<i32>, Box<dyn std::error::Error>> {
        for (buffer, bytes) in self.buffers.iter_mut().zip(bench.areas()) {
            self.node.access(buffer.handle, ACCESS_WRITE, u64::MAX >> 1)?;
            buffer.map.copy_from_slice(bytes);
            self.node.access(buffer.handle, ACCESS_WRITE | ACCESS_END, 0)?;
        }
        let address = |&(area, offset, _): &(usize, u64, u64)| {
            let flags = random.pick(&[0, 0, ADDRESS_READ, ADDRESS_WRITE]);
            Address { handle: self.buffers[area].handle, flags, offset }
        };
        let addresses: Vec<_> = bench.entries.iter().map(address).collect();
        self.fences += 1;
        let fence = self.timeline.fence(self.fences)?;
        let fences = [fence.as_raw_fd(); 2];
        let before = [
            Sync { handle: self.before[0], ..Sync::default() },
            Sync { handle: self.before[1], point: self.fences.into(), ..Sync::default() },
        ];
        let after = [Sync { handle: self.after, ..Sync::default() }];
        let options = Options {
            in_fences: &fences[..random.pick(&[0, 0, 1, 2])],
            in_syncs: &before[..random.pick(&[0, 0, 1, 2])],
            out_fence: random.one_in(3),
            urgent: random.one_in(3),
            out_syncs: if random.one_in(3) { &after } else { &[] },
            ..Options::default()
        };
        for sync in options.in_syncs {
            sync_import(self.node.fd(), sync.handle, sync.point, fence.as_raw_fd())?;
        }
        let waits = !(options.in_fences.is_empty() && options.in_syncs.is_empty());
        // The fence signals before the submission or after it.
        let late = random.one_in(2);
        if !late {
            self.timeline.advance(1)?;
        }
        tally.add(Count::Calls);
        let submitted = self.node.submit(&[&addresses], options);
        let mut is_early = false;
        if late {
            if let (true, Ok(submitted)) = (waits, &submitted) {
                is_early = self.node.wait_until(submitted.sequence, 0) != Err(Errno::ETIMEDOUT);
            }
            self.timeline.advance(1)?;
        }
        match submitted {
            Ok(_) if is_early => Err("it ended before the fence that it waits for".into()),
            Ok(submitted) => {
                tally.add(Count::Taken);
                tally.add(Count::Calls);
                Ok(Some(self.node.wait(submitted.sequence, SECONDS)?))
            }
            Err(Errno::EINVAL) => {
                tally.add(Count::Refused);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Submits tasks until the time is over.
pub(crate) fn run(arguments: &Arguments, program: usize) -> Outcome {
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let path = nodes().into_iter().next().ok_or("there is no device")?;
    let config = Config::by_name(&Node::open(&path)?.config()?).ok_or("an unknown configuration")?;
    let mut corpus: Vec<Base> = own(config, NETWORKS)?.into_iter().map(Base::in_pages).collect();
    corpus.retain(|base| base.steps <= STEPS && base.bytes() <= BYTES && base.areas.len() <= RANGES);
    let (plan, tally) = (Plan::new(corpus, arguments.seed), Tally::open()?);
    let (mut bench, mut number) = (Bench::new(config), 0);
    let mut random = Random::new(arguments.seed);
    while Instant::now() < end {
        let base = plan.base(number);
        bench.load(base);
        let mut loaded = Loaded::new(base, &path, program, &mut random)?;
        tally.add(Count::Opened);
        // The valid task first.
        let mut changes = vec!["unchanged".to_owned()];
        loop {
            if let Err(what) = check(&mut loaded, &bench, &tally, &mut random) {
                tally.add(Count::Badly);
                eprintln!("task {number} of seed {}, {}: {}: {what}", arguments.seed, base.name, changes.join("; "));
            }
            if !std::ptr::eq(plan.base(number), base) || Instant::now() > end {
                break;
            }
            bench.restore(base);
            changes = plan.make(number, &mut bench);
            number += 1;
            for (area, offset, size) in &mut bench.entries {
                *size = base.areas[*area].len() as u64 - *offset;
            }
        }
    }
    Ok(())
}

/// Submits a task. The error says what is wrong with the driver's answer.
fn check(loaded: &mut Loaded, bench: &Bench, tally: &Tally, random: &mut Random) -> Result<(), String> {
    let verdict = bench.verdict();
    if verdict.as_ref().is_ok_and(|&steps| steps > STEPS) {
        return Ok(());
    }
    let answer = loaded.submit(bench, tally, random).map_err(|error| error.to_string())?;
    match (verdict, answer) {
        (Ok(_), Some(0)) => {
            tally.add(Count::Well);
            Ok(())
        }
        (Err(_), None) => Ok(()),
        (Ok(_), None) => Err("the engine accepts it, and the driver does not".into()),
        (Ok(_), Some(status)) => Err(format!("it was accepted, and ended with {status}")),
        (Err(reason), Some(status)) => {
            Err(format!("the engine refuses it ({reason}), and the driver ran it: {status}"))
        }
    }
}
