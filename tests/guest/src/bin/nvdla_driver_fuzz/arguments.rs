// SPDX-License-Identifier: MIT OR Apache-2.0

//! The options of the program, and what its parts share.

use clap::Parser;

/// Random ioctls and descriptors against the kernel driver
#[derive(Clone, Debug, Parser)]
pub(crate) struct Arguments {
    /// How long
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Programs at once
    #[arg(long, default_value_t = 3)]
    pub(crate) programs: usize,
    /// Threads of each
    #[arg(long, default_value_t = 2)]
    pub(crate) threads: usize,
    /// Submit valid tasks of which a few fields were changed, one after another
    #[arg(long)]
    pub(crate) structured: bool,
    /// Be one of the programs
    #[arg(long, hide = true)]
    pub(crate) worker: Option<usize>,
}

/// Ranges of the control window that each program has for its buffers.
pub(crate) const RANGES: usize = 16;

/// The result of a program; an error is a sentence.
pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;
