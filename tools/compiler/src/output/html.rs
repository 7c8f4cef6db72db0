// SPDX-License-Identifier: MIT OR Apache-2.0

//! Writes a [`Report`] as one HTML page without other files: totals, the pools over time, operations, steps, nodes.

use nvdla_runtime::program::plain;
use std::fmt::Write;

use crate::output::report::{BufferReport, FastLayer, Report, WinogradReport};

/// Width and height of the picture of a pool.
const PICTURE: [f64; 2] = [960.0, 320.0];

const STYLE: &str = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse;margin:1em 0}\
    td,th{padding:2px 8px;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}\
    td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}tr:hover{background:#f4f4f4}\
    rect{fill:#76b900;fill-opacity:.55;stroke:#fff;stroke-width:.5}rect:hover{fill:#345200}";

/// Escapes a text for HTML.
fn escaped(text: &str) -> String {
    // Names come from the model, and may try to change how the page looks.
    plain(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Writes a table: titles, each with whether its column has numbers, and rows.
fn table(page: &mut String, titles: &[(&str, bool)], rows: impl Iterator<Item = Vec<String>>) {
    let class = |number: bool| if number { " class=n" } else { "" };
    page.push_str("<table><tr>");
    for (title, number) in titles {
        let _ = write!(page, "<th{}>{title}</th>", class(*number));
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str("<tr>");
        for (cell, (_, number)) in row.iter().zip(titles) {
            let _ = write!(page, "<td{}>{}</td>", class(*number), escaped(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn sizes(shape: &[u32]) -> String {
    shape.iter().map(u32::to_string).collect::<Vec<_>>().join(" x ")
}

/// Draws the buffers of a pool of `bytes` bytes as boxes: operations from left to right, bytes from bottom to top.
fn picture(page: &mut String, report: &Report, in_sram: bool, bytes: u64) {
    let [width, height] = PICTURE;
    let across = width / report.operations.len().max(1) as f64;
    let up = height / bytes.max(1) as f64;
    let _ = writeln!(page, "<svg width={width} height={height} style=\"border:1px solid #ccc\">");
    for BufferReport { tensor, offset, size, first, last, .. } in report.buffers.iter().filter(|b| b.sram == in_sram) {
        let (x, y) = (*first as f64 * across, height - f64::from(offset + size) * up);
        let (w, h) = ((last + 1 - first) as f64 * across, f64::from(*size) * up);
        let _ = writeln!(
            page,
            "<rect x={x:.1} y={y:.1} width={w:.1} height={h:.1}><title>{}: {size} bytes at {offset:#x}, operations {first} \
             to {last}</title></rect>",
            escaped(tensor)
        );
    }
    page.push_str("</svg>\n");
}

/// Writes the page.
fn page(report: &Report) -> String {
    let name = escaped(&report.network);
    let mut page = format!("<!doctype html><meta charset=utf-8><title>{name}</title><style>{STYLE}</style>\n");
    let _ = writeln!(
        page,
        "<h1>{name}</h1><p>{}, {}: {} operations, {} estimated cycles, {} bytes of constants.</p>",
        report.configuration,
        report.precision,
        report.operations.len(),
        report.cycles,
        report.constants
    );
    for warning in &report.warnings {
        let _ = writeln!(page, "<p>Warning: {}</p>", escaped(warning));
    }
    let _ = writeln!(
        page,
        "<h2>Pool</h2><p>{} bytes; at least {} are needed in this order. A box is a tensor: operations from left to right, \
         addresses from bottom to top.</p>",
        report.pool, report.pool_bound
    );
    picture(&mut page, report, false, report.pool);
    if let Some(sram) = &report.sram {
        let count = report.buffers.iter().filter(|buffer| buffer.sram).count();
        let _ = writeln!(
            page,
            "<h2>SRAM</h2><p>{} bytes of {} hold {count} tensors; at least {} are needed for them in this order. The \
             network takes {} estimated cycles, and {} with all tensors in DRAM.</p>",
            sram.pool, sram.limit, sram.pool_bound, sram.cycles, sram.cycles_in_dram
        );
        picture(&mut page, report, true, sram.pool);
    }
    if let Some(WinogradReport { budget, loss, layers }) = &report.winograd {
        let _ = writeln!(page, "<h2>Winograd's mode</h2><p>An output loses {loss:.2} of {budget} dB.</p><ul>");
        for FastLayer { tensor, loss, taken } in layers {
            let taken = if *taken { "in the mode" } else { "not in the mode" };
            let _ = writeln!(page, "<li>{}: alone it loses {loss:.2} dB; {taken}</li>", escaped(tensor));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("<h2>Operations</h2>\n");
    let titles = [
        ("task", true),
        ("operation", true),
        ("unit", false),
        ("nodes", false),
        ("tensor", false),
        ("input (channels, lines, columns)", false),
        ("output", false),
        ("cycles", true),
        ("limited by", false),
        ("bytes", true),
        ("weights", true),
    ];
    let row = |operation: &crate::output::report::OperationReport| {
        vec![
            operation.task.to_string(),
            operation.index.to_string(),
            operation.unit.to_owned(),
            operation.nodes.join(", "),
            operation.tensor.clone(),
            sizes(&operation.input),
            sizes(&operation.output),
            operation.cycles.to_string(),
            operation.limit.clone(),
            operation.bytes.to_string(),
            operation.weights.to_string(),
        ]
    };
    table(&mut page, &titles, report.operations.iter().map(row));
    page.push_str("<h2>Steps: the graph after joining nodes</h2>\n");
    let titles = [
        ("nodes", false),
        ("kind", false),
        ("reads", false),
        ("tensor", false),
        ("shape", false),
        ("scale", true),
        ("zero point", true),
        ("precision", false),
        ("signal to noise in dB", true),
    ];
    let row = |step: &crate::output::report::StepReport| {
        let (nodes, inputs, scale) = (step.nodes.join(", "), step.inputs.join(", "), format!("{:.6}", step.scale));
        let zero_point = step.zero_point.to_string();
        let decibels = step.decibels.map_or_else(String::new, |decibels| format!("{decibels:.1}"));
        let (kind, precision) = (step.kind.to_owned(), step.precision.to_owned());
        vec![nodes, kind, inputs, step.output.clone(), sizes(&step.shape), scale, zero_point, precision, decibels]
    };
    table(&mut page, &titles, report.steps.iter().map(row));
    page.push_str("<h2>Nodes: the graph before</h2>\n");
    let titles = [("node", false), ("operator", false), ("reads", false), ("tensor", false), ("shape", false)];
    let row = |node: &crate::output::report::NodeReport| {
        let shape = node.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
        vec![node.name.clone(), node.operator.clone(), node.inputs.join(", "), node.output.clone(), shape]
    };
    table(&mut page, &titles, report.graph.iter().map(row));
    if !report.tables.is_empty() {
        page.push_str("<h2>Lookup tables</h2>\n");
        let row = |(tensor, error): &(String, f64)| vec![tensor.clone(), format!("{error:.3}")];
        table(&mut page, &[("tensor", false), ("largest error in steps", true)], report.tables.iter().map(row));
    }
    page
}

impl Report {
    /// The report as a page, with a picture of the pool over time.
    pub fn to_html(&self) -> String {
        page(self)
    }
}
