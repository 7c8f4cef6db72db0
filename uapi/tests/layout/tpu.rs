// SPDX-License-Identifier: GPL-2.0-only OR MIT

use crate::naive::{indices, slots_from, values, Slots};
use nvdla_uapi::layout::tpu::{Local, Matrix, Memory, Mode, Packed, Strides, System, Usage};
use nvdla_uapi::layout::{Element, Extents, Index, Layout, Order, Rule};
use proptest::prelude::*;

/// The document's small machine.
fn four() -> Memory {
    Memory::new(4, 1024).unwrap()
}

/// A machine with as many NPUs as given and with enough memory.
fn machine(npus: u32) -> Memory {
    Memory::new(npus, 1 << 14).unwrap()
}

/// Packing writes each element to its address and nothing else (but zero to `dummies`); unpacking reads it back.
fn check_transfer<L: Layout, T: Element + std::fmt::Debug>(layout: L, naive: &Slots, dummies: &[u64]) {
    let bytes = layout.element_bytes() as usize;
    let extents = layout.extents();
    let plain: Vec<T> = values(extents.elements());
    for order in [Order::Nchw, Order::Nhwc] {
        let mut expected = vec![0xa5; layout.size() as usize];
        for (slot, index) in naive.iter().enumerate() {
            if let Some(index) = index {
                plain[extents.plain(order, *index) as usize].write(&mut expected[slot * bytes..]);
            }
        }
        for dummy in dummies {
            expected[*dummy as usize..][..bytes].fill(0);
        }
        let mut memory = vec![0xa5; layout.size() as usize];
        layout.pack(order, &plain, &mut memory).unwrap();
        assert!(memory == expected, "packed from {order:?}");
        let mut back = vec![T::default(); plain.len()];
        layout.unpack(order, &memory, &mut back).unwrap();
        assert!(back == plain, "unpacked to {order:?}");
    }
}

fn check<L: Layout>(layout: L, naive: &Slots, dummies: &[u64]) {
    crate::naive::check_addresses(&layout, naive);
    match layout.element_bytes() {
        1 => check_transfer::<_, i8>(layout, naive, dummies),
        2 => check_transfer::<_, u16>(layout, naive, dummies),
        4 => check_transfer::<_, u32>(layout, naive, dummies),
        _ => check_transfer::<_, u64>(layout, naive, dummies),
    }
}

/// Walks channels over NPUs as the document does: one NPU after the other, and after the last a new row of blocks.
fn scatter(npus: u32, start: u32, channels: u32) -> Vec<(u32, u32)> {
    let (mut npu, mut row) = (start, 0);
    (0..channels)
        .map(|_| {
            let here = (npu, row);
            npu += 1;
            if npu == npus {
                (npu, row) = (0, row + 1);
            }
            here
        })
        .collect()
}

/// The addresses of a tensor's elements with strides in elements.
fn addresses(memory: Memory, address: u64, extents: Extents, element: u64, strides: Strides) -> Vec<(u64, Index)> {
    let places = scatter(memory.npus(), (address / memory.bytes()) as u32, extents.c);
    indices(extents)
        .map(|at| {
            let (npu, row) = places[at.c as usize];
            let elements = u64::from(at.n) * strides.n
                + u64::from(row) * strides.c
                + u64::from(at.h) * strides.h
                + u64::from(at.w) * strides.w;
            (u64::from(npu) * memory.bytes() + address % memory.bytes() + elements * element, at)
        })
        .collect()
}

#[test]
fn addresses_of_the_figure() {
    let memory = four();
    for (address, place) in [(340, (0, 340)), (1472, (1, 448)), (2300, (2, 252)), (3088, (3, 16))] {
        assert_eq!(memory.locate(address), Ok(place));
        assert_eq!(memory.address(place.0, place.1), Ok(address));
    }
    assert_eq!(memory.locate(4095), Ok((3, 1023)));
    let error = memory.locate(4096).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::TpuAddress, 4096, 4095));
    assert_eq!(memory.address(4, 0).unwrap_err().rule, Rule::TpuAddress);
    assert_eq!(memory.address(0, 1024).unwrap_err().rule, Rule::TpuAddress);
    assert_eq!(Memory::new(0, 1).unwrap_err().rule, Rule::TpuMemory);
}

