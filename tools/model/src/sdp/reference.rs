// SPDX-License-Identifier: MIT OR Apache-2.0

//! SDP element by element: the plain code that the vector code is compared with.

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::layout::operand::Component;
use nvdla_uapi::reg::values::{AluAlgorithm, OperandMode, Precision};

use super::operation::{
    Alu, Converter, DataCube, Destination, Multiplier, OperandOrigin, OperandSurface, Operation, Source, X, Y,
};
use super::output::{put_sample, stream_for_pdp};
use super::state::State;
use super::tally::Tally;
use crate::lut::Tables;
use crate::memory::{read, write, Fault, Memory, Stop};
use crate::num::convert::{fp16_to_fp32, fp16_to_i16, fp32_to_fp16, i17_to_fp16};
use crate::num::fixed::{saturate, shift_left, shift_right, wrap};
use crate::num::{Fp16, Fp32};
use crate::registers::Registers;
use crate::stream::{Done, Samples, Stream};

/// As [`super::run`].
pub fn run(
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    sdp: &Registers,
    input: Option<&Stream>,
    memory: &mut dyn Memory,
) -> Result<Done<Option<Stream>>, Stop> {
    let operation = Operation::new(config, state.like, rdma, sdp, input)?;
    let mut tally = Tally::default();
    let mut output = stream_for_pdp(&operation)?;
    for batch in 0..operation.batch {
        for surface in 0..operation.surfaces {
            for y in 0..operation.height {
                for x in 0..operation.width {
                    for lane in 0..operation.lanes {
                        let at = ElementPosition { batch, surface, y, x, lane };
                        let value = source(&operation, at, input, memory, &mut tally)?;
                        let operands = |surface: Option<OperandSurface>, component| {
                            surface.map_or(Ok(0), |surface| operand(&surface, component, at, memory))
                        };
                        let value = element(&operation, &state.tables, value, &operands, &mut tally)?;
                        destination(&operation, at, value, output.as_mut(), memory, &mut tally)?;
                    }
                }
            }
        }
    }
    Ok(tally.finish(&operation, output))
}

/// The position of an element, including padding channels.
#[derive(Clone, Copy)]
struct ElementPosition {
    batch: usize,
    surface: usize,
    y: usize,
    x: usize,
    lane: usize,
}

/// An element's address in a feature cube; `atoms` are those of the data path, which may be wider than the cube's.
fn address(cube: &DataCube, at: ElementPosition, atoms: Atoms) -> (u64, usize) {
    let channel = atoms.channel(at.surface, at.lane);
    let offset = cube.layout.offset(at.batch as u32, channel as u32, at.y as u32, at.x as u32);
    let bytes = if cube.layout.precision() == Precision::Int8 { 1 } else { 2 };
    (cube.base.wrapping_add(offset), bytes)
}

/// One or two bytes, sign-extended.
fn load(bytes: &[u8]) -> i16 {
    match *bytes {
        [low, high] => i16::from_le_bytes([low, high]),
        [byte] => i16::from(byte as i8),
        _ => 0,
    }
}

/// The element in the precision of the data path: an integer, or the bits of an fp32.
fn source(
    operation: &Operation,
    at: ElementPosition,
    stream: Option<&Stream>,
    memory: &dyn Memory,
    tally: &mut Tally,
) -> Result<i32, Fault> {
    let value = match (operation.source, stream) {
        (Source::Stream { .. }, Some(stream)) => {
            let index = stream.index(at.batch, operation.atoms.channel(at.surface, at.lane), at.y, at.x);
            match &stream.samples {
                Samples::Int(samples) => samples[index],
                Samples::Float(samples) => samples[index].to_bits() as i32,
            }
        }
        (Source::Memory(cube), _) => {
            let (address, bytes) = address(&cube, at, operation.atoms);
            let value = load(read(memory, "SDP_RDMA", cube.port, address, bytes)?);
            if operation.processing == Precision::Fp16 {
                let bits = u32::from(value as u16);
                tally.nan_input = tally.nan_input.wrapping_add(u32::from(Fp16::is_nan(bits)));
                tally.infinite_input = tally.infinite_input.wrapping_add(u32::from(Fp16::is_infinite(bits)));
                fp16_to_fp32(value as u16) as i32
            } else {
                value.into()
            }
        }
        (Source::Stream { .. }, None) => 0,
    };
    Ok(match operation.processing {
        Precision::Fp16 => Fp32::flush_nan(value as u32, operation.nan_to_zero) as i32,
        Precision::Int8 | Precision::Int16 => value,
    })
}

