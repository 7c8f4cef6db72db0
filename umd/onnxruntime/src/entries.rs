// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions that ONNX Runtime calls. Each catches panics, because they must not pass through C.
//!
//! A struct that ONNX Runtime sees begins with ONNX Runtime's table of functions, so a pointer to the table is a pointer to the
//! struct.

use std::ffi::{c_char, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::Arc;

use nvdla_frameworks::device::Devices;
use nvdla_frameworks::kernel::Runner;
use nvdla_frameworks::memory;
use nvdla_frameworks::{text_of, Failure, Result};

use crate::api::{Api, Kernel, Ref, VERSION};
use crate::compatibility;
use crate::options::Options;
use crate::provider::{Provider, NAME};
use crate::sys;

const VENDOR: &CStr = c"NVDLA";
/// The number of NVIDIA, who designed NVDLA, among PCI vendors.
const VENDOR_ID: u32 = 0x10de;

/// Calls a function, and turns its failure or panic into a status.
fn guard(api: Api, call: impl FnOnce() -> Result<()>) -> *mut sys::OrtStatus {
    let result = catch_unwind(AssertUnwindSafe(call));
    api.status(result.unwrap_or_else(|_| Err("an internal error; its message is on the standard error".into())))
}

/// The factory of a registered library. It lives until the library is unregistered and its last provider is released, because
/// ONNX Runtime unregisters a library also while sessions use it.
#[repr(C)]
struct Factory {
    table: sys::OrtEpFactory,
    api: Api,
    version: CString,
    devices: Arc<Devices>,
}

/// A provider with its table.
#[repr(C)]
struct Ep {
    table: sys::OrtEp,
    provider: Provider,
    compatibility: CString,
    _factory: Arc<Factory>,
}

/// A compiled node with its table.
#[repr(C)]
struct Info {
    table: sys::OrtNodeComputeInfo,
    api: Api,
    name: String,
    runner: Runner,
    /// The provider, which outlives its nodes.
    ep: *const Ep,
}

/// The function that ONNX Runtime calls when an application registers this library.
///
/// # Safety
///
/// ONNX Runtime calls it, with the arguments that its header describes.
#[no_mangle]
#[allow(non_snake_case)]
pub unsafe extern "C" fn CreateEpFactories(
    _registered: *const c_char,
    base: *const sys::OrtApiBase,
    _logger: *const sys::OrtLogger,
    factories: *mut *mut sys::OrtEpFactory,
    most: usize,
    count: *mut usize,
) -> *mut sys::OrtStatus {
    // SAFETY: `base` is ONNX Runtime's.
    let Some(api) = (unsafe { Api::new(base) }) else {
        // SAFETY: as above. The oldest interface has the function.
        return unsafe { too_old(base) };
    };
    guard(api, || {
        if most == 0 || factories.is_null() || count.is_null() {
            return Err("ONNX Runtime has no place for a factory".into());
        }
        let version = CString::new(env!("CARGO_PKG_VERSION")).unwrap_or_default();
        let factory = Arc::new(Factory { table: factory_table(), api, version, devices: Arc::default() });
        // SAFETY: there is a place for one factory. `ReleaseEpFactory` takes it back.
        unsafe {
            *factories = Arc::into_raw(factory).cast_mut().cast();
            *count = 1;
        }
        Ok(())
    })
}

/// # Safety
///
/// `base` is null or ONNX Runtime's.
unsafe fn too_old(base: *const sys::OrtApiBase) -> *mut sys::OrtStatus {
    // SAFETY: the caller's; the first version of the interface is in every runtime.
    unsafe {
        let table = base.as_ref().and_then(|base| base.GetApi?(1).as_ref());
        match table.and_then(|table| table.CreateStatus) {
            Some(create) => create(sys::ORT_EP_FAIL, c"NVDLA: ONNX Runtime 1.23 or newer is needed".as_ptr()),
            None => ptr::null_mut(),
        }
    }
}

/// The function that ONNX Runtime calls when an application unregisters this library.
///
/// # Safety
///
/// ONNX Runtime calls it once, with a factory of [`CreateEpFactories`].
#[no_mangle]
#[allow(non_snake_case)]
pub unsafe extern "C" fn ReleaseEpFactory(factory: *mut sys::OrtEpFactory) -> *mut sys::OrtStatus {
    if !factory.is_null() {
        // SAFETY: the pointer is of `Arc::into_raw` there. A panic of a device that is closed must not pass through C.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Arc::from_raw(factory.cast::<Factory>()) })));
    }
    ptr::null_mut()
}

/// # Safety
///
/// The pointer is the table of a value of that type, which lives for the call.
unsafe fn whole<'a, Table, Whole>(table: *const Table) -> &'a Whole {
    // SAFETY: the caller's; the table is the first field.
    unsafe { &*table.cast::<Whole>() }
}

fn factory_table() -> sys::OrtEpFactory {
    sys::OrtEpFactory {
        ort_version_supported: VERSION,
        GetName: Some(factory_name),
        GetVendor: Some(factory_vendor),
        GetSupportedDevices: Some(supported_devices),
        CreateEp: Some(create_ep),
        ReleaseEp: Some(release_ep),
        GetVendorId: Some(factory_vendor_id),
        GetVersion: Some(factory_version),
        ValidateCompiledModelCompatibilityInfo: Some(validate),
        CreateAllocator: Some(create_allocator),
        ReleaseAllocator: Some(release_allocator),
        CreateDataTransfer: Some(create_data_transfer),
        IsStreamAware: Some(is_stream_aware),
        CreateSyncStreamForDevice: None,
    }
}

unsafe extern "C" fn factory_name(_: *const sys::OrtEpFactory) -> *const c_char {
    NAME.as_ptr()
}

unsafe extern "C" fn factory_vendor(_: *const sys::OrtEpFactory) -> *const c_char {
    VENDOR.as_ptr()
}

unsafe extern "C" fn factory_vendor_id(_: *const sys::OrtEpFactory) -> u32 {
    VENDOR_ID
}

unsafe extern "C" fn factory_version(factory: *const sys::OrtEpFactory) -> *const c_char {
    // SAFETY: ONNX Runtime gives the factory of `CreateEpFactories`.
    unsafe { whole::<_, Factory>(factory) }.version.as_ptr()
}

/// Pairs the provider with the processor: this version of the interface has no devices of other kinds.
unsafe extern "C" fn supported_devices(
    factory: *mut sys::OrtEpFactory,
    devices: *const *const sys::OrtHardwareDevice,
    count: usize,
    found: *mut *mut sys::OrtEpDevice,
    most: usize,
    found_count: *mut usize,
) -> *mut sys::OrtStatus {
    // SAFETY: ONNX Runtime gives the factory of `CreateEpFactories`.
    let api = unsafe { whole::<_, Factory>(factory) }.api;
    guard(api, || {
        // SAFETY: ONNX Runtime gives that many devices, and a place for the count.
        let devices = unsafe {
            *found_count = 0;
            if count == 0 {
                &[][..]
            } else {
                std::slice::from_raw_parts(devices, count)
            }
        };
        let (kind, create) = (api.table.HardwareDevice_Type, api.provider.CreateEpDevice);
        let (kind, create) = kind.zip(create).ok_or("ONNX Runtime lists no devices")?;
        // SAFETY: the devices are ONNX Runtime's.
        let is_processor =
            |device: &&*const sys::OrtHardwareDevice| unsafe { kind(**device) } == sys::OrtHardwareDeviceType_CPU;
        if let Some(device) = devices.iter().find(is_processor).filter(|_| most > 0) {
            // SAFETY: there is a place for a device.
            api.done(unsafe { create(factory, *device, ptr::null(), ptr::null(), found) })?;
            // SAFETY: as above.
            unsafe { *found_count = 1 };
        }
        Ok(())
    })
}

unsafe extern "C" fn create_ep(
    factory: *mut sys::OrtEpFactory,
    _devices: *const *const sys::OrtHardwareDevice,
    _metadata: *const *const sys::OrtKeyValuePairs,
    _count: usize,
    session: *const sys::OrtSessionOptions,
    logger: *const sys::OrtLogger,
    ep: *mut *mut sys::OrtEp,
) -> *mut sys::OrtStatus {
    // SAFETY: ONNX Runtime gives the factory of `CreateEpFactories`, which is not released yet.
    let factory = unsafe {
        Arc::increment_strong_count(factory.cast::<Factory>());
        Arc::from_raw(factory.cast::<Factory>())
    };
    let api = factory.api;
    guard(api, || {
        let options = Options::read(|key| api.entry(session, key))?;
        let provider = Provider::new(api, logger, options, Arc::clone(&factory.devices))?;
        let compatibility = provider.compatibility();
        let made = Box::new(Ep { table: ep_table(), provider, compatibility, _factory: factory });
        // SAFETY: ONNX Runtime gives a place. `release_ep` takes the provider back.
        unsafe { *ep = Box::into_raw(made).cast() };
        Ok(())
    })
}

unsafe extern "C" fn release_ep(_: *mut sys::OrtEpFactory, ep: *mut sys::OrtEp) {
    if !ep.is_null() {
        // SAFETY: the pointer is of `Box::into_raw` in `create_ep`.
        let _ = catch_unwind(|| drop(unsafe { Box::from_raw(ep.cast::<Ep>()) }));
    }
}

unsafe extern "C" fn validate(
    factory: *mut sys::OrtEpFactory,
    _devices: *const *const sys::OrtHardwareDevice,
    _count: usize,
    text: *const c_char,
    found: *mut sys::OrtCompiledModelCompatibility,
) -> *mut sys::OrtStatus {
    // SAFETY: ONNX Runtime gives the factory of `CreateEpFactories`.
    let api = unsafe { whole::<_, Factory>(factory) }.api;
    guard(api, || {
        // SAFETY: ONNX Runtime gives a text and a place.
        unsafe {
            *found = if compatibility::runs(&text_of(text)) {
                sys::OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL
            } else {
                sys::OrtCompiledModelCompatibility_EP_UNSUPPORTED
            };
        }
        Ok(())
    })
}

/// Tensors are in the processor's memory, so ONNX Runtime's own allocator is used.
unsafe extern "C" fn create_allocator(
    _: *mut sys::OrtEpFactory,
    _: *const sys::OrtMemoryInfo,
    _: *const sys::OrtKeyValuePairs,
    allocator: *mut *mut sys::OrtAllocator,
) -> *mut sys::OrtStatus {
    // SAFETY: ONNX Runtime gives a place.
    unsafe { *allocator = ptr::null_mut() };
    ptr::null_mut()
}

unsafe extern "C" fn release_allocator(_: *mut sys::OrtEpFactory, _: *mut sys::OrtAllocator) {}

unsafe extern "C" fn create_data_transfer(
    _: *mut sys::OrtEpFactory,
    transfer: *mut *mut sys::OrtDataTransferImpl,
) -> *mut sys::OrtStatus {
    // SAFETY: ONNX Runtime gives a place.
    unsafe { *transfer = ptr::null_mut() };
    ptr::null_mut()
}

unsafe extern "C" fn is_stream_aware(_: *const sys::OrtEpFactory) -> bool {
    false
}

fn ep_table() -> sys::OrtEp {
    sys::OrtEp {
        ort_version_supported: VERSION,
        GetName: Some(ep_name),
        GetCapability: Some(get_capability),
        Compile: Some(compile),
        ReleaseNodeComputeInfos: Some(release_infos),
        GetPreferredDataLayout: None,
        ShouldConvertDataLayoutForOp: None,
        SetDynamicOptions: None,
        OnRunStart: None,
        OnRunEnd: None,
        CreateAllocator: None,
        CreateSyncStreamForDevice: None,
        GetCompiledModelCompatibilityInfo: Some(compatibility_of_model),
    }
}

unsafe extern "C" fn ep_name(_: *const sys::OrtEp) -> *const c_char {
    NAME.as_ptr()
}

unsafe extern "C" fn get_capability(
    ep: *mut sys::OrtEp,
    graph: *const sys::OrtGraph,
    info: *mut sys::OrtEpGraphSupportInfo,
) -> *mut sys::OrtStatus {
    // SAFETY: ONNX Runtime gives a provider of `create_ep`, and a graph for this call.
    let (ep, graph) = unsafe { (whole::<_, Ep>(ep), Ref::new(graph)) };
    let provider = &ep.provider;
    guard(provider.api, || provider.claim(graph.ok_or("there is no graph")?, info))
}

unsafe extern "C" fn compile(
    ep: *mut sys::OrtEp,
    graphs: *mut *const sys::OrtGraph,
    fused: *mut *const sys::OrtNode,
    count: usize,
    infos: *mut *mut sys::OrtNodeComputeInfo,
    contexts: *mut *mut sys::OrtNode,
) -> *mut sys::OrtStatus {
    let pointer = ep.cast::<Ep>().cast_const();
    // SAFETY: ONNX Runtime gives a provider of `create_ep`.
    let provider = &unsafe { whole::<_, Ep>(ep) }.provider;
    guard(provider.api, || {
        for k in 0..count {
            // SAFETY: ONNX Runtime gives that many graphs and nodes for this call.
            let (graph, node) = unsafe { (Ref::new(*graphs.add(k)), Ref::new(*fused.add(k))) };
            let (graph, node) = graph.zip(node).ok_or("there is no graph")?;
            let made = provider.compile(graph, node, !contexts.is_null())?;
            let info = Box::new(Info {
                table: sys::OrtNodeComputeInfo {
                    ort_version_supported: VERSION,
                    CreateState: Some(create_state),
                    Compute: Some(compute),
                    ReleaseState: Some(release_state),
                },
                api: provider.api,
                name: provider.api.node_name(node)?,
                runner: made.runner,
                ep: pointer,
            });
            // SAFETY: ONNX Runtime gives as many places. `release_infos` takes the infos back, also those of a failed call.
            unsafe {
                *infos.add(k) = Box::into_raw(info).cast();
                if !made.context.is_null() {
                    *contexts.add(k) = made.context;
                }
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn release_infos(_: *mut sys::OrtEp, infos: *mut *mut sys::OrtNodeComputeInfo, count: usize) {
    for k in 0..count {
        // SAFETY: ONNX Runtime gives back the infos of `compile`; the place of one that was not made is null.
        let info = unsafe { *infos.add(k) };
        if !info.is_null() {
            // SAFETY: as above.
            let _ = catch_unwind(|| drop(unsafe { Box::from_raw(info.cast::<Info>()) }));
        }
    }
}

unsafe extern "C" fn compatibility_of_model(ep: *mut sys::OrtEp, _: *const sys::OrtGraph) -> *const c_char {
    // SAFETY: ONNX Runtime gives a provider of `create_ep`.
    unsafe { whole::<_, Ep>(ep) }.compatibility.as_ptr()
}

unsafe extern "C" fn create_state(
    info: *mut sys::OrtNodeComputeInfo,
    _: *mut sys::OrtNodeComputeContext,
    state: *mut *mut std::ffi::c_void,
) -> *mut sys::OrtStatus {
    // ONNX Runtime has freed its copies of the nodes' constants since `compile`.
    memory::give_back();
    // The node has no state beside the info.
    // SAFETY: ONNX Runtime gives a place.
    unsafe { *state = info.cast() };
    ptr::null_mut()
}

unsafe extern "C" fn compute(
    info: *mut sys::OrtNodeComputeInfo,
    _: *mut std::ffi::c_void,
    context: *mut sys::OrtKernelContext,
) -> *mut sys::OrtStatus {
    // SAFETY: ONNX Runtime gives an info of `compile`, and a context for this call.
    let (info, kernel) = unsafe {
        let info = whole::<_, Info>(info);
        (info, Kernel::new(info.api, context))
    };
    guard(info.api, || {
        let times =
            info.runner.run(&kernel).map_err(|Failure(reason)| Failure(format!("\"{}\": {reason}", info.name)))?;
        // SAFETY: ONNX Runtime releases the infos before their provider.
        let provider = &unsafe { &*info.ep }.provider;
        if provider.profiles() {
            let text = format!(
                "NVDLA ran \"{}\": inputs {} us, run {} us, outputs {} us",
                info.name, times.inputs, times.run, times.outputs
            );
            provider.log(sys::ORT_LOGGING_LEVEL_WARNING, &text);
        }
        Ok(())
    })
}

unsafe extern "C" fn release_state(_: *mut sys::OrtNodeComputeInfo, _: *mut std::ffi::c_void) {}
