// SPDX-License-Identifier: MIT OR Apache-2.0

//! The register values of one block when an operation of its unit starts.

use nvdla_uapi::reg::{Block, Family, Field, FieldValue, Register, Tied, Word};

use crate::memory::Stop;

/// Words of a block's register file. Only the configuration ROM has more.
pub const WORDS: usize = 64;

/// For each word of a block, the bits that software can write. A word without a register has none.
pub type Writable = [u32; WORDS];

static WRITABLE: [[Writable; Block::ALL.len()]; 2] = {
    let mut all = [[[0; WORDS]; Block::ALL.len()]; 2];
    let mut block = 0;
    while block < Block::ALL.len() {
        let registers = Block::ALL[block].registers();
        let mut number = 0;
        while number < registers.len() {
            let register = registers[number].register;
            let word = register.offset as usize / 4;
            if word < WORDS {
                all[Family::NvFull as usize][block][word] = register.writable_nv_full;
                all[Family::NvSmall as usize][block][word] = register.writable;
            }
            number += 1;
        }
        block += 1;
    }
    all
};

/// The bits of the block's words that software can write.
pub fn writable(block: Block, family: Family) -> &'static Writable {
    &WRITABLE[family as usize][block as usize]
}

/// A block's registers: its single (`S_`) registers and those of one group (`D_`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers {
    block: Block,
    words: [u32; WORDS],
}

impl Registers {
    /// The block's registers after reset.
    pub fn reset(block: Block) -> Self {
        let mut words = [0; WORDS];
        for described in block.registers() {
            if let Some(word) = words.get_mut(usize::from(described.register.offset / 4)) {
                *word = described.register.reset;
            }
        }
        Self { block, words }
    }

    /// The block.
    pub const fn block(&self) -> Block {
        self.block
    }

    /// All words of the block, in the order of their addresses.
    pub const fn words(&self) -> &[u32; WORDS] {
        &self.words
    }

    /// The register's value.
    pub const fn get(&self, register: Register) -> u32 {
        self.words[register.offset as usize / 4]
    }

    /// Replaces the register's value.
    pub fn set(&mut self, register: Register, value: u32) {
        self.put(register.offset, value);
    }

    /// Replaces the value of the register at `offset`.
    pub(crate) fn put(&mut self, offset: u16, value: u32) {
        self.words[usize::from(offset / 4)] = value;
    }

    /// The word at `offset`, zero if there is no register.
    pub fn at(&self, offset: u32) -> u32 {
        let word = self.words.get(offset as usize / 4).copied();
        word.filter(|_| offset.is_multiple_of(4)).unwrap_or(0)
    }

    /// Replaces the bits of the word at `offset` that software can write.
    pub fn write(&mut self, writable: &Writable, offset: u32, value: u32) {
        let index = offset as usize / 4;
        if let (Some(word), Some(mask), true) =
            (self.words.get_mut(index), writable.get(index), offset.is_multiple_of(4))
        {
            *word = (*word & !mask) | (value & mask);
        }
    }

    /// The register's value, for its fields.
    pub const fn read<R: Tied>(&self) -> Word<R> {
        Word::new(self.get(R::REGISTER))
    }

    /// The value of a field that holds a number.
    pub const fn value<R: Tied>(&self, field: Field<u32, R>) -> u32 {
        self.read::<R>().value(field)
    }

    /// Whether a field's bit is set.
    pub const fn is_set<R: Tied>(&self, field: Field<bool, R>) -> bool {
        self.read::<R>().is_set(field)
    }

    /// A field's value; an encoding without a name is unsupported.
    pub fn field<T: FieldValue, R: Tied>(&self, field: Field<T, R>) -> Result<T, Stop> {
        let word = self.read();
        word.get(field).ok_or_else(|| {
            let (register, value, low) = (self.block.register_name(R::REGISTER), word.raw(field), field.lsb());
            let what = format!("{register} holds {value} in bits {low}.., which is no encoding");
            Stop::unsupported(self.block.name(), what)
        })
    }

    /// A 64-bit address from its two registers.
    pub const fn address(&self, high: Register, low: Register) -> u64 {
        ((self.get(high) as u64) << 32) | self.get(low) as u64
    }
}
