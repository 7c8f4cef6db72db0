// SPDX-License-Identifier: MIT OR Apache-2.0

//! Constants of an ONNX file: tensors with their values, and the integer arithmetic on shapes.

use std::collections::HashMap;
use std::path::{Component, Path};
use std::sync::Arc;

use bytes::Bytes;
use nvdla_runtime::files;

use super::proto;

/// ONNX's numbers of element types (`TensorProto.DataType`).
pub(super) mod types {
    pub(crate) const FLOAT: i32 = 1;
    pub(crate) const UINT8: i32 = 2;
    pub(crate) const INT8: i32 = 3;
    pub(crate) const UINT16: i32 = 4;
    pub(crate) const INT16: i32 = 5;
    pub(crate) const INT32: i32 = 6;
    pub(crate) const INT64: i32 = 7;
    pub(crate) const BOOL: i32 = 9;
    pub(crate) const FLOAT16: i32 = 10;
    pub(crate) const DOUBLE: i32 = 11;
    pub(crate) const UINT32: i32 = 12;
    pub(crate) const UINT64: i32 = 13;
    pub(crate) const BFLOAT16: i32 = 16;
    pub(crate) const UINT4: i32 = 21;
    pub(crate) const INT4: i32 = 22;

    /// Whether the type is one of real numbers.
    pub(crate) fn is_real(kind: i32) -> bool {
        matches!(kind, FLOAT | FLOAT16 | DOUBLE | BFLOAT16)
    }
}

/// Integers or booleans (as 0 and 1).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Integers {
    pub(super) shape: Vec<usize>,
    pub(super) values: Arc<[i64]>,
    /// The element type's number.
    pub(super) kind: i32,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Real(Vec<usize>, Arc<[f32]>),
    Integers(Integers),
}

/// The greatest number of elements of a constant.
const MAX_ELEMENTS: usize = 1 << 28;

/// The greatest number of bytes of a tensor's external data.
const MAX_EXTERNAL: u64 = 4 << 30;

/// The greatest number of integers that are computed at once.
const MAX_COMPUTED: usize = 1 << 26;

/// The number of elements of a constant's shape, which may be empty.
pub(super) fn count(shape: &[usize]) -> Result<usize, String> {
    let product = shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
    let count = product.filter(|count| *count <= MAX_ELEMENTS);
    count.ok_or_else(|| format!("a constant of the shape {shape:?} has more than {MAX_ELEMENTS} elements"))
}

/// Sizes from the file. They must not be negative.
pub(super) fn extents(dims: &[i64]) -> Result<Vec<usize>, String> {
    let extent = |&dim: &i64| usize::try_from(dim).map_err(|_| format!("the shape {dims:?} has a negative size"));
    dims.iter().map(extent).collect()
}

/// Reads a tensor's values from the model, or from a file in the model's folder.
pub(super) fn tensor(tensor: &proto::Tensor, folder: Option<&Path>) -> Result<Value, String> {
    let shape = extents(&tensor.dims)?;
    let count = count(&shape)?;
    let raw = if tensor.data_location == 1 { external(tensor, folder)? } else { tensor.raw_data.clone() };
    let kind = tensor.data_type;
    let width = match kind {
        types::UINT8 | types::INT8 | types::BOOL | types::UINT4 | types::INT4 => 1,
        types::UINT16 | types::INT16 | types::FLOAT16 | types::BFLOAT16 => 2,
        types::FLOAT | types::INT32 | types::UINT32 => 4,
        types::DOUBLE | types::INT64 | types::UINT64 => 8,
        _ => return Err(format!("elements of type {kind} are not supported")),
    };
    let raw = match kind {
        types::UINT4 => halves(&raw, count, |byte| [byte & 15, byte >> 4]),
        types::INT4 => halves(&raw, count, |byte| [(byte << 4) as i8 >> 4, byte as i8 >> 4].map(|half| half as u8)),
        _ => raw,
    };
    let listed = [
        tensor.float_data.len(),
        tensor.int32_data.len(),
        tensor.int64_data.len(),
        tensor.double_data.len(),
        tensor.uint64_data.len(),
    ];
    let found = if raw.is_empty() { listed.iter().sum() } else { raw.len() / width };
    if found != count || raw.len() % width != 0 {
        return Err(format!("it has values for {found} elements, its shape {shape:?} has {count}"));
    }
    macro_rules! raw {
        ($type:ty) => {
            raw.chunks_exact(width).map(|bytes| <$type>::from_le_bytes(bytes.try_into().unwrap_or_default()))
        };
    }
    let wide = |values: &[i32]| values.iter().map(|&value| i64::from(value)).collect::<Arc<[i64]>>();
    // Each type has a list of values in onnx.proto for tensors without raw data.
    let lists_its_own = |list: usize| raw.is_empty() && count > 0 && listed[list] != count;
    let in_list =
        |list: usize| if lists_its_own(list) { Err("its values lie in the list of another type") } else { Ok(()) };
    if types::is_real(kind) {
        in_list(match kind {
            types::FLOAT => 0,
            types::DOUBLE => 3,
            _ => 1,
        })?;
        let half = |bits: i32| half::f16::from_bits(bits as u16).to_f32();
        let brain = |bits: i32| half::bf16::from_bits(bits as u16).to_f32();
        let values: Arc<[f32]> = match (kind, raw.is_empty()) {
            (types::FLOAT, false) => raw!(f32).collect(),
            (types::FLOAT, true) => tensor.float_data.as_slice().into(),
            (types::DOUBLE, false) => raw!(f64).map(|value| value as f32).collect(),
            (types::DOUBLE, true) => tensor.double_data.iter().map(|&value| value as f32).collect(),
            (types::FLOAT16, false) => raw!(u16).map(|bits| half(bits.into())).collect(),
            (types::FLOAT16, true) => tensor.int32_data.iter().map(|&bits| half(bits)).collect(),
            (_, false) => raw!(u16).map(|bits| brain(bits.into())).collect(),
            (_, true) => tensor.int32_data.iter().map(|&bits| brain(bits)).collect(),
        };
        return Ok(Value::Real(shape, values));
    }
    in_list(match kind {
        types::INT64 => 2,
        types::UINT32 | types::UINT64 => 4,
        _ => 1,
    })?;
    let values: Arc<[i64]> = match (kind, raw.is_empty()) {
        (types::UINT8 | types::UINT4 | types::BOOL, false) => raw.iter().map(|&value| value.into()).collect(),
        (types::INT8 | types::INT4, false) => raw!(i8).map(i64::from).collect(),
        (types::UINT16, false) => raw!(u16).map(i64::from).collect(),
        (types::INT16, false) => raw!(i16).map(i64::from).collect(),
        (types::INT32, false) => raw!(i32).map(i64::from).collect(),
        (types::UINT32, false) => raw!(u32).map(i64::from).collect(),
        (_, false) => raw!(i64).collect(),
        (types::INT64, true) => tensor.int64_data.as_slice().into(),
        (types::UINT32 | types::UINT64, true) => tensor.uint64_data.iter().map(|&value| value as i64).collect(),
        (_, true) => wide(&tensor.int32_data),
    };
    Ok(Value::Integers(Integers { shape, values, kind }))
}

