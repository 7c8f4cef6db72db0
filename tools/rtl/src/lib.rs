// SPDX-License-Identifier: MIT OR Apache-2.0

//! A simulator of NVDLA's RTL as a device.
//!
//! The simulator is a separate program. `cargo xtask rtl` builds one from a user's Verilog with Verilator; any other
//! program that implements the protocol of `docs/rtl.md` can replace it. [`Simulator::start`] runs it. Registers,
//! interrupts and memory are those of [`nvdla_model::simulation::Simulation`].

mod measure;
mod protocol;
mod simulator;

pub use protocol::VERSION;
pub use simulator::{Selection, SelectionError, Simulator, StartError, Timing};
