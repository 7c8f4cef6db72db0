// SPDX-License-Identifier: MIT OR Apache-2.0

//! Writes a planned program as a loadable: descriptors with their addresses filled in, and the eight lists around them.
//!
//! One memory holds all constants, one is the pool, and one the pool in SRAM if there is one. Each input and output has its own
//! memory, and so has each list of descriptors of each task. Memory n has address n. A task's address list begins with its network
//! descriptor. Then come constants, pools, inputs and outputs, which all tasks share, and then the task's own lists.

use nvdla_runtime::conditions;
use nvdla_runtime::loadable::names;
use nvdla_runtime::loadable::write::{Address, Blob, Contents, Event, Memory, Relocation, Submit, Task, Tensor};
use nvdla_runtime::loadable::{
    DataCategory, DataFormat, DataType, EventOp, Interface, MemoryDomain, MemoryFlags, PixelFormat, Version,
};
use nvdla_runtime::profile::Conditions;
use nvdla_uapi::desc::{
    self, cdp_surface, conv_surface, data_cube, pdp_surface, rubik_surface, sdp_surface, Descriptor, Wire,
};
use nvdla_uapi::emu;
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::FieldValue;

use crate::error::Error;
use crate::schedule::memory::Plan;
use crate::schedule::order::Order;
use crate::schedule::program::{
    Base, Buffer, Constant, Cube, Emulated, Format, Operation, Program, Storage, Task as Lowered, Unit,
};
use crate::target::HALVED_ATOM;

/// Version of the descriptors, as blobs carry it.
const DLA_VERSION: Version = Version([desc::Version::CURRENT.major, desc::Version::CURRENT.minor, 3]);
/// Version of the emulator's descriptors.
const EMU_VERSION: Version = Version([0, 0, 1]);

/// The contents of a blob of descriptors, by the loadable format's numbers.
#[derive(Clone, Copy)]
enum List {
    Network = 1,
    DependencyGraph = 2,
    Operations = 3,
    /// Surfaces of NVDLA's operations; buffers of the emulator's.
    Surfaces = 4,
    /// Lookup tables.
    Tables = 5,
}

/// The stride that a relocation writes, by the loadable format's numbers.
#[derive(Clone, Copy)]
enum Stride {
    Line = 1,
    Surface = 2,
}

/// Makes the loadable's bytes. The program's constants are then only there.
pub fn emit(program: &mut Program, plan: &Plan, conditions: &Conditions) -> Result<Vec<u8>, Error> {
    let constants = std::mem::take(&mut program.constants);
    let mut emitter = Emitter::new(program, constants, plan);
    for (index, task) in program.tasks.iter().enumerate() {
        let number = index as u16;
        let (interface, network, own) = match task {
            Lowered::Dla(operations) => {
                let order =
                    plan.orders[index].as_ref().ok_or_else(|| Error::Network("a task has no order".to_owned()))?;
                emitter.dla(number, operations, order)?
            }
            Lowered::Emulated(operations) => emitter.emulated(number, operations)?,
        };
        emitter.task(number, interface, network, own);
    }
    emitter.names(conditions);
    emitter.contents.to_bytes().map_err(|error| Error::Network(error.to_string()))
}

struct Emitter<'a> {
    program: &'a Program,
    plan: &'a Plan,
    contents: Contents,
    /// The addresses that every task has after its network descriptor, in order.
    shared: Vec<u16>,
    constants: u16,
    pool: u16,
    /// The pool in SRAM; the other pool's number if there is none.
    sram: u16,
    /// Memories of the inputs and outputs, with their surfaces.
    bound: Vec<(usize, u16)>,
    /// For each buffer, whether every operation that accesses it uses all of it.
    whole: Vec<bool>,
}

