// SPDX-License-Identifier: MIT OR Apache-2.0

//! What was decoded from registers, kept for the next time that the same registers come.
//!
//! A network runs again and again with the same registers in the same order, so the value that follows the last one is tried first.

use std::sync::Arc;

use crate::registers::Registers;

/// The largest number of values, of a few kilobytes each.
const MOST: usize = 512;

/// The last decoded values.
#[derive(Debug)]
pub(crate) struct Recent<T, const N: usize> {
    all: Vec<([Registers; N], Arc<T>)>,
    next: usize,
}

impl<T, const N: usize> Default for Recent<T, N> {
    fn default() -> Self {
        Self { all: Vec::new(), next: 0 }
    }
}

impl<T, const N: usize> Recent<T, N> {
    /// The value of these registers, which `decode` computes if it is not kept. `None` if there is none.
    pub(crate) fn get(&mut self, registers: [&Registers; N], decode: impl FnOnce() -> Option<T>) -> Option<Arc<T>> {
        let Self { all, next } = self;
        let is_same = |(kept, _): &([Registers; N], Arc<T>)| kept.iter().zip(registers).all(|(kept, now)| kept == now);
        let first = if *next < all.len() { *next } else { 0 };
        let found = match all.get(first) {
            Some(kept) if is_same(kept) => Some(first),
            _ => all.iter().position(is_same),
        };
        if let Some(found) = found {
            *next = found + 1;
            return Some(Arc::clone(&all[found].1));
        }
        let value = Arc::new(decode()?);
        if all.len() == MOST {
            all.clear();
        }
        all.push((registers.map(Registers::clone), Arc::clone(&value)));
        *next = all.len();
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::reg::{sdp, Block};

    use super::*;

    #[test]
    fn values_are_those_of_their_registers() {
        let mut recent = Recent::<u32, 1>::default();
        let mut decoded = 0;
        let mut get = |number: u32| {
            let mut registers = Registers::reset(Block::Sdp);
            registers.set(sdp::D_DST_BASE_ADDR_LOW, number);
            let value = recent.get([&registers], || {
                decoded += 1;
                (number != 7).then_some(number)
            });
            (value.map(|value| *value), decoded)
        };
        let most = MOST as u32;
        // The same order again, another order, and a value that cannot be decoded.
        assert_eq!(
            [1, 2, 3, 1, 2, 3, 2, 1, 4, 1].map(|number| get(number).0),
            [1, 2, 3, 1, 2, 3, 2, 1, 4, 1].map(Some)
        );
        assert_eq!(get(2), (Some(2), 4));
        assert_eq!([get(7), get(7)], [(None, 5), (None, 6)]);
        // As many as are kept, and one more, after which the first must be decoded again.
        assert_eq!((10..10 + most - 4).map(|number| get(number).1).last(), Some(6 + most - 4));
        assert_eq!(get(1), (Some(1), 2 + most));
        assert_eq!(get(8), (Some(8), 3 + most));
        assert_eq!(get(1), (Some(1), 4 + most));
    }
}
