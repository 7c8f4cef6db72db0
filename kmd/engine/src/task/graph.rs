// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The dependency graph: it can complete, and an operation that hands data over on the fly has its partner.

use super::super::error::{Error, Name, Reason, Why};
use super::super::memory::TaskMemory;
use super::super::schedule::{Enabled, Executor, GroupIndices, GroupState, Schedule, GROUPS, UNITS};
use super::super::slot::{operation, operation_mut, Handover, Operation, Sharing, Slot};
use super::agree::ConvolutionBuffer;
use super::lists::Lists;
use crate::uapi::desc::{Event, OpType, PROCESSORS};

/// The unit that hands data to this one on the fly.
const fn producer_of(unit: OpType) -> Option<OpType> {
    match unit {
        OpType::Sdp => Some(OpType::Conv),
        OpType::Pdp => Some(OpType::Sdp),
        OpType::Bdma | OpType::Conv | OpType::Cdp | OpType::Rubik => None,
    }
}

/// Checks the graph and links each unit's operations in the order in which they run. Returns where each unit starts.
pub(super) fn check<M: TaskMemory + ?Sized>(
    lists: &Lists<'_, M>,
    slots: &mut [Slot],
) -> Result<[Option<u32>; PROCESSORS], Error> {
    let count = slots.len() as u32;
    for index in 0..count {
        check_edges(slots, index).map_err(|reason| lists.locate_typed(index, reason, slots))?;
    }
    for index in 0..count {
        check_partners(slots, index).map_err(|reason| lists.locate_typed(index, reason, slots))?;
    }
    check_counts(lists, slots)?;
    link(lists, slots)
}

/// Checks that a consumer's unit is that of its slot in the list, and that a fused parent's unit can pass data on the
/// fly.
fn check_edges(slots: &mut [Slot], index: u32) -> Result<(), Reason> {
    let Some(from) = operation(slots, index) else { return Ok(()) };
    let (unit, edges) = (from.op_type, from.edges);
    for (position, edge) in edges.into_iter().enumerate() {
        let Some(to) = edge.and_then(|edge| operation(slots, edge.to)) else { continue };
        let (name, expected) = match UNITS.get(position) {
            Some(&expected) => ("consumers", Some(expected)),
            None => ("fused_parent", producer_of(unit)),
        };
        if Some(to.op_type) != expected {
            let why = match (name, expected) {
                ("consumers", _) => "the consumer belongs to another unit than its position in the list",
                (_, None) => "no unit can hand data over to this one",
                _ => "the fused parent is not of the unit that hands data over to this one",
            };
            return Err(Why::Invalid { name: Name::of(name, "index"), value: i64::from(to.index), why }.reason());
        }
    }
    if let Some(parent) = edges[PROCESSORS] {
        if let Some(taken) = operation(slots, parent.to).filter(|parent| parent.child.is_some()) {
            let (value, why) = (i64::from(taken.index), "another operation takes that one's output already");
            return Err(Why::Invalid { name: Name::of("fused_parent", "index"), value, why }.reason());
        }
        pair(slots, parent.to, index);
    }
    Ok(())
}