impl<'a> Emitter<'a> {
    fn new(program: &'a Program, constants: Vec<Constant>, plan: &'a Plan) -> Self {
        let contents = Contents::default();
        let (shared, bound) = (Vec::new(), Vec::new());
        let whole = whole_buffers(program);
        let mut emitter = Self { program, plan, contents, shared, constants: 0, pool: 0, sram: 0, bound, whole };
        // Empty memories are not allocated: a network without weights or pool has the smallest.
        let mut memory = Memory { size: plan.constants_size.max(1), ..Default::default() };
        if plan.constants_size > 0 {
            let mut data = vec![0; plan.constants_size as usize];
            for (constant, &offset) in constants.into_iter().zip(&plan.constants) {
                data[offset as usize..][..constant.bytes.len()].copy_from_slice(&constant.bytes);
            }
            let name = "constants".to_owned();
            memory.flags = MemoryFlags::ALLOC | MemoryFlags::SET;
            memory.contents = vec![(name.clone(), 0)];
            emitter.contents.blobs.push(Blob { name, data, ..Default::default() });
        }
        emitter.constants = emitter.memory(memory);
        emitter.pool = emitter.memory(Memory { size: plan.pool_size.max(1), ..Default::default() });
        emitter.sram = emitter.pool;
        emitter.shared.extend([emitter.constants, emitter.pool]);
        if plan.sram_size > 0 {
            let domain = MemoryDomain::Sram;
            emitter.sram = emitter.memory(Memory { domain, size: plan.sram_size, ..Default::default() });
            emitter.shared.push(emitter.sram);
        }
        for place in [|place: Storage| matches!(place, Storage::Input(_)), |place| matches!(place, Storage::Output(_))]
        {
            let mut surfaces: Vec<usize> =
                (0..program.buffers.len()).filter(|&id| place(program.buffers[id].place)).collect();
            surfaces.sort_by_key(|&id| number(program.buffers[id].place));
            for id in surfaces {
                emitter.bind(id);
            }
        }
        emitter
    }

    /// Adds the blob with the nodes that each operation computes. No memory refers to it, so other runtimes ignore it.
    fn names(&mut self, conditions: &Conditions) {
        let operations = self.program.tasks.iter().map(|task| -> Vec<usize> {
            match task {
                Lowered::Dla(operations) => operations.iter().map(|operation| operation.step).collect(),
                Lowered::Emulated(operations) => operations.iter().map(|operation| operation.step).collect(),
            }
        });
        // Steps are arrays, and their scales have the digits of fp32, because a loadable has many of them.
        let steps = self.program.steps.iter().map(|step| {
            let mut layer = vec![serde_json::json!(step.tensor), serde_json::json!(step.scale as f32)];
            layer.extend(step.nodes.iter().map(|node| serde_json::json!(node)));
            layer
        });
        let mut names = serde_json::json!({
            "version": 2,
            "network": self.program.name,
            "configuration": self.program.config.name,
            "precision": self.program.precision_name(),
            "inputs": self.program.inputs,
            "outputs": self.program.outputs,
            "steps": steps.collect::<Vec<_>>(),
            "tasks": operations.collect::<Vec<_>>(),
        });
        if *conditions != Conditions::default() {
            names["conditions"] = conditions::to_json(conditions);
        }
        let data = names.to_string().into_bytes();
        self.contents.blobs.push(Blob { name: names::BLOB.to_owned(), data, ..Default::default() });
    }

    /// Adds a memory and its address, which have the same number.
    fn memory(&mut self, memory: Memory) -> u16 {
        let id = self.contents.memories.len() as u16;
        self.contents.addresses.push(Address { id, mem_id: id, offset: 0, size: memory.size });
        self.contents.memories.push(Memory { id, ..memory });
        id
    }

    /// Adds the memory and the tensor of an input or an output.
    fn bind(&mut self, id: usize) {
        let surface = &self.program.buffers[id];
        let tensor_desc_id = self.contents.tensors.len() as u16;
        let direction = match surface.place {
            Storage::Output(_) => MemoryFlags::OUTPUT,
            Storage::Input(_) | Storage::Pool | Storage::Sram => MemoryFlags::INPUT,
        };
        let memory = self.memory(Memory {
            flags: MemoryFlags::ALLOC | direction,
            size: u64::from(surface.size),
            bind_id: number(surface.place),
            tensor_desc_id,
            ..Default::default()
        });
        self.shared.push(memory);
        self.bound.push((id, memory));
        let (data_type, element) = match (surface.format, surface.precision) {
            (Format::Feature, Precision::Fp16) => (DataType::Half, 2),
            (Format::Feature, Precision::Int16) => (DataType::Int16, 2),
            _ => (DataType::Int8, 1),
        };
        let (data_format, data_category, pixel_format, strides) = match surface.format {
            Format::Feature => (
                DataFormat::Ncxhwx,
                DataCategory::Feature,
                if data_type == DataType::Half { PixelFormat::FEATURE } else { self.feature_format() },
                [element, surface.line_stride, surface.surface_stride, 0, 0, 0, 0, 0],
            ),
            Format::Pixel(format) => (
                DataFormat::Nhwc,
                DataCategory::Image,
                PixelFormat::from(format.to_bits() as u8),
                [1, surface.line_stride, 0, 0, 0, 0, 0, 0],
            ),
        };
        self.contents.tensors.push(Tensor {
            name: surface.name.clone(),
            id: tensor_desc_id,
            mem_id: memory,
            size: u64::from(surface.size),
            data_format,
            data_type,
            data_category,
            pixel_format,
            n: surface.pictures as i32,
            c: surface.channels as i32,
            h: surface.height as i32,
            w: surface.width as i32,
            strides,
            ..Default::default()
        });
    }

