// SPDX-License-Identifier: MIT OR Apache-2.0

//! Finds operations of a task that access the same bytes in no fixed order, where at least one of them writes.
//!
//! NVIDIA's compiler sometimes omits an edge of the dependency graph. The result of such a loadable depends on how long
//! operations take. [`races`] finds these pairs, and [`order`] adds the missing edges, so that the operations run as if one after
//! another in the order of the list. `super::timeline` derives the order from the graph.

use std::collections::HashMap;

use nvdla_uapi::desc::{Consumer, Event};

use super::accesses::{Access, Collector};
use super::error::Error;
pub use super::error::OrderError;
use super::list::{tasks, TaskOperations};
pub use super::race::{Party, Race};
use super::recognise::recognise;
use super::timeline::{number, Graph, Moment, Step, Timeline};
use crate::loadable::Loadable;

/// The greatest number of pairs of accesses that are examined per task: far more than any network has.
const MAX_PAIRS: usize = 1 << 22;
/// The greatest number of operations of a task for which [`order`] adds edges.
const MAX_OPERATIONS: usize = 1 << 12;

/// The result of [`races`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Races {
    /// Pairs of operations without an order, each pair once.
    pub pairs: Vec<Race>,
    /// Operations connected on the fly, of which one writes what another one still reads: a convolution that overwrites its own
    /// input. The result is correct only if the reads stay far enough before the writes.
    pub over_own_input: Vec<Race>,
    /// Tasks with more pairs than are examined.
    pub not_examined: Vec<u16>,
}

/// Looks for races in all tasks of a loadable for NVDLA.
///
/// # Errors
///
/// When a descriptor is missing or cannot be read.
///
/// ```
/// use nvdla_runtime::loadable::Loadable;
/// use nvdla_runtime::operations::races::races;
///
/// let loadable = Loadable::open("../examples/lenet/lenet.nv_small.nvdla")?;
/// assert!(races(&loadable)?.pairs.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn races(loadable: &Loadable) -> Result<Races, Error> {
    let mut all = Races::default();
    let atom = recognise(loadable).config.memory_atomic;
    for task in tasks(loadable)? {
        let accesses = accesses(&task, atom);
        let Some(conflicts) = conflicts(&task.graph, &accesses) else {
            all.not_examined.push(task.id);
            continue;
        };
        // A task whose graph cannot complete is refused, so it has no races.
        let Some(timeline) = Timeline::new(&task.graph) else { continue };
        for (first, second) in unordered(&timeline, &accesses, &conflicts) {
            let (first, second) = (&accesses[first], &accesses[second]);
            let Some(race) = race(loadable, &task, first, second) else { continue };
            let same = chain(&task.graph, first.operation) == chain(&task.graph, second.operation);
            let list = if same { &mut all.over_own_input } else { &mut all.pairs };
            list.push(race);
        }
    }
    for list in [&mut all.pairs, &mut all.over_own_input] {
        let key = |race: &Race| (race.task, race.first.operation, race.second.operation);
        list.sort_by_key(|race| (key(race), race.bytes));
        list.dedup_by_key(|race| key(race));
    }
    Ok(all)
}

pub(super) fn accesses(task: &TaskOperations, atom: u32) -> Vec<Access> {
    let mut collector = Collector::new(&task.slots, atom);
    for (at, operation) in task.operations.iter().enumerate() {
        collector.add(at, operation);
    }
    collector.finish()
}

/// The first of the operations that are connected on the fly with this one.
fn chain(graph: &Graph, mut operation: usize) -> usize {
    // At most a convolution, SDP and PDP are connected.
    for _ in 0..2 {
        operation = graph.parent(operation).unwrap_or(operation);
    }
    operation
}

fn race(loadable: &Loadable, task: &TaskOperations, a: &Access, b: &Access) -> Option<Race> {
    let bytes = a.shared(b)?;
    let (first, second) = if a.operation < b.operation { (a, b) } else { (b, a) };
    let party = |access: &Access| {
        let operation = task.operations.get(access.operation)?;
        let Access { surface, writes, .. } = *access;
        Some(Party { operation: operation.index, unit: operation.unit, surface, writes })
    };
    let memory = loadable.memories().get(a.memory)?.id();
    Some(Race { task: task.id, first: party(first)?, second: party(second)?, memory, bytes })
}

