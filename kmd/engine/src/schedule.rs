// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The order of a task's operations: six units with two register groups each, and the graph's events.
//!
//! A unit's operations are programmed in the order of its list, alternately into its two register groups. The next
//! operation is programmed as soon as the one before it is enabled, so that it is ready when that one ends. The
//! producer pointer therefore never changes between a group that waits to be enabled and one that is being programmed.
//! An operation is enabled when it is programmed and all events that it waits for have happened. Programming, enabling
//! and completion are events that other operations can wait for.
//!
//! The schedule does not access registers; an [`Executor`] does. Validation also runs the schedule, without a device,
//! to check that the graph completes.

use super::image::Program;
use super::slot::{operation, operation_mut, Edge, Operation, Slot};
use crate::uapi::desc::{Event, OpType, MAX_BDMA_TRANSFERS, PROCESSORS};

/// Register groups of a unit.
pub(crate) const GROUPS: usize = 2;

/// The register groups in which an operation is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupIndices {
    /// The unit's register group.
    pub(crate) group: u8,
    /// The register group of its read DMA, only for operations that use one. The groups of the read DMA alternate
    /// separately.
    pub(crate) rdma: u8,
}

/// The result of enabling an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enabled {
    /// It runs, or will when the unit comes to its group.
    Yes,
    /// It had nothing to do and is complete.
    Complete,
    /// The device is not ready; to be tried again.
    NotYet,
}

/// Carries out the schedule's decisions.
pub(crate) trait Executor {
    /// Programs the operation in slot `index`.
    fn program(&mut self, slots: &[Slot], index: u32, groups: GroupIndices);
    /// Enables an operation that is programmed.
    fn enable(&mut self, operation: &mut Operation, groups: GroupIndices) -> Enabled;
}

/// What a register group holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupState {
    /// No operation.
    Free,
    /// An operation that waits.
    Programmed(u32, u8),
    /// An operation that runs, or will when the unit comes to it.
    Enabled(u32, u8),
}

impl GroupState {
    /// The operation's slot and the group of its read DMA.
    pub(crate) const fn holds(self) -> Option<(u32, u8)> {
        match self {
            Self::Free => None,
            Self::Programmed(index, rdma) | Self::Enabled(index, rdma) => Some((index, rdma)),
        }
    }
}

/// A unit.
#[derive(Clone, Copy, Debug)]
struct Unit {
    groups: [GroupState; GROUPS],
    /// The group that is filled next. If both are in use, the one with the older operation.
    fill: u8,
    /// The read DMA's group that is filled next.
    fill_rdma: u8,
    /// The next operation.
    queue: Option<u32>,
    /// Operations that have completed.
    done: u32,
}

/// The state of all units.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    units: [Unit; PROCESSORS],
    /// Groups with an operation to be enabled, a bit each: unit * 2 + group.
    ready: u16,
    /// Groups with an operation that could not be enabled yet.
    deferred: u16,
    /// Groups with an operation that was complete when it was enabled.
    finished: u16,
    /// Units to fill, a bit each.
    refill: u8,
    completed: u32,
    total: u32,
}

const fn bit(unit: usize, group: usize) -> u16 {
    1 << (unit * GROUPS + group)
}

impl Schedule {
    /// No task; the device's groups are at `pointers`: for each unit its own and its read DMA's.
    pub(crate) const fn new(pointers: [(u8, u8); PROCESSORS]) -> Self {
        let mut units =
            [Unit { groups: [GroupState::Free; GROUPS], fill: 0, fill_rdma: 0, queue: None, done: 0 }; PROCESSORS];
        let mut unit = 0;
        while unit < PROCESSORS {
            units[unit].fill = pointers[unit].0;
            units[unit].fill_rdma = pointers[unit].1;
            unit += 1;
        }
        Self { units, ready: 0, deferred: 0, finished: 0, refill: 0, completed: 0, total: 0 }
    }

