// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables of scales in JSON, in the format of NVIDIA's compiler (`--calibtable`): for each layer, by its name, `{"scale": …,
//! "min": …, "max": …, "offset": …}`. `scale` is the real value of one step.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use nvdla_runtime::files;
use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::ir::{Graph, Op, PoolKind, Range, Ranges};

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
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
        let Entry { scale, min, max, offset, span } = *entry;
        if !(scale.is_finite() && scale > 0.0) {
            return Err(Error::Table(format!("{name:?} has the scale {scale}, which is not a positive number")));
        }
        if offset != 0.0 {
            return Err(Error::Table(format!("{name:?} has the offset {offset}; only symmetric scales are supported")));
        }
        let mut range = Range::of(-127.0 * scale, 127.0 * scale);
        if min < max {
            (range.min, range.max) = (min, max);
            range.reach(127.0 * scale);
        }
        range.scale = scale;
        if let Some((low, high)) = span {
            if !(low.is_finite() && high.is_finite() && low <= 0.0 && high >= 0.0 && low < high) {
                return Err(Error::Table(format!("{name:?} has the span {low} to {high}, which does not include 0")));
            }
            range.span = (low, high);
        }
        ranges.set(id, range);
    }
    Ok(ranges)
}

/// Makes the table of a graph's ranges.
pub fn write(graph: &Graph, ranges: &Ranges) -> String {
    let mut entries = BTreeMap::new();
    for id in graph.inputs.iter().copied().chain(graph.nodes.iter().map(|node| node.output)) {
        if let Some(range) = ranges.get(id) {
            let Range { min, max, scale, span, .. } = *range;
            let entry = Entry { scale, min, max, offset: 0.0, span: Some(span) };
            entries.insert(&graph.tensor(id).name, entry);
        }
    }
    serde_json::to_string_pretty(&entries).unwrap_or_default() + "\n"
}
