// SPDX-License-Identifier: MIT OR Apache-2.0

//! The network of steps.

pub mod access;
pub mod dump;
#[cfg(test)]
pub(crate) mod example;
pub mod step;
pub mod verify;
