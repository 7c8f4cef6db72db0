// SPDX-License-Identifier: MIT OR Apache-2.0

//! Evaluates a network in int8 or mixed precision in plain loops, tensor by tensor. A loadable must give the same bits.
//!
//! The loops use only the steps and their numbers, and no layouts, parts, buffers or descriptors. Rounding and saturation follow
//! the documentation of the units.

use nvdla_uapi::desc::{Lut, LutSlope};
use nvdla_uapi::reg::values::{AluAlgorithm, LutTable};

use crate::ir::{Pool, PoolKind};
use crate::net::step::{Convolution, Kind, Power, Step};
use crate::numbers::quantizer::{Converter, Numbers, Operand, Stages, XActivation, X, Y};
use crate::output::compiled::Lowered;
use crate::target::PRA_TRUNCATE;
use nvdla_runtime::half;

/// The integers of every tensor that is computed, channels outermost; of one in half precision its bits. `inputs` are in the order of the network's.
///
/// # Panics
/// If `inputs` do not have the sizes of the network's inputs.
pub fn evaluate(network: &Lowered, inputs: &[Vec<i8>]) -> Vec<Option<Vec<i16>>> {
    let net = &network.net;
    let mut values: Vec<Option<Vec<i16>>> = vec![None; net.tensors.len()];
    for (&id, input) in net.inputs.iter().zip(inputs) {
        assert_eq!(input.len(), net.tensors[id].elements(), "input {:?}", net.tensors[id].name);
        values[id] = Some(input.iter().map(|&value| value.into()).collect());
    }
    for (step, numbers) in net.steps.iter().zip(&network.numbers) {
        let value = compute(network, step, numbers, &values);
        values[step.output] = Some(value);
    }
    values
}

fn at([_, h, w]: [u32; 3], c: u32, y: u32, x: u32) -> usize {
    ((c * h + y) * w + x) as usize
}

/// All positions of a shape, in order.
fn positions([c, h, w]: [u32; 3]) -> impl Iterator<Item = (u32, u32, u32)> {
    (0..c).flat_map(move |c| (0..h).flat_map(move |y| (0..w).map(move |x| (c, y, x))))
}

