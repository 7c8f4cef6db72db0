// SPDX-License-Identifier: MIT OR Apache-2.0

//! The pool of activations: which buffers must not share bytes, and where each of them lies.
//!
//! Two buffers may share bytes if all operations that access one have completed before any operation accesses the other. The
//! dependency graph decides this, and the order in which units write, not the order of the list, because processors run in parallel.
//! Buffers are placed one by one, each at the lowest free offset. A hill climb with a limited number of steps changes the order
//! in which they are placed.

use nvdla_uapi::layout::align::{Alignment, Data};
use nvdla_uapi::layout::round_up;

use super::order::{Order, Set};
use super::program::{Program, Task};

/// The alignment of buffers: the widest bus, so that no two buffers share a beat.
const BUFFER_ALIGNMENT: u64 = 64;

const _: () = assert!(BUFFER_ALIGNMENT.is_multiple_of(Alignment::documented(Data::Feature).start as u64));

/// The number of steps of the hill climb, times the number of buffers. It limits the time.
const CLIMB: usize = 200_000;

/// The operations that access a buffer.
pub(crate) struct Uses {
    /// First and last position in the order of all operations.
    pub(crate) span: (usize, usize),
    /// The operations.
    pub(crate) by: Vec<usize>,
}

/// The buffers that share memory.
pub(crate) struct Pool<'a> {
    program: &'a Program,
    /// The operations that access each buffer of the program.
    pub(crate) uses: Vec<Uses>,
    /// The numbers of the buffers. Everywhere below, a buffer is given by its position in this list.
    pub(crate) buffers: Vec<usize>,
    /// For each buffer, the others that must not share its bytes.
    conflicts: Vec<Vec<usize>>,
}

impl<'a> Pool<'a> {
    /// The pool of a program whose operations have these orders.
    pub(crate) fn new(program: &'a Program, orders: &[Option<Order>]) -> Self {
        let uses = uses(program);
        let used = |&id: &usize| program.buffers[id].place.is_pool() && !uses[id].by.is_empty();
        let buffers: Vec<usize> = (0..program.buffers.len()).filter(used).collect();
        let conflicts = conflicts(program, orders, &uses, &buffers);
        Self { program, uses, buffers, conflicts }
    }

    /// Bytes of a buffer.
    pub(crate) fn size(&self, buffer: usize) -> u64 {
        self.program.buffers[self.buffers[buffer]].size.into()
    }

    /// First and last position of the operations that access a buffer.
    pub(crate) fn span(&self, buffer: usize) -> (usize, usize) {
        self.uses[self.buffers[buffer]].span
    }

    /// Offsets for some of the buffers, in ascending order, and the end of the last. The search ends when this is at most `goal`.
    pub(crate) fn pack(&self, some: &[usize], goal: u64) -> (Vec<u64>, u64) {
        let sizes: Vec<u64> = some.iter().map(|&buffer| self.size(buffer)).collect();
        let spans: Vec<(usize, usize)> = some.iter().map(|&buffer| self.span(buffer)).collect();
        let among = |others: &Vec<usize>| others.iter().filter_map(|other| some.binary_search(other).ok()).collect();
        let conflicts: Vec<Vec<usize>> = some.iter().map(|&buffer| among(&self.conflicts[buffer])).collect();
        climb(&sizes, &conflicts, &spans, goal)
    }

    /// The most bytes of some of the buffers that are in use at once.
    pub(crate) fn bound(&self, some: &[usize]) -> u64 {
        let ids: Vec<usize> = some.iter().map(|&buffer| self.buffers[buffer]).collect();
        bound(self.program, &self.uses, &ids)
    }
}

fn uses(program: &Program) -> Vec<Uses> {
    let mut uses: Vec<Uses> = program.buffers.iter().map(|_| Uses { span: (usize::MAX, 0), by: Vec::new() }).collect();
    let mut position = 0;
    let mut touch = |buffer: Option<usize>, position: usize| {
        if let Some(id) = buffer {
            let uses: &mut Uses = &mut uses[id];
            uses.span = (uses.span.0.min(position), position);
            if uses.by.last() != Some(&position) {
                uses.by.push(position);
            }
        }
    };
    for task in &program.tasks {
        match task {
            Task::Dla(operations) => {
                for operation in operations {
                    operation.unit.reads().for_each(|cube| touch(cube.buffer(), position));
                    touch(operation.unit.target().buffer(), position);
                    position += 1;
                }
            }
            Task::Emulated(operations) => {
                for operation in operations {
                    touch(operation.source.buffer(), position);
                    touch(operation.target.buffer(), position);
                    position += 1;
                }
            }
        }
    }
    uses
}

