// SPDX-License-Identifier: MIT OR Apache-2.0

//! ONNX Runtime's C interface of version 23 as safe calls.
//!
//! A [`Ref`] is a pointer that ONNX Runtime gave for the duration of a call. Its methods call the function tables, whose pointers
//! are valid as long as the process runs.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::marker::PhantomData;
use std::ptr;

use nvdla_frameworks::kernel::Tensors;
use nvdla_frameworks::tensor::Kind;
use nvdla_frameworks::{c_string, text_of, Failure, Result};

use crate::sys;

/// The version of the interface that this library asks for. Newer runtimes have it too.
pub(crate) const VERSION: u32 = 23;

/// A value of ONNX Runtime, for the duration of a call.
pub(crate) struct Ref<'a, T>(*const T, PhantomData<&'a T>);

impl<T> Clone for Ref<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<'_, T> {}

impl<T> Ref<'_, T> {
    /// # Safety
    ///
    /// The pointer is null, or was given by ONNX Runtime and is valid for the lifetime.
    pub(crate) unsafe fn new(pointer: *const T) -> Option<Self> {
        (!pointer.is_null()).then_some(Self(pointer, PhantomData))
    }

    pub(crate) fn pointer(self) -> *const T {
        self.0
    }
}

pub(crate) type Graph<'a> = Ref<'a, sys::OrtGraph>;
pub(crate) type Node<'a> = Ref<'a, sys::OrtNode>;
pub(crate) type ValueInfo<'a> = Ref<'a, sys::OrtValueInfo>;
pub(crate) type Value<'a> = Ref<'a, sys::OrtValue>;
pub(crate) type Attribute<'a> = Ref<'a, sys::OrtOpAttr>;

/// The function tables.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    pub(crate) table: &'static sys::OrtApi,
    pub(crate) provider: &'static sys::OrtEpApi,
    /// Whether groups of the graphs inside nodes have names of their own. Version 1.23 numbers the groups of each graph from 0, and
    /// refuses the second group of a name.
    pub(crate) inner_groups: bool,
}

// SAFETY: the tables do not change, and ONNX Runtime calls their functions on several threads itself.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

/// Calls a function of a table that returns a status.
macro_rules! call {
    ($api:expr, $function:ident ( $($argument:expr),* $(,)? )) => {{
        let api: $crate::api::Api = $api;
        match api.table.$function {
            // SAFETY: the table is ONNX Runtime's for version 23, and the arguments are what the header requires: values that
            // ONNX Runtime gave for this call, and places of this function.
            Some(function) => api.done(unsafe { function($($argument),*) }),
            None => Err(nvdla_frameworks::Failure(concat!("ONNX Runtime has no ", stringify!($function)).to_owned())),
        }
    }};
}

/// An attribute that this library has made, until [`Api::make_node`] gives it to a node.
pub(crate) struct NewAttribute {
    api: Api,
    pointer: *mut sys::OrtOpAttr,
}

impl Drop for NewAttribute {
    fn drop(&mut self) {
        if let Some(release) = self.api.table.ReleaseOpAttr {
            // SAFETY: the attribute is new, and nothing uses it any more.
            unsafe { release(self.pointer) };
        }
    }
}

/// The contents of a tensor.
pub(crate) struct Tensor<'a> {
    /// ONNX's number of the element type.
    pub(crate) kind: i32,
    pub(crate) shape: Vec<i64>,
    pub(crate) bytes: &'a [u8],
}

impl Api {
    /// The tables of a runtime.
    ///
    /// # Safety
    ///
    /// `base` is ONNX Runtime's.
    pub(crate) unsafe fn new(base: *const sys::OrtApiBase) -> Option<Self> {
        // SAFETY: the caller's; the tables live as long as the process.
        unsafe {
            let table = base.as_ref()?.GetApi?(VERSION).as_ref()?;
            let version = text_of(base.as_ref()?.GetVersionString?());
            Some(Self { table, provider: table.GetEpApi?().as_ref()?, inner_groups: !version.starts_with("1.23.") })
        }
    }

    /// The status as a result. The status is released.
    pub(crate) fn done(self, status: *mut sys::OrtStatus) -> Result<()> {
        if status.is_null() {
            return Ok(());
        }
        // SAFETY: the status is one that a call returned just now.
        let text = unsafe {
            let text = self.table.GetErrorMessage.map_or(ptr::null(), |message| message(status));
            let text = text_of(text);
            if let Some(release) = self.table.ReleaseStatus {
                release(status);
            }
            text
        };
        Err(Failure(text))
    }

