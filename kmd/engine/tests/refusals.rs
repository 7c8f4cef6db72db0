// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Each rule of validation has a task that breaks it, and the message that an operator reads.

use nvdla_tests::build::{address, every_unit, table, Net, Shape};
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};
use nvdla_uapi::desc::{
    self, Activation, Consumer, DataCube, DataFormat, Event, MemoryType, OpType, PdpOp, SdpOperandMode, SdpOperation,
    SdpSubUnit,
};
use nvdla_uapi::layout::{align, buffer};
use nvdla_uapi::reg::values::{
    AluAlgorithm, ConvMode, PixelFormat, PoolingMethod, Precision, RamType, RubikMode, WeightFormat,
};

const SMALL: Shape = Shape { config: &NV_SMALL, precision: Precision::Int8 };
const LARGE: Shape = Shape { config: &NV_FULL, precision: Precision::Int8 };

/// A convolution with SDP (0, 1), pooling (2), and SDP on its own (3); on nv_full also normalisation (4), a contraction
/// (5) and BDMA (6).
fn net(config: &'static Config) -> Net {
    let shape = Shape { config, precision: Precision::Int8 };
    let mut net = Net::new();
    let (_, sdp) = net.convolution(shape, 0x2000);
    let pool = net.pooling(shape, 0x4000);
    net.edge(sdp, pool, Event::OpCompleted);
    net.copy(shape, 0x5000);
    if config.rubik {
        net.tables = vec![table()];
        net.normalisation(shape, 0x6000, 0);
        net.contraction(shape, 0x8000);
        net.transfers(2);
    }
    net
}

/// The message about the task after `spoil` has changed it.
fn refusal(config: &'static Config, spoil: impl FnOnce(&mut Net)) -> String {
    let mut net = net(config);
    spoil(&mut net);
    match net.task().parse(config) {
        Ok(_) => "taken".into(),
        Err(error) => error.to_string(),
    }
}

fn full(spoil: impl FnOnce(&mut Net)) -> String {
    refusal(&NV_FULL, spoil)
}

fn small(spoil: impl FnOnce(&mut Net)) -> String {
    refusal(&NV_SMALL, spoil)
}

#[test]
fn unchanged_tasks_are_accepted() {
    for config in [&NV_FULL, &NV_LARGE, &NV_SMALL] {
        assert_eq!(refusal(config, |_| ()), "taken");
    }
}

#[test]
fn lists() {
    assert_eq!(
        small(|net| net.network.operation_desc_index = 8),
        "operation list.address is 8, but the task has 8 addresses"
    );
    assert_eq!(
        small(|net| net.network.surface_desc_index = -2),
        "surface list.address is -2, but the task has 8 addresses"
    );
    assert_eq!(
        small(|net| net.network.num_operations = 5),
        "the dependency graph ends at byte 0xb4 of address list entry 1, whose buffer has 0x90 bytes"
    );
    assert_eq!(
        full(|net| net.network.num_rois = 40_000),
        "the task has 280000 operations, more than the 32768 that can run at once"
    );
    assert_eq!(small(|net| net.network.num_rois = 0), "num_rois is 0, outside 1..=65535");
    assert_eq!(
        full(|net| net.cdp(4).0.lut_index = 1),
        "operation 4 (CDP): the lookup table list ends at byte 0x578 of address list entry 4, whose buffer has 0x2bc bytes"
    );
    assert_eq!(
        full(|net| net.cdp(4).0.lut_index = -7),
        "operation 4 (CDP): lut_index is -7, but the task has 0 lookup tables"
    );
    assert_eq!(
        full(|net| net.network.stat_list_index = address::NETWORK),
        "the statistics list ends at byte 0x134 of address list entry 0, whose buffer has 0x28 bytes"
    );
}

#[test]
fn the_graph() {
    let consumer = |index, event| Some(Consumer { index, event });
    assert_eq!(
        small(|net| net.ops[0].common.dependency_count = 3),
        "operation 0 (CONV): dependency_count is 3, but 1 edges lead to the operation"
    );
    assert_eq!(
        small(|net| net.ops[1].common.consumers[3] = consumer(4, Event::OpCompleted)),
        "operation 1 (SDP): consumers.index is 4, but the task has 4 operations"
    );
    assert_eq!(
        small(|net| net.ops[1].common.consumers[4] = consumer(2, Event::OpCompleted)),
        "operation 1 (SDP): consumers.index is 2: the consumer belongs to another unit than its position in the list"
    );
    assert_eq!(
        small(|net| net.network.op_head[1] = -1),
        "operation 0 (CONV): no unit's list of operations contains it"
    );
    assert_eq!(
        small(|net| net.network.op_head[1] = 1),
        "operation 1 (SDP): op_head is 1: this operation is the head of another unit's list"
    );
    assert_eq!(small(|net| net.network.op_head[2] = 9), "op_head is 9, but the task has 4 operations");
    assert_eq!(
        small(|net| net.edge(3, 1, Event::OpProgrammed)),
        "operation 1 (SDP): its unit's list of operations contains it twice"
    );
    // A convolution that waits for the pooling of its own output.
    assert_eq!(
        small(|net| net.edge(2, 0, Event::OpCompleted)),
        "operation 0 (CONV): it never starts, since operation 2 (PDP) can never complete"
    );
    assert_eq!(
        small(|net| {
            net.ops[1].common.fused_parent = consumer(0, Event::OpCompleted);
        }),
        "operation 0 (CONV): it never starts, since operation 1 (SDP) can never complete"
    );
}