/// Pairs of accesses (by position) of different operations that share bytes, where one writes. `None` if there are too many. Two
/// writes of the same unit are no conflict, because a unit writes in the order of its operations.
fn conflicts(graph: &Graph, accesses: &[Access]) -> Option<Vec<(usize, usize)>> {
    let mut order: Vec<usize> = (0..accesses.len()).collect();
    order.sort_by_key(|&at| (accesses[at].memory, accesses[at].start()));
    // The reads and the writes that begin before the examined access and end after its beginning.
    let mut open: [Vec<usize>; 2] = Default::default();
    let (mut pairs, mut looked) = (Vec::new(), 0);
    for at in order {
        let access = &accesses[at];
        for open in &mut open {
            open.retain(|&other| accesses[other].memory == access.memory && accesses[other].end() > access.start());
        }
        let [reads, writes] = &open;
        let against = writes.iter().chain(if access.writes { reads.as_slice() } else { &[] });
        for &other in against {
            looked += 1;
            if looked > MAX_PAIRS {
                return None;
            }
            let (a, b) = (&accesses[other], access);
            let unit = |access: &Access| graph.entries.get(access.operation).map(|entry| entry.op_type);
            let in_turn = a.writes && b.writes && unit(a) == unit(b);
            if a.operation != b.operation && !in_turn && a.shared(b).is_some() {
                pairs.push((other, at));
            }
        }
        open[usize::from(access.writes)].push(at);
    }
    Some(pairs)
}

/// The pairs without a fixed order.
fn unordered(timeline: &Timeline, accesses: &[Access], pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let end = |at: usize| (accesses[at].operation, accesses[at].ends);
    let begin = |at: usize| (accesses[at].operation, accesses[at].begins);
    // One question per direction.
    let questions: Vec<(Moment, Moment)> =
        pairs.iter().flat_map(|&(a, b)| [(end(a), begin(b)), (end(b), begin(a))]).collect();
    let mut ordered = vec![false; pairs.len()];
    timeline.before(&questions, |question| ordered[question / 2] = true);
    pairs.iter().zip(ordered).filter(|(_, ordered)| !ordered).map(|(&pair, _)| pair).collect()
}

/// An edge of a dependency graph that was missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The task's id.
    pub task: u16,
    /// The operation that must complete first.
    pub from: usize,
    /// The operation that waits.
    pub to: usize,
}

/// The result of [`order`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordered {
    /// The bytes of the changed dependency graphs, by task id.
    pub graphs: HashMap<u16, Vec<u8>>,
    /// The edges that were added.
    pub edges: Vec<Edge>,
}

/// Adds edges to dependency graphs, so that operations that race run in the order of the list. Returns the changed graphs by task
/// id, and the edges that were added. Tasks without races are left out.
///
/// An operation has one edge per unit. If the edge for the waiting operation's unit is free, it is used. If it leads to a later
/// operation of that unit, which waits for the earlier one in any case, it is redirected to the earlier one. Otherwise another
/// operation is found over which the order can be enforced.
///
/// # Errors
///
/// When a descriptor cannot be read, or no edge can be added.
pub fn order(loadable: &Loadable) -> Result<Ordered, Error> {
    let Ordered { mut graphs, mut edges } = Ordered::default();
    let atom = recognise(loadable).config.memory_atomic;
    for mut task in tasks(loadable)? {
        let before = edges.len();
        let accesses = accesses(&task, atom);
        let conflicts = conflicts(&task.graph, &accesses);
        let racing = |graph: &Graph| {
            let Some(timeline) = Timeline::new(graph) else { return Vec::new() };
            let found = unordered(&timeline, &accesses, conflicts.as_deref().unwrap_or_default());
            let mut pairs: Vec<_> = found
                .into_iter()
                .filter(|&(a, b)| chain(graph, accesses[a].operation) != chain(graph, accesses[b].operation))
                .map(|(a, b)| if accesses[a].operation < accesses[b].operation { (a, b) } else { (b, a) })
                .collect();
            pairs.sort_by_key(|&(a, b)| (accesses[b].operation, std::cmp::Reverse(accesses[a].operation)));
            pairs
        };
        let operations = task.operations.len();
        let too_large = {
            let task = task.id;
            move || OrderError::TooLarge { task, operations, limit: MAX_OPERATIONS }
        };
        if conflicts.is_none() || operations > MAX_OPERATIONS {
            return Err(Error::Order(too_large()));
        }
        // Each round orders at least one pair, and mostly also the pairs that depend on it.
        while let Some(&(a, b)) = racing(&task.graph).first() {
            let (from, to) = (accesses[a].operation, accesses[b].operation);
            let Some(graph) = add(&task.graph, from, to) else {
                // The two share bytes of a memory, so there is a race to report.
                let found =
                    race(loadable, &task, &accesses[a], &accesses[b]).map(|race| OrderError::NoRoom(Box::new(race)));
                return Err(Error::Order(found.unwrap_or_else(too_large)));
            };
            task.graph = graph;
            edges.push(Edge { task: task.id, from, to });
        }
        if edges.len() > before {
            graphs.insert(task.id, task.graph.to_bytes());
        }
    }
    Ok(Ordered { graphs, edges })
}

