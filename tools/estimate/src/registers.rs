// SPDX-License-Identifier: MIT OR Apache-2.0

//! The register writes of operations, counted from their descriptors.
//!
//! The driver writes only the registers whose values change. A unit's operations take its two register groups in turns, so the
//! values that stay are those of its last operation but one; the reading blocks of SDP and PDP have turns of their own. The registers and
//! their fields are those of `kmd/engine/src/task`, and `tests/tests/estimates.rs` compares the times with those of its counts.

use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{ConvOp, ConvSurface, CvtParam, DataCube, DataFormat, MemoryType, Operation, PdpOp, PdpSurface};
use nvdla_uapi::desc::{SdpOp, SdpOperandMode, SdpOperation, SdpSubUnit, SdpSurface, Surface};
use nvdla_uapi::reg::values::{ConvMode, PoolingMethod, WeightFormat};

/// What the registers of a block hold; `None` for those that an operation does not write.
type Values<const COUNT: usize> = [Option<u64>; COUNT];

/// The value of a register that holds these fields. Other fields have another value.
#[expect(clippy::unnecessary_wraps, reason = "a register that an operation does not write has none")]
fn value<const COUNT: usize>(fields: [u32; COUNT]) -> Option<u64> {
    let hashed = |value: u64, field: &u32| value.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(*field));
    Some(fields.iter().fold(0, hashed))
}

/// The two register groups of blocks that an operation programs together.
#[derive(Clone, Debug)]
struct Groups<const COUNT: usize> {
    held: [Option<Values<COUNT>>; 2],
    next: usize,
}

impl<const COUNT: usize> Default for Groups<COUNT> {
    fn default() -> Self {
        Self { held: [None; 2], next: 0 }
    }
}

impl<const COUNT: usize> Groups<COUNT> {
    /// Writes the next group, and returns how many registers changed; `None` if it is not known what they held.
    fn write(&mut self, values: Values<COUNT>) -> Option<u32> {
        let group = &mut self.held[self.next];
        self.next = 1 - self.next;
        let Some(held) = group else {
            *group = Some(values);
            return None;
        };
        let changed = held.iter_mut().zip(values).filter(|(held, value)| value.is_some() && **held != *value);
        Some(changed.map(|(held, value)| *held = value).count() as u32)
    }
}

/// The registers of the units that run most operations.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    conv: Groups<63>,
    sdp: Groups<34>,
    sdp_reader: Groups<20>,
    pdp: Groups<25>,
    pdp_reader: Groups<12>,
}

impl Registers {
    /// The writes of an operation after those before, and of the pointers that select its register groups. `None` if it is not known what
    /// the registers held, or for a unit that runs few operations. In its cubes, `address` and `offset` together stand for the address.
    pub fn write(&mut self, operation: &Operation, surface: &Surface, config: &Config) -> Option<u32> {
        match (operation, surface) {
            (Operation::Conv(op), Surface::Conv(surface)) => {
                let pointers = 5;
                Some(self.conv.write(convolution(op, surface, config))? + pointers)
            }
            (Operation::Sdp(op), Surface::Sdp(surface)) => {
                let operands = [&op.x1_op, &op.x2_op, &op.y_op].into_iter().flatten();
                let reads = !on_the_fly(&surface.src_data) || operands.clone().any(in_memory);
                let read =
                    if reads { self.sdp_reader.write(sdp_reader(op, surface)).map(|count| count + 1) } else { Some(0) };
                let written = self.sdp.write(sdp(op, surface));
                Some(written? + 1 + read?)
            }
            (Operation::Pdp(op), Surface::Pdp(surface)) => {
                let reads = !on_the_fly(&surface.src_data);
                let read =
                    if reads { self.pdp_reader.write(pdp_reader(op, surface)).map(|count| count + 1) } else { Some(0) };
                let written = self.pdp.write(pdp(op, surface));
                Some(written? + 1 + read?)
            }
            _ => None,
        }
    }
}

fn on_the_fly(cube: &DataCube) -> bool {
    cube.mem_type == MemoryType::Hw
}

/// The address of a cube. Its upper word seldom changes.
fn address(cube: &DataCube) -> Option<u64> {
    value([cube.address as u32, cube.offset])
}

fn memory(cube: &DataCube) -> Option<u64> {
    value([cube.mem_type as u32])
}

