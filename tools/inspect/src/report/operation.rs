// SPDX-License-Identifier: MIT OR Apache-2.0

//! Describes one operation of NVDLA.

use nvdla_runtime::loadable::Loadable;
use nvdla_uapi::desc::{
    self, Activation, BdmaSurface, CdpOp, ConvOp, ConvSurface, CvtParam, DataCube, DataFormat, MemoryType, OpType,
    PdpOp, RubikOp, SdpOp, SdpOperandMode, SdpOperation, SdpSubUnit, SdpSurface,
};
use nvdla_uapi::reg::values::{AluAlgorithm, ConvMode, PoolingMethod, Precision, RubikMode, WeightFormat};

use super::bytes;
use super::contents::{Location, Operation, Surface, Task};

/// Reads an operation's two containers into the report.
pub(super) fn read(
    loadable: &Loadable,
    task: &Task,
    op_type: OpType,
    descriptor: &[u8],
    surface: &[u8],
    base: Operation,
) -> Operation {
    let base = Operation { unit: op_type.name().to_owned(), ..base };
    let descriptor = match desc::Operation::parse(op_type, descriptor) {
        Ok(descriptor) => descriptor,
        Err(error) => return Operation { problem: Some(error.to_string()), ..base },
    };
    let surface = match desc::Surface::parse(op_type, surface) {
        Ok(surface) => surface,
        Err(error) => return Operation { problem: Some(error.to_string()), ..base },
    };
    let cube = |role, cube: &DataCube| self::cube(loadable, task, role, cube);
    let mut operation = base;
    match (&descriptor, &surface) {
        (desc::Operation::Conv(op), desc::Surface::Conv(surface)) => {
            operation.precision = through(op.in_precision, op.out_precision);
            operation.multiplications = Some(multiplications(op, surface));
            operation.summary = convolution(op, surface);
            operation.surfaces = vec![cube("input", &surface.src_data), cube("weights", &surface.weight_data)];
            if op.weight_format == WeightFormat::Compressed {
                operation.surfaces.push(cube("weight mask bits", &surface.wmb_data));
                operation.surfaces.push(cube("weight group sizes", &surface.wgs_data));
            }
            operation.surfaces.push(cube("output", &surface.dst_data));
        }
        (desc::Operation::Sdp(op), desc::Surface::Sdp(surface)) => {
            operation.precision = through(op.src_precision, op.dst_precision);
            operation.summary = sdp(op);
            operation.surfaces.push(cube("input", &surface.src_data));
            let SdpSurface { x1_data, x2_data, y_data, .. } = surface;
            let units = [
                ("X1 operands", &op.x1_op, x1_data),
                ("X2 operands", &op.x2_op, x2_data),
                ("Y operands", &op.y_op, y_data),
            ];
            for (role, unit, data) in units {
                if unit.is_some_and(|unit| unit.mode != SdpOperandMode::PerLayer && unit.op_type != SdpOperation::None)
                {
                    operation.surfaces.push(cube(role, data));
                }
            }
            operation.surfaces.push(cube("output", &surface.dst_data));
        }
        (desc::Operation::Pdp(op), desc::Surface::Pdp(surface)) => {
            operation.precision = through(op.precision, op.precision);
            operation.summary = pdp(op);
            operation.surfaces = vec![cube("input", &surface.src_data), cube("output", &surface.dst_data)];
        }
        (desc::Operation::Cdp(op), desc::Surface::Cdp(surface)) => {
            operation.precision = through(op.in_precision, op.out_precision);
            operation.summary = cdp(op);
            operation.surfaces = vec![cube("input", &surface.src_data), cube("output", &surface.dst_data)];
        }
        (desc::Operation::Rubik(op), desc::Surface::Rubik(surface)) => {
            operation.precision = through(op.precision, op.precision);
            operation.summary = rubik(*op);
            operation.surfaces = vec![cube("input", &surface.src_data), cube("output", &surface.dst_data)];
        }
        (desc::Operation::Bdma(_), desc::Surface::Bdma(surface)) => {
            operation.summary = format!("{} transfers", surface.num_transfers);
            operation.surfaces = transfers(loadable, task, surface);
        }
        // The operation and its surface were parsed as the same type.
        _ => {}
    }
    operation
}

fn cube(loadable: &Loadable, task: &Task, role: &'static str, cube: &DataCube) -> Surface {
    let place = match cube.mem_type {
        MemoryType::Hw => Location::OnTheFly,
        memory => bytes::place(loadable, task, cube.address.into(), cube.offset, cube.size, memory == MemoryType::Cv),
    };
    Surface {
        role,
        width: cube.width.into(),
        height: cube.height.into(),
        channels: cube.channel.into(),
        size: cube.size,
        line_stride: cube.line_stride,
        surface_stride: cube.surf_stride,
        place,
    }
}