/// The graph in which `to` is enabled only after `from` has completed; `None` if no edge can do that.
fn add(graph: &Graph, from: usize, to: usize) -> Option<Graph> {
    let holds = |changed: &Graph| {
        let question = [((from, Step::Completed), (to, Step::Enabled))];
        let mut answer = false;
        Timeline::new(changed)?.before(&question, |_| answer = true);
        answer.then_some(())
    };
    let try_edge = |graph: &Graph, from: usize, to: usize| {
        let mut changed = graph.clone();
        changed.connect(from, to)?;
        Timeline::new(&changed).map(|_| changed)
    };
    // A direct edge, or one from the operation that takes this one's output on the fly and completes with it.
    let mut sources = vec![from];
    while let Some(taker) = graph.taker(*sources.last()?) {
        sources.push(taker);
    }
    for &source in &sources {
        if let Some(changed) = try_edge(graph, source, to) {
            if holds(&changed).is_some() {
                return Some(changed);
            }
        }
    }
    // Two edges: from a source to another operation, and from that to `to`.
    for through in (0..graph.entries.len()).filter(|through| !sources.contains(through) && *through != to) {
        let Some(changed) = try_edge(graph, through, to) else { continue };
        if holds(&changed).is_some() {
            return Some(changed);
        }
        for &source in &sources {
            if let Some(changed) = try_edge(&changed, source, through) {
                if holds(&changed).is_some() {
                    return Some(changed);
                }
            }
        }
    }
    None
}

impl Graph {
    /// The operation that takes this one's output on the fly.
    fn taker(&self, operation: usize) -> Option<usize> {
        // Only operations of the next units wait for this one, so the taker is among its consumers.
        let consumers = self.entries.get(operation)?.consumers.iter().flatten();
        let mut targets = consumers.filter_map(|consumer| self.target(operation, consumer.index));
        targets.find(|&to| self.parent(to) == Some(operation))
    }

    /// Makes `to` wait until `from` has completed, by the edge of `from` for the unit of `to`. The graph may then have a cycle.
    fn connect(&mut self, from: usize, to: usize) -> Option<()> {
        // With several regions of interest all their entries would need the same edges.
        if self.entries.len() != self.stride {
            return None;
        }
        let entry = self.entries.get(from)?;
        let unit = self.entries.get(to)?.op_type;
        let own = entry.op_type == unit;
        let place = number(unit);
        let index = i16::try_from(to).ok()?;
        let old = entry.consumers[place];
        let target = match old {
            None if own => return None,
            None => index,
            // This edge leads to the next operation of the same unit.
            Some(consumer) if own => consumer.index,
            Some(consumer) => {
                let order = self.units()?;
                let at = |index: usize| order[place].iter().position(|&operation| operation == index);
                if at(self.target(from, consumer.index)?)? < at(to)? {
                    consumer.index
                } else {
                    index
                }
            }
        };
        if let Some(consumer) = old {
            let waiting = usize::try_from(consumer.index).ok()?;
            let count = &mut self.entries.get_mut(waiting)?.dependency_count;
            *count = count.checked_sub(1)?;
        }
        let count = &mut self.entries.get_mut(usize::try_from(target).ok()?)?.dependency_count;
        *count = count.checked_add(1)?;
        self.entries.get_mut(from)?.consumers[place] = Some(Consumer { index: target, event: Event::OpCompleted });
        Some(())
    }
}
