// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The storage of a task: one slot per operation of each region, and one per lookup table.

use super::footprint::Access;
use super::image::{Program, RegisterImage};
use super::task::agree::BufferUse;
use crate::uapi::config::Config;
use crate::uapi::desc::{Event, Lut, OpType, Stat, PROCESSORS};
use crate::uapi::reg::values::Precision;

/// Storage for one validated operation or lookup table. The caller allocates as many as [`super::Task::parse`]
/// requests.
#[derive(Clone, Debug, Default)]
#[allow(clippy::large_enum_variant)] // an operation and a table are about as large
pub enum Slot {
    /// An empty slot.
    #[default]
    Empty,
    /// An operation.
    Operation(Operation),
    /// A lookup table.
    Table(Table),
}

/// A lookup table of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub(crate) lut: Lut,
    /// Whether its slopes are half precision.
    pub(crate) half: bool,
}

impl Slot {
    /// The operation in the slot.
    pub fn operation(&self) -> Option<&Operation> {
        match self {
            Self::Operation(operation) => Some(operation),
            _ => None,
        }
    }

    pub(crate) fn operation_mut(&mut self) -> Option<&mut Operation> {
        match self {
            Self::Operation(operation) => Some(operation),
            _ => None,
        }
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
        }
    }
}

/// Bytes of a task's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// Position in the address list.
    pub address: u16,
    /// Byte offset from that address.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// An edge of the dependency graph, resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The waiting operation's slot.
    pub(crate) to: u32,
    /// What it waits for.
    pub(crate) event: Event,
}

/// How a convolution shares the convolution buffer with the convolution before and after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// It uses data, and weights, that are there.
    pub(crate) reuses: [bool; 2],
    /// It leaves all its data, and its weights, there.
    pub(crate) keeps: [bool; 2],
    /// It leaves some of its data there.
    pub(crate) keeps_lines: bool,
    /// Convolution mode, kind of input and banks. Convolutions that share the buffer have the same.
    pub(crate) form: [u32; 3],
}

/// The modes that a convolution and the SDP operation that consumes its output must have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    /// Winograd's tiles are handed over.
    pub(crate) winograd: bool,
    /// The number of cubes, one after another.
    pub(crate) batches: u8,
}

/// The parameters that the producer and the consumer of on-the-fly data must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handover {
    /// Width, height and channels.
    pub(crate) sizes: [u16; 3],
    pub(crate) precision: Precision,
}

/// A validated operation.
#[derive(Clone, Debug)]
pub struct Operation {
    pub(crate) op_type: OpType,
    pub(crate) index: u32,
    pub(crate) roi: u32,
    /// The number of events that it waits for: in the whole graph, and still outstanding in this run.
    pub(crate) dependencies: u8,
    pub(crate) left: u8,
    /// Who waits for it: six consumers and the fused parent.
    pub(crate) edges: [Option<Edge>; PROCESSORS + 1],
    /// The next operation of the same unit, and this one's position in the unit's order once it is linked.
    pub(crate) next: Option<u32>,
    pub(crate) linked: bool,
    pub(crate) order: u32,
    /// The operation that passes its output to this one on the fly, and the one to which this one passes its output.
    pub(crate) parent: Option<u32>,
    pub(crate) child: Option<u32>,
    /// The parameters of the data that it receives on the fly, and of those that it passes on.
    pub(crate) consumed: Option<Handover>,
    pub(crate) produced: Option<Handover>,
    /// A convolution's modes, and those that SDP has for it.
    pub(crate) modes: Modes,
    pub(crate) sharing: Sharing,
    /// What a convolution holds in the convolution buffer.
    pub(crate) buffer_use: Option<BufferUse>,
    /// The unit's read DMA is used.
    pub(crate) rdma: bool,
    /// The slot of the lookup table.
    pub(crate) lut: Option<u32>,
    pub(crate) output: Option<MemoryRange>,
    pub(crate) program: Program,
    pub(crate) started_ns: u64,
    pub(crate) statistics: Option<Stat>,
}

impl Operation {
    pub(crate) const fn new(op_type: OpType, index: u32, roi: u32) -> Self {
        Self {
            op_type,
            index,
            roi,
            dependencies: 0,
            left: 0,
            edges: [None; PROCESSORS + 1],
            next: None,
            linked: false,
            order: 0,
            parent: None,
            child: None,
            consumed: None,
            produced: None,
            modes: Modes { winograd: false, batches: 1 },
            sharing: Sharing { reuses: [false; 2], keeps: [false; 2], keeps_lines: false, form: [0; 3] },
            buffer_use: None,
            rdma: false,
            lut: None,
            output: None,
            program: Program::Blocks(RegisterImage::EMPTY),
            started_ns: 0,
            statistics: None,
        }
    }

    /// The unit that runs it.
    pub fn op_type(&self) -> OpType {
        self.op_type
    }

    /// Its position in the operation list.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its region of interest.
    pub fn roi(&self) -> u32 {
        self.roi
    }

    /// Where its output lies, as its descriptor says: the cube's `size` bytes. `None` for an output that is handed over on
    /// the fly, and for BDMA, which has no cube.
    pub fn output(&self) -> Option<MemoryRange> {
        self.output
    }

    /// Calls `visit` with every range of memory that the operation accesses on a device of the task's configuration.
    pub fn accesses(&self, config: &Config, visit: impl FnMut(Access)) {
        self.program.accesses(config, self.op_type, self.rdma, visit);
    }

    /// What the unit counted, when the task asked for it and the operation has run.
    pub fn statistics(&self) -> Option<&Stat> {
        self.statistics.as_ref()
    }
}

/// The operation in slot `index`.
pub(crate) fn operation(slots: &[Slot], index: u32) -> Option<&Operation> {
    slots.get(index as usize)?.operation()
}

/// The operation in slot `index`, to be changed.
pub(crate) fn operation_mut(slots: &mut [Slot], index: u32) -> Option<&mut Operation> {
    slots.get_mut(index as usize)?.operation_mut()
}