/// A cube's address, strides and memory; none of them if it is on the fly.
fn place(cube: &DataCube) -> Values<4> {
    let place = [address(cube), value([cube.line_stride]), value([cube.surf_stride]), memory(cube)];
    place.map(|value| value.filter(|_| !on_the_fly(cube)))
}

/// A cube's width, height and channels.
fn sizes(cube: &DataCube) -> Values<3> {
    [cube.width, cube.height, cube.channel].map(|size| value([size.into()]))
}

/// CACC, both parts of CMAC, CSC and CDMA. Images have one plane.
fn convolution(op: &ConvOp, surface: &ConvSurface, config: &Config) -> Values<63> {
    let ConvSurface { weight_data, wmb_data, wgs_data, src_data, dst_data, .. } = surface;
    let (kernels, feature) = (u32::from(dst_data.channel), op.data_format == DataFormat::Feature);
    let [width, height] = [dst_data.width, dst_data.height].map(u32::from);
    let modes = [op.conv_mode as u32, op.out_precision as u32];
    let sharing = [op.data_reuse, op.weight_reuse, op.skip_data_rls, op.skip_weight_rls].map(u32::from);
    let shared = sharing.iter().fold(0, |all, &one| all << 1 | one);
    let input = [op.input_width_csc, op.input_height_csc].map(u32::from);
    let banks = value([op.data_bank, op.weight_bank].map(u32::from));
    let format = value([op.weight_format as u32]);
    let [batch, entries, pad_value, mask] = [
        value([op.batch.into()]),
        value([op.entry_per_slice.into()]),
        value([op.pad_val as u32]),
        value([wmb_data.size]).filter(|_| op.weight_format == WeightFormat::Compressed),
    ];
    // Winograd's input is already cut for its strides and padding.
    let direct = op.conv_mode == ConvMode::Direct;
    let strides = [op.conv_stride_x, op.conv_stride_y].map(u32::from);
    let padding = [op.pad_x_left, op.pad_x_right, op.pad_y_top, op.pad_y_bottom].map(u32::from);
    let pixel = match op.data_format {
        DataFormat::Feature => value([]),
        DataFormat::Pixel(format) => value([1, format as u32, op.pixel_mapping as u32, op.pixel_override as u32]),
    };
    let line = src_data.width as u32 * config.memory_atomic;
    let packed = [src_data.line_stride == line, src_data.surf_stride == line * u32::from(src_data.height)];
    let converts = |value: Option<u64>| value.filter(|_| op.in_cvt.enable != 0);
    let subtracts = |value: Option<u64>| value.filter(|_| op.mean_format);
    [
        // CACC
        value(modes),
        value([width, height]),
        value([kernels]),
        batch,
        value([u32::from(width == 1 && height == 1)]),
        value([op.out_cvt.truncate.into()]),
        // CMAC
        value(modes),
        value(modes),
        // CSC
        value([modes[0], modes[1], shared]),
        value([feature.into()]),
        value(input),
        value([op.input_channel_csc.into()]),
        batch,
        value([op.post_extension.into()]),
        entries,
        format,
        value([op.kernel_width_csc, op.kernel_height_csc].map(u32::from)),
        value([op.kernel_channel_csc.into(), kernels]),
        value([weight_data.size]),
        mask,
        value([op.input_width_cmac, op.input_height_cmac].map(u32::from)),
        value([kernels]),
        value([width * height]),
        value([op.release.into()]),
        value(if direct { strides } else { [1; 2] }),
        value([op.dilation_x, op.dilation_y].map(u32::from)),
        value(if direct { [padding[0], padding[2]] } else { [0; 2] }),
        pad_value,
        banks,
        value([op.pra_truncate.into()]),
        // CDMA
        value([modes[0], modes[1], op.in_precision as u32, shared]),
        pixel,
        value([src_data.width, src_data.height].map(u32::from)),
        value([src_data.channel.into()]),
        value(input),
        memory(src_data),
        address(src_data),
        value([src_data.line_stride]),
        value([src_data.surf_stride]).filter(|_| feature),
        value(packed.map(u32::from)).filter(|_| feature),
        batch,
        entries,
        value([op.fetch_grain.into()]),
        format,
        value([op.bytes_per_kernel]),
        value([kernels]),
        memory(weight_data),
        address(weight_data),
        value([weight_data.size]),
        mask.and(address(wgs_data)),
        mask.and(address(wmb_data)),
        mask,
        value([op.mean_format.into()]),
        subtracts(value([op.mean_ry, op.mean_gu].map(|mean| mean as u32))),
        subtracts(value([op.mean_bv, op.mean_ax].map(|mean| mean as u32))),
        value([op.in_cvt.enable.into(), op.in_cvt.truncate.into()]),
        converts(value([op.in_cvt.offset as u32])),
        converts(value([op.in_cvt.scale as u32])),
        value(strides),
        value(padding),
        pad_value,
        banks,
        value([]).filter(|_| !feature),
    ]
}

