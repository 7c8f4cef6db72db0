// SPDX-License-Identifier: MIT OR Apache-2.0

//! A chunk of elements, its operands, and loops over them.

/// Elements per chunk: a multiple of every atom, small enough that several chunks fit the first-level cache.
pub(super) const CHUNK: usize = 4096;

/// Elements after which per-kernel operands repeat: the lanes of the widest atom.
pub(super) const PERIOD: usize = 32;

/// The elements of a chunk: integers, or the bits of fp32 values.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Lanes(pub(super) [i32; CHUNK]);

/// The index of a sub-unit's operand among the chunk's operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Slot {
    X1Alu,
    X1Mul,
    X2Alu,
    X2Mul,
    YAlu,
    YMul,
}

/// Number of [`Slot`]s.
pub(super) const SLOTS: usize = 6;

/// Buffers for a chunk and its operands, kept from one operation to the next.
#[derive(Clone, Debug)]
pub(in crate::sdp) struct Scratch {
    pub(super) values: Lanes,
    pub(super) operands: [Lanes; SLOTS],
    /// A chunk of output.
    pub(super) bytes: [u8; 2 * CHUNK],
}

impl Scratch {
    /// Empty buffers.
    #[allow(clippy::large_stack_arrays)] // once in a device's life
    pub(in crate::sdp) fn new() -> Box<Self> {
        const EMPTY: Lanes = Lanes([0; CHUNK]);
        Box::new(Self { values: EMPTY, operands: [EMPTY; SLOTS], bytes: [0; 2 * CHUNK] })
    }
}

/// An operand during a step.
#[derive(Clone, Copy)]
pub(super) enum Each<'a> {
    /// The same for all elements.
    One(i32),
    /// One operand per element.
    Many(&'a [i32]),
}

/// Applies `f` to each value.
#[inline(always)]
pub(super) fn map(values: &mut [i32], f: impl Fn(i32) -> i32) {
    for value in values {
        *value = f(*value);
    }
}

/// Applies `f` to each value and its operand.
#[inline(always)]
pub(super) fn zip(values: &mut [i32], operand: Each, f: impl Fn(i32, i32) -> i32) {
    match operand {
        Each::One(operand) => map(values, |value| f(value, operand)),
        Each::Many(operands) => {
            for (value, &operand) in values.iter_mut().zip(operands) {
                *value = f(*value, operand);
            }
        }
    }
}

/// The operands of a fused loop.
#[derive(Clone, Copy)]
pub(super) struct Operands<'o> {
    /// Prepared operands.
    pub lanes: &'o [Lanes; SLOTS],
    /// Operands that are read directly from memory.
    pub bytes: &'o Direct<'o>,
}

/// The left shift of each operand, for the slots with operands that a fused loop reads directly from memory.
pub(super) type Shifts = [Option<u32>; SLOTS];

/// Bytes of the operands of each slot that is read directly.
pub(super) type Direct<'o> = [&'o [u8]; SLOTS];
