// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the caller gives: functions, and the reasons why it ends a task.

use core::time::Duration;

/// The functions of single precision that the operations need and `core` lacks.
pub trait Functions {
    /// e^x.
    fn exp(x: f32) -> f32;
    /// x^exponent.
    fn powf(x: f32, exponent: f32) -> f32;
}

/// Why the caller ends a task early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The time limit was reached.
    Late {
        /// The limit.
        limit: Duration,
    },
    /// The run was cancelled.
    Cancelled,
}

/// The functions of the standard library.
#[cfg(any(test, feature = "std"))]
#[derive(Clone, Copy, Debug)]
pub struct Std;

#[cfg(any(test, feature = "std"))]
impl Functions for Std {
    fn exp(x: f32) -> f32 {
        x.exp()
    }

    fn powf(x: f32, exponent: f32) -> f32 {
        x.powf(exponent)
    }
}
