// SPDX-License-Identifier: MIT OR Apache-2.0

//! The contents of a TFLite file: its tensors with their constants, and its operators.
//!
//! Source of the facts: TensorFlow Lite's schema, version 3 (`tensorflow/lite/schema/schema.fbs`). The slot of a field is its
//! place in its table there; a union has two slots.

use super::operators;
use super::table::Table;
use crate::ir::Quantization;

/// The identifier of a file, after the distance to its root.
const IDENTIFIER: &[u8] = b"TFL3";
/// The greatest number of dimensions of a tensor.
const MAX_RANK: usize = 8;
/// The greatest number of operands of all operators, so that a small file cannot take long to read: so many, and so many per
/// operator.
const MAX_OPERANDS: [usize; 2] = [4096, 64];

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Float32,
    Float16,
    Int32,
    Uint8,
    Int64,
    Bool,
    Int16,
    Int8,
    Float64,
    /// Two elements per byte, the first in the lower half.
    Int4,
    /// Another type, by the schema's number.
    Other(i8),
}

impl Kind {
    fn new(number: i8) -> Self {
        match number {
            0 => Self::Float32,
            1 => Self::Float16,
            2 => Self::Int32,
            3 => Self::Uint8,
            4 => Self::Int64,
            6 => Self::Bool,
            7 => Self::Int16,
            9 => Self::Int8,
            10 => Self::Float64,
            17 => Self::Int4,
            other => Self::Other(other),
        }
    }

    pub(super) fn is_real(self) -> bool {
        matches!(self, Self::Float32 | Self::Float16 | Self::Float64)
    }
}

/// A tensor of the file.
#[derive(Debug)]
pub(super) struct Tensor<'a> {
    pub(super) name: String,
    /// Its dimensions; -1 is not known.
    pub(super) shape: Vec<i32>,
    pub(super) kind: Kind,
    /// The bytes of its elements; empty if it is no constant.
    pub(super) data: &'a [u8],
    /// Its scales, with the integers of uint8 shifted to int8.
    pub(super) quantization: Option<Quantization>,
    /// The table of the elements that are not zero, if only these are stored.
    pub(super) sparsity: Option<Table<'a>>,
}

/// An operator of the file.
#[derive(Debug)]
pub(super) struct Operator<'a> {
    /// Its name in the schema, or that of a custom operator.
    pub(super) name: String,
    /// Positions of tensors; an omitted input is `None`.
    pub(super) inputs: Vec<Option<usize>>,
    pub(super) outputs: Vec<usize>,
    options: Option<Table<'a>>,
    /// The options of a custom operator.
    pub(super) custom: &'a [u8],
}

impl Operator<'_> {
    /// A number of the options.
    pub(super) fn int(&self, slot: usize, default: i32) -> Result<i32, String> {
        self.options.map_or(Ok(default), |options| options.int(slot, default))
    }

    /// A size of the options, which must not be negative.
    pub(super) fn size(&self, slot: usize, default: usize) -> Result<usize, String> {
        let value = self.int(slot, default as i32)?;
        usize::try_from(value).map_err(|_| format!("its option {slot} is {value}"))
    }

    /// An enumeration's value in the options.
    pub(super) fn choice(&self, slot: usize) -> Result<i8, String> {
        self.options.map_or(Ok(0), |options| options.byte(slot))
    }

    /// A truth value of the options.
    pub(super) fn flag(&self, slot: usize) -> Result<bool, String> {
        Ok(self.choice(slot)? != 0)
    }

    /// A real number of the options.
    pub(super) fn float(&self, slot: usize) -> Result<f32, String> {
        self.options.map_or(Ok(0.0), |options| options.float(slot))
    }

    /// A list of numbers of the options.
    pub(super) fn ints(&self, slot: usize) -> Result<Vec<i32>, String> {
        self.options.map_or(Ok(Vec::new()), |options| Ok(options.ints(slot)?.collect()))
    }
}

/// The contents of a file.
#[derive(Debug)]
pub(super) struct File<'a> {
    /// The name of the first subgraph.
    pub(super) name: String,
    pub(super) tensors: Vec<Tensor<'a>>,
    /// In an order of execution.
    pub(super) operators: Vec<Operator<'a>>,
    pub(super) inputs: Vec<usize>,
    pub(super) outputs: Vec<usize>,
}

