// SPDX-License-Identifier: GPL-2.0-only OR MIT

use crate::naive::{check, Slots};
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::{bytes, Extents, Index, Layout, Rule};
use nvdla_uapi::reg::values::Precision;
use proptest::prelude::*;

/// The document's steps: fill up the channels, split into atoms, scan W, H, C; then leave `line_gap` atoms behind each
/// line and `surface_gap` behind each surface.
fn document(extents: Extents, lanes: u32, line_gap: usize, surface_gap: usize, cube_gap: usize) -> Slots {
    let mut slots = Slots::new();
    for n in 0..extents.n {
        for surface in 0..extents.c.div_ceil(lanes) {
            for h in 0..extents.h {
                for w in 0..extents.w {
                    for lane in 0..lanes {
                        let c = surface * lanes + lane;
                        slots.push((c < extents.c).then_some(Index::new(n, c, h, w)));
                    }
                }
                slots.extend(std::iter::repeat_n(None, line_gap * lanes as usize));
            }
            slots.extend(std::iter::repeat_n(None, surface_gap * lanes as usize));
        }
        slots.extend(std::iter::repeat_n(None, cube_gap * lanes as usize));
    }
    slots
}

fn precision() -> impl Strategy<Value = Precision> {
    prop_oneof![Just(Precision::Int8), Just(Precision::Int16), Just(Precision::Fp16)]
}

fn atom() -> impl Strategy<Value = u32> {
    prop_oneof![Just(8u32), Just(16), Just(32)]
}

fn extents() -> impl Strategy<Value = Extents> {
    (1..3u32, 1..70u32, 1..6u32, 1..9u32).prop_map(|(n, c, h, w)| Extents::new(n, c, h, w))
}

fn check_of(cube: Cube, naive: &Slots) {
    match cube.element_bytes() {
        1 => check::<_, i8>(cube, naive),
        _ => check::<_, u16>(cube, naive),
    }
}

proptest! {
    #[test]
    fn packed_cube_is_the_documents(extents in extents(), precision in precision(), atom in atom()) {
        let cube = Cube::packed(extents, precision, atom).unwrap();
        let lanes = atom / bytes(precision);
        prop_assert!(cube.is_packed());
        prop_assert_eq!(cube.surfaces(), extents.c.div_ceil(lanes));
        check_of(cube, &document(extents, lanes, 0, 0, 0));
    }

    #[test]
    fn unpacked_cube_is_the_documents(
        extents in extents(), precision in precision(), atom in atom(),
        line_gap in 0..3usize, surface_gap in 0..3usize, cube_gap in 0..3usize,
    ) {
        let lanes = (atom / bytes(precision)) as usize;
        let line = (extents.w as usize + line_gap) * atom as usize;
        let surface = line * extents.h as usize + surface_gap * atom as usize;
        let surfaces = (extents.c as usize).div_ceil(lanes);
        let one = surface * surfaces + cube_gap * atom as usize;
        let cube = Cube::unpacked(extents, precision, atom, line as u64, surface as u64).unwrap()
            .with_cube_stride(one as u64).unwrap();
        let mut naive = document(extents, lanes as u32, line_gap, surface_gap, cube_gap);
        // A cube ends with its last atom.
        naive.truncate(naive.len() - (line_gap + surface_gap + cube_gap) * lanes);
        prop_assert_eq!(cube.span(), (naive.len() / lanes * atom as usize) as u64);
        check_of(cube, &naive);
    }

    #[test]
    fn surfaces_may_lie_between_lines(extents in extents(), atom in atom(), gap in 0..3u64) {
        let surfaces = extents.c.div_ceil(atom);
        let surface = u64::from(extents.w * atom) + gap * u64::from(atom);
        let line = surface * u64::from(surfaces);
        let cube = Cube::unpacked(extents, Precision::Int8, atom, line, surface).unwrap();
        let offsets = crate::naive::indices(extents).map(|at| {
            let place = u64::from(at.h) * line + u64::from(at.c / atom) * surface + u64::from(at.w * atom + at.c % atom);
            (u64::from(at.n) * cube.cube_stride() + place, at)
        });
        check::<_, u8>(cube, &crate::naive::slots_from(offsets, 1, cube.size()));
    }

    #[test]
    fn lines_atoms_and_elements_agree(extents in extents(), atom in atom()) {
        let cube = Cube::packed(extents, Precision::Int16, atom).unwrap();
        let lanes = cube.atom_elements();
        for at in crate::naive::indices(extents) {
            let atom_offset = cube.atom_offset(at.c / lanes, at.h, at.w);
            prop_assert_eq!(atom_offset, cube.line_offset(at.c / lanes, at.h) + u64::from(at.w * atom));
            prop_assert_eq!(cube.element_offset(at.c, at.h, at.w), atom_offset + u64::from(at.c % lanes * 2));
            prop_assert_eq!(cube.offset(at.n, at.c, at.h, at.w),
                u64::from(at.n) * cube.cube_stride() + cube.element_offset(at.c, at.h, at.w));
        }
    }

    #[test]
    fn no_strides_make_it_panic(
        n in any::<u32>(), c in any::<u32>(), h in any::<u32>(), w in any::<u32>(), atom in any::<u32>(),
        line in any::<u64>(), surface in any::<u64>(), cube in any::<u64>(),
    ) {
        for atom in [atom, 8, 16, 32] {
            let extents = Extents::new(n, c, h, w);
            let _ = Cube::unpacked(extents, Precision::Int8, atom, line, surface).and_then(|it| it.with_cube_stride(cube));
            let _ = Cube::packed(extents, Precision::Fp16, atom);
            if let Ok(it) = Cube::as_programmed(extents, Precision::Int8, atom, line, surface, cube) {
                let last = it.offset(n - 1, c - 1, h - 1, w - 1);
                prop_assert!(last < it.span());
                let _ = (it.offset(u32::MAX, u32::MAX, u32::MAX, u32::MAX), it.at(line), it.at(u64::MAX));
            }
        }
    }
}

