// SPDX-License-Identifier: MIT OR Apache-2.0

//! Items that several tests of the runtime share: the reference data, a small loadable of our own, and a device that computes
//! nothing.
#![allow(dead_code, unreachable_pub, unused_imports)] // each test uses its part

use std::{fs, path::PathBuf, time::Duration};

use nvdla_runtime::device::{AddressEntry, Buffers, Device, DeviceInfo, Error, Handle, Kind, Observer, TaskReport};
use nvdla_runtime::loadable::{write, DataFormat, DataType, EventOp, Interface, MemoryFlags, PixelFormat, Version};
use nvdla_uapi::emu;

/// The folder of reference data. Without it, prints that the test is skipped, and returns none.
pub use nvdla_tests::reference::folder as reference;

/// Every loadable below a folder.
pub fn loadables(folder: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            found.extend(loadables(path));
        } else if path.extension().is_some_and(|extension| extension == "nvdla") {
            found.push(path);
        }
    }
    found
}

/// A device that only has buffers and records the submissions.
#[derive(Debug, Default)]
pub struct Recorder {
    pub buffers: Vec<Option<Vec<u8>>>,
    pub submissions: Vec<Vec<AddressEntry>>,
    /// What a submission does to the buffers.
    pub act: Option<fn(&mut Recorder)>,
    /// The number of bytes that may be allocated.
    pub limit: u64,
    /// The number of bytes of SRAM, and the buffers that lie in it.
    pub sram: u64,
    pub in_sram: Vec<Handle>,
}

impl Recorder {
    pub fn new() -> Self {
        Self { limit: 64 << 20, ..Self::default() }
    }

    pub fn allocated(&self) -> usize {
        self.buffers.iter().flatten().count()
    }

    fn at(handle: Handle) -> usize {
        handle.number() as usize
    }
}

impl Buffers for Recorder {
    fn bytes(&self, handle: Handle) -> &[u8] {
        self.buffers.get(Self::at(handle)).and_then(Option::as_deref).unwrap_or_default()
    }
}

impl Device for Recorder {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { kind: Kind::Model, config: None, path: None }
    }

    fn allocate(&mut self, size: u64) -> Result<Handle, Error> {
        let used: u64 = self.buffers.iter().flatten().map(|buffer| buffer.len() as u64).sum();
        if used + size > self.limit {
            let source = std::io::ErrorKind::OutOfMemory.into();
            return Err(Error::Allocate { size, device: "the recorder".into(), source });
        }
        self.buffers.push(Some(vec![0; size as usize]));
        Ok(Handle::new(self.buffers.len() as u32 - 1))
    }

    fn allocate_sram(&mut self, size: u64) -> Result<Option<Handle>, Error> {
        if size > self.sram {
            return Ok(None);
        }
        self.sram -= size;
        let handle = self.allocate(size)?;
        self.in_sram.push(handle);
        Ok(Some(handle))
    }

    fn free(&mut self, handle: Handle) {
        self.buffers[Self::at(handle)] = None;
    }

    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        self.buffers.get_mut(Self::at(handle)).and_then(Option::as_deref_mut).unwrap_or_default()
    }

    fn submit(
        &mut self,
        addresses: &[AddressEntry],
        _timeout: Option<Duration>,
        _observer: Option<Observer<'_>>,
    ) -> Result<TaskReport, Error> {
        self.submissions.push(addresses.to_vec());
        if let Some(act) = self.act {
            act(self);
        }
        Ok(TaskReport::default())
    }
}

/// Bytes of the input and the output of [`small`].
pub const TENSOR: u64 = 64;

