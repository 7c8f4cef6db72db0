// SPDX-License-Identifier: MIT OR Apache-2.0

//! The lowered network: tasks of hardware operations, whose descriptors are complete except for addresses, and the
//! surfaces and constants that they name. What the layers mean is known no longer, where bytes will lie not yet.

use nvdla_uapi::config::Config;
use nvdla_uapi::desc;
use nvdla_uapi::reg::values::PixelFormat;

use crate::graph::Shape;

/// Names a surface of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SurfaceId(pub usize);

/// Names a constant of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConstantId(pub usize);

/// Whose memory a surface lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The pool of activations, which surfaces share one after another.
    Pool,
    /// A memory of its own: the input of that number.
    Input(u16),
    /// A memory of its own: the output of that number.
    Output(u16),
}

/// How a surface's elements lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A feature cube of the configuration's memory atoms.
    Feature,
    /// An image, pitch linear.
    Pixel(PixelFormat),
}

/// An activation tensor in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surface {
    /// The layer that makes it.
    pub name: String,
    /// Its dimensions; an image has as many channels as its pixels have components.
    pub shape: Shape,
    /// How its elements lie.
    pub format: Format,
    /// Bytes from a line to the next.
    pub line_stride: u32,
    /// Bytes from a surface to the next; 0 for an image.
    pub surface_stride: u32,
    /// Bytes of all of it.
    pub size: u32,
    /// Whose memory it lies in.
    pub place: Place,
}

/// Weights or operands, as they lie in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// What it is: the layer's name and the role.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What a cube is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A surface.
    Surface(SurfaceId),
    /// A constant.
    Constant(ConstantId),
    /// No memory: the next unit takes it as it is made.
    OnTheFly,
}

/// What an operation reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cube {
    /// What it is part of.
    pub base: Base,
    /// Where in that it starts, in bytes.
    pub offset: u32,
    /// Bytes that it may touch.
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
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The convolution pipeline, which hands its sums to the SDP operation that follows it.
    Convolution {
        /// The descriptor.
        op: Box<desc::ConvOp>,
        /// Its input.
        source: Cube,
        /// Its weights.
        weights: Cube,
        /// Its output's shape; no memory.
        target: Cube,
    },
    /// SDP.
    Sdp {
        /// The descriptor.
        op: Box<desc::SdpOp>,
        /// Its input, in memory or from the convolution before it.
        source: Cube,
        /// Operands of X1: constants, or a surface that is added.
        operands: Option<Cube>,
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
}

impl Kind {
    /// The processor.
    pub fn op_type(&self) -> desc::OpType {
        match self {
            Self::Convolution { .. } => desc::OpType::Conv,
            Self::Sdp { .. } => desc::OpType::Sdp,
            Self::Pdp { .. } => desc::OpType::Pdp,
        }
    }

    /// Its input.
    pub fn source(&self) -> &Cube {
        match self {
            Self::Convolution { source, .. } | Self::Sdp { source, .. } | Self::Pdp { source, .. } => source,
        }
    }

    /// The surfaces that it reads.
    pub fn surfaces_read(&self) -> impl Iterator<Item = SurfaceId> {
        let operands = if let Self::Sdp { operands, .. } = self { *operands } else { None };
        self.source().surface().into_iter().chain(operands.and_then(|cube| cube.surface()))
    }

    /// Its output.
    pub fn target(&self) -> &Cube {
        match self {
            Self::Convolution { target, .. } | Self::Sdp { target, .. } | Self::Pdp { target, .. } => target,
        }
    }
}

impl Cube {
    /// The surface that it is part of, if any.
    pub fn surface(&self) -> Option<SurfaceId> {
        match self.base {
            Base::Surface(id) => Some(id),
            Base::Constant(_) | Base::OnTheFly => None,
        }
    }
}

/// An operation of the hardware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The layer that it is for.
    pub layer: String,
    /// What it does.
    pub kind: Kind,
}

/// A softmax, which the CPU computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Softmax {
    /// The layer that it is for.
    pub layer: String,
    /// Its input.
    pub source: Cube,
    /// Its output.
    pub target: Cube,
    /// An int8 of the input times this is the real value.
    pub input_scale: f32,
    /// A real value divided by this is the int8 of the output.
    pub output_scale: f32,
}

/// What is submitted at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// To NVDLA, in an order in which each operation comes after those that it needs.
    Dla(Vec<Operation>),
    /// To the emulator.
    Emulated(Vec<Softmax>),
}

/// A lowered network.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What it is for.
    pub config: &'static Config,
    /// All surfaces.
    pub surfaces: Vec<Surface>,
    /// All constants.
    pub constants: Vec<Constant>,
    /// The tasks, in order.
    pub tasks: Vec<Task>,
}

impl Program {
    /// The surface of that id.
    pub fn surface(&self, id: SurfaceId) -> &Surface {
        &self.surfaces[id.0]
    }

    /// All of a surface as a cube.
    pub fn whole(&self, id: SurfaceId) -> Cube {
        let surface = self.surface(id);
        Cube {
            base: Base::Surface(id),
            offset: 0,
            size: surface.size,
            width: surface.shape.width as u16,
            height: surface.shape.height as u16,
            channels: surface.shape.channels as u16,
            line_stride: surface.line_stride,
            surface_stride: surface.surface_stride,
        }
    }

    /// Adds a constant.
    pub(crate) fn constant(&mut self, name: String, bytes: Vec<u8>) -> ConstantId {
        self.constants.push(Constant { name, bytes });
        ConstantId(self.constants.len() - 1)
    }

    /// Adds a hardware operation to the last task, or to a new one behind an emulated task.
    pub(crate) fn push(&mut self, operation: Operation) {
        if let Some(Task::Dla(operations)) = self.tasks.last_mut() {
            operations.push(operation);
        } else {
            self.tasks.push(Task::Dla(vec![operation]));
        }
    }

    /// Adds an emulated operation in the same manner.
    pub(crate) fn push_emulated(&mut self, softmax: Softmax) {
        if let Some(Task::Emulated(operations)) = self.tasks.last_mut() {
            operations.push(softmax);
        } else {
            self.tasks.push(Task::Emulated(vec![softmax]));
        }
    }
}
