// SPDX-License-Identifier: MIT OR Apache-2.0

//! The files that a user names: reading them within limits, writing them whole, and finding those that a program would overwrite.

mod clash;
mod read;
mod write;

pub use clash::{Clash, Names};
pub use read::{read, read_part, read_text};
pub use write::{check_writable, write, Pending};