#[test]
fn scatters_of_the_figures() {
    // (channels, start NPU) -> channels per NPU, with X NPUs.
    for npus in [4u32, 8, 64] {
        let cases = [(npus - 1, 0, 1), (npus - 1, 1, 1), (npus + 2, 0, 2), (npus + 2, npus - 1, 3)];
        for (channels, start, per_npu) in cases {
            let memory = machine(npus);
            let address = memory.address(start, 0).unwrap();
            let tensor = Local::compact(memory, address, Extents::new(2, channels, 1, 1), 4).unwrap();
            assert_eq!(tensor.channels_per_npu(), per_npu);
            for (c, place) in scatter(npus, start, channels).into_iter().enumerate() {
                assert_eq!((tensor.npu(c as u32), tensor.row(c as u32)), place);
                assert_eq!(tensor.channel(place.0, place.1), Some(c as u32));
            }
        }
        let of = |channels, start| {
            let memory = machine(npus);
            Local::compact(memory, memory.address(start, 0).unwrap(), Extents::new(2, channels, 1, 1), 4).unwrap()
        };
        // C = X - 1 from NPU 0: none in the last; from NPU 1: none in the first.
        assert_eq!(of(npus - 1, 0).channels_in(npus - 1), 0);
        assert_eq!(of(npus - 1, 1).channels_in(0), 0);
        // C = X + 2 from NPU 0: channels X and X + 1 in NPUs 0 and 1, X - 2 empty blocks in the second row.
        let wide = of(npus + 2, 0);
        assert_eq!((wide.npu(npus), wide.npu(npus + 1)), (0, 1));
        assert_eq!((0..npus).filter(|npu| wide.channel(*npu, 1).is_none()).count() as u32, npus - 2);
        // C = X + 2 from NPU X - 1: X - 1 empty blocks in each of the first and third row.
        let late = of(npus + 2, npus - 1);
        for row in [0, 2] {
            assert_eq!((0..npus).filter(|npu| late.channel(*npu, row).is_none()).count() as u32, npus - 1);
        }
        assert_eq!((0..npus).filter(|npu| late.channel(*npu, 1).is_none()).count(), 0);
        // Two channels share an NPU exactly where they are equal modulo X; batches always do.
        for a in 0..npus + 2 {
            for b in 0..npus + 2 {
                assert_eq!(wide.npu(a) == wide.npu(b), a % npus == b % npus);
            }
        }
    }
}

#[test]
fn strides_of_the_figures() {
    let strides = Strides { n: 120, c: 56, h: 16, w: 2 };
    let tensor = Local::strided(four(), 0, Extents::new(2, 5, 3, 4), 4, strides).unwrap();
    assert_eq!(tensor.channels_per_npu(), 2);
    let base = tensor.npu_offset(0, 0, 0, 0);
    assert_eq!(tensor.npu_offset(1, 0, 0, 0) - base, 120 * 4);
    assert_eq!((tensor.npu(4), tensor.npu_offset(0, 4, 0, 0) - base), (0, 56 * 4));
    assert_eq!(tensor.npu_offset(0, 0, 1, 0) - base, 16 * 4);
    assert_eq!(tensor.npu_offset(0, 0, 0, 1) - base, 2 * 4);
    // H = 1 and one channel in each NPU: H and C stride make no sense, so any value will do.
    let from_one = four().address(1, 0).unwrap();
    let extents = Extents::new(2, 3, 1, 10);
    for (c, h) in [(0, 0), (7, 3), (1 << 40, 1)] {
        let tensor = Local::strided(four(), from_one, extents, 4, Strides { n: 120, c, h, w: 2 }).unwrap();
        assert_eq!(tensor.channels_per_npu(), 1);
        assert_eq!((tensor.npu(0), tensor.npu(1), tensor.npu(2)), (1, 2, 3));
        assert_eq!(tensor.npu_offset(1, 2, 0, 9), 120 * 4 + 9 * 8);
    }
}

