// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The parts that other code builds addresses from give the addresses of the whole layouts.

use nvdla_uapi::layout::feature::{Atoms, Cells, Cube, View};
use nvdla_uapi::layout::{Extents, Layout, Nest};
use nvdla_uapi::reg::values::Precision;
use proptest::prelude::*;

fn precision() -> impl Strategy<Value = Precision> {
    prop::sample::select(vec![Precision::Int8, Precision::Int16, Precision::Fp16])
}

proptest! {
    /// Each channel is in one surface; the number of surfaces and the length of lines are those of a cube.
    #[test]
    fn atoms_are_those_of_cubes(
        bytes in prop::sample::select(vec![8u32, 16, 32]), precision in precision(), c in 1u32..100, h in 1u32..5, w in 1u32..9,
    ) {
        let atoms = Atoms::new(bytes, precision).unwrap();
        let cube = Cube::packed(Extents::new(2, c, h, w), precision, bytes).unwrap();
        prop_assert_eq!(atoms, cube.atoms());
        prop_assert_eq!(atoms.surfaces(c as usize), cube.surfaces() as usize);
        prop_assert_eq!(atoms.span(w as usize) as u64, cube.line_bytes());
        prop_assert_eq!(atoms.packed_strides(w, h), [cube.line_stride(), cube.surface_stride()]);
        prop_assert_eq!(cube.volume(), cube.size());
        prop_assert_eq!(cube.footprint() * 2, cube.size());
        prop_assert_eq!(Atoms::of_line(w, cube.line_stride() as u32, precision).unwrap().bytes() as u32, bytes);
        let view = View::packed(cube.surfaces() as usize, h as usize, w as usize, atoms.elements());
        let mut channels = 0..0;
        for surface in 0..cube.surfaces() {
            let of = cube.channels_of(surface);
            prop_assert_eq!(of.start, channels.end);
            channels = of;
        }
        prop_assert_eq!(channels.end, c);
        for channel in 0..c {
            let (surface, lane) = atoms.place(channel as usize);
            prop_assert_eq!(atoms.channel(surface, lane), channel as usize);
            prop_assert!(cube.channels_of(surface as u32).contains(&channel));
            let whole = cube.offset(1, channel, h - 1, w - 1);
            let atom = cube.atom_offset_of(1, surface as u32, h - 1, w - 1);
            prop_assert_eq!(atom + lane as u64 * u64::from(bytes / atoms.elements() as u32), whole);
            // A packed buffer of elements is the same cube, counted in elements.
            let element = u64::from(nvdla_uapi::layout::bytes(precision));
            let [y, x] = [h as usize - 1, w as usize - 1];
            prop_assert_eq!(view.offset(1, y, x, channel as usize) as u64 * element, whole);
            prop_assert_eq!(view.locate(view.atom_offset(0, surface, y, x) / view.atom), [surface, y, x]);
        }
    }

    /// A cube's lines are pieces at two strides, and pieces overlap exactly where two of them share a byte.
    #[test]
    fn nested_pieces_are_where_they_are_counted(
        bytes in 1u64..20, counts in prop::array::uniform2(1u64..5), strides in prop::array::uniform2(0u64..40),
    ) {
        let nest = Nest::as_programmed(bytes, counts, strides).unwrap();
        let starts: Vec<u64> = (0..counts[0])
            .flat_map(|a| (0..counts[1]).map(move |b| a * strides[0] + b * strides[1]))
            .collect();
        let offsets: Vec<u64> =
            (0..counts[0]).flat_map(|a| (0..counts[1]).map(move |b| nest.offset([a, b]))).collect();
        prop_assert_eq!(&starts, &offsets);
        prop_assert_eq!(nest.span(), starts.iter().max().unwrap() + bytes);
        prop_assert_eq!(nest.volume(), bytes * counts[0] * counts[1]);
        if nest.overlap().is_none() {
            let mut sorted = starts;
            sorted.sort_unstable();
            prop_assert!(sorted.windows(2).all(|pair| pair[0] + bytes <= pair[1]));
        }
    }
}

#[test]
fn cells_are_numbered_by_line_column_and_surface() {
    let cells = Cells { stride_x: 3, surfaces: 5 };
    let all: Vec<usize> =
        (0..2).flat_map(|y| (0..3).flat_map(move |x| (0..5).map(move |s| cells.surface(s, [x, y])))).collect();
    assert_eq!(all, (0..30).collect::<Vec<_>>());
}

#[test]
fn overlaps_name_the_innermost_level() {
    let nest = |strides| Nest::as_programmed(8, [2, 3], strides).unwrap().overlap();
    assert_eq!(nest([24, 8]), None);
    assert_eq!(nest([23, 8]), Some((0, 24)));
    assert_eq!(nest([24, 7]), Some((1, 8)));
    assert!(Nest::as_programmed(8, [0, 3], [1, 1]).is_err());
    assert!(Nest::as_programmed(8, [2, 3], [u64::MAX, 8]).is_err());
}
