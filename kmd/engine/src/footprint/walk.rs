// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The walk over an operation's registers: reads them, notes which have no value, and gives each range to a visitor.

use crate::uapi::config::Config;
use crate::uapi::desc::OpType;
use crate::uapi::reg::values::{Precision, RamType};
use crate::uapi::reg::{Block, Field, FieldValue, Register, Tied, Word};
use core::fmt;

/// A range of memory that an operation touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The block whose registers describe the surface.
    pub block: Block,
    /// The register with the low half of the surface's address.
    pub register: Register,
    /// The range is written; else it is read.
    pub write: bool,
    /// The memory interface: primary (`Mcif`) or secondary (`Cvif`).
    pub memory: RamType,
    /// DMA address of the first byte.
    pub start: u64,
    /// DMA address after the last byte. Always above `start`.
    pub end: u64,
}

impl Access {
    /// The name of [`Self::register`] in the manual.
    pub fn register_name(&self) -> &'static str {
        self.block.register_name(self.register)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.write { "writes" } else { "reads" };
        let memory = memory_name(self.memory);
        let (block, register) = (self.block.name(), self.register_name());
        write!(f, "{block} {verb} {:#x}..{:#x} of {memory} memory, by {register}", self.start, self.end)
    }
}

/// The name of a memory interface in messages.
pub(crate) const fn memory_name(memory: RamType) -> &'static str {
    match memory {
        RamType::Mcif => "primary",
        RamType::Cvif => "secondary",
    }
}

/// Why registers have no footprint: hardware that ran with them could touch anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A register that steers an address has no value: the operation would run with what an earlier one left.
    Missing {
        /// The block.
        block: Block,
        /// The register.
        register: Register,
    },
    /// A register that affects an address holds a value that the manual does not define, or one that contradicts
    /// another register.
    Value {
        /// The block.
        block: Block,
        /// The register.
        register: Register,
        /// Its value.
        value: u32,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Missing { block, register } => {
                let (name, register) = (block.name(), block.register_name(register));
                write!(f, "{name}.{register} steers an address, and the operation does not set it")
            }
            Self::Value { block, register, value, why } => {
                let (name, register) = (block.name(), block.register_name(register));
                write!(f, "{name}.{register} is {value:#x}: {why}")
            }
        }
    }
}

impl core::error::Error for Refusal {}

/// The largest number of register words per block that operations program.
const WORDS: usize = 64;
/// The largest number of blocks of a unit that access memory.
const BLOCKS: usize = 2;

/// The blocks of a unit that reach memory.
const fn blocks(unit: OpType) -> &'static [Block] {
    match unit {
        OpType::Bdma => &[Block::Bdma],
        OpType::Conv => &[Block::Cdma],
        OpType::Sdp => &[Block::SdpRdma, Block::Sdp],
        OpType::Pdp => &[Block::PdpRdma, Block::Pdp],
        OpType::Cdp => &[Block::CdpRdma, Block::Cdp],
        OpType::Rubik => &[Block::Rbk],
    }
}

/// The block's position among those of its unit; `BLOCKS` for one that does not reach memory.
pub(crate) const fn position(block: Block) -> usize {
    match block {
        Block::Bdma | Block::Cdma | Block::SdpRdma | Block::PdpRdma | Block::CdpRdma | Block::Rbk => 0,
        Block::Sdp | Block::Pdp | Block::Cdp => 1,
        _ => BLOCKS,
    }
}

/// The registers of one unit's blocks that reach memory, as far as an operation sets them.
#[derive(Clone, Debug)]
pub struct Registers([Values; BLOCKS]);

/// The values of one block's registers by their words, so that none is searched for.
#[derive(Clone, Copy, Debug)]
struct Values {
    /// A bit for each word that has a value.
    present: u64,
    words: [u32; WORDS],
}

impl Registers {
    /// None has a value.
    pub const EMPTY: Self = Self([Values { present: 0, words: [0; WORDS] }; BLOCKS]);

    /// Gives the register at `word` of `block` a value.
    pub fn set(&mut self, block: Block, word: usize, value: u32) {
        self.set_at(position(block), word, value);
    }

    /// As [`Self::set`], for the block at a [`position`]. What steers no address is left out.
    #[inline]
    pub(crate) fn set_at(&mut self, position: usize, word: usize, value: u32) {
        if let Some(values) = self.0.get_mut(position) {
            if let Some(kept) = values.words.get_mut(word) {
                *kept = value;
                values.present |= 1 << word;
            }
        }
    }
}

/// The field that selects a surface's memory interface: its register, lowest bit and mask.
#[derive(Clone, Copy)]
pub(super) struct Ram {
    pub(super) register: Register,
    lsb: u32,
    mask: u32,
}

impl Ram {
    pub(super) const fn new<R: Tied>(field: Field<RamType, R>) -> Self {
        Self { register: R::REGISTER, lsb: field.lsb(), mask: field.mask() }
    }

