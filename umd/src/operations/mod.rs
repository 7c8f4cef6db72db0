// SPDX-License-Identifier: MIT OR Apache-2.0

//! The operations of a loadable, with typed descriptors, read without running them.

mod accesses;
mod constants;
mod error;
mod list;
pub(crate) mod lists;
mod race;
pub mod races;
mod recognise;
mod repair;
mod timeline;

pub(crate) use constants::{constants, FileMemory};
pub use error::Error;
pub(crate) use list::surface_file;
pub use list::{operations, statistics, NetworkOperation, Statistics};
pub use recognise::{recognise, Recognised};
pub use repair::{repair, Pooling, Repaired};
