// SPDX-License-Identifier: MIT OR Apache-2.0

//! The errors of a malformed loadable, with the list, the entry, the field and the values.

use std::{fmt, io, path::PathBuf};

use flatbuffers::{ErrorTraceDetail, InvalidFlatbuffer};
use thiserror::Error;

use super::schema::{self, Version};

/// Why a loadable could not be opened.
#[derive(Debug, Error)]
pub enum Error {
    /// The file could not be opened or read.
    #[error("cannot open the loadable {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The bytes are not a loadable at all.
    #[error("not a loadable: {reason}")]
    NotALoadable {
        /// Why not.
        reason: String,
    },
    /// The version is another one.
    #[error("the loadable has format version {found}; this runtime reads {}.{}", schema::VERSION.major(), schema::VERSION.minor())]
    Version {
        /// What the file says.
        found: Version,
    },
    /// An entry of a list is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// An entry of a loadable that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{location}: {problem}")]
pub struct Malformed {
    /// The location.
    pub location: Location,
    /// The problem.
    pub problem: Box<Problem>,
}

/// A location in a loadable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The list, by its name in the schema.
    pub list: String,
    /// Position of the entry in that list; none for the list itself.
    pub entry: Option<usize>,
    /// The field, by its name in the schema.
    pub field: Option<String>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.list)?;
        if let Some(entry) = self.entry {
            write!(f, ", entry {entry}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ", {field}")?;
        }
        Ok(())
    }
}

