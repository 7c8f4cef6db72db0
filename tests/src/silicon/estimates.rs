// SPDX-License-Identifier: MIT OR Apache-2.0

//! The estimate of each operation beside its cycles on the RTL. Operations that are connected on the fly run together, so they are
//! compared together.

use std::collections::BTreeMap;
use std::fmt;

use nvdla_estimate::{pipeline, Memory, Shape};
use nvdla_model::simulation::Measured;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{OpType, Operation, Surface};

/// Shorter operations consist mostly of the cycles of their starts and ends.
const LONG: u64 = 500;
/// The most by which the estimate of a long operation may be off, in percent.
const OFF: u64 = 15;

/// Operations that are connected on the fly, or one operation.
#[derive(Clone, Debug)]
pub struct Row {
    /// The units.
    pub units: String,
    /// The task's number, and the position of the first operation.
    pub task: u64,
    /// The position of the first operation.
    pub operation: usize,
    /// Its estimated cycles.
    pub estimate: u64,
    /// Its cycles on the RTL.
    pub measured: u64,
}

impl Row {
    /// Whether it is long, and the estimate is off by more than 15 %.
    pub fn is_off(&self) -> bool {
        self.measured > LONG && self.estimate.abs_diff(self.measured) * 100 > OFF * self.measured
    }
}

/// An operation of a task.
pub struct Entry {
    /// Its descriptors.
    pub operation: Operation,
    /// Its surfaces.
    pub surface: Surface,
    /// The operation that takes its output on the fly.
    pub parent: Option<usize>,
}

/// The rows of a task that has run. Operations during which another one ran have none, because they share the memory.
pub fn compare(
    config: &Config,
    memory: &Memory,
    entries: &[Entry],
    ran: &[(u32, OpType, Option<Measured>)],
) -> Vec<Row> {
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for index in 0..entries.len() {
        let (mut last, mut steps) = (index, 0);
        while let Some(next) = entries[last].parent.filter(|&next| next < entries.len() && steps < 3) {
            (last, steps) = (next, steps + 1);
        }
        groups.entry(last).or_default().push(index);
    }
    let mut all = Vec::new();
    for members in groups.values() {
        let measured =
            |index: &usize| ran.iter().find(|(of, ..)| *of as usize == *index).and_then(|(.., cycles)| *cycles);
        let Some(times) = members.iter().map(measured).collect::<Option<Vec<_>>>() else { continue };
        let first = members.iter().position(|&index| matches!(entries[index].operation, Operation::Conv(_)));
        let start = first.map_or(times.iter().map(|time| time.start).min(), |at| Some(times[at].start));
        let (Some(start), Some(end)) = (start, times.iter().map(|time| time.end).max()) else { continue };
        let earliest = times.iter().map(|time| time.start).min().unwrap_or(start);
        all.push((members, earliest.min(start), start, end));
    }
    let mut rows = Vec::new();
    for (at, (members, _, start, end)) in all.iter().enumerate() {
        let beside =
            |(other, (.., from, to)): (usize, &(&Vec<usize>, u64, u64, u64))| other != at && from < end && start < to;
        if all.iter().enumerate().any(beside) {
            continue;
        }
        let (mut conv, mut sdp, mut pdp, mut other) = (None, None, None, None);
        let mut units = Vec::new();
        for &&index in &members.iter().collect::<Vec<_>>() {
            let entry = &entries[index];
            units.push(entry.operation.op_type().to_string());
            match Shape::from_descriptors(&entry.operation, &entry.surface) {
                Some(Shape::Conv(shape)) => conv = Some(shape),
                Some(Shape::Sdp(shape)) => sdp = Some(shape),
                Some(Shape::Pdp(shape)) => pdp = Some(shape),
                shape => other = shape,
            }
        }
        let estimate = match other {
            Some(shape) => shape.estimate(config, memory),
            None => pipeline(conv.as_ref(), sdp.as_ref(), pdp.as_ref(), config, memory),
        };
        let estimate = estimate.cycles.saturating_sub(fetched(config, memory, entries, ran, members));
        units.sort_by_key(|unit| ["CONV", "SDP", "PDP"].iter().position(|name| name == unit));
        let operation = members.first().copied().unwrap_or(0);
        rows.push(Row { units: units.join("+"), task: 0, operation, estimate, measured: end - start });
    }
    rows
}

/// The cycles by which an operation is shorter because the unit's operation before it ended when it was already enabled.
fn fetched(
    config: &Config,
    memory: &Memory,
    entries: &[Entry],
    ran: &[(u32, OpType, Option<Measured>)],
    members: &[usize],
) -> u64 {
    let &[index] = members else { return 0 };
    let shape = |index: usize| {
        let entry = entries.get(index)?;
        Shape::from_descriptors(&entry.operation, &entry.surface)
    };
    let found = ran.iter().position(|(of, ..)| *of as usize == index).and_then(|at| {
        let (_, unit, Some(own)) = ran[at] else { return None };
        let (before, _, Some(other)) = *ran[..at].iter().rev().find(|(_, of, _)| *of == unit)? else { return None };
        let ahead = own.start - own.enabled;
        (other.end == own.start).then(|| Some(shape(index)?.beside(&shape(before as usize)?, ahead, config, memory)))?
    });
    found.unwrap_or(0)
}

/// The summary of many rows.
pub struct Summary<'a>(pub &'a [Row]);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        for row in self.0 {
            kinds.entry(&row.units).or_default().push(row);
        }
        for (units, rows) in kinds {
            let sum = |of: fn(&Row) -> u64| rows.iter().map(|row| of(row)).sum::<u64>();
            let (estimate, measured) = (sum(|row| row.estimate), sum(|row| row.measured));
            let long = rows.iter().filter(|row| row.measured > LONG).count();
            let off = rows.iter().filter(|row| row.is_off()).count();
            let ratio = estimate as f64 / measured.max(1) as f64;
            writeln!(f, "{units}: {} of {measured} cycles, estimate / RTL {ratio:.3}; {long} above {LONG} cycles, {off} off by more than {OFF} %", rows.len())?;
        }
        for Row { units, task, operation, estimate, measured } in self.0.iter().filter(|row| row.is_off()) {
            writeln!(f, "  task {task}, operation {operation} ({units}): estimate {estimate}, RTL {measured}")?;
        }
        Ok(())
    }
}