fn compute(network: &Lowered, step: &Step, numbers: &Numbers, values: &[Option<Vec<i16>>]) -> Vec<i16> {
    let shape = |id: usize| network.net.tensors[id].shape;
    let of = |id: usize| values[id].as_deref().unwrap_or_default();
    let (from, input) = (shape(step.inputs[0]), of(step.inputs[0]));
    let into = shape(step.output);
    let bits = |id: usize| if network.net.tensors[id].wide { 16 } else { 8 };
    let sdp = |value: i64, (c, y, x): (u32, u32, u32)| {
        let tensor = |id: usize, gate: bool| {
            let place = if gate { c as usize } else { at(into, c, y, x) };
            i64::from(of(id)[place])
        };
        stages(&numbers.stages, &network.tables, value, [c, y, x], &tensor, bits(step.output))
    };
    match &step.kind {
        Kind::Convolution(conv) => {
            let bits = bits(step.inputs[0]);
            let sum = |place| {
                if numbers.winograd {
                    winograd(conv, numbers, input, from, place)
                } else {
                    convolution(conv, numbers, input, from, bits, place)
                }
            };
            positions(into).map(|place| sdp(sum(place), place)).collect()
        }
        Kind::Product => {
            let (weights, pixels) = (of(step.inputs[1]), into[0] as usize);
            let sum = |(k, y, x): (u32, u32, u32)| {
                (0..from[0])
                    .map(|c| i64::from(input[at(from, c, y, x)]) * i64::from(weights[c as usize * pixels + k as usize]))
                    .sum()
            };
            positions(into).map(|place| sdp(sum(place), place)).collect()
        }
        Kind::Copy => {
            positions(into).map(|place| sdp(input[at(into, place.0, place.1, place.2)].into(), place)).collect()
        }
        Kind::Pool(pool) => positions(into).map(|place| pooled(pool, input, from, bits(step.output), place)).collect(),
        Kind::Concat(axis) => positions(into)
            .map(|(c, y, x)| {
                let mut place = [c, y, x];
                let mut parts = step.inputs.iter();
                let mut part = parts.next().copied().unwrap_or_default();
                while place[*axis] >= shape(part)[*axis] {
                    place[*axis] -= shape(part)[*axis];
                    part = parts.next().copied().unwrap_or_default();
                }
                of(part)[at(shape(part), place[0], place[1], place[2])]
            })
            .collect(),
        Kind::Slice { start, step } => positions(into)
            .map(|(c, y, x)| input[at(from, start[0] + c * step[0], start[1] + y * step[1], start[2] + x)])
            .collect(),
        Kind::Channels(order) => positions(into).map(|(c, y, x)| input[at(from, order[c as usize], y, x)]).collect(),
        Kind::Same => input.to_vec(),
        Kind::Spread([by, bx]) => positions(into)
            .map(|(c, y, x)| input[at(from, (y % by * bx + x % bx) * into[0] + c, y / by, x / bx)])
            .collect(),
        Kind::Columns(apart) => positions(into).map(|(c, y, x)| input[at(from, c, y, x * apart)]).collect(),
        Kind::Transpose => positions(into).map(|(c, y, x)| input[at(from, c, x, y)]).collect(),
        Kind::Turn => positions(into).map(|(p, _, c)| input[at(from, c, p / from[2], p % from[2])]).collect(),
        Kind::Pixels => positions(into)
            .map(|(c, y, x)| {
                let pixel = y * into[2] + x;
                input[at(from, c, pixel / from[2], pixel % from[2])]
            })
            .collect(),
        Kind::Repeat([by, bx]) => positions(into).map(|(c, y, x)| input[at(from, c, y / by, x / bx)]).collect(),
        Kind::Lrn(lrn) => {
            let Some((table, out)) = numbers.normalisation else { return Vec::new() };
            let reach = lrn.size as u32 / 2;
            let factor = |sum: i64| normalising_factor(&network.tables[table], sum);
            positions(into)
                .map(|(c, y, x)| {
                    let around = c.saturating_sub(reach)..=(c + reach).min(from[0] - 1);
                    let sum: i64 = around.map(|c| i64::from(input[at(from, c, y, x)]).pow(2)).sum();
                    let product = i64::from(input[at(into, c, y, x)]) * factor(sum) * i64::from(out.scale);
                    saturate(shift(product, out.truncate), 8) as i16
                })
                .collect()
        }
        Kind::Softmax(groups) => {
            let half = network.net.tensors[step.output].half;
            let [input_scale, output_scale] = [step.inputs[0], step.output].map(|id| network.scales[id].scale as f32);
            let [channels, h, w] = from;
            let each = channels / groups;
            let group = input.chunks_exact((each * h * w) as usize);
            group.flat_map(|group| softmax(group, [each, h, w], input_scale, output_scale, half)).collect()
        }
        Kind::Power(power) => {
            let Power { exponent, factor } = *power;
            let [from, to] = [step.inputs[0], step.output].map(|id| network.scales[id]);
            let shift = -(f64::from(factor) * from.scale * f64::from(from.zero)) as f32;
            let real = |x: i16| (shift + factor * (f32::from(x) * from.scale as f32)).powf(exponent);
            input.iter().map(|&x| ((real(x) / to.scale as f32) as i8).into()).collect()
        }
    }
}

/// Shifts right, and rounds half away from zero.
fn shift(value: i64, by: u8) -> i64 {
    if by == 0 {
        return value;
    }
    let half = 1i64 << (by - 1);
    if value >= 0 {
        (value + half) >> by
    } else {
        -((-value + half) >> by)
    }
}

fn saturate(value: i64, bits: u32) -> i64 {
    let most = (1i64 << (bits - 1)) - 1;
    value.clamp(-most - 1, most)
}

/// A sum of a convolution whose input and weights have `bits`.
fn convolution(
    conv: &Convolution,
    numbers: &Numbers,
    input: &[i16],
    from: [u32; 3],
    bits: u32,
    (k, y, x): (u32, u32, u32),
) -> i64 {
    let op = &conv.op;
    let per_group = from[0] / op.group as u32;
    let group = k / (conv.kernels / op.group) as u32;
    let [rows, columns] = op.kernel.map(|extent| extent as u32);
    let mut sum = 0i64;
    for c in 0..per_group {
        for r in 0..rows {
            for s in 0..columns {
                let iy = i64::from(y * op.stride[0] as u32 + r * op.dilation[0] as u32) - op.padding.top as i64;
                let ix = i64::from(x * op.stride[1] as u32 + s * op.dilation[1] as u32) - op.padding.left as i64;
                let value = padded(numbers, input, from, bits, group * per_group + c, [iy, ix]);
                let weight = numbers.weights.at((((k * per_group + c) * rows + r) * columns + s) as usize);
                sum += value * i64::from(weight);
            }
        }
    }
    saturate(shift(sum, numbers.truncate), 32)
}