/// What is wrong at a [`Location`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The structure of the file is invalid there.
    #[error("{0}")]
    Structure(String),
    /// The list has more entries than ids.
    #[error("the list has {count} entries, more than ids of 16 bits can name")]
    TooMany {
        /// Entries.
        count: usize,
    },
    /// Two entries have the same id.
    #[error("id {id} is also that of entry {other}")]
    DuplicateId {
        /// The id.
        id: u16,
        /// The other entry.
        other: usize,
    },
    /// An id that another list does not have.
    #[error("{list} has no id {id}")]
    UnknownId {
        /// The other list.
        list: &'static str,
        /// The id.
        id: u16,
    },
    /// A value that is not one of the schema's.
    #[error("{value} is not a value that this field can have")]
    UnknownValue {
        /// The value.
        value: u32,
    },
    /// A size of zero.
    #[error("the size is 0")]
    ZeroSize,
    /// A size larger than a device can address.
    #[error("{size} bytes are more than a memory may have ({limit})")]
    TooLarge {
        /// Bytes.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// An alignment that is not a power of two, or is too large.
    #[error("{value} is not a valid alignment (a power of two, at most {limit})")]
    Alignment {
        /// Bytes.
        value: u32,
        /// The limit.
        limit: u32,
    },
    /// An entry does not lie inside another one.
    #[error("{what} ends at {end:#x}, {container} has {size:#x} bytes")]
    Outside {
        /// What ends outside.
        what: String,
        /// Where it ends.
        end: u64,
        /// What it must lie in.
        container: String,
        /// The size of the container.
        size: u64,
    },
    /// A blob that does not exist.
    #[error("there is no blob {name:?}")]
    UnknownBlob {
        /// The name.
        name: String,
    },
    /// Two blobs have one name.
    #[error("the name {name:?} is also that of entry {other}")]
    DuplicateName {
        /// The name.
        name: String,
        /// The other entry.
        other: usize,
    },
    /// The blobs of all memories together have far more bytes than the file, because memories use the same blobs repeatedly.
    #[error("the memories up to this one are filled with {bytes} bytes, but the file has only {file}")]
    TooMuchContent {
        /// The sum of the sizes of all blobs, counted per use.
        bytes: u64,
        /// Bytes of the file.
        file: usize,
    },
    /// A bound tensor's shape and strides do not fit into its bytes.
    #[error("{what} needs {needed} bytes, the tensor has {size}{}", if *.n > 1 { format!(" for each of its {n}") } else { String::new() })]
    Shape {
        /// The shape, and the strides if they matter.
        what: String,
        /// Bytes that an image of the batch needs.
        needed: u128,
        /// Bytes that the tensor has.
        size: u64,
        /// Images of the batch.
        n: i32,
    },
    /// Two lists that belong together differ in length.
    #[error("{count} entries, but {other} has {other_count}")]
    CountMismatch {
        /// Entries here.
        count: usize,
        /// The other field.
        other: &'static str,
        /// Entries there.
        other_count: usize,
    },
    /// The size of a blob is not that of its data.
    #[error("the size is {stated}, but the data has {actual} bytes")]
    SizeMismatch {
        /// What the field says.
        stated: u64,
        /// What the data has.
        actual: u64,
    },
    /// A memory is input and output at once.
    #[error("the memory is both an input and an output")]
    InputAndOutput,
    /// Two memories are bound as the same input or output.
    #[error("{direction} {bind_id} is also that of entry {other}")]
    DuplicateBinding {
        /// "input" or "output".
        direction: &'static str,
        /// The bind id.
        bind_id: u16,
        /// The other entry.
        other: usize,
    },
    /// Inputs or outputs are not numbered from 0 without gaps.
    #[error("{direction} {bind_id} is out of range: there are {count}")]
    BindingGap {
        /// "input" or "output".
        direction: &'static str,
        /// The bind id.
        bind_id: u16,
        /// How many there are.
        count: usize,
    },
    /// A dimension that is not positive.
    #[error("the dimension is {value}")]
    Dimension {
        /// The value.
        value: i32,
    },
    /// A task's address list is longer than a device takes.
    #[error("{count} addresses, more than the {limit} that a task may have")]
    TooManyAddresses {
        /// Addresses.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A task waits for an event that no earlier task signals.
    #[error("task {task} waits until event target {target} has the value {value}, but no earlier task sets it")]
    NeverSignalled {
        /// The task's id.
        task: u16,
        /// The event's target.
        target: u16,
        /// The value.
        value: u32,
    },
}

/// Converts an error of the FlatBuffers verifier to list, entry and field.
pub(super) fn structure(error: &InvalidFlatbuffer) -> Malformed {
    use InvalidFlatbuffer as I;
    let (what, trace) = match error {
        I::MissingRequiredField { required, error_trace } => (format!("{required} is missing"), Some(error_trace)),
        I::InconsistentUnion { error_trace, .. } => ("an inconsistent union".into(), Some(error_trace)),
        I::Utf8Error { error, range, error_trace } => {
            (format!("the text at {:#x} is not UTF-8: {error}", range.start), Some(error_trace))
        }
        I::MissingNullTerminator { range, error_trace } => {
            (format!("the text at {:#x} to {:#x} has no terminating zero", range.start, range.end), Some(error_trace))
        }
        I::Unaligned { position, unaligned_type, error_trace } => {
            (format!("the {unaligned_type} at {position:#x} is not aligned"), Some(error_trace))
        }
        I::RangeOutOfBounds { range, error_trace } => {
            (format!("the bytes {:#x} to {:#x} are outside the file", range.start, range.end), Some(error_trace))
        }
        I::SignedOffsetOutOfBounds { soffset, position, error_trace } => (
            format!("the table at {position:#x} has its vtable {soffset} bytes before it, outside the file"),
            Some(error_trace),
        ),
        I::TooManyTables => ("the file has too many tables".into(), None),
        I::ApparentSizeTooLarge => ("the file's tables share too many bytes".into(), None),
        I::DepthLimitReached => ("tables are nested too deeply".into(), None),
    };
    // The innermost location is first.
    let mut location = Location { list: "loadable".into(), entry: None, field: None };
    let mut depth = 0;
    for detail in trace.map(AsRef::as_ref).unwrap_or_default().iter().rev() {
        match detail {
            ErrorTraceDetail::TableField { field_name, .. } => {
                match depth {
                    0 => location.list = field_name.to_string(),
                    _ => location.field = Some(field_name.to_string()),
                }
                depth += 1;
            }
            ErrorTraceDetail::VectorElement { index, .. } => match &mut location.field {
                None => location.entry = Some(*index),
                Some(field) => *field = format!("{field}[{index}]"),
            },
            ErrorTraceDetail::UnionVariant { .. } => {}
        }
    }
    Malformed { location, problem: Box::new(Problem::Structure(what)) }
}
