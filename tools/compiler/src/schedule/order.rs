// SPDX-License-Identifier: MIT OR Apache-2.0

//! The dependency graph of a task: for each operation, the events of other operations that it waits for.
//!
//! An operation waits for every earlier operation that writes bytes that it accesses, and for those that read bytes that it
//! overwrites. One that is [alone](Operation::alone) waits for all. An entry of the dependency graph has one consumer per
//! processor. Operations of one processor run in the order of the list, and each is programmed after the previous one. So if
//! several operations of a processor need a result, only the first must wait for it; and of several operations of a processor,
//! only the last is waited for. Operations that are connected on the fly count as one: an operation that waits for a
//! convolution waits for its SDP operation, or for the pooling after that, which ends last.

use nvdla_uapi::desc::{CommonOp, Consumer, Event, PROCESSORS};

use crate::error::Error;
use crate::schedule::program::{Cube, Operation};

/// A set of operations of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set(Vec<u64>);

impl Set {
    /// The empty set of `count` operations.
    pub fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    /// Adds an operation.
    pub fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    /// Whether an operation is in the set.
    pub fn contains(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 != 0
    }

    /// Adds all of another set.
    pub fn union(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }

    /// Keeps only elements that are also in the other set.
    pub fn intersect(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= b);
    }
}

/// The order of a task's operations.
pub struct Order {
    /// An entry per operation.
    pub entries: Vec<CommonOp>,
    /// The first operation of each processor, -1 for none.
    pub heads: [i16; PROCESSORS],
    /// For each operation, those that have completed before it reads memory.
    pub before: Vec<Set>,
    /// For each operation, those that have completed before it writes memory.
    pub before_write: Vec<Set>,
}

/// Accesses to a buffer, by operation.
#[derive(Default)]
struct Accesses {
    reads: Vec<(usize, Cube)>,
    writes: Vec<(usize, Cube)>,
}

/// Orders the operations of a task. `atom` is the bytes of an atom.
pub fn order(operations: &[Operation], buffers: usize, atom: u32) -> Result<Order, Error> {
    let count = operations.len();
    if count > i16::MAX as usize {
        return Err(Error::Network(format!("{count} operations in one task, more than 32767")));
    }
    let flies = |index: usize| operations[index].unit.takes_on_the_fly();
    // The operation that ends last of those that are connected on the fly.
    let last = |index: usize| (index..count).find(|&at| at + 1 >= count || !flies(at + 1)).unwrap_or(index);
    let mut accesses: Vec<Accesses> = std::iter::repeat_with(Accesses::default).take(buffers).collect();
    let mut waits: Vec<Vec<usize>> = Vec::with_capacity(count);
    for (index, operation) in operations.iter().enumerate() {
        let mut needs: Vec<usize> = if operation.alone { (0..index).collect() } else { Vec::new() };
        for cube in operation.unit.reads() {
            if let Some(buffer) = cube.buffer() {
                let writes = accesses[buffer].writes.iter();
                needs.extend(writes.filter(|(_, other)| cube.overlaps(other, atom)).map(|(by, _)| *by));
            }
        }
        let target = operation.unit.target();
        if let Some(buffer) = target.buffer() {
            let Accesses { reads, writes } = &accesses[buffer];
            let all = reads.iter().chain(writes);
            needs.extend(all.filter(|(_, other)| target.overlaps(other, atom)).map(|(by, _)| *by));
        }
        // The operation that passes its sums to this one starts with it.
        let mut needs: Vec<usize> = needs.into_iter().map(last).filter(|&by| by != index).collect();
        needs.sort_unstable();
        needs.dedup();
        for cube in operation.unit.reads() {
            if let Some(buffer) = cube.buffer() {
                accesses[buffer].reads.push((index, *cube));
            }
        }
        if let Some(buffer) = target.buffer() {
            accesses[buffer].writes.push((index, *target));
        }
        waits.push(needs);
    }
    let [before, before_write] = before(operations, &waits);
    Ok(Order { entries: entries(operations, &waits)?, heads: heads(operations), before, before_write })
}

