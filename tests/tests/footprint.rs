// SPDX-License-Identifier: MIT OR Apache-2.0

//! Every access of the model lies in the footprint that the engine computes from the same registers, and the footprint is no
//! larger than necessary: for every hardware trace of the reference data, and for the tasks of loadables and networks.

use std::collections::BTreeMap;

use nvdla_engine::footprint::Access;
use nvdla_model::operation::Finished;
use nvdla_model::record::Touched;
use nvdla_model::registers::Registers;
use nvdla_tests::hostile::base::corpus;
use nvdla_tests::hostile::{footprint, Bench, Outcome};
use nvdla_tests::reference;
use nvdla_trace::{find, play_observed, Trace};
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};
use nvdla_uapi::reg::values::DataFormat;
use nvdla_uapi::reg::{cdma, Block, Register, Tied, Word};

/// A range of an operation that is more than an atom larger than the model's accesses.
struct Larger<'f> {
    config: &'static Config,
    finished: &'f Finished,
    range: &'f Access,
    /// Bytes before the first one that was touched, and behind the last; `None` where none was touched.
    slack: Option<[u64; 2]>,
}

impl Larger<'_> {
    fn is(&self, register: Register) -> bool {
        self.range.register == register
    }

    fn word<R: Tied>(&self, block: Block) -> Word<R> {
        self.finished.registers(block).map_or(Word::new(0), Registers::read)
    }

    fn atom(&self) -> u64 {
        self.config.memory_atomic.into()
    }
}

/// A reason, and whether it holds.
type Reason = (&'static str, fn(&Larger<'_>) -> bool);

/// Why a range may be larger.
const REASONS: [Reason; 2] = [
    ("the lines of an image begin and end within atoms, and DMA reads whole ones", |larger| {
        larger.range.block == Block::Cdma
            && (larger.is(cdma::D_DAIN_ADDR_LOW_0) || larger.is(cdma::D_DAIN_ADDR_LOW_1))
            && larger.word(Block::Cdma).get(cdma::D_DATAIN_FORMAT::DATAIN_FORMAT) == Some(DataFormat::Pixel)
            && larger.slack.is_some_and(|slack| slack.iter().all(|&bytes| bytes < larger.atom()))
    }),
    ("data or weights are in the convolution buffer already", |larger| {
        let misc = larger.word(Block::Cdma);
        let reused = match larger.range.register {
            cdma::D_DAIN_ADDR_LOW_0 | cdma::D_DAIN_ADDR_LOW_1 => misc.is_set(cdma::D_MISC_CFG::DATA_REUSE),
            _ => misc.is_set(cdma::D_MISC_CFG::WEIGHT_REUSE),
        };
        larger.range.block == Block::Cdma && larger.slack.is_none() && reused
    }),
];

/// The findings about an operation's ranges.
#[derive(Default)]
struct Found {
    ranges: u64,
    /// Ranges that are more than an atom too large, by reason, and without one.
    excused: BTreeMap<&'static str, u64>,
    wrong: Vec<String>,
}

impl Found {
    fn hold(&mut self, name: &str, config: &'static Config, finished: &Finished, touched: &[Touched]) {
        let ranges = match footprint::ranges(config, finished) {
            Ok(ranges) => ranges,
            Err(refusal) => return self.wrong.push(format!("{name}: no footprint: {refusal}")),
        };
        if let Some(what) = footprint::outside(&ranges, touched) {
            self.wrong.push(format!("{name}: {what}"));
        }
        for range in &ranges {
            self.ranges += 1;
            let slack = footprint::slack(range, touched);
            if slack.is_some_and(|[before, behind]| before + behind <= config.memory_atomic.into()) {
                continue;
            }
            let larger = Larger { config, finished, range, slack };
            if let Some((reason, _)) = REASONS.iter().find(|(_, holds)| holds(&larger)) {
                *self.excused.entry(reason).or_default() += 1;
            } else {
                let touched: Vec<_> = touched.iter().take(4).collect();
                self.wrong.push(format!("{name}: {range}: {slack:?} bytes too many; {touched:x?}"));
            }
        }
    }

    fn finish(self, what: &str) {
        println!("{what}: {} ranges", self.ranges);
        for (reason, count) in &self.excused {
            println!("  {count} are larger than what is touched: {reason}");
        }
        let shown: Vec<_> = self.wrong.iter().take(20).map(String::as_str).collect();
        assert!(self.wrong.is_empty(), "{} of {} ranges:\n{}", self.wrong.len(), self.ranges, shown.join("\n"));
    }
}

fn traces(set: &str, config: &'static Config) {
    let Some(reference) = reference::folder() else { return };
    let folders = find(&reference.join("hw-traces").join(set)).unwrap();
    let mut found = Found::default();
    for folder in &folders {
        let trace = Trace::read(folder).unwrap();
        let played =
            play_observed(&trace, config, |finished, touched| found.hold(&trace.name, config, finished, touched));
        if let Err(failure) = played {
            panic!("{}: {failure}", trace.name);
        }
    }
    found.finish(&format!("{set}: {} traces", folders.len()));
}

#[test]
fn traces_of_nv_small() {
    traces("nv_small", &NV_SMALL);
}

#[test]
fn traces_of_nv_large() {
    traces("nv_large", &NV_LARGE);
}

#[test]
fn traces_of_nv_full() {
    traces("nv_full", &NV_FULL);
}

#[test]
fn random_traces_of_nv_full() {
    traces("nv_full_random", &NV_FULL);
}

/// The greatest number of steps of a task that is run here. Larger networks such as ResNet-50 have the same kinds of operations
/// as their smaller versions.
const LARGEST: u64 = 1 << 30;

#[test]
fn tasks_of_loadables_and_networks() {
    let reference = reference::folder();
    for config in [&NV_SMALL, &NV_LARGE, &NV_FULL] {
        let (mut found, mut tasks, mut left_out) = (Found::default(), 0, 0);
        for base in corpus(config, reference.as_deref()).unwrap() {
            if base.steps > LARGEST {
                left_out += 1;
                continue;
            }
            let mut bench = Bench::new(config);
            bench.load(&base);
            let outcome =
                bench.check_with(u64::MAX, &mut |finished, touched| found.hold(&base.name, config, finished, touched));
            assert!(matches!(outcome, Ok(Outcome::Ran(_))), "{}: {outcome:?}", base.name);
            tasks += 1;
        }
        found.finish(&format!("{}: {tasks} tasks, {left_out} larger ones not run", config.name));
    }
}
