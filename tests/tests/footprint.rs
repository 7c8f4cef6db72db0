// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the model touches lies in the footprint that the engine computes from the same registers, and the footprint is no
//! larger than it must be: for every hardware trace of the reference data, and for the tasks of loadables and networks.

use std::collections::BTreeMap;
use std::sync::Mutex;

use nvdla_engine::footprint::Access;
use nvdla_model::record::Touched;
use nvdla_model::work::Finished;
use nvdla_tests::hostile::base::corpus;
use nvdla_tests::hostile::{footprint, Bench, Outcome};
use nvdla_tests::reference;
use nvdla_trace::{find, play_observed, Trace};
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};
use nvdla_uapi::reg::values::WeightFormat;
use nvdla_uapi::reg::{cdma, sdp, Block};

/// Why a range may be more than an atom larger than what the model touched: for each reason, whether it holds for a range
/// of an operation.
const REASONS: [(&str, fn(&Finished, &Access) -> bool); 0] = [];

/// What was found about an operation's ranges.
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
            if slack.is_some_and(|slack| slack <= u64::from(config.memory_atomic)) {
                continue;
            }
            match REASONS.iter().find(|(_, holds)| holds(finished, range)) {
                Some((reason, _)) => *self.excused.entry(reason).or_default() += 1,
                None => {
                    let touched: Vec<_> = touched.iter().take(4).collect();
                    self.wrong.push(format!("{name}: {range}: {slack:?} bytes too many; {touched:x?}"));
                }
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
        let played = play_observed(&trace, config, |finished, touched| found.hold(&trace.name, config, finished, touched));
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

/// Steps of the largest tasks that are run here; those of ResNet-50 and its like are as their smaller ones.
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
