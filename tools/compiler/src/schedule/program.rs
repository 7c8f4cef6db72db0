// SPDX-License-Identifier: MIT OR Apache-2.0

//! The lowered network: tasks of hardware operations with descriptors that are complete except for addresses, and the buffers and
//! constants that they use. Layers no longer exist, and memory is not assigned yet.

use std::sync::Arc;

use nvdla_uapi::config::Config;
use nvdla_uapi::desc;
use nvdla_uapi::emu;
use nvdla_uapi::layout::align::{Alignment, Data};
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::reg::values::{PixelFormat, Precision};

use crate::error::Error;
use crate::target::LARGEST_EXTENT;

/// The memory of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// The pool of activations, which buffers share.
    Pool,
    /// The second pool, in the device's SRAM.
    Sram,
    /// A separate memory for the input of that number.
    Input(u16),
    /// A separate memory for the output of that number.
    Output(u16),
}

impl Storage {
    /// Whether buffers share that memory.
    pub fn is_pool(self) -> bool {
        matches!(self, Self::Pool | Self::Sram)
    }
}

/// The layout of a tensor in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A feature cube with the configuration's memory atoms.
    Feature,
    /// A pitch-linear image.
    Pixel(PixelFormat),
}

/// Activation memory that is allocated as a whole. Tensors are views of buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The tensor that it is for.
    pub name: String,
    /// Number of channels in memory.
    pub channels: u32,
    /// Lines.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// The layout of its elements.
    pub format: Format,
    /// The precision of a feature cube's elements.
    pub precision: Precision,
    /// Bytes from a line to the next.
    pub line_stride: u32,
    /// Bytes from a surface to the next; 0 for an image.
    pub surface_stride: u32,
    /// Size in bytes.
    pub size: u32,
    /// The memory that holds it.
    pub place: Storage,
    /// The pictures of an input or output, one after another.
    pub pictures: u32,
}

impl Buffer {
    /// The buffer with the lines of several pictures in each surface, one picture below the other; `None` if its surfaces have other
    /// lines than its own, or if it would be too large.
    pub(crate) fn stacked(&self, pictures: u32) -> Option<Self> {
        let dense =
            self.format == Format::Feature && self.line_stride.checked_mul(self.height) == Some(self.surface_stride);
        self.size.checked_mul(pictures).filter(|_| dense).map(|_| self.with_height(self.height * pictures))
    }

    /// The buffer of this many lines.
    pub(crate) fn with_height(&self, height: u32) -> Self {
        let surface_stride = self.line_stride * height;
        Self { height, surface_stride, size: self.size / self.surface_stride * surface_stride, ..self.clone() }
    }
}

/// Weights, operands or tables, with their layout in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The alignment of its address.
    pub alignment: u32,
    /// Its bytes, which the candidates for a program share.
    pub bytes: Arc<Vec<u8>>,
}

/// The memory of a cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A buffer: its number.
    Buffer(usize),
    /// A constant: its number.
    Constant(usize),
    /// No memory: the next unit takes it on the fly.
    OnTheFly,
}

/// A cube that an operation reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cube {
    /// Its memory.
    pub base: Base,
    /// Bytes from the start of that memory.
    pub offset: u32,
    /// Bytes from its start to the last byte that a unit accesses.
    pub size: u32,
    /// Elements of a line.
    pub width: u16,
    /// Lines.
    pub height: u16,
    /// Channels.
    pub channels: u16,
    /// Bytes from a line to the next.
    pub line_stride: u32,
    /// Bytes from a surface to the next.
    pub surface_stride: u32,
    /// Surfaces of a feature cube that a unit accesses.
    pub surfaces: u32,
}

impl Cube {
    /// The buffer that it belongs to, if any.
    pub fn buffer(&self) -> Option<usize> {
        match self.base {
            Base::Buffer(id) => Some(id),
            Base::Constant(_) | Base::OnTheFly => None,
        }
    }

    /// Its descriptor without the address, with these buffers in SRAM.
    pub(crate) fn descriptor(&self, in_sram: impl Fn(usize) -> bool) -> desc::DataCube {
        let mem_type = match self.base {
            Base::OnTheFly => desc::MemoryType::Hw,
            Base::Buffer(id) if in_sram(id) => desc::MemoryType::Cv,
            Base::Buffer(_) | Base::Constant(_) => desc::MemoryType::Mc,
        };
        desc::DataCube {
            mem_type,
            size: self.size,
            width: self.width,
            height: self.height,
            channel: self.channels,
            line_stride: self.line_stride,
            surf_stride: self.surface_stride,
            ..Default::default()
        }
    }