/// The halves of bytes, the lower first. An odd number of elements leaves the last half.
fn halves(raw: &[u8], count: usize, of: impl Fn(u8) -> [u8; 2]) -> Bytes {
    let mut halves: Vec<u8> = raw.iter().flat_map(|&byte| of(byte)).collect();
    halves.truncate(halves.len() - usize::from(halves.len() == count + 1));
    halves.into()
}

/// Reads the bytes of a tensor from another file. The file must be in the model's folder: a model is untrusted input, and must
/// not be able to read any file of the machine.
fn external(tensor: &proto::Tensor, folder: Option<&Path>) -> Result<Bytes, String> {
    let entries: HashMap<_, _> = tensor.external_data.iter().map(|e| (e.key.as_str(), e.value.as_str())).collect();
    let location = *entries.get("location").ok_or("its external data has no location")?;
    let folder = folder.ok_or("it lies in another file, but the model was not read from a folder")?;
    let path = Path::new(location);
    if location.is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("its external data {location:?} is not a path inside the model's folder"));
    }
    let failed = |error: std::io::Error| format!("its external data {location:?}: {error}");
    // A symbolic link could lead out of the folder.
    let (root, full) = (folder.canonicalize().map_err(failed)?, folder.join(path).canonicalize().map_err(failed)?);
    if !full.starts_with(&root) {
        return Err(format!("its external data {location:?} leads outside the model's folder"));
    }
    let number = |key: &str| match entries.get(key) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| format!("its external data has the {key} {text:?}")),
    };
    let offset = number("offset")?.unwrap_or(0);
    Ok(files::read_part(full, offset, number("length")?, MAX_EXTERNAL).map_err(failed)?.into())
}

impl Integers {
    pub(super) fn vector(values: impl Into<Arc<[i64]>>) -> Self {
        let values = values.into();
        Self { shape: vec![values.len()], values, kind: types::INT64 }
    }

