// SPDX-License-Identifier: MIT OR Apache-2.0

//! Plays hardware traces against the model, or a simulator of the RTL.
//!
//! A trace is a folder with a `trace.txt` (one command per line) and the binary files that it names: memory contents,
//! register writes, interrupts to wait for, and the expected memory contents. It writes registers directly, without a
//! driver. [`Trace`] reads a trace, and [`play`] runs it.

#[doc(hidden)]
pub mod arguments;
mod counters;
mod memory;
mod player;
mod trace;

pub use counters::check as check_counters;
pub use memory::TraceMemory;
pub use player::{play, play_like, play_observed, play_on, Failure, Played};
pub use trace::{find, Check, Command, ParseError, Region, Trace};