#[test]
fn partners() {
    assert_eq!(
        small(|net| {
            net.ops[1].common.fused_parent = None;
            net.ops[0].common.dependency_count -= 1;
        }),
        "operation 0 (CONV): dst_data is passed on the fly, but no SDP operation is connected to it"
    );
    assert_eq!(
        small(|net| net.sdp(3).1.src_data = SMALL.flying(6, 6, 8)),
        "operation 3 (SDP): src_data is passed on the fly, but no CONV operation is connected to it"
    );
    assert_eq!(
        small(|net| net.sdp(1).1.src_data = SMALL.cube(0x2000, 6, 6, 8)),
        "operation 1 (SDP): fused_parent.index is 0: the operation reads its input from memory"
    );
    assert_eq!(
        small(|net| {
            let (_, surface) = net.sdp(1);
            surface.src_data.width = 5;
            surface.dst_data.width = 5;
        }),
        "operation 0 (CONV): dst_data.width is 6, but that of the operation that takes it on the fly is 5"
    );
    assert_eq!(
        small(|net| net.conv(0).1.dst_data.mem_type = MemoryType::Mc),
        "operation 0 (CONV): dst_data.type is 0: a convolution's output is handed to SDP, not stored"
    );
    assert_eq!(
        small(|net| net.pdp(2).1.dst_data.mem_type = MemoryType::Hw),
        "operation 2 (PDP): dst_data.type is 2: this surface must lie in memory and cannot be handed over on the fly"
    );
}

