// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads NCNN models: the text `.param` with the layers, and the `.bin` with their weights.
//!
//! Layers, the numbers of their parameters and the order of their weights are those of NCNN's documentation
//! (`docs/developer-guide/operators.md`, `param-and-model-file-structure.md`). NCNN's blobs have no batch: three dimensions (C,
//! H, W) become `[1, C, H, W]`, one (W) becomes `[1, W]`.

// Parameters are compared with the exact values that have no effect.
#![allow(clippy::float_cmp, clippy::assigning_clones)]

mod attention;
mod layers;
mod reader;
mod recurrent;

use std::collections::{BTreeMap, HashMap};

use nvdla_runtime::files;

use crate::import::format::{Failure, Format};
use crate::import::options::Options;
use crate::ir::budget::Budget;
use crate::ir::{Graph, Refusal, TensorId, Unreadable};
use reader::{Blob, Layer, Reader, Weights};

/// The first line of a `.param` file.
const MAGIC: &str = "7767517";
/// The greatest size of a file of weights in bytes.
const MAX_WEIGHTS: u64 = 4 << 30;

/// Splits a `.param` file into its layers.
fn parse(text: &str) -> Result<Vec<Layer<'_>>, String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    if lines.next() != Some(MAGIC) {
        return Err(format!("not an NCNN model: the first line is not {MAGIC}"));
    }
    let counts = lines.next().unwrap_or_default();
    let count = counts.split_whitespace().next().and_then(|count| count.parse::<usize>().ok());
    let count = count.ok_or_else(|| format!("the number of layers, {counts:?}"))?;
    // NCNN reads as many layers as the file announces.
    let layers: Vec<_> = lines
        .take(count)
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
    let mut next = || words.next().ok_or_else(|| format!("the line {line:?} is cut off"));
    let (kind, name) = (next()?, next()?);
    let mut count = || {
        let word = next()?;
        word.parse::<u16>().map_err(|_| format!("{name:?} has {word:?} inputs or outputs"))
    };
    let (bottoms, tops) = (count()?, count()?);
    let bottoms = (0..bottoms).map(|_| next()).collect::<Result<_, _>>()?;
    let tops = (0..tops).map(|_| next()).collect::<Result<_, _>>()?;
    let (mut values, mut arrays) = (BTreeMap::new(), BTreeMap::new());
    for word in words {
        let bad = || format!("{name:?} has the parameter {word:?}");
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

/// Which layers the outputs need that the user names; all if none is named.
fn needed(layers: &[Layer<'_>], outputs: &[String]) -> Vec<bool> {
    let mut wanted: Vec<&str> = outputs.iter().map(String::as_str).collect();
    let mut needed = vec![outputs.is_empty(); layers.len()];
    for (layer, needed) in layers.iter().zip(&mut needed).rev() {
        if layer.tops.iter().any(|top| wanted.contains(top)) {
            *needed = true;
            wanted.extend(&layer.bottoms);
        }
    }
    needed
}

/// NCNN: a `.param` with the weights beside it in `.bin`.
pub const FORMAT: Format = Format {
    extension: "param",
    read: |path, bytes, options| {
        let text = String::from_utf8(bytes).map_err(|_| Failure::Malformed("a .param file is text".to_owned()))?;
        let weights = path.with_extension("bin");
        let bin = files::read(&weights, MAX_WEIGHTS).map_err(|source| Failure::File(weights, source))?;
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        read(&text, &bin, &name, options)
    },
    others: |path| vec![path.with_extension("bin")],
};

/// Reads a model from the contents of its two files.
pub fn read(param: &str, bin: &[u8], name: &str, options: &Options) -> Result<Graph, Failure> {
    let malformed = |reason: String| Failure::Malformed(reason);
    let layers = parse(param).map_err(malformed)?;
    let weights = Weights { bytes: bin, at: 0 };
    let mut reader = Reader { graph: Graph::new(name), blobs: HashMap::new(), weights };
    reader.graph.budget = Budget::new((param.len() + bin.len()) as u64, options.cancel.clone());
    let (mut refusals, mut offers) = (Vec::new(), Vec::new());
    let mut read_by_others: Vec<&str> = Vec::new();
    let needed = needed(&layers, &options.outputs);
    // A layer that is left out and may have weights: of those behind it nothing is known.
    let mut unknown = None;
    for (layer, needed) in layers.iter().zip(needed) {
        let mut inputs = Vec::new();
        for &bottom in &layer.bottoms {
            let blob = reader.blobs.get(bottom);
            inputs.push(*blob.ok_or_else(|| {
                malformed(format!("layer {:?} reads {bottom:?}, which no earlier layer writes", layer.name))
            })?);
            read_by_others.push(bottom);
        }
        let known: Option<Vec<TensorId>> = inputs.iter().map(|blob| blob.map(|blob| blob.id)).collect();
        let shapes: Vec<_> = inputs.iter().flatten().map(|blob| reader.graph.shape(blob.id).to_vec()).collect();
        let before = reader.graph.tensors.len();
        let at = reader.weights.at;
        let refuse =
            |reason| Refusal { node: layer.name.into(), operator: layer.kind.into(), shapes: shapes.clone(), reason };
        let outputs = match known {
            Some(inputs) => reader.layer(layer, &inputs, options).map_err(|reason| Some(refuse(reason))),
            // An earlier layer could not be read. Without shapes only this layer's name can be checked.
            None if layers::is_known(layer.kind) => Err(None),
            None => Err(Some(refuse(layers::WHY_NOT.to_owned()))),
        };
        let outputs = match (outputs, unknown) {
            (Ok(_), Some(before)) if needed && reader.weights.at != at => {
                let reason =
                    format!("the layer {before:?} before it is not supported, so the place of its weights is unknown");
                Err(Some(refuse(reason)))
            }
            (outputs, _) => outputs,
        };
        let outputs = outputs.map(|outputs| outputs.into_iter().map(Some).collect::<Vec<_>>());
        let outputs = outputs.unwrap_or_else(|refusal| {
            if needed {
                let made = |blob: &Option<Blob>| blob.is_some_and(|blob| reader.graph.producer(blob.id).is_some());
                if refusal.is_some() {
                    let before = layer.bottoms.iter().zip(&inputs).filter(|(_, blob)| made(blob));
                    offers.extend(before.map(|(bottom, _)| (*bottom).to_owned()));
                }
                refusals.extend(refusal);
            } else {
                unknown = unknown.or(Some(layer.name));
            }
            vec![None; layer.tops.len()]
        });
        for (top, id) in layer.tops.iter().zip(outputs) {
            if let Some(id) = id.filter(|id| id.0 >= before) {
                reader.graph.tensors[id.0].name = (*top).to_owned();
            }
            if reader.blobs.insert(top, id.map(|id| Blob { id })).is_some() {
                return Err(malformed(format!("{:?} writes {top:?}, which exists already", layer.name)));
            }
        }
    }
    if !refusals.is_empty() {
        offers.sort_unstable();
        offers.dedup();
        return Err(Unreadable(refusals, offers).into());
    }
    if unknown.is_none() && reader.weights.at != bin.len() {
        return Err(malformed(format!("the .bin has {} bytes, the layers read {}", bin.len(), reader.weights.at)));
    }
    // The outputs are the tensors that no layer reads, unless the user names others. A last layer that computes nothing gathers them.
    let mut names: Vec<&str> = Vec::new();
    for layer in &layers {
        let last = layer.tops.iter().filter(|top| !read_by_others.contains(top));
        match layer.kind {
            "Noop" if layer.bottoms.len() > layer.tops.len() => {
                names.extend(layer.bottoms.iter().filter(|_| last.clone().count() > 0));
            }
            _ => names.extend(last),
        }
    }
    if !options.outputs.is_empty() {
        names = options.outputs.iter().map(String::as_str).collect();
    }
    for name in names {
        let blob = reader.blobs.get(name).copied().flatten();
        let id = blob.ok_or_else(|| malformed(format!("no layer writes the output {name:?}")))?.id;
        reader.graph.add_output(id, name).map_err(malformed)?;
    }
    if reader.graph.outputs.is_empty() {
        return Err(malformed("the model has no outputs".to_owned()));
    }
    reader.graph.check().map_err(malformed)?;
    Ok(reader.graph)
}

#[cfg(test)]
mod tests;
