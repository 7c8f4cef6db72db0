// SPDX-License-Identifier: MIT OR Apache-2.0

//! The network of steps.

pub mod access;
pub mod dump;
pub mod step;
pub mod verify;