    /// The loadable format's name for a feature cube of this configuration.
    fn feature_format(&self) -> PixelFormat {
        // There is no format for atoms of 16 bytes; the line stride of FEATURE distinguishes them from atoms of 32 bytes.
        if self.program.config.memory_atomic == 8 {
            PixelFormat::FEATURE_X8
        } else {
            PixelFormat::FEATURE
        }
    }

    /// Adds a list of a task's descriptors. Returns the number of its memory.
    fn list(&mut self, task: u16, interface: Interface, list: List, data: Vec<u8>) -> u16 {
        let (version, name) = match (interface, list) {
            (_, List::Network) => (None, "addr0"),
            (_, List::DependencyGraph) => (None, "dep_graph"),
            (_, List::Operations) => (None, "op_list"),
            (Interface::Emu1, List::Surfaces) => (Some(EMU_VERSION), "op_buf_list"),
            (_, List::Surfaces) => (None, "surf_list"),
            (_, List::Tables) => (None, "lut_list"),
        };
        let version = version.unwrap_or(if interface == Interface::Emu1 { EMU_VERSION } else { DLA_VERSION });
        let name = format!("task-{task}-{name}");
        let size = data.len() as u64;
        self.contents.blobs.push(Blob { name: name.clone(), interface, sub_interface: list as u32, version, data });
        let flags = MemoryFlags::ALLOC | MemoryFlags::SET;
        self.memory(Memory { flags, size, contents: vec![(name, 0)], ..Default::default() })
    }

    /// Position of a memory in every task's address list.
    fn position(&self, memory: u16) -> u16 {
        let shared = self.shared.iter().position(|&shared| shared == memory).unwrap_or(0);
        shared as u16 + 1
    }

    /// Position of a task's own list in its address list.
    fn own_position(&self, index: u16) -> u16 {
        self.shared.len() as u16 + 1 + index
    }

    /// Adds a task that waits for the task before it and signals the next one.
    fn task(&mut self, id: u16, interface: Interface, network: u16, own: Vec<u16>) {
        let mut event = |val, op| {
            let id = self.contents.events.len() as u16;
            self.contents.events.push(Event { id, val, op, ..Default::default() });
            id
        };
        let pre_actions = if id == 0 { Vec::new() } else { vec![event(u32::from(id), EventOp::Wait)] };
        let post_actions = vec![event(u32::from(id) + 1, EventOp::Signal)];
        let mut address_list = vec![network];
        address_list.extend(&self.shared);
        address_list.extend(own);
        self.contents.tasks.push(Task { id, interface, address_list, pre_actions, post_actions, ..Default::default() });
        self.contents.submits.push(Submit { id, task_id: vec![id] });
    }

    /// The start of a cube: position in the address list and offset.
    fn place(&self, cube: &Cube) -> Option<(u16, u32)> {
        match cube.base {
            Base::OnTheFly => None,
            Base::Constant(id) => Some((self.position(self.constants), self.plan.constants[id] + cube.offset)),
            Base::Buffer(id) => {
                let memory = match self.program.buffers[id].place {
                    Storage::Pool => self.pool,
                    Storage::Sram => self.sram,
                    Storage::Input(_) | Storage::Output(_) => self.bound.iter().find(|(surface, _)| *surface == id)?.1,
                };
                Some((self.position(memory), self.plan.buffers[id] + cube.offset))
            }
        }
    }

