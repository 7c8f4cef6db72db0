// SPDX-License-Identifier: GPL-2.0-only

//! The C helpers of this module (`helpers.h`), where the kernel crate has no abstraction. Only safe types elsewhere in
//! the module call them.

use core::ptr::NonNull;

use kernel::{
    bindings,
    device::{
        self,
        Bound, //
    },
    error::to_result,
    prelude::*,
    sync::aref::ARef,
    types::NotThreadSafe, //
};

/// The first members of `struct nvdla_memory`: the memory behind a GEM object.
#[repr(C)]
pub(crate) struct Memory {
    pub(crate) dma_address: u64,
    pub(crate) size: u64,
    pub(crate) block: *mut c_void,
    pub(crate) dma_buf: *mut c_void,
}

/// The processor caches the memory, also if the device does not see its cache.
pub(crate) const MEMORY_CACHED: u32 = 1;

// The kernel's structures are only passed by pointer. Some contain empty structures, which have size zero in both C and Rust.
#[allow(improper_ctypes)]
extern "C" {
    pub(crate) fn nvdla_memory_alloc(drm: *mut bindings::drm_device, size: u64, flags: u32) -> *mut Memory;
    pub(crate) fn nvdla_memory_alloc_sram(drm: *mut bindings::drm_device, size: u64) -> *mut Memory;
    pub(crate) fn nvdla_memory_import(
        drm: *mut bindings::drm_device,
        attachment: *mut bindings::dma_buf_attachment,
        table: *mut bindings::sg_table,
    ) -> *mut Memory;
    pub(crate) fn nvdla_memory_imported(
        memory: *mut Memory,
        attachment: *mut bindings::dma_buf_attachment,
        table: *mut bindings::sg_table,
    );
    pub(crate) fn nvdla_memory_free(memory: *mut Memory);
    pub(crate) fn nvdla_memory_open(memory: *mut Memory) -> c_int;
    pub(crate) fn nvdla_memory_begin_read(memory: *mut Memory) -> c_int;
    pub(crate) fn nvdla_memory_end_read(memory: *mut Memory);
    pub(crate) fn nvdla_memory_read(memory: *const Memory, offset: u64, to: *mut c_void, length: usize);
    pub(crate) fn nvdla_memory_write(memory: *const Memory, offset: u64, from: *const c_void, length: usize);
    pub(crate) fn nvdla_memory_lose(memory: *mut Memory);
    pub(crate) fn nvdla_memory_total() -> u64;
    fn nvdla_domain_create(drm: *mut bindings::drm_device) -> *mut c_void;
    fn nvdla_domain_get(domain: *mut c_void);
    fn nvdla_domain_put(domain: *mut c_void);
    fn nvdla_domain_add(domain: *mut c_void, memory: *const Memory) -> c_int;
    fn nvdla_domain_remove(domain: *mut c_void, memory: *const Memory);
    fn nvdla_domain_is_attached(domain: *const c_void) -> bool;
    fn nvdla_domain_attach(domain: *mut c_void) -> c_int;
    pub(crate) fn nvdla_gem_extend(object: *mut bindings::drm_gem_object);
    pub(crate) fn nvdla_gem_from_fd(drm: *mut bindings::drm_device, fd: c_int) -> *mut bindings::drm_gem_object;
    pub(crate) fn nvdla_drm_extend(drm: *mut bindings::drm_device);
    fn nvdla_dump(dev: *mut bindings::device, bytes: *const c_void, length: usize);
    fn nvdla_sram_start(dev: *mut bindings::device, bits: u32) -> c_int;
    fn nvdla_sram_stop(dev: *mut bindings::device);
    fn nvdla_sram_size(dev: *mut bindings::device, used: *mut u64) -> u64;
    pub(crate) fn nvdla_memory_sync(memory: *mut Memory, read: bool, write: bool, to_device: bool) -> c_int;
    fn nvdla_power_start(dev: *mut bindings::device) -> *mut c_void;
    fn nvdla_power_reach(power: *mut c_void, bits: u32) -> c_int;
    fn nvdla_power_reset(power: *mut c_void, held: bool) -> c_int;
    fn nvdla_power_isolate(power: *mut c_void);
    fn nvdla_power_rest(power: *mut c_void);
    fn nvdla_power_connect(power: *mut c_void);
    fn nvdla_space_stop(dev: *mut bindings::device);
    fn nvdla_space_is_uncached(dev: *mut bindings::device) -> bool;
    fn nvdla_power_manage(power: *mut c_void, core: *mut c_void);
    fn nvdla_power_wake(dev: *mut bindings::device);
    fn nvdla_power_unmanage(dev: *mut bindings::device);
    fn nvdla_power_get(dev: *mut bindings::device) -> c_int;
    fn nvdla_power_put(dev: *mut bindings::device);
    fn nvdla_fence_create() -> *mut c_void;
    fn nvdla_fence_context() -> u64;
    fn nvdla_fence_begin(fence: *mut c_void, context: u64, number: u64);
    fn nvdla_fence_get(fence: *mut c_void);
    fn nvdla_fence_discard(fence: *mut c_void);
    fn nvdla_fence_share(fence: *mut c_void, object: *mut bindings::drm_gem_object, write: bool);
    fn nvdla_watch_sync(file: *mut bindings::drm_file, handle: u32, point: u64, worker: *mut c_void) -> *mut c_void;
    fn nvdla_watch_buffer(object: *mut bindings::drm_gem_object, all: bool, worker: *mut c_void) -> *mut c_void;
    fn nvdla_target_create(file: *mut bindings::drm_file, handle: u32, point: u64) -> *mut c_void;
    fn nvdla_target_set(target: *mut c_void, fence: *mut c_void);
    fn nvdla_target_destroy(target: *mut c_void);
    fn nvdla_reservations_lock(
        objects: *mut *mut bindings::drm_gem_object,
        count: c_uint,
        context: *mut *mut c_void,
    ) -> c_int;
    fn nvdla_reservations_unlock(objects: *mut *mut bindings::drm_gem_object, count: c_uint, context: *mut c_void);
    fn nvdla_buffer_wait(object: *mut bindings::drm_gem_object, all: bool, deadline_ns: u64) -> c_int;
    fn nvdla_fence_reserve(fence: *mut c_void, sync: *mut *mut c_void) -> c_int;
    fn nvdla_fence_install(fd: c_int, sync: *mut c_void);
    fn nvdla_fence_abandon(fd: c_int, sync: *mut c_void);
    fn nvdla_fence_signal(fence: *mut c_void, error: c_int);
    fn nvdla_fence_put(fence: *mut c_void);
    fn nvdla_signalling_begin() -> bool;
    fn nvdla_signalling_end(cookie: bool);
    fn nvdla_watch_create(fd: c_int, worker: *mut c_void) -> *mut c_void;
    fn nvdla_watch_destroy(watch: *mut c_void);
    fn nvdla_watch_status(watch: *mut c_void) -> c_int;
    fn nvdla_worker_create(core: *mut c_void) -> *mut c_void;
    fn nvdla_worker_stop(worker: *mut c_void);
    fn nvdla_worker_get(worker: *mut c_void);
    fn nvdla_worker_put(worker: *mut c_void);
    fn nvdla_worker_kick(worker: *mut c_void);
    fn nvdla_worker_attach(worker: *mut c_void);
    fn nvdla_worker_arm(worker: *mut c_void, ns: u64);
    fn nvdla_worker_disarm(worker: *mut c_void);
    fn nvdla_worker_cleanup(worker: *mut c_void);
    fn nvdla_worker_flush(worker: *mut c_void);
    fn nvdla_worker_may_log(worker: *mut c_void) -> bool;
    fn nvdla_process_name(name: *mut u8) -> c_int;
    fn nvdla_process_yield();
    fn nvdla_process_may_be_urgent() -> bool;
}

