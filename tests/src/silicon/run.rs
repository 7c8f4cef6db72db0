// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs many tasks of a seed on the model and on the RTL. Each of them can also be run alone.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use nvdla_compiler::options::Options;
use nvdla_compiler::pipeline::compile;
use nvdla_engine::{Error, Slot, Task, TaskMemory};
use nvdla_estimate::{Memory, Shape};
use nvdla_runtime::loadable::Loadable;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{CommonOp, Descriptor, Network, Operation, Stat, Surface, Wire};
use nvdla_uapi::reg::values::Precision;

use super::estimates::{self, Entry, Row, Summary};
use super::{graphs, order, poolings, rtl::Rtl};
use crate::build::every_unit;
use crate::graphs::{random_graph, ranges};
use crate::hostile::base::Base;
use crate::hostile::bench::{Bench, Outcome, Violation};
use crate::hostile::choices::{Choices, Seeded};
use crate::hostile::mutate::mutate;
use crate::hostile::network;

/// Consecutive tasks that are made from the same valid one. The first of them is that task.
const TASKS_PER_BASE: u64 = 4;
/// Networks that are tried for a valid task.
const TRIES: u64 = 64;
/// The deadline is this many times the estimate, and these cycles: the time of register accesses, and of the clearing of the
/// convolution buffer after reset.
const DEADLINE: (u64, u64) = (4, 30_000);

/// What happened to a task.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The engine refused it.
    Refused,
    /// The estimate is above the limit for a task, so it was not run.
    TooLong,
    /// It ran and gave the model's bytes.
    Equal {
        /// Its cycles.
        cycles: u64,
        /// Its operations beside their estimates.
        rows: Vec<Row>,
    },
    /// Its operations access the same bytes in no fixed order, and its bytes differ from the model's.
    Races,
    /// It broke a condition.
    Failed(String),
}

/// The verdicts on many tasks.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Tasks that were made.
    pub tasks: u64,
    /// Accepted tasks that ran on the RTL with the model's bytes.
    pub equal: u64,
    /// The number of those that are networks of the compiler, unchanged.
    pub unchanged: u64,
    /// Cycles of the RTL.
    pub cycles: u64,
    /// Refused tasks.
    pub refused: u64,
    /// Accepted tasks that were not run.
    pub too_long: u64,
    /// Accepted tasks with other bytes than the model's, whose operations race.
    pub races: u64,
    /// Failures: number and reason.
    pub failures: Vec<(u64, String)>,
    /// Operations beside their estimates.
    pub rows: Vec<Row>,
}

impl Tally {
    /// Accepted tasks that ran on the RTL.
    pub fn ran(&self) -> u64 {
        self.equal + self.races + self.failures.len() as u64
    }

    /// Adds another tally.
    pub fn add(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.equal += other.equal;
        self.unchanged += other.unchanged;
        self.cycles += other.cycles;
        self.refused += other.refused;
        self.too_long += other.too_long;
        self.races += other.races;
        self.failures.extend(other.failures);
        self.rows.extend(other.rows);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tasks, equal, unchanged, cycles, refused, too_long, races, failures, rows } = self;
        writeln!(f, "{tasks} tasks: {refused} refused, {too_long} accepted and not run because of their size")?;
        writeln!(f, "{} accepted and run on the RTL, {cycles} cycles", self.ran())?;
        writeln!(f, "  {equal} gave the model's bytes, {unchanged} of them networks of the compiler")?;
        writeln!(f, "  {races} gave other bytes, and their operations race")?;
        write!(f, "{}{} failures", Summary(rows), failures.len())
    }
}

/// The tasks of a seed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The configuration.
    pub config: &'static Config,
    /// The seed.
    pub seed: u64,
    /// The most cycles of a task, by the estimate.
    pub most: u64,
}

