// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a loadable holds, for a person ([`text`]) or for a program (JSON): tensors, tasks, operations in the order of
//! their dependency graph, the surfaces that they read and write, and the memories in which all that lies.
//!
//! A [`report::Report`] is made of any loadable whose lists are sound. Descriptors are shown as far as they can be read;
//! what cannot be is said where it stands, because a loadable that a driver refuses is what one wants to look into.

pub mod check;
pub mod layout;
pub mod report;
pub mod text;