    /// The status of a result, for ONNX Runtime.
    pub(crate) fn status(self, result: Result<()>) -> *mut sys::OrtStatus {
        let Err(Failure(text)) = result else { return ptr::null_mut() };
        let text = c_string(&format!("NVDLA: {text}"));
        // SAFETY: the text is valid during the call, which copies it.
        self.table.CreateStatus.map_or(ptr::null_mut(), |create| unsafe { create(sys::ORT_EP_FAIL, text.as_ptr()) })
    }

    /// Writes a line to the session's log.
    pub(crate) fn log(self, logger: *const sys::OrtLogger, level: sys::OrtLoggingLevel, text: &str) {
        let text = c_string(text);
        let place = c"onnxruntime_ep_nvdla";
        // A line that cannot be logged is lost.
        let _ = call!(self, Logger_LogMessage(logger, level, text.as_ptr(), place.as_ptr(), 0, place.as_ptr()));
    }

    /// A list: its length, then its elements.
    fn list<'a, T>(
        count: impl FnOnce(*mut usize) -> Result<()>,
        fill: impl FnOnce(*mut *const T, usize) -> Result<()>,
    ) -> Result<Vec<Option<Ref<'a, T>>>> {
        let mut length = 0;
        count(&raw mut length)?;
        let mut list = vec![ptr::null::<T>(); length];
        fill(list.as_mut_ptr(), length)?;
        // SAFETY: ONNX Runtime has written the elements; an omitted input is null.
        Ok(list.into_iter().map(|pointer| unsafe { Ref::new(pointer) }).collect())
    }

    fn text(get: impl FnOnce(*mut *const c_char) -> Result<()>) -> Result<String> {
        let mut text = ptr::null();
        get(&raw mut text)?;
        // SAFETY: the call has succeeded, so the text is ONNX Runtime's and ends with a zero.
        Ok(unsafe { text_of(text) })
    }

    pub(crate) fn nodes(self, graph: Graph<'_>) -> Result<Vec<Node<'_>>> {
        let list = Self::list(
            |count| call!(self, Graph_GetNumNodes(graph.pointer(), count)),
            |list, count| call!(self, Graph_GetNodes(graph.pointer(), list, count)),
        )?;
        Ok(list.into_iter().flatten().collect())
    }

    /// Whether a graph is inside a node, as far as version 1.23 tells, whose `Graph_GetParentNode` does not name the node of a graph that
    /// is being divided: it has another name than the model's graph, or reads values of the graph around it.
    pub(crate) fn is_inner(self, graph: Graph<'_>) -> Result<bool> {
        let name = Self::text(|text| call!(self, Graph_GetName(graph.pointer(), text)))?;
        if name != self.main_name(graph)? {
            return Ok(true);
        }
        for node in self.nodes(graph)? {
            for value in self.inputs(node)?.into_iter().flatten() {
                let mut outer = false;
                call!(self, ValueInfo_IsFromOuterScope(value.pointer(), &raw mut outer))?;
                if outer {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The name of the model's graph, of which the given one is a part.
    fn main_name(self, graph: Graph<'_>) -> Result<String> {
        let (mut metadata, mut allocator, mut text) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        call!(self, GetAllocatorWithDefaultOptions(&raw mut allocator))?;
        call!(self, Graph_GetModelMetadata(graph.pointer(), &raw mut metadata))?;
        let read = call!(self, ModelMetadataGetGraphName(metadata, allocator, &raw mut text));
        if let Some(release) = self.table.ReleaseModelMetadata {
            // SAFETY: the metadata are new, and nothing uses them any more.
            unsafe { release(metadata) };
        }
        read?;
        // SAFETY: the call has succeeded, so the text is this function's and ends with a zero.
        let name = unsafe { text_of(text) };
        call!(self, AllocatorFree(allocator, text.cast()))?;
        Ok(name)
    }

    pub(crate) fn graph_inputs(self, graph: Graph<'_>) -> Result<Vec<ValueInfo<'_>>> {
        let list = Self::list(
            |count| call!(self, Graph_GetNumInputs(graph.pointer(), count)),
            |list, count| call!(self, Graph_GetInputs(graph.pointer(), list, count)),
        )?;
        Ok(list.into_iter().flatten().collect())
    }

    pub(crate) fn graph_outputs(self, graph: Graph<'_>) -> Result<Vec<ValueInfo<'_>>> {
        let list = Self::list(
            |count| call!(self, Graph_GetNumOutputs(graph.pointer(), count)),
            |list, count| call!(self, Graph_GetOutputs(graph.pointer(), list, count)),
        )?;
        Ok(list.into_iter().flatten().collect())
    }

    pub(crate) fn operator_sets(self, graph: Graph<'_>) -> Result<Vec<(String, i64)>> {
        let mut count = 0;
        call!(self, Graph_GetNumOperatorSets(graph.pointer(), &raw mut count))?;
        let (mut domains, mut versions) = (vec![ptr::null(); count], vec![0; count]);
        call!(self, Graph_GetOperatorSets(graph.pointer(), domains.as_mut_ptr(), versions.as_mut_ptr(), count))?;
        // SAFETY: ONNX Runtime has written the texts.
        Ok(domains.into_iter().map(|domain| unsafe { text_of(domain) }).zip(versions).collect())
    }

    pub(crate) fn node_name(self, node: Node<'_>) -> Result<String> {
        Self::text(|text| call!(self, Node_GetName(node.pointer(), text)))
    }

    pub(crate) fn operator(self, node: Node<'_>) -> Result<String> {
        Self::text(|text| call!(self, Node_GetOperatorType(node.pointer(), text)))
    }

    pub(crate) fn domain(self, node: Node<'_>) -> Result<String> {
        Self::text(|text| call!(self, Node_GetDomain(node.pointer(), text)))
    }

    pub(crate) fn inputs(self, node: Node<'_>) -> Result<Vec<Option<ValueInfo<'_>>>> {
        Self::list(
            |count| call!(self, Node_GetNumInputs(node.pointer(), count)),
            |list, count| call!(self, Node_GetInputs(node.pointer(), list, count)),
        )
    }

    /// The values that the graphs inside a node read.
    pub(crate) fn implicit_inputs(self, node: Node<'_>) -> Result<Vec<Option<ValueInfo<'_>>>> {
        Self::list(
            |count| call!(self, Node_GetNumImplicitInputs(node.pointer(), count)),
            |list, count| call!(self, Node_GetImplicitInputs(node.pointer(), list, count)),
        )
    }

    pub(crate) fn outputs(self, node: Node<'_>) -> Result<Vec<Option<ValueInfo<'_>>>> {
        Self::list(
            |count| call!(self, Node_GetNumOutputs(node.pointer(), count)),
            |list, count| call!(self, Node_GetOutputs(node.pointer(), list, count)),
        )
    }

    pub(crate) fn attributes(self, node: Node<'_>) -> Result<Vec<Attribute<'_>>> {
        let list = Self::list(
            |count| call!(self, Node_GetNumAttributes(node.pointer(), count)),
            |list, count| call!(self, Node_GetAttributes(node.pointer(), list, count)),
        )?;
        Ok(list.into_iter().flatten().collect())
    }

    /// The attribute of a node, if it has it.
    pub(crate) fn attribute<'a>(self, node: Node<'a>, name: &CStr) -> Option<Attribute<'a>> {
        let mut found = ptr::null();
        call!(self, Node_GetAttributeByName(node.pointer(), name.as_ptr(), &raw mut found)).ok()?;
        // SAFETY: the attribute belongs to the node.
        unsafe { Ref::new(found) }
    }

    pub(crate) fn attribute_name(self, attribute: Attribute<'_>) -> Result<String> {
        Self::text(|text| call!(self, OpAttr_GetName(attribute.pointer(), text)))
    }

    pub(crate) fn attribute_type(self, attribute: Attribute<'_>) -> Result<sys::OrtOpAttrType> {
        let mut kind = 0;
        call!(self, OpAttr_GetType(attribute.pointer(), &raw mut kind)).map(|()| kind)
    }

    /// The bytes of an attribute that is no tensor and no graph.
    pub(crate) fn attribute_bytes(self, attribute: Attribute<'_>, kind: sys::OrtOpAttrType) -> Result<Vec<u8>> {
        let mut needed = 0;
        // The first call fails with the number of bytes, except for a value without bytes.
        let _ = call!(self, ReadOpAttr(attribute.pointer(), kind, ptr::null_mut(), 0, &raw mut needed));
        let mut bytes = vec![0u8; needed];
        let place = bytes.as_mut_ptr().cast::<c_void>();
        if needed > 0 {
            call!(self, ReadOpAttr(attribute.pointer(), kind, place, needed, &raw mut needed))?;
        }
        bytes.truncate(needed);
        Ok(bytes)
    }

    /// Calls `with` with the tensor of an attribute.
    pub(crate) fn attribute_tensor<R>(self, attribute: Attribute<'_>, with: impl FnOnce(Tensor<'_>) -> R) -> Result<R> {
        let mut value = ptr::null_mut();
        call!(self, OpAttr_GetTensorAttributeAsOrtValue(attribute.pointer(), &raw mut value))?;
        // SAFETY: the value is new, and is released below.
        let result = match unsafe { Ref::new(value) } {
            Some(tensor) => self.tensor(tensor).map(with),
            None => Err("an attribute has no tensor".into()),
        };
        if let Some(release) = self.table.ReleaseValue {
            // SAFETY: nothing uses the value any more.
            unsafe { release(value) };
        }
        result
    }

    pub(crate) fn name(self, value: ValueInfo<'_>) -> Result<String> {
        Self::text(|text| call!(self, GetValueInfoName(value.pointer(), text)))
    }

    /// The element type and the extents of a value; negative extents are not fixed. None: it is no tensor.
    pub(crate) fn shape(self, value: ValueInfo<'_>) -> Result<Option<(i32, Vec<i64>)>> {
        let (mut info, mut tensor) = (ptr::null(), ptr::null());
        call!(self, GetValueInfoTypeInfo(value.pointer(), &raw mut info))?;
        if info.is_null() {
            return Ok(None);
        }
        call!(self, CastTypeInfoToTensorInfo(info, &raw mut tensor))?;
        if tensor.is_null() {
            return Ok(None);
        }
        self.type_and_shape(tensor).map(Some)
    }

    fn type_and_shape(self, info: *const sys::OrtTensorTypeAndShapeInfo) -> Result<(i32, Vec<i64>)> {
        let (mut kind, mut rank) = (0, 0);
        call!(self, GetTensorElementType(info, &raw mut kind))?;
        call!(self, GetDimensionsCount(info, &raw mut rank))?;
        let mut shape = vec![0; rank];
        call!(self, GetDimensions(info, shape.as_mut_ptr(), rank))?;
        Ok((kind as i32, shape))
    }

    /// The value of an initializer whose value cannot change.
    pub(crate) fn constant(self, value: ValueInfo<'_>) -> Result<Option<Value<'_>>> {
        let (mut constant, mut found) = (false, ptr::null());
        call!(self, ValueInfo_IsConstantInitializer(value.pointer(), &raw mut constant))?;
        if constant {
            call!(self, ValueInfo_GetInitializerValue(value.pointer(), &raw mut found))?;
        }
        // SAFETY: the value belongs to the graph, as the value info does.
        Ok(unsafe { Ref::new(found) })
    }

    /// The contents of a tensor in the processor's memory.
    pub(crate) fn tensor(self, value: Value<'_>) -> Result<Tensor<'_>> {
        let mut info = ptr::null_mut();
        call!(self, GetTensorTypeAndShape(value.pointer(), &raw mut info))?;
        let described = self.type_and_shape(info);
        if let Some(release) = self.table.ReleaseTensorTypeAndShapeInfo {
            // SAFETY: the info is new, and nothing uses it any more.
            unsafe { release(info) };
        }
        let (kind, shape) = described?;
        let (mut data, mut size) = (ptr::null(), 0);
        call!(self, GetTensorSizeInBytes(value.pointer(), &raw mut size))?;
        call!(self, GetTensorData(value.pointer(), &raw mut data))?;
        let bytes = if size == 0 || data.is_null() {
            &[][..]
        } else {
            // SAFETY: the tensor has that many bytes, which nobody writes while the value lives.
            unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }
        };
        Ok(Tensor { kind, shape, bytes })
    }

    /// The path of the model's file; empty if it has none.
    pub(crate) fn model_path(self, graph: Graph<'_>) -> Result<String> {
        Self::text(|text| call!(self, Graph_GetModelPath(graph.pointer(), text)))
    }

    fn make_attribute(self, name: &CStr, data: *const c_void, count: usize, kind: u32) -> Result<NewAttribute> {
        let count =
            c_int::try_from(count).map_err(|_| Failure(format!("{count} bytes are too many for an attribute")))?;
        let mut made = ptr::null_mut();
        call!(self, CreateOpAttr(name.as_ptr(), data, count, kind, &raw mut made))?;
        Ok(NewAttribute { api: self, pointer: made })
    }

    pub(crate) fn int_attribute(self, name: &CStr, value: i64) -> Result<NewAttribute> {
        self.make_attribute(name, (&raw const value).cast(), 1, sys::ORT_OP_ATTR_INT)
    }

    pub(crate) fn text_attribute(self, name: &CStr, value: &[u8]) -> Result<NewAttribute> {
        self.make_attribute(name, value.as_ptr().cast(), value.len(), sys::ORT_OP_ATTR_STRING)
    }

    /// Makes a node, which ONNX Runtime takes over.
    pub(crate) fn make_node<const N: usize>(
        self,
        operator: &CStr,
        domain: &CStr,
        name: &CStr,
        inputs: &[String],
        outputs: &[String],
        attributes: [NewAttribute; N],
    ) -> Result<*mut sys::OrtNode> {
        // SAFETY: the table of the model editor is ONNX Runtime's, and lives as long as the process.
        let editor = self.table.GetModelEditorApi.and_then(|get| unsafe { get().as_ref() });
        let create = editor.and_then(|editor| editor.CreateNode).ok_or("ONNX Runtime makes no nodes")?;
        let texts = |names: &[String]| names.iter().map(|name| c_string(name)).collect::<Vec<_>>();
        let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        let (inputs, outputs) = (texts(inputs), texts(outputs));
        let (inputs, outputs) = ((pointers(&inputs), inputs), (pointers(&outputs), outputs));
        let mut list: Vec<*mut sys::OrtOpAttr> = attributes.iter().map(|attribute| attribute.pointer).collect();
        let mut node = ptr::null_mut();
        // SAFETY: all texts live until the function returns, which copies them. The node takes over the attributes.
        let status = unsafe {
            create(
                operator.as_ptr(),
                domain.as_ptr(),
                name.as_ptr(),
                inputs.0.as_ptr(),
                inputs.0.len(),
                outputs.0.as_ptr(),
                outputs.0.len(),
                list.as_mut_ptr(),
                list.len(),
                &raw mut node,
            )
        };
        self.done(status)?;
        // Now the node owns them; the C++ header says so, and the C header calls it a copy.
        attributes.into_iter().for_each(std::mem::forget);
        Ok(node)
    }

    /// An entry of the session's configuration.
    pub(crate) fn entry(self, options: *const sys::OrtSessionOptions, key: &str) -> Result<Option<String>> {
        let key = c_string(key);
        let mut has: c_int = 0;
        call!(self, HasSessionConfigEntry(options, key.as_ptr(), &raw mut has))?;
        if has == 0 {
            return Ok(None);
        }
        let mut size = 0;
        call!(self, GetSessionConfigEntry(options, key.as_ptr(), ptr::null_mut(), &raw mut size))?;
        let mut bytes = vec![0u8; size];
        call!(self, GetSessionConfigEntry(options, key.as_ptr(), bytes.as_mut_ptr().cast(), &raw mut size))?;
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8(text.to_vec()).map(Some).map_err(|_| Failure(format!("the option {key:?} is not UTF-8")))
    }
}

/// The inputs and outputs of a node that runs.
#[derive(Clone, Copy)]
pub(crate) struct Kernel<'a> {
    api: Api,
    context: *mut sys::OrtKernelContext,
    _call: PhantomData<&'a ()>,
}

impl Kernel<'_> {
    /// # Safety
    ///
    /// The context is ONNX Runtime's, and valid for the lifetime.
    pub(crate) unsafe fn new(api: Api, context: *mut sys::OrtKernelContext) -> Self {
        Self { api, context, _call: PhantomData }
    }
}

impl Tensors for Kernel<'_> {
    fn input(&self, place: usize) -> Result<(Kind, &[u8])> {
        let mut value = ptr::null();
        call!(self.api, KernelContext_GetInput(self.context, place, &raw mut value))?;
        // SAFETY: the input lives as long as the call.
        let value = unsafe { Ref::new(value) }.ok_or_else(|| Failure(format!("input {place} is missing")))?;
        let tensor = self.api.tensor(value)?;
        Ok((Kind::try_from(tensor.kind)?, tensor.bytes))
    }

    fn output(&self, place: usize, shape: &[usize], fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        let shape: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        let (mut value, mut data, mut size) = (ptr::null_mut(), ptr::null_mut(), 0);
        call!(self.api, KernelContext_GetOutput(self.context, place, shape.as_ptr(), shape.len(), &raw mut value))?;
        if value.is_null() {
            return Ok(());
        }
        call!(self.api, GetTensorSizeInBytes(value, &raw mut size))?;
        call!(self.api, GetTensorMutableData(value, &raw mut data))?;
        if size == 0 || data.is_null() {
            return fill(&mut []);
        }
        // SAFETY: the tensor was made for this call, so nobody else accesses its bytes.
        fill(unsafe { std::slice::from_raw_parts_mut(data.cast::<u8>(), size) })
    }
}
