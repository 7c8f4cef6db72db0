// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why the operations of a loadable cannot be read or ordered.

use nvdla_uapi::desc;

use super::race::Race;

/// Why the operations of a loadable cannot be read or ordered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A list of a task's descriptors is too short.
    #[error("task {task}: the {list} (address {position}) has {size} bytes where {needed} are needed")]
    ShortList {
        /// The task's id.
        task: u16,
        /// The list.
        list: &'static str,
        /// Its position in the address list.
        position: i64,
        /// Bytes that it has.
        size: u64,
        /// Bytes that it needs.
        needed: u64,
    },
    /// A descriptor of a task is invalid.
    #[error("task {task}, {list}, entry {entry}: {problem}")]
    Descriptor {
        /// The task's id.
        task: u16,
        /// The list.
        list: &'static str,
        /// The entry.
        entry: usize,
        /// What is wrong.
        problem: desc::Error,
    },
    /// A loadable with changed operations is not one that can be run.
    #[error(transparent)]
    Loadable(#[from] crate::loadable::Error),
    /// The races of operations cannot be removed.
    #[error(transparent)]
    Order(OrderError),
}

/// A task whose races cannot be removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The dependency graph has no free edge for this race.
    #[error("{0}: the dependency graph cannot hold an edge between them")]
    NoRoom(Box<Race>),
    /// The task is too large.
    #[error("task {task} has {operations} operations, and at most {limit} can be ordered")]
    TooLarge {
        /// The task's id.
        task: u16,
        /// Its operations.
        operations: usize,
        /// The limit.
        limit: usize,
    },
}
