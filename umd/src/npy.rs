// SPDX-License-Identifier: MIT OR Apache-2.0

//! NumPy's files of one array (`.npy`): versions 1 to 3, little-endian numbers in C order. Source: the documentation of
//! `numpy.lib.format`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use crate::{files, half};

/// An array, converted to `f32` from any element type of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its values, the last dimension innermost.
    pub values: Vec<f32>,
}

/// Bytes of the largest file with that many elements: a header has at most 64 KiB, and an element eight bytes.
pub fn largest(elements: u64) -> u64 {
    elements.saturating_mul(8).saturating_add(1 << 16)
}

/// Reads an array from a file of at most `limit` bytes: see [`largest`].
pub fn read(path: &Path, limit: u64) -> Result<Array, String> {
    let bytes = files::read(path, limit).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&bytes).map_err(|reason| format!("{}: {reason}", path.display()))
}

/// Reads an array from a file's bytes.
pub fn parse(bytes: &[u8]) -> Result<Array, String> {
    let short = "the file is cut off";
    if bytes.get(..6) != Some(b"\x93NUMPY") {
        return Err("not a .npy file".to_owned());
    }
    let (length, start) = match *bytes.get(6..12).ok_or(short)? {
        [1, _, a, b, ..] => (u32::from(u16::from_le_bytes([a, b])), 10),
        [2 | 3, _, a, b, c, d] => (u32::from_le_bytes([a, b, c, d]), 12),
        [version, ..] => return Err(format!("version {version} of the format is not supported")),
        [] => return Err(short.to_owned()),
    };
    let (header, data) = bytes[start..].split_at_checked(length as usize).ok_or(short)?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is not text")?;
    // The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }
    let field = |name: &str| {
        let at = header.find(&format!("'{name}':")).ok_or_else(|| format!("its header has no {name}"))?;
        Ok::<_, String>(header[at + name.len() + 3..].trim_start())
    };
    if !field("fortran_order")?.starts_with("False") {
        return Err("it is in Fortran order; store it with numpy.ascontiguousarray".to_owned());
    }
    let extents =
        field("shape")?.strip_prefix('(').and_then(|text| text.split_once(')')).ok_or("its shape is cut off")?.0;
    let extents = extents.split(',').map(str::trim).filter(|text| !text.is_empty());
    let shape: Vec<usize> =
        extents.map(|text| text.parse().map_err(|_| format!("the size {text}"))).collect::<Result<_, _>>()?;
    let count = shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
    let count = count.ok_or_else(|| format!("the shape {shape:?} has too many elements"))?;
    let kind = field("descr")?.split('\'').nth(1).ok_or("its type is cut off")?;
    macro_rules! numbers {
        ($type:ty) => {
            data.chunks_exact(size_of::<$type>())
                .map(|bytes| <$type>::from_le_bytes(bytes.try_into().unwrap_or_default()) as f32)
                .collect()
        };
    }
    let (width, values): (usize, Vec<f32>) = match kind {
        "<f4" => (4, numbers!(f32)),
        "<f8" => (8, numbers!(f64)),
        "<f2" => (2, data.chunks_exact(2).map(|b| half::to_f32(half::f16::from_le_bytes([b[0], b[1]]))).collect()),
        "|u1" | "|b1" => (1, numbers!(u8)),
        "|i1" => (1, numbers!(i8)),
        "<i2" => (2, numbers!(i16)),
        "<u2" => (2, numbers!(u16)),
        "<i4" => (4, numbers!(i32)),
        "<i8" => (8, numbers!(i64)),
        other => return Err(format!("elements of type {other} are not supported")),
    };
    if values.len() != count || Some(data.len()) != count.checked_mul(width) {
        return Err(format!("{} bytes of elements for the shape {shape:?} of {kind}", data.len()));
    }
    Ok(Array { shape, values })
}