    fn data_cube(&self, cube: &Cube) -> desc::DataCube {
        let (address, offset) = self.place(cube).map_or((-1, 0), |(address, offset)| (address as i16, offset));
        desc::DataCube { address, offset, ..cube.descriptor(|id| self.program.in_sram(id)) }
    }

    /// Adds relocations, with which an application can change the strides of an input or output. Memory `list` has them in its
    /// descriptor at `field`. This is not possible if an operation uses only a part of the tensor, because the part's offset
    /// depends on the strides.
    fn relocate(&mut self, cube: &Cube, list: u16, interface: Interface, fields: [usize; 2]) {
        let Base::Buffer(id) = cube.base else { return };
        let Some(&(_, memory)) = self.bound.iter().find(|(surface, _)| *surface == id) else { return };
        if !self.whole[id] {
            return;
        }
        for (field, stride) in fields.into_iter().zip([Stride::Line, Stride::Surface]) {
            self.contents.relocations.push(Relocation {
                address_id: memory,
                write_id: list,
                offset: field as u64,
                interface,
                sub_interface: List::Surfaces as u32,
                reloc_type: stride as u8,
            });
        }
    }

    fn dla(&mut self, task: u16, operations: &[Operation], order: &Order) -> Result<(Interface, u16, Vec<u16>), Error> {
        let interface = Interface::Dla1;
        let written = |error: desc::Error| Error::Network(error.to_string());
        let graph = &order.entries;
        let mut graph_bytes = vec![0; graph.len() * desc::CommonOp::SIZE];
        let mut operation_bytes = vec![0; operations.len() * desc::Operation::SIZE];
        let mut surface_bytes = vec![0; operations.len() * desc::Surface::SIZE];
        for (index, operation) in operations.iter().enumerate() {
            graph[index].write(&mut graph_bytes[index * desc::CommonOp::SIZE..]).map_err(written)?;
            let (descriptor, surface) = operation.unit.descriptors(|cube| self.data_cube(cube));
            descriptor.write(&mut operation_bytes[index * desc::Operation::SIZE..]).map_err(written)?;
            surface.write(&mut surface_bytes[index * desc::Surface::SIZE..]).map_err(written)?;
        }
        let lut = if uses_tables(operations) { Some(self.tables()?) } else { None };
        let network = desc::Network {
            dependency_graph_index: self.own_position(0) as i16,
            operation_desc_index: self.own_position(1) as i16,
            surface_desc_index: self.own_position(2) as i16,
            lut_data_index: if lut.is_some() { self.own_position(3) as i16 } else { -1 },
            roi_array_index: -1,
            surface_index: -1,
            stat_list_index: -1,
            op_head: order.heads,
            num_rois: 1,
            num_operations: operations.len() as u16,
            num_luts: if lut.is_some() { self.program.tables.len() as u16 } else { 0 },
            num_addresses: self.own_position(3 + u16::from(lut.is_some())),
            ..Default::default()
        };
        let mut network_bytes = vec![0; desc::Network::SIZE];
        network.write(&mut network_bytes).map_err(written)?;
        let network = self.list(task, interface, List::Network, network_bytes);
        let graph = self.list(task, interface, List::DependencyGraph, graph_bytes);
        let descriptors = self.list(task, interface, List::Operations, operation_bytes);
        let surfaces = self.list(task, interface, List::Surfaces, surface_bytes);
        for (index, operation) in operations.iter().enumerate() {
            let strides = |field: usize| {
                let cube = index * desc::Surface::SIZE + field;
                [cube + data_cube::line_stride, cube + data_cube::surf_stride]
            };
            let (from, to) = match &operation.unit {
                Unit::Convolution { .. } => (conv_surface::src_data, conv_surface::dst_data),
                Unit::Sdp { .. } => (sdp_surface::src_data, sdp_surface::dst_data),
                Unit::Pdp { .. } => (pdp_surface::src_data, pdp_surface::dst_data),
                Unit::Cdp { .. } => (cdp_surface::src_data, cdp_surface::dst_data),
                Unit::Rubik { .. } => (rubik_surface::src_data, rubik_surface::dst_data),
            };
            self.relocate(operation.unit.source(), surfaces, interface, strides(from));
            self.relocate(operation.unit.target(), surfaces, interface, strides(to));
        }
        let mut own = vec![graph, descriptors, surfaces];
        own.extend(lut.map(|data| self.list(task, interface, List::Tables, data)));
        Ok((interface, network, own))
    }

