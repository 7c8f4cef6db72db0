// SPDX-License-Identifier: MIT OR Apache-2.0

//! The two lookup tables, and the counters of their use.

use nvdla_uapi::reg::sdp::{S_LUT_ACCESS_CFG, S_LUT_CFG};
use nvdla_uapi::reg::values::{LutAccess, LutTable};
use nvdla_uapi::reg::Word;

/// Entries of the LE table.
pub const LE_ENTRIES: usize = 65;

/// Entries of the LO table.
pub const LO_ENTRIES: usize = 257;

/// The two tables and the registers through which they are read and written.
///
/// SDP's and CDP's access registers have the same fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    pub(super) le: [i16; LE_ENTRIES],
    pub(super) lo: [i16; LO_ENTRIES],
    pub(super) access: u32,
}

impl Default for Tables {
    fn default() -> Self {
        Self { le: [0; LE_ENTRIES], lo: [0; LO_ENTRIES], access: 0 }
    }
}

impl Tables {
    /// The LE table.
    pub const fn le(&self) -> &[i16; LE_ENTRIES] {
        &self.le
    }

    /// The LO table.
    pub const fn lo(&self) -> &[i16; LO_ENTRIES] {
        &self.lo
    }

    /// Writes `S_LUT_ACCESS_CFG`: the table, the entry, and whether the data register is to be read or written.
    pub fn write_access(&mut self, value: u32) {
        self.access = value
            & (S_LUT_ACCESS_CFG::LUT_ADDR.mask()
                | S_LUT_ACCESS_CFG::LUT_TABLE_ID.mask()
                | S_LUT_ACCESS_CFG::LUT_ACCESS_TYPE.mask());
    }

    /// `S_LUT_ACCESS_CFG`, which is the same in SDP and CDP.
    const fn access(&self) -> Word<S_LUT_ACCESS_CFG> {
        Word::new(self.access)
    }

    /// Reads `S_LUT_ACCESS_CFG`.
    pub const fn read_access(&self) -> u32 {
        self.access
    }

    /// Writes `S_LUT_ACCESS_DATA`: sets the entry and advances to the next. Nothing happens if the access is configured as a
    /// read, or if the table does not have the entry.
    pub fn write_data(&mut self, value: u32) {
        if self.access().get(S_LUT_ACCESS_CFG::LUT_ACCESS_TYPE) != Some(LutAccess::Write) {
            return;
        }
        let index = self.access().value(S_LUT_ACCESS_CFG::LUT_ADDR) as usize;
        let table = match self.access().get(S_LUT_ACCESS_CFG::LUT_TABLE_ID) {
            Some(LutTable::Lo) => &mut self.lo[..],
            _ => &mut self.le[..],
        };
        if let Some(entry) = table.get_mut(index) {
            *entry = value as i16;
            self.advance();
        }
    }

    /// Reads `S_LUT_ACCESS_DATA`: the entry, and advances to the next. Zero if the access is configured as a write, or if the
    /// table does not have the entry.
    pub fn read_data(&mut self) -> u32 {
        if self.access().get(S_LUT_ACCESS_CFG::LUT_ACCESS_TYPE) != Some(LutAccess::Read) {
            return 0;
        }
        let index = self.access().value(S_LUT_ACCESS_CFG::LUT_ADDR) as usize;
        let table = self.selected();
        let Some(&entry) = table.get(index) else { return 0 };
        self.advance();
        u32::from(entry as u16)
    }

    /// The table that the access registers name.
    pub(super) fn selected(&self) -> &[i16] {
        match self.access().get(S_LUT_ACCESS_CFG::LUT_TABLE_ID) {
            Some(LutTable::Lo) => &self.lo,
            _ => &self.le,
        }
    }

    /// The entry after an access. The last entry is not advanced.
    pub(super) fn advance(&mut self) {
        let index = self.access().value(S_LUT_ACCESS_CFG::LUT_ADDR);
        if (index as usize) < self.selected().len() - 1 {
            self.access += S_LUT_ACCESS_CFG::LUT_ADDR.put(1);
        }
    }
}

/// The position of a value in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// At or below the start: the slope of the underflow continues the table.
    Under,
    /// At or above the last entry: the slope of the overflow continues the table.
    Over,
    /// Between entry `index` and the next, `fraction` of the way.
    Hit {
        /// The entry below.
        index: usize,
        /// The fraction. The unit defines its number of bits.
        fraction: u64,
    },
}

impl Position {
    /// Whether the table contains the value.
    pub const fn is_hit(self) -> bool {
        matches!(self, Self::Hit { .. })
    }
}

/// Which table's result is used if both tables, or neither, contain the value (`S_LUT_CFG`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priorities {
    /// Both underflow.
    pub under: LutTable,
    /// Both overflow.
    pub over: LutTable,
    /// Both hit, or one underflows and the other overflows.
    pub hybrid: LutTable,
}

impl Priorities {
    /// The priorities in `S_LUT_CFG` of SDP or CDP.
    pub fn from_register(value: u32) -> Self {
        let table = |field| Word::<S_LUT_CFG>::new(value).get(field).unwrap_or(LutTable::Le);
        Self {
            under: table(S_LUT_CFG::LUT_UFLOW_PRIORITY),
            over: table(S_LUT_CFG::LUT_OFLOW_PRIORITY),
            hybrid: table(S_LUT_CFG::LUT_HYBRID_PRIORITY),
        }
    }

    /// The table whose result is used.
    pub const fn choose(self, le: Position, lo: Position) -> LutTable {
        match (le, lo) {
            (Position::Under, Position::Under) => self.under,
            (Position::Over, Position::Over) => self.over,
            _ => match (le.is_hit(), lo.is_hit()) {
                (true, false) => LutTable::Le,
                (false, true) => LutTable::Lo,
                _ => self.hybrid,
            },
        }
    }
}

/// The counters of lookups (`D_PERF_LUT_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// `LUT_UFLOW`.
    pub under: u32,
    /// `LUT_OFLOW`.
    pub over: u32,
    /// `LUT_HYBRID`.
    pub hybrid: u32,
    /// `LUT_LE_HIT`.
    pub le_hit: u32,
    /// `LUT_LO_HIT`.
    pub lo_hit: u32,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.under = self.under.wrapping_add(other.under);
        self.over = self.over.wrapping_add(other.over);
        self.hybrid = self.hybrid.wrapping_add(other.hybrid);
        self.le_hit = self.le_hit.wrapping_add(other.le_hit);
        self.lo_hit = self.lo_hit.wrapping_add(other.lo_hit);
    }
}
