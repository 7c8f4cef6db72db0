// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inputs and outputs of a network, as an application uses them.

use std::fmt;

use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::{Extents, Nest};
use nvdla_uapi::reg::values::Precision;
use thiserror::Error;

use crate::loadable::names::{Names, Scale};
use crate::loadable::{self, DataCategory, DataFormat, DataType, PixelFormat};

/// Whether a tensor is an input or an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// An input.
    Input,
    /// An output.
    Output,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

/// A bound tensor: its shape, its element format, and its layout in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// Input or output.
    pub direction: Direction,
    /// Its bind id, the number that identifies it in the session.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Batches.
    pub n: u32,
    /// Channels.
    pub c: u32,
    /// Lines.
    pub h: u32,
    /// Elements of a line.
    pub w: u32,
    /// Order of dimensions.
    pub data_format: DataFormat,
    /// Type of elements.
    pub data_type: DataType,
    /// The use of the tensor by the hardware.
    pub data_category: DataCategory,
    /// Element format.
    pub pixel_format: PixelFormat,
    /// Bytes of an element, of a line, of a surface, and the further strides of the file.
    pub strides: [u32; 8],
    /// Bytes.
    pub size: u64,
    /// Bytes from the start of its memory.
    pub offset: u64,
    /// The scale of its elements, if the compiler has stored it in the loadable.
    pub meaning: Option<Scale>,
}

impl TensorInfo {
    /// What a loadable says about a tensor.
    pub(super) fn new(direction: Direction, index: usize, tensor: loadable::Tensor<'_>, names: &Names) -> Self {
        let scales = if direction == Direction::Input { &names.inputs } else { &names.outputs };
        Self {
            direction,
            index,
            name: tensor.name().to_owned(),
            // A loadable's bound tensors have positive dimensions.
            n: tensor.n().unsigned_abs(),
            c: tensor.c().unsigned_abs(),
            h: tensor.h().unsigned_abs(),
            w: tensor.w().unsigned_abs(),
            data_format: tensor.data_format(),
            data_type: tensor.data_type(),
            data_category: tensor.data_category(),
            pixel_format: tensor.pixel_format(),
            strides: tensor.strides(),
            size: tensor.size(),
            offset: tensor.offset(),
            meaning: scales.get(index).filter(|scale| is_usable(scale)).cloned(),
        }
    }

    /// Batches, channels, lines and columns.
    pub fn shape(&self) -> [u32; 4] {
        [self.n, self.c, self.h, self.w]
    }

    /// The channels of the network, if it was compiled for pictures. The tensor in memory may have one more.
    pub fn own_channels(&self) -> Option<u32> {
        let own = self.meaning.as_ref()?.pictures.as_ref()?.channels;
        (own > 0 && (own == self.c || own.checked_add(1) == Some(self.c))).then_some(own)
    }

    /// Whether the model has the channels last.
    pub(super) fn is_channels_last(&self) -> bool {
        self.meaning.as_ref().is_some_and(|meaning| meaning.channels_last)
    }

    /// Bytes from a line to the next.
    pub fn line_stride(&self) -> u32 {
        self.strides[1]
    }

    /// Bytes from a surface to the next.
    pub fn surface_stride(&self) -> u32 {
        self.strides[2]
    }

    /// Whether it is a feature cube and not an image.
    pub fn is_feature(&self) -> bool {
        matches!(self.pixel_format, PixelFormat::FEATURE | PixelFormat::FEATURE_X8)
    }
}

/// Whether numbers can be divided by the scale.
fn is_usable(scale: &Scale) -> bool {
    scale.scale.iter().all(|scale| scale.is_finite() && *scale > 0.0) && scale.zero_point.iter().all(|z| z.is_finite())
}

