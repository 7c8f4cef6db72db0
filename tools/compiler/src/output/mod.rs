// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a compilation gives: the loadable, the report, and where tensors lie.

pub mod compiled;
pub mod html;
pub mod layout;
pub mod loadable;
pub mod report;