/// What a client's tasks can access behind an IOMMU (`domain.c`).
#[derive(PartialEq, Eq)]
pub(crate) struct Domain(NonNull<c_void>);

// SAFETY: A domain is reference-counted, and its functions lock.
unsafe impl Send for Domain {}
// SAFETY: As above.
unsafe impl Sync for Domain {}

impl Domain {
    /// The domain of a new client; `None` if the device's clients have none of their own.
    ///
    /// # Safety
    ///
    /// `drm` must be a device of this driver.
    pub(crate) unsafe fn new(drm: *mut bindings::drm_device) -> Result<Option<Self>> {
        // SAFETY: By this function's condition.
        let raw = kernel::error::from_err_ptr(unsafe { nvdla_domain_create(drm) })?;
        Ok(NonNull::new(raw).map(Self))
    }

    /// Makes a memory a part of the domain, until [`Self::remove`] is called as often as this.
    ///
    /// # Safety
    ///
    /// The memory must be of the domain's device, and valid until then.
    pub(crate) unsafe fn add(&self, memory: *const Memory) -> Result {
        // SAFETY: By this function's condition.
        to_result(unsafe { nvdla_domain_add(self.0.as_ptr(), memory) })
    }

    /// The opposite of [`Self::add`].
    ///
    /// # Safety
    ///
    /// The memory must be valid, and have been added.
    pub(crate) unsafe fn remove(&self, memory: *const Memory) {
        // SAFETY: By this function's condition.
        unsafe { nvdla_domain_remove(self.0.as_ptr(), memory) };
    }

