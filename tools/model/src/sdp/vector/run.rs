// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs an operation from its registers to its status, on this thread or on several.

use nvdla_uapi::config::Config;

use super::super::operation::Operation;
use super::super::output::stream_for_pdp;
use super::super::state::State;
use super::super::tally::Tally;
use super::addresses::ChunkPosition;
#[cfg(target_arch = "x86_64")]
use super::choose::tail;
use super::choose::{joint, short};
use super::lanes::Scratch;
use super::plan::Plan;
use super::process::ChunkContext;
use super::strips;
use super::walk::Walk;
use crate::memory::{Fault, Memory, Stop};
use crate::registers::Registers;
use crate::simd::non_temporal::store_fence;
use crate::stream::{Done, Stream};
use nvdla_uapi::isa::Isa;

/// The settings of a run.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Settings {
    /// The instruction set.
    pub isa: Isa,
    /// The number of elements from which several threads are used.
    pub threads_from: usize,
    /// The number of elements from which non-temporal stores are used.
    pub non_temporal_from: usize,
}

impl Settings {
    /// The settings for this machine.
    pub(in super::super) fn detect() -> Result<Self, Stop> {
        Ok(Self { isa: Isa::in_use()?, threads_from: 1 << 19, non_temporal_from: 1 << 24 })
    }
}

/// As [`crate::sdp::run`], with these settings.
pub(in super::super) fn run(
    settings: Settings,
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    sdp: &Registers,
    input: Option<&Stream>,
    memory: &mut dyn Memory,
) -> Result<Done<Option<Stream>>, Stop> {
    let operation = Operation::new(config, state.like, rdma, sdp, input)?;
    let plan = Plan::new(&operation);
    let mut output = stream_for_pdp(&operation)?;
    let State { tables, scratch, .. } = state;
    let scratch = scratch.get_or_insert_with(Scratch::new);
    let walk = Walk::new(&operation, &plan, false);
    let joint = joint(&operation, tables);
    #[cfg(target_arch = "x86_64")]
    let tail = tail(&operation, &plan, joint.as_ref(), settings.isa);
    let mut context = ChunkContext {
        operation: &operation,
        plan: &plan,
        tables,
        short: None,
        joint: joint.as_ref(),
        #[cfg(target_arch = "x86_64")]
        tail: tail.as_ref(),
        isa: settings.isa,
        non_temporal: operation.view().span(operation.batch) >= settings.non_temporal_from,
    };
    let mut tally = Tally::default();
    let short = short(&walk, &context, scratch);
    context.short = short.as_ref();
    let threads = rayon::current_num_threads();
    if let Some(cube) = walk.strips_suit(&operation, settings.threads_from).filter(|_| threads > 1) {
        strips::run(&walk, &context, scratch, (&cube, threads), input, memory, &mut tally)?;
        return Ok(tally.finish(&operation, output));
    }
    let done = alone(&walk, &context, scratch, input, output.as_mut(), memory, &mut tally);
    store_fence();
    done?;
    Ok(tally.finish(&operation, output))
}

/// Computes the whole cube on this thread.
fn alone(
    walk: &Walk,
    context: &ChunkContext,
    scratch: &mut Scratch,
    input: Option<&Stream>,
    mut output: Option<&mut Stream>,
    memory: &mut dyn Memory,
    tally: &mut Tally,
) -> Result<(), Fault> {
    for batch in 0..context.operation.batch {
        for surface in 0..walk.surfaces {
            walk.load_kernels(context, scratch, surface, memory)?;
            for line in 0..walk.lines {
                let mut x = 0;
                while x < walk.atoms {
                    let atoms = walk.chunk.min(walk.atoms - x);
                    let at = ChunkPosition { batch, surface, line, x, atoms };
                    walk.chunk(context, scratch, at, input, output.as_deref_mut(), memory, tally)?;
                    x += atoms;
                }
            }
        }
    }
    Ok(())
}
