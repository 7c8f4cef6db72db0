// SPDX-License-Identifier: MIT OR Apache-2.0

//! Passes over the network of steps.

pub(crate) mod apart;
pub(crate) mod batch;
pub mod crop;
pub mod fuse;
pub mod inputs;
pub mod masks;
pub mod place;
pub(crate) mod roots;
pub mod scales;
pub(crate) mod separable;
pub(crate) mod shares;
pub(crate) mod siblings;
pub mod strided;
pub mod widen;
