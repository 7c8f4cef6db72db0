// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The lists that a network descriptor points to. Each entry is read when it is asked for, and only then.

use super::super::error::{Error, Name, Reason, Why};
use super::super::memory::TaskMemory;
use super::super::slot::{operation, Edge, Operation, Slot};
use super::surface::RegionOfInterest;
use crate::uapi::desc::{
    self, CommonOp, Consumer, Descriptor, Lut, Network, OpType, Roi, RoiArray, Stat, Surface, Wire,
};
use crate::uapi::reg::values::RamType;

/// The largest number of operations of a task, counted per region: as many as an index of the interface can name.
const MAX_OPERATIONS: u64 = 1 << 15;

/// A task's lists.
pub(super) struct Lists<'a, M: ?Sized> {
    memory: &'a M,
    network: Network,
    /// Regions of interest. With dynamic ones, the number comes from the array.
    rois: u32,
}

impl<'a, M: TaskMemory + ?Sized> Lists<'a, M> {
    /// Reads the network descriptor, to which the first address points, and checks that each list lies in its buffer.
    pub(super) fn read(memory: &'a M) -> Result<Self, Error> {
        let mut bytes = [0; Network::SIZE];
        list_buffer(memory, "network descriptor", 0, Network::SIZE as u64)?;
        read(memory, "network descriptor", 0, 0, &mut bytes)?;
        let network = Network::parse(&bytes).map_err(Reason::from)?;
        let mut lists = Self { memory, network, rois: u32::from(network.num_rois) };
        if network.num_operations == 0 {
            return Ok(lists);
        }
        if network.dynamic_roi != 0 {
            let mut bytes = [0; RoiArray::SIZE];
            read(memory, "ROI array", network.roi_array_index, 0, &mut bytes)?;
            let length = RoiArray::parse(&bytes).map_err(Reason::from)?.array_length;
            if length > lists.rois {
                let (value, maximum) = (i64::from(length), i64::from(lists.rois));
                let name = Name::new("array_length");
                return Err(Why::Range { name, value, minimum: 0, maximum }.reason().into());
            }
            lists.rois = length;
            let end = RoiArray::SIZE as u64 + u64::from(length) * Roi::SIZE as u64;
            list_buffer(memory, "ROI array", network.roi_array_index, end)?;
        } else if lists.rois == 0 {
            return Err(Why::Range { name: Name::new("num_rois"), value: 0, minimum: 1, maximum: 0xffff }
                .reason()
                .into());
        }
        let operations = u64::from(lists.rois) * u64::from(network.num_operations);
        if operations > MAX_OPERATIONS {
            return Err(Why::TooMany { operations, limit: MAX_OPERATIONS }.reason().into());
        }
        for (list, address, size) in [
            ("dependency graph", network.dependency_graph_index, CommonOp::SIZE),
            ("operation list", network.operation_desc_index, desc::Operation::SIZE),
            ("surface list", network.surface_desc_index, Surface::SIZE),
        ] {
            list_buffer(memory, list, address, operations * size as u64)?;
        }
        Ok(lists)
    }

    /// The number of operations, counted per region.
    pub(super) fn operations(&self) -> u32 {
        self.rois * u32::from(self.network.num_operations)
    }

    /// The slots that the task needs: one per operation, and one per operation with a lookup table.
    pub(super) fn slots(&self) -> Result<usize, Error> {
        let mut slots = self.operations();
        for index in 0..self.operations() {
            if matches!(self.op_type(index)?, OpType::Sdp | OpType::Cdp) && self.lut_index(index)? >= 0 {
                slots += 1;
            }
        }
        Ok(slots as usize)
    }

    /// Operations of one region; never 0.
    pub(super) fn stride(&self) -> u32 {
        u32::from(self.network.num_operations).max(1)
    }

    /// Regions.
    pub(super) fn rois(&self) -> u32 {
        self.rois
    }

    /// The first operation of each unit.
    pub(super) fn heads(&self) -> [i16; desc::PROCESSORS] {
        self.network.op_head
    }

    /// The reason with the place of operation `index`.
    pub(super) fn locate(&self, index: u32, op_type: Option<OpType>, reason: Reason) -> Error {
        let roi = (self.rois > 1).then(|| index / self.stride());
        Error { operation: Some(index % self.stride()), op_type, roi, reason }
    }

