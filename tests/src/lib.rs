// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the tests that cross crates share: the reference data, its cases, and tasks without a runtime.

pub mod case;
pub mod reference;
pub mod tasks;