/// A loadable of our own: a task for NVDLA without operations, then a softmax of 10 channels in atoms of 8 bytes.
///
/// Memories: 0 is the input, 1 the output, 2 and up the tasks' descriptors.
pub fn small() -> write::Contents {
    let buffer = |address_index| emu::Buffer {
        address_index,
        address_offset: 0,
        size: 16,
        format: emu::Format::Int8x8,
        width: 1,
        height: 1,
        channels: 10,
        line_stride: 8,
        surface_stride: 8,
    };
    let softmax = emu::Operation {
        kind: emu::Kind::Softmax { axis: 1 },
        input_scale: emu::Single(0.1_f32.to_bits()),
        output_scale: emu::Single(0.01_f32.to_bits()),
    };
    let mut network = [0; 40];
    // Dependency graph, operations, surfaces at positions 3, 4, 5; nothing starts.
    for (position, value) in [(0, 4i16), (2, 5), (4, 3), (6, -1), (8, -1), (10, -1), (12, -1)] {
        network[position..position + 2].copy_from_slice(&value.to_le_bytes());
    }
    network[16..28].fill(0xff);
    let dla = |name: &str, data: Vec<u8>| write::Blob {
        name: name.into(),
        interface: Interface::Dla1,
        version: Version([0, 12, 3]),
        data,
        ..Default::default()
    };
    let emulator = |name: &str, data: Vec<u8>| write::Blob {
        name: name.into(),
        interface: Interface::Emu1,
        version: Version([0, 0, 1]),
        data,
        ..Default::default()
    };
    let blobs = vec![
        dla("dla-network", network.to_vec()),
        dla("dla-lists", vec![0; 64]),
        emulator("emu-network", emu::Network { operations: 1, buffers: 2, num_operations: 1 }.to_bytes().to_vec()),
        emulator("emu-operations", softmax.to_bytes().to_vec()),
        emulator("emu-buffers", [buffer(3).to_bytes(), buffer(4).to_bytes()].concat()),
    ];
    let set = |id, name: &str, size| write::Memory {
        id,
        flags: MemoryFlags::ALLOC | MemoryFlags::SET,
        size,
        contents: vec![(name.into(), 0)],
        ..Default::default()
    };
    let bound = |id, flag, tensor_desc_id| write::Memory {
        id,
        flags: MemoryFlags::ALLOC | flag,
        size: TENSOR,
        tensor_desc_id,
        ..Default::default()
    };
    let memories = vec![
        bound(0, MemoryFlags::INPUT, 0),
        bound(1, MemoryFlags::OUTPUT, 1),
        set(2, "dla-network", 40),
        set(3, "dla-lists", 64),
        set(4, "emu-network", 256),
        set(5, "emu-operations", 24),
        set(6, "emu-buffers", 512),
    ];
    let address = |id, mem_id| write::Address { id, mem_id, offset: 0, size: 1 << 20 };
    let tensor = |id, name: &str, mem_id| write::Tensor {
        name: name.into(),
        id,
        mem_id,
        size: 16,
        data_format: DataFormat::Ncxhwx,
        data_type: DataType::Int8,
        pixel_format: PixelFormat::FEATURE_X8,
        n: 1,
        c: 10,
        h: 1,
        w: 1,
        strides: [1, 8, 8, 0, 0, 0, 0, 0],
        ..Default::default()
    };
    let relocation = |address_id, offset, reloc_type| write::Relocation {
        address_id,
        write_id: 6,
        offset,
        interface: Interface::Emu1,
        sub_interface: 4,
        reloc_type,
    };
    write::Contents {
        tasks: vec![
            write::Task {
                id: 0,
                interface: Interface::Dla1,
                address_list: vec![2, 0, 1, 3, 3, 3],
                post_actions: vec![0],
                ..Default::default()
            },
            write::Task {
                id: 1,
                interface: Interface::Emu1,
                address_list: vec![4, 5, 6, 0, 1],
                pre_actions: vec![1],
                ..Default::default()
            },
        ],
        memories,
        addresses: (0..7).map(|id| address(id, id)).collect(),
        events: vec![
            write::Event { id: 0, val: 1, op: EventOp::Signal, ..Default::default() },
            write::Event { id: 1, val: 1, op: EventOp::Wait, ..Default::default() },
        ],
        blobs,
        tensors: vec![tensor(0, "data", 0), tensor(1, "prob", 1)],
        relocations: vec![
            relocation(0, 18, 1),
            relocation(0, 22, 2),
            relocation(1, 256 + 18, 1),
            relocation(1, 256 + 22, 2),
        ],
        submits: vec![write::Submit { id: 1, task_id: vec![1] }, write::Submit { id: 0, task_id: vec![0] }],
        ..Default::default()
    }
}
