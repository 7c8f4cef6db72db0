// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of the model that need only its public interface, one module per source file.

mod cfgrom;
mod conv_convert;
mod conv_pixel;
mod conv_winograd;
mod glb;
mod lut_cdp;
mod lut_sdp;
mod lut_tables;
mod num_convert;
mod num_fixed;
mod num_float;
