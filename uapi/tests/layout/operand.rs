// SPDX-License-Identifier: GPL-2.0-only OR MIT

use crate::naive::{check, Slots};
use nvdla_uapi::layout::operand::{Component, Format, Operands, UseCase};
use nvdla_uapi::layout::{Extents, Index, Layout, Rule};
use nvdla_uapi::reg::values::{OperandMode, OperandSize, OperandUse, Precision};
use proptest::prelude::*;

fn format() -> impl Strategy<Value = Format> {
    let mode = prop_oneof![Just(OperandMode::PerKernel), Just(OperandMode::PerElement)];
    let data_use = prop_oneof![Just(OperandUse::Mul), Just(OperandUse::Alu), Just(OperandUse::Both)];
    let sizes = prop_oneof![
        Just((Precision::Int8, OperandSize::OneByte)),
        Just((Precision::Int8, OperandSize::TwoByte)),
        Just((Precision::Int16, OperandSize::OneByte)),
        Just((Precision::Int16, OperandSize::TwoByte)),
        Just((Precision::Fp16, OperandSize::TwoByte)),
    ];
    (mode, data_use, sizes, prop_oneof![Just(8u32), Just(16), Just(32)]).prop_map(
        |(mode, data_use, (processing, data_size), atom)| Format { mode, data_use, data_size, processing, atom },
    )
}

proptest! {
    #[test]
    fn operands_are_the_documents(channels in 1..70u32, height in 1..5u32, width in 1..6u32, format in format(), gap in 0..3u64) {
        // Elements per atom come from the processing precision; per channel the cube is 1x1xC.
        let lanes = format.atom / if format.processing == Precision::Int8 { 1 } else { 2 };
        let element = format.components() * format.component_bytes();
        prop_assert_eq!(format.bytes_per_atom(), lanes * element);
        let (lines, columns) = match format.mode {
            OperandMode::PerKernel => (1, 1),
            OperandMode::PerElement => (height, width),
        };
        let extents = Extents::new(1, channels, height, width);
        let full = u64::from(width * format.bytes_per_atom());
        let line = full.next_multiple_of(u64::from(format.atom)) + gap * u64::from(format.atom);
        let surface = line * u64::from(height);
        let operands = Operands::unpacked(extents, format, line, surface).unwrap();
        let gap_slots = match format.mode {
            OperandMode::PerKernel => 0,
            OperandMode::PerElement => ((line - full) / u64::from(element)) as usize,
        };
        let mut slots = Slots::new();
        for surface in 0..channels.div_ceil(lanes) {
            for h in 0..lines {
                for w in 0..columns {
                    for c in surface * lanes..(surface + 1) * lanes {
                        slots.push((c < channels).then_some(Index::new(0, c, h, w)));
                    }
                }
                slots.extend(std::iter::repeat_n(None, gap_slots));
            }
        }
        slots.truncate(slots.len() - gap_slots);
        match element {
            1 => check::<_, i8>(operands, &slots),
            2 => check::<_, i16>(operands, &slots),
            _ => check::<_, i32>(operands, &slots),
        }
    }

    #[test]
    fn both_components_lie_together_alu_first(channels in 1..70u32, height in 1..5u32, width in 1..6u32, format in format()) {
        let operands = Operands::packed(Extents::new(1, channels, height, width), format).unwrap();
        let (c, h, w) = (channels - 1, height - 1, width - 1);
        let element = operands.element_offset(c, h, w);
        let alu = operands.component_offset(Component::Alu, c, h, w);
        let mul = operands.component_offset(Component::Mul, c, h, w);
        match format.data_use {
            OperandUse::Alu => prop_assert_eq!((alu, mul), (Some(element), None)),
            OperandUse::Mul => prop_assert_eq!((alu, mul), (None, Some(element))),
            OperandUse::Both => prop_assert_eq!((alu, mul), (Some(element), Some(element + u64::from(format.component_bytes())))),
        }
    }

    #[test]
    fn no_operands_panic(n in any::<u32>(), c in any::<u32>(), h in any::<u32>(), w in any::<u32>(), format in format(), line in any::<u64>(), surface in any::<u64>()) {
        let extents = Extents::new(n, c, h, w);
        let _ = Operands::packed(extents, format);
        if let Ok(it) = Operands::as_programmed(extents, format, line, surface) {
            let _ = (it.offset(0, u32::MAX, u32::MAX, u32::MAX), it.at(u64::MAX));
        }
    }
}