/// Whether a sub-unit of SDP reads operands.
fn in_memory(unit: &SdpSubUnit) -> bool {
    unit.op_type != SdpOperation::None && unit.mode != SdpOperandMode::PerLayer
}

/// The operands of a sub-unit. Those per kernel lie one after another, so they have no strides.
fn operand(unit: Option<&SdpSubUnit>, cube: &DataCube) -> Values<4> {
    let Some(unit) = unit.filter(|unit| in_memory(unit)) else { return [value([]), None, None, None] };
    let strides = [cube.line_stride, cube.surf_stride].map(|stride| value([stride]));
    let [line, surface] = strides.map(|stride| stride.filter(|_| unit.mode == SdpOperandMode::PerPoint));
    let format = value([1, unit.op_type as u32, unit.precision as u32, unit.mode as u32, cube.mem_type as u32]);
    [format, address(cube), line, surface]
}

fn sdp_reader(op: &SdpOp, surface: &SdpSurface) -> Values<20> {
    let SdpSurface { src_data, x1_data, x2_data, y_data, .. } = surface;
    let precisions = [op.src_precision as u32, op.dst_precision as u32];
    let mode =
        [on_the_fly(src_data).into(), op.conv_mode as u32, precisions[0], precisions[1], u32::from(op.batch_num)];
    let parts: [&[Option<u64>]; 6] = [
        &[value(mode)],
        &sizes(src_data),
        &place(src_data),
        &operand(op.x1_op.as_ref(), x1_data),
        &operand(op.x2_op.as_ref(), x2_data),
        &operand(op.y_op.as_ref(), y_data),
    ];
    joined(parts)
}

/// The values of several parts, one after another.
fn joined<const COUNT: usize, const PARTS: usize>(parts: [&[Option<u64>]; PARTS]) -> Values<COUNT> {
    let mut values = [None; COUNT];
    for (value, part) in values.iter_mut().zip(parts.into_iter().flatten()) {
        *value = *part;
    }
    values
}

/// Whether the ALU and the multiplier of a sub-unit work.
fn uses(unit: &SdpSubUnit) -> [bool; 2] {
    let both = unit.op_type == SdpOperation::Both;
    [both || unit.op_type == SdpOperation::Add, both || unit.op_type == SdpOperation::Mul]
}

fn activation(unit: &SdpSubUnit) -> Option<u64> {
    let [alu, mul] = uses(unit).map(u32::from);
    value([1, alu, unit.alu_type as u32, mul, unit.act as u32])
}

/// X1 or X2.
fn sub_unit(unit: Option<&SdpSubUnit>) -> Values<5> {
    let Some(unit) = unit else { return [value([]), None, None, None, None] };
    let [alu, mul] = uses(unit);
    let layer = unit.mode == SdpOperandMode::PerLayer;
    [
        activation(unit),
        value([layer.into(), unit.shift_value.into()]).filter(|_| alu),
        value([unit.alu_operand as u32]).filter(|_| layer && alu),
        value([unit.mul_operand as u32]).filter(|_| layer && mul),
        value([layer.into(), unit.truncate.into()]),
    ]
}

/// Y, which has a converter each for the operands of its ALU and of its multiplier.
fn element_wise(unit: Option<&SdpSubUnit>) -> Values<12> {
    let Some(unit) = unit else { return joined([&[value([])]]) };
    let layer = unit.mode == SdpOperandMode::PerLayer;
    let half = |used: bool, operand: i32, converter: &CvtParam| {
        let converts = |value: Option<u64>| value.filter(|_| used && !layer && converter.enable != 0);
        [
            value([layer.into(), converter.enable.into()]).filter(|_| used),
            value([operand as u32]).filter(|_| used && layer),
            converts(value([converter.offset as u32])),
            converts(value([converter.scale as u32])),
            converts(value([converter.truncate.into()])),
        ]
    };
    let [alu, mul] = uses(unit);
    let (alu, mul) = (half(alu, unit.alu_operand, &unit.alu_cvt), half(mul, unit.mul_operand, &unit.mul_cvt));
    joined([&[activation(unit)], &alu, &mul, &[value([unit.truncate.into()])]])
}

