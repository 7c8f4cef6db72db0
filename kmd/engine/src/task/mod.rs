// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! A task that a user submitted, read once and validated.

pub(super) mod agree;
mod bdma;
mod cdp;
mod conv;
mod graph;
mod lists;
mod pdp;
mod rubik;
mod sdp;
mod surface;

use self::lists::Lists;
use self::surface::Context;
use super::error::{Error, Name, Reason, Why};
use super::memory::{OutOfRange, TaskMemory};
use super::slot::{Operation, Slot, Table};
use crate::uapi::config::Config;
use crate::uapi::desc::{
    BdmaSurface, CdpOp, CdpSurface, ConvOp, ConvSurface, Event, Lut, OpType, PdpOp, PdpSurface, RubikOp, RubikSurface,
    SdpOp, SdpSurface, Stat, Wire, PROCESSORS,
};
use crate::uapi::reg::sdp as sdp_registers;
use crate::uapi::reg::values::Precision;

/// A validated task, ready to run as often as the caller likes.
#[derive(Debug)]
pub struct Task<S> {
    config: &'static Config,
    slots: S,
    operations: u32,
    /// Operations of one region.
    stride: u32,
    heads: [Option<u32>; PROCESSORS],
    /// Where statistics go: a position in the address list.
    statistics: Option<u16>,
    waits_for_cdma: bool,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Task<S> {
    /// Reads and validates the task in `memory`. `allocate` returns the number of slots that it gets, which may hold anything:
    /// one per operation of each region, and one per operation with a lookup table.
    pub fn parse<M: TaskMemory + ?Sized, E: From<Error>>(
        config: &'static Config,
        memory: &M,
        allocate: impl FnOnce(usize) -> Result<S, E>,
    ) -> Result<Self, E> {
        Self::parse_with(config, memory, allocate, |_| false)
    }

    /// The same for tools that show every violation. `go_on` gets the error of each operation that is refused, and says
    /// whether the next operation is looked at. The last error is also the result. The dependency graph is examined only
    /// if no operation is refused.
    pub fn parse_with<M: TaskMemory + ?Sized, E: From<Error>>(
        config: &'static Config,
        memory: &M,
        allocate: impl FnOnce(usize) -> Result<S, E>,
        go_on: impl FnMut(&Error) -> bool,
    ) -> Result<Self, E> {
        let lists = Lists::read(memory)?;
        let slots = allocate(lists.slots()?)?;
        Ok(Self::validate(config, memory, &lists, slots, go_on)?)
    }

    fn validate<M: TaskMemory + ?Sized>(
        config: &'static Config,
        memory: &M,
        lists: &Lists<'_, M>,
        mut slots: S,
        mut go_on: impl FnMut(&Error) -> bool,
    ) -> Result<Self, Error> {
        let storage = slots.as_mut();
        let operations = lists.operations();
        if (storage.len() as u64) < u64::from(operations) {
            return Err(Why::Slots { needed: u64::from(operations), available: storage.len() as u64 }.reason().into());
        }
        // `fill` would copy whole slots.
        for slot in storage.iter_mut() {
            *slot = Slot::Empty;
        }
        let statistics = lists.statistics()?;
        let (used, tables) = storage.split_at_mut(operations as usize);
        let mut tables = Tables { slots: tables, first: operations, count: 0, last: [None; 2] };
        let context = Context { config, memory, counted: statistics.is_some(), region: None };
        let mut refused = Ok(());
        for (index, slot) in (0..operations).zip(used.iter_mut()) {
            if let Err(error) = read_operation(&context, lists, &mut tables, index, slot) {
                let more = go_on(&error);
                refused = Err(error);
                if !more {
                    break;
                }
            }
        }
        refused?;
        let heads = graph::check(lists, used)?;
        graph::check_sharing(used, heads[OpType::Conv as usize])
            .map_err(|(index, reason)| lists.locate_typed(index, reason, used))?;
        graph::convolution_buffer(lists, used, heads[OpType::Conv as usize])?;
        let waits_for_cdma = used.iter().filter_map(Slot::operation).any(|operation| {
            let mut edges = operation.edges.iter().flatten();
            edges.any(|edge| matches!(edge.event, Event::CdmaWeightDone | Event::CdmaDataDone))
        });
        let mut task = Self { config, slots, operations, stride: lists.stride(), heads, statistics, waits_for_cdma };
        task.rewind();
        graph::simulate(task.heads, operations, task.slots.as_mut())
            .map_err(|(index, reason)| lists.locate_typed(index, reason, task.slots.as_ref()))?;
        Ok(task)
    }

    /// The operations, region by region, in the order of the operation list.
    pub fn iter(&self) -> impl Iterator<Item = &Operation> + '_ {
        self.slots.as_ref().iter().take(self.operations as usize).filter_map(Slot::operation)
    }

