// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a loadable holds, for a person ([`text`]) or for a program (JSON): tensors, tasks, operations in the order of
//! their dependency graph, the surfaces that they read and write, and the memories in which all that lies.
//!
//! A [`report::Report`] can be made of any loadable with valid lists. Descriptors are shown as far as they can be read.
//! Where they cannot, the report says so at that place, because a loadable that a driver refuses is worth inspecting.

pub mod check;
pub mod layout;
pub mod report;
pub mod text;
