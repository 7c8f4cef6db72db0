// SPDX-License-Identifier: MIT OR Apache-2.0

//! (see the crate description)

pub mod tasks;