/// The element's operand in memory.
fn operand(
    surface: &OperandSurface,
    component: Component,
    at: ElementPosition,
    memory: &dyn Memory,
) -> Result<i16, Fault> {
    let layout = &surface.layout;
    let (y, x) = match layout.mode() {
        OperandMode::PerKernel => (0, 0),
        OperandMode::PerElement => (at.y as u32, at.x as u32),
    };
    let channel = layout.lanes_of(at.surface as u32).start + at.lane as u32;
    let offset = layout.component_offset(component, channel, y, x).unwrap_or(0);
    let address = surface.base.wrapping_add(offset);
    Ok(load(read(memory, "SDP_RDMA", surface.port, address, layout.component_bytes() as usize)?))
}

/// A function that finds an element's operand in memory.
type Operands<'f> = dyn Fn(Option<OperandSurface>, Component) -> Result<i16, Fault> + 'f;

/// Computes an element from the data path's input to the output, 16 bits wide.
fn element(
    operation: &Operation,
    tables: &Tables,
    value: i32,
    operands: &Operands,
    tally: &mut Tally,
) -> Result<i16, Fault> {
    let is_float = operation.processing == Precision::Fp16;
    let mut value = value;
    for x in [&operation.x1, &operation.x2].into_iter().flatten() {
        value = if is_float {
            x_float(x, value as u32, operands, operation.nan_to_zero)? as i32
        } else {
            x_int(x, value, operands)?
        };
    }
    if let Some(y) = &operation.y {
        value = if is_float {
            y_float(y, value as u32, operands, operation.nan_to_zero)? as i32
        } else {
            y_int(y, value, operands)?
        };
        if let Some(lookup) = &y.lookup {
            value = if is_float {
                lookup.float(tables, value as u32, &mut tally.lookups) as i32
            } else {
                lookup.int(tables, value, &mut tally.lookups)
            };
        }
    }
    Ok(convert(operation, value, tally))
}

/// The operand from the register, or from memory through `from_memory`.
fn resolve<T>(
    operand: OperandOrigin,
    from_register: impl FnOnce(i32) -> T,
    from_memory: impl FnOnce() -> Result<T, Fault>,
) -> Result<T, Fault> {
    match operand {
        OperandOrigin::Register(value) => Ok(from_register(value)),
        OperandOrigin::Memory => from_memory(),
    }
}

fn alu_int(algorithm: AluAlgorithm, value: i64, operand: i64) -> i64 {
    match algorithm {
        AluAlgorithm::Max => value.max(operand),
        AluAlgorithm::Min => value.min(operand),
        AluAlgorithm::Sum => value + operand,
        AluAlgorithm::Eql => i64::from(value != operand),
    }
}

fn alu_float(algorithm: AluAlgorithm, value: u32, operand: u32) -> u32 {
    match algorithm {
        AluAlgorithm::Max => Fp32::max(value, operand),
        AluAlgorithm::Min => Fp32::min(value, operand),
        AluAlgorithm::Sum => Fp32::add(value, operand),
        AluAlgorithm::Eql => u32::from(value != operand),
    }
}

/// X: 33 bits after the ALU, 49 after the multiplier, 32 after the shift.
fn x_int(x: &X, value: i32, operands: &Operands) -> Result<i32, Fault> {
    let mut value = i64::from(value);
    if let Some(Alu { algorithm, operand }) = x.alu {
        let operand = resolve(operand, i64::from, || Ok(operands(x.operands, Component::Alu)?.into()))?;
        value = alu_int(algorithm, value, shift_left::<32>(operand, x.alu_shift));
    }
    let value = match x.multiplier {
        // PReLU passes values that are not negative without a shift, and only their low 32 bits.
        Some(Multiplier { prelu: true, .. }) if value >= 0 => wrap::<32>(value),
        Some(Multiplier { operand, .. }) => {
            let operand = resolve(operand, i64::from, || Ok(operands(x.operands, Component::Mul)?.into()))?;
            shift_right::<32>(value * operand, x.shift)
        }
        None => shift_right::<32>(value, x.shift),
    } as i32;
    Ok(if x.relu { value.max(0) } else { value })
}

fn x_float(x: &X, value: u32, operands: &Operands, flush: bool) -> Result<u32, Fault> {
    let half = |bits: i16| fp16_to_fp32(Fp16::flush_nan(u32::from(bits as u16), flush) as u16);
    let mut value = value;
    if let Some(Alu { algorithm, operand }) = x.alu {
        let operand = resolve(operand, |value| half(value as i16), || Ok(half(operands(x.operands, Component::Alu)?)))?;
        value = alu_float(algorithm, value, operand);
    }
    if let Some(Multiplier { operand, prelu }) = x.multiplier {
        if !(prelu && Fp32::sign(value) == 0) {
            let operand =
                resolve(operand, |value| half(value as i16), || Ok(half(operands(x.operands, Component::Mul)?)))?;
            value = Fp32::mul(value, operand);
        }
    }
    Ok(if x.relu { Fp32::relu(value) } else { value })
}

