// SPDX-License-Identifier: MIT OR Apache-2.0

//! The FlatBuffers schema of a loadable, version 0.7: the tables, with the slot and the type of each field.
//!
//! Source of the facts: `umd/core/src/common/loadable.fbs` of nvdla/sw. Every table is a typed view of bytes that [`flatbuffers`]
//! has verified. Nothing is copied. A field that the file does not have reads as zero, an empty list or an empty string, as the
//! format defines. [`super::write`] uses the same slot numbers.

mod numbers;
mod views;

use std::fmt;

use flatbuffers::{
    Follow, ForwardsUOffset, InvalidFlatbuffer, Push, PushAlignment, Table, VOffsetT, Vector, Verifiable, Verifier,
};

pub use numbers::*;
pub use views::{List, Names, Numbers, Wide};

/// The file identifier of a loadable.
pub const IDENTIFIER: &str = "NVDA";

/// The version of the loadable format that this schema describes.
pub const VERSION: Version = Version([0, 7, 0]);

/// A version: major, minor and sub-minor number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Version(pub [u8; 3]);

impl Version {
    /// Major number.
    pub const fn major(self) -> u8 {
        self.0[0]
    }

    /// Minor number.
    pub const fn minor(self) -> u8 {
        self.0[1]
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0[0], self.0[1], self.0[2])
    }
}

impl Follow<'_> for Version {
    type Inner = Self;
    unsafe fn follow(buf: &[u8], loc: usize) -> Self {
        Self([buf[loc], buf[loc + 1], buf[loc + 2]])
    }
}

impl Verifiable for Version {
    fn run_verifier(v: &mut Verifier<'_, '_>, pos: usize) -> Result<(), InvalidFlatbuffer> {
        v.in_buffer::<Self>(pos)
    }
}

impl Push for Version {
    type Output = Self;
    unsafe fn push(&self, dst: &mut [u8], _written_len: usize) {
        dst[..3].copy_from_slice(&self.0);
    }
    fn alignment() -> PushAlignment {
        PushAlignment::new(1)
    }
}

/// The wire type of a field, and the type that its accessor returns.
macro_rules! field {
    (wire number $type:ident) => { $type };
    (wire wide u64) => { Wide };
    (wire wides u64) => { ForwardsUOffset<Vector<'_, Wide>> };
    (wire named $type:ident) => { <$type as Numbered>::Number };
    (wire version Version) => { Version };
    (wire string str) => { ForwardsUOffset<&str> };
    (wire numbers $type:ident) => { ForwardsUOffset<Vector<'_, $type>> };
    (wire names str) => { ForwardsUOffset<Vector<'_, ForwardsUOffset<&str>>> };
    (wire data u8) => { ForwardsUOffset<Vector<'_, u8>> };
    (wire tables $type:ident) => { ForwardsUOffset<Vector<'_, ForwardsUOffset<$type<'_>>>> };

    (value $a:lifetime number $type:ident) => { $type };
    (value $a:lifetime wide u64) => { u64 };
    (value $a:lifetime wides u64) => { Numbers<$a, Wide> };
    (value $a:lifetime named $type:ident) => { $type };
    (value $a:lifetime version Version) => { Version };
    (value $a:lifetime string str) => { &$a str };
    (value $a:lifetime numbers $type:ident) => { Numbers<$a, $type> };
    (value $a:lifetime names str) => { Names<$a> };
    (value $a:lifetime data u8) => { &$a [u8] };
    (value $a:lifetime tables $type:ident) => { List<$a, $type<$a>> };

    (get $table:expr, $slot:expr, number $type:ident) => { get::<$type>($table, $slot).unwrap_or_default() };
    (get $table:expr, $slot:expr, wide u64) => { get::<Wide>($table, $slot).unwrap_or_default() };
    (get $table:expr, $slot:expr, wides u64) => {
        Numbers(get::<ForwardsUOffset<Vector<'_, Wide>>>($table, $slot).unwrap_or_default())
    };
    (get $table:expr, $slot:expr, named $type:ident) => {
        $type::from(get::<<$type as Numbered>::Number>($table, $slot).unwrap_or_default())
    };
    (get $table:expr, $slot:expr, version Version) => { get::<Version>($table, $slot).unwrap_or_default() };
    (get $table:expr, $slot:expr, string str) => {
        get::<ForwardsUOffset<&str>>($table, $slot).unwrap_or_default()
    };
    (get $table:expr, $slot:expr, numbers $type:ident) => {
        Numbers(get::<ForwardsUOffset<Vector<'_, $type>>>($table, $slot).unwrap_or_default())
    };
    (get $table:expr, $slot:expr, names str) => {
        Names(get::<ForwardsUOffset<Vector<'_, ForwardsUOffset<&str>>>>($table, $slot).unwrap_or_default())
    };
    (get $table:expr, $slot:expr, data u8) => {
        get::<ForwardsUOffset<Vector<'_, u8>>>($table, $slot).unwrap_or_default().bytes()
    };
    (get $table:expr, $slot:expr, tables $type:ident) => {
        List(get::<ForwardsUOffset<Vector<'_, ForwardsUOffset<$type<'_>>>>>($table, $slot).unwrap_or_default())
    };
}

/// Reads a slot of a table.
///
/// Private to this module and its macro: every `Table` here comes from [`Follow::follow`] of a type whose
/// [`Verifiable`] names the same slots with the same wire types.
fn get<'a, T: Follow<'a> + 'a>(table: Table<'a>, slot: VOffsetT) -> Option<T::Inner> {
    // SAFETY: views are only made from buffers that the verifier accepted for the view's type, and the macro below
    // gives the verifier and the accessors the same slot and wire type.
    unsafe { table.get::<T>(slot, None) }
}

/// Defines a table: its view, its slots, and its verification.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $slot:literal $field:ident $constant:ident: $kind:ident $type:ident,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'a>(Table<'a>);

        impl<'a> $name<'a> {
            $(
                #[doc = concat!("The vtable offset of `", stringify!($field), "`.")]
                // A vtable starts with two sizes of 2 bytes.
                pub const $constant: VOffsetT = 4 + 2 * $slot;

                $(#[$field_doc])*
                pub fn $field(self) -> field!(value 'a $kind $type) {
                    field!(get self.0, Self::$constant, $kind $type)
                }
            )*
        }

        impl<'a> Follow<'a> for $name<'a> {
            type Inner = $name<'a>;
            unsafe fn follow(buf: &'a [u8], loc: usize) -> Self {
                // SAFETY: the caller promises a verified table at `loc`.
                Self(unsafe { Table::new(buf, loc) })
            }
        }

        impl Verifiable for $name<'_> {
            fn run_verifier(v: &mut Verifier<'_, '_>, pos: usize) -> Result<(), InvalidFlatbuffer> {
                v.visit_table(pos)?
                    $(.visit_field::<field!(wire $kind $type)>(stringify!($field), Self::$constant, false)?)*
                    .finish();
                Ok(())
            }
        }

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &self.$field()))*.finish()
            }
        }
    };
}

