// SPDX-License-Identifier: MIT OR Apache-2.0

//! TensorFlow Lite's C interface as safe calls.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

use nvdla_frameworks::{c_string, Failure, Result};

use crate::sys;

/// An interpreter's context, for the duration of a call.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pointer: *mut sys::Context,
    _call: PhantomData<&'a sys::Context>,
}

/// A node, with its operator.
pub(crate) struct Node<'a> {
    pub(crate) node: &'a sys::Node,
    pub(crate) registration: &'a sys::Registration,
}

/// What the interpreter replaces by one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) nodes: Vec<usize>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
}

impl Part {
    /// # Safety
    ///
    /// The parameters are the interpreter's, and valid for the call.
    pub(crate) unsafe fn new(params: &sys::DelegateParams) -> Self {
        // SAFETY: the caller's.
        let list = |array| unsafe { ints(array) }.iter().filter_map(|&index| usize::try_from(index).ok()).collect();
        Self {
            nodes: list(params.nodes_to_replace),
            inputs: list(params.input_tensors),
            outputs: list(params.output_tensors),
        }
    }
}

/// The numbers of an array.
///
/// # Safety
///
/// The pointer is null or TensorFlow Lite's, and valid for the lifetime.
pub(crate) unsafe fn ints<'a>(array: *const sys::IntArray) -> &'a [c_int] {
    // SAFETY: the caller's; so many numbers follow.
    unsafe {
        let Some(size) = array.as_ref().map(|array| usize::try_from(array.size).unwrap_or(0)) else { return &[] };
        std::slice::from_raw_parts((&raw const (*array).data).cast(), size)
    }
}

/// # Safety
///
/// As [`ints`].
pub(crate) unsafe fn floats<'a>(array: *const sys::FloatArray) -> &'a [f32] {
    // SAFETY: the caller's; so many numbers follow.
    unsafe {
        let Some(size) = array.as_ref().map(|array| usize::try_from(array.size).unwrap_or(0)) else { return &[] };
        std::slice::from_raw_parts((&raw const (*array).data).cast(), size)
    }
}

/// An array of TensorFlow Lite: its size, and the numbers.
fn array(numbers: &[usize]) -> Result<Vec<c_int>> {
    let number = |&number: &usize| c_int::try_from(number).map_err(|_| Failure(format!("{number} is too large")));
    std::iter::once(&numbers.len()).chain(numbers).map(number).collect()
}

fn done(status: sys::Status, call: &str) -> Result<()> {
    if status == sys::OK {
        Ok(())
    } else {
        Err(Failure(format!("the interpreter's {call} has failed with {status}")))
    }
}

impl<'a> Context<'a> {
    /// # Safety
    ///
    /// The pointer is null or an interpreter's context, which is valid for the lifetime.
    pub(crate) unsafe fn new(pointer: *mut sys::Context) -> Option<Self> {
        (!pointer.is_null()).then_some(Self { pointer, _call: PhantomData })
    }

