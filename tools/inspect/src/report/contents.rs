// SPDX-License-Identifier: MIT OR Apache-2.0

//! The parts of a report: plain values, in the loadable's own names.

use serde::Serialize;

/// All of a loadable.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the loadable's format.
    pub version: String,
    /// Bytes of the file.
    pub bytes: usize,
    /// Tensors to be bound as inputs, by bind id.
    pub inputs: Vec<Tensor>,
    /// Tensors to be bound as outputs, by bind id.
    pub outputs: Vec<Tensor>,
    /// Tasks that are submitted, in the order in which they first run.
    pub tasks: Vec<Task>,
    /// Memories, in file order.
    pub memories: Vec<Memory>,
    /// Blobs that are not descriptors: weights, operands, tables.
    pub constants: Constants,
    /// Places in descriptors that hold strides of bound tensors.
    pub relocations: usize,
}

/// A tensor that an application binds.
#[derive(Clone, Debug, Serialize)]
pub struct Tensor {
    /// Its number among the inputs or outputs.
    pub bind_id: u16,
    /// Its name.
    pub name: String,
    /// Type of elements.
    pub data_type: String,
    /// How they lie.
    pub pixel_format: String,
    /// Batch, channels, height, width.
    pub nchw: [i32; 4],
    /// Bytes from a line to the next.
    pub line_stride: u32,
    /// Bytes from a surface to the next.
    pub surface_stride: u32,
    /// Bytes.
    pub size: u64,
    /// The memory that it lies in.
    pub memory: u16,
    /// Where in it.
    pub offset: u64,
}

/// A memory.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// Its id.
    pub id: u16,
    /// Where it is.
    pub domain: String,
    /// Its use, as the names of its flags.
    pub flags: Vec<&'static str>,
    /// Bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub alignment: u32,
    /// The tensor bound to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// What it is filled with.
    pub contents: Vec<Content>,
}

/// A blob in a memory.
#[derive(Clone, Debug, Serialize)]
pub struct Content {
    /// Where in the memory.
    pub offset: u64,
    /// Bytes.
    pub size: usize,
    /// The blob's name.
    pub blob: String,
}

/// Blobs that are not descriptors.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Constants {
    /// How many.
    pub blobs: usize,
    /// Bytes of all.
    pub bytes: u64,
}

/// A task.
#[derive(Clone, Debug, Serialize)]
pub struct Task {
    /// Its id.
    pub id: u16,
    /// Who executes it.
    pub interface: String,
    /// Version of its descriptors, as its blobs say.
    pub descriptors: String,
    /// Values of the event chains that it waits for.
    pub waits_for: Vec<u32>,
    /// Values that it signals.
    pub signals: Vec<u32>,
    /// Its address list.
    pub addresses: Vec<Address>,
    /// Its operations, each after those that it waits for.
    pub operations: Vec<Operation>,
    /// Multiplications of all convolutions.
    pub multiplications: u64,
    /// The parts of it that cannot be read, or that contradict each other.
    pub problems: Vec<String>,
}

/// An entry of a task's address list.
#[derive(Clone, Debug, Serialize)]
pub struct Address {
    /// The memory.
    pub memory: u16,
    /// Where in it.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// An operation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Operation {
    /// Position in the operation list.
    pub index: usize,
    /// The unit.
    pub unit: String,
    /// Precision of its input and output.
    pub precision: String,
    /// What it does, in words.
    pub summary: String,
    /// The layers of the model that it computes, where the loadable says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// What it waits for.
    pub waits_for: Vec<Wait>,
    /// What it reads and writes.
    pub surfaces: Vec<Surface>,
    /// Its multiplications, if it is a convolution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiplications: Option<u64>,
    /// The reason why a part of it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A dependency.
#[derive(Clone, Debug, Serialize)]
pub struct Wait {
    /// The operation that is waited for.
    pub operation: usize,
    /// What of it.
    pub event: String,
}

/// A cube or a list that an operation reads or writes.
#[derive(Clone, Debug, Serialize)]
pub struct Surface {
    /// What it is to the operation.
    pub role: &'static str,
    /// Elements a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Channels.
    pub channels: u32,
    /// Bytes.
    pub size: u32,
    /// Bytes from a line to the next.
    pub line_stride: u32,
    /// Bytes from a surface to the next.
    pub surface_stride: u32,
    /// Where it is.
    pub place: Location,
}

/// Where a surface is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Location {
    /// Handed on by another unit.
    OnTheFly,
    /// In memory.
    Memory {
        /// Position in the task's address list.
        address: i32,
        /// The memory's id.
        memory: u16,
        /// Where in the memory.
        offset: u64,
        /// The blob or tensor that is there.
        #[serde(skip_serializing_if = "Option::is_none")]
        holds: Option<String>,
        /// How many bytes of it lie behind the memory's end, if any do.
        #[serde(skip_serializing_if = "Option::is_none")]
        beyond: Option<u64>,
        /// Whether the device's own SRAM is meant.
        sram: bool,
    },
    /// The address list has no such entry.
    Nowhere {
        /// Position that the surface names.
        address: i32,
    },
}
