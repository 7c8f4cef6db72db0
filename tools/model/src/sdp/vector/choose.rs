// SPDX-License-Identifier: MIT OR Apache-2.0

//! Chooses how the chunks of an operation are computed: step by step, or in one fused loop.

use nvdla_uapi::reg::values::Precision;

use super::super::operation::{Destination, Operation, Source};
use super::super::tally::Tally;
#[cfg(target_arch = "x86_64")]
use super::addresses::fp16_out;
#[cfg(target_arch = "x86_64")]
use super::avx512::{int8::Loop, Tail};
use super::fused::Fused;
use super::fused_float::FusedFloat;
use super::lanes::{Scratch, Shifts};
use super::load::Data;
use super::lookup::Joint;
use super::plan::{Feed, Plan, Prepare};
use super::process::{self, ChunkContext, Packing, Short};
use super::walk::Walk;
use crate::lut::Tables;
use crate::simd::table::{self, Results};
use nvdla_uapi::isa::Isa;

/// The lookup without branches, where the operation has one.
pub(super) fn joint(operation: &Operation, tables: &Tables) -> Option<Joint> {
    let lookup = operation.y.and_then(|y| y.lookup)?;
    let suits = operation.processing != Precision::Fp16 && !operation.count.lookups;
    suits.then(|| Joint::new(&lookup, tables)).flatten()
}

/// The loop for the lookup and everything after it, if the operation has one.
#[cfg(target_arch = "x86_64")]
pub(super) fn tail(operation: &Operation, plan: &Plan, joint: Option<&Joint>, isa: Isa) -> Option<Tail> {
    let to_memory = matches!(operation.destination, Destination::Memory(_)) && !fp16_out(operation);
    let suits = isa.has_avx512() && to_memory && !operation.count.any();
    joint.filter(|_| suits).and_then(|joint| Tail::new(operation, plan, joint))
}

/// The loop for whole chunks of the operation, if there is one. Fills `scratch` with its operands of the layer.
pub(super) fn short(walk: &Walk, context: &ChunkContext, scratch: &mut Scratch) -> Option<Short> {
    let ChunkContext { operation, plan, isa, .. } = *context;
    let of_layer = is_of_layer(operation, plan);
    // With a vector table lookup, no calculation is cheaper.
    if of_layer && table::is_quick(isa) {
        return Some(Short::Table(all_results(context, scratch)));
    }
    if let Some(short) = fused(walk, operation, plan, isa) {
        short.fill(plan, short.prepared(), &mut scratch.operands);
        return Some(short);
    }
    (of_layer && !operation.count.nan_input).then(|| Short::Table(all_results(context, scratch)))
}

/// The fused loop for the operation, if there is one.
pub(super) fn fused(walk: &Walk, operation: &Operation, plan: &Plan, isa: Isa) -> Option<Short> {
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    // In a folded cube, per-kernel operands differ from element to element.
    let each =
        plan.feeds.map(|feed| matches!(feed, Some(Feed::Memory { per_kernel, .. }) if !per_kernel || walk.folded));
    if let Some(mut fused) = Fused::new(operation, plan) {
        fused.each = each;
        fused.direct = direct(plan, 1, |prepare| match prepare {
            Prepare::Plain => Some(0),
            // 8 bits shifted by 15 fit 32.
            Prepare::Shift(shift @ 0..=15) => Some(shift),
            _ => None,
        });
        return Some(Short::Int {
            fused,
            #[cfg(target_arch = "x86_64")]
            avx512: if isa.has_avx512() { Loop::new(&fused, plan) } else { None },
        });
    }
    if operation.count.nan_input {
        return None;
    }
    let mut fused = FusedFloat::new(operation, plan)?;
    fused.each = each;
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() {
        fused.direct = direct(plan, 2, |prepare| (prepare == Prepare::Float).then_some(0));
    }
    Some(Short::Float(fused))
}

/// For the slots with operands of `bytes` bytes, one per element, that a loop reads directly from memory: the left shift of each
/// operand, as `shift` gives it for their preparation.
fn direct(plan: &Plan, bytes: u32, shift: impl Fn(Prepare) -> Option<u32>) -> Shifts {
    plan.feeds.map(|feed| match feed {
        Some(Feed::Memory { operands, prepare, per_kernel: false, .. })
            if operands.layout.component_bytes() == bytes && operands.layout.components() == 1 =>
        {
            shift(prepare)
        }
        _ => None,
    })
}

/// Smallest number of elements for which a table of all results is worth its computation.
const TABLE_FROM: usize = 1024;

/// Whether the operation maps int8 to int8, with all operands the same for the layer. A table of 256 results then
/// replaces the computation.
fn is_of_layer(operation: &Operation, plan: &Plan) -> bool {
    let from_bytes = matches!(operation.source, Source::Memory(cube) if cube.layout.precision() == Precision::Int8);
    let to_bytes = operation.output == Precision::Int8 && matches!(operation.destination, Destination::Memory(_));
    let elements = operation.width * operation.height * operation.channels;
    from_bytes
        && to_bytes
        && plan.feeds.iter().flatten().all(|feed| matches!(feed, Feed::One(_)))
        && elements > TABLE_FROM
        && !operation.count.any()
}

/// Computes the result for each int8 value.
fn all_results(context: &ChunkContext, scratch: &mut Scratch) -> Results {
    let all: [u8; 256] = std::array::from_fn(|value| value as u8);
    #[cfg(target_arch = "x86_64")]
    let context = &ChunkContext { tail: None, ..*context };
    process::process(context.isa, context, scratch, Data::Int8(&all), all.len(), &mut Tally::default());
    let mut results = [0; 256];
    process::pack(context.isa, &scratch.values.0[..all.len()], Packing::Bytes, &mut results);
    results
}
