// SPDX-License-Identifier: MIT OR Apache-2.0

//! The contents of a TFLite file: its tensors with their constants, and its operators.
//!
//! Source of the facts: TensorFlow Lite's schema, version 3 (`tensorflow/lite/schema/schema.fbs`). The slot of a field is its
//! place in its table there; a union has two slots.

use std::borrow::Cow;
use std::collections::HashSet;

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
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
pub struct Tensor<'a> {
    /// Its name.
    pub name: String,
    /// Its dimensions; -1 is not known.
    pub shape: Vec<i32>,
    /// The type of its elements.
    pub kind: Kind,
    /// The bytes of its elements; empty if it is no constant.
    pub data: &'a [u8],
    /// Its scales, with the integers of uint8 shifted to int8.
    pub quantization: Option<Quantization>,
    /// The places of the elements that are not zero, if only these are stored.
    pub sparsity: Option<Places<'a>>,
}

/// Where the stored elements of a tensor are.
#[derive(Debug)]
pub enum Places<'a> {
    /// A table of a file.
    Table(Table<'a>),
    /// The same as lists.
    Lists(Sparsity),
}

/// The places of the elements that a tensor stores. Each level is a dimension, divided by its block, or the inside of a block.
#[derive(Clone, Debug)]
pub struct Sparsity {
    /// The levels in the order in which they are stored.
    pub order: Vec<i32>,
    /// The dimensions that are divided into blocks.
    pub blocked: Vec<i32>,
    /// The levels.
    pub levels: Vec<Level>,
}

/// A level of the places of stored elements.
#[derive(Clone, Debug)]
pub enum Level {
    /// All of so many.
    Dense(i32),
    /// Where the indices of each element of the level before begin, and the indices.
    Sparse(Vec<usize>, Vec<usize>),
}

impl Places<'_> {
    /// The places as lists.
    pub(super) fn lists(&self) -> Result<Cow<'_, Sparsity>, String> {
        let table = match self {
            Self::Table(table) => *table,
            Self::Lists(lists) => return Ok(Cow::Borrowed(lists)),
        };
        let level = |level: Table<'_>| {
            Ok(if level.byte(0)? == 0 {
                Level::Dense(level.int(1, 0)?)
            } else {
                Level::Sparse(list(level, 2)?, list(level, 4)?)
            })
        };
        let levels = table.tables(2)?.into_iter().map(level).collect::<Result<_, String>>()?;
        Ok(Cow::Owned(Sparsity { order: table.ints(0)?.collect(), blocked: table.ints(1)?.collect(), levels }))
    }
}

/// A vector of a union: numbers of 4, 2 or 1 bytes.
fn list(level: Table<'_>, slot: usize) -> Result<Vec<usize>, String> {
    let Some(table) = level.table(slot + 1)? else { return Ok(Vec::new()) };
    Ok(match level.byte(slot)? {
        1 => table.ints(0)?.map(|value| value as u32 as usize).collect(),
        2 => table.shorts(0)?.map(usize::from).collect(),
        3 => table.bytes(0)?.iter().map(|&value| usize::from(value)).collect(),
        kind => return Err(format!("indices of the kind {kind} in its sparsity")),
    })
}

/// The options of an operator, by their slots in the schema's table.
#[derive(Debug)]
pub enum Options<'a> {
    /// A table of a file; none has all defaults.
    Table(Option<Table<'a>>),
    /// Numbers. Others have their defaults.
    Slots(Vec<(usize, Slot)>),
}

/// A value of an operator's options.
#[derive(Clone, Debug, PartialEq)]
pub enum Slot {
    /// A number, an enumeration's value, or a truth value.
    Int(i32),
    /// A real number.
    Float(f32),
    /// A list of numbers.
    Ints(Vec<i32>),
}

impl Options<'_> {
    fn slot(slots: &[(usize, Slot)], slot: usize) -> Option<&Slot> {
        slots.iter().find(|(other, _)| *other == slot).map(|(_, value)| value)
    }
}

/// An operator of the file.
#[derive(Debug)]
pub struct Operator<'a> {
    /// Its name in the schema, or that of a custom operator.
    pub name: String,
    /// Positions of tensors; an omitted input is `None`.
    pub inputs: Vec<Option<usize>>,
    /// Positions of tensors.
    pub outputs: Vec<usize>,
    /// Its options.
    pub options: Options<'a>,
    /// The options of a custom operator.
    pub custom: &'a [u8],
}