/// Checks that each operation that passes data on the fly has a consumer, and each that receives data a producer.
fn check_partners(slots: &[Slot], index: u32) -> Result<(), Reason> {
    let Some(operation) = operation(slots, index) else { return Ok(()) };
    let unit = operation.op_type;
    let (consumes, produces) = (operation.consumed.is_some(), operation.produced.is_some());
    if consumes != operation.parent.is_some() {
        let unit = producer_of(unit).unwrap_or(unit);
        if consumes {
            return Err(Why::NoPartner { surface: "src_data", unit }.reason());
        }
        let value = operation.parent.map_or(-1, i64::from);
        let why = "the operation reads its input from memory";
        return Err(Why::Invalid { name: Name::of("fused_parent", "index"), value, why }.reason());
    }
    if produces != operation.child.is_some() {
        if produces {
            let unit = if unit == OpType::Conv { OpType::Sdp } else { OpType::Pdp };
            return Err(Why::NoPartner { surface: "dst_data", unit }.reason());
        }
        let value = operation.child.map_or(-1, i64::from);
        let why = "this operation takes the output on the fly, and it goes to memory";
        return Err(Why::Invalid { name: Name::new("the operation with this fused_parent"), value, why }.reason());
    }
    if let Some(child) = operation.child.and_then(|child| super::super::slot::operation(slots, child)) {
        if unit == OpType::Conv && operation.modes != child.modes {
            let (produced, consumed) = (operation.modes, child.modes);
            let (name, value, expected) = if produced.batches == consumed.batches {
                ("conv_mode", u8::from(produced.winograd), u8::from(consumed.winograd))
            } else {
                ("batch", produced.batches, consumed.batches)
            };
            return Err(Why::Mismatch {
                name: Name::new(name),
                value: i64::from(value),
                other: "that of the SDP operation which takes the output on the fly",
                expected: i64::from(expected),
            }
            .reason());
        }
        // A child that reads memory is refused for this reason when it is checked itself.
        if let (Some(produced), Some(consumed)) = (operation.produced, child.consumed) {
            check_handover(unit, produced, consumed)?;
        }
    }
    Ok(())
}

/// Both sides must have the same parameters. Otherwise one waits for data that the other does not send.
fn check_handover(producer: OpType, produced: Handover, consumed: Handover) -> Result<(), Reason> {
    let numbers = |side: Handover| {
        let [width, height, channel] = side.sizes.map(i64::from);
        [width, height, channel, side.precision as i64]
    };
    let dst = |field| Name::of("dst_data", field);
    let precision = Name::new(if producer == OpType::Conv { "out_precision" } else { "dst_precision" });
    let names = [dst("width"), dst("height"), dst("channel"), precision].into_iter();
    for ((name, value), expected) in names.zip(numbers(produced)).zip(numbers(consumed)) {
        if value != expected {
            let other = "that of the operation that takes it on the fly";
            return Err(Why::Mismatch { name, value, other, expected }.reason());
        }
    }
    Ok(())
}

/// Follows what convolutions find in the convolution buffer and leave there, in the order in which they run.
pub(super) fn convolution_buffer<M: TaskMemory + ?Sized>(
    lists: &Lists<'_, M>,
    slots: &[Slot],
    first: Option<u32>,
) -> Result<(), Error> {
    let (mut buffer, mut at) = (ConvolutionBuffer::default(), first);
    while let Some((index, convolution)) = at.and_then(|index| Some((index, operation(slots, index)?))) {
        if let Some(buffer_use) = &convolution.buffer_use {
            buffer.add(buffer_use).map_err(|reason| lists.locate_typed(index, reason, slots))?;
        }
        at = convolution.next;
    }
    Ok(())
}

/// Checks that each operation waits for as many events as edges lead to it.
fn check_counts<M: TaskMemory + ?Sized>(lists: &Lists<'_, M>, slots: &mut [Slot]) -> Result<(), Error> {
    // `left` counts the edges here; each run sets it anew.
    for index in 0..slots.len() as u32 {
        let Some(from) = operation(slots, index) else { continue };
        let edges = from.edges;
        for edge in edges.into_iter().flatten() {
            let Some(to) = operation_mut(slots, edge.to) else { continue };
            let Some(left) = to.left.checked_add(1) else {
                let (stated, edges) = (u32::from(to.dependencies), 256);
                return Err(lists.locate_typed(edge.to, Why::DependencyCount { stated, edges }.reason(), slots));
            };
            to.left = left;
        }
    }
    for (index, operation) in slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.operation()?))) {
        if operation.left != operation.dependencies {
            let (stated, edges) = (u32::from(operation.dependencies), u32::from(operation.left));
            return Err(lists.locate_typed(index as u32, Why::DependencyCount { stated, edges }.reason(), slots));
        }
    }
    Ok(())
}