table! {
    /// A task: one list of operations for NVDLA or for the emulator.
    Task {
        /// Its number.
        0 id ID: number u16,
        /// Who executes it.
        1 interface INTERFACE: named Interface,
        /// The device that it is for, if there are several; -1 for any.
        2 instance INSTANCE: number i16,
        /// Ids of address entries. The addresses in the task's descriptors are positions in this list.
        3 address_list ADDRESS_LIST: numbers u16,
        /// Ids of events before the task.
        4 pre_actions PRE_ACTIONS: numbers u16,
        /// Ids of events after the task.
        5 post_actions POST_ACTIONS: numbers u16,
    }
}

table! {
    /// A memory that the network needs.
    Memory {
        /// Its number.
        0 id ID: number u16,
        /// The kind of memory.
        1 domain DOMAIN: named MemoryDomain,
        /// How it is used.
        2 flags FLAGS: named MemoryFlags,
        /// Bytes.
        3 size SIZE: wide u64,
        /// Bytes, or 0.
        4 alignment ALIGNMENT: number u32,
        /// Names of the blobs that fill it.
        5 contents CONTENTS: names str,
        /// The offset of each of `contents` in bytes.
        6 offsets OFFSETS: wides u64,
        /// Position among the inputs or the outputs, if it is one.
        7 bind_id BIND_ID: number u16,
        /// The tensor that describes it, if it is an input or an output.
        8 tensor_desc_id TENSOR_DESC_ID: number u16,
    }
}

table! {
    /// An address: a position in a memory.
    Address {
        /// Its number.
        0 id ID: number u16,
        /// The memory.
        1 mem_id MEM_ID: number u16,
        /// Bytes from the memory's start.
        2 offset OFFSET: wide u64,
        /// Bytes. May extend beyond the memory's end; 0 in older files. Both mean up to the memory's end.
        3 size SIZE: wide u64,
    }
}

table! {
    /// An event: a number that tasks set and wait for, which orders them.
    Event {
        /// Its number.
        0 id ID: number u16,
        /// Not used.
        1 kind KIND: number u8,
        /// The number that is waited for or set.
        2 target TARGET: number u16,
        /// The value that is waited for or set.
        3 val VAL: number u32,
        /// Wait or signal.
        4 op OP: named EventOp,
    }
}

table! {
    /// A blob, also called a symbol: named bytes.
    Blob {
        /// Its name.
        0 name NAME: string str,
        /// Bytes.
        1 size SIZE: wide u64,
        /// The executor of its descriptors.
        2 interface INTERFACE: named Interface,
        /// The kind of its descriptors.
        3 sub_interface SUB_INTERFACE: number u32,
        /// The version of those descriptors.
        4 version VERSION: version Version,
        /// The bytes.
        5 data DATA: data u8,
    }
}

