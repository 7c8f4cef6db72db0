// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tasks as an attacker would make them: valid tasks with a few fields changed to values that are likely to be wrong, and the
//! conditions that each of them must satisfy.
//!
//! A [`Base`] is a valid task. [`mutate`](mutate::mutate) changes it by [`Choices`], which come from a seed or from a fuzzer's
//! bytes. [`Bench::check`] then submits it to the engine, with the model as its device, and reports a [`Violation`] if
//!
//! - the engine or the model panics;
//! - an operation of an accepted task reads or writes outside the task's buffers;
//! - an operation accesses bytes outside the footprint that the engine computes from its registers;
//! - an accepted task does not end, or stops.

pub mod base;
pub mod bench;
pub mod choices;
pub mod file;
pub mod footprint;
pub mod mutate;
pub(crate) mod network;
pub mod run;
pub mod steps;

pub use base::Base;
pub use bench::{Bench, Outcome, Violation};
pub use choices::{ByteChoices, Choices, Seeded};
