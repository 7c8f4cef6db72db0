// SPDX-License-Identifier: MIT OR Apache-2.0

//! The order of the steps of a task's operations, as far as the dependency graph and the hardware fix it.
//!
//! An operation is programmed, enabled, writes its first byte, and completes. A convolution also has steps at which all its
//! weights and all its data are in the convolution buffer. An edge of the graph delays the enabling of its consumer until the
//! edge's event. The hardware adds these rules:
//!
//! - A unit runs its operations one after another. It writes nothing for an operation before its previous operation is complete.
//!   But its read DMA begins as soon as the operation is enabled, possibly while the previous one still runs.
//! - A unit has two register groups. So operation n is programmed only after operation n - 2 is complete.
//! - For operations that are connected on the fly, the consumer writes nothing before the producer has output, and completes only
//!   after the producer.
//!
//! Source: `kmd/engine/src/schedule.rs` for the scheduler; the hardware's manual on ping-pong groups for the rest.

use nvdla_uapi::desc::{CommonOp, Event, OpType, Wire, PROCESSORS};

/// A step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Its registers are written.
    Programmed,
    /// It may read memory from now on.
    Enabled,
    /// It may write memory from now on.
    Output,
    /// A convolution has read all its input.
    Data,
    /// A convolution has read all its weights.
    Weights,
    /// The operation has completed, and no longer accesses memory.
    Completed,
}

const STEPS: usize = 6;

impl From<Event> for Step {
    fn from(event: Event) -> Self {
        match event {
            Event::OpProgrammed => Self::Programmed,
            Event::OpEnabled => Self::Enabled,
            Event::CdmaWeightDone => Self::Weights,
            Event::CdmaDataDone => Self::Data,
            Event::OpCompleted => Self::Completed,
        }
    }
}

/// A step of one of the operations.
pub(super) type Moment = (usize, Step);

const fn node((operation, step): Moment) -> usize {
    operation * STEPS + step as usize
}

/// The entries of a dependency graph, and the first operation of each unit.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    /// The entries of all regions of interest, one region after another.
    pub(super) entries: Vec<CommonOp>,
    /// Number of entries per region.
    pub(super) stride: usize,
    /// Each unit's first operation.
    pub(super) heads: [i16; PROCESSORS],
}

impl Graph {
    /// The operation that entry `from` names by `index`, in the same region.
    pub(super) fn target(&self, from: usize, index: i16) -> Option<usize> {
        let index = usize::try_from(index).ok().filter(|&index| index < self.stride)?;
        Some(from / self.stride.max(1) * self.stride + index)
    }

    /// Each unit's operations in the order in which it runs them; `None` if the lists are broken.
    pub(super) fn units(&self) -> Option<[Vec<usize>; PROCESSORS]> {
        let regions = self.entries.len().checked_div(self.stride).unwrap_or(0);
        let mut seen = vec![false; self.stride];
        let mut units: [Vec<usize>; PROCESSORS] = Default::default();
        for (unit, (order, &head)) in units.iter_mut().zip(&self.heads).enumerate() {
            let mut next = head;
            while let Ok(index) = usize::try_from(next) {
                if std::mem::replace(seen.get_mut(index)?, true) {
                    return None;
                }
                order.extend((0..regions).map(|region| region * self.stride + index));
                next = self.entries.get(index)?.consumers[unit].map_or(-1, |consumer| consumer.index);
            }
        }
        Some(units)
    }

    /// The bytes of the entries.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.entries.len() * CommonOp::SIZE];
        for (entry, bytes) in self.entries.iter().zip(bytes.chunks_exact_mut(CommonOp::SIZE)) {
            entry.store(bytes);
        }
        bytes
    }

    /// The operation that passes its output on the fly to this one.
    pub(super) fn parent(&self, operation: usize) -> Option<usize> {
        self.target(operation, self.entries.get(operation)?.fused_parent?.index)
    }
}

/// The steps of all operations in an order that the graph allows, with the successors of each.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    order: Vec<u32>,
    /// For each node, the position of its first successor in `next`.
    starts: Vec<u32>,
    next: Vec<u32>,
}

/// The number of moments that are followed at the same time.
const BLOCK: usize = 512;
const WORDS: usize = BLOCK / 64;