    /// Whether the device accesses memory through it.
    pub(crate) fn is_attached(&self) -> bool {
        // SAFETY: The domain is valid.
        unsafe { nvdla_domain_is_attached(self.0.as_ptr()) }
    }

    /// Attaches it to the device, which runs no task and is given none meanwhile. Not under a lock.
    pub(crate) fn attach(&self) -> Result {
        // SAFETY: The domain is valid.
        to_result(unsafe { nvdla_domain_attach(self.0.as_ptr()) })
    }
}

impl Clone for Domain {
    fn clone(&self) -> Self {
        // SAFETY: The reference is the result's.
        unsafe { nvdla_domain_get(self.0.as_ptr()) };
        Self(self.0)
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { nvdla_domain_put(self.0.as_ptr()) };
    }
}

/// A task's own fence. It is signalled once: by [`Fence::signal`], or with `-ECANCELED` when it is dropped before.
pub(crate) struct Fence {
    raw: *mut c_void,
    state: FenceState,
}

/// The life of a fence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FenceState {
    /// It has no number, and nobody can see it.
    New,
    Pending,
    Signalled,
}

// SAFETY: A DMA fence is reference-counted and may be used from any thread.
unsafe impl Send for Fence {}
// SAFETY: As above; every function here is one that the DMA fence core locks itself.
unsafe impl Sync for Fence {}

/// The context of a client's fences.
pub(crate) fn fence_context() -> u64 {
    // SAFETY: No conditions.
    unsafe { nvdla_fence_context() }
}

impl Fence {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: No conditions.
        let raw = unsafe { nvdla_fence_create() };
        if raw.is_null() {
            return Err(ENOMEM);
        }
        Ok(Self { raw, state: FenceState::New })
    }

    /// Gives the fence its number. Fences of a context signal in the order of their numbers.
    pub(crate) fn begin(&mut self, context: u64, number: u64) {
        if self.state == FenceState::New {
            // SAFETY: `raw` is memory for a fence, which is nobody else's.
            unsafe { nvdla_fence_begin(self.raw, context, number) };
            self.state = FenceState::Pending;
        }
    }

    /// A second reference to the fence, which has begun.
    pub(crate) fn shared(&self) -> SharedFence {
        // SAFETY: The fence has begun, and we have a reference.
        unsafe { nvdla_fence_get(self.raw) };
        SharedFence(self.raw)
    }

    /// Reserves a file descriptor that polls readable once the fence has signalled.
    pub(crate) fn reserve_descriptor(&self) -> Result<Descriptor> {
        let mut sync = core::ptr::null_mut();
        // SAFETY: `raw` is a fence with a reference of ours, `sync` is valid for a write.
        let fd = unsafe { nvdla_fence_reserve(self.raw, &raw mut sync) };
        if fd < 0 {
            return Err(Error::from_errno(fd));
        }
        Ok(Descriptor { fd, sync })
    }

    pub(crate) fn signal(&mut self, result: Result) {
        if self.state == FenceState::Pending {
            self.state = FenceState::Signalled;
            // SAFETY: `raw` is a fence with a reference of ours, not signalled yet.
            unsafe { nvdla_fence_signal(self.raw, result.err().map_or(0, |e| e.to_errno())) };
        }
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        if self.state == FenceState::New {
            // SAFETY: Nobody else has the memory.
            unsafe { nvdla_fence_discard(self.raw) };
            return;
        }
        self.signal(Err(ECANCELED));
        // SAFETY: Gives back the reference of `nvdla_fence_create`.
        unsafe { nvdla_fence_put(self.raw) };
    }
}