impl<'a> File<'a> {
    /// Reads the tables of a file.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        if bytes.get(4..8) != Some(IDENTIFIER) {
            return Err("not a TFLite model: it has no identifier TFL3".to_owned());
        }
        let model = Table::root(bytes)?;
        let buffers = model.tables(4)?;
        let graphs = model.tables(2)?;
        let graph = *graphs.first().ok_or("it has no subgraph")?;
        let codes = model.tables(1)?.into_iter().map(operator_name).collect::<Result<Vec<_>, _>>()?;
        let tensors = graph.tables(0)?;
        let tensors = tensors.iter().enumerate().map(|(k, table)| {
            let buffer = table.int(2, 0)? as u32 as usize;
            let buffer =
                buffers.get(buffer).ok_or_else(|| format!("tensor {k} has buffer {buffer} of {}", buffers.len()))?;
            tensor(*table, k, data(bytes, *buffer)?)
        });
        let tensors = tensors.collect::<Result<Vec<_>, String>>()?;
        let position = |index: i32| usize::try_from(index).ok().filter(|&index| index < tensors.len());
        let known = |index: i32| position(index).ok_or_else(|| format!("tensor {index} of {}", tensors.len()));
        let tables = graph.tables(3)?;
        let (mut operators, mut operands) = (Vec::new(), 0);
        for (k, table) in tables.iter().enumerate() {
            let code = table.int(0, 0)? as u32 as usize;
            let name = codes.get(code).ok_or_else(|| format!("operator {k} has code {code} of {}", codes.len()))?;
            let (inputs, outputs) = (table.ints(1)?, table.ints(2)?);
            operands += inputs.len() + outputs.len();
            if operands > tables.len().saturating_mul(MAX_OPERANDS[1]).saturating_add(MAX_OPERANDS[0]) {
                return Err(format!("{} operators have more than {operands} operands", tables.len()));
            }
            let input = |index| if index == -1 { Ok(None) } else { known(index).map(Some) };
            let wrong = |reason| format!("operator {k} ({name}): {reason}");
            operators.push(Operator {
                name: name.clone(),
                inputs: inputs.map(input).collect::<Result<_, _>>().map_err(wrong)?,
                outputs: outputs.map(known).collect::<Result<_, _>>().map_err(wrong)?,
                options: table.table(4)?,
                custom: table.bytes(5)?,
            });
        }
        let list = |slot: usize| graph.ints(slot)?.map(known).collect::<Result<Vec<_>, _>>();
        let (inputs, outputs) = (list(1)?, list(2)?);
        Ok(Self { name: graph.text(4)?, inputs, outputs, tensors, operators })
    }
}

/// The name of an operator code. Codes up to 127 are also in a field of one byte, which older files have alone.
fn operator_name(table: Table<'_>) -> Result<String, String> {
    let code = table.int(3, 0)?.max(i32::from(table.byte(0)?));
    let name = operators::name(code);
    if name == Some("CUSTOM") {
        return table.text(1);
    }
    Ok(name.map_or_else(|| format!("operator {code}"), ToOwned::to_owned))
}

/// The bytes of a buffer. They may be outside the tables, which reach only 2 GB.
fn data<'a>(file: &'a [u8], buffer: Table<'a>) -> Result<&'a [u8], String> {
    let (offset, size) = (buffer.wide(1)?, buffer.wide(2)?);
    if offset <= 1 {
        return buffer.bytes(0);
    }
    let range = usize::try_from(offset).ok().zip(offset.checked_add(size).and_then(|end| usize::try_from(end).ok()));
    range
        .and_then(|(start, end)| file.get(start..end))
        .ok_or_else(|| format!("a buffer of {size} bytes at {offset} is beyond the file's {} bytes", file.len()))
}

fn tensor<'a>(table: Table<'a>, k: usize, data: &'a [u8]) -> Result<Tensor<'a>, String> {
    let name = match table.text(3)? {
        name if name.is_empty() => format!("tensor {k}"),
        name => name,
    };
    let (shape, signature) = (table.ints(0)?, table.ints(7)?);
    if shape.len() > MAX_RANK {
        return Err(format!("the tensor \"{name}\" has {} dimensions, more than {MAX_RANK}", shape.len()));
    }
    let shape = if signature.len() == shape.len() { signature.collect() } else { shape.collect() };
    let kind = Kind::new(table.byte(1)?);
    let quantization = match table.table(4)? {
        Some(table) => quantization(table, kind).map_err(|reason| format!("the tensor \"{name}\": {reason}"))?,
        None => None,
    };
    Ok(Tensor { name, shape, kind, data, quantization, sparsity: table.table(6)? })
}

/// The scales of a tensor of integers.
fn quantization(table: Table<'_>, kind: Kind) -> Result<Option<Quantization>, String> {
    let (scale, zero) = (table.floats(2)?, table.longs(3)?);
    let (count, zeros) = (scale.len(), zero.len());
    let (limits, shift) = match kind {
        Kind::Int8 => ((-128, 127), 0),
        Kind::Uint8 => ((-128, 127), 128),
        Kind::Int4 => ((-8, 7), 0),
        Kind::Int16 => ((-32768, 32767), 0),
        Kind::Int32 | Kind::Int64 => ((i32::MIN, i32::MAX), 0),
        _ => return Ok(None),
    };
    if count == 0 {
        return Ok(None);
    }
    if zeros != count && zeros > 1 {
        return Err(format!("{count} scales and {zeros} zero points"));
    }
    let mut scales = Vec::new();
    for scale in scale {
        // The tensor of a constant that is all zero may have the scale 0.
        if !(scale.is_finite() && scale >= 0.0) {
            return Err(format!("the scale {scale} is not a positive number"));
        }
        scales.push(if scale == 0.0 { 1.0 } else { scale });
    }
    let mut zero_point = zero
        .map(|zero| i32::try_from(zero).ok().and_then(|zero| zero.checked_sub(shift)))
        .collect::<Option<Vec<i32>>>()
        .ok_or("a zero point beyond 32 bits")?;
    if zeros < count {
        zero_point = vec![zero_point.first().copied().unwrap_or(-shift); count];
    }
    let axis = table.int(6, 0)?;
    let axis =
        if count == 1 { None } else { Some(usize::try_from(axis).map_err(|_| format!("scales along axis {axis}"))?) };
    Ok(Some(Quantization { scale: scales, zero_point, axis, limits }))
}