/// Why a tensor cannot be used in this way.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The number of bytes is not that of the tensor.
    #[error("it has {needed} bytes, {given} were given")]
    Size {
        /// Bytes of the tensor.
        needed: u64,
        /// Bytes that were given.
        given: u64,
    },
    /// The number of values is not that of the tensor's elements.
    #[error("it has {needed} elements, {given} were given")]
    Elements {
        /// Elements of the tensor.
        needed: u64,
        /// Values that were given.
        given: u64,
    },
    /// A value is NaN, and the tensor's elements are integers.
    #[error("its value {at} is not a number, and its elements are integers")]
    NotANumber {
        /// Position of the value.
        at: usize,
    },
    /// An array does not have its elements in the tensor's order.
    #[error("it is {needed:?} (N, C, H, W), an array of {given:?} was given")]
    Shape {
        /// Batches, channels, lines and columns of the tensor.
        needed: [u32; 4],
        /// The array's dimensions.
        given: Vec<usize>,
    },
    /// A buffer for a tensor is too small.
    #[error("the buffer has {given} bytes, the tensor's memory {needed}")]
    Buffer {
        /// Bytes of the memory.
        needed: u64,
        /// Bytes of the buffer.
        given: u64,
    },
    /// A stride is too small for its line or surface, or the tensor would end outside its memory.
    #[error("a line stride of {line} and a surface stride of {surface} bytes do not fit: {why}")]
    Strides {
        /// Line stride.
        line: u32,
        /// Surface stride.
        surface: u32,
        /// Why.
        why: String,
    },
    /// The format has no conversion from or to plain numbers.
    #[error("{format} of {data_type} has no conversion from or to plain numbers")]
    Format {
        /// The element format.
        format: PixelFormat,
        /// The type of elements.
        data_type: DataType,
    },
    /// The layout violates a rule.
    #[error("{0}")]
    Layout(String),
    /// A scale that is not a positive number.
    #[error("{0} is not a scale: it must be positive and finite")]
    Scale(f32),
}

impl TensorInfo {
    /// Bytes of an atom of a feature cube: the bytes of one element of a line in each surface. None for an image.
    ///
    /// Loadables for interface 0.10 also call the cubes of nv_small FEATURE; their line stride distinguishes them.
    pub fn atom(&self) -> Option<u32> {
        loadable::atom(self.pixel_format, self.w, self.line_stride())
    }

    /// The same tensor with other strides, if it still fits into `room` bytes of memory.
    pub(super) fn with_strides(&self, line: u32, surface: u32, room: u64) -> Result<Self, TensorError> {
        let refuse = |why: String| Err(TensorError::Strides { line, surface, why });
        // Bytes of a line with the current strides; the loadable's line stride is never smaller.
        let element = u64::from(self.strides[0].max(1));
        let (least, surfaces) = match self.atom() {
            Some(atom) => {
                let precision = if element == 1 { Precision::Int8 } else { Precision::Int16 };
                let cube = Cube::packed(Extents::new(1, self.c, self.h, self.w), precision, atom);
                let cube = cube.map_err(|error| refuse(error.to_string()).unwrap_err())?;
                (cube.line_bytes(), u64::from(cube.surfaces()))
            }
            None => (u64::from(self.w) * u64::from(self.c) * element, 1),
        };
        if u64::from(line) < least.min(u64::from(self.line_stride())) {
            return refuse(format!("a line has {least} bytes"));
        }
        let plane = Nest::of_strides([u64::from(line)]).offset([self.h.into()]);
        if surfaces > 1 && u64::from(surface) < plane {
            return refuse(format!("a surface has {plane} bytes"));
        }
        let one = Nest::of_strides([u64::from(surface)]).offset([surfaces]).max(plane);
        let batches = u64::from(self.n);
        if batches > 1 && one > self.size / batches {
            // The loadable fixes the addresses of the other images of the batch.
            return refuse(format!(
                "an image would have {one} bytes, the next one starts after {}",
                self.size / batches
            ));
        }
        let size = if batches > 1 { self.size } else { one };
        let end = self.offset.saturating_add(size);
        if end > room {
            return refuse(format!("the tensor would end at {end:#x}, its memory has {room:#x} bytes"));
        }
        let mut changed = self.clone();
        changed.strides[1] = line;
        changed.strides[2] = surface;
        changed.size = size;
        Ok(changed)
    }
}
