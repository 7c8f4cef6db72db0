// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads NCNN models: the text `.param` with the layers, and the `.bin` with their weights.
//!
//! Layers, the numbers of their parameters and the order of their weights are those of NCNN's documentation
//! (`docs/developer-guide/operators.md`, `param-and-model-file-structure.md`). NCNN's blobs have no batch: three dimensions (C,
//! H, W) become `[1, C, H, W]`, one (W) becomes `[1, W]`.

// Parameters are compared with the exact values that have no effect.
#![allow(clippy::float_cmp, clippy::assigning_clones)]

mod layers;

use std::collections::{BTreeMap, HashMap};

use crate::import::options::Options;
use crate::ir::{Graph, Op, Refusal, TensorId, Unreadable};

/// The first line of a `.param` file.
const MAGIC: &str = "7767517";

/// Why a model cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not a model, or its parts contradict each other.
    #[error("{0}")]
    Malformed(String),
    /// Layers that cannot be read.
    #[error(transparent)]
    Nodes(#[from] Unreadable),
}

/// A layer of the file.
struct Layer<'a> {
    kind: &'a str,
    name: &'a str,
    bottoms: Vec<&'a str>,
    tops: Vec<&'a str>,
    /// Numbers by their key. Integers are exact up to 2^53.
    values: BTreeMap<i32, f64>,
    arrays: BTreeMap<i32, Vec<f64>>,
}

impl Layer<'_> {
    fn float(&self, key: i32, default: f32) -> f32 {
        self.values.get(&key).map_or(default, |&value| value as f32)
    }

    fn int(&self, key: i32, default: i64) -> i64 {
        self.values.get(&key).map_or(default, |&value| value as i64)
    }

    /// A number that must not be negative.
    fn size(&self, key: i32, default: usize) -> Result<usize, String> {
        let value = self.int(key, default as i64);
        usize::try_from(value).map_err(|_| format!("its parameter {key} is {value}"))
    }

    /// A pair of numbers, of which the second may be omitted if both are equal: height under one key, width under the other.
    fn pair(&self, height: i32, width: i32, default: usize) -> Result<[usize; 2], String> {
        let width = self.size(width, default)?;
        Ok([self.size(height, width)?, width])
    }

    fn array(&self, key: i32) -> &[f64] {
        self.arrays.get(&key).map_or(&[], |array| array)
    }
}

/// The weights, read in the order of the layers.
struct Weights<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Weights<'a> {
    fn take(&mut self, count: usize, width: usize) -> Result<&'a [u8], String> {
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
    fn plain(&mut self, count: usize) -> Result<Vec<f32>, String> {
        let bytes = self.take(count, 4)?;
        finite(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// Reads weights after a tag that gives their type. int8 weights are returned as their integers.
    fn tagged(&mut self, count: usize) -> Result<(Vec<f32>, bool), String> {
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

fn finite(values: Vec<f32>) -> Result<Vec<f32>, String> {
    match values.iter().position(|value| value.is_nan()) {
        Some(at) => Err(format!("its weight {at} is not a number")),
        None => Ok(values),
    }
}

/// The properties of a blob.
#[derive(Clone, Copy, Debug)]
struct Blob {
    id: TensorId,
}

struct Reader<'a> {
    graph: Graph,
    blobs: HashMap<&'a str, Option<Blob>>,
    weights: Weights<'a>,
}

/// Splits a `.param` file into its layers.
fn parse(text: &str) -> Result<Vec<Layer<'_>>, String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    if lines.next() != Some(MAGIC) {
        return Err(format!("not an NCNN model: the first line is not {MAGIC}"));
    }
    let counts = lines.next().unwrap_or_default();
    let count = counts.split_whitespace().next().and_then(|count| count.parse::<usize>().ok());
    let count = count.ok_or_else(|| format!("the number of layers, \"{counts}\""))?;
    let layers: Vec<_> = lines
        .enumerate()
        .map(|(k, line)| layer(line).map_err(|r| format!("layer {k}: {r}")))
        .collect::<Result<_, _>>()?;
    if layers.len() != count {
        return Err(format!("{} layers, the file announces {count}", layers.len()));
    }
    Ok(layers)
}

fn layer(line: &str) -> Result<Layer<'_>, String> {
    let mut words = line.split_whitespace();
    let mut next = || words.next().ok_or_else(|| format!("the line \"{line}\" is cut off"));
    let (kind, name) = (next()?, next()?);
    let mut count = || {
        let word = next()?;
        word.parse::<u16>().map_err(|_| format!("\"{name}\" has \"{word}\" inputs or outputs"))
    };
    let (bottoms, tops) = (count()?, count()?);
    let bottoms = (0..bottoms).map(|_| next()).collect::<Result<_, _>>()?;
    let tops = (0..tops).map(|_| next()).collect::<Result<_, _>>()?;
    let (mut values, mut arrays) = (BTreeMap::new(), BTreeMap::new());
    for word in words {
        let bad = || format!("\"{name}\" has the parameter \"{word}\"");
        let (key, value) = word.split_once('=').ok_or_else(bad)?;
        let key: i32 = key.parse().map_err(|_| bad())?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(bad);
        if key <= -23300 {
            // An array: its length, then its elements.
            let numbers: Vec<f64> = value.split(',').map(number).collect::<Result<_, _>>()?;
            if numbers[0] != (numbers.len() - 1) as f64 {
                return Err(bad());
            }
            arrays.insert(-23300 - key, numbers[1..].to_vec());
        } else {
            values.insert(key, number(value)?);
        }
    }
    Ok(Layer { kind, name, bottoms, tops, values, arrays })
}