/// A GEM object that is held.
///
/// # Safety
///
/// The object must be valid as long as the value.
pub(crate) unsafe trait HeldObject {
    /// The object.
    fn raw(&self) -> *mut bindings::drm_gem_object;
}

/// A reference to a task's fence, which may have signalled.
pub(crate) struct SharedFence(*mut c_void);

impl SharedFence {
    /// Makes others that use a buffer wait for the fence. The buffer's reservation is locked and has room.
    pub(crate) fn share(&self, object: &impl HeldObject, write: bool) {
        // SAFETY: The reference is ours, and the caller has locked the reservation.
        unsafe { nvdla_fence_share(self.0, object.raw(), write) };
    }
}

impl Drop for SharedFence {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { nvdla_fence_put(self.0) };
    }
}

/// A descriptor of a fence that user space cannot use yet. It is freed when it is dropped.
pub(crate) struct Descriptor {
    fd: c_int,
    sync: *mut c_void,
}

impl Descriptor {
    /// Makes the descriptor usable for user space.
    pub(crate) fn install(self) -> i32 {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: Both were reserved together by this process, and neither is used after this.
        unsafe { nvdla_fence_install(this.fd, this.sync) };
        this.fd
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: As in `install`.
        unsafe { nvdla_fence_abandon(self.fd, self.sync) };
    }
}

/// A synchronisation object of DRM that gets the fence of a task.
pub(crate) struct Target(*mut c_void);

impl Target {
    /// Finds the object of that handle, or the point of a timeline.
    ///
    /// # Safety
    ///
    /// `file` must be an open file of this driver.
    pub(crate) unsafe fn new(file: *mut bindings::drm_file, handle: u32, point: u64) -> Result<Self> {
        // SAFETY: By this function's condition; the helper checks the handle.
        let raw = kernel::error::from_err_ptr(unsafe { nvdla_target_create(file, handle, point) })?;
        Ok(Self(raw))
    }

    /// Gives it the fence, which has begun.
    pub(crate) fn set(self, fence: &SharedFence) {
        // SAFETY: Both are valid, and the helper takes its own reference.
        unsafe { nvdla_target_set(self.0, fence.0) };
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // SAFETY: Nobody else has the pointer.
        unsafe { nvdla_target_destroy(self.0) };
    }
}

/// The reservations of buffers, locked until this value is dropped.
pub(crate) struct Reservations {
    objects: KVec<*mut bindings::drm_gem_object>,
    locked: c_uint,
    context: *mut c_void,
}

impl Reservations {
    /// Locks the reservations of these buffers. Interrupted by signals.
    pub(crate) fn lock<T: HeldObject>(buffers: &[(T, bool)]) -> Result<Self> {
        let mut objects = KVec::with_capacity(buffers.len(), GFP_KERNEL)?;
        for (buffer, _) in buffers {
            objects.push(buffer.raw(), GFP_KERNEL)?;
        }
        let mut context = core::ptr::null_mut();
        // SAFETY: The caller holds the objects; the list has that length.
        let locked =
            unsafe { nvdla_reservations_lock(objects.as_mut_ptr(), objects.len() as c_uint, &raw mut context) };
        if locked < 0 {
            return Err(Error::from_errno(locked));
        }
        Ok(Self { objects, locked: locked as c_uint, context })
    }
}

impl Drop for Reservations {
    fn drop(&mut self) {
        // SAFETY: They were locked with this context, and the caller of `lock` still holds the objects.
        unsafe { nvdla_reservations_unlock(self.objects.as_mut_ptr(), self.locked, self.context) };
    }
}

/// Waits for those who write a buffer, or for all who use it.
pub(crate) fn wait_for_buffer(object: &impl HeldObject, all: bool, deadline_ns: u64) -> Result {
    // SAFETY: The object is held.
    to_result(unsafe { nvdla_buffer_wait(object.raw(), all, deadline_ns) })
}

/// Marks code that must run for a fence to signal, until it is dropped, for lockdep. The thread must not change in between.
pub(crate) struct Signalling {
    cookie: bool,
    _thread: NotThreadSafe,
}

impl Signalling {
    pub(crate) fn begin() -> Self {
        // SAFETY: No conditions; `drop` ends it.
        Self { cookie: unsafe { nvdla_signalling_begin() }, _thread: NotThreadSafe }
    }
}

