// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What a naive implementation of a layout is, and everything that a layout must have in common with it.

use nvdla_uapi::layout::{Element, Extents, Index, Layout, Order};
use std::collections::HashMap;

/// Memory as a list of element-sized slots: which element each holds, or padding.
pub(crate) type Slots = Vec<Option<Index>>;

/// Some values for the elements of a tensor, none of which is zero.
pub(crate) fn values<T: Element>(count: u64) -> Vec<T> {
    (0..count)
        .map(|i| {
            let bits = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7) | 0x0101_0101_0101_0101;
            T::read(&bits.to_le_bytes())
        })
        .collect()
}

/// All indices of a tensor, in NCHW order.
pub(crate) fn indices(extents: Extents) -> impl Iterator<Item = Index> {
    let Extents { n, c, h, w } = extents;
    (0..n).flat_map(move |n| {
        (0..c).flat_map(move |c| (0..h).flat_map(move |h| (0..w).map(move |w| Index::new(n, c, h, w))))
    })
}

/// The slots that a map from offsets to elements makes.
pub(crate) fn slots_from(offsets: impl IntoIterator<Item = (u64, Index)>, element_bytes: u32, size: u64) -> Slots {
    let mut slots = vec![None; (size / u64::from(element_bytes)) as usize];
    for (offset, index) in offsets {
        assert_eq!(offset % u64::from(element_bytes), 0);
        let slot = &mut slots[(offset / u64::from(element_bytes)) as usize];
        assert!(slot.is_none(), "two elements at {offset}");
        *slot = Some(index);
    }
    slots
}

/// Every element has one address, no two share one, all lie inside the size, in both directions and in order; packing
/// puts each element's bytes there and zero elsewhere; unpacking gives the tensor back.
pub(crate) fn check<L: Layout, T: Element + std::fmt::Debug>(layout: L, naive: &Slots) {
    let bytes = u64::from(layout.element_bytes());
    assert_eq!(layout.size(), naive.len() as u64 * bytes, "size");
    check_addresses(&layout, naive);
    let extents = layout.extents();
    let plain: Vec<T> = values(extents.elements());
    let memory_of = |order| {
        let mut memory = vec![0; naive.len() * bytes as usize];
        for (slot, index) in naive.iter().enumerate() {
            if let Some(index) = index {
                plain[extents.plain(order, *index) as usize].write(&mut memory[slot * bytes as usize..]);
            }
        }
        memory
    };
    for order in [Order::Nchw, Order::Nhwc] {
        let mut memory = vec![0xa5; layout.size() as usize + 3];
        layout.pack(order, &plain, &mut memory).unwrap();
        assert_eq!(memory[layout.size() as usize..], [0xa5; 3], "bytes behind the layout");
        memory.truncate(layout.size() as usize);
        assert!(memory == memory_of(order), "packed from {order:?}");
        let mut back = vec![T::default(); plain.len()];
        layout.unpack(order, &memory, &mut back).unwrap();
        assert!(back == plain, "unpacked to {order:?}");
    }
}

/// The part of [`check`] about addresses.
pub(crate) fn check_addresses<L: Layout>(layout: &L, naive: &Slots) {
    let bytes = u64::from(layout.element_bytes());
    let places: HashMap<Index, u64> =
        naive.iter().enumerate().filter_map(|(slot, index)| index.map(|index| (index, slot as u64 * bytes))).collect();
    assert_eq!(places.len() as u64, layout.extents().elements(), "each element once");
    for index in indices(layout.extents()) {
        assert_eq!(layout.offset(index.n, index.c, index.h, index.w), places[&index], "{index:?}");
    }
    for (slot, index) in naive.iter().enumerate() {
        for byte in 0..bytes {
            assert_eq!(layout.at(slot as u64 * bytes + byte), *index, "slot {slot}");
        }
    }
    assert_eq!(layout.at(layout.size()), None);
    let in_order: Vec<_> =
        naive.iter().enumerate().filter_map(|(slot, index)| index.map(|index| (slot as u64 * bytes, index))).collect();
    assert!(layout.elements().eq(in_order), "memory order");
}

/// `values` padded at the end to a multiple of `alignment` slots.
pub(crate) fn pad(slots: &mut Slots, alignment: usize) {
    slots.resize(slots.len().next_multiple_of(alignment), None);
}