    /// Its descriptor, with the number of its memory and the offset there as address.
    pub(crate) fn placed(&self, in_sram: impl Fn(usize) -> bool) -> desc::DataCube {
        let address = match self.base {
            Base::OnTheFly => -1,
            Base::Buffer(id) => (2 * id) as i16,
            Base::Constant(id) => (2 * id + 1) as i16,
        };
        desc::DataCube { address, offset: self.offset, ..self.descriptor(in_sram) }
    }

    /// Some of its lines.
    pub(crate) fn lines(&self, first: u32, count: u32) -> Self {
        let size = self.size - (u32::from(self.height) - count) * self.line_stride;
        Self { offset: self.offset + first * self.line_stride, size, height: count as u16, ..*self }
    }

    /// The cube as SDP takes it on the fly.
    pub(crate) fn sums(&self) -> Self {
        Self { base: Base::OnTheFly, offset: 0, ..*self }
    }

    /// Whether its surfaces are surfaces of its buffer, or parts of them. Some operations take surfaces for lines. `atom` is the bytes of
    /// an atom.
    pub(crate) fn has_surfaces_of(&self, buffer: &Buffer, atom: u32) -> bool {
        let lines = u32::from(self.height).saturating_sub(1) * self.line_stride;
        let end = self.offset % buffer.surface_stride.max(1) + lines + u32::from(self.width) * atom;
        self.surface_stride == buffer.surface_stride && end <= buffer.surface_stride
    }

    /// The cube of one of several pictures in a buffer that has their lines one below the other ([`Buffer::stacked`]).
    pub(crate) fn of_picture(&self, picture: u32, pictures: u32) -> Self {
        let (surface, before) = (self.surface_stride, self.offset / self.surface_stride);
        Self {
            offset: self.offset + (before * (pictures - 1) + picture) * surface,
            size: self.size + self.surfaces.saturating_sub(1) * (pictures - 1) * surface,
            surface_stride: surface * pictures,
            ..*self
        }
    }

    /// Whether another cube has the same surfaces and columns of the same memory.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        let lines = |cube: &Self| (cube.base, cube.width, cube.channels, cube.line_stride, cube.surface_stride);
        lines(self) == lines(other)
    }

    /// Whether another cube has the lines behind this one.
    pub(crate) fn is_before(&self, next: &Self) -> bool {
        self.is_beside(next)
            && next.offset > self.offset
            && self.offset + u32::from(self.height) * self.line_stride == next.offset
    }

    /// The lines from this cube's first one to the last one of a cube beside it.
    pub(crate) fn through(&self, last: &Self) -> Self {
        let lines = last.offset.saturating_sub(self.offset) / self.line_stride.max(1) + u32::from(last.height);
        let size = self.size + lines.saturating_sub(self.height.into()) * self.line_stride;
        Self { height: lines as u16, size, ..*self }
    }

    /// Whether the bytes of two cubes of one buffer may overlap. Exact if both have the same strides, or if one has every n-th line.
    /// Otherwise the ranges from the first to the last byte are compared.
    pub fn overlaps(&self, other: &Self, atom: u32) -> bool {
        if self.base != other.base {
            return false;
        }
        let end = |cube: &Self| u64::from(cube.offset) + u64::from(cube.size);
        if u64::from(self.offset) >= end(other) || u64::from(other.offset) >= end(self) {
            return false;
        }
        let line = self.line_stride.min(other.line_stride);
        let lines = |stride: u32| line > 0 && stride.is_multiple_of(line);
        if self.surface_stride == 0
            || ![self.line_stride, other.line_stride, self.surface_stride].into_iter().all(lines)
        {
            return true;
        }
        // Of a single surface the lines alone matter. It may be several pictures, with more lines than a surface of one.
        let single = self.surfaces == 1 && other.surfaces == 1;
        let surface = if single { u32::MAX / line * line } else { self.surface_stride };
        if !single && surface != other.surface_stride {
            return true;
        }
        // The cubes as boxes of surfaces, lines and columns.
        let bounds = |cube: &Self| {
            let (s, rest) = (cube.offset / surface, cube.offset % surface);
            let (y, x) = (rest / line, rest % line / atom);
            let height = u32::from(cube.height).saturating_sub(1) * (cube.line_stride / line) + 1;
            let fits = y + height <= surface / line && x + u32::from(cube.width) <= line / atom;
            ([(s, s + cube.surfaces), (y, y + height), (x, x + u32::from(cube.width))], fits)
        };
        let ((a, a_fits), (b, b_fits)) = (bounds(self), bounds(other));
        !(a_fits && b_fits) || a.iter().zip(&b).all(|(a, b)| a.0 < b.1 && b.0 < a.1)
    }
}