    /// The slots, for another task.
    pub fn into_slots(self) -> S {
        self.slots
    }

    /// The configuration that the task was validated for.
    pub fn config(&self) -> &'static Config {
        self.config
    }

    /// The number of operations, counted per region.
    pub fn operations(&self) -> u32 {
        self.operations
    }

    /// Where [`Self::write_statistics`] writes: a position in the address list.
    pub fn statistics(&self) -> Option<usize> {
        self.statistics.map(usize::from)
    }

    /// Writes what the units counted in the last run to the task's statistics list. Does nothing for a task that has no
    /// such list.
    pub fn write_statistics<M: TaskMemory + ?Sized>(&self, memory: &mut M) -> Result<(), OutOfRange> {
        let Some(address) = self.statistics else { return Ok(()) };
        for operation in self.iter() {
            if let Some(statistics) = &operation.statistics {
                let mut bytes = [0; Stat::SIZE];
                statistics.write(&mut bytes).map_err(|_| OutOfRange)?;
                let entry = u64::from(operation.roi) * u64::from(self.stride) + u64::from(operation.index);
                memory.write(usize::from(address), entry * Stat::SIZE as u64, &bytes)?;
            }
        }
        Ok(())
    }

    /// Brings the task to its state before a run.
    pub(crate) fn rewind(&mut self) {
        for slot in self.slots.as_mut().iter_mut().take(self.operations as usize) {
            if let Slot::Operation(operation) = slot {
                operation.left = operation.dependencies;
                operation.statistics = None;
            }
        }
    }

    pub(crate) fn heads(&self) -> [Option<u32>; PROCESSORS] {
        self.heads
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.statistics.is_some()
    }

    pub(crate) fn waits_for_cdma(&self) -> bool {
        self.waits_for_cdma
    }

    #[cfg(not(MODULE))]
    pub(crate) fn slots(&self) -> &[Slot] {
        self.slots.as_ref()
    }

    pub(crate) fn slots_mut(&mut self) -> &mut [Slot] {
        self.slots.as_mut()
    }
}

/// Reads and validates an operation into its slot. It is a separate function because the stack in a kernel is small:
/// its stack frame is free again when the graph is checked.
#[inline(never)]
fn read_operation<M: TaskMemory + ?Sized>(
    task: &Context<'_, M>,
    lists: &Lists<'_, M>,
    tables: &mut Tables<'_>,
    index: u32,
    slot: &mut Slot,
) -> Result<(), Error> {
    let entry = lists.graph_entry(index)?;
    let within = |reason| lists.locate(index, Some(entry.op_type), reason);
    let context = Context { region: lists.region(index).map_err(within)?, ..*task };
    *slot = Slot::Operation(Operation::new(entry.op_type, index % lists.stride(), index / lists.stride()));
    // The slot was just filled with an operation.
    let Some(operation) = slot.operation_mut() else { return Ok(()) };
    translate(&context, lists, tables, index, operation).map_err(within)?;
    lists.edges(&entry, index, operation).map_err(within)
}

