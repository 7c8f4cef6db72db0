// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares what operations write with surfaces that were saved before, to find the first operation that differs.
//!
//! The files are those of `--dump` (see [`crate::session::dump_to`]). Operations are compared in the order in which they
//! complete. Differences after the first are mostly its consequences.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use nvdla_uapi::layout::Index;
use nvdla_uapi::reg::values::Precision;

use crate::files;
use crate::half;
use crate::loadable::names::Names;
use crate::loadable::{Loadable, MAX_MEMORY_SIZE};
use crate::operations::{self, NetworkOperation};
use crate::session::Completed;

/// Why surfaces cannot be compared, or do not match.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder holds no surfaces.
    #[error("{path} has no surface to compare with: no file op_t<task>_<operation>_<UNIT>.bin", path = path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// The folder cannot be read.
    #[error("cannot read {path}: {cause}", path = path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The loadable's operations cannot be read.
    #[error(transparent)]
    Network(Box<operations::Error>),
    /// Nothing was compared.
    #[error("none of the {files} surfaces in {path} belongs to an operation of this loadable", path = path.display())]
    Nothing {
        /// The folder.
        path: PathBuf,
        /// Surfaces in it.
        files: usize,
    },
    /// A surface differs.
    #[error("{differing} of {compared} surfaces differ; the first: {first}")]
    Differs {
        /// How many differ.
        differing: usize,
        /// How many were compared.
        compared: usize,
        /// The first.
        first: Box<Difference>,
    },
}

/// The first difference of a surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The name of the surface's file.
    pub file: String,
    /// The task's id.
    pub task: u16,
    /// Position in its operation list.
    pub operation: usize,
    /// The unit.
    pub unit: &'static str,
    /// The layers that it computes, where the loadable says.
    pub layer: Option<String>,
    /// What differs.
    pub what: What,
}

/// How a surface differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The file has another length.
    Length {
        /// Bytes of the file.
        expected: usize,
        /// Bytes of the surface.
        got: usize,
    },
    /// An element has another value.
    Value {
        /// Byte in the surface.
        offset: usize,
        /// The element; none if the byte is padding.
        position: Option<Index>,
        /// The value in the file.
        expected: String,
        /// The value that was computed.
        got: String,
        /// Bytes that differ in the whole surface.
        bytes: usize,
        /// Bytes of the surface.
        of: usize,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {} ({}) of task {}", self.operation, self.unit, self.task)?;
        if let Some(layer) = &self.layer {
            write!(f, ", layer {layer},")?;
        }
        match &self.what {
            What::Length { expected, got } => write!(f, ": expected {expected} bytes ({}), got {got}", self.file),
            What::Value { offset, position, expected, got, bytes, of } => {
                write!(f, " at byte {offset:#x}")?;
                if let Some(Index { c, h, w, .. }) = position {
                    write!(f, " (c {c}, y {h}, x {w})")?;
                }
                write!(f, ": expected {expected}, got {got} ({bytes} of {of} bytes differ)")
            }
        }
    }
}

/// Compares a run with a folder of surfaces.
#[derive(Debug)]
pub struct Comparison {
    folder: PathBuf,
    files: usize,
    operations: HashMap<(u16, usize), NetworkOperation>,
    names: Names,
    atom: u32,
    compared: usize,
    missing: usize,
    differing: usize,
    first: Option<Difference>,
}

impl Comparison {
    /// For a loadable on a device with atoms of `atom` bytes, which are needed only to name positions.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read or holds no surface, or the loadable's operations cannot be read.
    pub fn new(folder: &Path, loadable: &Loadable, atom: u32) -> Result<Self, Error> {
        let read = |cause| Error::Read { path: folder.to_owned(), cause };
        let mut files = 0;
        for entry in std::fs::read_dir(folder).map_err(read)? {
            let name = entry.map_err(read)?.file_name();
            let name = name.to_string_lossy();
            files += usize::from(name.starts_with("op_t") && name.ends_with(".bin"));
        }
        if files == 0 {
            return Err(Error::Empty { path: folder.to_owned() });
        }
        let operations = operations::operations(loadable)
            .map_err(|error| Error::Network(Box::new(error)))?
            .into_iter()
            .map(|operation| ((operation.task, operation.index), operation));
        Ok(Self {
            folder: folder.to_owned(),
            files,
            operations: operations.collect(),
            names: loadable.names().unwrap_or_default(),
            atom,
            compared: 0,
            missing: 0,
            differing: 0,
            first: None,
        })
    }

    /// Compares an operation's surface, if the folder has one.
    ///
    /// # Errors
    ///
    /// When the file is there and cannot be read.
    pub fn look_at(&mut self, completed: &Completed<'_>) -> io::Result<()> {
        let Some(got) = completed.surface else { return Ok(()) };
        let file = completed.file_name();
        let expected = match files::read(self.folder.join(&file), MAX_MEMORY_SIZE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.missing += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.compared += 1;
        if expected == got {
            return Ok(());
        }
        self.differing += 1;
        if self.first.is_none() {
            let what = self.what(completed, &expected, got);
            let &Completed { task, operation, unit, .. } = completed;
            let layer = self.names.layer(task, operation).map(ToString::to_string);
            self.first = Some(Difference { file, task, operation, unit: unit.name(), layer, what });
        }
        Ok(())
    }

    fn what(&self, completed: &Completed<'_>, expected: &[u8], got: &[u8]) -> What {
        let differs = |(_, (a, b)): &(usize, (&u8, &u8))| a != b;
        let mut differing = expected.iter().zip(got).enumerate().filter(differs).map(|(offset, _)| offset);
        let Some(first) = differing.next().filter(|_| expected.len() == got.len()) else {
            return What::Length { expected: expected.len(), got: got.len() };
        };
        let bytes = 1 + differing.count();
        let operation = self.operations.get(&(completed.task, completed.operation));
        let precision = operation.map_or(Precision::Int8, NetworkOperation::precision);
        let element = nvdla_uapi::layout::bytes(precision) as usize;
        let offset = first - first % element;
        let position = operation.and_then(|operation| operation.position(offset as u64, self.atom));
        let value = |bytes: &[u8]| match (precision, bytes.get(offset..offset + element)) {
            (Precision::Int8, Some(&[byte])) => format!("{}", byte as i8),
            (Precision::Int16, Some(&[low, high])) => format!("{}", i16::from_le_bytes([low, high])),
            (Precision::Fp16, Some(&[low, high])) => {
                let bits = u16::from_le_bytes([low, high]);
                format!("{} ({bits:#06x})", half::to_f32(half::f16::from_bits(bits)))
            }
            _ => format!("{:#04x}", bytes[first]),
        };
        What::Value { offset, position, expected: value(expected), got: value(got), bytes, of: got.len() }
    }

    /// How many surfaces were compared.
    pub fn compared(&self) -> usize {
        self.compared
    }

    /// How many surfaces were made for which the folder has no file.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// How many surfaces differ.
    pub fn differing(&self) -> usize {
        self.differing
    }

    /// The first difference.
    pub fn first(&self) -> Option<&Difference> {
        self.first.as_ref()
    }

    /// The result, after the run.
    ///
    /// # Errors
    ///
    /// When a surface differs, or none was compared.
    pub fn verdict(&self) -> Result<(), Error> {
        match &self.first {
            Some(first) => {
                let (differing, compared) = (self.differing, self.compared);
                Err(Error::Differs { differing, compared, first: Box::new(first.clone()) })
            }
            None if self.compared == 0 => Err(Error::Nothing { path: self.folder.clone(), files: self.files }),
            None => Ok(()),
        }
    }
}
