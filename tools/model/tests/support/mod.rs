// SPDX-License-Identifier: MIT OR Apache-2.0

//! Items that tests inside and outside of the crate share. They name the crate `nvdla_model`, as other crates do.

pub(crate) mod bytes;
pub(crate) mod program;
pub(crate) mod sdp_copy;
