// SPDX-License-Identifier: MIT OR Apache-2.0

//! Makes a report of a loadable.

mod bytes;
mod contents;
mod dla;
mod emulated;
mod operation;

use nvdla_runtime::loadable::{Interface, Loadable, MemoryFlags};

pub use contents::{Address, Constants, Content, Location, Memory, Operation, Report, Surface, Task, Tensor, Wait};

impl Report {
    /// Makes the report of a loadable.
    pub fn of(loadable: &Loadable) -> Self {
        let tensors = |memories: &mut dyn Iterator<Item = nvdla_runtime::loadable::Memory<'_>>| {
            memories.filter_map(|memory| tensor(loadable, memory)).collect::<Vec<_>>()
        };
        let names = loadable.names().unwrap_or_default();
        let named = |mut task: Task| {
            for operation in &mut task.operations {
                operation.layer = names.layer(task.id, operation.index).map(ToString::to_string);
            }
            task
        };
        let constants = loadable.blobs().iter().filter(|blob| blob.interface() == Interface::None);
        Self {
            version: loadable.version().to_string(),
            bytes: loadable.as_bytes().len(),
            inputs: tensors(&mut loadable.inputs()),
            outputs: tensors(&mut loadable.outputs()),
            tasks: loadable.distinct_tasks().map(|task| named(self::task(loadable, task))).collect(),
            memories: loadable.memories().iter().map(|memory| self::memory(loadable, memory)).collect(),
            constants: constants.fold(Constants::default(), |all, blob| Constants {
                blobs: all.blobs + 1,
                bytes: all.bytes + blob.data().len() as u64,
            }),
            relocations: loadable.relocations().len(),
        }
    }
}

fn tensor(loadable: &Loadable, memory: nvdla_runtime::loadable::Memory<'_>) -> Option<Tensor> {
    let tensor = loadable.tensor(memory.tensor_desc_id())?;
    Some(Tensor {
        bind_id: memory.bind_id(),
        name: tensor.name().to_owned(),
        data_type: tensor.data_type().to_string(),
        pixel_format: tensor.pixel_format().to_string(),
        nchw: [tensor.n(), tensor.c(), tensor.h(), tensor.w()],
        line_stride: tensor.stride_1(),
        surface_stride: tensor.stride_2(),
        size: tensor.size(),
        memory: memory.id(),
        offset: tensor.offset(),
    })
}

fn memory(loadable: &Loadable, memory: nvdla_runtime::loadable::Memory<'_>) -> Memory {
    let flags = memory.flags();
    let names = [
        (MemoryFlags::ALLOC, "alloc"),
        (MemoryFlags::SET, "set"),
        (MemoryFlags::INPUT, "input"),
        (MemoryFlags::OUTPUT, "output"),
    ];
    let content = |(blob, offset): (nvdla_runtime::loadable::Blob<'_>, u64)| Content {
        offset,
        size: blob.data().len(),
        blob: blob.name().to_owned(),
    };
    let bound = flags.has(MemoryFlags::INPUT) || flags.has(MemoryFlags::OUTPUT);
    Memory {
        id: memory.id(),
        domain: memory.domain().to_string(),
        flags: names.into_iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, name)| name).collect(),
        size: memory.size(),
        alignment: memory.alignment(),
        tensor: bound.then(|| loadable.tensor(memory.tensor_desc_id())).flatten().map(|t| t.name().to_owned()),
        contents: loadable.contents(memory).map(content).collect(),
    }
}

fn task(loadable: &Loadable, task: nvdla_runtime::loadable::Task<'_>) -> Task {
    let values = |ids: nvdla_runtime::loadable::schema::Numbers<'_, u16>| {
        ids.iter().filter_map(|id| Some(loadable.event(id)?.val())).collect()
    };
    let addresses = task
        .address_list()
        .iter()
        .filter_map(|id| loadable.address(id))
        .map(|address| Address { memory: address.mem_id(), offset: address.offset(), size: address.size() })
        .collect();
    let mut report = Task {
        id: task.id(),
        interface: task.interface().to_string(),
        descriptors: String::new(),
        waits_for: values(task.pre_actions()),
        signals: values(task.post_actions()),
        addresses,
        operations: Vec::new(),
        multiplications: 0,
        problems: Vec::new(),
    };
    let result = match task.interface() {
        Interface::Dla1 => dla::read(loadable, &mut report),
        Interface::Emu1 => emulated::read(loadable, &mut report),
        other => Err(format!("no device runs tasks with the interface {other}")),
    };
    if let Err(problem) = result {
        report.problems.push(problem);
    }
    report.multiplications = report.operations.iter().filter_map(|operation| operation.multiplications).sum();
    report
}
