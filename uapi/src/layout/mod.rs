// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Where each element of a tensor lies in memory: NVDLA's feature cubes, pixel images, weights and operands.
//!
//! This is the project's one source of truth for addresses. Every layout is a small value with
//!
//! - constructors that check the document's rules and name the broken rule ([`Error`]),
//! - [`Layout::offset`], the byte offset of an element, its inverse [`Layout::at`], and [`Layout::size`],
//! - [`Layout::elements`], all elements in memory order,
//! - [`Layout::pack`] and [`Layout::unpack`], between the layout and a plain NCHW or NHWC slice.
//!
//! Source: "In-memory data formats" of the hardware's documentation; each module names its section. Values in memory
//! are little-endian. Offsets count from the surface's address; they are `u64` and never overflow for an element
//! inside the extents, because constructors refuse a layout whose [`Layout::size`] does not fit.
//!
//! ```
//! use nvdla_uapi::layout::{feature::Cube, Extents, Layout, Order};
//! use nvdla_uapi::reg::values::Precision;
//!
//! // A 3 x 2 feature cube of 20 channels on nv_small (8-byte atoms): three surfaces.
//! let cube = Cube::packed(Extents::new(1, 20, 2, 3), Precision::Int8, 8)?;
//! assert_eq!(cube.surfaces(), 3);
//! assert_eq!(cube.offset(0, 9, 1, 2), 1 * 48 + 1 * 24 + 2 * 8 + 1);
//! assert_eq!(cube.size(), 3 * 2 * 3 * 8);
//!
//! let plain = [7i8; 20 * 2 * 3];
//! let mut memory = [0u8; 144];
//! cube.pack(Order::Nchw, &plain, &mut memory)?;
//! # Ok::<(), nvdla_uapi::layout::Error>(())
//! ```

pub mod align;
pub mod buffer;
#[cfg(feature = "bulk")]
pub mod bulk;
mod choice;
mod contract;
mod element;
mod error;
mod extents;
pub mod feature;
pub mod half;
mod nest;
pub mod operand;
pub mod pixel;
pub mod precision;
#[cfg(not(MODULE))]
pub mod tpu;
pub mod weight;

pub use contract::{pack_portable, unpack_portable};
pub use contract::{Elements, Layout};
pub use element::Element;
pub use error::{Document, Error, Relation, Rule};
pub use extents::{bytes, round_up, Extents, Index, Order};
pub use nest::Nest;
