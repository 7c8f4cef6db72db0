// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares the bytes that an operation accessed on the model with the footprint that the engine computes from the same
//! registers.

use nvdla_engine::footprint::{footprint, Access as Footprint, Refusal, Registers as Values};
use nvdla_model::memory::{Access, Port};
use nvdla_model::operation::Finished;
use nvdla_model::record::Touched;
use nvdla_model::registers::Registers;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;
use nvdla_uapi::reg::Block;

/// The ranges that an operation may access, from the registers with which it was performed.
///
/// # Errors
///
/// When its registers have no footprint.
pub fn ranges(config: &Config, finished: &Finished) -> Result<Vec<Footprint>, Refusal> {
    let mut all = Vec::new();
    let mut visit = |access| {
        all.push(access);
        Ok(())
    };
    let values = |files: &[(Block, &Registers)]| {
        let mut values = Values::EMPTY;
        for (block, registers) in files {
            for (word, &value) in registers.words().iter().enumerate() {
                values.set(*block, word, value);
            }
        }
        values
    };
    for copy in finished.copies() {
        footprint(config, OpType::Bdma, false, &values(&[(Block::Bdma, copy)]), &mut visit)?;
    }
    let uses = |block: Block| finished.blocks().any(|used| used == block);
    let units = [
        (OpType::Conv, None, Block::Cdma),
        (OpType::Sdp, Some(Block::SdpRdma), Block::Sdp),
        (OpType::Pdp, Some(Block::PdpRdma), Block::Pdp),
        (OpType::Cdp, Some(Block::CdpRdma), Block::Cdp),
        (OpType::Rubik, None, Block::Rbk),
    ];
    for (unit, rdma, block) in units.into_iter().filter(|&(.., block)| uses(block)) {
        let rdma = rdma.filter(|&block| uses(block));
        let files: Vec<_> = [rdma, Some(block)]
            .into_iter()
            .flatten()
            .filter_map(|block| Some((block, finished.registers(block)?)))
            .collect();
        footprint(config, unit, rdma.is_some(), &values(&files), &mut visit)?;
    }
    Ok(all)
}

fn same(range: &Footprint, touched: &Touched) -> bool {
    range.write == (touched.access == Access::Write) && Port::from(range.memory) == touched.span.port
}

/// A description of the first access outside the ranges.
pub fn outside(ranges: &[Footprint], touched: &[Touched]) -> Option<String> {
    let found = touched.iter().find(|touched| {
        let (mut at, end) = (touched.span.address, touched.span.address.saturating_add(touched.span.length as u64));
        // Adjacent accesses may have been recorded as one.
        while let Some(range) =
            ranges.iter().find(|range| same(range, touched) && range.start <= at && at < range.end && at < end)
        {
            at = range.end;
        }
        at < end
    })?;
    let Touched { access, span, .. } = found;
    let ranges: Vec<_> = ranges.iter().map(ToString::to_string).collect();
    Some(format!(
        "{access:?} of {} bytes at {:#x} of {}, outside the footprint: {}",
        span.length,
        span.address,
        span.port,
        ranges.join("; ")
    ))
}

/// The number of bytes of the range before the first and after the last accessed one; `None` if none was accessed.
pub fn slack(range: &Footprint, touched: &[Touched]) -> Option<[u64; 2]> {
    let mut hull: Option<(u64, u64)> = None;
    for touched in touched.iter().filter(|touched| same(range, touched)) {
        let start = touched.span.address.max(range.start);
        let end = touched.span.address.saturating_add(touched.span.length as u64).min(range.end);
        if start < end {
            let (first, last) = hull.unwrap_or((start, end));
            hull = Some((first.min(start), last.max(end)));
        }
    }
    hull.map(|(first, last)| [first - range.start, range.end - last])
}
