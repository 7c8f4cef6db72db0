// SPDX-License-Identifier: MIT OR Apache-2.0

//! Functions of single precision in software.

use nvdla_emulator::Functions;

/// Those of the crate libm.
pub(crate) struct Libm;

impl Functions for Libm {
    fn exp(x: f32) -> f32 {
        libm::expf(x)
    }

    fn powf(x: f32, exponent: f32) -> f32 {
        libm::powf(x, exponent)
    }
}
