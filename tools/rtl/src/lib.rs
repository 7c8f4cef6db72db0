// SPDX-License-Identifier: MIT OR Apache-2.0

//! A simulator of NVDLA's RTL as a device.
//!
//! The simulator is a program of its own: `cargo xtask rtl` builds one of a user's Verilog with Verilator, and any other
//! that speaks the protocol of `docs/rtl.md` will do. [`Simulator::start`] runs it; registers, interrupts and memory are
//! those of [`nvdla_model::simulation::Simulation`].

mod measure;
mod protocol;
mod simulator;

pub use protocol::VERSION;
pub use simulator::{Selection, SelectionError, Simulator, StartError};
