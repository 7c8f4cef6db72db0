// SPDX-License-Identifier: MIT OR Apache-2.0

//! Conversion to half precision as in NVIDIA's runtime: to nearest, ties away from zero ([`nvdla_emulator::half`]).

pub use nvdla_emulator::half::{f16, from_f32, to_f32};
