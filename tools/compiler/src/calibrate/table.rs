// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables of scales in JSON, in the format of NVIDIA's compiler (`--calibtable`): for each layer, by its name, `{"scale": …,
//! "min": …, "max": …, "offset": …}`. `scale` is the real value of one step.
//!
//! An entry may have more, which NVIDIA's compiler does not use: the `span`, which is the real values of the integers -128 and 127; the
//! mean of each channel (`means`) with the `shape` of the tensor; and of a softmax's result the `losses`, which are what rounding takes
//! from each channel. With the means, biases make up for the rounding of weights, as they do with samples.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use nvdla_runtime::files;
use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::ir::{Graph, Means, Op, PoolKind, Range, Ranges, Tensor};

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    scale: f32,
    #[serde(default)]
    min: f32,
    #[serde(default)]
    max: f32,
    #[serde(default)]
    offset: f32,
    /// The real values of the integers -128 and 127 if another integer than 0 may be 0. NVIDIA's compiler does not use them.
    #[serde(default)]
    span: Option<(f32, f32)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shape: Vec<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    means: Vec<f32>,
    /// Of a softmax's result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    losses: Vec<f32>,
}

impl Entry {
    /// Checks everything that does not depend on the network.
    fn check(&self) -> Result<(), String> {
        let Self { scale, min, max, offset, span, shape, means, losses } = self;
        if !(scale.is_finite() && *scale > 0.0) {
            return Err(format!("the scale {scale}, which is not a positive number"));
        }
        if *offset != 0.0 {
            return Err(format!("the offset {offset}; only symmetric scales are supported"));
        }
        if !(min.is_finite() && max.is_finite() && min <= max) {
            return Err(format!("values from {min} to {max}: min is the smallest, and max the largest"));
        }
        let spans_zero =
            |low: f32, high: f32| low.is_finite() && high.is_finite() && low <= 0.0 && high >= 0.0 && low < high;
        if let Some((low, high)) = span.filter(|&(low, high)| !spans_zero(low, high)) {
            return Err(format!("the span {low} to {high}, which does not include 0"));
        }
        if !means.is_empty() && (!shape.contains(&means.len()) || means.iter().any(|mean| !mean.is_finite())) {
            return Err(format!("{} means and the shape {shape:?}: there is one mean per channel", means.len()));
        }
        if !losses.is_empty() && (losses.len() != means.len() || losses.iter().any(|loss| !loss.is_finite())) {
            return Err(format!("{} losses and {} means: there is one of each per channel", losses.len(), means.len()));
        }
        Ok(())
    }

    /// The means, if they are those of a tensor's channels: its shape says which dimension that is.
    fn means_of(&self, tensor: &Tensor) -> Option<&[f32]> {
        let [1, channels, height, width] = tensor.nchw()? else { return None };
        let clear = self.shape == tensor.shape && !(channels == height && channels == width);
        (clear && self.means.len() == channels).then_some(&self.means)
    }
}

/// The greatest size of a table in bytes.
const MAX_SIZE: u64 = 64 << 20;

/// The text of a table's file. Its entries are checked by [`read`], which knows the network.
///
/// # Errors
///
/// When the file cannot be read, is larger than 64 MiB or has another form.
pub fn open(path: impl AsRef<Path>) -> io::Result<String> {
    let text = files::read_text(path, MAX_SIZE)?;
    let entries = read(&text, &Graph::default());
    entries.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    Ok(text)
}

/// Reads a table. An entry names a tensor, or the node that computes it.
pub fn read(text: &str, graph: &Graph) -> Result<Ranges, Error> {
    let entries: BTreeMap<String, Entry> =
        serde_json::from_str(text).map_err(|error| Error::Table(format!("the table of scales: {error}")))?;
    if let Some((name, reason)) = entries.iter().find_map(|(name, entry)| Some((name, entry.check().err()?))) {
        return Err(Error::Table(format!("the table of scales: {name:?} has {reason}")));
    }
    let mut ranges = Ranges::new();
    let nodes = graph.nodes.iter().map(|node| (node.output, &node.name, Some(&node.op)));
    let tensors = graph.inputs.iter().map(|&id| (id, &graph.tensor(id).name, None)).chain(nodes);
    for (id, node, op) in tensors {
        let name = &graph.tensor(id).name;
        // A tensor that a move was taken from has a mark and the same values. A sum or a mean before another has other values.
        let partial =
            matches!(op, Some(Op::Binary(_))) || matches!(op, Some(Op::Pool(pool)) if pool.kind != PoolKind::Max);
        let moved = name.strip_suffix('\'').filter(|_| !partial);
        let names = [Some(name.as_str()), Some(node.as_str()), moved].into_iter().flatten();
        let Some((name, entry)) = names.into_iter().find_map(|name| Some((name, entries.get(name)?))) else {
            continue;
        };
        let Entry { scale, min, max, span, .. } = *entry;
        let mut range = Range::of(-127.0 * scale, 127.0 * scale);
        if min < max {
            (range.min, range.max) = (min, max);
            range.reach(127.0 * scale);
        }
        range.scale = scale;
        range.span = span.unwrap_or(range.span);
        ranges.set(id, range);
        // A moved tensor may have other channels.
        if moved == Some(name) || entry.means.is_empty() {
            continue;
        }
        let tensor = graph.tensor(id);
        if let Some(means) = entry.means_of(tensor) {
            let losses = (!entry.losses.is_empty()).then(|| entry.losses.clone().into());
            ranges.set_means(id, Means { values: means.into(), losses });
        } else if entry.shape != tensor.shape {
            ranges.doubts.push(format!(
                "the table of scales has the means of \"{name}\" for the shape {:?}, and the tensor has {:?}: they are not used",
                entry.shape, tensor.shape
            ));
        }
    }
    Ok(ranges)
}

/// Makes the table of a graph's ranges.
pub fn write(graph: &Graph, ranges: &Ranges) -> String {
    let mut entries = BTreeMap::new();
    for id in graph.inputs.iter().copied().chain(graph.nodes.iter().map(|node| node.output)) {
        if let Some(range) = ranges.get(id) {
            let Range { min, max, scale, span, .. } = *range;
            let (tensor, known) = (graph.tensor(id), ranges.means(id));
            let list = |values: Option<&Arc<[f32]>>| values.map_or(Vec::new(), |values| values.to_vec());
            let means = list(known.map(|means| &means.values));
            let losses = list(known.and_then(|means| means.losses.as_ref()));
            let shape = if means.is_empty() { Vec::new() } else { tensor.shape.clone() };
            entries
                .insert(&tensor.name, Entry { scale, min, max, offset: 0.0, span: Some(span), shape, means, losses });
        }
    }
    serde_json::to_string_pretty(&entries).unwrap_or_default() + "\n"
}
