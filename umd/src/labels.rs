// SPDX-License-Identifier: MIT OR Apache-2.0

//! The names of classes, and the selection of the best classes.

use std::path::{Path, PathBuf};

use crate::files;

/// The greatest size of a file of labels in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The names of a network's classes: one per line, class 0 first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    names: Vec<String>,
}

/// A file of labels that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the labels {path}: {cause}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The file has fewer labels than the output has classes.
    #[error("{path} has {labels} labels, and the output {output:?} has {classes} classes", path = path.display())]
    TooFew {
        /// The file.
        path: PathBuf,
        /// Its lines.
        labels: usize,
        /// The output's name.
        output: String,
        /// Its classes.
        classes: usize,
    },
}

impl Labels {
    /// Reads a text file with one label per line. Bytes that are no UTF-8 are replaced.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let bytes = files::read(path, MAX_BYTES).map_err(|cause| Error::Read { path: path.to_owned(), cause })?;
        Ok(Self::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// Splits a text into lines. Empty lines at the end do not count.
    pub fn parse(text: &str) -> Self {
        // Some programs write a mark of the encoding first.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { names: text.trim_end().lines().map(|line| line.trim().to_owned()).collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name of a class.
    pub fn get(&self, class: usize) -> Option<&str> {
        self.names.get(class).map(String::as_str)
    }
}

/// The positions of the `count` greatest values, greatest first. Equal values are in the order of their positions; NaN is last.
///
/// ```
/// use nvdla_runtime::labels::best;
/// assert_eq!(best(&[0.1, 0.7, f32::NAN, 0.7, 0.2], 3), [1, 3, 4]);
/// ```
pub fn best(values: &[f32], count: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..values.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (values[a], values[b]);
        a.is_nan().cmp(&b.is_nan()).then(b.partial_cmp(&a).unwrap_or(std::cmp::Ordering::Equal))
    });
    order.truncate(count);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_label_per_line() {
        let labels = Labels::parse("zero\n one \r\n\nthree\n\n\n");
        assert_eq!(labels.len(), 4);
        assert_eq!(labels.get(1), Some("one"));
        assert_eq!(labels.get(2), Some(""));
        assert_eq!(labels.get(4), None);
        assert!(Labels::parse("").is_empty());
    }

    #[test]
    fn order_of_the_best() {
        assert_eq!(best(&[], 5), [0; 0]);
        assert_eq!(best(&[f32::NAN, f32::NEG_INFINITY, 1.0], 9), [2, 1, 0]);
        assert_eq!(best(&[3.0, 3.0, 3.0], 2), [0, 1]);
    }
}
