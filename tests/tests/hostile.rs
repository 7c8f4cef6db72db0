// SPDX-License-Identifier: MIT OR Apache-2.0

//! 20,000 tasks that were valid before a few fields were changed: no violation, and enough of them are accepted for that to
//! mean something.

use nvdla_tests::hostile::base::corpus;
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
