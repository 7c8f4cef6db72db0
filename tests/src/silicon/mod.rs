// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs tasks that the engine accepts on a simulator of the RTL, beside the model.
//!
//! A task is a random network with shapes near the limits of the hardware ([`graphs`]), or such a task with changed fields
//! ([`crate::hostile`]). An accepted task must end on the RTL before a deadline in cycles, give the model's bytes, access no memory
//! outside its operations' footprints, and no assertion of the Verilog may fail.

pub mod estimates;
pub mod graphs;
pub mod order;
pub mod poolings;
pub mod rtl;
pub mod run;

pub use rtl::{Rtl, Trouble};
pub use run::{Plan, Tally};