impl Timeline {
    /// The timeline of a graph; `None` if the graph is broken, or has a cycle and cannot complete.
    pub(super) fn new(graph: &Graph) -> Option<Self> {
        let units = graph.units()?;
        let mut edges: Vec<(usize, usize)> = Vec::new();
        let mut edge = |from: Moment, to: Moment| edges.push((node(from), node(to)));
        for (operation, entry) in graph.entries.iter().enumerate() {
            use Step::{Completed, Data, Enabled, Output, Programmed, Weights};
            let own = [(Programmed, Enabled), (Enabled, Output), (Output, Completed)];
            let convolution = [(Enabled, Data), (Enabled, Weights), (Data, Completed), (Weights, Completed)];
            // Only a convolution has these steps; for other units they are never queried.
            for (from, to) in own.into_iter().chain(convolution) {
                edge((operation, from), (operation, to));
            }
            for consumer in entry.consumers.iter().chain([&entry.fused_parent]).flatten() {
                let to = graph.target(operation, consumer.index)?;
                edge((operation, consumer.event.into()), (to, Enabled));
            }
            if let Some(parent) = graph.parent(operation) {
                edge((parent, Output), (operation, Output));
                edge((parent, Completed), (operation, Completed));
                // No output is passed on before the consumer is enabled.
                edge((operation, Enabled), (parent, Output));
            }
        }
        for order in &units {
            for pair in order.windows(2) {
                if let &[before, after] = pair {
                    for step in [Step::Programmed, Step::Enabled, Step::Data, Step::Weights] {
                        edge((before, step), (after, step));
                    }
                    edge((before, Step::Completed), (after, Step::Output));
                }
            }
            for triple in order.windows(3) {
                if let &[before, _, after] = triple {
                    edge((before, Step::Completed), (after, Step::Programmed));
                }
            }
        }
        Self::sorted(graph.entries.len() * STEPS, &mut edges)
    }

    fn sorted(nodes: usize, edges: &mut [(usize, usize)]) -> Option<Self> {
        edges.sort_unstable();
        let mut starts = vec![0u32; nodes + 1];
        let mut open = vec![0u32; nodes];
        for &(from, to) in &*edges {
            starts[from + 1] += 1;
            open[to] += 1;
        }
        for at in 0..nodes {
            starts[at + 1] += starts[at];
        }
        let next: Vec<u32> = edges.iter().map(|&(_, to)| to as u32).collect();
        let mut order: Vec<u32> = (0..nodes as u32).filter(|&at| open[at as usize] == 0).collect();
        let mut at = 0;
        while let Some(&from) = order.get(at) {
            at += 1;
            for &to in &next[starts[from as usize] as usize..starts[from as usize + 1] as usize] {
                open[to as usize] -= 1;
                if open[to as usize] == 0 {
                    order.push(to);
                }
            }
        }
        (order.len() == nodes).then_some(Self { order, starts, next })
    }

    /// Calls `answer` with the position of each question whose first moment comes before its second in every run. Visits the
    /// graph once per [`BLOCK`] of different first moments.
    pub(super) fn before(&self, questions: &[(Moment, Moment)], mut answer: impl FnMut(usize)) {
        let mut by_source: Vec<(usize, usize)> =
            questions.iter().enumerate().map(|(number, &(from, _))| (node(from), number)).collect();
        by_source.sort_unstable();
        let mut sets: Vec<[u64; WORDS]> = Vec::new();
        let mut rest = &by_source[..];
        while let Some(&(first, _)) = rest.first() {
            // As many questions as have at most BLOCK different sources.
            let (mut sources, mut last, mut count) = (0, None, 0);
            for &(source, _) in rest {
                if last != Some(source) {
                    if sources == BLOCK {
                        break;
                    }
                    (sources, last) = (sources + 1, Some(source));
                }
                count += 1;
            }
            let (block, others) = rest.split_at(count);
            rest = others;
            sets.clear();
            sets.resize(self.starts.len() - 1, [0; WORDS]);
            let mut bits = Vec::with_capacity(count);
            let (mut bit, mut of) = (0, first);
            for &(source, number) in block {
                if source != of {
                    (bit, of) = (bit + 1, source);
                }
                sets[source][bit / 64] |= 1 << (bit % 64);
                bits.push((bit, number));
            }
            for &from in &self.order {
                let set = sets[from as usize];
                if set == [0; WORDS] {
                    continue;
                }
                for &to in &self.next[self.starts[from as usize] as usize..self.starts[from as usize + 1] as usize] {
                    sets[to as usize].iter_mut().zip(set).for_each(|(to, from)| *to |= from);
                }
            }
            for (bit, number) in bits {
                let (from, to) = questions[number];
                if from != to && sets[node(to)][bit / 64] >> (bit % 64) & 1 != 0 {
                    answer(number);
                }
            }
        }
    }
}

/// The unit's number.
pub(super) const fn number(unit: OpType) -> usize {
    unit as usize
}