#[test]
fn surfaces_lie_in_their_buffers() {
    // 6x6x8 int8 on nv_small: 288 bytes.
    assert_eq!(
        small(|net| net.sdp(1).1.dst_data.offset = 0xff00),
        "operation 1 (SDP): dst_data is bytes 0xff00..0x10020 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    assert_eq!(
        small(|net| net.sdp(3).1.src_data.address = 99),
        "operation 3 (SDP): src_data.address is 99, but the task has 8 addresses"
    );
    assert_eq!(
        small(|net| net.pdp(2).1.src_data.line_stride = 0x4000),
        "operation 2 (PDP): src_data is bytes 0x2000..0x16030 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    assert_eq!(
        small(|net| {
            let (_, surface) = net.sdp(3);
            for cube in [&mut surface.src_data, &mut surface.dst_data] {
                cube.channel = 8192;
            }
        }),
        "operation 3 (SDP): src_data is bytes 0x2000..0x4a000 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    assert_eq!(
        small(|net| net.conv(0).1.weight_data.size = 0x20000),
        "operation 0 (CONV): weight_data is bytes 0x0..0x20000 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    assert_eq!(
        small(|net| net.conv(0).1.weight_data.size = 512),
        "operation 0 (CONV): weight_data.size is 512, outside 576..=4294967295"
    );
    assert_eq!(
        small(|net| net.sdp(1).1.x1_data.offset = 0xfff8),
        "operation 1 (SDP): x1_data is bytes 0xfff8..0x10008 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    assert_eq!(
        full(|net| net.bdma(6).transfers[1].line_repeat = 8192),
        "operation 6 (BDMA): transfers.source is bytes 0x0..0x80000 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    assert_eq!(
        full(|net| net.rubik(5).1.dst_data.offset = 0xf900),
        "operation 5 (RUBIK): dst_data is bytes 0xf900..0x10100 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    // The atoms of a 1x1 cube are accessed one after another, whatever the strides are.
    assert!(small(|net| {
        let (_, surface) = net.sdp(3);
        (surface.src_data, surface.dst_data) = (SMALL.cube(0x2000, 1, 1, 64), SMALL.cube(0xfff8, 1, 1, 64));
        surface.dst_data.surf_stride = 0;
    })
    .contains("operation 3 (SDP): dst_data: the surface stride of feature data is 0"));
    assert_eq!(
        small(|net| {
            let (op, surface) = net.sdp(3);
            (surface.src_data, surface.dst_data) = (SMALL.cube(0x2000, 1, 1, 64), SMALL.cube(0x3000, 1, 1, 64));
            (op.x1_op, surface.x1_data) = (
                Some(SdpSubUnit {
                    enable: true,
                    op_type: SdpOperation::Add,
                    mode: SdpOperandMode::PerPoint,
                    ..SdpSubUnit::default()
                }),
                SMALL.cube(0xfff8, 1, 1, 64),
            );
            surface.x1_data.surf_stride = 0;
        }),
        "operation 3 (SDP): x1_data is bytes 0xfff8..0x10038 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    assert!(full(|net| net.rubik(5).1.dst_data.line_stride = 0xffff_ffe0).contains("operation 5 (RUBIK): dst_data"));
}

/// PDP in parts ignores the cube's width: fields that are within their limits one by one reach outside the buffer together.
#[test]
fn parts_of_a_pooling_lie_in_their_buffers() {
    let mut net = every_unit(&NV_SMALL, Precision::Int8);
    let (op, _) = net.pdp(2);
    (op.pool_width, op.stride_x, op.split_num) = (0, 1, 8);
    (op.partial_in_width_first, op.partial_in_width_mid, op.partial_in_width_last) = (64, 64, 64);
    (op.partial_width_first, op.partial_width_mid, op.partial_width_last) = (64, 64, 64);
    let expected =
        "operation 2 (PDP): PDP writes 0x10016800..0x10017830 of primary memory, by D_DST_BASE_ADDR_LOW, but the buffer of \
         address list entry 7 is 0x10007000..0x10017000 of primary memory";
    assert_eq!(net.task().parse(&NV_SMALL).unwrap_err().to_string(), expected);
}

/// The memories that the operations of a task access, if it is taken, with the data at `entries` of the address list in secondary
/// memory.
fn placed(config: &'static Config, net: &Net, entries: &[i16]) -> Result<Vec<(OpType, bool, RamType)>, String> {
    let task = net.task();
    for &entry in entries {
        task.place(entry as usize, RamType::Cvif);
    }
    let task = task.parse(config).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for operation in task.iter() {
        operation.accesses(config, |access| all.push((operation.op_type(), access.write, access.memory)));
    }
    Ok(all)
}

#[test]
fn the_interface_is_that_of_the_buffer_and_not_of_the_descriptor() {
    for config in [&NV_FULL, &NV_LARGE, &NV_SMALL] {
        for wish in [MemoryType::Mc, MemoryType::Cv] {
            let mut net = net(config);
            let (_, surface) = net.conv(0);
            (surface.src_data.mem_type, surface.weight_data.mem_type) = (wish, wish);
            net.sdp(1).1.x1_data.mem_type = wish;
            for index in [1, 3] {
                net.sdp(index).1.dst_data.mem_type = wish;
            }
            net.sdp(3).1.src_data.mem_type = wish;
            let (_, surface) = net.pdp(2);
            (surface.src_data.mem_type, surface.dst_data.mem_type) = (wish, wish);
            if config.rubik {
                let (_, surface) = net.cdp(4);
                (surface.src_data.mem_type, surface.dst_data.mem_type) = (wish, wish);
                let (_, surface) = net.rubik(5);
                (surface.src_data.mem_type, surface.dst_data.mem_type) = (wish, wish);
                let surface = net.bdma(6);
                (surface.source_type, surface.destination_type) = (wish, wish);
            }
            let all = placed(config, &net, &[]).unwrap();
            assert!(all.iter().all(|&(_, _, memory)| memory == RamType::Mcif), "{all:?}");
            // Each unit reads, and each but the convolution writes.
            let written = all.iter().filter(|(_, write, _)| *write).count();
            assert_eq!((written, all.len() > 2 * written), (if config.rubik { 7 } else { 3 }, true), "{all:?}");
            let secondary = placed(config, &net, &[address::DATA]);
            if config.secondary_memif {
                let expected = all.iter().map(|&(unit, write, _)| (unit, write, RamType::Cvif)).collect();
                assert_eq!(secondary, Ok(expected));
            } else {
                let refusal = "operation 0 (CONV): CDMA.D_DAIN_RAM_TYPE is 0x0: the configuration has no secondary \
                               memory interface";
                assert_eq!(secondary, Err(refusal.into()));
            }
        }
    }
}

#[test]
fn surfaces_of_an_operation_may_lie_in_both_memories() {
    let mut net = net(&NV_LARGE);
    net.rois = vec![0; 0x1000];
    let (_, surface) = net.conv(0);
    (surface.weight_data.address, surface.weight_data.offset) = (address::ROIS, 0);
    let all = placed(&NV_LARGE, &net, &[address::ROIS]).unwrap();
    let reads: Vec<_> = all.iter().filter(|(unit, ..)| *unit == OpType::Conv).map(|access| access.2).collect();
    assert_eq!(reads, [RamType::Mcif, RamType::Cvif], "the input and the weights");
}

#[test]
fn compressed_weights_lie_in_one_memory_with_their_masks_and_sizes() {
    let compressed = |wmb, wgs, secondary: &[i16]| {
        let mut net = net(&NV_FULL);
        net.rois = vec![0; 0x1000];
        net.conv(0).0.weight_format = WeightFormat::Compressed;
        let (_, surface) = net.conv(0);
        surface.wmb_data = DataCube { address: wmb, size: 128, ..LARGE.cube(0x400, 1, 1, 1) };
        surface.wgs_data = DataCube { address: wgs, size: 4, ..LARGE.cube(0x800, 1, 1, 1) };
        placed(&NV_FULL, &net, secondary).map(drop)
    };
    let [data, other] = [address::DATA, address::ROIS];
    assert_eq!(compressed(data, other, &[]), Ok(()));
    assert_eq!(compressed(other, other, &[data, other]), Ok(()));
    let error = |surface, memory, other| {
        let text = "operation 0 (CONV): weight_data lies in";
        Err(format!(
            "{text} {memory} memory, but {surface}, which is read through the same interface, in {other} memory"
        ))
    };
    assert_eq!(compressed(other, data, &[other]), error("wmb_data", "primary", "secondary"));
    assert_eq!(compressed(data, other, &[data]), error("wgs_data", "secondary", "primary"));
}

#[test]
fn the_driver_reads_no_list_in_secondary_memory() {
    let mut net = net(&NV_FULL);
    net.network.stat_list_index = address::STATISTICS;
    for (entry, prefix, list) in [
        (address::NETWORK, "", "network descriptor"),
        (address::GRAPH, "", "dependency graph"),
        (address::OPERATIONS, "", "operation list"),
        (address::SURFACES, "", "surface list"),
        (address::TABLES, "operation 4 (CDP): ", "lookup table list"),
        (address::STATISTICS, "", "statistics list"),
    ] {
        let why = "whose buffer lies in secondary memory, which the driver does not access";
        let expected = format!("{prefix}the {list} is in address list entry {entry}, {why}");
        assert_eq!(placed(&NV_FULL, &net, &[entry]), Err(expected));
    }
}

#[test]
fn batches_and_compressed_weights() {
    let batch = |net: &mut Net, stride| {
        let (op, _) = net.conv(0);
        (op.batch, op.batch_stride) = (2, stride);
        let (op, _) = net.sdp(1);
        (op.batch_num, op.batch_stride) = (2, 0x1000);
    };
    assert_eq!(full(|net| batch(net, 0x1000)), "taken");
    assert_eq!(
        full(|net| batch(net, 0xf000)),
        "operation 0 (CONV): src_data is bytes 0x1000..0x10800 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    assert_eq!(
        small(|net| batch(net, 0x1000)),
        "operation 0 (CONV): batch asks for hardware batches, which nv_small does not have"
    );
    assert_eq!(
        full(|net| net.sdp(3).0.batch_num = 2),
        "operation 3 (SDP): batch_num is 2: only data that a convolution hands over can be a batch"
    );

    let compress = |net: &mut Net| {
        net.conv(0).0.weight_format = WeightFormat::Compressed;
        let (_, surface) = net.conv(0);
        surface.wmb_data = LARGE.cube(0x9000, 1, 1, 1);
        surface.wmb_data.size = 128;
        surface.wgs_data = LARGE.cube(0xa000, 1, 1, 1);
        surface.wgs_data.size = 4;
    };
    assert_eq!(full(compress), "taken");
    assert_eq!(
        small(compress),
        "operation 0 (CONV): weight_format asks for weight compression, which nv_small does not have"
    );
    assert_eq!(
        full(|net| {
            compress(net);
            net.conv(0).1.wgs_data.offset = 0xfff0;
        }),
        "operation 0 (CONV): wgs_data is bytes 0xfff0..0x10010 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    assert_eq!(
        full(|net| {
            compress(net);
            net.conv(0).1.wmb_data.size = 64;
        }),
        "operation 0 (CONV): wmb_data.size is 64, outside 72..=4294967295"
    );
}

#[test]
fn alignment() {
    for (text, field) in [
        (small(|net| net.sdp(3).1.dst_data.offset = 0x5004), "dst_data: "),
        (small(|net| net.pdp(2).1.dst_data.line_stride = 28), "dst_data: "),
        (small(|net| net.sdp(3).1.src_data.surf_stride = 300), "src_data: "),
        (full(|net| net.sdp(1).1.x1_data.offset = 0x810), "x1_data: "),
        (full(|net| net.conv(0).1.weight_data.size = 577), "weight_data: "),
    ] {
        assert!(text.contains(field) && text.contains("must be a multiple of"), "{text}");
    }
    assert_eq!(
        full(|net| net.bdma(6).transfers[0].source_line = 72),
        "operation 6 (BDMA): transfers.source_line is 0x48, which is not a multiple of 32"
    );
}

#[test]
fn what_a_configuration_lacks() {
    let sub_unit = SdpSubUnit { enable: true, ..SdpSubUnit::default() };
    assert_eq!(
        small(|net| net.conv(0).0.out_precision = Precision::Fp16),
        "operation 0 (CONV): out_precision asks for fp16, which nv_small does not have"
    );
    assert_eq!(
        small(|net| net.pdp(2).0.precision = Precision::Int16),
        "operation 2 (PDP): precision asks for int16, which nv_small does not have"
    );
    assert_eq!(
        small(|net| net.conv(0).0.conv_mode = ConvMode::Winograd),
        "operation 0 (CONV): conv_mode asks for Winograd convolution, which nv_small does not have"
    );
    assert_eq!(
        small(|net| net.sdp(3).0.y_op = Some(sub_unit)),
        "operation 3 (SDP): y_op.enable asks for SDP sub-unit Y, which nv_small does not have"
    );
    assert_eq!(
        small(|net| net.sdp(3).0.lut_index = 0),
        "operation 3 (SDP): lut_index asks for SDP lookup tables, which nv_small does not have"
    );
    assert_eq!(
        refusal(&NV_LARGE, |net| _ = net.contraction(LARGE, 0x8000)),
        "operation 4 (RUBIK): op_type asks for Rubik, which nv_large does not have"
    );
    assert_eq!(
        refusal(&NV_LARGE, |net| _ = net.transfers(1)),
        "operation 4 (BDMA): op_type asks for BDMA, which nv_large does not have"
    );
}

#[test]
fn lines_of_a_pooling_fit_the_line_buffer() {
    // One line of output: window and stride in both directions, and the number of columns.
    let pool = |config, [window, stride]: [u8; 2], width: u16, split: bool| {
        let shape = Shape { config, precision: Precision::Int8 };
        refusal(config, |net| {
            let (op, surface) = net.pdp(2);
            (op.pool_width, op.pool_height, op.stride_x, op.stride_y) = (0, window - 1, 1, stride);
            surface.src_data = shape.cube(0x2000, width, window.into(), 8);
            surface.dst_data = shape.cube(0x9000, width, 1, 8);
            if split {
                op.split_num = 2;
                (op.partial_in_width_first, op.partial_in_width_last) = (3, width - 3);
                (op.partial_width_first, op.partial_width_last) = (3, width - 3);
            }
        })
    };
    for config in Config::ALL {
        // The numbers of `NV_NVDLA_PDP_CORE_cal2d.v`, lines 653 to 656.
        for (shape, most) in [([2, 2], 128), ([3, 2], 64), ([3, 1], 32), ([8, 1], 16), ([8, 3], 32), ([5, 4], 64)] {
            assert_eq!(pool(config, shape, most, false), "taken", "{} {shape:?}", config.name);
            let refused = pool(config, shape, most + 1, false);
            let [window, stride] = shape;
            let expected = format!(
                "operation 2 (PDP): dst_data.width is {}, but PDP's line buffer holds {most} columns of the output for a window \
                 of {window} lines with a stride of {stride}",
                most + 1
            );
            assert_eq!(refused, expected, "{}", config.name);
            assert_eq!(pool(config, shape, most + 3, true), "taken", "{} {shape:?}", config.name);
            let expected = expected.replace("dst_data.width", "partial_width_last");
            assert_eq!(pool(config, shape, most + 4, true), expected, "{}", config.name);
        }
    }
}

/// CSC releases as many lines as it is told, also ones that are not there, and the next convolutions then have other lines.
#[test]
fn a_convolution_releases_the_lines_that_it_has() {
    for config in Config::ALL {
        let release = |lines: u16| refusal(config, |net| net.conv(0).0.release = lines);
        assert_eq!(release(8), "taken", "{}", config.name);
        assert_eq!(release(9), "operation 0 (CONV): release is 9, outside 0..=8", "{}", config.name);
    }
}

/// PDP has a register per number of padding elements; the Verilog asserts that they are multiples.
#[test]
fn padding_values_are_multiples_of_the_first() {
    let average = |values: [i32; 7]| {
        small(|net| {
            let op = net.pdp(2).0;
            (op.pool_mode, op.padding_value) = (PoolingMethod::Average, values);
        })
    };
    assert_eq!(average([0, 0, 0, 0, 0, 0, 0]), "taken");
    assert_eq!(average([-3, -6, -9, -12, -15, -18, -21]), "taken");
    let refused = |value: i32, expected: i32| {
        format!(
            "operation 2 (PDP): padding_value is {value}, but that number of padding elements times the first padding_value is {expected}"
        )
    };
    assert_eq!(average([1, 2, 3, 4, 5, 6, 8]), refused(8, 7));
    assert_eq!(average([0, 1, 0, 0, 0, 0, 0]), refused(1, 0));
    assert_eq!(small(|net| net.pdp(2).0.padding_value = [1, 0, 0, 0, 0, 0, 0]), "taken");
    assert_eq!(average([-128, -256, -384, -512, -640, -768, -896]), "taken");
    assert_eq!(
        average([128, 256, 384, 512, 640, 768, 896]),
        "operation 2 (PDP): padding_value is 128, outside -128..=127"
    );
}

/// What lies behind the last window spoils the next pooling on the RTL.
#[test]
fn windows_of_a_pooling_end_where_its_padded_input_ends() {
    // Both axes: window, stride, padding before and after, input and output.
    let pool = |flies: bool, [window, stride, before, after]: [u8; 4], [input, output]: [u16; 2], lines: bool| {
        refusal(&NV_SMALL, |net| {
            let pool = net.pdp(2);
            let shape = Shape { config: &NV_SMALL, precision: Precision::Int8 };
            let sizes = |size: u16| if lines { (6, size) } else { (size, 6) };
            let (from, to) = (sizes(input), sizes(output));
            *pool.0 = PdpOp { pool_width: 0, pool_height: 0, stride_x: 1, stride_y: 1, ..*pool.0 };
            if lines {
                (pool.0.pool_height, pool.0.stride_y, pool.0.pad_top, pool.0.pad_bottom) =
                    (window - 1, stride, before, after);
            } else {
                (pool.0.pool_width, pool.0.stride_x, pool.0.pad_left, pool.0.pad_right) =
                    (window - 1, stride, before, after);
            }
            pool.1.src_data = shape.cube(0x2000, from.0, from.1, 8);
            pool.1.dst_data = shape.cube(0x9000, to.0, to.1, 8);
            if flies {
                net.sdp(1).1.dst_data = shape.flying(from.0, from.1, 8);
                net.pdp(2).1.src_data = shape.flying(from.0, from.1, 8);
            }
        })
    };
    for (lines, size, behind) in [(true, "height", "pad_bottom"), (false, "width", "pad_right")] {
        let refused = |name: &str, value: u16, reached: u16| {
            format!(
                "operation 2 (PDP): {name} is {value}, but the windows of the pooling reach only {reached}; what they leave spoils \
                 the next pooling"
            )
        };
        let size = format!("src_data.{size}");
        assert_eq!(pool(false, [3, 2, 0, 0], [5, 2], lines), "taken");
        assert_eq!(pool(false, [3, 2, 1, 1], [5, 3], lines), "taken");
        assert_eq!(pool(false, [2, 3, 0, 0], [8, 3], lines), "taken");
        assert_eq!(pool(false, [3, 2, 0, 0], [4, 1], lines), refused(&size, 4, 3));
        assert_eq!(pool(false, [3, 2, 0, 0], [6, 2], lines), refused(&size, 6, 5));
        assert_eq!(pool(false, [1, 4, 0, 0], [8, 2], lines), refused(&size, 8, 5));
        assert_eq!(pool(false, [2, 4, 0, 1], [8, 2], lines), refused(&size, 8, 6));
        assert_eq!(pool(false, [3, 2, 1, 1], [6, 3], lines), refused(behind, 1, 0));
        assert_eq!(pool(false, [7, 6, 1, 6], [9, 2], lines), refused(behind, 6, 3));
        if lines {
            assert_eq!(pool(true, [3, 2, 0, 0], [6, 2], lines), refused(&size, 6, 5));
        }
    }
}

/// What CDMA fetches is what CSC takes. Otherwise the RTL waits for the rest, or what is left over spoils the next convolution.
#[test]
fn weights_are_those_of_the_kernels() {
    for config in Config::ALL {
        let unit = align::weight_size(config);
        let size = |size: u32| refusal(config, |net| net.conv(0).1.weight_data.size = size);
        let needed = (3 * 3 * 8 * 8_u32).next_multiple_of(unit);
        let refused = |size: u32| {
            let other = "the number of bytes of the kernels in whole entries";
            format!("operation 0 (CONV): weight_data.size is {size}, but {other} is {needed}")
        };
        assert_eq!(size(needed), "taken", "{}", config.name);
        for other in [needed - unit, needed + 1] {
            assert_ne!(size(other), "taken", "{}", config.name);
        }
        for other in [needed + unit, 2 * needed] {
            assert_eq!(size(other), refused(other), "{}", config.name);
        }
    }
}

#[test]
fn what_the_units_cannot_do() {
    let unit = SdpSubUnit { enable: true, mode: SdpOperandMode::PerLayer, ..SdpSubUnit::default() };
    assert_eq!(
        small(|net| net.pdp(2).0.pool_width = 13),
        "operation 2 (PDP): pool_width + 1, the window's width, is 14, outside 1..=8"
    );
    assert_eq!(small(|net| net.pdp(2).1.dst_data.width = 4), "operation 2 (PDP): dst_data.width is 4, outside 1..=3");
    assert_eq!(
        small(|net| {
            net.pdp(2).0.stride_x = 17;
            net.pdp(2).1.dst_data.width = 1;
        }),
        "operation 2 (PDP): stride_x is 17, outside 1..=16"
    );
    assert_eq!(small(|net| net.pdp(2).0.pad_left = 8), "operation 2 (PDP): pad_left is 8, outside 0..=7");
    assert_eq!(small(|net| net.pdp(2).0.split_num = 0), "operation 2 (PDP): split_num is 0, outside 1..=256");
    assert_eq!(
        small(|net| net.conv(0).0.data_bank = 31),
        "operation 0 (CONV): data_bank + weight_bank is 33, outside 2..=32"
    );
    assert_eq!(small(|net| net.conv(0).0.fetch_grain = 0), "operation 0 (CONV): fetch_grain is 0, outside 1..=4096");
    assert_eq!(
        small(|net| net.conv(0).0.kernel_width_csc = 33),
        "operation 0 (CONV): kernel_width_csc is 33, outside 1..=32"
    );
    assert_eq!(small(|net| net.conv(0).0.conv_stride_x = 9), "operation 0 (CONV): conv_stride_x is 9, outside 1..=8");
    assert_eq!(small(|net| net.conv(0).0.post_extension = 3), "operation 0 (CONV): post_extension is 3, outside 0..=2");
    assert_eq!(small(|net| net.conv(0).0.out_cvt.scale = 2), "operation 0 (CONV): out_cvt.scale is 2, outside 1..=1");
    assert_eq!(
        small(|net| net.sdp(3).0.out_cvt.truncate = 64),
        "operation 3 (SDP): out_cvt.truncate is 64, outside 0..=63"
    );
    assert_eq!(
        small(|net| net.sdp(3).0.x1_op = Some(SdpSubUnit { op_type: SdpOperation::Mul, mul_operand: 70_000, ..unit })),
        "operation 3 (SDP): x1_op.operand is 70000, outside -32768..=65535"
    );
    assert_eq!(
        small(|net| {
            let eql = SdpSubUnit { op_type: SdpOperation::Add, alu_type: AluAlgorithm::Eql, ..unit };
            net.sdp(3).0.x2_op = Some(eql);
        }),
        "operation 3 (SDP): x2_op.alu_type is 3: only sub-unit Y compares"
    );
    assert_eq!(
        full(|net| net.sdp(3).0.y_op = Some(SdpSubUnit { act: Activation::Lut, ..unit })),
        "operation 3 (SDP): lut_index is -1: sub-unit Y looks up a table, and the operation has none"
    );
    assert_eq!(
        full(|net| net.sdp(3).0.src_precision = Precision::Fp16),
        "operation 3 (SDP): dst_precision is 0: SDP cannot convert fp16 to int8"
    );
    assert_eq!(
        small(|net| net.sdp(3).1.dst_data.height = 5),
        "operation 3 (SDP): dst_data.height is 5, but that of src_data is 6"
    );
    assert_eq!(
        full(|net| net.cdp(4).0.local_size = 4),
        "operation 4 (CDP): local_size is 4: the window has 3, 5, 7 or 9 channels"
    );
    assert_eq!(
        full(|net| net.cdp(4).0.lut_index = -1),
        "operation 4 (CDP): lut_index is -1: CDP always uses a lookup table, and without one it would use that of another task"
    );
    let planes = |net: &mut Net, mode, stride| {
        net.rubik(5).0.mode = mode;
        let (_, surface) = net.rubik(5);
        (surface.src_data, surface.dst_data) = (LARGE.cube(0x2000, 4, 4, 32), LARGE.cube(0x8000, 4, 4, 32));
        for cube in [&mut surface.src_data, &mut surface.dst_data] {
            (cube.line_stride, cube.plane_stride) = (128, stride);
        }
    };
    assert_eq!(full(|net| planes(net, RubikMode::Split, 512)), "taken");
    assert_eq!(full(|net| planes(net, RubikMode::Merge, 512)), "taken");
    assert_eq!(
        full(|net| planes(net, RubikMode::Split, 0)),
        "operation 5 (RUBIK): dst_data.plane_stride is 0, outside 416..=4294967295"
    );
    assert_eq!(
        full(|net| planes(net, RubikMode::Merge, 0x1000)),
        "operation 5 (RUBIK): src_data is bytes 0x2000..0x211a0 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    assert_eq!(
        full(|net| net.cdp(4).0.out_precision = Precision::Int16),
        "operation 4 (CDP): out_precision is 1: CDP's output has the precision of its input"
    );
    assert_ne!(full(|net| net.rubik(5).0.stride_x = 0), "taken");
    assert_eq!(
        full(|net| net.rubik(5).0.mode = RubikMode::Merge),
        "operation 5 (RUBIK): src_data.channel is 128, but that of dst_data is 32"
    );
    assert_eq!(full(|net| net.bdma(6).num_transfers = 21), "operation 6 (BDMA): num_transfers is 21, outside 0..=20");
    assert_eq!(
        full(|net| net.bdma(6).transfers[0].line_size = 0),
        "operation 6 (BDMA): transfers.line_size / 32 is 0, outside 1..=8192"
    );
}

#[test]
fn images() {
    let image = |net: &mut Net, format| {
        let (op, surface) = net.conv(0);
        op.data_format = DataFormat::Pixel(format);
        surface.src_data.line_stride = 64;
    };
    assert_eq!(
        small(|net| image(net, PixelFormat::A8B8G8R8)),
        "operation 0 (CONV): src_data.channel is 8, but the number of channels of its pixel format is 4"
    );
    assert_eq!(
        small(|net| {
            image(net, PixelFormat::Y8_U8V8N444);
            let (_, surface) = net.conv(0);
            (surface.src_data.channel, surface.in_line_uv_stride) = (3, 64);
        }),
        "operation 0 (CONV): offset_u is 0, outside 456..=9223372036854775807"
    );
    assert_eq!(
        small(|net| {
            image(net, PixelFormat::Y8_U8V8N444);
            let (_, surface) = net.conv(0);
            (surface.src_data.channel, surface.in_line_uv_stride, surface.offset_u) = (3, 64, 0xef00);
        }),
        "operation 0 (CONV): second plane of src_data is bytes 0xff00..0x100d0 of address list entry 7, whose buffer has 0x10000 bytes"
    );
}

/// CDP has fewer bits than its registers for offsets, and for the bounds and indices of its table.
#[test]
fn numbers_of_cdp_fit_its_bits() {
    let table = |change: fn(&mut desc::Lut)| full(|net| change(&mut net.tables[0]));
    let negative = |value: i64| value as u64;
    assert_eq!(full(|net| net.cdp(4).0.in_cvt.offset = -128), "taken");
    assert_eq!(
        full(|net| net.cdp(4).0.in_cvt.offset = 128),
        "operation 4 (CDP): in_cvt.offset is 128, outside -128..=127"
    );
    assert_eq!(full(|net| net.cdp(4).0.out_cvt.offset = (1 << 24) - 1), "taken");
    assert_eq!(
        full(|net| net.cdp(4).0.out_cvt.offset = 1 << 24),
        "operation 4 (CDP): out_cvt.offset is 16777216, outside -16777216..=16777215"
    );
    assert_eq!(table(|lut| lut.linear_only_start = (1 << 21) - 1), "taken");
    assert_eq!(
        table(|lut| lut.linear_only_start = 1 << 21),
        "operation 4 (CDP): linear_only_start is 2097152, outside -2097152..=2097151"
    );
    // A negative number has ones in the register's 38 bits, and may have them above.
    for lowest in [negative(-1 << 21), negative(-1 << 21) & ((1 << 38) - 1)] {
        assert_eq!(full(|net| net.tables[0].linear_exp_end = lowest), "taken");
    }
    assert_eq!(
        table(|lut| lut.linear_exp_end = (-1_i64 << 21) as u64 - 1),
        "operation 4 (CDP): linear_exp_end is -2097153, outside -2097152..=2097151"
    );
    assert_eq!(table(|lut| lut.linear_only_offset = -32), "taken");
    assert_eq!(
        table(|lut| lut.linear_only_offset = 32),
        "operation 4 (CDP): linear_only_offset is 32, outside -32..=31"
    );
}

/// The lines that post-extension processes at once are read from one entry of the convolution buffer.
#[test]
fn post_extension_stays_within_an_entry() {
    let strided = |config: &'static Config, post_extension: u8, stride: u8| {
        refusal(config, |net| {
            let width = 5 * u32::from(stride) + 3;
            let (op, surface) = net.conv(0);
            op.data_format = DataFormat::Pixel(PixelFormat::R8);
            (op.post_extension, op.conv_stride_x) = (post_extension, stride);
            (op.kernel_width_csc, op.kernel_channel_csc, op.input_channel_csc, op.bytes_per_kernel) = (1, 3, 1, 9);
            op.input_width_csc = width as u16;
            op.entry_per_slice = buffer::line_entries(config, width.into()) as u16;
            let stride = width.next_multiple_of(config.memory_atomic);
            surface.src_data = DataCube {
                size: 8 * stride,
                line_stride: stride,
                surf_stride: 0,
                width: width as u16,
                channel: 1,
                ..surface.src_data
            };
            surface.weight_data.size = 72_u32.next_multiple_of(align::weight_size(config));
        })
    };
    for (post_extension, taken, refused, reach) in [(1, 4, 5, 10), (0, 8, 0, 0)] {
        assert_eq!(strided(&NV_SMALL, post_extension, taken), "taken");
        if refused != 0 {
            let what = "elements of the lines that post-extension processes at once";
            let expected = format!("operation 0 (CONV): {what} is {reach}, outside 0..=8");
            assert_eq!(strided(&NV_SMALL, post_extension, refused), expected);
        }
    }
    assert_eq!(strided(&NV_LARGE, 2, 8), "taken");
}

#[test]
fn descriptors() {
    // An encoding that the interface does not name, written where the value's byte is.
    let net = net(&NV_SMALL);
    let spoilt = |list: usize, at: usize, value: u8| {
        let mut buffers = net.buffers();
        buffers[list][at] = value;
        let task = nvdla_tests::tasks::HostTask::from_buffers(buffers);
        task.parse(&NV_SMALL).map_or_else(|error| error.to_string(), |_| "taken".into())
    };
    assert_eq!(spoilt(1, 3, 6), "operation 0: op_type is 6, which the interface does not name");
    assert_eq!(spoilt(2, 8, 37), "operation 0 (CONV): data_format is 37, which the interface does not name");
    assert_eq!(spoilt(3, 644 + 128, 3), "operation 1 (SDP): dst_data.mem_type is 3, which the interface does not name");
}

#[test]
fn regions_of_interest() {
    let region = |left: u32, top: u32| {
        let mut bytes = vec![0; 24];
        bytes[0] = 1;
        bytes[8..12].copy_from_slice(&left.to_le_bytes());
        bytes[12..16].copy_from_slice(&top.to_le_bytes());
        bytes
    };
    let dynamic = |net: &mut Net, rois| {
        net.rois = rois;
        net.network.dynamic_roi = 1;
        net.network.roi_array_index = address::ROIS;
        net.network.surface_index = address::DATA;
        net.network.input_layer = 0;
        net.conv(0).1.src_data.address = -1;
    };
    assert_eq!(small(|net| dynamic(net, region(4, 16))), "taken");
    assert_eq!(
        small(|net| dynamic(net, region(0, 0x400))),
        "operation 0 (CONV): src_data is bytes 0x10000..0x10200 of address list entry 7, whose buffer has 0x10000 bytes"
    );
    assert_eq!(
        small(|net| {
            dynamic(net, region(0, 0));
            net.rois[0] = 2;
        }),
        "array_length is 2, outside 0..=1"
    );
    assert_eq!(
        small(|net| {
            dynamic(net, region(0, 0));
            net.conv(0).1.src_data.address = address::DATA;
        }),
        "operation 0 (CONV): src_data.address is 7: the input of the operation that reads regions of interest has no address of its own"
    );
}

#[test]
fn winograd_and_batches_are_those_of_the_convolution() {
    // SDP takes an 8x8 cube in tiles, and the convolution gives lines.
    let tiles = |net: &mut Net| {
        let (op, surface) = net.conv(0);
        (op.input_width_cmac, op.input_height_cmac) = (8, 8);
        surface.dst_data = LARGE.flying(8, 8, 8);
        let (op, surface) = net.sdp(1);
        op.conv_mode = ConvMode::Winograd;
        surface.src_data = LARGE.flying(8, 8, 8);
        surface.dst_data = LARGE.cube(0x2000, 8, 8, 8);
    };
    assert_eq!(
        full(tiles),
        "operation 0 (CONV): conv_mode is 0, but that of the SDP operation which takes the output on the fly is 1"
    );
    assert_eq!(
        full(|net| {
            let (op, _) = net.sdp(1);
            (op.batch_num, op.batch_stride) = (2, 0x800);
        }),
        "operation 0 (CONV): batch is 1, but that of the SDP operation which takes the output on the fly is 2"
    );
    assert_eq!(
        full(|net| net.sdp(3).0.conv_mode = ConvMode::Winograd),
        "operation 3 (SDP): conv_mode is 1: only data that a convolution hands over can be Winograd's tiles"
    );
    assert_eq!(
        full(|net| net.sdp(1).0.conv_mode = ConvMode::Winograd),
        "operation 1 (SDP): conv_mode is 1: the cube is not a whole number of Winograd's tiles, which have two columns and four lines"
    );
    assert_eq!(
        full(|net| {
            tiles(net);
            net.sdp(1).0.dst_precision = Precision::Int16;
        }),
        "operation 1 (SDP): conv_mode is 1: Winograd's tiles exclude conversion from 8 to 16 bits and output to PDP"
    );
    assert_eq!(
        full(|net| {
            let (op, _) = net.sdp(1);
            (op.batch_num, op.dst_precision) = (2, Precision::Int16);
        }),
        "operation 1 (SDP): batch_num is 2: a batch excludes Winograd, conversion from 8 to 16 bits and output to PDP"
    );
}

#[test]
fn the_convolution_buffer_is_shared_inside_a_task_only() {
    assert_eq!(
        small(|net| net.conv(0).0.data_reuse = true),
        "operation 0 (CONV): data_reuse is 1: the task's convolution before this one left nothing that this one can use"
    );
    assert_eq!(
        small(|net| net.conv(0).0.weight_reuse = true),
        "operation 0 (CONV): weight_reuse is 1: the task's convolution before this one left nothing that this one can use"
    );
    // What the last one leaves is not used.
    assert_eq!(small(|net| net.conv(0).0.skip_weight_rls = true), "taken");
    let two = |spoil: fn(&mut Net)| {
        small(|net| {
            net.convolution(SMALL, 0x6000);
            let (op, _) = net.conv(0);
            (op.skip_data_rls, op.skip_weight_rls) = (true, true);
            let (op, _) = net.conv(4);
            (op.data_reuse, op.weight_reuse) = (true, true);
            spoil(net);
        })
    };
    assert_eq!(two(|_| ()), "taken");
    assert_eq!(
        two(|net| net.conv(4).0.weight_bank = 3),
        "operation 4 (CONV): data_reuse is 1: the task's convolution before this one left nothing that this one can use"
    );
    assert_eq!(two(|net| net.conv(4).0.weight_reuse = false), "taken");
    // Some lines are kept when not all are released.
    assert_eq!(
        two(|net| {
            let (op, _) = net.conv(0);
            (op.skip_data_rls, op.release) = (false, 6);
            // The next one fetches the others alone.
            net.conv(4).1.src_data.height = 6;
        }),
        "taken"
    );
}

/// Copies of one size in several units, and the contents of the convolution buffer: if they contradict one another, the
/// operation never ends.
#[test]
fn units_of_a_convolution_must_agree() {
    let conv = |spoil: fn(&mut desc::ConvOp, &mut desc::ConvSurface)| {
        small(|net| {
            let (op, surface) = net.conv(0);
            spoil(op, surface);
        })
    };
    let cases = [
        (conv(|op, _| op.entry_per_slice = 7), "entry_per_slice is 7, but the number of entries of a line is 8"),
        (conv(|op, _| op.input_width_cmac = 5), "input_width_cmac is 5, but the width of dst_data is 6"),
        (conv(|op, _| op.input_height_cmac = 7), "input_height_cmac is 7, but the height of dst_data is 6"),
        (conv(|op, _| op.input_width_csc = 9), "input_width_csc is 9, but the width of src_data is 8"),
        (
            conv(|op, _| op.input_height_csc = 9),
            "input_height_csc * batch is 9, but the number of lines that are fetched or in the convolution buffer is 8",
        ),
        (
            conv(|op, _| op.input_channel_csc = 7),
            "input_channel_csc is 7, but the number of channels of the input is 8",
        ),
        (conv(|op, _| op.kernel_channel_csc = 7), "kernel_channel_csc is 7, but input_channel_csc is 8"),
        (conv(|op, _| op.bytes_per_kernel = 71), "bytes_per_kernel is 71, but the number of bytes of a kernel is 72"),
        (conv(|op, _| op.post_extension = 1), "post_extension is 1: only kernels of images are extended"),
        (
            conv(|op, _| (op.conv_stride_y, op.dilation_y) = (8, 32)),
            "the line where the last kernel ends is 104, outside 0..=70",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, format!("operation 0 (CONV): {expected}"));
    }
    let pool = |spoil: fn(&mut desc::PdpOp)| small(|net| spoil(net.pdp(2).0));
    let cases = [
        (
            pool(|op| op.pad_right = 2),
            "the width of dst_data is 3, but the number of windows over the padded input is 4",
        ),
        (
            pool(|op| op.stride_y = 1),
            "the height of dst_data is 3, but the number of windows over the padded input is 5",
        ),
        (
            pool(|op| (op.pad_top, op.pool_height) = (4, 3)),
            "the height of dst_data is 3, but the number of windows over the padded input is 4",
        ),
        (pool(|op| (op.pad_left, op.stride_x) = (2, 3)), "pad_left is 2, outside 0..=1"),
    ];
    for (found, expected) in cases {
        assert_eq!(found, format!("operation 2 (PDP): {expected}"));
    }
    assert_eq!(
        full(|net| {
            let (op, _) = net.sdp(1);
            (op.src_precision, op.dst_precision) = (Precision::Int16, Precision::Int16);
        }),
        "operation 0 (CONV): out_precision is 0, but that of the operation that takes it on the fly is 1"
    );
}