/// For each buffer of the pool, the others that must not share its bytes.
fn conflicts(program: &Program, orders: &[Option<Order>], uses: &[Uses], pool: &[usize]) -> Vec<Vec<usize>> {
    // First position of each task, and the task of each position.
    let mut firsts = Vec::new();
    let mut task_of = Vec::new();
    for (number, task) in program.tasks.iter().enumerate() {
        firsts.push(task_of.len());
        task_of.resize(task_of.len() + task.len(), number);
    }
    // Per buffer, in its first task: the operations that have completed before any operation there accesses the buffer.
    let common: Vec<Option<(usize, Set)>> = pool
        .iter()
        .map(|&id| {
            let task = task_of[uses[id].span.0];
            let order = orders[task].as_ref()?;
            let Task::Dla(operations) = &program.tasks[task] else { return None };
            let set = |at: usize| {
                let reads = operations[at].unit.reads().any(|cube| cube.buffer() == Some(id));
                if reads {
                    &order.before[at]
                } else {
                    &order.before_write[at]
                }
            };
            let mut sets = uses[id].by.iter().filter(|&&by| task_of[by] == task).map(|&by| set(by - firsts[task]));
            let mut common = sets.next()?.clone();
            sets.for_each(|set| common.intersect(set));
            Some((task, common))
        })
        .collect();
    // Whether all operations that access a have completed before any accesses b.
    let over = |a: usize, b: usize| {
        let (last, first) = (uses[pool[a]].span.1, uses[pool[b]].span.0);
        if last >= first {
            return false;
        }
        match &common[b] {
            _ if task_of[last] < task_of[first] => true,
            Some((task, common)) => {
                uses[pool[a]].by.iter().all(|&by| task_of[by] < *task || common.contains(by - firsts[*task]))
            }
            // The emulator's operations run one after another.
            None => true,
        }
    };
    let mut conflicts = vec![Vec::new(); pool.len()];
    for b in 0..pool.len() {
        for a in 0..b {
            if !over(a, b) && !over(b, a) {
                conflicts[a].push(b);
                conflicts[b].push(a);
            }
        }
    }
    conflicts
}

/// Places buffers in the given order, each at the lowest free offset.
fn first_fit(order: &[usize], sizes: &[u64], conflicts: &[Vec<usize>], places: &mut [Option<u64>]) -> (u64, usize) {
    places.fill(None);
    let (mut end, mut highest) = (0, 0);
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for &id in order {
        taken.clear();
        taken.extend(conflicts[id].iter().filter_map(|&other| places[other].map(|at| (at, at + sizes[other]))));
        taken.sort_unstable();
        let mut begin = 0;
        for &(from, to) in &taken {
            if begin + sizes[id] <= from {
                break;
            }
            begin = begin.max(round_up(to, BUFFER_ALIGNMENT));
        }
        places[id] = Some(begin);
        if begin + sizes[id] > end {
            (end, highest) = (begin + sizes[id], id);
        }
    }
    (end, highest)
}

/// End of the pool, the buffer that ends there, the order in which buffers were placed, and their offsets.
type Found = (u64, usize, Vec<usize>, Vec<Option<u64>>);

/// The best offsets that a limited search finds. It ends early with a pool of at most `goal` bytes.
fn climb(sizes: &[u64], conflicts: &[Vec<usize>], spans: &[(usize, usize)], goal: u64) -> (Vec<u64>, u64) {
    let mut by_size: Vec<usize> = (0..sizes.len()).collect();
    by_size.sort_by_key(|&id| (std::cmp::Reverse(sizes[id]), spans[id]));
    let mut by_time: Vec<usize> = (0..sizes.len()).collect();
    by_time.sort_by_key(|&id| spans[id]);
    let mut places = vec![None; sizes.len()];
    let mut best: Option<Found> = None;
    for order in [by_size, by_time] {
        let (end, highest) = first_fit(&order, sizes, conflicts, &mut places);
        if best.as_ref().is_none_or(|best| end < best.0) {
            best = Some((end, highest, order, places.clone()));
        }
    }
    let Some((mut end, mut highest, mut order, mut kept)) = best else { return (Vec::new(), 0) };
    // The buffer that ends highest is placed earlier, by a distance from a fixed sequence.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..(CLIMB / sizes.len().max(1)).min(2000) {
        if end <= goal {
            break;
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let Some(at) = order.iter().position(|&id| id == highest).filter(|&at| at > 0) else { break };
        let to = (state % at as u64) as usize;
        let mut changed = order.clone();
        let moved = changed.remove(at);
        changed.insert(to, moved);
        let (changed_end, changed_highest) = first_fit(&changed, sizes, conflicts, &mut places);
        if changed_end <= end {
            (end, highest, order) = (changed_end, changed_highest, changed);
            kept.clone_from(&places);
        }
    }
    (kept.into_iter().map(Option::unwrap_or_default).collect(), end)
}

/// The most bytes that are in use at once.
fn bound(program: &Program, uses: &[Uses], pool: &[usize]) -> u64 {
    // Operations that are connected on the fly run together, and have one number.
    let (mut together, mut next) = (Vec::new(), 0);
    for task in &program.tasks {
        for at in 0..task.len() {
            let flies = matches!(task, Task::Dla(operations) if operations[at].unit.takes_on_the_fly());
            next += usize::from(!flies);
            together.push(next);
        }
    }
    let mut change = vec![0i64; next + 2];
    for &id in pool {
        let (first, last) = uses[id].span;
        change[together[first]] += i64::from(program.buffers[id].size);
        change[together[last] + 1] -= i64::from(program.buffers[id].size);
    }
    let mut now = 0;
    change
        .into_iter()
        .map(|change| {
            now += change;
            now
        })
        .max()
        .unwrap_or(0) as u64
}