/// BDMA's cubes in bytes: the length of a line as the width, the number of surfaces as channels.
fn transfers(loadable: &Loadable, task: &Task, surface: &BdmaSurface) -> Vec<Surface> {
    let mut surfaces = Vec::new();
    for transfer in surface.transfers.iter().take(surface.num_transfers.into()) {
        let sides = [
            ("from", surface.source_type, transfer.source_address, transfer.source_line, transfer.source_surface),
            (
                "to",
                surface.destination_type,
                transfer.destination_address,
                transfer.destination_line,
                transfer.destination_surface,
            ),
        ];
        for (role, memory, address, line_stride, surface_stride) in sides {
            let size = transfer.line_size.saturating_mul(transfer.line_repeat).saturating_mul(transfer.surface_repeat);
            let place = bytes::place(loadable, task, address.into(), 0, size, memory == MemoryType::Cv);
            let (width, height, channels) = (transfer.line_size, transfer.line_repeat, transfer.surface_repeat);
            surfaces.push(Surface { role, width, height, channels, size, line_stride, surface_stride, place });
        }
    }
    surfaces
}

fn precision(precision: Precision) -> &'static str {
    match precision {
        Precision::Int8 => "int8",
        Precision::Int16 => "int16",
        Precision::Fp16 => "fp16",
    }
}

fn through(from: Precision, to: Precision) -> String {
    if from == to {
        precision(from).to_owned()
    } else {
        format!("{} to {}", precision(from), precision(to))
    }
}

/// The text for padding; none if there is no padding.
fn padding([left, top, right, bottom]: [u8; 4]) -> Option<String> {
    match [left, top, right, bottom] {
        [0, 0, 0, 0] => None,
        [a, b, c, d] if a == b && b == c && c == d => Some(format!("padding {a}")),
        _ => Some(format!("padding left {left} top {top} right {right} bottom {bottom}")),
    }
}

/// The text for a converter; none if it has no effect.
fn converter(name: &str, cvt: CvtParam, of: Precision) -> Option<String> {
    let CvtParam { scale, truncate, enable, offset } = cvt;
    // In fp16 a scale of 1.0 has no effect, and there is no shift.
    let one = if of == Precision::Fp16 { 0x3c00 } else { 1 };
    let neutral = offset == 0 && truncate == 0 && (scale == one || scale == 1);
    (enable != 0 && !neutral).then(|| {
        let offset = if offset == 0 { String::new() } else { format!(" minus {offset}") };
        format!("{name}{offset} times {scale} >> {truncate}")
    })
}

fn multiplications(op: &ConvOp, surface: &ConvSurface) -> u64 {
    let output = &surface.dst_data;
    // Winograd: 16 multiplications per 2 x 2 outputs and channel. CSC processes the kernel as 4 x 4.
    let share = if op.conv_mode == ConvMode::Winograd { 4 } else { 1 };
    [output.width, output.height, output.channel, op.kernel_width_csc, op.kernel_height_csc, op.kernel_channel_csc]
        .into_iter()
        .fold(1u64, |product, size| product.saturating_mul(size.into()))
        / share
}

fn convolution(op: &ConvOp, surface: &ConvSurface) -> String {
    let input = match op.data_format {
        DataFormat::Feature => String::new(),
        DataFormat::Pixel(format) => format!(" of an image ({format:?})"),
    };
    let mut parts = vec![
        format!(
            "{} kernels of {} x {} x {}{input}",
            surface.dst_data.channel, op.kernel_width_csc, op.kernel_height_csc, op.kernel_channel_csc,
        ),
        format!("stride {} x {}", op.conv_stride_x, op.conv_stride_y),
    ];
    if op.conv_mode == ConvMode::Winograd {
        parts.insert(0, "Winograd".to_owned());
    }
    if let Some(padding) = padding([op.pad_x_left, op.pad_y_top, op.pad_x_right, op.pad_y_bottom]) {
        parts.push(if op.pad_val == 0 { padding } else { format!("{padding} with {}", op.pad_val) });
    }
    if !matches!((op.dilation_x, op.dilation_y), (0..=1, 0..=1)) {
        parts.push(format!("dilation {} x {}", op.dilation_x, op.dilation_y));
    }
    if op.post_extension != 0 {
        parts.push(format!("{} rows at once", 1u32 << op.post_extension.min(31)));
    }
    if op.mean_format {
        parts.push(format!("mean {} {} {} {}", op.mean_ry, op.mean_gu, op.mean_bv, op.mean_ax));
    }
    parts.extend(converter("input", op.in_cvt, op.in_precision));
    if op.out_cvt.truncate != 0 {
        parts.push(format!("sums >> {}", op.out_cvt.truncate));
    }
    if op.batch > 1 {
        parts.push(format!("batch of {}", op.batch));
    }
    if op.weight_format == WeightFormat::Compressed {
        parts.push("compressed weights".to_owned());
    }
    let flags = [
        (op.data_reuse, "reuses data"),
        (op.weight_reuse, "reuses weights"),
        (op.skip_data_rls, "keeps data"),
        (op.skip_weight_rls, "keeps weights"),
    ];
    parts.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, what)| what.to_owned()));
    format!("{}; banks: {} data, {} weights", parts.join(", "), op.data_bank, op.weight_bank)
}

