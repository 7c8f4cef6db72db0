// SPDX-License-Identifier: MIT OR Apache-2.0

//! Shows the contents of a loadable as text ([`text`]) or JSON: tensors, tasks, operations in the order of their dependency
//! graph, the surfaces that they read and write, and the memories that hold them.
//!
//! A [`report::Report`] can be made of any loadable with valid lists. Descriptors that cannot be read are reported where they
//! occur, because a loadable that a driver refuses is worth inspecting.

#[doc(hidden)]
pub mod arguments;
pub mod check;
pub mod dump;
pub mod layout;
pub mod report;
pub mod text;