impl Drop for Signalling {
    fn drop(&mut self) {
        // SAFETY: The cookie is the begin's, on the same thread.
        unsafe { nvdla_signalling_end(self.cookie) };
    }
}

/// The process that calls, for messages.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    name: [u8; 16],
    pid: i32,
}

impl Process {
    pub(crate) fn current() -> Self {
        let mut name = [0; 16];
        // SAFETY: The name has the bytes that the helper writes.
        let pid = unsafe { nvdla_process_name(name.as_mut_ptr()) };
        Self { name, pid }
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Whether the tasks of the calling process may run before those of others.
    pub(crate) fn may_be_urgent() -> bool {
        // SAFETY: No conditions.
        unsafe { nvdla_process_may_be_urgent() }
    }

    /// Yields to others. Returns whether the calling process has a signal, so that long work for it should end.
    pub(crate) fn is_interrupted() -> bool {
        // SAFETY: Called by an ioctl, which may sleep.
        unsafe { nvdla_process_yield() };
        current!().signal_pending()
    }
}

impl kernel::fmt::Display for Process {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        let length = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        // A process chooses its name. Characters that could imitate a line of the log are shown as dots.
        for &byte in self.name.iter().take(length) {
            let byte = if byte.is_ascii_graphic() || byte == b' ' { byte } else { b'.' };
            kernel::fmt::Write::write_char(f, char::from(byte))?;
        }
        kernel::fmt::Write::write_fmt(f, format_args!("[{}]", self.pid))
    }
}

/// The works of a device: they start the next task, end a task at its deadline, and free jobs that have ended.
pub(crate) struct Worker(*mut c_void);

// SAFETY: Work items may be queued from any thread.
unsafe impl Send for Worker {}
// SAFETY: As above.
unsafe impl Sync for Worker {}

impl Worker {
    /// # Safety
    ///
    /// `core` must be what `nvdla_core_advance` and the other functions of the works expect, and stay valid until the worker is
    /// dropped.
    pub(crate) unsafe fn new(core: *const c_void) -> Result<Self> {
        // SAFETY: The caller keeps `core` valid.
        let raw = unsafe { nvdla_worker_create(core.cast_mut()) };
        if raw.is_null() {
            return Err(ENOMEM);
        }
        Ok(Self(raw))
    }

    pub(crate) fn kick(&self) {
        // SAFETY: The worker is valid until dropped.
        unsafe { nvdla_worker_kick(self.0) };
    }

    /// Attaches the domain of the client whose task is next, through `nvdla_core_attach`.
    pub(crate) fn attach(&self) {
        // SAFETY: The worker is valid until dropped.
        unsafe { nvdla_worker_attach(self.0) };
    }

    /// Moves the deadline to `ns` nanoseconds from now.
    pub(crate) fn arm(&self, ns: u64) {
        // SAFETY: The worker is valid until dropped.
        unsafe { nvdla_worker_arm(self.0, ns) };
    }

    pub(crate) fn disarm(&self) {
        // SAFETY: The worker is valid until dropped.
        unsafe { nvdla_worker_disarm(self.0) };
    }

    /// Frees the jobs that have ended, through `nvdla_core_clean`.
    pub(crate) fn clean(&self) {
        // SAFETY: The worker is valid until dropped.
        unsafe { nvdla_worker_cleanup(self.0) };
    }

    /// Whether another message about a client may be logged.
    pub(crate) fn may_log(&self) -> bool {
        // SAFETY: The worker is valid until dropped.
        unsafe { nvdla_worker_may_log(self.0) }
    }

    /// A reference that stays valid after the worker has stopped.
    pub(crate) fn reference(&self) -> WorkerReference {
        // SAFETY: The worker is valid until dropped; the reference is the result's.
        unsafe { nvdla_worker_get(self.0) };
        WorkerReference(self.0)
    }
}

/// A reference to a worker that may have stopped.
pub(crate) struct WorkerReference(*mut c_void);

impl WorkerReference {
    /// Waits until the jobs that have ended are freed.
    pub(crate) fn flush(&self) {
        // SAFETY: The reference keeps the worker.
        unsafe { nvdla_worker_flush(self.0) };
    }

    /// Watches the fence behind a sync_file descriptor.
    pub(crate) fn watch(&self, fd: i32) -> Result<Watch> {
        // SAFETY: The reference keeps the worker; the helper checks the descriptor.
        let raw = kernel::error::from_err_ptr(unsafe { nvdla_watch_create(fd, self.0) })?;
        Ok(Watch(raw))
    }

