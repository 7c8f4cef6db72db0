// SPDX-License-Identifier: MIT OR Apache-2.0

//! An interpreter's graph as a file of the compiler's reader.

use nvdla_compiler::import::tflite::file::{self, File, Kind, Level, Operator, Options, Places, Sparsity, Tensor};
use nvdla_frameworks::tensor;
use nvdla_frameworks::{text_of, Failure, Result};

use crate::context::{bytes, floats, ints, Context};
use crate::parameters;
use crate::sys;

/// The element type of `TfLiteType`.
fn kind(number: i32) -> Kind {
    match number {
        1 => Kind::Float32,
        2 => Kind::Int32,
        3 => Kind::Uint8,
        4 => Kind::Int64,
        6 => Kind::Bool,
        7 => Kind::Int16,
        9 => Kind::Int8,
        10 => Kind::Float16,
        11 => Kind::Float64,
        18 => Kind::Int4,
        other => Kind::Other(i8::try_from(other).unwrap_or(-1)),
    }
}

/// The element type of a tensor between a group and the processor. None: such tensors are not given to NVDLA.
pub(crate) fn given(number: i32) -> Option<tensor::Kind> {
    Some(match kind(number) {
        Kind::Float32 => tensor::Kind::Float32,
        Kind::Float16 => tensor::Kind::Float16,
        Kind::Int8 => tensor::Kind::Int8,
        Kind::Uint8 => tensor::Kind::Uint8,
        Kind::Int16 => tensor::Kind::Int16,
        _ => return None,
    })
}

/// Reads the graph of the nodes of a plan, and the number of bytes of its constants.
///
/// # Safety
///
/// The interpreter does not change the graph during the lifetime.
pub(crate) unsafe fn file<'a>(context: Context<'a>, plan: &[usize]) -> Result<(File<'a>, u64)> {
    let mut operators = Vec::new();
    let mut made = vec![false; context.tensor_count()];
    for &index in plan {
        // SAFETY: the caller's.
        let operator = unsafe { operator(context, index) }?;
        operator.outputs.iter().for_each(|&output| made[output] = true);
        operators.push(operator);
    }
    let mut tensors = Vec::new();
    for (index, made) in made.into_iter().enumerate() {
        // SAFETY: the caller's.
        tensors.push(unsafe { tensor(context, index, made) }?);
    }
    let size = tensors.iter().map(|tensor| tensor.data.len() as u64).sum();
    // The interpreter tells no inputs and outputs of a graph; what is outside all nodes is an output of the node that has them all.
    let outputs = context.preview(plan)?.into_iter().flat_map(|part| part.outputs).collect();
    let mut file = File { name: "main".to_owned(), tensors, operators, inputs: Vec::new(), outputs };
    file.name_apart();
    Ok((file, size))
}

/// # Safety
///
/// As [`file`].
unsafe fn operator(context: Context<'_>, index: usize) -> Result<Operator<'_>> {
    let found = context.node(index)?;
    let (node, registration) = (found.node, found.registration);
    let count = context.tensor_count();
    let known = |index: i32| usize::try_from(index).ok().filter(|&index| index < count);
    // SAFETY: the interpreter's, which live as long as the graph.
    unsafe {
        let custom = match usize::try_from(node.custom_initial_data_size) {
            Ok(size) if !node.custom_initial_data.is_null() => {
                std::slice::from_raw_parts(node.custom_initial_data.cast(), size)
            }
            _ => &[],
        };
        let name = if registration.builtin_code == sys::CUSTOM {
            text_of(registration.custom_name)
        } else {
            file::operator(registration.builtin_code)
        };
        let slots = if registration.builtin_code == sys::CUSTOM {
            Vec::new()
        } else {
            parameters::slots(&name, registration.version, node.builtin_data)
        };
        let wrong = || Failure(format!("node {index} ({name}) has tensors that are not of the graph"));
        let inputs: Option<Vec<_>> = ints(node.inputs)
            .iter()
            .map(|&index| if index < 0 { Some(None) } else { known(index).map(Some) })
            .collect();
        let outputs: Option<Vec<_>> = ints(node.outputs).iter().map(|&index| known(index)).collect();
        let (inputs, outputs) = inputs.zip(outputs).ok_or_else(wrong)?;
        Ok(Operator { name, inputs, outputs, options: Options::Slots(slots), custom })
    }
}

/// # Safety
///
/// As [`file`].
unsafe fn tensor(context: Context<'_>, index: usize, made: bool) -> Result<Tensor<'_>> {
    let tensor = context.tensor(index)?;
    let kind = kind(tensor.kind);
    // SAFETY: the interpreter's, which live as long as the graph.
    unsafe {
        let name = match text_of(tensor.name) {
            name if name.is_empty() => format!("tensor {index}"),
            name => name,
        };
        let unknown = tensor.dims.is_null() || tensor.allocation_type == sys::DYNAMIC || tensor.is_variable;
        let mut shape = if unknown { vec![-1] } else { ints(tensor.dims).to_vec() };
        // The signature says which extents the file leaves open. What an application has resized has a size.
        let signature = ints(tensor.dims_signature);
        if made && signature.len() == shape.len() {
            shape.iter_mut().zip(signature).filter(|(_, &open)| open < 0).for_each(|(extent, _)| *extent = -1);
        }
        let constant = tensor.allocation_type == sys::MMAP_RO || tensor.allocation_type == sys::PERSISTENT_RO && !made;
        let data = if constant { bytes(tensor) } else { &[] };
        let mut quantization = None;
        if tensor.quantization.kind == sys::AFFINE {
            if let Some(affine) = tensor.quantization.params.cast::<sys::AffineQuantization>().as_ref() {
                let zero = ints(affine.zero_point).iter().map(|&zero| i64::from(zero));
                let scale = floats(affine.scale).iter().copied();
                quantization = file::scales(scale, zero, affine.quantized_dimension, kind)
                    .map_err(|reason| Failure(format!("the tensor \"{name}\": {reason}")))?;
            }
        }
        Ok(Tensor { name, shape, kind, data, quantization, sparsity: sparsity(tensor).map(Places::Lists) })
    }
}

/// # Safety
///
/// As [`file`].
unsafe fn sparsity(tensor: &sys::Tensor) -> Option<Sparsity> {
    // SAFETY: the interpreter's, which live as long as the graph.
    unsafe {
        let sparsity = tensor.sparsity.as_ref()?;
        let count = usize::try_from(sparsity.dim_metadata_size).ok().filter(|_| !sparsity.dim_metadata.is_null())?;
        let list = |array| ints(array).iter().map(|&value| value as u32 as usize).collect();
        let level = |level: &sys::DimensionMetadata| match level.format {
            sys::DENSE => Level::Dense(level.dense_size),
            _ => Level::Sparse(list(level.array_segments), list(level.array_indices)),
        };
        let levels = std::slice::from_raw_parts(sparsity.dim_metadata, count).iter().map(level).collect();
        let (order, blocked) = (ints(sparsity.traversal_order).to_vec(), ints(sparsity.block_map).to_vec());
        Some(Sparsity { order, blocked, levels })
    }
}