/// A convolution of 3 x 3 in Winograd's mode: one element of a tile of 2 x 2 outputs.
fn winograd(conv: &Convolution, numbers: &Numbers, input: &[i16], from: [u32; 3], (k, y, x): (u32, u32, u32)) -> i64 {
    // The data's transform by lines or columns, and the signs of the products in the output's transform.
    const DATA: [[i64; 4]; 4] = [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]];
    const SUMS: [[i64; 4]; 2] = [[1, 1, 1, 0], [0, 1, -1, -1]];
    let padding = &conv.op.padding;
    let mut sum = 0;
    for c in 0..from[0] {
        let value = |r: usize, s: usize| {
            let (iy, ix) =
                (i64::from(y & !1) + r as i64 - padding.top as i64, i64::from(x & !1) + s as i64 - padding.left as i64);
            padded(numbers, input, from, 8, c, [iy, ix])
        };
        let tile: [[i64; 4]; 4] = std::array::from_fn(|r| std::array::from_fn(|s| value(r, s)));
        for (r, s) in (0..4).flat_map(|r| (0..4).map(move |s| (r, s))) {
            let lines = (0..4).map(|a| DATA[r][a] * (0..4).map(|b| DATA[s][b] * tile[a][b]).sum::<i64>());
            let data = saturate(shift(lines.sum(), PRA_TRUNCATE), 8);
            let weight = i64::from(numbers.weights.at(((k * from[0] + c) * 16) as usize + 4 * r + s));
            sum += SUMS[y as usize % 2][r] * SUMS[x as usize % 2][s] * data * weight;
        }
    }
    saturate(sum, 32)
}

/// An element of the padded input as the multipliers receive it. `y` and `x` may lie in the padding.
fn padded(numbers: &Numbers, input: &[i16], from: [u32; 3], bits: u32, channel: u32, [y, x]: [i64; 2]) -> i64 {
    if (0..i64::from(from[1])).contains(&y) && (0..i64::from(from[2])).contains(&x) {
        converted(numbers.converter, input[at(from, channel, y as u32, x as u32)], channel, bits)
    } else {
        numbers.outside.into()
    }
}

/// The value after CDMA's converter, which makes `bits` of an image's bytes.
fn converted(converter: Option<Converter>, value: i16, channel: u32, bits: u32) -> i64 {
    let Some(Converter { unsigned, offsets, scale, truncate }) = converter else { return value.into() };
    let value = if unsigned { i64::from(value as u8) } else { i64::from(value) };
    let value = (value - i64::from(offsets[channel as usize])) * i64::from(scale);
    saturate(saturate(shift(value, truncate), 17), bits)
}

/// The value of an operand at a position. `tensor` returns a tensor's element at the current position, or its value for the current channel.
fn operand(operand: &Operand, [c, y, x]: [u32; 3], tensor: &dyn Fn(usize, bool) -> i64) -> i64 {
    match operand {
        Operand::Layer(value) => i64::from(*value),
        Operand::Kernel(values) => i64::from(values[if values.len() == 1 { 0 } else { c as usize }]),
        Operand::Element(id) => tensor(*id, false),
        Operand::Elements(elements) => elements.at(c, y, x).into(),
        Operand::Gate(id) => tensor(*id, true),
    }
}

fn alu(algorithm: AluAlgorithm, value: i64, operand: i64) -> i64 {
    match algorithm {
        AluAlgorithm::Max => value.max(operand),
        AluAlgorithm::Min => value.min(operand),
        AluAlgorithm::Sum => value + operand,
        AluAlgorithm::Eql => i64::from(value != operand),
    }
}

/// The output of SDP, in `bits`.
fn stages(
    stages: &Stages,
    tables: &[Lut],
    value: i64,
    place: [u32; 3],
    tensor: &dyn Fn(usize, bool) -> i64,
    bits: u32,
) -> i16 {
    let mut value = value;
    for unit in [&stages.x1, &stages.x2].into_iter().flatten() {
        let X { alu: first, shift: left, mul, truncate, activation } = unit;
        if let Some((algorithm, with)) = first {
            value = alu(*algorithm, value, saturate(operand(with, place, tensor) << left, 32));
        }
        if !(*activation == XActivation::Prelu && value >= 0) {
            let factor = mul.as_ref().map_or(1, |with| operand(with, place, tensor));
            value = saturate(shift(value * factor, *truncate), 32);
        }
        if *activation == XActivation::Relu {
            value = value.max(0);
        }
    }
    if let Some(Y { mul, truncate, alu: then, zero, table }) = &stages.y {
        if let Some(with) = mul {
            value = saturate(shift(value * (operand(with, place, tensor) - i64::from(*zero)), *truncate), 32);
        }
        if let Some((algorithm, with, factor)) = then {
            let with = operand(with, place, tensor) - i64::from(*zero);
            let with = factor.map_or(with, |f| saturate(shift(with * i64::from(f.scale), f.truncate), 32));
            value = saturate(alu(*algorithm, value, with), 32);
        }
        if let Some(table) = table {
            value = look_up(&tables[*table], value);
        }
    }
    if let Some(out) = stages.out {
        value = saturate(shift((value - i64::from(stages.offset)) * i64::from(out.scale), out.truncate), 17);
    }
    saturate(value, bits) as i16
}