    /// Watches the fence of a synchronisation object, or of a point on its timeline.
    ///
    /// # Safety
    ///
    /// `file` must be an open file of this driver.
    pub(crate) unsafe fn watch_sync(&self, file: *mut bindings::drm_file, handle: u32, point: u64) -> Result<Watch> {
        // SAFETY: By this function's condition; the helper checks the handle.
        let raw = kernel::error::from_err_ptr(unsafe { nvdla_watch_sync(file, handle, point, self.0) })?;
        Ok(Watch(raw))
    }

    /// Watches all who use a buffer, or those who write it, and makes room for one fence. Its reservation is locked. `None` if there
    /// is nobody to wait for.
    pub(crate) fn watch_buffer(&self, object: &impl HeldObject, all: bool) -> Result<Option<Watch>> {
        // SAFETY: The object is held, and the caller has locked its reservation.
        let raw = kernel::error::from_err_ptr(unsafe { nvdla_watch_buffer(object.raw(), all, self.0) })?;
        Ok((!raw.is_null()).then(|| Watch(raw)))
    }
}

impl Drop for WorkerReference {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { nvdla_worker_put(self.0) };
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: The reference is ours. After the first call no work runs, even if others still have references.
        unsafe {
            nvdla_worker_stop(self.0);
            nvdla_worker_put(self.0);
        }
    }
}

/// A foreign fence that a task waits for.
pub(crate) struct Watch(*mut c_void);

// SAFETY: A watch may be destroyed from any thread.
unsafe impl Send for Watch {}
// SAFETY: As above; its status is read under the fence's own lock.
unsafe impl Sync for Watch {}

