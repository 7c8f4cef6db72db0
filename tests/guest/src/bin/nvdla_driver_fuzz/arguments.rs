// SPDX-License-Identifier: MIT OR Apache-2.0

//! The options of the program, and items that its parts share.

use clap::Parser;

/// Random ioctls and descriptors against the kernel driver
#[derive(Clone, Debug, Parser)]
pub(crate) struct Arguments {
    /// The duration of the run
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
    /// The seed of the random numbers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The number of programs that run at the same time
    #[arg(long, default_value_t = 3)]
    pub(crate) programs: usize,
    /// The number of threads per program
    #[arg(long, default_value_t = 2)]
    pub(crate) threads: usize,
    /// Submit valid tasks of which a few fields are changed, one after another
    #[arg(long)]
    pub(crate) structured: bool,
    /// Run as one of the programs
    #[arg(long, hide = true)]
    pub(crate) worker: Option<usize>,
}

/// The number of ranges of the control window for each program's buffers.
pub(crate) const RANGES: usize = 16;

/// The result of a program; an error is a text.
pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;