    /// The bytes of the program's lookup tables.
    fn tables(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.program.tables.len() * desc::Lut::SIZE];
        for (table, bytes) in self.program.tables.iter().zip(bytes.chunks_exact_mut(desc::Lut::SIZE)) {
            table.write(bytes).map_err(|error| Error::Network(error.to_string()))?;
        }
        Ok(bytes)
    }

    fn emulated(&mut self, task: u16, operations: &[Emulated]) -> Result<(Interface, u16, Vec<u16>), Error> {
        let interface = Interface::Emu1;
        let mut operation_bytes = Vec::new();
        let mut buffer_bytes = Vec::new();
        for operation in operations {
            let descriptor = emu::Operation {
                kind: operation.function,
                input_scale: emu::Single(operation.input_scale.to_bits()),
                output_scale: emu::Single(operation.output_scale.to_bits()),
            };
            operation_bytes.extend(descriptor.to_bytes());
            let mut buffers = [
                self.emulated_buffer(operation.step, &operation.source)?,
                self.emulated_buffer(operation.step, &operation.target)?,
            ];
            // Where pixels of the one became lines, those of the other, which is in half precision, do, too.
            if buffers[0].width != buffers[1].width {
                buffers =
                    buffers.map(|buffer| if buffer.format == emu::Format::Fp16 { as_lines(buffer) } else { buffer });
            }
            if buffers[0].width != buffers[1].width {
                let reason = "its pixels are lines for the emulator, and those of its results are not".to_owned();
                return Err(Error::unsupported(&self.program.steps[operation.step].tensor, reason));
            }
            for buffer in buffers {
                buffer_bytes.extend(buffer.to_bytes());
            }
        }
        let network = emu::Network {
            operations: self.own_position(0),
            buffers: self.own_position(1),
            num_operations: operations.len() as u16,
        };
        let network = self.list(task, interface, List::Network, network.to_bytes().to_vec());
        let descriptors = self.list(task, interface, List::Operations, operation_bytes);
        let buffers = self.list(task, interface, List::Surfaces, buffer_bytes);
        for (index, operation) in operations.iter().enumerate() {
            for (half, cube) in [&operation.source, &operation.target].into_iter().enumerate() {
                let buffer = index * emu::BUFFERS_SIZE + half * emu::BUFFER_SIZE;
                let strides = [
                    buffer + std::mem::offset_of!(emu::raw::Buffer, line_stride),
                    buffer + std::mem::offset_of!(emu::raw::Buffer, surf_stride),
                ];
                // The strides of halves of atoms are not the tensor's.
                if self.program.config.memory_atomic != HALVED_ATOM {
                    self.relocate(cube, buffers, interface, strides);
                }
            }
        }
        Ok((interface, network, vec![descriptors, buffers]))
    }

    fn emulated_buffer(&self, step: usize, cube: &Cube) -> Result<emu::Buffer, Error> {
        let layer = &self.program.steps[step].tensor;
        let precision = cube.buffer().map_or(self.program.precision, |id| self.program.buffers[id].precision);
        let half = precision == Precision::Fp16 && self.program.precision != precision;
        let format = match (precision, self.program.config.memory_atomic) {
            (Precision::Int8, 32) => emu::Format::Int8,
            (Precision::Fp16, atom) if atom == 32 || half => emu::Format::Fp16,
            (Precision::Int8, 8 | HALVED_ATOM) => emu::Format::Int8x8,
            (_, other) => {
                let reason = format!("the emulator has no format with atoms of {other} bytes");
                return Err(Error::unsupported(layer, reason));
            }
        };
        let (address_index, address_offset) =
            self.place(cube).ok_or_else(|| Error::unsupported(layer, "an emulated operation needs memory"))?;
        let buffer = emu::Buffer {
            address_index,
            address_offset,
            size: cube.size,
            format,
            width: cube.width,
            height: cube.height,
            channels: cube.channels,
            line_stride: cube.line_stride,
            surface_stride: cube.surface_stride,
        };
        if self.program.config.memory_atomic == HALVED_ATOM && !half {
            return halved(buffer).ok_or_else(|| {
                let Cube { channels, height, width, .. } = cube;
                let reason = format!(
                    "the emulator has no format with atoms of {HALVED_ATOM} bytes, and {channels} channels of {height} x {width} do \
                     not lie as with atoms of 8: those of one pixel do, and up to 8 channels"
                );
                Error::unsupported(layer, reason)
            });
        }
        Ok(buffer)
    }
}

