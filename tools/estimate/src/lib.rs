// SPDX-License-Identifier: MIT OR Apache-2.0

//! Estimates how long NVDLA takes for an operation, by formulas from the configuration's parameters, without running it.
//!
//! One function per unit takes the shape of an operation, the hardware's `Config` and its [`Memory`], and returns an
//! [`Estimate`]: the cycles, and what limits them. [`pipeline`] is for operations that are connected on the fly and run together
//! (a convolution, its SDP, a PDP after it). A shape is a small structure that a compiler can fill without a descriptor;
//! `from_descriptors` makes one from a loadable's descriptors.
//!
//! The functions allocate nothing and take well below a microsecond, so that a compiler can call them for every choice.
//!
//! ```
//! use nvdla_estimate::{convolution, ConvShape, Cube, Memory};
//! use nvdla_uapi::config::NV_SMALL;
//!
//! // 16 channels of 32 x 32 through 32 kernels of 3 x 3, on nv_small with 8 bytes per cycle and 50 cycles of latency.
//! let shape = ConvShape::direct(Cube::int8(16, 32, 32), 32, (3, 3), Cube::int8(32, 30, 30));
//! let estimate = convolution(&shape, &NV_SMALL, &Memory::new(&NV_SMALL, 50, 8.0));
//! assert!(estimate.cycles >= 2 * 4 * 9 * 30 * 30);
//! ```

mod bdma;
mod cdp;
mod conditions;
mod conv;
mod estimate;
mod measured;
mod memory;
mod pdp;
mod pipeline;
mod registers;
mod rubik;
mod schedule;
mod sdp;

pub use bdma::{bdma, BdmaShape};
pub use cdp::{cdp, CdpShape};
pub use conditions::Conditions;
pub use conv::{ConvShape, Image};
pub use estimate::{Estimate, Limit};
pub use measured::Measured;
pub use memory::{Bytes, Cube, Interface, Memory};
pub use pdp::{pdp, PdpShape};
pub use pipeline::{convolution, pipeline, Shape};
pub use registers::Registers;
pub use rubik::{rubik, RubikShape};
pub use schedule::{schedule, Host, Slot, Step, Writes};
pub use sdp::{sdp, SdpOperand, SdpShape};
