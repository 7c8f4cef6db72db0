// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks that a bound tensor's shape and strides fit into its bytes.
//!
//! Converting a tensor allocates memory for its elements and visits each of them. Therefore the memory must really hold as many
//! elements as the shape says: elements do not overlap, and the last one ends inside the tensor.

use nvdla_uapi::layout::feature::{Atoms, Cube};
use nvdla_uapi::layout::pixel::Format;
use nvdla_uapi::layout::Extents;
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::FieldValue;

use super::error::Problem;
use super::schema::{DataType, PixelFormat, Tensor};

/// Bytes of an atom of a feature cube: the bytes of one element of a line in each surface. None for an image.
///
/// Loadables for interface 0.10 also call the cubes of nv_small FEATURE; their line stride distinguishes them.
pub(crate) fn atom(format: PixelFormat, width: u32, line_stride: u32) -> Option<u32> {
    match format {
        PixelFormat::FEATURE_X8 => Some(8),
        PixelFormat::FEATURE => {
            let atoms = Atoms::of_line(width, line_stride, Precision::Int8);
            Some(atoms.map_or(8, |atoms| atoms.bytes() as u32))
        }
        _ => None,
    }
}

/// Checks that the memory of a tensor with positive dimensions is large enough for its shape.
pub(super) fn check(tensor: Tensor<'_>) -> Result<(), Problem> {
    let [n, c, h, w] = [tensor.n(), tensor.c(), tensor.h(), tensor.w()].map(i32::unsigned_abs);
    let (line, surface) = (tensor.stride_1(), tensor.stride_2());
    let size = tensor.size() / u64::from(n.max(1));
    let refuse = |what: String, needed: u128| Err(Problem::Shape { what, needed, size, n: tensor.n() });
    let shape = format!("{c} x {h} x {w} of {}", tensor.pixel_format());
    let elements = |bytes: u32| u128::from(c) * u128::from(h) * u128::from(w) * u128::from(bytes);
    let strides = || format!("{shape} with strides of {line} and {surface}");
    if let Some(atom) = atom(tensor.pixel_format(), w, line) {
        let (bytes, precision) = match tensor.data_type() {
            DataType::Int8 => (1, Precision::Int8),
            // Tensors with other element sizes cannot be converted.
            _ => (2, Precision::Int16),
        };
        if elements(bytes) > size.into() {
            return refuse(shape, elements(bytes));
        }
        let extents = Extents::new(1, c, h, w);
        return match Cube::as_programmed(extents, precision, atom, line.into(), surface.into(), 0) {
            Ok(cube) if cube.element_offset(c - 1, h - 1, w - 1) + u64::from(bytes) <= size => Ok(()),
            Ok(cube) => refuse(strides(), (cube.element_offset(c - 1, h - 1, w - 1) + u64::from(bytes)).into()),
            Err(_) => refuse(strides(), u64::MAX.into()),
        };
    }
    let number: u8 = tensor.pixel_format().into();
    match <_ as FieldValue>::from_bits(number.into()).map(Format::new) {
        Some(format) => {
            if c > format.channels {
                return refuse(shape, elements(1));
            }
            // The lines of the first plane. The last line needs no padding.
            let [plane, end] =
                [format.bytes_of(w) * u64::from(h), u64::from(line) * u64::from(h - 1) + format.bytes_of(w)];
            if plane.max(end) > size {
                return refuse(strides(), plane.max(end).into());
            }
            Ok(())
        }
        None if elements(1) > size.into() => refuse(shape, elements(1)),
        None => Ok(()),
    }
}