/// `(value - offset) * scale / 2^shift`: 33 bits after the subtraction, 49 after the multiplication, `BITS` at last.
fn convert_int<const BITS: u32>(converter: Converter, value: i32) -> i64 {
    let product = (i64::from(value) - i64::from(converter.offset)) * i64::from(converter.scale);
    shift_right::<BITS>(product, converter.shift)
}

/// Y: multiplier first, 64 bits, 32 after its shift, 33 after the ALU, then 32.
fn y_int(y: &Y, value: i32, operands: &Operands) -> Result<i32, Fault> {
    let converted = |component, converter: Option<Converter>| {
        let operand = i32::from(operands(y.operands, component)?);
        Ok(converter.map_or(operand, |converter| convert_int::<32>(converter, operand) as i32))
    };
    let mut value = value;
    if let Some(Multiplier { operand, prelu }) = y.multiplier {
        if !(prelu && value >= 0) {
            let operand = resolve(operand, |value| value, || converted(Component::Mul, y.multiplier_converter))?;
            value = shift_right::<32>(i64::from(value) * i64::from(operand), y.shift) as i32;
        }
    }
    if let Some(Alu { algorithm, operand }) = y.alu {
        let operand = resolve(operand, |value| value, || converted(Component::Alu, y.alu_converter))?;
        value = saturate::<32>(alu_int(algorithm, value.into(), operand.into())) as i32;
    }
    Ok(value)
}

/// Register operands of Y are fp32; those from memory fp16, with no conversion.
fn y_float(y: &Y, value: u32, operands: &Operands, flush: bool) -> Result<u32, Fault> {
    let half = |component| {
        let bits = operands(y.operands, component)?;
        Ok(fp16_to_fp32(Fp16::flush_nan(u32::from(bits as u16), flush) as u16))
    };
    let mut value = value;
    if let Some(Multiplier { operand, prelu }) = y.multiplier {
        if !(prelu && Fp32::sign(value) == 0) {
            value = Fp32::mul(value, resolve(operand, |value| value as u32, || half(Component::Mul))?);
        }
    }
    if let Some(Alu { algorithm, operand }) = y.alu {
        value = alu_float(algorithm, value, resolve(operand, |value| value as u32, || half(Component::Alu))?);
    }
    Ok(value)
}

/// The output converter. A comparison's result passes unchanged.
fn convert(operation: &Operation, value: i32, tally: &mut Tally) -> i16 {
    let (mut result, mut saturated) = match operation.processing {
        Precision::Fp16 => {
            let half = fp32_to_fp16(value as u32);
            let result = if operation.output == Precision::Int16 { fp16_to_i16(half) } else { half as i16 };
            (result, false)
        }
        Precision::Int8 | Precision::Int16 => {
            let Converter { offset, scale, shift } = operation.converter;
            let wide = convert_int::<17>(operation.converter, value);
            let result = match operation.output {
                Precision::Int8 => saturate::<8>(wide) as i16,
                Precision::Int16 => saturate::<16>(wide) as i16,
                Precision::Fp16 => i17_to_fp16(wide as i32) as i16,
            };
            // Saturation is counted where 17 bits are limited. It is detected one unit late, because the hardware
            // compares the shifted value before rounding.
            let shifted = ((i64::from(value) - i64::from(offset)) * i64::from(scale)) >> shift;
            (result, !(-65537..=65536).contains(&shifted))
        }
    };
    if operation.compares() {
        result = value as i16;
    }
    if operation.output == Precision::Fp16 {
        saturated = result & 0x7fff == 0x7bff;
    }
    tally.saturated = tally.saturated.wrapping_add(u32::from(saturated));
    tally.nan_output = tally
        .nan_output
        .wrapping_add(u32::from(operation.output == Precision::Fp16 && Fp16::is_nan(u32::from(result as u16))));
    result
}

fn destination(
    operation: &Operation,
    at: ElementPosition,
    value: i16,
    stream: Option<&mut Stream>,
    memory: &mut dyn Memory,
    tally: &mut Tally,
) -> Result<(), Fault> {
    match (&operation.destination, stream) {
        (Destination::Memory(cube), _) => {
            let (address, bytes) = address(cube, at, operation.atoms);
            write(memory, "SDP", cube.port, address, bytes)?.copy_from_slice(&value.to_le_bytes()[..bytes]);
        }
        (Destination::Pdp, Some(stream)) => {
            let index = stream.index(0, operation.atoms.channel(at.surface, at.lane), at.y, at.x);
            put_sample(&mut stream.samples, index, value);
        }
        (Destination::Pdp, None) => {}
        (Destination::Comparison, _) => tally.unequal |= value != 0,
    }
    Ok(())
}