    pub(super) fn get(self, register: u32) -> Option<RamType> {
        RamType::from_bits((register & self.mask) >> self.lsb)
    }
}

/// The registers that say where a surface lies.
pub(super) struct Surface {
    pub(super) block: Block,
    pub(super) write: bool,
    /// The halves of its address.
    pub(super) low: Register,
    pub(super) high: Register,
    /// Its memory interface.
    pub(super) ram: Ram,
}

/// The registers, and which of them were read.
///
/// Refusals take it by value. If they took its address, the compiler would have to keep it in memory all the time.
#[derive(Clone, Copy)]
struct RegisterReads<'a> {
    config: &'a Config,
    /// A bit for each precision of features that the configuration has.
    precisions: u8,
    unit: OpType,
    registers: &'a Registers,
    /// For each block, a bit for each word that was read.
    asked: [u64; BLOCKS],
}

impl RegisterReads<'_> {
    /// A register's value; 0 if it has none. [`Self::is_complete`] finds the missing ones before a result that depends on them is
    /// used.
    #[inline]
    fn get(&mut self, block: Block, register: Register) -> u32 {
        // Both indices are in range for every register that steers an address, so the remainders change nothing. They spare the
        // checks of the indices.
        let (position, word) = (position(block) % BLOCKS, usize::from(register.offset / 4) % WORDS);
        let values = &self.registers.0[position];
        self.asked[position] |= 1 << word;
        values.words[word]
    }

    /// For each block, a bit for each word that was read and has no value.
    #[inline]
    fn missing(&self) -> [u64; BLOCKS] {
        let [first, second] = &self.registers.0;
        [self.asked[0] & !first.present, self.asked[1] & !second.present]
    }

    /// Whether all registers that were read have values.
    #[inline]
    fn is_complete(&self) -> bool {
        self.missing() == [0; BLOCKS]
    }

    /// The configuration has the memory interface.
    #[inline]
    fn has(&self, memory: RamType) -> bool {
        memory == RamType::Mcif || self.config.secondary_memif
    }

    #[cold]
    #[inline(never)]
    fn first_missing(self) -> Refusal {
        let mut found = blocks(self.unit).iter().zip(self.missing()).flat_map(|(&block, missing)| {
            let of_block = block.plain_registers().iter().map(move |&register| (block, register));
            of_block
                .filter(move |(_, register)| missing.checked_shr(u32::from(register.offset / 4)).unwrap_or(0) & 1 != 0)
        });
        let nothing = (Block::Glb, Register { offset: 0, reset: 0, writable: 0, writable_nv_full: 0 });
        let (block, register) = found.next().unwrap_or(nothing);
        Refusal::Missing { block, register }
    }

    /// Refuses a register's value, or that there is none.
    #[cold]
    #[inline(never)]
    fn refuse(mut self, block: Block, register: Register, why: &'static str) -> Refusal {
        let value = self.get(block, register);
        if self.is_complete() {
            Refusal::Value { block, register, value, why }
        } else {
            self.first_missing()
        }
    }

    /// Refuses where a surface lies.
    #[cold]
    #[inline(never)]
    fn refuse_surface(mut self, surface: &Surface) -> Refusal {
        let &Surface { block, low, high, ram, .. } = surface;
        let memory = ram.get(self.get(block, ram.register));
        if !memory.is_some_and(|memory| self.has(memory)) {
            return self.refuse(block, ram.register, "the configuration has no secondary memory interface");
        }
        if self.get(block, low) & (self.config.memory_atomic - 1) != 0 {
            return self.refuse(block, low, "the address is not aligned to an atom");
        }
        self.refuse(block, high, "the surface ends above the last address")
    }
}

/// The registers, and the visitor that gets each range.
pub(super) struct Walk<'a, V> {
    reads: RegisterReads<'a>,
    visit: V,
}

impl<'a, V> Walk<'a, V> {
    /// A walk over the registers of an operation of `unit`.
    #[inline(always)]
    pub(super) fn new(config: &'a Config, unit: OpType, registers: &'a Registers, visit: V) -> Self {
        // There are at most three. `take` tells the compiler this, which would otherwise vectorise the loop.
        let precisions = config.feature_types.iter().take(3).fold(0, |all, &precision| all | 1 << precision as u8);
        Self { reads: RegisterReads { config, precisions, unit, registers, asked: [0; BLOCKS] }, visit }
    }

    /// Refuses the registers if one that was read has no value.
    #[inline(always)]
    pub(super) fn end(self) -> Result<(), Refusal> {
        if self.reads.is_complete() {
            Ok(())
        } else {
            Err(self.reads.first_missing())
        }
    }

    /// A register's value.
    #[inline]
    pub(super) fn get(&mut self, block: Block, register: Register) -> u32 {
        self.reads.get(block, register)
    }

