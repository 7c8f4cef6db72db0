// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs NVDLA loadables: on the hardware through its kernel driver, or on the built-in model.
//!
//! A [`loadable::Loadable`] is a compiled network.

pub mod compare;
pub mod device;
pub mod dimg;
pub mod emulator;
pub mod half;
pub mod image;
pub mod labels;
pub mod loadable;
pub mod network;
pub mod profile;
pub mod session;
