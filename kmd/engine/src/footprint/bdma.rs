// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! BDMA: one transfer.
//!
//! Both sides move `SURF_REPEAT` surfaces of `LINE_REPEAT` lines of `CFG_LINE` units of 32 bytes, all counts minus one,
//! each side at strides of its own: `NV_NVDLA_BDMA_load.v` lines 283 to 310 and 395 to 439 for the source,
//! `NV_NVDLA_BDMA_store.v` for the destination, which has the same counters. The unit of 32 bytes does not depend on the
//! configuration's atom.

use super::walk::{Access, Lines, Ram, Refusal, Surface, Walk};
use crate::uapi::reg::bdma::*;
use crate::uapi::reg::Block;

const UNIT: u64 = 32;
const SOURCE: Surface = Surface {
    block: Block::Bdma,
    write: false,
    low: CFG_SRC_ADDR_LOW,
    high: CFG_SRC_ADDR_HIGH,
    ram: Ram::new(CFG_CMD::SRC_RAM_TYPE),
};
const DESTINATION: Surface = Surface {
    block: Block::Bdma,
    write: true,
    low: CFG_DST_ADDR_LOW,
    high: CFG_DST_ADDR_HIGH,
    ram: Ram::new(CFG_CMD::DST_RAM_TYPE),
};

#[inline(always)]
pub(super) fn transfer<E, V>(walk: &mut Walk<'_, V>) -> Result<(), E>
where
    E: From<Refusal>,
    V: FnMut(Access) -> Result<(), E>,
{
    const BLOCK: Block = Block::Bdma;
    let bytes = walk.count(BLOCK, CFG_LINE::SIZE) * UNIT;
    let height = walk.count(BLOCK, CFG_LINE_REPEAT::NUMBER);
    let surfaces = walk.count(BLOCK, CFG_SURF_REPEAT::NUMBER);
    let (line_stride, surface_stride) = (walk.stride(BLOCK, CFG_SRC_LINE), walk.stride(BLOCK, CFG_SRC_SURF));
    let source = Lines { bytes, height, line_stride, surfaces, surface_stride };
    let (line_stride, surface_stride) = (walk.stride(BLOCK, CFG_DST_LINE), walk.stride(BLOCK, CFG_DST_SURF));
    let destination = Lines { line_stride, surface_stride, ..source };
    walk.touch(&SOURCE, source.span())?;
    walk.touch(&DESTINATION, destination.span())
}
