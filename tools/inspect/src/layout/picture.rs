// SPDX-License-Identifier: MIT OR Apache-2.0

//! A drawing of memory: rows of cells, and its form for a terminal.

use std::fmt::Write;

/// The content of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// One or more elements, in one of the colours that the drawing distinguishes.
    Colour(usize),
    /// Padding that belongs to the layout.
    Padding,
    /// A gap of a stride, or an empty block.
    Gap,
}

/// A block of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The text in it.
    pub text: String,
    /// Its content.
    pub fill: Fill,
}

impl Cell {
    /// A cell with contents.
    pub fn new(text: impl Into<String>, colour: usize) -> Self {
        Self { text: text.into(), fill: Fill::Colour(colour) }
    }

    /// A cell of padding.
    pub fn padding(text: impl Into<String>) -> Self {
        Self { text: text.into(), fill: Fill::Padding }
    }

    /// An empty cell.
    pub fn gap() -> Self {
        Self { text: String::new(), fill: Fill::Gap }
    }
}

/// Cells that are adjacent in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The meaning of the row and its address.
    pub label: String,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// Whether it is not adjacent to the row above.
    pub separated: bool,
}

impl Row {
    /// A row that is adjacent to the one above.
    pub fn new(label: impl Into<String>, cells: Vec<Cell>) -> Self {
        Self { label: label.into(), cells, separated: false }
    }

    /// The same row, not adjacent to the one above.
    #[must_use]
    pub fn separated(self) -> Self {
        Self { separated: true, ..self }
    }
}

/// A drawing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// The title.
    pub title: String,
    /// Sizes, strides, and the meaning of a cell.
    pub notes: Vec<String>,
    /// The memory, from the lowest address.
    pub rows: Vec<Row>,
}

/// The greatest number of cells per row and of rows that are drawn. Those between the first and the last ones are omitted.
const MAX_CELLS: usize = 66;
const MAX_ROWS: usize = 60;

/// Colours of the 256-colour palette, as light as the SVG's.
const ANSI: [u8; 12] = [153, 223, 157, 217, 189, 229, 159, 222, 194, 183, 152, 216];

impl Picture {
    /// The same drawing, with the middle of long rows and of many rows omitted.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        for row in &mut self.rows {
            let count = row.cells.len();
            if count > MAX_CELLS {
                let dots = Cell { text: format!("… {} …", count - MAX_CELLS + 1), fill: Fill::Gap };
                row.cells.splice(MAX_CELLS - 9..count - 8, [dots]);
            }
        }
        let count = self.rows.len();
        if count > MAX_ROWS {
            let left_out = Row::new(format!("… {} rows …", count - MAX_ROWS + 1), Vec::new()).separated();
            self.rows.splice(MAX_ROWS - 9..count - 8, [left_out]);
        }
        self
    }

    /// The drawing for a terminal, with colours, or with signs instead of colours.
    pub fn text(&self, colour: bool) -> String {
        let mut out = format!("{}\n", self.title);
        for note in &self.notes {
            let _ = writeln!(out, "  {note}");
        }
        let label = self.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0);
        let width = self.rows.iter().flat_map(|row| &row.cells).map(|cell| cell.text.chars().count()).max();
        let width = width.unwrap_or(0).max(1);
        for row in &self.rows {
            if row.separated {
                out.push('\n');
            }
            let _ = write!(out, "{:label$} ", row.label);
            for cell in &row.cells {
                let _ = match (&cell.fill, colour) {
                    (Fill::Colour(number), true) => {
                        write!(out, "\x1b[30;48;5;{}m{:^width$}\x1b[0m|", ANSI[number % ANSI.len()], cell.text)
                    }
                    (Fill::Padding, true) => write!(out, "\x1b[48;5;250;30m{:^width$}\x1b[0m|", cell.text),
                    (Fill::Padding, false) if cell.text.is_empty() => write!(out, "{}|", "0".repeat(width)),
                    (Fill::Gap, _) if cell.text.is_empty() => write!(out, "{}|", ".".repeat(width)),
                    _ => write!(out, "{:^width$}|", cell.text),
                };
            }
            out.push('\n');
        }
        out
    }
}
