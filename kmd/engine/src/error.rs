// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Why a task is refused: the operation, the surface or field, and the values.

use super::footprint::{memory_name, Access, Refusal};
use super::memory::Buffer;
use crate::uapi::desc::{self, Event, OpType};
use crate::uapi::layout;
use crate::uapi::reg::values::RamType;
use crate::uapi::reg::{Block, Register};
use core::fmt;

/// A refused task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The operation's index, if an operation is refused.
    pub operation: Option<u32>,
    /// The operation's type, once that is known.
    pub op_type: Option<OpType>,
    /// The region of interest, in a task of several.
    pub roi: Option<u32>,
    /// Why.
    pub reason: Reason,
}

/// A field by its descriptor's name, below a surface or sub-unit where it lies in one (`src_data.width`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The surface or sub-unit; empty where there is none.
    pub part: &'static str,
    /// The field.
    pub field: &'static str,
}

impl Name {
    /// A field of the descriptor itself.
    pub const fn new(field: &'static str) -> Self {
        Self { part: "", field }
    }

    /// A field of one of the descriptor's surfaces or sub-units.
    pub const fn of(part: &'static str, field: &'static str) -> Self {
        Self { part, field }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.part.is_empty() {
            f.write_str(self.field)
        } else {
            write!(f, "{}.{}", self.part, self.field)
        }
    }
}

/// Why a task, or one of its operations, is refused, as errors keep it: with names and values.
#[cfg(any(MODULE, feature = "texts"))]
pub type Reason = Why;
#[cfg(not(any(MODULE, feature = "texts")))]
pub use number::Reason;

/// The reason as a number, for programs in a small memory. Names and values are not kept, and the code that only they need is
/// left out.
#[cfg(not(any(MODULE, feature = "texts")))]
mod number {
    use super::Why;
    use core::fmt;

    /// Why a task, or one of its operations, is refused: the number of a [`Why`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Reason(u8);

    impl Reason {
        /// As [`Why::code`].
        pub const fn code(&self) -> u32 {
            self.0 as u32
        }
    }

    impl<T: Into<Why>> From<T> for Reason {
        #[inline(always)]
        #[allow(clippy::inline_always)] // as `Why::reason`
        fn from(why: T) -> Self {
            Self(why.into().code() as u8)
        }
    }

    impl fmt::Display for Reason {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "reason {}", self.0)
        }
    }
}

