// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What an operation's DMA touches, computed from the registers that it runs with.
//!
//! [`footprint`] computes from an operation's registers every range of memory that the operation reads or writes. It
//! does not use descriptors: the registers may belong to an operation of the engine that is not enabled yet, or be the
//! register file of a device. The result is valid for any value of any register. Some sizes are in the registers of
//! several sub-units (CDMA and CSC, PDP and its read DMA). Each sub-unit's range is computed from its own copy, because
//! its address counters use that copy.
//!
//! A range is the hull of one surface: from its lowest to its highest byte, so that the gaps which strides leave between
//! lines lie in it. Its first and last byte are touched, with these exceptions, in which the range is larger:
//! - Reuse: the range assumes that CDMA fetches data and weights even if it finds them in the convolution buffer. What it finds
//!   depends on the operation before.
//! - Winograd: the range assumes that CDMA reads all lines of the input. It leaves out those that the extended height does not
//!   reach.
//! - Pixels of more than eight bits on configurations that compute only in int8: those decode such a format as one of
//!   four bytes per pixel, so the larger of both sizes is used.
//! - Where the hardware's RTL and its C-model differ, the range covers both: a 1x1 cube that is read as packed surfaces
//!   and has a surface stride of more than an atom, a 1x1 cube that SDP writes in batches, int8 to fp16 in SDP, strides of
//!   a contraction that contradict one another, and a split or merge whose channels differ inside the last surface.
//!
//! What the memory interfaces add is not counted: they read whole beats of their bus, aligned to the bus, and mask the
//! bytes of a beat that are not written.
//!
//! Sources: the register manual (`spec/manual` of the hardware project) for fields; NVIDIA's RTL (`vmod/nvdla`, branch
//! `nvdlav1` for nv_full and `master` as generated for nv_small and nv_large) for addresses. The header of each unit's module
//! gives files and lines; without a branch they are those of `nvdlav1`.

// With everything inlined, registers, fields and `RegisterReads::asked` are constants, and an operation of SDP takes 374
// instructions instead of 426.
#![allow(clippy::inline_always)]

mod bdma;
mod cdp;
mod conv;
mod pdp;
mod rubik;
mod sdp;
mod walk;

pub(crate) use walk::{memory_name, position};
pub use walk::{Access, Refusal, Registers};

use crate::uapi::config::Config;
use crate::uapi::desc::OpType;
use walk::Walk;

/// Calls `visit` with every range that an operation of `unit` reads or writes with these registers. Stops at the first refusal,
/// and at the first error of `visit`.
///
/// `rdma` says whether the unit's read DMA (SDP_RDMA, PDP_RDMA) is enabled with it. `registers` are those that the
/// operation itself sets; for BDMA they are those of one transfer.
///
/// Does not allocate. Nothing that registers hold makes it panic.
#[inline]
pub fn footprint<E: From<Refusal>>(
    config: &Config,
    unit: OpType,
    rdma: bool,
    registers: &Registers,
    visit: impl FnMut(Access) -> Result<(), E>,
) -> Result<(), E> {
    let mut walk = Walk::new(config, unit, registers, visit);
    match unit {
        OpType::Bdma => bdma::transfer(&mut walk)?,
        OpType::Conv => conv::reader(&mut walk)?,
        OpType::Sdp => {
            if rdma {
                sdp::reader(&mut walk)?;
            }
            sdp::writer(&mut walk)?;
        }
        OpType::Pdp => {
            if rdma {
                pdp::reader(&mut walk)?;
            }
            pdp::writer(&mut walk)?;
        }
        OpType::Cdp => cdp::both(&mut walk)?,
        OpType::Rubik => rubik::both(&mut walk)?,
    }
    Ok(walk.end()?)
}
