// SPDX-License-Identifier: GPL-2.0-only OR MIT

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::align::{weight_size, Alignment, Data, Surface};
use nvdla_uapi::layout::Rule;

#[test]
fn table_35() {
    // Start address, line stride, surface stride, planar or cube stride, data size; 0 for "NA".
    let table = [
        (Data::Feature, [32, 32, 32, 32, 0]),
        (Data::Weight, [256, 0, 0, 0, 128]),
        (Data::Wmb, [256, 0, 0, 0, 128]),
        (Data::Wgs, [256, 0, 0, 0, 128]),
        (Data::Pixel, [32, 32, 0, 0, 0]),
        (Data::Bias, [32, 32, 32, 0, 0]),
        (Data::Prelu, [32, 0, 0, 0, 0]),
        (Data::BatchNormalization, [32, 0, 0, 0, 0]),
        (Data::Elementwise, [32, 32, 0, 0, 32]),
    ];
    assert_eq!(table.len(), Data::ALL.len());
    for (data, row) in table {
        let it = Alignment::documented(data);
        let got =
            [Some(it.start), it.line_stride, it.surface_stride, it.cube_stride, it.size].map(Option::unwrap_or_default);
        assert_eq!(got, row, "{data:?}");
    }
}

#[test]
fn each_column_is_checked() {
    let good = Surface {
        address: 0x1000,
        line_stride: Some(64),
        surface_stride: Some(128),
        cube_stride: Some(256),
        size: Some(1),
    };
    let feature = Alignment::documented(Data::Feature);
    assert_eq!(feature.check(&good), Ok(()));
    let cases = [
        (Surface { address: 0x1008, ..good }, Rule::StartAddress, 0x1008),
        (Surface { line_stride: Some(40), ..good }, Rule::LineStride, 40),
        (Surface { surface_stride: Some(1), ..good }, Rule::SurfaceStride, 1),
        (Surface { cube_stride: Some(48), ..good }, Rule::CubeStride, 48),
    ];
    for (surface, rule, value) in cases {
        let error = feature.check(&surface).unwrap_err();
        assert_eq!((error.rule, error.value, error.limit), (rule, value, 32));
    }
    let weight = Alignment::documented(Data::Weight).check(&Surface { size: Some(100), ..Surface::default() });
    assert_eq!(weight.unwrap_err().rule, Rule::DataSize);
}

#[test]
fn a_configuration_needs_its_own_atom() {
    for config in Config::ALL {
        for data in Data::ALL {
            let (table, required) = (Alignment::documented(*data), Alignment::required(config, *data));
            assert_eq!(required.start, config.memory_atomic);
            assert_eq!(required.line_stride, table.line_stride.map(|_| config.memory_atomic));
            assert_eq!(required.surface_stride, table.surface_stride.map(|_| config.memory_atomic));
            // Whatever the document asks for is enough for the hardware.
            let surface = Surface {
                address: u64::from(table.start),
                line_stride: table.line_stride.map(u64::from),
                surface_stride: table.surface_stride.map(u64::from),
                cube_stride: table.cube_stride.map(u64::from),
                size: table.size.map(u64::from),
            };
            assert_eq!(required.check(&surface), Ok(()), "{} {data:?}", config.name);
        }
    }
    let of = |name| weight_size(Config::by_name(name).unwrap());
    assert_eq!((of("nv_full"), of("nv_large"), of("nv_small")), (128, 64, 8));
}

#[test]
fn one_alignment_suits_all_configurations() {
    for data in Data::ALL {
        let of_all = Alignment::of_all(*data);
        let surface = |it: &Alignment| Surface {
            address: u64::from(it.start),
            line_stride: it.line_stride.map(u64::from),
            surface_stride: it.surface_stride.map(u64::from),
            cube_stride: it.cube_stride.map(u64::from),
            size: it.size.map(u64::from),
        };
        let required: Vec<Alignment> = Config::ALL.iter().map(|config| Alignment::required(config, *data)).collect();
        for one in &required {
            assert_eq!(of_all.check(&surface(one)), Ok(()), "{data:?}");
        }
        assert!(required.iter().any(|one| one.check(&surface(&of_all)).is_ok()), "{data:?}: {of_all:?}");
    }
    let pixel = Alignment::of_all(Data::Pixel);
    assert_eq!((pixel.start, pixel.line_stride), (8, Some(8)));
}