/// Links each unit's operations: from the network's head, along the consumer of the same unit; with several regions,
/// each operation for all of them before the next one.
fn link<M: TaskMemory + ?Sized>(lists: &Lists<'_, M>, slots: &mut [Slot]) -> Result<[Option<u32>; PROCESSORS], Error> {
    let (stride, rois) = (lists.stride(), lists.rois());
    let mut heads = [None; PROCESSORS];
    if slots.is_empty() {
        return Ok(heads);
    }
    for ((unit, op_type), head) in UNITS.into_iter().enumerate().zip(lists.heads()) {
        let mut at = match head {
            -1 => None,
            head => {
                let count = u64::from(stride);
                let index = u32::try_from(head).ok().filter(|&index| index < stride);
                Some(index.ok_or(
                    Why::Index { name: Name::new("op_head"), value: i64::from(head), of: "operations", count }.reason(),
                )?)
            }
        };
        let mut last: Option<u32> = None;
        let mut order = 0;
        while let Some(index) = at {
            for roi in 0..rois {
                let slot = roi * stride + index;
                let locate = |reason, slots: &[Slot]| lists.locate_typed(slot, reason, slots);
                match operation(slots, slot) {
                    Some(found) if found.op_type != op_type => {
                        let why = "this operation is the head of another unit's list";
                        let (name, value) = (Name::new("op_head"), i64::from(index));
                        return Err(locate(Why::Invalid { name, value, why }.reason(), slots));
                    }
                    Some(found) if found.linked => return Err(locate(Why::ListCycle.reason(), slots)),
                    _ => {}
                }
                if let Some(operation) = operation_mut(slots, slot) {
                    operation.linked = true;
                    operation.order = order;
                    order += 1;
                }
                match last {
                    Some(last) => {
                        if let Some(operation) = operation_mut(slots, last) {
                            operation.next = Some(slot);
                        }
                    }
                    None => heads[unit] = Some(slot),
                }
                last = Some(slot);
            }
            // The entry of the first region is used; those of the others are copies of it.
            at = operation(slots, index).and_then(|operation| operation.edges[unit]).map(|edge| edge.to % stride);
        }
    }
    let lost = slots.iter().position(|slot| slot.operation().is_some_and(|operation| !operation.linked));
    match lost {
        Some(index) => Err(lists.locate_typed(index as u32, Why::NotReached.reason(), slots)),
        None => Ok(heads),
    }
}

/// Checks that a convolution reuses only data and weights that the previous convolution of this task left in the
/// convolution buffer. What another task left belongs to another client. The last convolution of a task may leave data
/// that is never used, because compilers do so.
///
/// Source: the state machines of CDMA (`NV_NVDLA_CDMA_dc.v` line 759, `NV_NVDLA_CDMA_wt.v` line 671 of the RTL). Data
/// that is kept is reused only in the same mode and with the same banks.
pub(super) fn check_sharing(slots: &[Slot], head: Option<u32>) -> Result<(), (u32, Reason)> {
    let mut last: Option<Sharing> = None;
    let mut at = head;
    while let Some((index, convolution)) = at.and_then(|index| Some((index, operation(slots, index)?))) {
        let sharing = convolution.sharing;
        let before = last.filter(|before| before.form == sharing.form);
        let left = before.map_or([false; 2], |before| [before.keeps[0] || before.keeps_lines, before.keeps[1]]);
        for (kind, field) in ["data_reuse", "weight_reuse"].into_iter().enumerate() {
            if sharing.reuses[kind] && !left[kind] {
                let why = "the task's convolution before this one left nothing that this one can use";
                return Err((index, Why::Invalid { name: Name::new(field), value: 1, why }.reason()));
            }
        }
        last = Some(sharing);
        at = convolution.next;
    }
    Ok(())
}

/// A device that does nothing.
struct NoDevice;

impl Executor for NoDevice {
    fn program(&mut self, _: &[Slot], _: u32, _: GroupIndices) {}

    fn enable(&mut self, _: &mut Operation, _: GroupIndices) -> Enabled {
        Enabled::Yes
    }
}