#[test]
fn continuous_strides() {
    let tensor = System::continuous(Extents::new(2, 3, 4, 5), 4).unwrap();
    assert_eq!(tensor.strides(), Strides { n: 60, c: 20, h: 5, w: 1 });
    assert_eq!(tensor.size(), 120 * 4);
}

#[test]
fn aligned_layout_of_the_figures() {
    let memory = machine(4);
    let extents = Extents::new(2, 3, 4, 5);
    // fp32: ceil(20 / 32) * 32 = 32, 12 empty blocks behind each feature.
    let tensor = Local::aligned(memory, 0, extents, 4).unwrap();
    assert_eq!(tensor.strides(), Strides { n: 32, c: 32, h: 5, w: 1 });
    assert_eq!(tensor.channels_per_npu(), 1);
    assert_eq!(tensor.usage(0), Usage { reserved: 2 * 32 * 4, used: 2 * 20 * 4 });
    assert_eq!(tensor.usage(0).wasted(), 2 * 12 * 4);
    assert_eq!(tensor.usage(3).used, 0);
    // From NPU 2: two channels per NPU, N stride 32 * 2.
    let tensor = Local::aligned(memory, memory.address(2, 0).unwrap(), extents, 4).unwrap();
    assert_eq!(tensor.strides(), Strides { n: 64, c: 32, h: 5, w: 1 });
    assert_eq!(tensor.channels_per_npu(), 2);
    assert_eq!((tensor.npu(2), tensor.npu_offset(0, 2, 0, 0)), (0, 32 * 4));
    assert_eq!((0..4).map(|npu| tensor.usage(npu).used).collect::<Vec<_>>(), [160, 0, 160, 160]);
    assert_eq!(tensor.usage(1), Usage { reserved: 2 * 64 * 4, used: 0 });
    // 16-bit: multiples of 64 elements; 8-bit: of 128.
    for (element, unit) in [(4, 32), (2, 64), (1, 128)] {
        for (h, w) in [(1, 1), (4, 5), (8, 8), (13, 11)] {
            let tensor = Local::aligned(memory, 128, Extents::new(1, 1, h, w), element).unwrap();
            assert_eq!(tensor.strides().c, u64::from((h * w).div_ceil(unit) * unit));
        }
    }
    let error = Local::aligned(memory, 64, extents, 4).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::TpuAligned, 64, 128));
}

#[test]
fn compact_layout_of_the_figures() {
    let memory = machine(4);
    let extents = Extents::new(2, 3, 4, 5);
    let tensor = Local::compact(memory, 0, extents, 4).unwrap();
    assert_eq!(tensor.strides(), Strides { n: 20, c: 20, h: 5, w: 1 });
    assert_eq!(tensor.usage(0).wasted(), 0);
    let tensor = Local::compact(memory, memory.address(2, 0).unwrap(), extents, 4).unwrap();
    assert_eq!(tensor.strides(), Strides { n: 40, c: 20, h: 5, w: 1 });
    assert_eq!((0..4).map(|npu| tensor.usage(npu).wasted()).collect::<Vec<_>>(), [160, 320, 160, 160]);
    let error = Local::compact(memory, 2, extents, 4).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::TpuCompact, 2, 4));
}