impl Watch {
    /// `None` while the fence is pending, then how it ended.
    pub(crate) fn status(&self) -> Option<Result> {
        // SAFETY: The watch holds its fence.
        match unsafe { nvdla_watch_status(self.0) } {
            0 => None,
            status => Some(if status < 0 { Err(Error::from_errno(status)) } else { Ok(()) }),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: Nobody else has the pointer.
        unsafe { nvdla_watch_destroy(self.0) };
    }
}

/// The C device of a device.
fn device_raw<C: device::DeviceContext>(dev: &device::Device<C>) -> *mut bindings::device {
    // The kernel crate's device is a transparent wrapper.
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// The power management of a device: initialisation, reset, sleep.
///
/// It lives as long as the device is bound, and is not used after that.
pub(crate) struct Power(*mut c_void);

// SAFETY: The functions may be called from any thread; the caller's lock makes it one at a time.
unsafe impl Send for Power {}

impl Power {
    /// Turns on what the device tree names, if there is one: reserved memory, clocks, resets. The kernel releases all
    /// of it when the device is unbound.
    pub(crate) fn start(dev: &device::Device<Bound>) -> Result<Self> {
        // SAFETY: The device is bound.
        let raw = kernel::error::from_err_ptr(unsafe { nvdla_power_start(device_raw(dev)) })?;
        Ok(Self(raw))
    }

    /// Sets the number of address bits of the device, before memory is mapped for it.
    pub(crate) fn reach(&self, bits: u32) -> Result {
        // SAFETY: Valid as long as the device is bound.
        to_result(unsafe { nvdla_power_reach(self.0, bits) })
    }

    /// A way to reset the device without a lock on the power management.
    pub(crate) fn reset(&self) -> Reset {
        Reset(self.0)
    }

    /// Disables the interrupt of a device that does not stop, and bus mastering where the bus has such a switch.
    pub(crate) fn isolate(&self) {
        // SAFETY: Valid as long as the device is bound.
        unsafe { nvdla_power_isolate(self.0) };
    }

    /// Disables the interrupt's line, if it is one that other devices share, of a device whose registers are not accessed for a
    /// while. [`Self::connect`] enables it.
    pub(crate) fn rest(&self) {
        // SAFETY: Valid as long as the device is bound.
        unsafe { nvdla_power_rest(self.0) };
    }

    /// Enables bus mastering, and the interrupt. The device must not be running anything.
    pub(crate) fn connect(&self) {
        // SAFETY: Valid as long as the device is bound.
        unsafe { nvdla_power_connect(self.0) };
    }

    /// Registers `core` for the functions of suspend and resume (`nvdla_core_suspend` and the following). The last step of a
    /// probe; [`unmanage`] reverses it.
    ///
    /// # Safety
    ///
    /// `core` must be what those functions expect, and stay valid until the device is unbound.
    pub(crate) unsafe fn manage(&self, core: *const c_void) {
        // SAFETY: By this function's condition.
        unsafe { nvdla_power_manage(self.0, core.cast_mut()) };
    }
}

/// The reset of a device, through its bus or its reset lines.
pub(crate) struct Reset(*mut c_void);

impl Reset {
    /// Resets the device: `EAGAIN` if the bus cannot do it now, `ENOTSUPP` if there is no reset. Success does not mean that the
    /// device was reached: a reset of the bus's endpoint may leave what is behind it as it was.
    ///
    /// `held` says that the caller is a probe, the unbinding or a suspend, for which the driver core holds the device. One reset
    /// at a time, while the device is bound.
    pub(crate) fn run(self, held: bool) -> Result {
        // SAFETY: Valid as long as the device is bound.
        to_result(unsafe { nvdla_power_reset(self.0, held) })
    }
}

/// Gives a dump to the kernel's device dumps.
pub(crate) fn dump(dev: &ARef<device::Device>, words: &[u32]) {
    // SAFETY: The device exists, and the helper copies as many bytes as there are.
    unsafe { nvdla_dump(device_raw(dev), words.as_ptr().cast(), size_of_val(words)) };
}

/// Ends all mappings of memory for a device that is about to be unbound.
pub(crate) fn stop_space(dev: &ARef<device::Device>) {
    // SAFETY: The device exists.
    unsafe { nvdla_space_stop(device_raw(dev)) };
}

/// Makes the SRAM of a device with a secondary memory interface available, if there is one. `bits` is the number of address bits of
/// the device.
pub(crate) fn start_sram(dev: &device::Device<Bound>, bits: u32) -> Result {
    // SAFETY: The device is bound.
    to_result(unsafe { nvdla_sram_start(device_raw(dev), bits) })
}

/// Ends the use of the SRAM by clients, before a device is unbound and its mappings are removed.
pub(crate) fn stop_sram(dev: &ARef<device::Device>) {
    // SAFETY: The device exists.
    unsafe { nvdla_sram_stop(device_raw(dev)) };
}

/// Bytes of the SRAM of a device, and those in use; 0 for a device without SRAM and for one that is not bound.
pub(crate) fn sram_size(dev: &ARef<device::Device>) -> (u64, u64) {
    let mut used = 0;
    // SAFETY: The device exists. `used` is valid for a write.
    let size = unsafe { nvdla_sram_size(device_raw(dev), &raw mut used) };
    (size, used)
}

/// Whether the processor caches only those buffers of a bound device that are asked for with that.
pub(crate) fn is_uncached(dev: &ARef<device::Device>) -> bool {
    // SAFETY: The device exists.
    unsafe { nvdla_space_is_uncached(device_raw(dev)) }
}

/// Resumes the device and keeps it active because it is about to be unbound. [`unmanage`] follows.
pub(crate) fn wake<C: device::DeviceContext>(dev: &device::Device<C>) {
    // SAFETY: The device exists, and the driver core holds it for the unbinding.
    unsafe { nvdla_power_wake(device_raw(dev)) };
}

/// Ends the power management of a device that has stopped. Called once per [`Power::manage`].
pub(crate) fn unmanage<C: device::DeviceContext>(dev: &device::Device<C>) {
    // SAFETY: The device exists, and the driver core holds it for the unbinding.
    unsafe { nvdla_power_unmanage(device_raw(dev)) };
}

/// A runtime power management reference, which keeps the device active until it is dropped.
pub(crate) struct PowerReference(ARef<device::Device>);

impl PowerReference {
    /// Resumes the device, which may take some time.
    pub(crate) fn new(dev: &ARef<device::Device>) -> Result<Self> {
        // SAFETY: The device exists; the caller may sleep.
        to_result(unsafe { nvdla_power_get(device_raw(dev)) })?;
        Ok(Self(dev.clone()))
    }
}

impl Drop for PowerReference {
    fn drop(&mut self) {
        // SAFETY: Releases the reference that `new` took.
        unsafe { nvdla_power_put(device_raw(&self.0)) };
    }
}
