// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs random tasks that the engine accepts on a simulator of the RTL, and fails where one does not end, gives other bytes than the
//! model, accesses other memory than its footprint, or fires an assertion of the Verilog:
//! `cargo run --release -p nvdla-tests --example silicon -- --config nv_small --rtl target/nvdla_rtl_nv_small --tasks 200 --seed 1`.
//!
//! `--tasks` counts accepted tasks that were run. `--jobs` starts several simulators. `--only NUMBER` runs one task of a seed.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use nvdla_rtl::Selection;
use nvdla_tests::hostile::Bench;
use nvdla_tests::silicon::run::{entries, kinds};
use nvdla_tests::silicon::{Plan, Rtl, Tally};
use nvdla_uapi::config::{Config, NV_SMALL};

/// Tasks of one round of a job.
const ROUND: u64 = 16;

const USAGE: &str =
    "usage: silicon --config NAME --rtl PROGRAM [--tasks COUNT] [--seed NUMBER] [--from NUMBER] [--most CYCLES] \
                     [--jobs COUNT] [--only NUMBER]";

struct Arguments {
    config: &'static Config,
    rtl: Selection,
    tasks: u64,
    seed: u64,
    from: u64,
    most: u64,
    jobs: usize,
    only: Option<u64>,
}

fn arguments() -> Result<Arguments, String> {
    let rtl = Selection::default();
    let mut found = Arguments { config: &NV_SMALL, rtl, tasks: 200, seed: 1, from: 0, most: 8000, jobs: 1, only: None };
    let mut list = std::env::args().skip(1);
    while let Some(option) = list.next() {
        let value = list.next().ok_or(USAGE)?;
        let number = || value.parse::<u64>().map_err(|error| format!("{option} {value}: {error}"));
        match option.as_str() {
            "--config" => found.config = Config::by_name(&value).ok_or(format!("there is no {value}"))?,
            "--rtl" => found.rtl = value.parse().map_err(|error: nvdla_rtl::SelectionError| error.to_string())?,
            "--tasks" => found.tasks = number()?,
            "--seed" => found.seed = number()?,
            "--from" => found.from = number()?,
            "--most" => found.most = number()?,
            "--jobs" => found.jobs = number()? as usize,
            "--only" => found.only = Some(number()?),
            _ => return Err(USAGE.into()),
        }
    }
    if found.rtl.program.as_os_str().is_empty() {
        return Err(USAGE.into());
    }
    Ok(found)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("silicon: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, String> {
    let Arguments { config, rtl, tasks, seed, from, most, jobs, only } = arguments()?;
    let start = || {
        let rtl = Rtl::start(&rtl)?;
        if rtl.config().name != config.name {
            return Err(format!("the simulator is of {}, not of {}", rtl.config().name, config.name));
        }
        Ok(rtl)
    };
    let plan = Plan { config, seed, most };
    if let Some(number) = only {
        let base = plan.base(number).ok_or("no such task")?;
        let mut bench = Bench::new(config);
        println!("{}", plan.make(number, &base, &mut bench));
        for (index, entry) in entries(&bench).iter().enumerate() {
            println!("{index}: {:?}\n   {:?}", entry.operation, entry.surface);
        }
        let tally = plan.run(number..number + 1, &mut start()?, |_, what| println!("{what}"));
        println!("{tally}");
        return Ok(tally.failures.is_empty());
    }
    // Panics of the model are counted, not printed where they happen.
    std::panic::set_hook(Box::new(|_| {}));
    let (started, next, total) = (Instant::now(), AtomicU64::new(from), Mutex::new(Tally::default()));
    let work = |mut rtl: Rtl| loop {
        let first = next.fetch_add(ROUND, Ordering::Relaxed);
        let tally = plan.run(first..first + ROUND, &mut rtl, |number, what| println!("task {number}: {what}"));
        let Ok(mut total) = total.lock() else { return };
        total.add(tally);
        if total.tasks % 512 < ROUND {
            println!(
                "{:.0} s: {} run, {} equal, {} race, {} failures, {} cycles",
                started.elapsed().as_secs_f64(),
                total.ran(),
                total.equal,
                total.races,
                total.failures.len(),
                total.cycles
            );
        }
        if total.ran() >= tasks {
            return;
        }
    };
    let simulators = (0..jobs.max(1)).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| simulators.into_iter().for_each(|rtl| drop(scope.spawn(|| work(rtl)))));
    let tally = total.into_inner().map_err(|error| error.to_string())?;
    println!("{}, seed {seed}: {tally}", config.name);
    for (kind, count) in kinds(&tally.failures) {
        println!("  {count:>5} {kind}");
    }
    println!("{:.0} s", started.elapsed().as_secs_f64());
    Ok(tally.failures.is_empty())
}