#[test]
fn matrices_of_the_figures() {
    // W -> channels, blocks of one row in each NPU, columns of the last channel.
    let cases = [(40, 1, 64, 40), (20, 2, 32, 20), (10, 4, 32, 10), (8, 5, 64, 8), (15, 3, 32, 10), (6, 7, 64, 4)];
    for (width, channels, blocks, last) in cases {
        let matrix = Matrix::new(machine(4), 0, 2, 40, width, 4).unwrap();
        assert_eq!(matrix.tensor().extents(), Extents::new(2, channels, 1, width));
        assert_eq!(matrix.tensor().strides().n, blocks, "W = {width}");
        assert_eq!(matrix.last_columns(), last);
        assert_eq!(matrix.usage(0).reserved, 2 * blocks * 4);
        let used: u64 = (0..4).map(|npu| matrix.usage(npu).used).sum();
        assert_eq!(used, 2 * 40 * 4);
    }
    // W = 15: 15 elements of a row in NPUs 0 and 1, 10 in NPU 2.
    let matrix = Matrix::new(machine(4), 0, 2, 40, 15, 4).unwrap();
    assert_eq!((0..4).map(|npu| matrix.usage(npu).used / 8).collect::<Vec<_>>(), [15, 15, 10, 0]);
    // More memory for W = 6 than for W = 15.
    assert!(Matrix::new(machine(4), 0, 2, 40, 6, 4).unwrap().usage(0).reserved > matrix.usage(0).reserved);
    let error = Matrix::new(machine(4), 0, 2, 40, 41, 4).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::TpuMatrixWidth, 41, 40));
}

#[test]
fn four_n_mode_of_the_figure() {
    let memory = machine(4);
    let tensor = Packed::aligned(Mode::FourN, memory, 0, Extents::new(6, 5, 4, 5)).unwrap();
    assert_eq!(tensor.wide().extents(), Extents::new(2, 5, 4, 5));
    assert_eq!((tensor.wide().element_bytes(), tensor.dummies()), (4, 2));
    // int8x4 at (1, 0, 0, 0) holds (4, 0, 0, 0), (5, 0, 0, 0) and two dummies.
    let start = tensor.wide().offset(1, 0, 0, 0);
    assert_eq!((tensor.offset(4, 0, 0, 0), tensor.offset(5, 0, 0, 0)), (start, start + 1));
    assert_eq!((tensor.at(start + 1), tensor.at(start + 2)), (Some(Index::new(5, 0, 0, 0)), None));
    assert_eq!(tensor.wide().strides(), Strides { n: 64, c: 32, h: 5, w: 1 });
    assert_eq!(tensor.usage(0), Usage { reserved: 2 * 64 * 4, used: 2 * 20 * 6 });
    assert_eq!(tensor.usage(1).used, 20 * 6);
}

#[test]
fn two_n_and_two_ic_modes() {
    let memory = machine(4);
    let tensor = Packed::aligned(Mode::TwoN, memory, 0, Extents::new(3, 5, 4, 5)).unwrap();
    assert_eq!(tensor.wide().extents(), Extents::new(2, 5, 4, 5));
    assert_eq!((tensor.wide().element_bytes(), tensor.dummies()), (4, 1));
    let start = tensor.wide().offset(1, 0, 0, 0);
    assert_eq!((tensor.offset(2, 0, 0, 0), tensor.at(start + 2)), (start, None));
    let weights = Packed::compact(Mode::TwoIc, memory, 0, Extents::new(3, 4, 3, 3)).unwrap();
    assert_eq!((weights.wide().extents(), weights.wide().element_bytes()), (Extents::new(2, 4, 3, 3), 8));
    assert_eq!((weights.dummies(), weights.offset(1, 2, 1, 1) - weights.offset(0, 2, 1, 1)), (1, 4));
    let even = Packed::compact(Mode::TwoIc, memory, 0, Extents::new(4, 4, 3, 3)).unwrap();
    assert_eq!(even.dummies(), 0);
}

#[test]
fn errors_name_the_rule_and_the_values() {
    let extents = Extents::new(2, 3, 4, 5);
    let error = Local::strided(four(), 0, extents, 4, Strides { n: 100, c: 0, h: 8, w: 2 }).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::TpuOverlap, 8, 9));
    let error = Local::aligned(four(), 896, extents, 4).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::TpuCapacity, 896 + (32 + 20) * 4, 1024));
    assert_eq!(Local::compact(four(), 0, extents, 3).unwrap_err().rule, Rule::TpuElement);
    assert_eq!(System::continuous(extents, 16).unwrap_err().rule, Rule::TpuElement);
}