    /// The elements at the positions that `at` returns for each index of a shape.
    fn select(&self, shape: Vec<usize>, at: impl Fn(&[usize]) -> usize) -> Result<Self, String> {
        let total = count(&shape)?;
        if total > MAX_COMPUTED {
            return Err(format!("integers of the shape {shape:?}, more than {MAX_COMPUTED}, would be computed"));
        }
        let mut index = vec![0; shape.len()];
        let mut values = Vec::with_capacity(total);
        for _ in 0..total {
            values.push(self.values[at(&index)]);
            for axis in (0..shape.len()).rev() {
                index[axis] += 1;
                if index[axis] < shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        Ok(Self { shape, values: values.into(), kind: self.kind })
    }

    /// Broadcasts to a shape by repeating along dimensions of 1.
    pub(super) fn expand(&self, shape: &[usize]) -> Result<Self, String> {
        let missing = shape.len().checked_sub(self.shape.len());
        let fits = |missing: usize| self.shape.iter().zip(&shape[missing..]).all(|(own, to)| own == to || *own == 1);
        let Some(missing) = missing.filter(|&missing| fits(missing)) else {
            return Err(format!("the shape {:?} does not extend to {shape:?}", self.shape));
        };
        self.select(shape.to_vec(), |index| {
            let own = self.shape.iter().zip(&index[missing..]);
            own.fold(0, |at, (&extent, &index)| at * extent + if extent == 1 { 0 } else { index })
        })
    }

    /// Broadcasts both to each other and combines them element by element.
    pub(super) fn zip(&self, other: &Self, f: impl Fn(i64, i64) -> Result<i64, String>) -> Result<Self, String> {
        let rank = self.shape.len().max(other.shape.len());
        let extent =
            |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
        let larger = |axis| match (extent(&self.shape, axis), extent(&other.shape, axis)) {
            (1, b) => b,
            (a, _) => a,
        };
        let shape: Vec<usize> = (0..rank).map(larger).collect();
        let (a, b) = (self.expand(&shape)?, other.expand(&shape)?);
        let values = a.values.iter().zip(&b.values[..]).map(|(&a, &b)| f(a, b)).collect::<Result<_, _>>()?;
        Ok(Self { shape, values, kind: self.kind })
    }

    pub(super) fn map(&self, f: impl Fn(i64) -> i64) -> Self {
        Self { shape: self.shape.clone(), values: self.values.iter().map(|&value| f(value)).collect(), kind: self.kind }
    }

    pub(super) fn reshape(&self, shape: Vec<usize>) -> Result<Self, String> {
        if count(&shape)? != self.values.len() {
            return Err(format!("{:?} does not have as many elements as {shape:?}", self.shape));
        }
        Ok(Self { shape, ..self.clone() })
    }

    pub(super) fn gather(&self, indices: &Self, axis: usize) -> Result<Self, String> {
        let extent = self.shape[axis];
        let wrapped: Vec<usize> = indices.values.iter().map(|&at| index(at, extent)).collect::<Result<_, _>>()?;
        let (before, rank) = (self.shape[..axis].to_vec(), indices.shape.len());
        let shape = [before, indices.shape.clone(), self.shape[axis + 1..].to_vec()].concat();
        self.select(shape, |at| {
            let chosen =
                at[axis..axis + rank].iter().zip(&indices.shape).fold(0, |sum, (&k, &extent)| sum * extent + k);
            let own = at[..axis].iter().copied().chain([wrapped[chosen]]).chain(at[axis + rank..].iter().copied());
            own.zip(&self.shape).fold(0, |sum, (k, &extent)| sum * extent + k)
        })
    }

    pub(super) fn slice(&self, starts: &[usize], steps: &[isize], lengths: &[usize]) -> Result<Self, String> {
        self.select(lengths.to_vec(), |index| {
            let at = |axis: usize| starts[axis].wrapping_add_signed(steps[axis] * index[axis] as isize);
            (0..index.len()).fold(0, |sum, axis| sum * self.shape[axis] + at(axis))
        })
    }

    pub(super) fn transpose(&self, perm: &[usize]) -> Result<Self, String> {
        let rank = self.shape.len();
        if perm.len() != rank || (0..rank).any(|axis| !perm.contains(&axis)) {
            return Err(format!("{perm:?} is not an order of {rank} dimensions"));
        }
        self.select(perm.iter().map(|&axis| self.shape[axis]).collect(), |index| {
            let mut own = vec![0; rank];
            perm.iter().zip(index).for_each(|(&axis, &k)| own[axis] = k);
            own.iter().zip(&self.shape).fold(0, |sum, (k, &extent)| sum * extent + k)
        })
    }

    pub(super) fn concat(parts: &[Self], axis: usize) -> Result<Self, String> {
        let mut shape = parts[0].shape.clone();
        if axis >= shape.len() || parts.iter().any(|part| part.shape.len() != shape.len()) {
            return Err(format!("integers of different dimensions are joined along axis {axis}"));
        }
        shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
        let outer: usize = shape[..axis].iter().product();
        let mut values = Vec::new();
        for k in 0..outer {
            for part in parts {
                let run: usize = part.shape[axis..].iter().product();
                values.extend_from_slice(part.values.get(k * run..(k + 1) * run).ok_or("shapes differ")?);
            }
        }
        if values.len() != count(&shape)? {
            return Err("integers of different shapes are joined".to_owned());
        }
        Ok(Self { shape, values: values.into(), kind: parts[0].kind })
    }

    pub(super) fn real(&self) -> Arc<[f32]> {
        self.values.iter().map(|&value| value as f32).collect()
    }
}

/// An index that counts from the end if it is negative.
pub(super) fn index(at: i64, extent: usize) -> Result<usize, String> {
    let whole = if at < 0 { at.checked_add_unsigned(extent as u64) } else { Some(at) };
    let index = whole.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < extent);
    index.ok_or_else(|| format!("index {at} of {extent}"))
}
