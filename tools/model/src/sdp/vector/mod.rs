// SPDX-License-Identifier: MIT OR Apache-2.0

//! SDP a chunk at a time: loads, steps and stores as plain loops that the compiler turns into vector code.
//!
//! A [`plan`] lists the steps of an operation, each chosen as narrow as the range of its values allows (most products
//! fit 32 bits). [`walk`] cuts the cube into chunks of [`CHUNK`] elements that stay in the first-level cache, [`load`]
//! widens data and operands to 32 bits, [`int`] and [`float`] have the steps, [`store`] narrows the result. [`process`]
//! is compiled once for each instruction set and chosen at run time. [`strips`] gives large cubes to several threads.

// The steps are compiled into one function for each instruction set: only code that is inlined there uses it.
#![allow(clippy::inline_always)]

#[cfg(target_arch = "x86_64")]
mod avx512;
mod choose;
mod float;
mod flying;
mod fused;
#[cfg(target_arch = "x86_64")]
mod fused_avx512;
mod fused_float;
mod int;
mod load;
mod lookup;
mod places;
mod plan;
mod process;
mod run;
mod store;
mod strips;
mod table;
mod walk;

pub(crate) use flying::OnFlying;
pub(super) use lookup::Joint;
#[cfg(test)]
pub(super) use process::Instructions;
pub(super) use run::run;
pub(crate) use run::Settings;

/// Elements of a chunk: a multiple of every atom, small enough for a few of them to stay in the first-level cache.
const CHUNK: usize = 1024;

/// The elements of a chunk: integers, or the bits of fp32 values.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Lanes([i32; CHUNK]);

/// An operand of a sub-unit, as a place among the chunk's operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Slot {
    X1Alu,
    X1Mul,
    X2Alu,
    X2Mul,
    YAlu,
    YMul,
}

/// Number of [`Slot`]s.
const SLOTS: usize = 6;

/// Room for a chunk and its operands, kept from one operation to the next.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    values: Lanes,
    operands: [Lanes; SLOTS],
    /// A chunk of output.
    bytes: [u8; 2 * CHUNK],
}

impl Scratch {
    /// Empty room.
    #[allow(clippy::large_stack_arrays)] // once in a device's life
    pub(super) fn new() -> Box<Self> {
        const EMPTY: Lanes = Lanes([0; CHUNK]);
        Box::new(Self { values: EMPTY, operands: [EMPTY; SLOTS], bytes: [0; 2 * CHUNK] })
    }
}

/// An operand during a step.
#[derive(Clone, Copy)]
enum Each<'a> {
    /// The same for all elements.
    One(i32),
    /// One an element.
    Many(&'a [i32]),
}

/// `f` of each value.
#[inline(always)]
fn map(values: &mut [i32], f: impl Fn(i32) -> i32) {
    for value in values {
        *value = f(*value);
    }
}

/// `f` of each value and its operand.
#[inline(always)]
fn zip(values: &mut [i32], operand: Each, f: impl Fn(i32, i32) -> i32) {
    match operand {
        Each::One(operand) => map(values, |value| f(value, operand)),
        Each::Many(operands) => {
            for (value, &operand) in values.iter_mut().zip(operands) {
                *value = f(*value, operand);
            }
        }
    }
}
