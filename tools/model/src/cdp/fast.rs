// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP in loops over many elements: all input converters of some positions, then all windows, all lookups and all
//! output converters. Intermediate values stay in the first-level cache.
//!
//! The loops are plain code that is compiled once per instruction set ([`vectorised!`]). Windows and lookups have
//! AVX-512 code of their own (`avx512`).

// A loop is compiled for an instruction set only with what is inlined into it.
#![allow(clippy::inline_always)]
// A lazy operator is a branch, which vectors do not have.
#![allow(clippy::needless_bitwise_bool)]

use nvdla_uapi::reg::values::Precision;

use super::operation::{Counts, Operation};
use crate::conv::Isa;
use crate::lut::cdp::Lookup;
use crate::lut::Tables;
use crate::memory::{Memory, Stop};

/// Defines a function with loops that are compiled for AVX-512, for AVX2, and for every processor of the target. Its
/// first argument, an [`Isa`], selects one.
macro_rules! vectorised {
    (
        $(#[$attribute:meta])*
        $visible:vis fn $name:ident $(<$($generic:ident: $bound:ident),+>)? ($($argument:ident: $type:ty),* $(,)?) $body:block
    ) => {
        $(#[$attribute])*
        $visible fn $name $(<$($generic: $bound),+>)? (isa: $crate::conv::Isa, $($argument: $type),*) {
            #[inline(always)]
            fn body $(<$($generic: $bound),+>)? ($($argument: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::conv::Isa;
                #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
                fn widest $(<$($generic: $bound),+>)? ($($argument: $type),*) {
                    body($($argument),*);
                }
                #[target_feature(enable = "avx2")]
                fn wide $(<$($generic: $bound),+>)? ($($argument: $type),*) {
                    body($($argument),*);
                }
                match isa {
                    // SAFETY: the processor has what `Isa::Avx512` stands for.
                    Isa::Avx512 => return unsafe { widest($($argument),*) },
                    // SAFETY: the processor has AVX2.
                    Isa::Avx2 => return unsafe { wide($($argument),*) },
                    _ => {}
                }
            }
            let _ = isa;
            body($($argument),*);
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx512;
mod half;
mod int16;
mod int8;
mod integer;
mod rows;
mod strips;

/// What the lookup's registers and tables have been turned into, and the memory that loops work in.
#[derive(Debug, Default)]
pub(super) struct Memo {
    /// What the rest belongs to.
    of: Option<(Lookup, Tables, bool)>,
    int8: int8::Memo,
    int16: int16::Memo,
    half: half::Memo,
}

impl Clone for Memo {
    /// Another device finds out for itself.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Memo {
    /// Forgets what belonged to another lookup.
    fn renew(&mut self, operation: &Operation, tables: &Tables) {
        let squares = operation.reach.is_some();
        let same = self.of.as_ref().is_some_and(|(lookup, of, sums)| {
            *lookup == operation.lookup && of.le() == tables.le() && of.lo() == tables.lo() && *sums == squares
        });
        if !same {
            self.of = Some((operation.lookup, tables.clone(), squares));
            self.int8.forget();
            self.int16.forget();
            self.half.forget();
        }
    }
}

pub(super) fn normalise(
    isa: Isa,
    operation: &Operation,
    tables: &Tables,
    memo: &mut Memo,
    memory: &mut dyn Memory,
) -> Result<Counts, Stop> {
    memo.renew(operation, tables);
    match operation.precision {
        Precision::Int8 => {
            let (engine, room) = memo.int8.engine(isa, operation, tables);
            strips::run(&engine, room, operation, memory)
        }
        Precision::Int16 => {
            let (engine, room) = memo.int16.engine(isa, operation, tables);
            strips::run(&engine, room, operation, memory)
        }
        Precision::Fp16 => {
            let (engine, room) = memo.half.engine(isa, operation, tables);
            strips::run(&engine, room, operation, memory)
        }
    }
}