fn extents() -> impl Strategy<Value = Extents> {
    (1..4u32, 1..14u32, 1..4u32, 1..5u32).prop_map(|(n, c, h, w)| Extents::new(n, c, h, w))
}

fn element() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1u32), Just(2), Just(4)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn aligned_and_compact_are_the_documents(extents in extents(), element in element(), npus in 1..6u32, start in 0..6u32, block in 0..3u64) {
        let memory = machine(npus);
        let address = memory.address(start % npus, block * 128).unwrap();
        let per_npu = u64::from((start % npus + extents.c).div_ceil(npus));
        let plane = u64::from(extents.h * extents.w);
        let unit = 128 / u64::from(element);
        for (tensor, c) in [
            (Local::aligned(memory, address, extents, element).unwrap(), plane.div_ceil(unit) * unit),
            (Local::compact(memory, address, extents, element).unwrap(), plane),
        ] {
            let strides = Strides { n: c * per_npu, c, h: u64::from(extents.w), w: 1 };
            prop_assert_eq!(tensor.strides(), strides);
            let naive = slots_from(addresses(memory, address, extents, u64::from(element), strides), element, memory.size());
            check(tensor, &naive, &[]);
            for npu in 0..npus {
                let from = (u64::from(npu) * memory.bytes() / u64::from(element)) as usize;
                let slots = &naive[from..from + (memory.bytes() / u64::from(element)) as usize];
                let used = slots.iter().flatten().count() as u64 * u64::from(element);
                prop_assert_eq!(tensor.usage(npu), Usage { reserved: u64::from(extents.n) * strides.n * u64::from(element), used });
            }
        }
    }

    #[test]
    fn strided_tensors_are_the_documents(extents in extents(), element in element(), npus in 1..6u32, start in 0..6u32, gaps in prop::array::uniform4(0..3u64), outer in any::<bool>()) {
        let memory = machine(npus);
        let address = memory.address(start % npus, 4).unwrap();
        let per_npu = u64::from((start % npus + extents.c).div_ceil(npus));
        let w = 1 + gaps[0];
        let h = w * u64::from(extents.w) + gaps[1];
        let inner = h * u64::from(extents.h) + gaps[2];
        // Either of N and C may be the outermost.
        let (n, c) = if outer { (inner * per_npu + gaps[3], inner) } else { (inner, inner * u64::from(extents.n) + gaps[3]) };
        let strides = Strides { n, c, h, w };
        let tensor = Local::strided(memory, address, extents, element, strides).unwrap();
        let naive = slots_from(addresses(memory, address, extents, u64::from(element), strides), element, memory.size());
        check(tensor, &naive, &[]);
    }

    #[test]
    fn system_tensors_are_the_documents(extents in extents(), element in element(), gaps in prop::array::uniform4(0..3u64)) {
        let w = 1 + gaps[0];
        let h = w * u64::from(extents.w) + gaps[1];
        let c = h * u64::from(extents.h) + gaps[2];
        let strides = Strides { n: c * u64::from(extents.c) + gaps[3], c, h, w };
        let tensor = System::strided(extents, element, strides).unwrap();
        let offsets = indices(extents).map(|at| {
            let elements = u64::from(at.n) * strides.n + u64::from(at.c) * c + u64::from(at.h) * h + u64::from(at.w) * w;
            (elements * u64::from(element), at)
        });
        crate::naive::check_addresses(&tensor, &slots_from(offsets, element, tensor.size()));
        let continuous = System::continuous(extents, element).unwrap();
        let offsets = indices(extents).enumerate().map(|(i, at)| (i as u64 * u64::from(element), at));
        crate::naive::check_addresses(&continuous, &slots_from(offsets, element, continuous.size()));
    }

    #[test]
    fn matrices_are_tensors(rows in 1..4u32, columns in 1..60u32, width in 1..60u32, npus in 1..6u32, element in element()) {
        let width = width.min(columns);
        let memory = machine(npus);
        let channels = columns.div_ceil(width);
        let c = u64::from(width).div_ceil(128 / u64::from(element)) * (128 / u64::from(element));
        let strides = Strides { n: c * u64::from(channels.div_ceil(npus)), c, h: u64::from(width), w: 1 };
        prop_assume!(u64::from(rows) * strides.n * u64::from(element) <= memory.bytes());
        let matrix = Matrix::new(memory, 0, rows, columns, width, element).unwrap();
        let tensor = addresses(memory, 0, Extents::new(rows, channels, 1, width), u64::from(element), strides);
        let naive = tensor.into_iter().filter_map(|(address, at)| {
            let column = at.c * width + at.w;
            (column < columns).then(|| (address, Index::new(at.n, 0, 0, column)))
        });
        let naive = slots_from(naive, element, memory.size());
        check(matrix, &naive, &[]);
        for npu in 0..npus {
            let from = (u64::from(npu) * memory.bytes() / u64::from(element)) as usize;
            let slots = &naive[from..from + (memory.bytes() / u64::from(element)) as usize];
            prop_assert_eq!(matrix.usage(npu).used, slots.iter().flatten().count() as u64 * u64::from(element));
        }
    }

    #[test]
    fn storage_modes_are_the_documents(extents in (1..10u32, 1..9u32, 1..4u32, 1..5u32), npus in 1..5u32, which in 0..3usize, aligned in any::<bool>()) {
        let (n, c, h, w) = extents;
        let extents = Extents::new(n, c, h, w);
        let mode = [Mode::FourN, Mode::TwoN, Mode::TwoIc][which];
        let (lanes, element) = [(4, 1), (2, 2), (2, 4)][which];
        let memory = machine(npus);
        let tensor = if aligned { Packed::aligned(mode, memory, 0, extents) } else { Packed::compact(mode, memory, 0, extents) }.unwrap();
        let wide_extents = Extents { n: n.div_ceil(lanes), ..extents };
        let wide_bytes = u64::from(lanes * element);
        let unit = if aligned { 128 / wide_bytes } else { 1 };
        let cs = u64::from(h * w).div_ceil(unit) * unit;
        let strides = Strides { n: cs * u64::from(c.div_ceil(npus)), c: cs, h: u64::from(w), w: 1 };
        let mut dummies = Vec::new();
        let mut naive = Vec::new();
        for (address, at) in addresses(memory, 0, wide_extents, wide_bytes, strides) {
            for lane in 0..lanes {
                let place = address + u64::from(lane * element);
                let n = at.n * lanes + lane;
                if n < extents.n {
                    naive.push((place, Index { n, ..at }));
                } else {
                    dummies.push(place);
                }
            }
        }
        prop_assert_eq!(tensor.dummies(), n.next_multiple_of(lanes) - n);
        check(tensor, &slots_from(naive, element, memory.size()), &dummies);
    }

    #[test]
    fn nothing_panics(npus in any::<u32>(), bytes in any::<u64>(), address in any::<u64>(), n in any::<u32>(), c in any::<u32>(), h in any::<u32>(), w in any::<u32>(), strides in prop::array::uniform4(any::<u64>()), element in 0..10u32) {
        let extents = Extents::new(n, c, h, w);
        let [sn, sc, sh, sw] = strides;
        let strides = Strides { n: sn, c: sc, h: sh, w: sw };
        let _ = System::strided(extents, element, strides);
        if let Ok(memory) = Memory::new(npus, bytes) {
            let _ = memory.locate(address);
            let address = address % memory.size() / 128 * 128;
            let _ = Local::strided(memory, address, extents, element, strides);
            let _ = Local::aligned(memory, address, extents, element);
            let _ = Local::compact(memory, address, extents, element);
            let _ = Matrix::new(memory, address, n, c, w, element);
            let _ = Packed::aligned(Mode::FourN, memory, address, extents);
        }
    }
}
