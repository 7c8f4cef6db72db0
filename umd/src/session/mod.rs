// SPDX-License-Identifier: MIT OR Apache-2.0

//! A session: a loadable on a device, which can run any number of times.
//!
//! Making a session allocates the loadable's memories and fills them. [`Session::run`] then submits its tasks in order: those for
//! NVDLA to the device, the emulated ones to [`crate::emulator`]. Between runs only the inputs change.
//!
//! ```no_run
//! use nvdla_runtime::device::{self, Selection};
//! use nvdla_runtime::{loadable::Loadable, session::Session};
//!
//! let loadable = Loadable::open("lenet.nvdla")?;
//! let device = device::open(&Selection::Auto, &loadable)?.device;
//! let mut session = Session::new(loadable, device)?;
//! for image in [[0u8; 3584], [1u8; 3584]] {
//!     session.set_input(0, &image)?;
//!     session.run()?;
//!     println!("{:?}", session.output(0)?);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod context;
mod convert;
mod dump;
mod error;
mod flight;
mod memory;
mod options;
mod plan;
mod prepare;
#[cfg(feature = "model")]
mod refusals;
mod run;
mod state;
mod tensor;
mod tensors;

pub use context::{Context, Network, Pending, SubmitOptions};
pub use dump::dump_to;
pub use error::Error;
pub use options::{Completed, OnOperation, Report, RunOptions, TaskRun};
#[cfg(feature = "model")]
pub use refusals::{refusals, Refusal};
pub use state::Session;
pub use tensor::{Direction, TensorError, TensorInfo};
