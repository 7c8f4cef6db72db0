// SPDX-License-Identifier: MIT OR Apache-2.0

//! The register values of one block when an operation of its unit starts.

use nvdla_uapi::reg::{Block, Field, FieldValue, Register, Tied, Word};

use crate::memory::Stop;

/// Words of a grouped block's register file.
pub const WORDS: usize = 64;

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
        self.words[usize::from(register.offset / 4)] = value;
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