fn sdp(op: &SdpOp, surface: &SdpSurface) -> Values<34> {
    let SdpSurface { src_data, dst_data, .. } = surface;
    let flies = [src_data, dst_data].map(|cube| u32::from(on_the_fly(cube)));
    joined([
        &sizes(src_data),
        &[value([flies[0], flies[1], op.conv_mode as u32, op.batch_num.into()])],
        &place(dst_data),
        &[
            value([op.src_precision as u32, op.dst_precision as u32]),
            value([op.out_cvt.offset as u32]),
            value([op.out_cvt.scale as u32]),
            value([op.out_cvt.truncate.into()]),
        ],
        &sub_unit(op.x1_op.as_ref()),
        &sub_unit(op.x2_op.as_ref()),
        &element_wise(op.y_op.as_ref()),
    ])
}

/// The columns of the parts of a pooling.
fn parts_in(op: &PdpOp) -> Option<u64> {
    value([op.partial_in_width_first, op.partial_in_width_last, op.partial_in_width_mid].map(u32::from))
}

fn pdp_reader(op: &PdpOp, surface: &PdpSurface) -> Values<12> {
    joined([
        &sizes(&surface.src_data),
        &place(&surface.src_data),
        &[
            value([op.precision as u32]),
            value([op.split_num.into()]),
            value([op.pool_width, op.stride_x].map(u32::from)),
            value([op.pad_left.into()]),
            parts_in(op),
        ],
    ])
}

fn pdp(op: &PdpOp, surface: &PdpSurface) -> Values<25> {
    let windows = [op.pool_width, op.pool_height, op.stride_x, op.stride_y].map(u32::from);
    let averages = op.pool_mode == PoolingMethod::Average;
    joined([
        &sizes(&surface.src_data),
        &sizes(&surface.dst_data),
        &[
            value([op.pool_mode as u32, on_the_fly(&surface.src_data).into(), op.split_num.into()]),
            parts_in(op),
            value([op.partial_width_first, op.partial_width_last, op.partial_width_mid].map(u32::from)),
            value(windows),
            value([op.pad_left, op.pad_right, op.pad_top, op.pad_bottom].map(u32::from)),
        ],
        &[op.pool_width, op.pool_height].map(|size| value([size.into(), op.precision as u32]).filter(|_| averages)),
        &op.padding_value.map(|padding| value([padding as u32]).filter(|_| averages)),
        &place(&surface.dst_data),
        &[value([op.precision as u32])],
    ])
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::NV_SMALL;

    use super::*;

    #[test]
    fn only_what_differs_from_the_operation_before_the_last_is_written() {
        let surface = |offset| {
            let weight_data = DataCube { offset, ..Default::default() };
            Surface::Conv(ConvSurface { weight_data, ..Default::default() })
        };
        let convolution = |release| Operation::Conv(ConvOp { release, ..Default::default() });
        let mut registers = Registers::default();
        let mut write = |release, offset| registers.write(&convolution(release), &surface(offset), &NV_SMALL);
        // Two register groups, whose values are not known.
        assert_eq!([write(1, 0), write(2, 0)], [None; 2]);
        // The pointers of five blocks, and what differs: nothing, the release, that and the address of the weights.
        assert_eq!([write(1, 0), write(1, 0), write(3, 64)], [Some(5), Some(6), Some(7)]);
    }

    #[test]
    fn the_reader_of_sdp_is_programmed_if_it_reads() {
        let flies = DataCube { mem_type: MemoryType::Hw, ..Default::default() };
        let unit = SdpSubUnit { op_type: SdpOperation::Add, mode: SdpOperandMode::PerKernel, ..Default::default() };
        let mut registers = Registers::default();
        let mut write = |x1_op, offset| {
            let x1_data = DataCube { offset, ..Default::default() };
            let surface = SdpSurface { src_data: flies, x1_data, ..Default::default() };
            registers.write(&Operation::Sdp(SdpOp { x1_op, ..Default::default() }), &Surface::Sdp(surface), &NV_SMALL)
        };
        assert_eq!([write(None, 0), write(None, 0)], [None; 2]);
        assert_eq!(write(None, 0), Some(1));
        // Its registers are not known yet.
        assert_eq!([write(Some(unit), 0), write(Some(unit), 0)], [None; 2]);
        assert_eq!([write(Some(unit), 0), write(Some(unit), 64)], [Some(2), Some(3)]);
    }
}
