// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program of operations: its cost, its order, its memory, and what is computed in bands.

pub mod check;
pub mod cost;
pub mod fly;
pub mod memory;
pub mod order;
pub mod pictures;
pub mod pool;
pub mod prefetch;
pub mod program;
pub mod sram;
pub mod stripes;
