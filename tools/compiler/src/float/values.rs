// SPDX-License-Identifier: MIT OR Apache-2.0

//! The values of a tensor.

/// A tensor's shape and values.
pub type Values<'a> = (&'a [usize], &'a [f32]);
