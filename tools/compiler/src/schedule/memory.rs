// SPDX-License-Identifier: MIT OR Apache-2.0

//! Assigns memory: all constants in one memory, one after another, and activations in a pool in which buffers that are no longer
//! used are overwritten ([`super::pool`]). With SRAM some of them lie in a second pool there ([`super::sram`]).

use nvdla_uapi::layout::round_up;

use super::cost::Sram;
use super::order::{self, Order};
use super::pool::Pool;
use super::program::{Constant, Program, Storage, Task};
use super::sram;
use crate::error::Error;

/// The memory plan, and the order of operations.
pub struct Plan {
    /// Offset of each constant.
    pub constants: Vec<u32>,
    /// Bytes of all constants.
    pub constants_size: u64,
    /// Offset of each buffer in its pool; 0 for the others, which have separate memories.
    pub buffers: Vec<u32>,
    /// First and last position of the operations that access each buffer, in the order of all operations; none if no operation
    /// does.
    pub spans: Vec<Option<(usize, usize)>>,
    /// Bytes of the pool.
    pub pool_size: u64,
    /// The most bytes that are in use at once if operations run one after another in the order of the list, and those on the fly
    /// together. No pool for that order is smaller.
    pub pool_bound: u64,
    /// Bytes of the pool in SRAM; 0 if there is none.
    pub sram_size: u64,
    /// The same bound for the pool in SRAM.
    pub sram_bound: u64,
    /// The order of each task's operations; none for tasks of the emulator.
    pub orders: Vec<Option<Order>>,
}

impl Plan {
    /// Bytes of both pools.
    pub fn activations(&self) -> u64 {
        self.pool_size + self.sram_size
    }
}

/// The offset of each constant, and the bytes of all. Those of the largest alignment lie one after another; each of the others
/// takes the first gap between them that holds it, or follows them.
fn constants(constants: &[Constant]) -> Result<(Vec<u32>, u64), Error> {
    let mut offsets = vec![0; constants.len()];
    // In the order of their addresses. The last one is the rest of the memory.
    let mut gaps = vec![(0, u64::MAX)];
    let mut end = 0;
    let mut by_alignment: Vec<usize> = (0..constants.len()).collect();
    by_alignment.sort_by_key(|&at| std::cmp::Reverse(constants[at].alignment));
    for at in by_alignment {
        let (alignment, size) = (u64::from(constants[at].alignment), constants[at].bytes.len() as u64);
        let fits = |&(from, to): &(u64, u64)| round_up(from, alignment) + size <= to;
        let gap = gaps.iter().position(fits).unwrap_or(gaps.len() - 1);
        let (from, to) = gaps[gap];
        let start = round_up(from, alignment);
        offsets[at] = offset(start)?;
        gaps.splice(gap..=gap, [(from, start), (start + size, to)].into_iter().filter(|(from, to)| from < to));
        end = end.max(start + size);
    }
    Ok((offsets, end))
}

/// Plans a program's memory and order. With SRAM, buffers that are chosen for it have that place in the program.
pub fn plan(program: &mut Program, sram: Option<&Sram>) -> Result<Plan, Error> {
    for buffer in program.buffers.iter_mut().filter(|buffer| buffer.place == Storage::Sram) {
        buffer.place = Storage::Pool;
    }
    let (constants, constants_size) = constants(&program.constants)?;
    let mut orders = Vec::new();
    for task in &program.tasks {
        orders.push(match task {
            Task::Dla(operations) => {
                Some(order::order(operations, program.buffers.len(), program.config.memory_atomic)?)
            }
            Task::Emulated(_) => None,
        });
    }
    let pool = Pool::new(program, &orders);
    let inside = sram.map_or_else(Vec::new, |sram| sram::choose(program, &pool, sram));
    let outside: Vec<usize> = (0..pool.buffers.len()).filter(|at| inside.binary_search(at).is_err()).collect();
    let mut places = vec![0; program.buffers.len()];
    let mut place = |some: &[usize], goal: u64| {
        let (offsets, size) = pool.pack(some, goal);
        for (&at, bytes) in some.iter().zip(offsets) {
            places[pool.buffers[at]] = offset(bytes)?;
        }
        Ok((size, pool.bound(some)))
    };
    let (pool_size, pool_bound) = place(&outside, 0)?;
    let (sram_size, sram_bound) = place(&inside, 0)?;
    let spans = pool.uses.iter().map(|uses| (!uses.by.is_empty()).then_some(uses.span)).collect();
    for id in inside.iter().map(|&at| pool.buffers[at]).collect::<Vec<_>>() {
        program.buffers[id].place = Storage::Sram;
    }
    Ok(Plan { constants, constants_size, buffers: places, spans, pool_size, pool_bound, sram_size, sram_bound, orders })
}

fn offset(bytes: u64) -> Result<u32, Error> {
    u32::try_from(bytes).map_err(|_| Error::Network(format!("a memory of {bytes} bytes exceeds 32-bit offsets")))
}