    fn table(&self) -> &'a sys::Context {
        // SAFETY: the pointer is valid for the lifetime. No exclusive reference is made of it.
        unsafe { &*self.pointer }
    }

    /// Tells the user what is wrong.
    pub(crate) fn report(self, text: &str) {
        let text = c_string(text);
        if let Some(report) = self.table().report_error {
            // SAFETY: the format takes one text.
            unsafe { report(self.pointer, c"%s".as_ptr(), text.as_ptr()) };
        }
    }

    /// The nodes that run, in their order.
    pub(crate) fn plan(self) -> Result<Vec<usize>> {
        let get = self.table().get_execution_plan.ok_or("the interpreter has no execution plan")?;
        let mut plan = ptr::null();
        // SAFETY: the context is valid, and the place is of this function.
        done(unsafe { get(self.pointer, &raw mut plan) }, "GetExecutionPlan")?;
        // SAFETY: the plan is valid until the next call; it is copied.
        Ok(unsafe { ints(plan) }.iter().filter_map(|&index| usize::try_from(index).ok()).collect())
    }

    pub(crate) fn node(self, index: usize) -> Result<Node<'a>> {
        let get = self.table().get_node_and_registration.ok_or("the interpreter gives no nodes")?;
        let (mut node, mut registration) = (ptr::null(), ptr::null());
        let number = c_int::try_from(index).map_err(|_| Failure(format!("node {index}")))?;
        // SAFETY: the context is valid, and the places are of this function.
        done(unsafe { get(self.pointer, number, &raw mut node, &raw mut registration) }, "GetNodeAndRegistration")?;
        // SAFETY: the interpreter's, which live while its plan is not changed.
        let found = unsafe { node.as_ref().zip(registration.as_ref()) };
        found.map(|(node, registration)| Node { node, registration }).ok_or_else(|| "a node is missing".into())
    }

    pub(crate) fn tensor_count(self) -> usize {
        self.table().tensors_size
    }

    pub(crate) fn tensor(self, index: usize) -> Result<&'a sys::Tensor> {
        let table = self.table();
        if index >= table.tensors_size || table.tensors.is_null() {
            return Err(Failure(format!("tensor {index} of {}", table.tensors_size)));
        }
        // SAFETY: the interpreter has so many tensors.
        Ok(unsafe { &*table.tensors.add(index) })
    }

    /// The shape that a tensor has now.
    pub(crate) fn shape(self, index: usize) -> Result<Option<Vec<usize>>> {
        let tensor = self.tensor(index)?;
        if tensor.dims.is_null() {
            return Ok(None);
        }
        // SAFETY: the interpreter's, which is copied.
        Ok(unsafe { ints(tensor.dims) }.iter().map(|&extent| usize::try_from(extent).ok()).collect())
    }

    /// Gives a tensor a shape. A tensor that has it already is not touched.
    pub(crate) fn resize(self, index: usize, shape: &[usize]) -> Result<()> {
        let tensor: *const sys::Tensor = self.tensor(index)?;
        if self.shape(index)?.as_deref() == Some(shape) {
            return Ok(());
        }
        let resize = self.table().resize_tensor.ok_or("the interpreter resizes no tensors")?;
        let shape = array(shape)?;
        // SAFETY: the context and the tensor are valid. The interpreter takes the array, which it frees with C's `free`.
        let status = unsafe {
            let copy = libc::malloc(size_of_val(&shape[..])).cast::<c_int>();
            if copy.is_null() {
                return Err("there is no memory".into());
            }
            copy.copy_from_nonoverlapping(shape.as_ptr(), shape.len());
            resize(self.pointer, tensor.cast_mut(), copy.cast())
        };
        done(status, "ResizeTensor")
    }

    /// How the interpreter would divide nodes into kernels.
    pub(crate) fn preview(self, nodes: &[usize]) -> Result<Vec<Part>> {
        let preview = self.table().preview_delegate_partitioning.ok_or("the interpreter divides no nodes")?;
        let nodes = array(nodes)?;
        let (mut params, mut count) = (ptr::null(), 0);
        // SAFETY: the context is valid, the array begins with its size, and the places are of this function.
        let status = unsafe { preview(self.pointer, nodes.as_ptr().cast(), &raw mut params, &raw mut count) };
        done(status, "PreviewDelegatePartitioning")?;
        if params.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: the interpreter gives so many, which are valid until the next call; they are copied.
        let all = unsafe { std::slice::from_raw_parts(params, usize::try_from(count).unwrap_or(0)) };
        // SAFETY: as above.
        Ok(all.iter().map(|params| unsafe { Part::new(params) }).collect())
    }

    /// Replaces nodes by kernels.
    pub(crate) fn replace(
        self,
        registration: sys::Registration,
        nodes: &[usize],
        delegate: *mut sys::Delegate,
    ) -> Result<()> {
        let replace = self.table().replace_node_subsets_with_delegate_kernels;
        let replace = replace.ok_or("the interpreter replaces no nodes")?;
        let nodes = array(nodes)?;
        // SAFETY: the context and the delegate are the interpreter's, and the array begins with its size.
        let status = unsafe { replace(self.pointer, registration, nodes.as_ptr().cast(), delegate) };
        done(status, "ReplaceNodeSubsetsWithDelegateKernels")
    }
}

/// A tensor's bytes.
///
/// # Safety
///
/// The tensor is an interpreter's whose memory is allocated and is not written during the lifetime.
pub(crate) unsafe fn bytes(tensor: &sys::Tensor) -> &[u8] {
    if tensor.data.is_null() {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(tensor.data.cast_const().cast(), tensor.bytes) }
}

/// As [`bytes`], to write.
///
/// # Safety
///
/// The tensor is an interpreter's whose memory is allocated and is not accessed otherwise during the lifetime.
pub(crate) unsafe fn bytes_mut<'a>(tensor: *const sys::Tensor) -> &'a mut [u8] {
    // SAFETY: the caller's.
    unsafe {
        let (data, size) = ((*tensor).data, (*tensor).bytes);
        if data.is_null() {
            return &mut [];
        }
        std::slice::from_raw_parts_mut(data.cast(), size)
    }
}

/// A field of the structure of an operator's options.
///
/// # Safety
///
/// The structure has a value of that type there.
pub(crate) unsafe fn field<T: Copy>(options: *const c_void, offset: usize) -> T {
    // SAFETY: the caller's.
    unsafe { options.cast::<u8>().add(offset).cast::<T>().read_unaligned() }
}
