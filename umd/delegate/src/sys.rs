// SPDX-License-Identifier: MIT OR Apache-2.0

//! The structures of TensorFlow Lite's C interface, as far as a delegate needs them.
//!
//! Source of the facts: `core/c/common.h` and `core/c/c_api_types.h` of TensorFlow Lite. Later versions only append
//! fields. The places are those of 2.14 and of LiteRT 2.3. Enumerations are C's `int`.

// The fields have the names of the C structures.
#![allow(clippy::struct_field_names)]

use std::ffi::{c_char, c_int, c_void};

/// `TfLiteStatus`.
pub(crate) type Status = c_int;
pub(crate) const OK: Status = 0;
pub(crate) const DELEGATE_ERROR: Status = 2;

/// `TfLiteAllocationType`: a constant of the file.
pub(crate) const MMAP_RO: c_int = 1;
/// `TfLiteAllocationType`: a tensor whose size is known only when the graph runs.
pub(crate) const DYNAMIC: c_int = 4;
/// `TfLiteAllocationType`: a constant that was computed before the graph runs.
pub(crate) const PERSISTENT_RO: c_int = 5;
/// `TfLiteQuantizationType`: scales and zero points.
pub(crate) const AFFINE: c_int = 1;
/// `TfLiteDimensionType`: all elements are stored.
pub(crate) const DENSE: c_int = 0;
/// `TfLiteDelegateFlags`: the graph may have sizes that only a run tells.
pub(crate) const ALLOW_DYNAMIC_TENSORS: i64 = 1;
/// `BuiltinOperator_CUSTOM`.
pub(crate) const CUSTOM: i32 = 32;

/// `TfLiteIntArray`: so many numbers follow.
#[repr(C)]
pub(crate) struct IntArray {
    pub(crate) size: c_int,
    pub(crate) data: [c_int; 0],
}

/// `TfLiteFloatArray`: so many numbers follow.
#[repr(C)]
pub(crate) struct FloatArray {
    pub(crate) size: c_int,
    pub(crate) data: [f32; 0],
}

/// `TfLiteAffineQuantization`.
#[repr(C)]
pub(crate) struct AffineQuantization {
    pub(crate) scale: *const FloatArray,
    pub(crate) zero_point: *const IntArray,
    pub(crate) quantized_dimension: i32,
}

/// `TfLiteQuantization`.
#[repr(C)]
pub(crate) struct Quantization {
    pub(crate) kind: c_int,
    pub(crate) params: *const c_void,
}

/// `TfLiteDimensionMetadata`.
#[repr(C)]
pub(crate) struct DimensionMetadata {
    pub(crate) format: c_int,
    pub(crate) dense_size: c_int,
    pub(crate) array_segments: *const IntArray,
    pub(crate) array_indices: *const IntArray,
}

/// `TfLiteSparsity`.
#[repr(C)]
pub(crate) struct Sparsity {
    pub(crate) traversal_order: *const IntArray,
    pub(crate) block_map: *const IntArray,
    pub(crate) dim_metadata: *const DimensionMetadata,
    pub(crate) dim_metadata_size: c_int,
}

/// `TfLiteTensor`.
#[repr(C)]
pub(crate) struct Tensor {
    pub(crate) kind: c_int,
    pub(crate) data: *mut c_void,
    pub(crate) dims: *const IntArray,
    params_scale: f32,
    params_zero_point: i32,
    pub(crate) allocation_type: c_int,
    pub(crate) bytes: usize,
    allocation: *const c_void,
    pub(crate) name: *const c_char,
    delegate: *mut Delegate,
    buffer_handle: c_int,
    data_is_stale: bool,
    pub(crate) is_variable: bool,
    pub(crate) quantization: Quantization,
    pub(crate) sparsity: *const Sparsity,
    pub(crate) dims_signature: *const IntArray,
}

/// `TfLiteNode`.
#[repr(C)]
pub(crate) struct Node {
    pub(crate) inputs: *const IntArray,
    pub(crate) outputs: *const IntArray,
    intermediates: *const IntArray,
    temporaries: *const IntArray,
    pub(crate) user_data: *mut c_void,
    pub(crate) builtin_data: *const c_void,
    pub(crate) custom_initial_data: *const c_void,
    pub(crate) custom_initial_data_size: c_int,
    delegate: *mut Delegate,
    might_have_side_effect: bool,
}

