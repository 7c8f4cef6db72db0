// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP one line at a time, in vector instructions.
//!
//! [`portable`] has loops for every method and precision that compile to vector instructions. [`avx512`] has faster
//! code for averages. [`bands`] walks the lines, on several threads where there are many.

// A loop is compiled for an instruction set only together with the functions that are inlined into it.
#![allow(clippy::inline_always)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bands;
mod extreme;
mod factors;
mod fp16;
mod integer;
mod lines;
mod order;
mod portable;

use self::lines::PooledPart;

use nvdla_uapi::reg::values::{PoolingMethod, Precision};

use super::reference;
use super::setup::{Emit, Part, Setup, Source};
use crate::memory::{Memory, Stop};
use bands::PartPooling;
use extreme::{Bytes, Extreme, HalfExtreme, Shorts};
use fp16::Fp16Average;
use integer::{Average16, Average8, Integer};
use portable::Portable;

/// Pools one part. Returns the number of NaNs.
pub(super) fn pool(
    setup: &Setup,
    part: &Part,
    source: &Source,
    memory: &mut dyn Memory,
    emit: &mut Emit,
) -> Result<usize, Stop> {
    let mut pooling = PartPooling { task: PooledPart { setup, part, source }, memory, emit };
    match (setup.precision, setup.method) {
        (Precision::Int8, PoolingMethod::Max) => bytes(&mut pooling, || Extreme::<_, true>(Bytes)),
        (Precision::Int8, PoolingMethod::Min) => bytes(&mut pooling, || Extreme::<_, false>(Bytes)),
        (Precision::Int8, PoolingMethod::Average) => match setup.atoms.bytes() {
            32 => pooling.run(&Integer::new(setup.isa, Portable::<_, 32>(Average8::new(setup, part)))),
            _ => bytes(&mut pooling, || Average8::new(setup, part)),
        },
        (Precision::Int16, PoolingMethod::Max) => pooling.run(&Portable::<_, 16>(Extreme::<_, true>(Shorts))),
        (Precision::Int16, PoolingMethod::Min) => pooling.run(&Portable::<_, 16>(Extreme::<_, false>(Shorts))),
        (Precision::Int16, PoolingMethod::Average) => {
            pooling.run(&Integer::new(setup.isa, Portable::<_, 16>(Average16::new(setup, part))))
        }
        (Precision::Fp16, PoolingMethod::Max) => pooling.run(&HalfExtreme::<true>::new(setup)),
        (Precision::Fp16, PoolingMethod::Min) => pooling.run(&HalfExtreme::<false>::new(setup)),
        (Precision::Fp16, PoolingMethod::Average) => match Fp16Average::new(setup, part) {
            Some(method) => pooling.run(&method),
            None => reference::pool(setup, part, source, pooling.memory, pooling.emit),
        },
    }
}

/// Pools int8 in atoms of any size.
fn bytes<M: portable::Method>(pooling: &mut PartPooling, method: impl Fn() -> M) -> Result<usize, Stop> {
    match pooling.task.setup.atoms.bytes() {
        8 => pooling.run(&Portable::<_, 8>(method())),
        16 => pooling.run(&Portable::<_, 16>(method())),
        _ => pooling.run(&Portable::<_, 32>(method())),
    }
}