    /// Adds the place of operation `index`, with the type from its slot, to the reason.
    pub(super) fn locate_typed(&self, index: u32, reason: Reason, slots: &[Slot]) -> Error {
        self.locate(index, operation(slots, index).map(Operation::op_type), reason)
    }

    /// Where statistics go, `None` when the task asks for none.
    pub(super) fn statistics(&self) -> Result<Option<u16>, Error> {
        if self.network.num_operations == 0 || self.network.stat_list_index == -1 {
            return Ok(None);
        }
        let size = u64::from(self.operations()) * Stat::SIZE as u64;
        let address = list_buffer(self.memory, "statistics list", self.network.stat_list_index, size)?;
        Ok(Some(address as u16))
    }

    /// The type of operation `index`.
    fn op_type(&self, index: u32) -> Result<OpType, Error> {
        let mut bytes = [0; CommonOp::SIZE];
        self.entry("dependency graph", self.network.dependency_graph_index, index, &mut bytes)?;
        CommonOp::peek_op_type(&bytes).map_err(|error| self.locate(index, None, error.into()))
    }

    /// The entry of operation `index` in the dependency graph.
    pub(super) fn graph_entry(&self, index: u32) -> Result<CommonOp, Error> {
        let mut bytes = [0; CommonOp::SIZE];
        self.entry("dependency graph", self.network.dependency_graph_index, index, &mut bytes)?;
        CommonOp::parse(&bytes).map_err(|error| self.locate(index, None, error.into()))
    }

    /// The lookup table's index of operation `index`, which is SDP's or CDP's.
    fn lut_index(&self, index: u32) -> Result<i16, Error> {
        const _: () = assert!(desc::sdp_op::lut_index == desc::cdp_op::lut_index);
        let at = u64::from(index) * desc::Operation::SIZE as u64 + desc::sdp_op::lut_index as u64;
        let mut bytes = [0; 2];
        read(self.memory, "operation list", self.network.operation_desc_index, at, &mut bytes)?;
        Ok(i16::from_le_bytes(bytes))
    }

    /// The operation descriptor of operation `index`, of the unit that `T` is for. `SIZE` is the size of `T` in bytes.
    pub(super) fn operation<T: Descriptor, const SIZE: usize>(&self, index: u32) -> Result<T, Reason> {
        let at = u64::from(index) * desc::Operation::SIZE as u64;
        self.descriptor::<T, SIZE>("operation list", self.network.operation_desc_index, at)
    }

    /// The surface descriptor of operation `index`, of the unit that `T` is for. `SIZE` is the size of `T` in bytes.
    pub(super) fn surface<T: Descriptor, const SIZE: usize>(&self, index: u32) -> Result<T, Reason> {
        let at = u64::from(index) * Surface::SIZE as u64;
        self.descriptor::<T, SIZE>("surface list", self.network.surface_desc_index, at)
    }

    /// The descriptor at byte `at` of a list. Its unit has `SIZE` bytes of the list's entry. This is a separate function so that
    /// these bytes leave the stack again.
    #[inline(never)]
    fn descriptor<T: Descriptor, const SIZE: usize>(
        &self,
        list: &'static str,
        address: i16,
        at: u64,
    ) -> Result<T, Reason> {
        let mut bytes = [0; SIZE];
        read(self.memory, list, address, at, &mut bytes)?;
        Ok(T::parse(&bytes)?)
    }

    /// Lookup table `index`. The network descriptor's `num_luts` is not used, because compilers leave it 0.
    pub(super) fn table(&self, index: i16) -> Result<Lut, Reason> {
        let size = Lut::SIZE as u64;
        let offset = u64::try_from(index).ok().and_then(|index| index.checked_mul(size)).ok_or(
            Why::Index {
                name: Name::new("lut_index"),
                value: i64::from(index),
                of: "lookup tables",
                count: u64::from(self.network.num_luts),
            }
            .reason(),
        )?;
        let mut bytes = [0; Lut::SIZE];
        list_buffer(self.memory, "lookup table list", self.network.lut_data_index, offset.saturating_add(size))?;
        read(self.memory, "lookup table list", self.network.lut_data_index, offset, &mut bytes)?;
        Ok(Lut::parse(&bytes)?)
    }