/// Runs the schedule on a device on which every enabled operation completes, and checks that all operations complete.
/// The order in which units complete does not matter, because an event never makes another one impossible.
pub(super) fn simulate(
    heads: [Option<u32>; PROCESSORS],
    operations: u32,
    slots: &mut [Slot],
) -> Result<(), (u32, Reason)> {
    let mut schedule = Schedule::new([(0, 0); PROCESSORS]);
    schedule.start(heads, operations);
    schedule.advance(slots, &mut NoDevice);
    while !schedule.is_complete() {
        let before = schedule.completed();
        for unit in 0..PROCESSORS {
            let Some(group) = schedule.oldest(unit).filter(|_| can_complete(&schedule, slots, unit)) else { continue };
            if unit == OpType::Conv as usize {
                schedule.event(slots, unit, group, Event::CdmaWeightDone);
                schedule.event(slots, unit, group, Event::CdmaDataDone);
            }
            schedule.complete(slots, unit, group);
            schedule.advance(slots, &mut NoDevice);
        }
        if schedule.completed() == before {
            return Err(first_stuck(&schedule, slots));
        }
    }
    Ok(())
}

/// Whether a unit's oldest operation can complete: it runs, the producer of its input on the fly has completed, and the
/// consumer of its output on the fly runs. A producer counts as complete before its consumer, so the units are visited
/// in the order in which data pass through them.
fn can_complete(schedule: &Schedule, slots: &[Slot], unit: usize) -> bool {
    let running = |unit: usize| {
        let group = schedule.oldest(unit)?;
        match schedule.group(unit, group) {
            GroupState::Enabled(index, _) => Some((index, operation(slots, index)?)),
            _ => None,
        }
    };
    let Some((_, mut at)) = running(unit) else { return false };
    if let Some(parent) = at.parent.and_then(|parent| operation(slots, parent)) {
        if !schedule.has_left(parent.op_type as usize, parent.order) {
            return false;
        }
    }
    while let Some(child) = at.child {
        let taker = operation(slots, child).and_then(|taker| running(taker.op_type as usize));
        match taker {
            Some((index, taker)) if index == child => at = taker,
            _ => return false,
        }
    }
    true
}

/// The first operation that never completes, and what it waits for.
fn first_stuck(schedule: &Schedule, slots: &[Slot]) -> (u32, Reason) {
    let mut behind = None;
    for unit in 0..PROCESSORS {
        let held = schedule.oldest(unit).map(|group| schedule.group(unit, group));
        match held {
            Some(GroupState::Programmed(index, _)) => {
                if let Some(found) = unfinished(schedule, slots, index) {
                    return (index, found);
                }
            }
            Some(GroupState::Enabled(index, _)) => {
                let partner = operation(slots, index).and_then(|operation| operation.parent.or(operation.child));
                behind = behind.or(Some((index, partner.unwrap_or(index))));
            }
            _ => {
                if let Some(index) = schedule.queued(unit) {
                    behind = behind.or(Some((index, index)));
                }
            }
        }
    }
    let (index, of) = behind.unwrap_or((0, 0));
    let op_type = operation(slots, of).map_or(OpType::Bdma, Operation::op_type);
    (index, Why::StuckBehind { of, op_type }.reason())
}

/// An event that the operation in slot `index` waits for and that has not happened.
fn unfinished(schedule: &Schedule, slots: &[Slot], index: u32) -> Option<Reason> {
    for (of, from) in slots.iter().enumerate().filter_map(|(of, slot)| Some((of as u32, slot.operation()?))) {
        for edge in from.edges.iter().flatten().filter(|edge| edge.to == index) {
            if !happened(schedule, from, of, edge.event) {
                return Some(Why::Stuck { event: edge.event, of: from.index, op_type: from.op_type }.reason());
            }
        }
    }
    None
}

fn happened(schedule: &Schedule, from: &Operation, of: u32, event: Event) -> bool {
    let unit = from.op_type as usize;
    let held = (0..GROUPS)
        .map(|group| schedule.group(unit, group))
        .find(|group| group.holds().is_some_and(|(index, _)| index == of));
    match (held, event) {
        (Some(_), Event::OpProgrammed) | (Some(GroupState::Enabled(..)), Event::OpEnabled) => true,
        (Some(_), _) => false,
        (None, _) => schedule.has_left(unit, from.order),
    }
}

/// Gives `operation` in `slots` its partner on the fly.
fn pair(slots: &mut [Slot], parent: u32, child: u32) {
    if let Some(operation) = operation_mut(slots, parent) {
        operation.child = Some(child);
    }
    if let Some(operation) = operation_mut(slots, child) {
        operation.parent = Some(parent);
    }
}
