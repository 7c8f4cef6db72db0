// SPDX-License-Identifier: MIT OR Apache-2.0

//! Shows who runs what: one HTML page without other files, and the same as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::cost::Estimate;
use super::extract::Bound;
use super::group::Partition;
use crate::survey::Survey;

/// A group, for programs.
#[derive(Debug, Serialize)]
struct GroupEntry<'a> {
    /// The loadable's file.
    file: String,
    configuration: &'a str,
    precision: &'a str,
    nodes: Vec<&'a str>,
    inputs: Vec<TensorEntry<'a>>,
    outputs: Vec<TensorEntry<'a>>,
    bytes: usize,
    cycles: u64,
    seconds: Estimate,
}

/// A tensor between a group and the rest.
#[derive(Debug, Serialize)]
struct TensorEntry<'a> {
    /// Its name and shape in the model.
    name: &'a str,
    shape: &'a [usize],
    /// The number of the loadable's input or output.
    index: usize,
    /// Whether the model has its channels last; the loadable has them first.
    channels_last: bool,
    /// The scale and zero point of its integers, in a quantized model.
    quantization: Option<(f32, i32)>,
}

/// A node that the processor runs.
#[derive(Debug, Serialize)]
struct Rest<'a> {
    name: &'a str,
    operator: &'a str,
    reason: &'a str,
}

#[derive(Debug, Serialize)]
struct Whole<'a> {
    groups: Vec<GroupEntry<'a>>,
    processor: Vec<Rest<'a>>,
    warnings: &'a [String],
}

/// The name of a group's file.
pub fn file(group: usize) -> String {
    format!("group_{group}.nvdla")
}

fn entries(bounds: &[Bound]) -> Vec<TensorEntry<'_>> {
    fn entry(bound: &Bound) -> TensorEntry<'_> {
        TensorEntry {
            name: &bound.tensor,
            shape: &bound.shape,
            index: bound.index,
            channels_last: bound.channels_last.is_some(),
            quantization: bound.quantization.as_ref().and_then(|q| Some((*q.scale.first()?, *q.zero_point.first()?))),
        }
    }
    bounds.iter().map(entry).collect()
}

