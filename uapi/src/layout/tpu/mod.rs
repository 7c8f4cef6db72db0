// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Tensors in a TPU's local memory: spread over NPUs by channel, with strides, in several layouts and storage modes.
//!
//! Local memory is [`Memory`]: X NPUs of S bytes each, one address space. A [`Local`] tensor starts at an address, in
//! NPU Q; its channel c lies in NPU (Q + c) mod X, in block row (Q + c) / X, so each NPU holds ceil((Q + C) / X)
//! channels at most. [`System`] tensors lie in one memory. A [`Matrix`] is a tensor whose columns are spread over
//! channels. A [`Packed`] tensor puts 4 or 2 neighbours of N into one 32- or 64-bit element.
//!
//! Offsets of [`Local`], [`Matrix`] and [`Packed`] are addresses of the whole local memory. Packing does not write
//! blocks that hold no element, because other data may use them.
//!
//! Source: "Address of Tensor in Local Memory" to "Storage Modes" of the TPU's programming manual.

mod local;
mod matrix;
mod memory;
mod packed;
mod system;

pub use local::{Local, Strides, Usage};
pub use matrix::Matrix;
pub use memory::Memory;
pub use packed::{Mode, Packed};
pub use system::System;