impl Plan {
    /// The valid task from which task `number` is made.
    pub fn base(&self, number: u64) -> Option<Base> {
        let group = number / TASKS_PER_BASE;
        for attempt in 0..TRIES {
            let mut choices = Seeded::new(self.seed ^ 0x51_1c0, group * TRIES + attempt);
            let found = match choices.below(12) {
                0 => {
                    let precisions = self.config.feature_types;
                    let precision: Precision = precisions[choices.below(precisions.len())];
                    let task = every_unit(self.config, precision).task();
                    Base::new(&format!("every unit, {precision:?}"), self.config, &task)
                }
                1 => Base::new("two poolings", self.config, &poolings::pair(self.config, &mut choices).task()),
                kind => {
                    let file = if kind < 4 {
                        self.any_operators(choices.number())
                    } else {
                        let graph = graphs::network(self.config, &mut choices).ok();
                        graph.and_then(|graph| network::loadable(&graph, self.config).ok())
                    };
                    let loadable = file.and_then(|file| Loadable::from_bytes(file).ok());
                    let bases = loadable.map(|loadable| Base::of_loadable("network", self.config, &loadable));
                    let mut bases = bases.unwrap_or_default();
                    (bases.len() == 1).then(|| bases.remove(0))
                }
            };
            let Some(mut base) = found else { continue };
            // Tasks that would be too long are not worth a change.
            let mut bench = Bench::new(self.config);
            bench.load(&base);
            if estimate(self.config, &bench) > self.most {
                continue;
            }
            base = base.in_pages();
            for bytes in base.areas.iter_mut().filter(|bytes| bytes.iter().all(|&byte| byte == 0)) {
                // Small numbers as well as large ones.
                let mask = [0xff, 0x1f, 0x7f][choices.below(3)];
                for byte in bytes.iter_mut() {
                    *byte = (choices.number() as u8 & mask).wrapping_sub(mask / 2);
                }
            }
            return Some(base);
        }
        None
    }

    /// The loadable of a random graph of all operators.
    fn any_operators(&self, seed: u64) -> Option<Vec<u8>> {
        let (graph, inputs) = random_graph(seed, self.config);
        let options = Options { inputs, ..Options::new(self.config) };
        Some(compile(&graph, &ranges(&graph), &options).ok()?.loadable)
    }

    /// Loads task `number` into the bench, and returns a description.
    pub fn make(&self, number: u64, base: &Base, bench: &mut Bench) -> String {
        bench.load(base);
        if number.is_multiple_of(TASKS_PER_BASE) {
            return format!("{}, unchanged", base.name);
        }
        let changes = mutate(bench, base, std::slice::from_ref(base), &mut Seeded::new(self.seed, number));
        format!("{}: {}", base.name, changes.join("; "))
    }

    /// Runs tasks. `failed` is called for each failure.
    pub fn run(&self, numbers: Range<u64>, rtl: &mut Rtl, mut failed: impl FnMut(u64, &str)) -> Tally {
        let mut tally = Tally::default();
        let mut last: Option<(u64, Option<Base>)> = None;
        for number in numbers {
            let group = number / TASKS_PER_BASE;
            if last.as_ref().is_none_or(|(of, _)| *of != group) {
                last = Some((group, self.base(number)));
            }
            let Some(base) = last.as_ref().and_then(|(_, base)| base.as_ref()) else { continue };
            let mut bench = Bench::new(self.config);
            let what = self.make(number, base, &mut bench);
            tally.tasks += 1;
            match self.judge(number.is_multiple_of(TASKS_PER_BASE), &mut bench, rtl) {
                Verdict::Refused => tally.refused += 1,
                Verdict::TooLong => tally.too_long += 1,
                Verdict::Races => tally.races += 1,
                Verdict::Equal { cycles, rows } => {
                    tally.equal += 1;
                    tally.rows.extend(rows.into_iter().map(|row| Row { task: number, ..row }));
                    tally.cycles += cycles;
                    tally.unchanged += u64::from(number.is_multiple_of(TASKS_PER_BASE));
                }
                Verdict::Failed(why) => {
                    let text = format!("{why}\n  {what}");
                    failed(number, &text);
                    tally.failures.push((number, text));
                }
            }
        }
        tally
    }