    /// The region that operation `index` reads its input from, when the task's regions are dynamic and it is the
    /// operation that reads them.
    pub(super) fn region(&self, index: u32) -> Result<Option<RegionOfInterest>, Reason> {
        let network = &self.network;
        if network.dynamic_roi == 0 || i64::from(network.input_layer) != i64::from(index % self.stride()) {
            return Ok(None);
        }
        let mut bytes = [0; Roi::SIZE];
        let offset = RoiArray::SIZE as u64 + u64::from(index / self.stride()) * Roi::SIZE as u64;
        read(self.memory, "ROI array", network.roi_array_index, offset, &mut bytes)?;
        Ok(Some(RegionOfInterest { address: network.surface_index, roi: Roi::parse(&bytes)? }))
    }

    fn entry(&self, list: &'static str, address: i16, index: u32, bytes: &mut [u8]) -> Result<(), Reason> {
        read(self.memory, list, address, u64::from(index) * bytes.len() as u64, bytes)
    }

    /// Resolves the edges of an operation. Each consumer is an operation of the same region, and its unit is that of
    /// the edge's position.
    pub(super) fn edges(&self, entry: &CommonOp, index: u32, operation: &mut Operation) -> Result<(), Reason> {
        operation.dependencies = entry.dependency_count;
        for (slot, consumer) in entry.consumers.iter().enumerate() {
            operation.edges[slot] = self.edge("consumers", *consumer, index)?;
        }
        operation.edges[desc::PROCESSORS] = self.edge("fused_parent", entry.fused_parent, index)?;
        Ok(())
    }

    fn edge(&self, list: &'static str, consumer: Option<Consumer>, index: u32) -> Result<Option<Edge>, Reason> {
        let Some(Consumer { index: to, event }) = consumer else { return Ok(None) };
        match u32::try_from(to) {
            Ok(to) if to < self.stride() => Ok(Some(Edge { to: index - index % self.stride() + to, event })),
            _ => Err(Why::Index {
                name: Name::of(list, "index"),
                value: i64::from(to),
                of: "operations",
                count: u64::from(self.stride()),
            }
            .reason()),
        }
    }
}

/// The buffer of an address in a list that must hold `end` bytes; its position. The driver accesses primary memory only.
fn list_buffer<M: TaskMemory + ?Sized>(
    memory: &M,
    list: &'static str,
    address: i16,
    end: u64,
) -> Result<usize, Reason> {
    let count = memory.count();
    let index = usize::try_from(address).ok().filter(|&index| index < count);
    let Some((index, buffer)) = index.and_then(|index| Some((index, memory.buffer(index)?))) else {
        let (name, value) = (Name::of(list, "address"), i64::from(address));
        return Err(Why::Index { name, value, of: "addresses", count: count as u64 }.reason());
    };
    if buffer.memory == RamType::Cvif {
        return Err(Why::Secondary { list, address: i64::from(address) }.reason());
    }
    if end > buffer.size {
        return Err(Why::List { list, address: i64::from(address), end, size: buffer.size }.reason());
    }
    Ok(index)
}

/// Reads bytes of a list.
#[inline]
fn read<M: TaskMemory + ?Sized>(
    memory: &M,
    list: &'static str,
    address: i16,
    offset: u64,
    bytes: &mut [u8],
) -> Result<(), Reason> {
    let read = usize::try_from(address).is_ok_and(|index| memory.read(index, offset, bytes).is_ok());
    if read {
        return Ok(());
    }
    Err(unreadable(memory, list, address, offset.saturating_add(bytes.len() as u64)))
}

/// Why a list's bytes up to `end` cannot be read.
#[cold]
#[inline(never)]
fn unreadable<M: TaskMemory + ?Sized>(memory: &M, list: &'static str, address: i16, end: u64) -> Reason {
    match list_buffer(memory, list, address, end) {
        Ok(index) => {
            let size = memory.buffer(index).map_or(0, |buffer| buffer.size);
            Why::List { list, address: i64::from(address), end, size }.reason()
        }
        Err(reason) => reason,
    }
}