    /// As [`Self::get`], for the register's fields.
    #[inline(always)]
    pub(super) fn read<R: Tied>(&mut self, block: Block) -> Word<R> {
        Word::new(self.get(block, R::REGISTER))
    }

    /// A size or count, which registers hold minus one.
    #[inline(always)]
    pub(super) fn count<R: Tied>(&mut self, block: Block, field: Field<u32, R>) -> u64 {
        u64::from(self.read::<R>(block).value(field)) + 1
    }

    /// A stride in bytes.
    #[inline]
    pub(super) fn stride(&mut self, block: Block, register: Register) -> u64 {
        self.get(block, register).into()
    }

    /// A field with named encodings.
    #[inline(always)]
    pub(super) fn field<T: FieldValue, R: Tied>(&mut self, block: Block, field: Field<T, R>) -> Result<T, Refusal> {
        self.field_of(block, R::REGISTER, field)
    }

    /// As [`Self::field`], of a register that has the same fields as the field's own.
    #[inline(always)]
    pub(super) fn field_of<T: FieldValue, R: Tied>(
        &mut self,
        block: Block,
        register: Register,
        field: Field<T, R>,
    ) -> Result<T, Refusal> {
        match Word::new(self.get(block, register)).get(field) {
            Some(value) => Ok(value),
            None => Err(self.refuse(block, register, "a field holds an encoding that is not defined")),
        }
    }

    /// A field of a precision that the configuration has.
    #[inline(always)]
    pub(super) fn precision<R: Tied>(
        &mut self,
        block: Block,
        field: Field<Precision, R>,
    ) -> Result<Precision, Refusal> {
        let precision = self.field(block, field)?;
        if self.reads.precisions >> precision as u8 & 1 != 0 {
            return Ok(precision);
        }
        Err(self.refuse(block, R::REGISTER, "the configuration does not have the precision"))
    }

    /// Refuses a register's value, or that there is none.
    #[inline(always)]
    pub(super) fn refuse(&self, block: Block, register: Register, why: &'static str) -> Refusal {
        self.reads.refuse(block, register, why)
    }

    /// What the hardware is.
    #[inline]
    pub(super) const fn config(&self) -> &Config {
        self.reads.config
    }

    /// Bytes of an atom.
    #[inline]
    pub(super) fn atom(&self) -> u64 {
        u64::from(self.reads.config.memory_atomic)
    }

    /// The number of surfaces of a cube with `channels` channels. The number of an atom's elements is a power of two.
    #[inline]
    pub(super) fn surfaces(&self, channels: u64, precision: Precision) -> u64 {
        let wide = u32::from(precision != Precision::Int8);
        ((channels - 1) >> (self.reads.config.memory_atomic.trailing_zeros() - wide)) + 1
    }
}

impl<E: From<Refusal>, V: FnMut(Access) -> Result<(), E>> Walk<'_, V> {
    /// Calls the visitor with the range of `span` bytes from a surface's address on. No count has more than 24 bits and no stride
    /// more than 32, so that a span is below 2^60.
    #[inline(always)]
    pub(super) fn touch(&mut self, surface: &Surface, span: u64) -> Result<(), E> {
        let &Surface { block, write, low, high, ram } = surface;
        let memory = ram.get(self.get(block, ram.register));
        let (low_half, high_half) = (self.get(block, low), self.get(block, high));
        let start = u64::from(high_half) << 32 | u64::from(low_half);
        let aligned = low_half & (self.reads.config.memory_atomic - 1) == 0;
        match (memory, start.checked_add(span)) {
            (Some(memory), Some(end)) if aligned && self.reads.is_complete() && self.reads.has(memory) => {
                (self.visit)(Access { block, register: low, write, memory, start, end })
            }
            _ => Err(self.reads.refuse_surface(surface).into()),
        }
    }
}

/// Lines in surfaces, each of both at a stride.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    /// Bytes of a line.
    pub(super) bytes: u64,
    pub(super) height: u64,
    pub(super) line_stride: u64,
    pub(super) surfaces: u64,
    pub(super) surface_stride: u64,
}

impl Lines {
    /// Bytes from the first to the last of all.
    #[inline]
    pub(super) fn span(&self) -> u64 {
        (self.surfaces - 1) * self.surface_stride + (self.height - 1) * self.line_stride + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_lie_within_their_words() {
        let units = [OpType::Bdma, OpType::Conv, OpType::Sdp, OpType::Pdp, OpType::Cdp, OpType::Rubik];
        for unit in units {
            for (at, &block) in blocks(unit).iter().enumerate() {
                assert_eq!((block, position(block)), (block, at));
                let words = block.registers().iter().map(|described| usize::from(described.register.offset / 4));
                assert_eq!((block, words.max() < Some(WORDS)), (block, true));
            }
        }
    }
}
