// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs NVDLA loadables: on the hardware through its kernel driver, or on the built-in model.
//!
//! A [`loadable::Loadable`] is a compiled network, and a [`device::Device`] runs it. A [`Network`] is a loadable on a
//! device, and a [`Context`] has inputs and outputs for it; several contexts can run at the same time. A
//! [`session::Session`] is one network alone on its own device.
//!
//! ```
//! use nvdla_runtime::device::{self, Selection};
//! use nvdla_runtime::image::{Encoder, Picture, Settings, Target};
//! use nvdla_runtime::{loadable::Loadable, session::Session};
//!
//! let loadable = Loadable::open("../examples/lenet/lenet.nvdla")?;
//! // The first NVDLA of this machine; here the model of the configuration that the loadable is for.
//! let opened = device::open(&Selection::Model(None), &loadable)?;
//! let mut session = Session::new(loadable, opened.device)?;
//!
//! let target = Target::from(session.inputs().next().ok_or("no input")?);
//! let encoder = Encoder::new(&target, &Settings::default())?;
//! for digit in ["seven", "three"] {
//!     let picture = Picture::open(format!("../examples/lenet/images/{digit}.pgm"))?;
//!     encoder.encode(&picture, session.input_mut(0)?)?;
//!     session.run()?;
//!     let scores = session.output_nchw(0, 1.0)?;
//!     let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
//!     println!("{digit}: class {best:?}");
//! #   let class = best.map(|(class, _)| class);
//! #   assert_eq!(class, Some(if digit == "seven" { 7 } else { 3 }));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Some modules are also useful on their own: [`emulator`] computes the operations that NVDLA does not have, [`image`] converts
//! pictures to tensors, `dimg` writes the result files of NVIDIA's program, and [`operations`] reads a loadable's operations.
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `kernel` | [`device::KernelDevice`]: an NVDLA behind its kernel driver |
//! | `direct` | [`device::DirectDevice`]: an NVDLA behind VFIO or UIO, or a vfio-user server |
//! | `model` | [`device::ModelDevice`]: the built-in model, and simulators of the RTL |
//! | `image` | [`image`]: pictures from files |
//! | `cli` | `compare`, `dimg` and `device::Recording`, which the programs use |
//!
//! All but `cli` are default features.
//!
//! # Spans
//!
//! With a subscriber of the crate `tracing`, each run has a span `run` (level debug), each of its tasks a span `task`
//! (debug), and each operation a span `operation` (trace) on devices that report when operations complete. The span of an
//! operation begins when the operation before it in the task has completed.

// Items that the kinds of devices share are partly unused if one kind is left out.
#![cfg_attr(not(all(feature = "direct", feature = "kernel", feature = "model")), allow(dead_code))]

mod cancel;
#[cfg(feature = "cli")]
pub mod compare;
pub mod conditions;
pub mod configuration;
pub mod device;
#[cfg(feature = "cli")]
pub mod dimg;
pub mod emulator;
mod error;
pub mod files;
pub mod half;
#[cfg(feature = "image")]
pub mod image;
pub mod labels;
pub mod loadable;
pub mod npy;
pub mod operations;
pub mod profile;
pub mod program;
pub mod session;

/// The examples of `docs/library.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/library.md")]
pub struct Library;

pub use cancel::Cancel;
pub use error::{kind_of, ErrorKind};
pub use session::{Context, Network, Pending};
