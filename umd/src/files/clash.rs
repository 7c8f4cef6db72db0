// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files that one run of a program would both read and write, or write twice.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Two names of one file, of which at least one is written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{first} and {second} are one file, {path:?}; give one of them another name")]
pub struct Clash {
    /// What the first name is for.
    pub first: String,
    /// What the second name is for.
    pub second: String,
    /// The second name.
    pub path: PathBuf,
}

/// What makes two names the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// Device and inode of a file that exists.
    Existing(u64, u64),
    /// The path of a file that does not exist, without links.
    New(PathBuf),
    /// The standard input or output.
    Standard,
}

impl Identity {
    /// None for devices and pipes, which may be named any number of times, and for paths that cannot be looked up.
    fn of(path: &Path) -> Option<Self> {
        if path == Path::new("-") {
            return Some(Self::Standard);
        }
        match fs::metadata(path) {
            Ok(found) if found.is_file() => Some(Self::Existing(found.dev(), found.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Some(Self::New(resolved(path))),
            Ok(_) | Err(_) => None,
        }
    }
}

/// The path with the links of its existing part resolved.
fn resolved(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut rest: Vec<OsString> = Vec::new();
    let mut existing = whole.as_path();
    loop {
        if let Ok(mut found) = existing.canonicalize() {
            found.extend(rest.iter().rev());
            return found;
        }
        match (existing.parent(), existing.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name.to_owned());
                existing = parent;
            }
            _ => return whole,
        }
    }
}

/// The files that a run of a program reads and writes.
///
/// ```
/// let mut names = nvdla_runtime::files::Names::default();
/// names.reads("the model", "model.onnx")?;
/// assert!(names.writes("--output", "./model.onnx").is_err());
/// # Ok::<(), nvdla_runtime::files::Clash>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Names(Vec<(Identity, String, bool)>);

impl Names {
    /// Adds a file that is read. The standard input (`-`) can be read once.
    ///
    /// # Errors
    ///
    /// When the file is also written.
    pub fn reads(&mut self, what: impl Into<String>, path: impl AsRef<Path>) -> Result<(), Clash> {
        self.add(what.into(), path.as_ref(), false)
    }

    /// Adds a file that is written. The standard output (`-`) can be written once.
    ///
    /// # Errors
    ///
    /// When the file is also read, or is written already.
    pub fn writes(&mut self, what: impl Into<String>, path: impl AsRef<Path>) -> Result<(), Clash> {
        self.add(what.into(), path.as_ref(), true)
    }

    fn add(&mut self, what: String, path: &Path, written: bool) -> Result<(), Clash> {
        let Some(identity) = Identity::of(path) else { return Ok(()) };
        let standard = identity == Identity::Standard;
        // The standard input and output are two files.
        let clashes = |other: bool| if standard { other == written } else { other || written };
        let first = self.0.iter().find(|(known, _, other)| *known == identity && clashes(*other));
        if let Some((_, first, _)) = first {
            return Err(Clash { first: first.clone(), second: what, path: path.to_owned() });
        }
        self.0.push((identity, what, written));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_many_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("model"), b"model").unwrap();
        fs::hard_link(at("model"), at("hard")).unwrap();
        std::os::unix::fs::symlink("model", at("soft")).unwrap();
        std::os::unix::fs::symlink(folder.path(), at("folder")).unwrap();
        let mut names = Names::default();
        names.reads("the model", at("model")).unwrap();
        names.reads("the input", at("model")).unwrap();
        for name in ["model", "hard", "soft", "folder/model", "folder/../model"] {
            let path = if name.ends_with("../model") { at("./model") } else { at(name) };
            let clash = names.writes("--output", &path).unwrap_err();
            assert_eq!((clash.first.as_str(), clash.second.as_str()), ("the model", "--output"), "{name}");
        }
        names.writes("--output", at("new/net")).unwrap();
        assert!(names.clone().writes("--report", at("folder/new/./net")).is_err());
        assert!(names.clone().reads("--table", at("new/net")).is_err());
        names.writes("--report", at("new/other")).unwrap();
    }

    #[test]
    fn devices_are_no_clash_and_the_standard_streams_are_used_once() {
        let mut names = Names::default();
        for _ in 0..2 {
            names.writes("--output", "/dev/null").unwrap();
        }
        names.reads("--input", "-").unwrap();
        names.writes("--output", "-").unwrap();
        assert!(names.clone().reads("--labels", "-").is_err());
        assert!(names.writes("--output", "-").is_err());
    }
}