impl Operator<'_> {
    /// A number of the options.
    pub(super) fn int(&self, slot: usize, default: i32) -> Result<i32, String> {
        match &self.options {
            Options::Table(table) => table.map_or(Ok(default), |options| options.int(slot, default)),
            Options::Slots(slots) => match Options::slot(slots, slot) {
                Some(&Slot::Int(value)) => Ok(value),
                _ => Ok(default),
            },
        }
    }

    /// A size of the options, which must not be negative.
    pub(super) fn size(&self, slot: usize, default: usize) -> Result<usize, String> {
        let value = self.int(slot, default as i32)?;
        usize::try_from(value).map_err(|_| format!("its option {slot} is {value}"))
    }

    /// An enumeration's value in the options.
    pub(super) fn choice(&self, slot: usize) -> Result<i8, String> {
        match &self.options {
            Options::Table(table) => table.map_or(Ok(0), |options| options.byte(slot)),
            Options::Slots(_) => {
                let value = self.int(slot, 0)?;
                i8::try_from(value).map_err(|_| format!("its option {slot} is {value}"))
            }
        }
    }

    /// A truth value of the options.
    pub(super) fn flag(&self, slot: usize) -> Result<bool, String> {
        Ok(self.choice(slot)? != 0)
    }

    /// A real number of the options.
    pub(super) fn float(&self, slot: usize) -> Result<f32, String> {
        match &self.options {
            Options::Table(table) => table.map_or(Ok(0.0), |options| options.float(slot)),
            Options::Slots(slots) => match Options::slot(slots, slot) {
                Some(&Slot::Float(value)) => Ok(value),
                _ => Ok(0.0),
            },
        }
    }

    /// A text of the options.
    pub(super) fn text(&self, slot: usize) -> Result<String, String> {
        match &self.options {
            Options::Table(Some(options)) => options.text(slot),
            _ => Ok(String::new()),
        }
    }

    /// A list of numbers of the options.
    pub(super) fn ints(&self, slot: usize) -> Result<Vec<i32>, String> {
        match &self.options {
            Options::Table(table) => table.map_or(Ok(Vec::new()), |options| Ok(options.ints(slot)?.collect())),
            Options::Slots(slots) => match Options::slot(slots, slot) {
                Some(Slot::Ints(values)) => Ok(values.clone()),
                _ => Ok(Vec::new()),
            },
        }
    }
}

/// The contents of a file.
#[derive(Debug)]
pub struct File<'a> {
    /// The name of the first subgraph.
    pub name: String,
    /// Its tensors.
    pub tensors: Vec<Tensor<'a>>,
    /// Its operators, in an order of execution.
    pub operators: Vec<Operator<'a>>,
    /// Positions of the tensors that the user gives.
    pub inputs: Vec<usize>,
    /// Positions of the tensors that the user gets.
    pub outputs: Vec<usize>,
}

impl<'a> File<'a> {
    /// Reads the tables of a file.
    ///
    /// # Errors
    ///
    /// If the bytes are not a file of this format, or its parts contradict each other.
    pub fn read(bytes: &'a [u8]) -> Result<Self, String> {
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
                options: Options::Table(table.table(4)?),
                custom: table.bytes(5)?,
            });
        }
        let list = |slot: usize| graph.ints(slot)?.map(known).collect::<Result<Vec<_>, _>>();
        let (inputs, outputs) = (list(1)?, list(2)?);
        Ok(Self { name: graph.text(4)?, inputs, outputs, tensors, operators })
    }
}

impl File<'_> {
    /// The tensors of these names, or the outputs of the file without any.
    pub(super) fn ends(&self, names: &[String]) -> Result<Vec<usize>, String> {
        let find = |name: &String| {
            let found = self.tensors.iter().position(|tensor| tensor.name == *name);
            found.ok_or_else(|| format!("no operator computes the output \"{name}\""))
        };
        if names.is_empty() {
            Ok(self.outputs.clone())
        } else {
            names.iter().map(find).collect()
        }
    }

    /// Gives tensors that have a name of another one a name of their own.
    pub fn name_apart(&mut self) {
        let mut names = HashSet::new();
        for (k, tensor) in self.tensors.iter_mut().enumerate() {
            while !names.insert(tensor.name.clone()) {
                tensor.name = format!("{}#{k}", tensor.name);
            }
        }
    }
}

/// The name of an operator of the schema.
pub fn operator(code: i32) -> String {
    operators::name(code).map_or_else(|| format!("operator {code}"), ToOwned::to_owned)
}

/// The name of an operator code. Codes up to 127 are also in a field of one byte, which older files have alone.
fn operator_name(table: Table<'_>) -> Result<String, String> {
    let code = table.int(3, 0)?.max(i32::from(table.byte(0)?));
    if operators::name(code) == Some("CUSTOM") {
        return table.text(1);
    }
    Ok(operator(code))
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
    Ok(Tensor { name, shape, kind, data, quantization, sparsity: table.table(6)?.map(Places::Table) })
}

/// The scales of a tensor of integers.
fn quantization(table: Table<'_>, kind: Kind) -> Result<Option<Quantization>, String> {
    scales(table.floats(2)?, table.longs(3)?, table.int(6, 0)?, kind)
}

/// The scales of a tensor of integers, with the integers of uint8 shifted to int8. `axis` is the dimension with a scale per index.
///
/// # Errors
///
/// If a scale is not a number, or the numbers of scales and zero points differ.
pub fn scales(
    scale: impl ExactSizeIterator<Item = f32>,
    zero: impl ExactSizeIterator<Item = i64>,
    axis: i32,
    kind: Kind,
) -> Result<Option<Quantization>, String> {
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
    let axis =
        if count == 1 { None } else { Some(usize::try_from(axis).map_err(|_| format!("scales along axis {axis}"))?) };
    Ok(Some(Quantization { scale: scales, zero_point, axis, limits }))
}