table! {
    /// A tensor: the layout of an input or an output in its memory.
    Tensor {
        /// Its name.
        0 name NAME: string str,
        /// Its number.
        1 id ID: number u16,
        /// The memory.
        2 mem_id MEM_ID: number u16,
        /// Bytes.
        3 size SIZE: wide u64,
        /// Bytes from the memory's start.
        4 offset OFFSET: wide u64,
        /// Order of dimensions.
        5 data_format DATA_FORMAT: named DataFormat,
        /// Type of elements.
        6 data_type DATA_TYPE: named DataType,
        /// The use of the data by the hardware.
        7 data_category DATA_CATEGORY: named DataCategory,
        /// Element format.
        8 pixel_format PIXEL_FORMAT: named PixelFormat,
        /// The order of pixels.
        9 pixel_mapping PIXEL_MAPPING: named PixelMapping,
        /// Batch.
        10 n N: number i32,
        /// Channels.
        11 c C: number i32,
        /// Lines.
        12 h H: number i32,
        /// Pixels in a line.
        13 w W: number i32,
        /// Bytes of an element.
        14 stride_0 STRIDE_0: number u32,
        /// Line stride in bytes.
        15 stride_1 STRIDE_1: number u32,
        /// Surface stride in bytes.
        16 stride_2 STRIDE_2: number u32,
        /// Unused.
        17 stride_3 STRIDE_3: number u32,
        /// Unused.
        18 stride_4 STRIDE_4: number u32,
        /// Unused.
        19 stride_5 STRIDE_5: number u32,
        /// Unused.
        20 stride_6 STRIDE_6: number u32,
        /// Unused.
        21 stride_7 STRIDE_7: number u32,
    }
}

impl Tensor<'_> {
    /// The eight strides.
    pub fn strides(self) -> [u32; 8] {
        [
            self.stride_0(),
            self.stride_1(),
            self.stride_2(),
            self.stride_3(),
            self.stride_4(),
            self.stride_5(),
            self.stride_6(),
            self.stride_7(),
        ]
    }
}

table! {
    /// A relocation: a place in a descriptor that holds a stride of a bound tensor.
    Relocation {
        /// The address entry of the bound tensor.
        0 address_id ADDRESS_ID: number u16,
        /// The memory that holds the descriptor.
        1 write_id WRITE_ID: number u16,
        /// Bytes from that memory's start.
        2 offset OFFSET: wide u64,
        /// The executor of the descriptor.
        3 interface INTERFACE: named Interface,
        /// The kind of the descriptor (a blob's `sub_interface`).
        4 sub_interface SUB_INTERFACE: number u32,
        /// 1 for the line stride, 2 for the surface stride.
        5 reloc_type RELOC_TYPE: number u8,
    }
}

table! {
    /// A submission: tasks that are submitted together.
    Submit {
        /// Its number: submissions run in this order.
        0 id ID: number u16,
        /// Ids of its tasks.
        1 task_id TASK_ID: numbers u16,
    }
}

table! {
    /// The root: a loadable's eight lists.
    Root {
        /// The version of the format.
        0 version VERSION: version Version,
        /// Tasks.
        1 task_list TASK_LIST: tables Task,
        /// Memories.
        2 memory_list MEMORY_LIST: tables Memory,
        /// Addresses.
        3 address_list ADDRESS_LIST: tables Address,
        /// Events.
        4 event_list EVENT_LIST: tables Event,
        /// Blobs.
        5 blobs BLOBS: tables Blob,
        /// Tensor descriptors.
        6 tensor_desc_list TENSOR_DESC_LIST: tables Tensor,
        /// Relocations.
        7 reloc_list RELOC_LIST: tables Relocation,
        /// Submissions.
        8 submit_list SUBMIT_LIST: tables Submit,
    }
}

/// `sub_interface` of a blob for NVDLA, and of a relocation into one.
pub mod dla1 {
    /// The network descriptor.
    pub const ADDRESS0: u32 = 1;
    /// The dependency graph.
    pub const DEPENDENCIES: u32 = 2;
    /// The operation descriptors.
    pub const OPERATIONS: u32 = 3;
    /// The surface descriptors.
    pub const SURFACES: u32 = 4;
    /// The lookup tables.
    pub const LUTS: u32 = 5;
}

/// `sub_interface` of a blob for the emulator, and of a relocation into one.
pub mod emu1 {
    /// The network descriptor.
    pub const ADDRESS0: u32 = 1;
    /// The operation descriptors.
    pub const OPERATIONS: u32 = 3;
    /// The buffer descriptors.
    pub const SURFACES: u32 = 4;
}

#[cfg(test)]
mod tests {
    use super::*;

    use flatbuffers::field_index_to_field_offset as slot;

    #[test]
    fn slots_are_vtable_offsets() {
        assert_eq!(Root::VERSION, slot(0));
        assert_eq!(Root::SUBMIT_LIST, slot(8));
        assert_eq!(Tensor::STRIDE_7, slot(21));
    }

    #[test]
    fn numbers_that_have_no_name_are_kept() {
        assert_eq!(u32::from(Interface::from(7)), 7);
        assert_eq!(PixelFormat::from(37), PixelFormat::FEATURE_X8);
        assert_eq!(PixelFormat::from(38).to_string(), "unknown value 38");
    }
}
