// SPDX-License-Identifier: MIT OR Apache-2.0

//! Draws a picture as SVG: plain shapes and text, readable on light and dark pages.

use super::picture::{Fill, Picture};
use std::fmt;

/// The SVG of a drawing.
pub(super) struct Svg<'a>(pub(super) &'a Picture);

const COLOURS: [&str; 12] = [
    "#a6cee3", "#fdd0a2", "#b2df8a", "#fbb4ae", "#cab2d6", "#fff2ae", "#b3e2e8", "#f1c27d", "#d9f0a3", "#dab6e8",
    "#9fd8cb", "#f7b799",
];
const HEIGHT: usize = 22;
const LETTER: usize = 6;
const MARGIN: usize = 12;

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl fmt::Display for Svg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let picture = self.0;
        let letters = |text: &str| text.chars().count() * LETTER;
        let label = picture.rows.iter().map(|row| letters(&row.label)).max().unwrap_or(0) + 10;
        let cell_text = |cell: &super::picture::Cell| letters(&cell.text) + 6;
        let widest = picture.rows.iter().flat_map(|row| &row.cells).map(cell_text).max().unwrap_or(0).max(14);
        let columns = picture.rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
        let head = 30 + picture.notes.len() * 16;
        let notes = picture.notes.iter().map(|note| letters(note)).max().unwrap_or(0) + letters(&picture.title) / 8;
        let width =
            (MARGIN * 2 + label + columns * widest).max(notes + 2 * MARGIN).max(letters(&picture.title) * 3 / 2);
        let apart = picture.rows.iter().filter(|row| row.separated).count() * 8;
        let height = MARGIN * 2 + head + picture.rows.len() * (HEIGHT + 2) + apart;
        writeln!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"10\">"
        )?;
        writeln!(f, "<title>{}</title>", escape(&picture.title))?;
        writeln!(
            f,
            "<defs><pattern id=\"gap\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
             <path d=\"M0 6L6 0\" stroke=\"#999\" stroke-width=\"0.7\"/></pattern></defs>"
        )?;
        writeln!(f, "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>")?;
        let mut y = MARGIN + 12;
        writeln!(
            f,
            "<text x=\"{MARGIN}\" y=\"{y}\" font-size=\"14\" font-weight=\"bold\">{}</text>",
            escape(&picture.title)
        )?;
        for note in &picture.notes {
            y += 16;
            writeln!(f, "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"#444\">{}</text>", escape(note))?;
        }
        y = MARGIN + head;
        for row in &picture.rows {
            if row.separated {
                y += 8;
            }
            let middle = y + HEIGHT / 2 + 4;
            writeln!(f, "<text x=\"{MARGIN}\" y=\"{middle}\">{}</text>", escape(&row.label))?;
            for (index, cell) in row.cells.iter().enumerate() {
                let x = MARGIN + label + index * widest;
                let fill = match cell.fill {
                    Fill::Colour(number) => COLOURS[number % COLOURS.len()],
                    Fill::Padding => "#e0e0e0",
                    Fill::Gap => "url(#gap)",
                };
                writeln!(
                    f,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{widest}\" height=\"{HEIGHT}\" fill=\"{fill}\" \
                     stroke=\"#666\" stroke-width=\"0.6\"/>"
                )?;
                if !cell.text.is_empty() {
                    let centre = x + widest / 2;
                    let text = escape(&cell.text);
                    writeln!(f, "<text x=\"{centre}\" y=\"{middle}\" text-anchor=\"middle\">{text}</text>")?;
                }
            }
            y += HEIGHT + 2;
        }
        writeln!(f, "</svg>")
    }
}