/// The division as JSON.
pub fn json(survey: &Survey, partition: &Partition) -> String {
    let groups = partition.groups.iter().enumerate().map(|(k, group)| GroupEntry {
        file: file(k),
        configuration: group.report.configuration,
        precision: group.report.precision,
        nodes: group.nodes.iter().map(|&k| survey.nodes[k].name.as_str()).collect(),
        inputs: entries(&group.inputs),
        outputs: entries(&group.outputs),
        bytes: group.loadable.len(),
        cycles: group.report.cycles,
        seconds: group.estimate,
    });
    let rest = survey.nodes.iter().zip(&partition.reasons).filter_map(|(node, reason)| {
        Some(Rest { name: &node.name, operator: &node.operator, reason: reason.as_deref()? })
    });
    let whole = Whole { groups: groups.collect(), processor: rest.collect(), warnings: &partition.warnings };
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

const STYLE: &str = "body{font:14px sans-serif;margin:2em;max-width:70em}\
    .block{border:1px solid #999;border-radius:6px;padding:.5em 1em;width:26em;margin:.4em 0;overflow-wrap:anywhere}\
    .nvdla{background:#e4f2c4;border-color:#76b900}.rest{background:#f2f2f2;margin-left:34em}\
    .tensors{color:#555;font-size:12px}details{font-size:12px}table{border-collapse:collapse}\
    td,th{padding:2px 8px;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A block of the page: a group, or nodes of the processor between two groups.
struct Block {
    group: Option<usize>,
    nodes: Vec<usize>,
}

/// The groups and the nodes between them, in an order in which they can run.
fn blocks(survey: &Survey, partition: &Partition) -> Vec<Block> {
    let mut of: Vec<Option<usize>> = vec![None; survey.nodes.len()];
    for (number, group) in partition.groups.iter().enumerate() {
        group.nodes.iter().for_each(|&k| of[k] = Some(number));
    }
    let makers = survey.makers();
    let mut done = vec![false; survey.nodes.len()];
    let mut blocks: Vec<Block> = Vec::new();
    for next in 0..=partition.groups.len() {
        let mut rest = Vec::new();
        for (k, node) in survey.nodes.iter().enumerate().filter(|&(k, _)| of[k].is_none()) {
            let ready = |name: &String| makers.get(name.as_str()).is_none_or(|&maker| done[maker]);
            if !done[k] && node.inputs.iter().all(ready) {
                done[k] = true;
                rest.push(k);
            }
        }
        if !rest.is_empty() {
            blocks.push(Block { group: None, nodes: rest });
        }
        if let Some(group) = partition.groups.get(next) {
            group.nodes.iter().for_each(|&k| done[k] = true);
            blocks.push(Block { group: Some(next), nodes: group.nodes.clone() });
        }
    }
    blocks
}

fn counted(survey: &Survey, nodes: &[usize]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for &k in nodes {
        let operator = survey.nodes[k].operator.as_str();
        match counts.iter_mut().find(|(known, _)| *known == operator) {
            Some((_, count)) => *count += 1,
            None => counts.push((operator, 1)),
        }
    }
    let text = |(operator, count): &(&str, usize)| {
        if *count == 1 {
            escaped(operator)
        } else {
            format!("{count} {}", escaped(operator))
        }
    };
    counts.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn tensors(bounds: &[Bound]) -> String {
    let one = |bound: &Bound| {
        let extents: Vec<_> = bound.shape.iter().map(usize::to_string).collect();
        format!("{} ({})", escaped(&bound.tensor), extents.join(" x "))
    };
    bounds.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The page: what runs on NVDLA on the left, what runs on the processor on the right, in the order of execution.
pub fn page(survey: &Survey, partition: &Partition) -> String {
    let name = escaped(&survey.graph.name);
    let inside: usize = partition.groups.iter().map(|group| group.nodes.len()).sum();
    let mut page = format!("<!doctype html><meta charset=utf-8><title>{name}</title><style>{STYLE}</style>\n");
    let _ = writeln!(
        page,
        "<h1>{name}</h1><p>{inside} of {} nodes run on NVDLA, in {} groups. Left: NVDLA; right: the processor; from top to bottom \
         in the order of execution.</p>",
        survey.nodes.len(),
        partition.groups.len()
    );
    for warning in &partition.warnings {
        let _ = writeln!(page, "<p>Warning: {}</p>", escaped(warning));
    }
    for Block { group, nodes } in blocks(survey, partition) {
        let counts = counted(survey, &nodes);
        if let Some(number) = group {
            let group = &partition.groups[number];
            let Estimate { nvdla, handover, processor } = group.estimate;
            let [nvdla, handover, processor] = [nvdla, handover, processor].map(|seconds| seconds * 1e6);
            let _ = writeln!(
                page,
                "<div class=\"block nvdla\"><b>{}</b>: {} nodes<div class=tensors>reads {}</div><div>{counts}</div>\
                 <div class=tensors>computes {}</div><div>about {nvdla:.0} us and {handover:.0} us to hand over; \
                 {processor:.0} us on the processor</div></div>",
                file(number),
                nodes.len(),
                tensors(&group.inputs),
                tensors(&group.outputs)
            );
        } else {
            let _ = writeln!(
                page,
                "<div class=\"block rest\">{} nodes: {counts}<details><summary>reasons</summary>",
                nodes.len()
            );
            page.push_str("<table><tr><th>node</th><th>operator</th><th>reason</th></tr>\n");
            for &k in &nodes {
                let reason = partition.reasons[k].as_deref().unwrap_or_default();
                let cells = [&survey.nodes[k].name, &survey.nodes[k].operator, reason].map(escaped);
                let _ = writeln!(page, "<tr><td>{}</td><td>{}</td><td>{}</td></tr>", cells[0], cells[1], cells[2]);
            }
            page.push_str("</table></details></div>\n");
        }
    }
    page
}
