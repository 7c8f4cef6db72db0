// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compiled networks on the model and in plain loops.

pub mod budget;
pub mod choice;
pub mod classes;
pub mod integers;
pub mod judge;
pub mod loss;
pub mod measure;
pub mod mixed;