/// Why a task, or one of its operations, is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Bytes are not a valid descriptor.
    Descriptor(desc::Error),
    /// A list ends outside the buffer that its address names.
    List {
        /// The list.
        list: &'static str,
        /// The list's address, a position in the address list.
        address: i64,
        /// Where the list would end, in bytes from that address.
        end: u64,
        /// Bytes of the buffer.
        size: u64,
    },
    /// An index is out of range.
    Index {
        /// The field that holds it.
        name: Name,
        /// The index.
        value: i64,
        /// What it counts.
        of: &'static str,
        /// How many of these there are.
        count: u64,
    },
    /// The task has more operations (counted per region) than the engine accepts.
    TooMany {
        /// The task's.
        operations: u64,
        /// The most that the engine accepts.
        limit: u64,
    },
    /// The caller handed in too few slots, or the task changed after they were counted.
    Slots {
        /// Slots that the task needs.
        needed: u64,
        /// Slots that there are.
        available: u64,
    },
    /// A surface's bytes leave the buffer that its address names.
    Surface {
        /// The surface.
        surface: &'static str,
        /// Its address, a position in the address list.
        address: i64,
        /// Where it begins, in bytes from that address.
        start: u64,
        /// Where it ends.
        end: u64,
        /// Bytes of the buffer.
        size: u64,
    },
    /// A surface's layout breaks a rule of the document.
    Layout {
        /// The surface.
        surface: &'static str,
        /// The rule and the values.
        error: layout::Error,
    },
    /// What the operation's registers make its unit touch leaves the buffer that the surface's address names, or is behind
    /// the other memory interface.
    Footprint {
        /// What would be touched, and by which register.
        access: Access,
        /// The buffer's position in the address list.
        index: u16,
        /// The buffer.
        buffer: Buffer,
    },
    /// The operation's registers make its unit touch a surface that has no buffer in the descriptors.
    NoBuffer(Access),
    /// The registers do not define which memory the operation's unit accesses.
    Undefined(Refusal),
    /// A surface lies above the addresses that the device can reach.
    Unreachable {
        /// The surface.
        surface: &'static str,
        /// The address after its last byte.
        end: u64,
        /// Bits of the device's addresses.
        bits: u32,
    },
    /// Surfaces that share one memory interface lie behind different ones.
    Apart {
        /// One surface.
        surface: &'static str,
        /// Its memory.
        memory: RamType,
        /// The other surface.
        other: &'static str,
        /// The memory of the other one.
        other_memory: RamType,
    },
    /// A list that the driver reads or writes lies in secondary memory.
    Secondary {
        /// The list.
        list: &'static str,
        /// The list's address, a position in the address list.
        address: i64,
    },
    /// A value does not have the alignment that the hardware needs.
    Alignment {
        /// The field; `address` for the DMA address that a surface comes to.
        name: Name,
        /// The value.
        value: u64,
        /// What it must be a multiple of.
        alignment: u64,
    },
    /// A value does not fit the field's register, or exceeds what the hardware can do.
    Range {
        /// The field.
        name: Name,
        /// The value.
        value: i64,
        /// The smallest valid one.
        minimum: i64,
        /// The largest valid one.
        maximum: i64,
    },
    /// The output's lines, or those of a part of it, do not fit PDP's line buffer.
    LineBuffer {
        /// The field.
        name: Name,
        /// Its columns.
        value: i64,
        /// The most columns that fit.
        maximum: i64,
        /// Lines of the window.
        window: u32,
        /// The vertical stride.
        stride: u32,
        /// The input comes from memory, so that the width can be split into narrower parts.
        can_split: bool,
    },
    /// The windows of a pooling end before its input, or before the padding after it.
    Unread {
        /// The size of the input, or the padding.
        name: Name,
        /// Its value.
        value: i64,
        /// The value with which the windows read everything.
        reached: i64,
        /// The operation can be given that value, because no other unit hands the input over.
        can_crop: bool,
    },
    /// A value does not fit its register.
    Register {
        /// The block.
        block: Block,
        /// The register.
        register: Register,
        /// The value.
        value: u32,
        /// The bits that the register has.
        writable: u32,
    },
    /// Two values that must agree do not.
    Mismatch {
        /// One field.
        name: Name,
        /// Its value.
        value: i64,
        /// The other value's name.
        other: &'static str,
        /// The other value.
        expected: i64,
    },
    /// A field holds a value that is known but does not apply here.
    Invalid {
        /// The field.
        name: Name,
        /// The value; of an enumerated field, its encoding.
        value: i64,
        /// What is wrong.
        why: &'static str,
    },
    /// The hardware configuration lacks something.
    Unsupported {
        /// The field that asks for it.
        name: Name,
        /// What it lacks.
        what: &'static str,
        /// The configuration.
        config: &'static str,
    },
    /// An operation's dependency count is not the number of edges that lead to it.
    DependencyCount {
        /// The count.
        stated: u32,
        /// The edges.
        edges: u32,
    },
    /// The operation's data comes from, or goes to, another unit on the fly, and no operation of that unit is its
    /// partner.
    NoPartner {
        /// The surface.
        surface: &'static str,
        /// The unit.
        unit: OpType,
    },
    /// An operation is on its unit's list twice: the list is a circle.
    ListCycle,
    /// No list leads to the operation.
    NotReached,
    /// The graph never completes: the operation waits for an event that cannot happen.
    Stuck {
        /// The event.
        event: Event,
        /// The operation that raises the event.
        of: u32,
        /// Its type.
        op_type: OpType,
    },
    /// The graph never completes: the operation waits for its unit, or for a partner that hands data over.
    StuckBehind {
        /// The operation that never completes or never starts.
        of: u32,
        /// Its type.
        op_type: OpType,
    },
}

impl Why {
    /// This, as errors keep it. Inlined everywhere, so that names and values that errors do not keep are not put together.
    #[inline(always)]
    #[allow(clippy::inline_always, clippy::useless_conversion)] // the conversion is one where errors keep a number
    pub(crate) fn reason(self) -> Reason {
        self.into()
    }

    /// The number of the reason, which programs get from the driver. Numbers do not change; new reasons get new ones.
    pub const fn code(&self) -> u32 {
        match self {
            Self::Descriptor(..) => 1,
            Self::List { .. } => 2,
            Self::Index { .. } => 3,
            Self::TooMany { .. } => 4,
            Self::Slots { .. } => 5,
            Self::Surface { .. } => 6,
            Self::Layout { .. } => 7,
            Self::Footprint { .. } => 8,
            Self::NoBuffer(..) => 9,
            Self::Undefined(..) => 10,
            Self::Unreachable { .. } => 11,
            Self::Apart { .. } => 12,
            Self::Secondary { .. } => 13,
            Self::Alignment { .. } => 14,
            Self::Range { .. } => 15,
            Self::Register { .. } => 16,
            Self::Mismatch { .. } => 17,
            Self::Invalid { .. } => 18,
            Self::Unsupported { .. } => 19,
            Self::DependencyCount { .. } => 20,
            Self::NoPartner { .. } => 21,
            Self::ListCycle => 22,
            Self::NotReached => 23,
            Self::Stuck { .. } => 24,
            Self::StuckBehind { .. } => 25,
            Self::LineBuffer { .. } => 26,
            Self::Unread { .. } => 27,
        }
    }
}

impl From<Reason> for Error {
    fn from(reason: Reason) -> Self {
        Self { operation: None, op_type: None, roi: None, reason }
    }
}