/// The unit of an operation, with its descriptor and cubes.
#[derive(Clone, Debug, PartialEq)]
pub enum Unit {
    /// The convolution pipeline, which passes its sums to the SDP operation that follows it.
    Convolution {
        /// The descriptor.
        op: Box<desc::ConvOp>,
        /// Its input.
        source: Cube,
        /// Its weights.
        weights: Cube,
        /// The mask and the group sizes of compressed weights.
        mask: Option<[Cube; 2]>,
        /// The shape of its output, which is not in memory.
        target: Cube,
    },
    /// SDP.
    Sdp {
        /// The descriptor.
        op: Box<desc::SdpOp>,
        /// Its input, in memory or from the convolution before it.
        source: Cube,
        /// Operands of X1, X2 and Y.
        operands: [Option<Cube>; 3],
        /// Its output.
        target: Cube,
    },
    /// PDP.
    Pdp {
        /// The descriptor.
        op: Box<desc::PdpOp>,
        /// Its input.
        source: Cube,
        /// Its output.
        target: Cube,
    },
    /// CDP.
    Cdp {
        /// The descriptor.
        op: Box<desc::CdpOp>,
        /// Its input.
        source: Cube,
        /// Its output.
        target: Cube,
    },
    /// Rubik.
    Rubik {
        /// The descriptor.
        op: desc::RubikOp,
        /// Its input.
        source: Cube,
        /// Its output.
        target: Cube,
    },
}

impl Unit {
    /// The processor.
    pub fn op_type(&self) -> desc::OpType {
        match self {
            Self::Convolution { .. } => desc::OpType::Conv,
            Self::Sdp { .. } => desc::OpType::Sdp,
            Self::Pdp { .. } => desc::OpType::Pdp,
            Self::Cdp { .. } => desc::OpType::Cdp,
            Self::Rubik { .. } => desc::OpType::Rubik,
        }
    }

    /// Its input.
    pub fn source(&self) -> &Cube {
        match self {
            Self::Convolution { source, .. }
            | Self::Sdp { source, .. }
            | Self::Pdp { source, .. }
            | Self::Cdp { source, .. }
            | Self::Rubik { source, .. } => source,
        }
    }

    /// Its output.
    pub fn target(&self) -> &Cube {
        match self {
            Self::Convolution { target, .. }
            | Self::Sdp { target, .. }
            | Self::Pdp { target, .. }
            | Self::Cdp { target, .. }
            | Self::Rubik { target, .. } => target,
        }
    }

    /// The cubes of buffers that it reads or writes.
    pub(crate) fn cubes_mut(&mut self) -> impl Iterator<Item = &mut Cube> {
        let (source, operands, weights, target) = match self {
            Self::Sdp { source, operands, target, .. } => (source, operands.as_mut_slice(), None, target),
            Self::Convolution { source, weights, target, .. } => (source, [].as_mut_slice(), Some(weights), target),
            Self::Pdp { source, target, .. }
            | Self::Cdp { source, target, .. }
            | Self::Rubik { source, target, .. } => (source, [].as_mut_slice(), None, target),
        };
        let all = [source, target].into_iter().chain(weights).chain(operands.iter_mut().flatten());
        all.filter(|cube| cube.buffer().is_some())
    }

    /// The cubes of buffers that it reads.
    pub fn reads(&self) -> impl Iterator<Item = &Cube> {
        let operands: &[Option<Cube>] = if let Self::Sdp { operands, .. } = self { operands } else { &[] };
        let all = std::iter::once(self.source()).chain(operands.iter().flatten()).chain(self.weights());
        all.filter(|cube| cube.buffer().is_some())
    }

    /// A convolution's weights, and the mask and the group sizes of compressed ones.
    pub fn weights(&self) -> impl Iterator<Item = &Cube> {
        let (weights, mask) = match self {
            Self::Convolution { weights, mask, .. } => (Some(weights), mask.as_ref()),
            _ => (None, None),
        };
        weights.into_iter().chain(mask.into_iter().flatten())
    }

    /// Whether it takes its input from the previous operation on the fly.
    pub fn takes_on_the_fly(&self) -> bool {
        self.source().base == Base::OnTheFly
    }

