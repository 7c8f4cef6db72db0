// SPDX-License-Identifier: MIT OR Apache-2.0

//! Items that tests inside and outside of the crate share. They name the crate `nvdla_model`, as other crates do.

pub(crate) mod bytes;
pub(crate) mod program;
// The module of another crate, in which its items are public.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../../tests/src/random.rs"]
pub(crate) mod random;
pub(crate) mod sdp_copy;