fn entries(operations: &[Operation], waits: &[Vec<usize>]) -> Result<Vec<CommonOp>, Error> {
    let processor = |index: usize| operations[index].unit.op_type() as usize;
    let mut next = [None; PROCESSORS];
    let mut slots: Vec<[Option<Consumer>; PROCESSORS]> = vec![[None; PROCESSORS]; operations.len()];
    for index in (0..operations.len()).rev() {
        let own = processor(index);
        let consumer = |later: usize| Consumer { index: later as i16, event: Event::OpProgrammed };
        slots[index][own] = next[own].map(consumer);
        if operations.get(index + 1).is_some_and(|next| next.unit.takes_on_the_fly()) {
            slots[index][processor(index + 1)] = Some(consumer(index + 1));
        }
        next[own] = Some(index);
    }
    for (index, waits) in waits.iter().enumerate() {
        // Operations of one processor complete in order: a wait for the last of them is enough.
        let last = |by: &&usize| !waits.iter().any(|&other| other > **by && processor(other) == processor(**by));
        // A processor has two register groups: its last operation but one has completed before the next one is programmed.
        let needed = |by: &&usize| {
            let own = processor(index);
            processor(**by) != own || !(**by + 1..index).any(|between| processor(between) == own)
        };
        for &by in waits.iter().filter(last).filter(needed) {
            let slot = &mut slots[by][processor(index)];
            match slot {
                // The entry's consumer becomes the earlier of the two operations of that processor.
                Some(consumer) => consumer.event = Event::OpCompleted,
                None => *slot = Some(Consumer { index: index as i16, event: Event::OpCompleted }),
            }
        }
    }
    let mut counts = vec![0u32; operations.len()];
    let mut entries = Vec::with_capacity(operations.len());
    for (index, operation) in operations.iter().enumerate() {
        let mut entry = CommonOp {
            index: index as i16,
            op_type: operation.unit.op_type(),
            consumers: slots[index],
            ..Default::default()
        };
        for consumer in slots[index].iter().flatten() {
            counts[consumer.index as usize] += 1;
        }
        if operation.unit.takes_on_the_fly() {
            entry.fused_parent = Some(Consumer { index: index as i16 - 1, event: Event::OpEnabled });
            counts[index - 1] += 1;
        }
        entries.push(entry);
    }
    for (entry, count) in entries.iter_mut().zip(counts) {
        entry.dependency_count = u8::try_from(count).map_err(|_| {
            Error::Network(format!("operation {} waits for {count} others, more than 255", entry.index))
        })?;
    }
    Ok(entries)
}

fn heads(operations: &[Operation]) -> [i16; PROCESSORS] {
    let mut heads = [-1; PROCESSORS];
    for (index, operation) in operations.iter().enumerate().rev() {
        heads[operation.unit.op_type() as usize] = index as i16;
    }
    heads
}

/// The operations that have completed before each one reads memory, and those that have completed before it writes memory. Both
/// include those that earlier operations on its processor have waited for.
///
/// A unit may read memory for an operation while its previous operation runs. It writes nothing for it before that operation, and
/// those that pass data to it on the fly, have completed (`docs/races.md`).
fn before(operations: &[Operation], waits: &[Vec<usize>]) -> [Vec<Set>; 2] {
    let count = operations.len();
    let mut started: [Set; PROCESSORS] = std::array::from_fn(|_| Set::new(count));
    let mut completed = started.clone();
    let mut before: Vec<Set> = Vec::with_capacity(count);
    let mut before_write: Vec<Set> = Vec::with_capacity(count);
    // An operation, and those that pass data to it on the fly.
    let insert = |set: &mut Set, mut at: usize| {
        set.insert(at);
        while operations[at].unit.takes_on_the_fly() {
            at -= 1;
            set.insert(at);
        }
    };
    for (index, operation) in operations.iter().enumerate() {
        let processor = operation.unit.op_type() as usize;
        let flies = operation.unit.takes_on_the_fly();
        let mut set = started[processor].clone();
        for &by in &waits[index] {
            set.union(&before_write[by]);
            insert(&mut set, by);
        }
        started[processor] = set.clone();
        let mut write = set.clone();
        write.union(&completed[processor]);
        if flies {
            // What its producer waits for does not delay the reading of operands.
            write.union(&before_write[index - 1]);
        }
        completed[processor].union(&write);
        insert(&mut completed[processor], index);
        before.push(set);
        before_write.push(write);
    }
    [before, before_write]
}