/// Where a value lies in a table.
enum Place {
    /// The entries before and behind it, how far it is behind the first one, and the logarithm of their distance.
    Between([i64; 2], i64, u8),
    /// The value of the line that continues a table beyond its end.
    Beyond(i64),
}

/// The place of a value in the first table, or else in the second one.
fn place(table: &Lut, value: i64) -> Place {
    let between = |entries: &[i16], start: u64, select: i8| {
        let distance = (value - start as i64).max(0);
        let pair = entries.windows(2).nth((distance >> select) as usize).filter(|_| distance > 0)?;
        Some(Place::Between([pair[0].into(), pair[1].into()], distance & ((1 << select) - 1), select as u8))
    };
    let beyond = |entry: i16, end: u64, slope: LutSlope| {
        let rise = (value - end as i64) * i64::from(slope.scale);
        Place::Beyond(saturate(i64::from(entry) + saturate(shift(rise, slope.shifter as u8), 32), 32))
    };
    let entries = &table.linear_only_table;
    let [start, end] = [table.linear_only_start, table.linear_only_end];
    between(&table.linear_exp_table, table.linear_exp_start, table.linear_exp_offset)
        .or_else(|| between(entries, start, table.linear_only_offset))
        .unwrap_or_else(|| {
            let close = &table.linear_exp_table;
            if value <= start as i64 {
                beyond(entries[0], start, table.linear_only_underflow_slope)
            } else if table.overflow_priority == LutTable::Le {
                beyond(close[close.len() - 1], table.linear_exp_end, table.linear_exp_overflow_slope)
            } else {
                beyond(entries[entries.len() - 1], end, table.linear_only_overflow_slope)
            }
        })
}

/// Interpolates between two entries.
fn look_up(table: &Lut, value: i64) -> i64 {
    match place(table, value) {
        Place::Between([low, high], part, select) => shift(low * ((1 << select) - part) + high * part, select),
        Place::Beyond(value) => value,
    }
}

/// CDP's factor: as [`look_up`], interpolated with a fraction of 16 bits.
fn normalising_factor(table: &Lut, sum: i64) -> i64 {
    match place(table, sum) {
        Place::Between([low, high], part, select) => {
            let part = if select > 16 { part >> (select - 16) } else { part << (16 - select) };
            low + shift((high - low) * part, 16)
        }
        Place::Beyond(value) => value,
    }
}

fn pooled(pool: &Pool, input: &[i16], from: [u32; 3], bits: u32, (c, y, x): (u32, u32, u32)) -> i16 {
    let axis = |output: u32, which: usize, pad: usize| {
        let begin = i64::from(output) * pool.stride[which] as i64 - pad as i64;
        let end = (begin + pool.kernel[which] as i64).min(from[1 + which].into());
        (begin.max(0) as u32, end as u32)
    };
    let (rows, columns) = (axis(y, 0, pool.padding.top), axis(x, 1, pool.padding.left));
    let found = || (rows.0..rows.1).flat_map(|y| (columns.0..columns.1).map(move |x| (y, x)));
    let found = found().map(|(y, x)| i64::from(input[at(from, c, y, x)]));
    match pool.kind {
        PoolKind::Max => found.max().unwrap_or(0) as i16,
        PoolKind::Average { count_include_pad } => {
            let sides = if count_include_pad {
                pool.kernel.map(|side| side as i64)
            } else {
                [rows.1 - rows.0, columns.1 - columns.0].map(i64::from)
            };
            // Two factors of sixteen fraction bits, each product rounded.
            let across = shift(found.sum::<i64>() * (65536 / sides[1]), 16);
            saturate(shift(across * (65536 / sides[0]), 16), bits) as i16
        }
    }
}

/// The emulator's softmax: half precision input and output, single precision inside, truncated towards zero; or the bits of results
/// in half precision, of an input that is not rounded.
fn softmax(input: &[i16], shape: [u32; 3], input_scale: f32, output_scale: f32, bits: bool) -> Vec<i16> {
    let rounded = |value: f32| half::to_f32(half::from_f32(value));
    let argument = |value: f32| if bits { value } else { rounded(value) };
    let mut out = vec![0; input.len()];
    for (_, y, x) in positions([1, shape[1], shape[2]]) {
        let place = |c| at(shape, c, y, x);
        let mut real: Vec<f32> = (0..shape[0]).map(|c| argument(f32::from(input[place(c)]) * input_scale)).collect();
        let most = real.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for value in &mut real {
            *value = (*value - most).exp();
            sum += *value;
        }
        for (c, value) in real.iter().enumerate() {
            let share = value / sum;
            out[place(c as u32)] = if bits {
                half::from_f32(share).to_bits() as i16
            } else {
                ((rounded(share) / output_scale) as i8).into()
            };
        }
    }
    out
}