/// Turns the descriptors of operation `index` into register values.
fn translate<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    lists: &Lists<'_, M>,
    tables: &mut Tables<'_>,
    index: u32,
    operation: &mut Operation,
) -> Result<(), Reason> {
    match operation.op_type {
        OpType::Bdma => {
            let surface = lists.surface::<BdmaSurface, { BdmaSurface::SIZE }>(index)?;
            bdma::translate(context, &surface, operation)
        }
        OpType::Conv => {
            let op = lists.operation::<ConvOp, { ConvOp::SIZE }>(index)?;
            let surface = lists.surface::<ConvSurface, { ConvSurface::SIZE }>(index)?;
            conv::translate(context, &op, &surface, operation)
        }
        OpType::Sdp => {
            let op = lists.operation::<SdpOp, { SdpOp::SIZE }>(index)?;
            let surface = lists.surface::<SdpSurface, { SdpSurface::SIZE }>(index)?;
            sdp::translate(context, &op, &surface, operation)?;
            operation.lut = tables.slot(lists, 0, op.lut_index, op.src_precision)?;
            Ok(())
        }
        OpType::Pdp => {
            let op = lists.operation::<PdpOp, { PdpOp::SIZE }>(index)?;
            let surface = lists.surface::<PdpSurface, { PdpSurface::SIZE }>(index)?;
            pdp::translate(context, &op, &surface, operation)
        }
        OpType::Cdp => {
            let op = lists.operation::<CdpOp, { CdpOp::SIZE }>(index)?;
            let surface = lists.surface::<CdpSurface, { CdpSurface::SIZE }>(index)?;
            cdp::translate(context, &op, &surface, operation)?;
            operation.lut = tables.slot(lists, 1, op.lut_index, op.in_precision)?;
            // The table that was kept is the one that is used: the list in memory may have changed since.
            match operation.lut.and_then(|number| tables.get(number)) {
                Some(table) => cdp::check_table(&table.lut, op.in_precision),
                None => Ok(()),
            }
        }
        OpType::Rubik => {
            let op = lists.operation::<RubikOp, { RubikOp::SIZE }>(index)?;
            let surface = lists.surface::<RubikSurface, { RubikSurface::SIZE }>(index)?;
            rubik::translate(context, op, &surface, operation)
        }
    }
}

/// The slots behind the operations, for lookup tables.
struct Tables<'a> {
    slots: &'a mut [Slot],
    /// The number of the first one.
    first: u32,
    count: usize,
    /// The last table of SDP and of CDP: the index in the task's list, whether slopes are half precision, and the slot.
    last: [Option<(i16, bool, u32)>; 2],
}

impl Tables<'_> {
    /// The table in the slot of that number.
    fn get(&self, number: u32) -> Option<&Table> {
        self.slots.get(number.checked_sub(self.first)? as usize)?.table()
    }

    /// The slot of table `index` of the task's list; `None` for -1. Operations that follow one another on a unit share
    /// the slot of the same table.
    fn slot<M: TaskMemory + ?Sized>(
        &mut self,
        lists: &Lists<'_, M>,
        unit: usize,
        index: i16,
        precision: Precision,
    ) -> Result<Option<u32>, Reason> {
        if index == -1 {
            return Ok(None);
        }
        let half = precision == Precision::Fp16;
        if let Some((_, _, slot)) = self.last[unit].filter(|last| (last.0, last.1) == (index, half)) {
            return Ok(Some(slot));
        }
        let lut = lists.table(index)?;
        if !half {
            check_slopes(&lut)?;
        }
        let (count, available) = (self.count as u64, self.slots.len() as u64);
        let slot = self.slots.get_mut(self.count).ok_or(Why::Slots { needed: count + 1, available }.reason())?;
        *slot = Slot::Table(Table { lut, half });
        let number = self.first + self.count as u32;
        self.count += 1;
        self.last[unit] = Some((index, half, number));
        Ok(Some(number))
    }
}

/// The slopes' shifts are five bits in two's complement, in all four registers alike.
fn check_slopes(lut: &Lut) -> Result<(), Reason> {
    for (part, slope) in [
        ("linear_exp_underflow_slope", lut.linear_exp_underflow_slope),
        ("linear_exp_overflow_slope", lut.linear_exp_overflow_slope),
        ("linear_only_underflow_slope", lut.linear_only_underflow_slope),
        ("linear_only_overflow_slope", lut.linear_only_overflow_slope),
    ] {
        let field = sdp_registers::S_LUT_LE_SLOPE_SHIFT::LUT_LE_SLOPE_UFLOW_SHIFT;
        super::image::signed(field, Name::of(part, "shifter"), i32::from(slope.shifter))?;
    }
    Ok(())
}