/// Whether arrays of two shapes with as many elements have them in the same order: adjacent dimensions of one may be joined in the
/// other, and dimensions of 1 may be left out.
pub fn same_order(a: &[usize], b: &[usize]) -> bool {
    // The distances, in elements, between neighbours along each dimension.
    let strides = |shape: &[usize]| {
        let mut stride = 1_u64;
        let mut strides = BTreeSet::from([1]);
        for &extent in shape.iter().rev() {
            stride = stride.saturating_mul(extent as u64);
            strides.insert(stride);
        }
        (strides, stride)
    };
    let ((a, elements), (b, others)) = (strides(a), strides(b));
    elements == others && (a.is_subset(&b) || b.is_subset(&a))
}

/// The elements of an array in the order of a tensor `[N, C, …]`, if its shape is that of the tensor, or with `last` also if it is
/// `[N, …, C]` and cannot be the tensor's. None for other shapes. The tensor has as many elements.
pub fn in_order<'a>(shape: &[usize], values: Cow<'a, [f32]>, tensor: &[usize], last: bool) -> Option<Cow<'a, [f32]>> {
    if same_order(shape, tensor) {
        return Some(values);
    }
    match *tensor {
        [n, c, ref size @ ..] if last && same_order(shape, &[&[n], size, &[c]].concat()) => {
            Some(transposed(&values, n, size.iter().product(), c).into())
        }
        _ => None,
    }
}

/// Transposes each of `count` matrices of `rows` lines and `columns` columns, one after another. Missing values become 0.
pub fn transposed(values: &[f32], count: usize, rows: usize, columns: usize) -> Vec<f32> {
    let at = |matrix: usize, row: usize, column: usize| values.get((matrix * rows + row) * columns + column);
    let of = |matrix: usize| {
        (0..columns)
            .flat_map(move |column| (0..rows).map(move |row| at(matrix, row, column).copied().unwrap_or_default()))
    };
    (0..count).flat_map(of).collect()
}

/// The bytes of a file with an array of 32-bit numbers.
pub fn bytes(shape: &[usize], values: &[f32]) -> Vec<u8> {
    let extents: Vec<String> = shape.iter().map(|extent| format!("{extent},")).collect();
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", extents.join(" "));
    // The data start at a multiple of 64, after a newline.
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for shape in [vec![], vec![3], vec![1, 2, 3]] {
            let values: Vec<f32> = (0..shape.iter().product()).map(|k: usize| k as f32 - 1.5).collect();
            assert_eq!(parse(&bytes(&shape, &values)), Ok(Array { shape, values }));
        }
    }

    #[test]
    fn shapes_keep_the_order_of_elements() {
        let input = [1, 3, 24, 20];
        for same in [&[3, 24, 20][..], &[1440], &[72, 20], &[3, 480], &[1, 3, 4, 6, 20], &[1, 1, 3, 24, 20, 1]] {
            assert!(same_order(same, &input), "{same:?}");
        }
        for other in [&[1, 24, 20, 3][..], &[24, 20, 3], &[3, 20, 24], &[3, 24], &[480, 3], &[2, 720], &[]] {
            assert!(!same_order(other, &input), "{other:?}");
        }
        assert!(same_order(&[], &[1, 1]));
    }

    #[test]
    fn channels_become_the_first_dimension() {
        let values: Vec<f32> = (0..12_u8).map(f32::from).collect();
        let moved = [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11].map(|value: u8| f32::from(value));
        let found = |shape: &[usize], last| in_order(shape, values.as_slice().into(), &[2, 3, 1, 2], last);
        assert_eq!(found(&[2, 1, 2, 3], true).unwrap()[..], moved);
        assert_eq!(found(&[2, 3, 2], true).unwrap(), values);
        assert_eq!((found(&[2, 1, 2, 3], false), found(&[3, 2, 2], true)), (None, None));
    }

    #[test]
    fn bad_files_are_errors() {
        let good = bytes(&[2, 3], &[0.0; 6]);
        for end in 0..good.len() {
            assert!(parse(&good[..end]).is_err(), "{end} bytes");
        }
        let text = String::from_utf8_lossy(&good[10..]).into_owned();
        for (from, to) in [("<f4", ">f4"), ("False", "True "), ("(2, 3,)", "(2, 4,)"), ("(2, 3,)", "(2, -,)")] {
            assert!(text.contains(from), "{from}");
            let bad = [&good[..10], text.replace(from, to).as_bytes()].concat();
            assert!(parse(&bad).is_err(), "{to}");
        }
    }
}
