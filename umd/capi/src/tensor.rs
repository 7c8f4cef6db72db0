// SPDX-License-Identifier: MIT OR Apache-2.0

//! The description of a tensor for C.

use std::ffi::{c_char, CString};

use nvdla_runtime::loadable::DataType;
use nvdla_runtime::session::{Direction, TensorInfo};

use crate::status::Failure;

/// The direction of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum nvdla_direction {
    /// The application writes it.
    Input = 0,
    /// The network writes it.
    Output = 1,
}

impl nvdla_direction {
    /// A C program can pass any number.
    pub(crate) fn of(number: u32) -> Result<Self, Failure> {
        match number {
            0 => Ok(Self::Input),
            1 => Ok(Self::Output),
            _ => Err(Failure::argument(format!("{number} is not a direction"))),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

impl From<nvdla_direction> for Direction {
    fn from(direction: nvdla_direction) -> Self {
        match direction {
            nvdla_direction::Input => Self::Input,
            nvdla_direction::Output => Self::Output,
        }
    }
}

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum nvdla_type {
    /// A signed integer of 8 bits.
    Int8 = 0,
    /// A signed integer of 16 bits.
    Int16 = 1,
    /// A half-precision floating-point number.
    Half = 2,
    /// Another type.
    Other = 3,
}

/// An input or output.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct nvdla_tensor {
    /// Name.
    pub name: *const c_char,
    /// The type of an element.
    pub element: nvdla_type,
    /// Images per batch.
    pub n: u32,
    /// Channels.
    pub c: u32,
    /// Lines.
    pub h: u32,
    /// Elements per line.
    pub w: u32,
    /// Bytes from a line to the next.
    pub line_stride: u32,
    /// Bytes from a surface to the next.
    pub surface_stride: u32,
    /// Size in bytes.
    pub size: usize,
    /// Number of elements: n * c * h * w. It is also the number of `float` values of the calls that take or return them.
    pub count: usize,
    /// Offset in bytes in the memory that `nvdla_context_export` returns.
    pub offset: usize,
    /// Real value = (element - zero) * scale, for channel 0. 1 and 0 if the loadable has no scale.
    pub scale: f32,
    /// See `scale`.
    pub zero: f32,
}

/// A tensor with its name as C text.
pub(crate) struct Described {
    name: CString,
    info: TensorInfo,
}

impl Described {
    pub(crate) fn new(info: &TensorInfo) -> Self {
        Self { name: CString::new(info.name.replace('\0', " ")).unwrap_or_default(), info: info.clone() }
    }

    pub(crate) fn tensor(&self) -> nvdla_tensor {
        let info = &self.info;
        let element = match info.data_type {
            DataType::Int8 => nvdla_type::Int8,
            DataType::Int16 => nvdla_type::Int16,
            DataType::Half => nvdla_type::Half,
            _ => nvdla_type::Other,
        };
        let meaning = info.meaning.as_ref();
        let first = |numbers: Option<&Vec<f64>>| numbers.and_then(|numbers| numbers.first().copied());
        nvdla_tensor {
            name: self.name.as_ptr(),
            element,
            n: info.n,
            c: info.c,
            h: info.h,
            w: info.w,
            line_stride: info.line_stride(),
            surface_stride: info.surface_stride(),
            size: info.size as usize,
            count: info.n as usize * info.c as usize * info.h as usize * info.w as usize,
            offset: info.offset as usize,
            scale: first(meaning.map(|meaning| &meaning.scale)).unwrap_or(1.0) as f32,
            zero: first(meaning.map(|meaning| &meaning.zero_point)).unwrap_or(0.0) as f32,
        }
    }
}