/// `TfLiteRegistration`. It is passed by value, so it has all fields of the newest version.
#[repr(C)]
pub(crate) struct Registration {
    pub(crate) init: Option<unsafe extern "C" fn(*mut Context, *const c_void, usize) -> *mut c_void>,
    pub(crate) free: Option<unsafe extern "C" fn(*mut Context, *mut c_void)>,
    pub(crate) prepare: Option<unsafe extern "C" fn(*mut Context, *mut Node) -> Status>,
    pub(crate) invoke: Option<unsafe extern "C" fn(*mut Context, *mut Node) -> Status>,
    pub(crate) profiling_string: Option<unsafe extern "C" fn(*const Context, *const Node) -> *const c_char>,
    pub(crate) builtin_code: i32,
    pub(crate) custom_name: *const c_char,
    pub(crate) version: c_int,
    pub(crate) registration_external: *mut c_void,
    pub(crate) async_kernel: *mut c_void,
    pub(crate) inplace_operator: u64,
}

/// `TfLiteDelegateParams`: the nodes that a kernel replaces.
#[repr(C)]
pub(crate) struct DelegateParams {
    pub(crate) delegate: *mut Delegate,
    pub(crate) nodes_to_replace: *const IntArray,
    pub(crate) input_tensors: *const IntArray,
    pub(crate) output_tensors: *const IntArray,
}

/// `TfLiteContext`, up to the last function that is needed.
#[repr(C)]
pub(crate) struct Context {
    pub(crate) tensors_size: usize,
    pub(crate) get_execution_plan: Option<unsafe extern "C" fn(*mut Context, *mut *const IntArray) -> Status>,
    pub(crate) tensors: *mut Tensor,
    implementation: *mut c_void,
    pub(crate) resize_tensor: Option<unsafe extern "C" fn(*mut Context, *mut Tensor, *mut IntArray) -> Status>,
    pub(crate) report_error: Option<unsafe extern "C" fn(*mut Context, *const c_char, ...)>,
    add_tensors: Option<unsafe extern "C" fn()>,
    pub(crate) get_node_and_registration:
        Option<unsafe extern "C" fn(*mut Context, c_int, *mut *const Node, *mut *const Registration) -> Status>,
    pub(crate) replace_node_subsets_with_delegate_kernels:
        Option<unsafe extern "C" fn(*mut Context, Registration, *const IntArray, *mut Delegate) -> Status>,
    recommended_num_threads: c_int,
    get_external_context: Option<unsafe extern "C" fn()>,
    set_external_context: Option<unsafe extern "C" fn()>,
    allow_fp32_relax_to_fp16: bool,
    profiler: *mut c_void,
    allocate_persistent_buffer: Option<unsafe extern "C" fn()>,
    allocate_buffer_for_eval: Option<unsafe extern "C" fn()>,
    request_scratch_buffer_in_arena: Option<unsafe extern "C" fn()>,
    get_scratch_buffer: Option<unsafe extern "C" fn()>,
    resize_tensor_explicit: Option<unsafe extern "C" fn()>,
    pub(crate) preview_delegate_partitioning:
        Option<unsafe extern "C" fn(*mut Context, *const IntArray, *mut *const DelegateParams, *mut c_int) -> Status>,
}

/// `TfLiteDelegate`.
#[repr(C)]
pub struct Delegate {
    pub(crate) data: *mut c_void,
    pub(crate) prepare: Option<unsafe extern "C" fn(*mut Context, *mut Delegate) -> Status>,
    pub(crate) copy_from_buffer_handle: Option<unsafe extern "C" fn()>,
    pub(crate) copy_to_buffer_handle: Option<unsafe extern "C" fn()>,
    pub(crate) free_buffer_handle: Option<unsafe extern "C" fn()>,
    pub(crate) flags: i64,
    pub(crate) opaque_delegate_builder: *mut c_void,
}
