// SPDX-License-Identifier: MIT OR Apache-2.0

//! The register values of one block as a unit sees them when an operation starts.

use nvdla_uapi::reg::{Block, Field, FieldValue, Register};

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

    /// The field's value in that register; an encoding without a name is unsupported.
    pub fn field<T: FieldValue>(&self, register: Register, field: Field<T>) -> Result<T, Stop> {
        let value = self.get(register);
        field.get(value).ok_or_else(|| {
            Stop::unsupported(
                self.block.name(),
                format!(
                    "register {:#x} bits {}.. hold {}, which is no encoding",
                    register.offset,
                    field.lsb(),
                    field.raw(value)
                ),
            )
        })
    }

    /// A 64-bit address from its two registers.
    pub const fn address(&self, high: Register, low: Register) -> u64 {
        ((self.get(high) as u64) << 32) | self.get(low) as u64
    }
}