impl From<Refusal> for Why {
    fn from(refusal: Refusal) -> Self {
        Self::Undefined(refusal)
    }
}

impl From<desc::Error> for Why {
    fn from(error: desc::Error) -> Self {
        Self::Descriptor(error)
    }
}

/// What the operation must do for an event, as text.
const fn happening(event: Event) -> &'static str {
    match event {
        Event::OpCompleted => "complete",
        Event::OpProgrammed => "be programmed",
        Event::OpEnabled => "be enabled",
        Event::CdmaWeightDone => "have its weights",
        Event::CdmaDataDone => "have its data",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = self.operation {
            write!(f, "operation {operation}")?;
            if let Some(op_type) = self.op_type {
                write!(f, " ({op_type})")?;
            }
            if let Some(roi) = self.roi {
                write!(f, " of region {roi}")?;
            }
            f.write_str(": ")?;
        }
        self.reason.fmt(f)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Descriptor(error) => error.fmt(f),
            Self::List { list, address, end, size } => {
                write!(f, "the {list} ends at byte {end:#x} of address list entry {address}, whose buffer has {size:#x} bytes")
            }
            Self::Index { name, value, of, count } => {
                write!(f, "{name} is {value}, but the task has {count} {of}")
            }
            Self::TooMany { operations, limit } => {
                write!(f, "the task has {operations} operations, more than the {limit} that can run at once")
            }
            Self::Slots { needed, available } => {
                write!(f, "the task needs {needed} slots, but the caller provided {available}")
            }
            Self::Surface { surface, address, start, end, size } => write!(
                f,
                "{surface} is bytes {start:#x}..{end:#x} of address list entry {address}, whose buffer has {size:#x} bytes"
            ),
            Self::Footprint { access, index, buffer: Buffer { address, size, memory } } => {
                let (end, memory) = (address.saturating_add(size), memory_name(memory));
                write!(
                    f,
                    "{access}, but the buffer of address list entry {index} is {address:#x}..{end:#x} of {memory} memory"
                )
            }
            Self::NoBuffer(access) => write!(f, "{access}, which lies in no buffer of the task"),
            Self::Undefined(refusal) => refusal.fmt(f),
            Self::Layout { surface, error } => write!(f, "{surface}: {error}"),
            Self::Unreachable { surface, end, bits } => {
                write!(f, "{surface} ends at DMA address {end:#x}, but the device's addresses have {bits} bits")
            }
            Self::Apart { surface, memory, other, other_memory } => write!(
                f,
                "{surface} lies in {} memory, but {other}, which is read through the same interface, in {} memory",
                memory_name(memory),
                memory_name(other_memory)
            ),
            Self::Secondary { list, address } => write!(
                f,
                "the {list} is in address list entry {address}, whose buffer lies in secondary memory, which the driver \
                 does not access"
            ),
            Self::Alignment { name, value, alignment } => {
                write!(f, "{name} is {value:#x}, which is not a multiple of {alignment}")
            }
            Self::Range { name, value, minimum, maximum } => {
                write!(f, "{name} is {value}, outside {minimum}..={maximum}")
            }
            Self::LineBuffer { name, value, maximum, window, stride, can_split: _ } => write!(
                f,
                "{name} is {value}, but PDP's line buffer holds {maximum} columns of the output for a window of {window} lines \
                 with a stride of {stride}"
            ),
            Self::Unread { name, value, reached, can_crop: _ } => write!(
                f,
                "{name} is {value}, but the windows of the pooling reach only {reached}; what they leave spoils the next pooling"
            ),
            Self::Register { block, register, value, writable } => {
                let (name, register) = (block.name(), block.register_name(register));
                write!(f, "{name}.{register} would be {value:#x}, but its writable bits are {writable:#x}")
            }
            Self::Mismatch { name, value, other, expected } => {
                write!(f, "{name} is {value}, but {other} is {expected}")
            }
            Self::Invalid { name, value, why } => write!(f, "{name} is {value}: {why}"),
            Self::Unsupported { name, what, config } => {
                write!(f, "{name} asks for {what}, which {config} does not have")
            }
            Self::DependencyCount { stated, edges } => {
                write!(f, "dependency_count is {stated}, but {edges} edges lead to the operation")
            }
            Self::NoPartner { surface, unit } => {
                write!(f, "{surface} is passed on the fly, but no {unit} operation is connected to it")
            }
            Self::ListCycle => f.write_str("its unit's list of operations contains it twice"),
            Self::NotReached => f.write_str("no unit's list of operations contains it"),
            Self::Stuck { event, of, op_type } => {
                write!(f, "it never starts, since operation {of} ({op_type}) can never {}", happening(event))
            }
            Self::StuckBehind { of, op_type } => {
                write!(f, "it never completes, since operation {of} ({op_type}) does not")
            }
        }
    }
}

impl core::error::Error for Error {}
