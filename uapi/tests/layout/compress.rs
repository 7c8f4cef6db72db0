// SPDX-License-Identifier: GPL-2.0-only OR MIT

use nvdla_uapi::layout::weight::{Compressed, Direct, Geometry, Groups, Surfaces};
use nvdla_uapi::layout::{Extents, Rule};
use nvdla_uapi::reg::values::Precision;
use proptest::prelude::*;

/// The document's steps, on elements.
fn document<G: Groups>(weights: G, mapped: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let bytes = weights.element_bytes() as usize;
    let (mut remaining, mut bits, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    let mut elements = mapped.chunks(bytes);
    for group in 0..weights.groups() {
        let before = remaining.len();
        for _ in 0..weights.group_elements(group) {
            let element = elements.next().unwrap();
            let zero = element.iter().all(|byte| *byte == 0);
            bits.push(!zero);
            if !zero {
                remaining.extend_from_slice(element);
            }
        }
        sizes.extend_from_slice(&((remaining.len() - before) as u32).to_le_bytes());
    }
    let mut mask: Vec<u8> =
        bits.chunks(8).map(|bits| bits.iter().enumerate().map(|(i, bit)| u8::from(*bit) << i).sum()).collect();
    for surface in [&mut remaining, &mut mask, &mut sizes] {
        surface.resize(surface.len().next_multiple_of(128), 0);
    }
    (remaining, mask, sizes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn compression_is_the_documents_and_goes_back(
        kernels in 1..70u32, channels in 1..100u32, rows in 1..4u32, columns in 1..4u32,
        precision in prop_oneof![Just(Precision::Int8), Just(Precision::Int16), Just(Precision::Fp16)],
        group_kernels in prop_oneof![Just(None), (1..9u32).prop_map(Some)], dense in 0..=10u8, seed in any::<u64>(),
    ) {
        let mut geometry = Geometry::documented(precision);
        geometry.group_kernels = group_kernels.unwrap_or(geometry.group_kernels);
        let weights = Direct::new(Extents::new(kernels, channels, rows, columns), geometry).unwrap();
        let mut state = seed;
        let mut mapped = vec![0u8; weights.size() as usize];
        for element in mapped[..weights.mapped_bytes() as usize].chunks_mut(geometry.element_bytes() as usize) {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if (state >> 40) % 10 < u64::from(dense) {
                element.fill((state >> 33) as u8);
            }
        }
        let compressed = Compressed::new(weights);
        let mut surfaces = [compressed.max_size(), compressed.wmb_size(), compressed.wgs_size()].map(|size| vec![0xee; size as usize + 1]);
        let [data, wmb, wgs] = &mut surfaces;
        let sizes = compressed.compress(&mapped, Surfaces { weights: data, wmb, wgs }).unwrap();
        let (expected_data, expected_wmb, expected_wgs) = document(weights, &mapped);
        prop_assert!(data[..sizes.weights as usize] == expected_data);
        prop_assert!(wmb[..sizes.wmb as usize] == expected_wmb);
        prop_assert!(wgs[..sizes.wgs as usize] == expected_wgs);
        prop_assert_eq!((*wmb.last().unwrap(), *wgs.last().unwrap()), (0xee, 0xee));
        let mut back = vec![0xdd; mapped.len()];
        compressed.decompress(Surfaces { weights: data, wmb, wgs }, &mut back).unwrap();
        prop_assert!(back == mapped);
    }
}

#[test]
fn one_bit_per_element_least_significant_first() {
    let weights = Direct::new(Extents::new(1, 12, 1, 1), Geometry::documented(Precision::Int16)).unwrap();
    let mut mapped = vec![0u8; weights.size() as usize];
    for element in [0usize, 3, 9] {
        mapped[element * 2 + element % 2] = 1;
    }
    let compressed = Compressed::new(weights);
    let (mut data, mut wmb, mut wgs) = (vec![9; 128], vec![9; 128], vec![9; 128]);
    let sizes = compressed.compress(&mapped, Surfaces { weights: &mut data, wmb: &mut wmb, wgs: &mut wgs }).unwrap();
    assert_eq!((sizes.weights, sizes.wmb, sizes.wgs), (128, 128, 128));
    assert_eq!(wmb[..3], [0b0000_1001, 0b0000_0010, 0]);
    assert_eq!(wgs[..5], [6, 0, 0, 0, 0]);
    assert_eq!(data[..7], [1, 0, 0, 1, 0, 1, 0]);
    assert_eq!(compressed.mask_bit(weights.offset(0, 9, 0, 0)), (1, 1));
}

#[test]
fn short_surfaces_and_wrong_group_sizes_are_refused() {
    let weights = Direct::new(Extents::new(64, 64, 1, 1), Geometry::documented(Precision::Int8)).unwrap();
    let mapped = vec![1u8; weights.size() as usize];
    let compressed = Compressed::new(weights);
    let try_sizes = |data: usize, wmb: usize, wgs: usize| {
        let (mut data, mut wmb, mut wgs) = (vec![0; data], vec![0; wmb], vec![0; wgs]);
        compressed
            .compress(&mapped, Surfaces { weights: &mut data, wmb: &mut wmb, wgs: &mut wgs })
            .map(|_| (data, wmb, wgs))
    };
    assert_eq!(try_sizes(4000, 512, 128).unwrap_err().rule, Rule::CompressedLength);
    assert_eq!(try_sizes(4096, 511, 128).unwrap_err().rule, Rule::WmbLength);
    assert_eq!(try_sizes(4096, 512, 7).unwrap_err().rule, Rule::WgsLength);
    let (data, wmb, mut wgs) = try_sizes(4096, 512, 128).unwrap();
    let mut back = vec![0; mapped.len()];
    let short = Surfaces { weights: &data[..4095], wmb: &wmb[..], wgs: &wgs[..] };
    assert_eq!(compressed.decompress(short, &mut back).unwrap_err().rule, Rule::CompressedLength);
    wgs[4] ^= 1;
    let error = compressed.decompress(Surfaces { weights: &data, wmb: &wmb, wgs: &wgs }, &mut back).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::WgsValue, 2049, 2048));
}