    /// Runs the task in the bench on the model and on the RTL.
    pub fn judge(&self, unchanged: bool, bench: &mut Bench, rtl: &mut Rtl) -> Verdict {
        let allocate = |count| Ok::<_, Error>(vec![Slot::Empty; count]);
        let Ok(task) = Task::parse(self.config, bench, allocate) else { return Verdict::Refused };
        let estimate = estimate(self.config, bench);
        if estimate > 2 * self.most {
            return Verdict::TooLong;
        }
        let (mut allowed, mut written) = (Vec::new(), Vec::new());
        for operation in task.iter() {
            operation.accesses(self.config, |access| {
                allowed.push(access.start..access.end);
                if access.write {
                    written.push((operation.index(), operation.op_type(), access.start..access.end));
                }
            });
        }
        let conflict = order::conflict(self.config, &task, bench);
        let statistics = statistics(bench);
        let entries = entries(bench);
        let mut areas = bench.memories().to_vec();
        match bench.check(u64::MAX) {
            Ok(Outcome::Ran(_)) => {}
            Ok(_) => return Verdict::Failed("the model's engine does not take the task".into()),
            Err(Violation(what)) => return Verdict::Failed(format!("on the model: {what}")),
        }
        let limit = DEADLINE.0 * estimate + DEADLINE.1;
        let ran = match rtl.run(task, &mut areas, &allowed, limit) {
            Ok(ran) => ran,
            Err(trouble) => return Verdict::Failed(trouble.to_string()),
        };
        for ((address, model), (_, silicon)) in bench.memories().iter().zip(&areas) {
            let mut pairs = model.iter().zip(silicon).zip(*address..);
            let found = pairs.find(|((a, b), address)| a != b && !statistics.contains(address));
            let Some(((a, b), at)) = found else { continue };
            // The next task is not to suffer from what this one may have left.
            rtl.reset();
            if conflict.is_some() && !unchanged {
                return Verdict::Races;
            }
            let differs = |range: &Range<u64>| {
                let part = |bytes: &[u8]| {
                    let [start, end] = [range.start, range.end].map(|end| end.saturating_sub(*address) as usize);
                    bytes.get(start.min(bytes.len())..end.min(bytes.len())).unwrap_or_default().to_vec()
                };
                part(model) != part(silicon)
            };
            let mut over: Vec<_> = written.iter().filter(|(.., range)| differs(range)).collect();
            over.dedup_by_key(|(index, ..)| *index);
            let over: Vec<_> = over.iter().map(|(index, unit, _)| format!("{index} ({unit})")).collect();
            return Verdict::Failed(format!(
                "other bytes: {b:#04x} on the RTL and {a:#04x} on the model at {at:#x}; where these write: {}",
                over.join(", ")
            ));
        }
        let rows = estimates::compare(self.config, &memory(self.config), &entries, &ran.operations);
        Verdict::Equal { cycles: ran.cycles, rows }
    }
}

/// The task's network descriptor.
fn network(memory: &dyn TaskMemory) -> Option<Network> {
    let mut bytes = [0; Network::SIZE];
    memory.read(0, 0, &mut bytes).ok()?;
    Network::parse(&bytes).ok()
}

/// The addresses of its statistics, which contain counters of time.
fn statistics(memory: &dyn TaskMemory) -> Range<u64> {
    let found = network(memory).and_then(|network| {
        let start = memory.buffer(usize::try_from(network.stat_list_index).ok()?)?.address;
        let operations = u64::from(network.num_operations) * u64::from(network.num_rois).max(1);
        Some(start..start + operations * Stat::SIZE as u64)
    });
    found.unwrap_or_default()
}

/// The operations of a task's first region.
pub fn entries(memory: &dyn TaskMemory) -> Vec<Entry> {
    let Some(network) = network(memory) else { return Vec::new() };
    let read = |index: usize| {
        let mut common = [0; CommonOp::SIZE];
        memory.read(network.dependency_graph_index as usize, (index * CommonOp::SIZE) as u64, &mut common).ok()?;
        let common = CommonOp::parse(&common).ok()?;
        let mut bytes = [0; Operation::SIZE];
        memory.read(network.operation_desc_index as usize, (index * Operation::SIZE) as u64, &mut bytes).ok()?;
        let operation = Operation::parse(common.op_type, &bytes).ok()?;
        let mut bytes = [0; Surface::SIZE];
        memory.read(network.surface_desc_index as usize, (index * Surface::SIZE) as u64, &mut bytes).ok()?;
        let surface = Surface::parse(common.op_type, &bytes).ok()?;
        let parent = common.fused_parent.and_then(|parent| usize::try_from(parent.index).ok());
        Some(Entry { operation, surface, parent })
    };
    (0..usize::from(network.num_operations)).filter_map(read).collect()
}

/// The simulator's memory: its usual latency, and the width of the bus in each direction.
fn memory(config: &Config) -> Memory {
    Memory::new(config, 50, f64::from(config.primary.width / 4))
}

/// The estimated cycles of the operations of a task, one after another.
pub fn estimate(config: &Config, task: &dyn TaskMemory) -> u64 {
    let regions = network(task).map_or(1, |network| u64::from(network.num_rois).max(1));
    let each = entries(task).into_iter().map(|entry| {
        let shape = Shape::from_descriptors(&entry.operation, &entry.surface);
        shape.map_or(0, |shape| shape.estimate(config, &memory(config)).cycles)
    });
    each.fold(0, u64::saturating_add).saturating_mul(regions)
}

/// Reasons of failures without their numbers, and how often each came.
pub fn kinds(failures: &[(u64, String)]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for (_, text) in failures {
        let line = text.lines().next().unwrap_or_default();
        let kind: String = line.chars().filter(|c| !c.is_ascii_digit()).take(160).collect();
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}