/// A buffer with atoms of [`HALVED_ATOM`] bytes as one with atoms of 8, if its elements lie as in such a one. The channels of one
/// pixel lie one after another, whatever the size of an atom. Of up to 8 channels, each pixel becomes a line.
fn halved(buffer: emu::Buffer) -> Option<emu::Buffer> {
    let emu::Buffer { width, height, channels, line_stride, surface_stride, .. } = buffer;
    let pixels = width.checked_mul(height)?;
    if pixels == 1 && (u32::from(channels) <= HALVED_ATOM || surface_stride == HALVED_ATOM) {
        return Some(emu::Buffer { line_stride: 8, surface_stride: 8, ..buffer });
    }
    // Each pixel is a line already.
    if width == 1 && channels <= 8 {
        return Some(buffer);
    }
    let atoms = Atoms::new(HALVED_ATOM, Precision::Int8).ok()?;
    let [packed_line, packed_surface] = atoms.packed_strides(width.into(), height.into());
    let lines = channels <= 8 && (height == 1 || u64::from(line_stride) == packed_line);
    let surface_stride = u32::try_from(packed_surface).ok()?;
    lines.then_some(emu::Buffer { width: 1, height: pixels, line_stride: HALVED_ATOM, surface_stride, ..buffer })
}

/// A buffer in half precision, whose atoms have 32 bytes, with a line for each pixel, if its lines are adjacent.
fn as_lines(buffer: emu::Buffer) -> emu::Buffer {
    let emu::Buffer { width, height, line_stride, .. } = buffer;
    let (Ok(atoms), Some(pixels)) = (Atoms::new(32, Precision::Fp16), width.checked_mul(height)) else { return buffer };
    let [of_lines, of_pixels] = [width, 1].map(|width| atoms.packed_strides(width.into(), height.into())[0]);
    match u32::try_from(of_pixels) {
        Ok(stride) if u64::from(line_stride) == of_lines => {
            emu::Buffer { width: 1, height: pixels, line_stride: stride, ..buffer }
        }
        _ => buffer,
    }
}

/// The number of an input or output.
fn number(place: Storage) -> u16 {
    match place {
        Storage::Input(number) | Storage::Output(number) => number,
        Storage::Pool | Storage::Sram => 0,
    }
}

/// Whether an operation uses a lookup table.
fn uses_tables(operations: &[Operation]) -> bool {
    operations.iter().any(|operation| match &operation.unit {
        Unit::Sdp { op, .. } => op.lut_index >= 0,
        Unit::Cdp { op, .. } => op.lut_index >= 0,
        Unit::Convolution { .. } | Unit::Pdp { .. } | Unit::Rubik { .. } => false,
    })
}

/// For each buffer, whether every operation that accesses it uses all of it.
fn whole_buffers(program: &Program) -> Vec<bool> {
    let mut whole = vec![true; program.buffers.len()];
    let mut look = |cube: &Cube| {
        if let Some(id) = cube.buffer() {
            let buffer: &Buffer = &program.buffers[id];
            whole[id] &= cube.offset == 0
                && (cube.line_stride, cube.surface_stride) == (buffer.line_stride, buffer.surface_stride)
                && [cube.width, cube.height, cube.channels].map(u32::from)
                    == [buffer.width, buffer.height, buffer.channels];
        }
    };
    for task in &program.tasks {
        match task {
            Lowered::Dla(operations) => {
                for operation in operations {
                    operation.unit.reads().for_each(&mut look);
                    look(operation.unit.target());
                }
            }
            Lowered::Emulated(operations) => {
                for operation in operations {
                    look(&operation.source);
                    look(&operation.target);
                }
            }
        }
    }
    whole
}