    /// The descriptors: the operation, and the surface with cubes from `place`.
    pub fn descriptors(&self, place: impl Fn(&Cube) -> desc::DataCube) -> (desc::Operation, desc::Surface) {
        let optional = |cube: &Option<Cube>| cube.as_ref().map_or_else(Default::default, &place);
        match self {
            Self::Convolution { op, source, weights, mask, target } => (
                desc::Operation::Conv(**op),
                desc::Surface::Conv(desc::ConvSurface {
                    weight_data: place(weights),
                    wmb_data: optional(&mask.map(|[wmb, _]| wmb)),
                    wgs_data: optional(&mask.map(|[_, wgs]| wgs)),
                    src_data: place(source),
                    dst_data: place(target),
                    ..Default::default()
                }),
            ),
            Self::Sdp { op, source, operands: [x1, x2, y], target } => (
                desc::Operation::Sdp(**op),
                desc::Surface::Sdp(desc::SdpSurface {
                    src_data: place(source),
                    x1_data: optional(x1),
                    x2_data: optional(x2),
                    y_data: optional(y),
                    dst_data: place(target),
                }),
            ),
            Self::Pdp { op, source, target } => (
                desc::Operation::Pdp(**op),
                desc::Surface::Pdp(desc::PdpSurface { src_data: place(source), dst_data: place(target) }),
            ),
            Self::Cdp { op, source, target } => (
                desc::Operation::Cdp(**op),
                desc::Surface::Cdp(desc::CdpSurface { src_data: place(source), dst_data: place(target) }),
            ),
            Self::Rubik { op, source, target } => (
                desc::Operation::Rubik(*op),
                desc::Surface::Rubik(desc::RubikSurface { src_data: place(source), dst_data: place(target) }),
            ),
        }
    }
}

/// An operation of the hardware.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The step that it is part of: an index into [`Program::steps`].
    pub step: usize,
    /// The unit.
    pub unit: Unit,
    /// Whether it waits for all operations before it, so that memory that they use is free.
    pub alone: bool,
    /// The picture that it is for.
    pub picture: u32,
}

impl Operation {
    /// Whether it must not begin before an earlier operation has ended, because it needs or overwrites the same bytes of a buffer.
    /// `atom` is the bytes of an atom.
    pub(crate) fn waits_for(&self, earlier: &Self, atom: u32) -> bool {
        let (written, target) = (earlier.unit.target(), self.unit.target());
        let shared = |cube: &Cube, other: &Cube| cube.buffer().is_some() && cube.overlaps(other, atom);
        self.alone
            || self.unit.reads().any(|cube| shared(cube, written))
            || earlier.unit.reads().chain([written]).any(|cube| shared(cube, target))
    }
}

/// An operation that the CPU computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Emulated {
    /// See [`Operation::step`].
    pub step: usize,
    /// What it computes.
    pub function: emu::Kind,
    /// Its input.
    pub source: Cube,
    /// Its output.
    pub target: Cube,
    /// The scale of the input; 1 in fp16.
    pub input_scale: f32,
    /// The scale of the output; 1 in fp16.
    pub output_scale: f32,
}

/// Operations that are submitted together.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Operations of NVDLA, each after those that it needs.
    Dla(Vec<Operation>),
    /// Operations of the emulator, which run one after another.
    Emulated(Vec<Emulated>),
}

impl Task {
    /// Number of operations.
    pub fn len(&self) -> usize {
        match self {
            Self::Dla(operations) => operations.len(),
            Self::Emulated(operations) => operations.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The description of a step of the network, for reports.
#[derive(Clone, Debug, PartialEq)]
pub struct StepInfo {
    /// The nodes of the model that it computes.
    pub nodes: Vec<String>,
    /// The tensor that it writes.
    pub tensor: String,
    /// The tensor's scale; 1 in fp16.
    pub scale: f64,
    /// The precision in which the step computes.
    pub precision: Precision,
}

/// The scale of an input or output: real value = (integer - zero point) * scale.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TensorScale {
    /// The tensor.
    pub tensor: String,
    /// One value, or one per channel in the order of the channels in memory. 1 in fp16.
    pub scale: Vec<f64>,
    /// One value per scale. It may be a fraction, because an image's mean may be one.
    pub zero_point: Vec<f64>,
    /// Whether a picture's 8 bits are 0 to 255.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unsigned: bool,
    /// Whether the channels of an input are last in the model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub channels_last: bool,
    /// How pictures become the input's values, as the loadable has it ([`nvdla_runtime::loadable::names::Pictures`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pictures: Option<serde_json::Value>,
}

/// A lowered network.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The network's name.
    pub name: String,
    /// The configuration.
    pub config: &'static Config,
    /// Precision of activations and weights; in mixed precision int8.
    pub precision: Precision,
    /// All buffers.
    pub buffers: Vec<Buffer>,
    /// All constants.
    pub constants: Vec<Constant>,
    /// Lookup tables of SDP and CDP.
    pub tables: Vec<desc::Lut>,
    /// The inputs.
    pub inputs: Vec<TensorScale>,
    /// The outputs.
    pub outputs: Vec<TensorScale>,
    /// The steps that operations belong to.
    pub steps: Vec<StepInfo>,
    /// The tasks, in order.
    pub tasks: Vec<Task>,
    /// Whether the next operation waits for all others ([`Operation::alone`]).
    pub pause: bool,
}

impl Program {
    /// The cubes that each operation of each task writes; none for tasks of the emulator.
    pub(crate) fn written(&self) -> Vec<Vec<Cube>> {
        let cubes = |task: &Task| match task {
            Task::Dla(operations) => operations.iter().map(|operation| *operation.unit.target()).collect(),
            Task::Emulated(_) => Vec::new(),
        };
        self.tasks.iter().map(cubes).collect()
    }