fn sub_unit(name: &str, unit: &SdpSubUnit) -> String {
    let alu = match unit.alu_type {
        AluAlgorithm::Max => "max",
        AluAlgorithm::Min => "min",
        AluAlgorithm::Sum => "add",
        AluAlgorithm::Eql => "equal",
    };
    let mut words = vec![name.to_owned()];
    if unit.op_type != SdpOperation::None {
        words.push(match unit.op_type {
            SdpOperation::Both => format!("{alu} and multiply"),
            SdpOperation::Mul => "multiply".to_owned(),
            _ => alu.to_owned(),
        });
        words.push(match (unit.mode, unit.op_type) {
            (SdpOperandMode::PerKernel, _) => "per kernel".to_owned(),
            (SdpOperandMode::PerPoint, _) => "per element".to_owned(),
            (SdpOperandMode::PerLayer, SdpOperation::Add) => unit.alu_operand.to_string(),
            (SdpOperandMode::PerLayer, SdpOperation::Mul) => unit.mul_operand.to_string(),
            (SdpOperandMode::PerLayer, _) => format!("{} and {}", unit.alu_operand, unit.mul_operand),
        });
        if unit.shift_value != 0 {
            words.push(format!("<< {}", unit.shift_value));
        }
        if unit.truncate != 0 {
            words.push(format!(">> {}", unit.truncate));
        }
    }
    for (what, cvt) in [("addend", unit.alu_cvt), ("factor", unit.mul_cvt)] {
        words.extend(converter(what, cvt, unit.precision).map(|converter| format!("({converter})")));
    }
    match unit.act {
        Activation::None => {}
        Activation::Relu => words.push("ReLU".to_owned()),
        Activation::Lut => words.push("lookup table".to_owned()),
        Activation::Prelu => words.push("PReLU".to_owned()),
    }
    words.join(" ")
}

fn sdp(op: &SdpOp) -> String {
    let units = [("X1", &op.x1_op), ("X2", &op.x2_op), ("Y", &op.y_op)];
    let mut parts: Vec<String> =
        units.into_iter().filter_map(|(name, unit)| unit.as_ref().map(|unit| sub_unit(name, unit))).collect();
    if op.lut_index >= 0 {
        parts.push(format!("table {}", op.lut_index));
    }
    parts.extend(converter("output", op.out_cvt, op.dst_precision));
    if op.batch_num > 1 {
        parts.push(format!("batch of {}", op.batch_num));
    }
    if parts.is_empty() {
        parts.push("copy".to_owned());
    }
    parts.join(", ")
}

fn pdp(op: &PdpOp) -> String {
    let mode = match op.pool_mode {
        PoolingMethod::Average => "average",
        PoolingMethod::Max => "maximum",
        PoolingMethod::Min => "minimum",
    };
    let (width, height) = (u16::from(op.pool_width) + 1, u16::from(op.pool_height) + 1);
    let mut parts = vec![format!("{mode} of {width} x {height}"), format!("stride {} x {}", op.stride_x, op.stride_y)];
    parts.extend(padding([op.pad_left, op.pad_top, op.pad_right, op.pad_bottom]));
    if op.split_num > 1 {
        parts.push(format!("width in {} parts", op.split_num));
    }
    parts.join(", ")
}

fn cdp(op: &CdpOp) -> String {
    let mut parts = vec![format!("local response over {} channels", op.local_size)];
    if op.lut_index >= 0 {
        parts.push(format!("table {}", op.lut_index));
    }
    parts.extend(converter("input", op.in_cvt, op.in_precision));
    parts.extend(converter("output", op.out_cvt, op.out_precision));
    for (set, what) in [(op.bypass_sqsum, "no sum of squares"), (op.bypass_out_mul, "no product")] {
        if set {
            parts.push(what.to_owned());
        }
    }
    parts.join(", ")
}

fn rubik(op: RubikOp) -> String {
    match op.mode {
        RubikMode::Contract => format!("contract, stride {} x {}", op.stride_x, op.stride_y),
        RubikMode::Split => "split".to_owned(),
        RubikMode::Merge => "merge".to_owned(),
    }
}