    /// Begins a task. `heads` are the first operations of its units.
    pub(crate) fn start(&mut self, heads: [Option<u32>; PROCESSORS], total: u32) {
        (self.ready, self.deferred, self.finished, self.refill) = (0, 0, 0, 0);
        for (number, (unit, head)) in self.units.iter_mut().zip(heads).enumerate() {
            unit.groups = [GroupState::Free; GROUPS];
            unit.queue = head;
            unit.done = 0;
            self.refill |= u8::from(head.is_some()) << number;
        }
        (self.completed, self.total) = (0, total);
    }

    /// How many operations have completed.
    pub(crate) const fn completed(&self) -> u32 {
        self.completed
    }

    /// How many there are.
    pub(crate) const fn total(&self) -> u32 {
        self.total
    }

    /// Whether every operation has completed.
    pub(crate) const fn is_complete(&self) -> bool {
        self.completed == self.total
    }

    /// Whether something could not be enabled yet.
    pub(crate) const fn is_deferred(&self) -> bool {
        self.deferred != 0
    }

    /// What a group holds.
    pub(crate) const fn group(&self, unit: usize, group: usize) -> GroupState {
        self.units[unit].groups[group]
    }

    /// The next operation of a unit that is not programmed yet.
    pub(crate) const fn queued(&self, unit: usize) -> Option<u32> {
        self.units[unit].queue
    }

    /// Whether the unit's operation at this position of its order has completed.
    pub(crate) const fn has_left(&self, unit: usize, order: u32) -> bool {
        order < self.units[unit].done
    }

    /// The group of a unit with its oldest operation.
    pub(crate) fn oldest(&self, unit: usize) -> Option<usize> {
        let first = usize::from(self.units[unit].fill);
        [first, 1 - first].into_iter().find(|&group| self.units[unit].groups[group] != GroupState::Free)
    }

    /// Takes a group whose operation completed without the device.
    pub(crate) fn take_finished(&mut self) -> Option<(usize, usize)> {
        let number = self.finished.trailing_zeros() as usize;
        if number >= PROCESSORS * GROUPS {
            return None;
        }
        self.finished &= self.finished - 1;
        Some((number / GROUPS, number % GROUPS))
    }

    /// Tries again to enable the operations that could not be enabled.
    pub(crate) fn retry(&mut self) {
        self.ready |= core::mem::take(&mut self.deferred);
    }

    /// The operation in a group has completed: frees the group. `None` when it had none that runs.
    pub(crate) fn complete(&mut self, slots: &mut [Slot], unit: usize, group: usize) -> Option<u32> {
        let GroupState::Enabled(index, _) = self.units[unit].groups[group] else { return None };
        self.units[unit].groups[group] = GroupState::Free;
        self.refill |= 1 << unit;
        self.completed += 1;
        self.units[unit].done += 1;
        self.happened(slots, index, Event::OpCompleted);
        Some(index)
    }

    /// An event of the operation in a group, which must run.
    pub(crate) fn event(&mut self, slots: &mut [Slot], unit: usize, group: usize, event: Event) {
        if let GroupState::Enabled(index, _) = self.units[unit].groups[group] {
            self.happened(slots, index, event);
        }
    }

    /// Removes an event from those that the operation's consumers wait for.
    fn happened(&mut self, slots: &mut [Slot], index: u32, event: Event) {
        let Some(operation) = operation(slots, index) else { return };
        let edges = operation.edges;
        for Edge { to, .. } in edges.into_iter().flatten().filter(|edge| edge.event == event) {
            let Some(consumer) = operation_mut(slots, to) else { continue };
            consumer.left = consumer.left.saturating_sub(1);
            if consumer.left == 0 {
                let unit = consumer.op_type as usize;
                for group in 0..GROUPS {
                    if matches!(self.units[unit].groups[group], GroupState::Programmed(index, _) if index == to) {
                        self.ready |= bit(unit, group);
                    }
                }
            }
        }
    }

    /// Enables all programmed operations that can be enabled.
    pub(crate) fn enable_ready(&mut self, slots: &mut [Slot], executor: &mut impl Executor) {
        while self.ready != 0 {
            let number = self.ready.trailing_zeros() as usize;
            self.ready &= self.ready - 1;
            self.enable(slots, executor, number / GROUPS, number % GROUPS);
        }
    }

