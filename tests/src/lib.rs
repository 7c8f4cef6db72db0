// SPDX-License-Identifier: MIT OR Apache-2.0

//! Items that tests across crates share: the reference data, its cases, tasks without a runtime, and the tree's sources.

pub mod build;
pub mod case;
pub mod checksums;
pub mod drive;
pub mod graphs;
pub mod hostile;
pub mod mock;
pub mod random;
pub mod reference;
pub mod resnet;
pub mod schema;
pub mod silicon;
pub mod sources;
pub mod tasks;
pub mod zoo;
