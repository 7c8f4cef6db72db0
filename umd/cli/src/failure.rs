// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of the programs, and their text.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

/// Any error, with its causes.
pub(crate) type Failure = Box<dyn Error>;

/// Something that went wrong with a file or an option.
#[derive(Debug)]
pub(crate) struct Problem {
    sentence: String,
    source: Option<io::Error>,
}

impl Problem {
    /// Whether the problem is with a file, and not with an option.
    pub(crate) fn is_file(&self) -> bool {
        self.source.is_some()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

pub(crate) fn problem(sentence: impl Into<String>) -> Failure {
    Box::new(Problem { sentence: sentence.into(), source: None })
}

/// "cannot read FILE", and the reason.
pub(crate) fn cannot(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let sentence = format!("cannot {verb} {}", path.display());
    move |source| Box::new(Problem { sentence, source: Some(source) })
}

/// An error that the JSON object of the results has too.
#[derive(Debug)]
pub(crate) struct Shown(pub(crate) Failure);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Shown {}

/// An error about a file, with the file's name in front.
#[derive(Debug)]
pub(crate) struct Context<E> {
    path: String,
    error: E,
}

impl<E> Context<E> {
    pub(crate) fn new(path: &Path, error: E) -> Self {
        Self { path: path.display().to_string(), error }
    }
}

impl<E> Context<E> {
    /// The error.
    pub(crate) fn error(&self) -> &E {
        &self.error
    }
}

impl<E: fmt::Display> fmt::Display for Context<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Some errors name the file themselves.
        let text = self.error.to_string();
        if text.contains(&self.path) {
            f.write_str(&text)
        } else {
            write!(f, "{}: {text}", self.path)
        }
    }
}

impl<E: Error> Error for Context<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
