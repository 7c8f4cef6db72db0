// SPDX-License-Identifier: MIT OR Apache-2.0

//! A layer of the file, its weights, and the graph that is built of them.

use std::collections::{BTreeMap, HashMap};

use crate::import::at::At;
use crate::ir::{Graph, Op, TensorId};

/// A layer of the file.
pub(super) struct Layer<'a> {
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    pub(super) bottoms: Vec<&'a str>,
    pub(super) tops: Vec<&'a str>,
    /// Numbers by their key. Integers are exact up to 2^53.
    pub(super) values: BTreeMap<i32, f64>,
    pub(super) arrays: BTreeMap<i32, Vec<f64>>,
}

impl Layer<'_> {
    pub(super) fn float(&self, key: i32, default: f32) -> f32 {
        self.values.get(&key).map_or(default, |&value| value as f32)
    }

    pub(super) fn int(&self, key: i32, default: i64) -> i64 {
        self.values.get(&key).map_or(default, |&value| value as i64)
    }

    /// A number that must not be negative.
    pub(super) fn size(&self, key: i32, default: usize) -> Result<usize, String> {
        let value = self.int(key, default as i64);
        usize::try_from(value).map_err(|_| format!("its parameter {key} is {value}"))
    }

    /// A pair of numbers, of which the second may be omitted if both are equal: height under one key, width under the other.
    pub(super) fn pair(&self, height: i32, width: i32, default: usize) -> Result<[usize; 2], String> {
        let width = self.size(width, default)?;
        Ok([self.size(height, width)?, width])
    }

    pub(super) fn array(&self, key: i32) -> &[f64] {
        self.arrays.get(&key).map_or(&[], |array| array)
    }
}

/// The weights, read in the order of the layers.
pub(super) struct Weights<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Weights<'a> {
    pub(super) fn take(&mut self, count: usize, width: usize) -> Result<&'a [u8], String> {
        let size = count.checked_mul(width).filter(|size| *size <= self.bytes.len() - self.at);
        let left = self.bytes.len() - self.at;
        let size =
            size.ok_or_else(|| format!("{count} weights of {width} bytes, but the .bin has {left} bytes left"))?;
        let taken = &self.bytes[self.at..self.at + size];
        // Every array ends at a multiple of four bytes.
        self.at = (self.at + size.next_multiple_of(4)).min(self.bytes.len());
        Ok(taken)
    }

    /// Reads numbers without a tag: biases, scales.
    pub(super) fn plain(&mut self, count: usize) -> Result<Vec<f32>, String> {
        let bytes = self.take(count, 4)?;
        finite(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// Reads weights after a tag, which are not int8. There is no number of them if it is too large to count.
    pub(super) fn reals(&mut self, count: Option<usize>) -> Result<Vec<f32>, String> {
        match self.tagged(count.ok_or("too many weights")?)? {
            (values, false) => Ok(values),
            _ => Err("int8 weights without scales".to_owned()),
        }
    }

    /// Reads weights after a tag that gives their type. int8 weights are returned as their integers.
    pub(super) fn tagged(&mut self, count: usize) -> Result<(Vec<f32>, bool), String> {
        let tag = self.take(1, 4)?;
        match u32::from_le_bytes([tag[0], tag[1], tag[2], tag[3]]) {
            0 | 0x0002_C056 => Ok((self.plain(count)?, false)),
            0x0130_6B47 => {
                let halves =
                    self.take(count, 2)?.chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32());
                Ok((finite(halves.collect())?, false))
            }
            0x000D_4B38 => Ok((self.take(count, 1)?.iter().map(|&byte| f32::from(byte as i8)).collect(), true)),
            _ => {
                // A table of 256 numbers, and one index per weight.
                let table = self.plain(256)?;
                Ok((self.take(count, 1)?.iter().map(|&byte| table[byte as usize]).collect(), false))
            }
        }
    }
}

pub(super) fn finite(values: Vec<f32>) -> Result<Vec<f32>, String> {
    match values.iter().position(|value| value.is_nan()) {
        Some(at) => Err(format!("its weight {at} is not a number")),
        None => Ok(values),
    }
}

/// The properties of a blob.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blob {
    pub(super) id: TensorId,
}

pub(super) struct Reader<'a> {
    pub(super) graph: Graph,
    pub(super) blobs: HashMap<&'a str, Option<Blob>>,
    pub(super) weights: Weights<'a>,
}

impl Reader<'_> {
    pub(super) fn emit(&mut self, layer: &Layer<'_>, op: Op, inputs: &[TensorId]) -> Result<TensorId, String> {
        At { graph: &mut self.graph, node: layer.name }.emit(op, inputs)
    }

    pub(super) fn constant(
        &mut self,
        layer: &Layer<'_>,
        shape: &[usize],
        values: Vec<f32>,
    ) -> Result<TensorId, String> {
        At { graph: &mut self.graph, node: layer.name }.constant(shape, values)
    }
}
