// SPDX-License-Identifier: MIT OR Apache-2.0

//! A drawing of memory: rows of cells, and its form for a terminal.

use std::fmt::Write;

/// The content of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// An element (or several). The colour shows what the drawing distinguishes.
    Colour(usize),
    /// Padding that belongs to the layout.
    Padding,
    /// A gap that a stride leaves, or a block that holds nothing.
    Gap,
}

/// A block of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What is written in it.
    pub text: String,
    /// Its content.
    pub fill: Fill,
}

impl Cell {
    /// A cell that holds something.
    pub fn new(text: impl Into<String>, colour: usize) -> Self {
        Self { text: text.into(), fill: Fill::Colour(colour) }
    }

    /// A cell of padding.
    pub fn padding(text: impl Into<String>) -> Self {
        Self { text: text.into(), fill: Fill::Padding }
    }

    /// A cell that holds nothing.
    pub fn gap() -> Self {
        Self { text: String::new(), fill: Fill::Gap }
    }
}

/// Cells that lie one behind another in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What the row is, and where it begins.
    pub label: String,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// Whether something separates it from the row above.
    pub separated: bool,
}

impl Row {
    /// A row that follows the one above.
    pub fn new(label: impl Into<String>, cells: Vec<Cell>) -> Self {
        Self { label: label.into(), cells, separated: false }
    }

    /// The same row, with a gap to the row above.
    #[must_use]
    pub fn apart(self) -> Self {
        Self { separated: true, ..self }
    }
}

/// A drawing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// What is drawn.
    pub title: String,
    /// Sizes, strides, and what a cell is.
    pub notes: Vec<String>,
    /// Memory, from the lowest address.
    pub rows: Vec<Row>,
}

/// The most cells per row and the most rows that are drawn. Those between the first and the last ones are left out.
const MAX_CELLS: usize = 66;
const MAX_ROWS: usize = 60;

/// Colours of the 256-colour palette, as light as the SVG's.
const ANSI: [u8; 12] = [153, 223, 157, 217, 189, 229, 159, 222, 194, 183, 152, 216];

impl Picture {
    /// The same drawing with long rows and many rows cut in their middle.
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
            let left_out = Row::new(format!("… {} rows …", count - MAX_ROWS + 1), Vec::new()).apart();
            self.rows.splice(MAX_ROWS - 9..count - 8, [left_out]);
        }
        self
    }

    /// The drawing for a terminal, with colours or with signs in their place.
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
