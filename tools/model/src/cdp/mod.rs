// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP: local response normalisation across channels.
//!
//! Each element is multiplied by a factor. The lookup tables map the sum of squares of 3, 5, 7 or 9 channels around the
//! element to the factor. Integers pass a converter before (to 9 bits for int8, 17 for int16) and after. fp16 is
//! computed in fp17, except for squares and their sums, which are fp32. Two registers bypass squaring and summing (the
//! table's argument is then the element itself) and the multiplication. Beyond the cube's channels a window reads
//! `DATIN_OFFSET`, which the input converter turns into zero. Lanes after the last channel are computed and written
//! like the others.
//! [`mod@reference`] computes element by element. `strips` cuts a cube into strips, which threads share, for all
//! precisions. `integer` and `float` compute a row of a strip in plain loops, which `vectorised!` compiles once per
//! instruction set. This file chooses the engine by precision.
//! Source: the register specification (CDP, CDP_RDMA), the hardware manual ("CDP"), and for the arithmetic the C-model
//! (`cmod/cdp`, `cmod/hls/cdp_libs`, `cmod/hls_wrapper/cdp_hls_wrapper.cpp`).

mod factor_cache;
mod float;
mod integer;
mod operation;
pub mod reference;
mod strips;

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

use self::factor_cache::FactorCache;
use self::float::Float;
use self::integer::{Int16, Int8, Integer};
use self::operation::{done, Operation};
use self::strips::ThreadBuffers;
use crate::lut::cdp::vector::Vectors;
use crate::lut::cdp::Lookup;
use crate::lut::Tables;
use crate::memory::{Memory, Stop};
use crate::registers::Registers;
use crate::stream::Done;
use nvdla_uapi::isa::Isa;

/// CDP's state between operations.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The lookup tables.
    pub tables: Tables,
    /// The last lookup in the form that the loops use.
    memo: Memo,
}

/// The lookup's registers and tables in the form that the loops use, and the loops' buffers.
#[derive(Debug, Default)]
struct Memo {
    /// The lookup, tables and precision for which the fields below were made.
    of: Option<(Lookup, Tables, Precision)>,
    factors: FactorCache,
    integers: Option<Box<Vectors<f64>>>,
    floats: Option<Box<Vectors<f32>>>,
    int8: ThreadBuffers<i8, integer::Buffers<i16, i32>>,
    int16: ThreadBuffers<i16, integer::Buffers<i32, f64>>,
    fp16: ThreadBuffers<u16, float::Buffers>,
}

impl Clone for Memo {
    /// The cache of another device starts empty.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Memo {
    /// Prepares an operation's lookup, unless the last operation had the same one.
    fn renew(&mut self, operation: &Operation, tables: &Tables) {
        let Operation { ref lookup, precision, .. } = *operation;
        let is_same = self.of.as_ref().is_some_and(|(of, entries, last)| {
            of == lookup && entries.le() == tables.le() && entries.lo() == tables.lo() && *last == precision
        });
        if !is_same {
            match precision {
                Precision::Int8 => self.factors.clear(),
                Precision::Int16 => self.integers = Vectors::new(lookup, tables),
                Precision::Fp16 => self.floats = Vectors::new(lookup, tables),
            }
            self.of = Some((*lookup, tables.clone(), precision));
        }
    }
}

/// Performs one CDP operation, given the registers of CDP's group and of its read DMA's group.
pub fn run(
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    run_with(Isa::in_use()?, state, config, rdma, registers, memory)
}

/// Like [`run`], with an instruction set that this machine has.
pub fn run_with(
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
            let engine = Integer::new(isa, operation, tables, Int8(&memo.factors));
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