#[test]
fn bytes_per_atom_of_every_case() {
    // ElementPerAtom x ComponentsPerElement x BytesPerComponent of the document's three tables.
    let uses = [
        (UseCase::Bias, OperandUse::Alu, 1),
        (UseCase::Prelu, OperandUse::Mul, 1),
        (UseCase::BatchNormalization, OperandUse::Both, 2),
        (UseCase::Elementwise, OperandUse::Mul, 1),
        (UseCase::ElementwiseBoth, OperandUse::Both, 2),
    ];
    for (processing, elements) in [(Precision::Int8, 32), (Precision::Int16, 16), (Precision::Fp16, 16)] {
        for (use_case, data_use, components) in uses {
            for (data_size, bytes) in [(OperandSize::OneByte, 1), (OperandSize::TwoByte, 2)] {
                let mode = match use_case {
                    UseCase::Elementwise | UseCase::ElementwiseBoth => OperandMode::PerElement,
                    _ => OperandMode::PerKernel,
                };
                let format = Format { mode, data_use, data_size, processing, atom: 32 };
                assert_eq!(use_case.components(), components);
                assert_eq!(format.bytes_per_atom(), elements * components * bytes);
                assert_eq!(Operands::check_use(use_case, format), Ok(()));
            }
        }
    }
}

#[test]
fn modes_of_each_use_case() {
    use OperandMode::{PerElement, PerKernel};
    let table = [
        (UseCase::Bias, true, true),
        (UseCase::Prelu, true, false),
        (UseCase::BatchNormalization, true, false),
        (UseCase::Elementwise, false, true),
        (UseCase::ElementwiseBoth, false, true),
    ];
    for (use_case, kernel, element) in table {
        assert_eq!((use_case.allows(PerKernel), use_case.allows(PerElement)), (kernel, element));
    }
    let format = Format {
        mode: PerElement,
        data_use: OperandUse::Both,
        data_size: OperandSize::TwoByte,
        processing: Precision::Int8,
        atom: 32,
    };
    assert_eq!(Operands::check_use(UseCase::Prelu, format).unwrap_err().rule, Rule::OperandMode);
    assert_eq!(Operands::check_use(UseCase::Elementwise, format).unwrap_err().rule, Rule::OperandComponents);
}

#[test]
fn per_channel_operands_are_continuous() {
    let format = Format {
        mode: OperandMode::PerKernel,
        data_use: OperandUse::Both,
        data_size: OperandSize::TwoByte,
        processing: Precision::Int8,
        atom: 32,
    };
    let operands = Operands::packed(Extents::new(1, 100, 7, 9), format).unwrap();
    for c in 0..100 {
        assert_eq!(operands.element_offset(c, 3, 5), u64::from(c) * 4);
    }
    assert_eq!(operands.extents(), Extents::new(1, 100, 1, 1));
}

#[test]
fn errors_name_the_rule_and_the_values() {
    let format = Format {
        mode: OperandMode::PerElement,
        data_use: OperandUse::Alu,
        data_size: OperandSize::TwoByte,
        processing: Precision::Int16,
        atom: 32,
    };
    let extents = Extents::new(1, 40, 3, 2);
    let rule = |format, line, surface| Operands::unpacked(extents, format, line, surface).unwrap_err().rule;
    assert_eq!(rule(format, 65, 192), Rule::OperandLineStride);
    assert_eq!(rule(format, 32, 192), Rule::OperandLineOverlap);
    assert_eq!(rule(format, 64, 200), Rule::OperandSurfaceStride);
    assert_eq!(rule(format, 64, 160), Rule::OperandSurfaceOverlap);
    let half = Format { processing: Precision::Fp16, data_size: OperandSize::OneByte, ..format };
    assert_eq!(rule(half, 64, 192), Rule::OperandFp16);
}
