// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The dependency graph.

use super::types::{Event, OpType};
use super::wire::{descriptor, Descriptor, Error, Part, Wire, PROCESSORS};

/// An edge of the dependency graph: an operation that waits for an event of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// The waiting operation's position in the list.
    pub index: i16,
    /// What it waits for.
    pub event: Event,
}

/// A consumer slot. Bytes of an unused one (index -1) other than its index mean nothing: compilers leave anything there.
impl Wire for Option<Consumer> {
    const SIZE: usize = 4;
    const PARTS: &'static [Part] = &[
        Part { name: "index", offset: 0, size: 2, element: 2, parts: &[] },
        Part { name: "event", offset: 2, size: 1, element: 1, parts: &[] },
    ];
    const ZERO: Self = None;

    fn load(bytes: &[u8]) -> Result<Self, Error> {
        match i16::load(bytes)? {
            -1 => Ok(None),
            index => {
                let event = Event::load(&bytes[2..]).map_err(|error| error.within("event"))?;
                Ok(Some(Consumer { index, event }))
            }
        }
    }

    fn store(&self, bytes: &mut [u8]) {
        match self {
            None => (-1i16).store(bytes),
            Some(consumer) => {
                consumer.index.store(bytes);
                consumer.event.store(&mut bytes[2..]);
            }
        }
    }
}

descriptor! {
    /// An entry of the dependency graph.
    CommonOp ("dependency graph entry", 36, common_op) {
        /// The operation's position in the list. The old driver writes it; no driver reads it from a loadable.
        0 index: i16;
        /// The region of interest; the old driver writes it.
        2 roi_index: i8;
        /// The processor.
        3 op_type: OpType;
        /// How many events it waits for.
        4 dependency_count: u8;
        /// The operations that wait for this one, one slot per processor.
        8 consumers: [Option<Consumer>; PROCESSORS];
        /// The operation that this one gets its input from on the fly and that waits for it to be enabled.
        32 fused_parent: Option<Consumer>;
    }
}

impl CommonOp {
    /// The processor in the entry at the start of `bytes`, without checking the rest.
    pub fn peek_op_type(bytes: &[u8]) -> Result<OpType, Error> {
        match bytes.get(common_op::op_type..Self::SIZE) {
            Some(bytes) => OpType::load(bytes).map_err(|error| error.within("op_type")),
            None => Err(Error::Short { descriptor: Self::NAME, needed: Self::SIZE, available: bytes.len() }),
        }
    }
}
