// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP: local response normalisation across channels.
//!
//! Each element is multiplied by a factor. The lookup tables give it for the sum of the squares of the element's
//! neighbours: 3, 5, 7 or 9 channels around it. Integers pass a converter before (9 bits for int8, 17 for int16) and
//! after. fp16 is computed in fp17, its squares and their sum in fp32. Squaring and summing (the table's argument is
//! then the element itself) and multiplying can be switched off. Outside the cube's channels a window reads
//! `DATIN_OFFSET`, which the input converter turns into zero. The lanes after the last channel are computed in the same
//! way, and written.
//!
//! [`reference`] computes element by element. `strips` cuts a cube into strips and shares them between threads; it is
//! the same for all precisions. `integer` and `float` compute a row of a strip in plain loops, which `vectorised!`
//! compiles once per instruction set; no instruction set has code of its own. This file chooses by precision.
//!
//! Source: the register specification (CDP, CDP_RDMA), the hardware manual ("CDP"), and for the arithmetic the C-model
//! (`cmod/cdp`, `cmod/hls/cdp_libs`, `cmod/hls_wrapper/cdp_hls_wrapper.cpp`).

mod answers;
mod float;
mod integer;
mod operation;
pub mod reference;
mod strips;

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

use self::answers::Answers;
use self::float::Float;
use self::integer::{Int16, Int8, Integer};
use self::operation::{done, Operation};
use self::strips::ThreadBuffers;
use crate::lut::cdp::vector::Vectors;
use crate::lut::cdp::Lookup;
use crate::lut::Tables;
use crate::memory::{Memory, Stop};
use crate::registers::Registers;
use crate::simd::isa::Isa;
use crate::stream::Done;

/// What CDP keeps from one operation to the next.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The lookup tables.
    pub tables: Tables,
    /// What the last lookup was made into.
    memo: Memo,
}

/// What the lookup's registers and tables have been turned into, and the memory that loops work in.
#[derive(Debug, Default)]
struct Memo {
    /// What the lookups below belong to.
    of: Option<(Lookup, Tables, Precision)>,
    answers: Answers,
    integers: Option<Box<Vectors<f64>>>,
    floats: Option<Box<Vectors<f32>>>,
    int8: ThreadBuffers<i8, integer::Buffers<i16, i32>>,
    int16: ThreadBuffers<i16, integer::Buffers<i32, f64>>,
    fp16: ThreadBuffers<u16, float::Buffers>,
}

impl Clone for Memo {
    /// Another device makes its own.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Memo {
    /// Makes the lookup of an operation, unless it is the last one's.
    fn renew(&mut self, operation: &Operation, tables: &Tables) {
        let Operation { ref lookup, precision, .. } = *operation;
        let is_same = self.of.as_ref().is_some_and(|(of, entries, last)| {
            of == lookup && entries.le() == tables.le() && entries.lo() == tables.lo() && *last == precision
        });
        if !is_same {
            match precision {
                Precision::Int8 => self.answers.clear(),
                Precision::Int16 => self.integers = Vectors::new(lookup, tables),
                Precision::Fp16 => self.floats = Vectors::new(lookup, tables),
            }
            self.of = Some((*lookup, tables.clone(), precision));
        }
    }
}

/// Normalises: one operation of CDP with the registers of its group and of its read DMA's.
pub fn run(
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    run_with(Isa::in_use()?, state, config, rdma, registers, memory)
}

/// As [`run`], with an instruction set that this machine has.
fn run_with(
    isa: Isa,
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    let operation = &Operation::new(config, rdma, registers)?;
    let State { tables, memo } = state;
    memo.renew(operation, tables);
    let counts = match operation.precision {
        Precision::Int8 => {
            let engine = Integer::new(isa, operation, tables, Int8(&memo.answers));
            strips::run(&engine, &mut memo.int8, operation, memory)
        }
        Precision::Int16 => {
            let engine = Integer::new(isa, operation, tables, Int16(memo.integers.as_deref()));
            strips::run(&engine, &mut memo.int16, operation, memory)
        }
        Precision::Fp16 => {
            let engine = Float { isa, operation, tables, lookup: memo.floats.as_deref() };
            strips::run(&engine, &mut memo.fp16, operation, memory)
        }
    }?;
    Ok(done(counts))
}

#[cfg(test)]
mod tests;
