// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operations of a task that touch the same bytes, at least one of them writing, in an order that nothing fixes.
//!
//! NVIDIA's compiler sometimes leaves an edge of the dependency graph out. What such a loadable computes depends on how long
//! operations take. [`races`] finds these pairs, and [`order`] adds the edges that are missing, so that the operations run
//! as if one after another in the order of the list. What the graph says about the order is `super::timeline`'s.

use std::collections::HashMap;
use std::fmt;

use nvdla_uapi::desc::{Consumer, Event, OpType};

use super::accesses::{Access, Collector};
use super::timeline::{number, Graph, Moment, Step, Timeline};
use super::{tasks, TaskOperations};
use crate::device::recognise;
use crate::loadable::Loadable;
use crate::session::Error;

/// Pairs of accesses that are looked at, of one task. Far more than any network has.
const MOST_PAIRS: usize = 1 << 22;
/// Operations of a task for which [`order`] looks for edges.
const MOST_OPERATIONS: usize = 1 << 12;

/// What an operation does to shared bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// Position in the task's operation list.
    pub operation: usize,
    /// Its unit.
    pub unit: OpType,
    /// The surface.
    pub surface: &'static str,
    /// Whether it writes it.
    pub writes: bool,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.writes { "writes" } else { "reads" };
        write!(f, "operation {} ({}) {verb} {}", self.operation, self.unit, self.surface)
    }
}

/// Two operations that touch the same bytes in no fixed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Race {
    /// The task's id.
    pub task: u16,
    /// The operation that comes first in the list.
    pub first: Party,
    /// The other one.
    pub second: Party,
    /// The id of the memory with the shared bytes.
    pub memory: u16,
    /// The first shared byte, and the first byte behind it that is not shared.
    pub bytes: (u64, u64),
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, first, second, memory, bytes: (start, end) } = self;
        write!(f, "task {task}: {first} and {second} at {start:#x} to {end:#x} of memory {memory}")
    }
}

/// What [`races`] finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Races {
    /// Pairs of operations without an order, each pair once.
    pub pairs: Vec<Race>,
    /// Operations that pass data on the fly, where one writes what the other still reads: a convolution that overwrites
    /// its own input. The result is correct only if reading is far enough ahead of writing.
    pub over_own_input: Vec<Race>,
    /// Tasks with more pairs than are looked at.
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
/// use nvdla_runtime::network::races::races;
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
        // A graph that cannot complete does not run, so that nothing in it races.
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

/// The operation at the beginning of those that hand data over on the fly to this one.
fn chain(graph: &Graph, mut operation: usize) -> usize {
    // A convolution, SDP and PDP at most.
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

/// Pairs of accesses (by position) of different operations that share bytes of which one writes; `None` where they are too
/// many. What a unit writes in the order of its operations is no conflict.
fn conflicts(graph: &Graph, accesses: &[Access]) -> Option<Vec<(usize, usize)>> {
    let mut order: Vec<usize> = (0..accesses.len()).collect();
    order.sort_by_key(|&at| (accesses[at].memory, accesses[at].start()));
    // The reads, and the writes, that begin before the access that is examined and end after its beginning.
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
            if looked > MOST_PAIRS {
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

/// The pairs without a defined order.
fn unordered(timeline: &Timeline, accesses: &[Access], pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let end = |at: usize| (accesses[at].operation, accesses[at].ends);
    let begin = |at: usize| (accesses[at].operation, accesses[at].begins);
    // A question each way.
    let questions: Vec<(Moment, Moment)> =
        pairs.iter().flat_map(|&(a, b)| [(end(a), begin(b)), (end(b), begin(a))]).collect();
    let mut ordered = vec![false; pairs.len()];
    timeline.before(&questions, |question| ordered[question / 2] = true);
    pairs.iter().zip(ordered).filter(|(_, ordered)| !ordered).map(|(&pair, _)| pair).collect()
}

/// A task with operations that race and cannot be ordered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// No edge is free for it.
    #[error("{0}: the dependency graph cannot hold an edge between them")]
    NoRoom(Box<Race>),
    /// The task is too large.
    #[error("task {task} has {operations} operations, and at most {limit} can be ordered")]
    TooLarge {
        /// The task's id.
        task: u16,
        /// Its operations.
        operations: usize,
        /// The limit.
        limit: usize,
    },
}

/// An edge of a dependency graph that was missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The task's id.
    pub task: u16,
    /// The operation that is waited for until it is complete.
    pub from: usize,
    /// The operation that waits.
    pub to: usize,
}

/// What [`order`] gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordered {
    /// By task id, the bytes of the dependency graphs that have changed.
    pub graphs: HashMap<u16, Vec<u8>>,
    /// The edges that were added.
    pub edges: Vec<Edge>,
}

/// The dependency graphs, by task id, in which operations that race run in the order of the list; tasks in which none
/// race are left out. And the edges that were added.
///
/// An operation has one edge for each unit. Where that of the waiting operation's unit is free, it is taken; where it
/// leads to a later operation of that unit, which waits for the earlier one in any case, it is bent to the earlier; else
/// another operation is found through which the order can be passed on.
///
/// # Errors
///
/// When a descriptor cannot be read, or there is no such edge.
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
        if conflicts.is_none() || operations > MOST_OPERATIONS {
            return Err(Error::Order(OrderError::TooLarge { task: task.id, operations, limit: MOST_OPERATIONS }));
        }
        // Each round orders one pair at least, and mostly what follows from it too.
        while let Some(&(a, b)) = racing(&task.graph).first() {
            let (from, to) = (accesses[a].operation, accesses[b].operation);
            let Some(graph) = add(&task.graph, from, to) else {
                let found = race(loadable, &task, &accesses[a], &accesses[b]);
                let no_room = |race| Error::Order(OrderError::NoRoom(Box::new(race)));
                return Err(found.map_or(Error::Nothing { what: "such race" }, no_room));
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

/// The graph in which `to` is enabled only after `from` has completed; `None` where there is no way.
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
    // Straight, or from the operation that takes this one's output on the fly and completes with it.
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
    // Through another operation: from it to `to`, and to it from a source.
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
        // Only the next units' operations wait for this one, so that it is among its consumers.
        let consumers = self.entries.get(operation)?.consumers.iter().flatten();
        let mut targets = consumers.filter_map(|consumer| self.target(operation, consumer.index));
        targets.find(|&to| self.parent(to) == Some(operation))
    }

    /// Makes `to` wait until `from` has completed, by the edge of `from` for the unit of `to`. The graph may have a cycle
    /// afterwards.
    fn connect(&mut self, from: usize, to: usize) -> Option<()> {
        // The entries of all regions of interest would need the same edges.
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
            // The next operation of the same unit is found by this edge.
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
