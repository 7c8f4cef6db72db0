// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables that say when a shifted product is one below its floor.
//!
//! The hardware shifts the sum and the carry of its Booth multiplier separately ([`fp16::product`]), so it loses the
//! carry out of their low bits. For a shift by 4 or 8, that carry depends only on the low 4 or 8 bits of the two
//! significands and on the product's sign. A row of 512 bits therefore gives the carry of one datum with all weights.
//! There is one row per low bits and sign of a datum. The weight's low byte and sign select the bit.

use std::sync::OnceLock;

use super::super::super::fp16;

/// The carries of one datum.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Row(pub [u8; 64]);

/// The rows for both shifts.
#[derive(Debug)]
pub struct Tables {
    /// For a shift by 4, indexed by sign and the low 4 bits of the datum.
    pub by_4: [Row; 32],
    /// For a shift by 8, indexed by sign and the low 8 bits of the datum.
    pub by_8: [Row; 512],
}

/// The byte of a row, and the bit in it, for a weight.
pub const fn place(significand: i16) -> (u8, u8) {
    let low = significand.unsigned_abs() as u8;
    (low >> 3 | ((significand < 0) as u8) << 5, 1 << (low & 7))
}

/// Whether the carry of the low `shift` bits is lost.
const fn loses(negative: bool, weight: u32, data: u32, shift: u32) -> bool {
    let (sum, carry) = fp16::booth(negative, weight, data);
    let mask = (1 << shift) - 1;
    (sum & mask) + (carry & mask) > mask
}

/// Computes a datum's row.
const fn row(negative: bool, data: u32, shift: u32) -> Row {
    let mut bytes = [0; 64];
    let mut index = 0;
    while index < 512 {
        let weight_negative = index >= 256;
        if loses(negative != weight_negative, index & 0xff, data, shift) {
            bytes[index as usize / 8] |= 1 << (index % 8);
        }
        index += 1;
    }
    Row(bytes)
}

impl Tables {
    /// The tables, which are computed at the first call.
    pub fn get() -> &'static Self {
        static TABLES: OnceLock<Box<Tables>> = OnceLock::new();
        TABLES.get_or_init(|| {
            Box::new(Self {
                by_4: std::array::from_fn(|index| row(index >= 16, index as u32 & 15, 4)),
                by_8: std::array::from_fn(|index| row(index >= 256, index as u32 & 255, 8)),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_low_bits_decide() {
        let tables = Tables::get();
        for weight in (0..0x4000).step_by(29) {
            for data in (0..0x4000).step_by(31) {
                for (weight_negative, data_negative) in [(false, false), (false, true), (true, false), (true, true)] {
                    let significand = if weight_negative { -weight } else { weight } as i16;
                    let (byte, bit) = place(significand);
                    let product = if weight_negative == data_negative { weight * data } else { -weight * data };
                    // A significand of zero has no sign, and no product.
                    if weight == 0 {
                        continue;
                    }
                    for (shift, rows, mask) in [(4, &tables.by_4[..], 15), (8, &tables.by_8[..], 255)] {
                        let row = &rows[(data & mask) as usize + if data_negative { rows.len() / 2 } else { 0 }];
                        let below = i32::from(row.0[byte as usize] & bit != 0);
                        let exact = fp16::product(product < 0, weight as u32, data as u32, shift);
                        if product != 0 {
                            assert_eq!(exact, (product >> shift) - below, "{weight} {data} {shift}");
                        }
                    }
                }
            }
        }
    }
}
