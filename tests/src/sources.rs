// SPDX-License-Identifier: MIT OR Apache-2.0

//! Splits Rust sources into words, for the tests that read the tree's own sources.

use std::fs;
use std::path::{Path, PathBuf};

/// A word of code (a name, a number or a sign), and its line.
#[derive(Clone, Copy, Debug)]
pub struct Word<'t> {
    /// The word.
    pub text: &'t str,
    /// Its line, from 1.
    pub line: usize,
}

/// The words of a source, without comments and strings, up to its tests.
///
/// # Panics
///
/// The source ends within a comment, a string or an attribute.
pub fn words(source: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let (mut rest, mut line) = (source, 1);
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(first) = rest.chars().next() {
        let length = if first == '\n' {
            line += 1;
            1
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("#[cfg(test)]\nmod ")
            && !rest["#[cfg(test)]\nmod ".len()..].lines().next().unwrap().ends_with(';')
        {
            break;
        } else if first == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let length = end.map_or(rest.len(), |end| end + 2);
            line += rest[..length].matches('\n').count();
            length
        } else if is_name(first) {
            let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            words.push(Word { text: &rest[..length], line });
            length
        } else if first == '\'' && rest[1..].starts_with('\\') {
            rest[3..].find('\'').map_or(rest.len(), |end| end + 4)
        } else if first == '\'' && rest.chars().nth(2) == Some('\'') {
            rest.char_indices().nth(3).map_or(rest.len(), |(at, _)| at)
        } else {
            let length = if ["->", "=>", "::", "..", "&&", "||"].iter().any(|sign| rest.starts_with(sign)) {
                2
            } else {
                first.len_utf8()
            };
            if !first.is_whitespace() {
                words.push(Word { text: &rest[..length], line });
            }
            length
        };
        rest = &rest[length..];
    }
    words
}

/// Whether a word is a name or a number.
pub fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// The Rust sources under a folder, without tests.
///
/// # Panics
///
/// The folder cannot be read.
pub fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "tests" && name != "target" {
                sources(&path, into);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            into.push(path);
        }
    }
}