#[test]
fn order_is_atom_then_width_height_surface() {
    let cube = Cube::packed(Extents::new(1, 64, 4, 5), Precision::Int8, 32).unwrap();
    assert_eq!(cube.offset(0, 1, 0, 0), 1);
    assert_eq!(cube.offset(0, 0, 0, 1), 32);
    assert_eq!(cube.offset(0, 0, 1, 0), 5 * 32);
    assert_eq!(cube.offset(0, 32, 0, 0), 4 * 5 * 32);
    assert_eq!((cube.line_stride(), cube.surface_stride(), cube.size()), (160, 640, 1280));
}

#[test]
fn surface_packed_1x1xc_folds_into_one_surface() {
    for (precision, channels) in [(Precision::Int8, 96), (Precision::Fp16, 48)] {
        let cube = Cube::packed(Extents::new(1, channels, 1, 1), precision, 32).unwrap();
        let folded = cube.folded().unwrap();
        assert_eq!(folded.extents(), Extents::new(1, 32 / bytes(precision), 1, 3));
        for c in 0..channels {
            let lanes = cube.atom_elements();
            assert_eq!(cube.offset(0, c, 0, 0), folded.offset(0, c % lanes, 0, c / lanes));
        }
    }
    let wide = Cube::packed(Extents::new(1, 96, 1, 2), Precision::Int8, 32).unwrap();
    let gap = Cube::unpacked(Extents::new(1, 96, 1, 1), Precision::Int8, 32, 32, 64).unwrap();
    assert_eq!((wide.folded(), gap.folded()), (None, None));
}

#[test]
fn padding_is_never_nan() {
    let cube = Cube::packed(Extents::new(1, 3, 1, 1), Precision::Fp16, 32).unwrap();
    let mut memory = [0xff; 32];
    cube.pack(nvdla_uapi::layout::Order::Nchw, &[0x3c00u16; 3], &mut memory).unwrap();
    for half in memory.chunks(2) {
        assert!(!nvdla_uapi::layout::precision::is_nan(u16::from_le_bytes([half[0], half[1]])));
    }
}

#[test]
fn errors_name_the_rule_and_the_values() {
    let extents = Extents::new(1, 40, 2, 3);
    let cases = [
        (Cube::packed(extents, Precision::Int8, 24), Rule::Atom, 24, 0),
        (Cube::packed(Extents::new(1, 0, 1, 1), Precision::Int8, 8), Rule::Extents, 0, 1),
        (Cube::unpacked(extents, Precision::Int8, 32, 100, 256), Rule::FeatureLineStride, 100, 32),
        (Cube::unpacked(extents, Precision::Int8, 32, 64, 256), Rule::FeatureLineOverlap, 64, 96),
        (Cube::unpacked(extents, Precision::Int8, 32, 96, 200), Rule::FeatureSurfaceStride, 200, 32),
        (Cube::unpacked(extents, Precision::Int8, 32, 96, 160), Rule::FeatureSurfaceOverlap, 160, 192),
    ];
    for (result, rule, value, limit) in cases {
        let error = result.unwrap_err();
        assert_eq!((error.rule, error.value, error.limit), (rule, value, limit));
    }
    let two = Cube::packed(Extents { n: 2, ..extents }, Precision::Int8, 32).unwrap();
    assert_eq!(two.with_cube_stride(384 + 8).unwrap_err().rule, Rule::FeatureCubeStride);
    assert_eq!(two.with_cube_stride(352).unwrap_err().rule, Rule::FeatureCubeOverlap);
    let text = Cube::unpacked(extents, Precision::Int8, 32, 100, 256).unwrap_err().to_string();
    assert_eq!(
        text,
        "the line stride of feature data is 100 (0x64), must be a multiple of 32 \
         (In-memory data formats, Feature Data Format; table 35)"
    );
}
