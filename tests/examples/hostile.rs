// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submits many tasks that were valid before a few fields were changed, and fails on any violation:
//! `cargo run --release -p nvdla-tests --example hostile -- --config nv_small --tasks 1000000 --seed 1`.
//!
//! A violation's number runs that task alone: `--only NUMBER`, with the same seed and reference data.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use nvdla_tests::hostile::base::corpus;
use nvdla_tests::hostile::run::{Plan, Tally};
use nvdla_tests::reference::{find, Reference};
use nvdla_uapi::config::Config;

/// Tasks after which progress is printed, if enough time has passed.
const ROUND: u64 = 4096;

const USAGE: &str = "usage: hostile --config NAME [--tasks COUNT] [--seed NUMBER] [--from NUMBER] [--only NUMBER]";

struct Arguments {
    config: &'static Config,
    tasks: u64,
    seed: u64,
    from: u64,
    only: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments { config: &nvdla_uapi::config::NV_SMALL, tasks: 100_000, seed: 1, from: 0, only: false };
    let mut list = std::env::args().skip(1);
    while let Some(option) = list.next() {
        let value = list.next().ok_or(USAGE)?;
        let number = || value.parse::<u64>().map_err(|error| format!("{option} {value}: {error}"));
        match option.as_str() {
            "--config" => found.config = Config::by_name(&value).ok_or(format!("there is no {value}"))?,
            "--tasks" => found.tasks = number()?,
            "--seed" => found.seed = number()?,
            "--from" => found.from = number()?,
            "--only" => (found.from, found.tasks, found.only) = (number()?, 1, true),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(found)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("hostile: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, String> {
    let Arguments { config, tasks, seed, from, only } = arguments()?;
    let reference = match find() {
        Reference::Found(path) => Some(path),
        Reference::Skipped(why) | Reference::Missing(why) => {
            println!("without the reference data: {why}");
            None
        }
    };
    let plan = Plan::new(corpus(config, reference.as_deref())?, seed);
    println!("{}: {} valid tasks, seed {seed}", config.name, plan.corpus().len());
    if only {
        println!("{}", plan.describe(from));
    } else {
        // Panics are counted, not printed where they happen.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let (started, mut printed) = (Instant::now(), Duration::ZERO);
    let mut tally = Tally::default();
    let end = from + tasks;
    for first in (from..end).step_by(ROUND as usize) {
        let round = first..end.min(first + ROUND);
        tally.add(plan.run(round, |number, what| println!("violation in task {number}: {what}")));
        if started.elapsed() > printed + Duration::from_secs(60) {
            printed = started.elapsed();
            let each = tally.tasks as f64 / printed.as_secs_f64();
            println!(
                "{} tasks, {:.0} per second, {} accepted, {} violations",
                tally.tasks,
                each,
                tally.accepted(),
                tally.violations.len()
            );
        }
    }
    println!("{tally}");
    println!("{:.0} s", started.elapsed().as_secs_f64());
    Ok(tally.violations.is_empty())
}
