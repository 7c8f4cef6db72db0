// SPDX-License-Identifier: MIT OR Apache-2.0

//! Converts feature cubes to plain arrays in CHW order, and back. Elements of two bytes are moved as 16-bit integers, whatever
//! their type; the Python part of the package sets the type.

use numpy::{PyArray1, PyReadonlyArray1};
use nvdla_runtime::operations::NetworkOperation;
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::{self, Extents, Layout as _, Order};
use nvdla_uapi::reg::values::Precision;
use pyo3::prelude::*;

use crate::failure::{Failure, Raise as _};

/// Bytes for Python.
pub(crate) type Bytes<'py> = Bound<'py, PyArray1<u8>>;

/// The elements of a cube as little-endian bytes in CHW order.
fn plain(cube: &Cube, memory: &[u8]) -> Result<Vec<u8>, String> {
    let (count, bytes) = (cube.extents().elements(), u64::from(layout::bytes(cube.precision())));
    // Strides of a descriptor may make elements overlap. The array is never larger than the memory that it is read from.
    if count.saturating_mul(bytes) > memory.len() as u64 {
        return Err(format!("the cube has {count} elements of {bytes} bytes, its memory {} bytes", memory.len()));
    }
    let text = |error: layout::Error| error.to_string();
    if bytes == 1 {
        let mut elements = vec![0u8; count as usize];
        cube.unpack(Order::Nchw, memory, &mut elements).map_err(text)?;
        return Ok(elements);
    }
    let mut elements = vec![0u16; count as usize];
    cube.unpack(Order::Nchw, memory, &mut elements).map_err(text)?;
    Ok(elements.into_iter().flat_map(u16::to_le_bytes).collect())
}

/// The elements of an operation's surface. None for an operation that writes no cube.
pub(crate) fn surface(operation: &NetworkOperation, atom: u32, memory: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let Some(cube) = operation.destination() else { return Ok(None) };
    let extents = Extents::new(1, cube.channel.into(), cube.height.into(), cube.width.into());
    let (line, surface) = (cube.line_stride.into(), cube.surf_stride.into());
    let cube = Cube::as_programmed(extents, operation.precision(), atom, line, surface, 0);
    plain(&cube.map_err(|error| error.to_string())?, memory).map(Some)
}

fn cube(shape: (u32, u32, u32), element_bytes: u32, atom: u32, strides: Option<(u64, u64)>) -> Result<Cube, Failure> {
    let precision = match element_bytes {
        1 => Precision::Int8,
        2 => Precision::Int16,
        other => return Err(Failure::argument(format!("an element has 1 or 2 bytes, not {other}"))),
    };
    let extents = Extents::new(1, shape.0, shape.1, shape.2);
    let cube = match strides {
        Some((line, surface)) => Cube::unpacked(extents, precision, atom, line, surface),
        None => Cube::packed(extents, precision, atom),
    };
    cube.map_err(Failure::argument)
}

/// The memory of a cube with these elements.
#[pyfunction]
pub(crate) fn pack<'py>(
    py: Python<'py>,
    elements: PyReadonlyArray1<'py, u8>,
    shape: (u32, u32, u32),
    element_bytes: u32,
    atom: u32,
    strides: Option<(u64, u64)>,
) -> PyResult<Bytes<'py>> {
    let cube = cube(shape, element_bytes, atom, strides).raise(py)?;
    let elements = elements.as_slice()?;
    let size = cube.size();
    let mut memory: Vec<u8> = Vec::new();
    let reserved = usize::try_from(size).ok().filter(|&size| memory.try_reserve_exact(size).is_ok());
    let reserved =
        reserved.ok_or_else(|| Failure::memory(format!("there is not enough memory for a cube of {size} bytes")));
    memory.resize(reserved.raise(py)?, 0);
    let packed = if element_bytes == 1 {
        cube.pack(Order::Nchw, elements, &mut memory)
    } else {
        let elements: Vec<u16> = elements.as_chunks().0.iter().copied().map(u16::from_le_bytes).collect();
        cube.pack(Order::Nchw, &elements, &mut memory)
    };
    packed.map_err(Failure::argument).raise(py)?;
    Ok(PyArray1::from_vec(py, memory))
}

/// The elements of a cube in memory.
#[pyfunction]
pub(crate) fn unpack<'py>(
    py: Python<'py>,
    memory: PyReadonlyArray1<'py, u8>,
    shape: (u32, u32, u32),
    element_bytes: u32,
    atom: u32,
    strides: Option<(u64, u64)>,
) -> PyResult<Bytes<'py>> {
    let cube = cube(shape, element_bytes, atom, strides).raise(py)?;
    let elements = plain(&cube, memory.as_slice()?).map_err(Failure::argument).raise(py)?;
    Ok(PyArray1::from_vec(py, elements))
}
