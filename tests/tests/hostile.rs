// SPDX-License-Identifier: MIT OR Apache-2.0

//! 20,000 tasks that were valid before a few fields were changed: none violates a rule, and a large part of them is accepted. 400
//! files of which a few bytes were changed: each is refused, or ends in time, or is stopped in time.

use std::collections::BTreeMap;

use nvdla_tests::hostile::base::corpus;
use nvdla_tests::hostile::file;
use nvdla_tests::hostile::run::Plan;
use nvdla_tests::reference::{find, Reference};
use nvdla_uapi::config::{Config, NV_FULL, NV_SMALL};

fn check(config: &'static Config) {
    // Without the reference data there are fewer valid tasks to begin with.
    let reference = match find() {
        Reference::Found(path) => Some(path),
        Reference::Skipped(_) => None,
        Reference::Missing(why) => panic!("{why}"),
    };
    let plan = Plan::new(corpus(config, reference.as_deref()).unwrap(), 1);
    let tally = plan.run(0..10_000, |number, what| println!("task {number}: {what}"));
    println!("{}: {tally}", config.name);
    assert!(tally.violations.is_empty(), "{} violations", tally.violations.len());
    assert!(5 * tally.accepted() >= tally.tasks, "{} of {} tasks were accepted", tally.accepted(), tally.tasks);
}

#[test]
fn nv_small() {
    check(&NV_SMALL);
}

#[test]
fn nv_full() {
    check(&NV_FULL);
}

#[test]
fn files() {
    let corpus = file::corpus(Vec::new());
    let mut outcomes = BTreeMap::<_, u64>::new();
    for number in 0..400 {
        let (bytes, changes) = file::make(&corpus, 3, number);
        let outcome = file::run(bytes).unwrap_or_else(|what| panic!("file {number}: {what} ({changes})"));
        *outcomes.entry(outcome).or_default() += 1;
    }
    println!("{outcomes:?}");
    // Each kind of end but the deadline, which depends on the machine.
    for outcome in [file::Outcome::NotLoaded, file::Outcome::Refused, file::Outcome::Ran] {
        assert!(outcomes.contains_key(&outcome), "{outcomes:?}");
    }
}