/// Reads a model from the contents of its two files.
pub fn read(param: &str, bin: &[u8], name: &str, options: &Options) -> Result<Graph, Error> {
    let malformed = |reason: String| Error::Malformed(reason);
    let layers = parse(param).map_err(malformed)?;
    let weights = Weights { bytes: bin, at: 0 };
    let mut reader = Reader { graph: Graph::new(name), blobs: HashMap::new(), weights };
    let mut refusals = Vec::new();
    let mut read_by_others: Vec<&str> = Vec::new();
    for layer in &layers {
        let mut inputs = Vec::new();
        for &bottom in &layer.bottoms {
            let blob = reader.blobs.get(bottom);
            inputs.push(*blob.ok_or_else(|| {
                malformed(format!("layer \"{}\" reads \"{bottom}\", which no earlier layer writes", layer.name))
            })?);
            read_by_others.push(bottom);
        }
        let known: Option<Vec<TensorId>> = inputs.iter().map(|blob| blob.map(|blob| blob.id)).collect();
        let shapes: Vec<_> = inputs.iter().flatten().map(|blob| reader.graph.shape(blob.id).to_vec()).collect();
        let before = reader.graph.tensors.len();
        let refuse =
            |reason| Refusal { node: layer.name.into(), operator: layer.kind.into(), shapes: shapes.clone(), reason };
        let outputs = match known {
            Some(inputs) => reader.layer(layer, &inputs, options).map_err(|reason| Some(refuse(reason))),
            // An earlier layer could not be read. Without shapes only this layer's name can be checked.
            None if layers::is_known(layer.kind) => Err(None),
            None => Err(Some(refuse(layers::why_not(layer.kind)))),
        };
        let outputs = outputs.map(|outputs| outputs.into_iter().map(Some).collect::<Vec<_>>());
        let outputs = outputs.unwrap_or_else(|refusal| {
            refusals.extend(refusal);
            vec![None; layer.tops.len()]
        });
        for (top, id) in layer.tops.iter().zip(outputs) {
            if let Some(id) = id.filter(|id| id.0 >= before) {
                reader.graph.tensors[id.0].name = (*top).to_owned();
            }
            if reader.blobs.insert(top, id.map(|id| Blob { id })).is_some() {
                return Err(malformed(format!("\"{}\" writes \"{top}\", which exists already", layer.name)));
            }
        }
    }
    if !refusals.is_empty() {
        return Err(Unreadable(refusals, Vec::new()).into());
    }
    if reader.weights.at != bin.len() {
        return Err(malformed(format!("the .bin has {} bytes, the layers read {}", bin.len(), reader.weights.at)));
    }
    // The outputs are the tensors that no layer reads, unless the user names others.
    let tops = layers.iter().flat_map(|layer| &layer.tops).copied();
    let mut names: Vec<&str> = tops.filter(|top| !read_by_others.contains(top)).collect();
    if !options.outputs.is_empty() {
        names = options.outputs.iter().map(String::as_str).collect();
    }
    for name in names {
        let blob = reader.blobs.get(name).copied().flatten();
        let id = blob.ok_or_else(|| malformed(format!("no layer writes the output \"{name}\"")))?.id;
        if reader.graph.producer(id).is_some() && !reader.graph.outputs.contains(&id) {
            reader.graph.tensors[id.0].name = name.to_owned();
        }
        reader.graph.outputs.push(id);
    }
    if reader.graph.outputs.is_empty() {
        return Err(malformed("the model has no outputs".to_owned()));
    }
    reader.graph.check().map_err(malformed)?;
    Ok(reader.graph)
}

impl Reader<'_> {
    fn emit(&mut self, layer: &Layer<'_>, op: Op, inputs: &[TensorId]) -> Result<TensorId, String> {
        let output = format!("{}/{}", layer.name, self.graph.tensors.len());
        crate::float::add(&mut self.graph, layer.name, op, inputs, &output)
    }

    fn constant(&mut self, layer: &Layer<'_>, shape: &[usize], values: Vec<f32>) -> Result<TensorId, String> {
        let name = format!("{}/{}", layer.name, self.graph.tensors.len());
        self.graph.add_constant(name, shape, values)
    }
}

#[cfg(test)]
mod tests;