    /// Programs and enables all operations that can be. Operations that can start are handled before those that are
    /// only programmed.
    pub(crate) fn advance(&mut self, slots: &mut [Slot], executor: &mut impl Executor) {
        loop {
            self.enable_ready(slots, executor);
            let Some(unit) = self.next_to_fill() else { return };
            if !self.fill(slots, executor, unit) {
                self.refill &= !(1 << unit);
            }
        }
    }

    /// A unit that may take an operation: one that has none, if there is such.
    fn next_to_fill(&self) -> Option<usize> {
        let mut ahead = None;
        let mut refill = self.refill;
        while refill != 0 {
            let unit = refill.trailing_zeros() as usize;
            refill &= refill - 1;
            if self.units[unit].groups == [GroupState::Free; GROUPS] {
                return Some(unit);
            }
            ahead = ahead.or(Some(unit));
        }
        ahead
    }

    /// Whether an operation completed without the device.
    pub(crate) const fn has_finished(&self) -> bool {
        self.finished != 0
    }

    fn enable(&mut self, slots: &mut [Slot], executor: &mut impl Executor, unit: usize, group: usize) {
        let GroupState::Programmed(index, rdma) = self.units[unit].groups[group] else { return };
        let Some(operation) = operation_mut(slots, index) else { return };
        match executor.enable(operation, GroupIndices { group: group as u8, rdma }) {
            Enabled::NotYet => {
                self.deferred |= bit(unit, group);
                return;
            }
            Enabled::Complete => self.finished |= bit(unit, group),
            Enabled::Yes => {}
        }
        self.units[unit].groups[group] = GroupState::Enabled(index, rdma);
        self.refill |= 1 << unit;
        self.happened(slots, index, Event::OpEnabled);
    }

    /// Programs a unit's next operation; false when it has none or cannot take it.
    fn fill(&mut self, slots: &mut [Slot], executor: &mut impl Executor, unit: usize) -> bool {
        let state = &mut self.units[unit];
        // BDMA's groups do not alternate: launching a group names it.
        if UNITS[unit] == OpType::Bdma && state.groups == [GroupState::Free; GROUPS] {
            state.fill = 0;
        }
        let group = usize::from(state.fill);
        let (Some(index), GroupState::Free) = (state.queue, state.groups[group]) else { return false };
        let Some(next) = operation(slots, index) else { return false };
        if !may_join(slots, next, state.groups[1 - group]) {
            return false;
        }
        let groups = GroupIndices { group: group as u8, rdma: state.fill_rdma };
        state.groups[group] = GroupState::Programmed(index, groups.rdma);
        state.fill = 1 - groups.group;
        if next.rdma {
            state.fill_rdma = 1 - groups.rdma;
        }
        state.queue = next.next;
        let waits = next.left != 0;
        executor.program(slots, index, groups);
        if !waits {
            self.ready |= bit(unit, group);
        }
        self.happened(slots, index, Event::OpProgrammed);
        true
    }
}

/// Whether an operation may be programmed while the unit's other group holds `other`, which must have been enabled.
///
/// Both groups share the lookup tables, which are locked while the unit runs. They also share BDMA's queue of
/// transfers, which must hold the transfers of both operations. A BDMA operation without transfers completes at once,
/// so it must not overtake the one before it.
fn may_join(slots: &[Slot], next: &Operation, other: GroupState) -> bool {
    let index = match other {
        GroupState::Free => return true,
        GroupState::Programmed(..) => return false,
        GroupState::Enabled(index, _) => index,
    };
    let Some(held) = operation(slots, index) else { return true };
    if let (Program::Bdma(mine), Program::Bdma(its)) = (&next.program, &held.program) {
        return mine.count != 0 && usize::from(mine.count) + usize::from(its.count) <= MAX_BDMA_TRANSFERS;
    }
    next.lut.is_none() || next.lut == held.lut
}

/// Units by number.
pub(crate) const UNITS: [OpType; PROCESSORS] =
    [OpType::Bdma, OpType::Conv, OpType::Sdp, OpType::Pdp, OpType::Cdp, OpType::Rubik];