    /// The cubes that operations of the emulator write.
    pub(crate) fn emulated(&self) -> Vec<Cube> {
        let cubes = |task: &Task| match task {
            Task::Dla(_) => Vec::new(),
            Task::Emulated(operations) => operations.iter().map(|operation| operation.target).collect(),
        };
        self.tasks.iter().flat_map(cubes).collect()
    }

    /// An empty program.
    pub fn new(name: String, config: &'static Config, precision: Precision) -> Self {
        Self {
            name,
            config,
            precision,
            buffers: Vec::new(),
            constants: Vec::new(),
            tables: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            steps: Vec::new(),
            tasks: Vec::new(),
            pause: false,
        }
    }

    /// Refuses operations of more channels than a cube has. The emulator has no such limit.
    pub(crate) fn fits(&self) -> Result<(), Error> {
        let operations = self.tasks.iter().flat_map(|task| match task {
            Task::Dla(operations) => &operations[..],
            Task::Emulated(_) => &[],
        });
        for Operation { step, unit, .. } in operations {
            for channels in [unit.source(), unit.target()].map(|cube| u32::from(cube.channels)) {
                if channels > LARGEST_EXTENT {
                    let reason = format!("number of channels {channels} is more than the hardware's {LARGEST_EXTENT}");
                    return Err(Error::unsupported(&self.steps[*step].tensor, reason));
                }
            }
        }
        Ok(())
    }

    /// The name of its precision.
    pub fn precision_name(&self) -> &'static str {
        match self.precision {
            Precision::Fp16 => "fp16",
            _ if self.steps.iter().any(|step| step.precision == Precision::Int16) => "mixed",
            _ => "int8",
        }
    }

    /// Whether a buffer lies in SRAM.
    pub fn in_sram(&self, buffer: usize) -> bool {
        self.buffers[buffer].place == Storage::Sram
    }

    /// The atoms of feature cubes; in mixed precision those of 8 bits.
    pub fn atoms(&self) -> Atoms {
        Atoms::of(self.config, self.precision)
    }

    /// Adds a constant of a kind of data, unless the same one is there.
    pub(crate) fn constant(&mut self, data: Data, bytes: Vec<u8>) -> usize {
        let constant = Constant { alignment: Alignment::documented(data).start, bytes: Arc::new(bytes) };
        self.constants.iter().position(|other| *other == constant).unwrap_or_else(|| {
            self.constants.push(constant);
            self.constants.len() - 1
        })
    }

    /// Adds a hardware operation to the last task, or to a new one after an emulated task.
    pub(crate) fn push(&mut self, step: usize, unit: Unit) {
        let operation = Operation { step, unit, alone: std::mem::take(&mut self.pause), picture: 0 };
        if let Some(Task::Dla(operations)) = self.tasks.last_mut() {
            operations.push(operation);
        } else {
            self.tasks.push(Task::Dla(vec![operation]));
        }
    }

    /// Adds an emulated operation in the same way.
    pub(crate) fn push_emulated(&mut self, operation: Emulated) {
        if let Some(Task::Emulated(operations)) = self.tasks.last_mut() {
            operations.push(operation);
        } else {
            self.tasks.push(Task::Emulated(vec![operation]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_single_surface_are_apart_also_in_several_pictures() {
        let cube = |column: u32| Cube {
            base: Base::Buffer(0),
            offset: 32 * column,
            size: 6880,
            width: 5,
            height: 15,
            channels: 12,
            line_stride: 480,
            surface_stride: 2400,
            surfaces: 1,
        };
        assert!(!cube(0).overlaps(&cube(10), 32) && !cube(5).overlaps(&cube(0), 32));
        assert!(cube(0).overlaps(&cube(4), 32));
        // Behind the five columns, the other cube's next lines begin.
        assert!(cube(0).overlaps(&cube(15), 32));
    }
}
