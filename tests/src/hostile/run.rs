// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs many tasks of a seed. Each of them can also be run alone.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;

use super::base::Base;
use super::bench::{Bench, Outcome, Violation};
use super::choices::{Choices, Seeded};
use super::mutate::mutate;

/// The number of consecutive tasks that are made from the same valid one.
const TASKS_PER_BASE: u64 = 256;
/// The greatest number of steps of a task on the model ([`super::steps`]).
const STEPS: u64 = 1 << 21;
/// The greatest numbers of steps and of bytes of a valid task from which others are made.
const LARGEST: (u64, usize) = (1 << 27, 64 << 20);
/// The number of steps and bytes for which a valid task is selected half as often as the smallest ones.
const SMALL: u64 = 1 << 15;

/// The outcomes of many tasks.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The number of tasks.
    pub tasks: u64,
    /// Tasks that ran to their end.
    pub ran: u64,
    /// The number of those with other register values than the valid task.
    pub different: u64,
    /// Tasks that were accepted, but not run because of their size.
    pub too_long: u64,
    /// Tasks that were refused, by kinds of reasons.
    pub refused: BTreeMap<String, u64>,
    /// Violations: the task's number and what it is.
    pub violations: Vec<(u64, String)>,
}

impl Tally {
    /// Tasks that the engine accepted.
    pub fn accepted(&self) -> u64 {
        self.tasks - self.refused.values().sum::<u64>()
    }

    /// Adds the outcomes of another tally.
    pub fn add(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.ran += other.ran;
        self.different += other.different;
        self.too_long += other.too_long;
        for (reason, count) in other.refused {
            *self.refused.entry(reason).or_default() += count;
        }
        self.violations.extend(other.violations);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |count: u64| 100.0 * count as f64 / self.tasks.max(1) as f64;
        let accepted = self.accepted();
        writeln!(f, "{} tasks", self.tasks)?;
        writeln!(f, "{accepted} accepted ({:.1} %)", part(accepted))?;
        writeln!(
            f,
            "  {} ran to their end, {} with other register values than the valid task's",
            self.ran, self.different
        )?;
        writeln!(f, "  {} not run: more steps than the limit", self.too_long)?;
        writeln!(f, "{} refused", self.tasks - accepted)?;
        for (reason, count) in &self.refused {
            writeln!(f, "  {count:>9} {reason}")?;
        }
        write!(f, "{} violations", self.violations.len())
    }
}

/// The valid tasks of a configuration, and how often each is selected.
#[derive(Debug)]
pub struct Plan {
    corpus: Vec<Base>,
    /// For each valid task the sum of the weights up to and including it.
    weights: Vec<u64>,
    seed: u64,
}

impl Plan {
    /// The tasks of a seed, made from these valid tasks.
    pub fn new(mut corpus: Vec<Base>, seed: u64) -> Self {
        corpus.retain(|base| base.steps <= LARGEST.0 && base.bytes() <= LARGEST.1);
        let mut sum = 0;
        let weights = corpus
            .iter()
            .map(|base| {
                sum += (1 << 20) * SMALL / (SMALL + base.steps + base.bytes() as u64 / 4);
                sum
            })
            .collect();
        Self { corpus, weights, seed }
    }

    /// The valid tasks.
    pub fn corpus(&self) -> &[Base] {
        &self.corpus
    }

    /// The valid task from which task `number` is made. Many consecutive tasks are made from the same one.
    pub fn base(&self, number: u64) -> &Base {
        &self.corpus[self.position(number)]
    }

    fn position(&self, number: u64) -> usize {
        let mut choices = Seeded::new(self.seed ^ 0x5eed, number / TASKS_PER_BASE);
        let total = self.weights.last().copied().unwrap_or(0);
        let at = choices.number() % total.max(1);
        self.weights.partition_point(|&sum| sum <= at)
    }

    /// Makes task `number` from the valid task in `bench`, and returns a description of its changes.
    pub fn make(&self, number: u64, bench: &mut Bench) -> Vec<String> {
        mutate(bench, self.base(number), &self.corpus, &mut Seeded::new(self.seed, number))
    }

    /// The changes of task `number`, and the valid task from which it is made.
    pub fn describe(&self, number: u64) -> String {
        let base = self.base(number);
        let mut bench = Bench::new(base.config);
        bench.load(base);
        let changes = self.make(number, &mut bench);
        format!("{}: {}", base.name, changes.join("; "))
    }

    /// Checks tasks. `violation` is called immediately for each violation.
    pub fn run(&self, numbers: Range<u64>, mut violation: impl FnMut(u64, &str)) -> Tally {
        let mut tally = Tally::default();
        let mut benches: HashMap<usize, (Bench, Option<u64>)> = HashMap::new();
        for number in numbers {
            let at = self.position(number);
            let base = &self.corpus[at];
            // The memories of large tasks are not kept.
            if benches.len() > 1 && base.bytes() > 1 << 20 {
                benches.clear();
            }
            let (bench, valid) = benches.entry(at).or_insert_with(|| {
                let mut bench = Bench::new(base.config);
                bench.load(base);
                let valid = match bench.check(u64::MAX) {
                    Ok(Outcome::Ran(registers)) => Some(registers),
                    Ok(_) => None,
                    Err(Violation(what)) => {
                        let what = format!("{}, unchanged: {what}", base.name);
                        violation(number, &what);
                        tally.violations.push((number, what));
                        None
                    }
                };
                bench.restore(base);
                (bench, valid)
            });
            let changes = self.make(number, bench);
            tally.tasks += 1;
            match bench.check(STEPS.max(2 * base.steps)) {
                Ok(Outcome::Refused(reason)) => *tally.refused.entry(reason).or_default() += 1,
                Ok(Outcome::TooLong) => tally.too_long += 1,
                Ok(Outcome::Ran(registers)) => {
                    tally.ran += 1;
                    tally.different += u64::from(*valid != Some(registers));
                }
                Err(Violation(what)) => {
                    let what = format!("{what}\n  {}: {}", base.name, changes.join("; "));
                    violation(number, &what);
                    tally.violations.push((number, what));
                }
            }
            bench.restore(base);
        }
        tally
    }
}
