// SPDX-License-Identifier: GPL-2.0-only

//! The ioctls: NVIDIA's four, compatible with existing user space, and the driver's own four.

use kernel::{
    bindings,
    drm::{
        self,
        gem::BaseObject,
        ioctl::{
            self,
            internal, //
        }, //
    },
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

use super::{
    budget,
    client::Client,
    driver::{
        Driver,
        Registered, //
    },
    ffi, gem,
    job::{
        self,
        AddressEntry,
        Deadline,
        Jobs, //
    },
    memory::Held,
    uapi::{
        ioctl as first,
        queue, //
    },
};

type Device = drm::Device<Driver, drm::Registered>;
type Unguarded = drm::Device<Driver, drm::Ioctl>;
type File = drm::File<Client>;

/// Calls `handler` while the device cannot be unbound; `ENODEV` when it has been.
fn guarded<R>(dev: &Unguarded, handler: impl FnOnce(&Device, &Registered<'_>) -> Result<R>) -> Result<R> {
    let guard = dev.registration_guard().ok_or(ENODEV)?;
    guard.registration_data_with(|registered| handler(&*guard, registered))
}

/// `kernel::declare_drm_ioctls!` takes its types from the kernel's own uapi crate; this macro takes any plain data. During a
/// `guarded` handler the device cannot be unbound. A `free` handler takes such a guard itself when it needs one.
macro_rules! ioctls {
    (@call guarded $handler:ident, $dev:ident, $data:ident, $file:ident) => {
        guarded($dev, |dev, registered| $handler(dev, registered, $data, $file))
    };
    (@call free $handler:ident, $dev:ident, $data:ident, $file:ident) => {
        $handler($dev, $data, $file)
    };
    ($(($number:expr, $name:ident, $type:ty, $how:ident $handler:ident)),* $(,)?) => {
        /// The ioctl table, indexed by driver command.
        pub(crate) const TABLE: &[ioctl::DrmIoctlDescriptor] = &[$(
            internal::drm_ioctl_desc {
                cmd: ioctl::IOWR::<$type>($number + bindings::DRM_COMMAND_BASE),
                func: {
                    #[allow(non_snake_case)]
                    unsafe extern "C" fn $name(
                        dev: *mut internal::drm_device,
                        data: *mut c_void,
                        file: *mut internal::drm_file,
                    ) -> c_int {
                        // SAFETY: DRM keeps the device alive for the call, and it is of this driver.
                        let dev: &Unguarded = unsafe { drm::Device::from_raw(dev) };
                        // SAFETY: `drm_ioctl` passes a buffer of at least the size in the command; the type is plain
                        // data, for which every bit pattern is valid.
                        let data = unsafe { &mut *data.cast::<$type>() };
                        // SAFETY: An open file of this driver.
                        let file: &File = unsafe { drm::File::from_raw(file) };
                        match ioctls!(@call $how $handler, dev, data, file) {
                            Ok(()) => 0,
                            Err(error) => error.to_errno(),
                        }
                    }
                    Some($name)
                },
                flags: ioctl::RENDER_ALLOW,
                name: kernel::str::as_char_ptr_in_const_context(kernel::c_str!(stringify!($name))),
            }
        ),*];
    };
}

ioctls! {
    (0x00, NVDLA_SUBMIT, first::SubmitArgs, free submit_first),
    (0x01, NVDLA_GEM_CREATE, first::GemCreateArgs, guarded gem_create),
    (0x02, NVDLA_GEM_MMAP, first::GemMapOffsetArgs, guarded gem_map_offset),
    (0x03, NVDLA_GEM_DESTROY, first::GemDestroyArgs, guarded gem_destroy),
    (queue::QUERY_COMMAND, NVDLA_QUERY, queue::Query, guarded query),
    (queue::SUBMIT_COMMAND, NVDLA_SUBMIT_TASKS, queue::Submit, free submit),
    (queue::WAIT_COMMAND, NVDLA_WAIT, queue::Wait, free wait),
    (queue::ACCESS_COMMAND, NVDLA_ACCESS, queue::Access, free access),
}

/// Records of an array in user memory that are copied at once. They are copied to the stack, because an allocation takes longer
/// than the copy of a short array.
const AT_ONCE: usize = 8;

/// Calls `each` with the records of an array of `count` in user memory, up to the first error. An element of the array has `stride`
/// bytes: at least a record's, and what is behind the record must be zero.
fn for_each_record<const SIZE: usize>(
    pointer: u64,
    count: usize,
    stride: usize,
    mut each: impl FnMut(&[u8; SIZE]) -> Result,
) -> Result {
    if count != 0 && stride < SIZE {
        return Err(EINVAL);
    }
    if stride > queue::MAX_RECORD as usize {
        return Err(E2BIG);
    }
    let bytes = count.checked_mul(stride).ok_or(EINVAL)?;
    let mut reader = UserSlice::new(UserPtr::from_addr(usize::try_from(pointer)?), bytes).reader();
    while !reader.is_empty() {
        let mut records = [[0; SIZE]; AT_ONCE];
        if stride == SIZE {
            let some = &mut records[..AT_ONCE.min(reader.len() / SIZE)];
            reader.read_slice(some.as_flattened_mut())?;
            some.iter().try_for_each(&mut each)?;
            continue;
        }
        reader.read_slice(&mut records[0])?;
        let mut left = stride - SIZE;
        while left > 0 {
            let mut rest = [0; 64];
            let some = &mut rest[..left.min(64)];
            reader.read_slice(some)?;
            if some.iter().any(|&byte| byte != 0) {
                return Err(E2BIG);
            }
            left -= some.len();
        }
        each(&records[0])?;
    }
    Ok(())
}

/// The address list of a task, an array of `count` records in user memory. `entry` makes an entry of a record.
fn address_list<const SIZE: usize>(
    pointer: u64,
    count: u32,
    stride: usize,
    mut entry: impl FnMut(&[u8; SIZE]) -> Result<AddressEntry>,
) -> Result<KVVec<AddressEntry>> {
    let count = count as usize;
    let mut entries = KVVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
    for_each_record(pointer, count, stride, |record| Ok(entries.push_within_capacity(entry(record)?)?))?;
    Ok(entries)
}

fn gem_create(dev: &Device, _: &Registered<'_>, args: &mut first::GemCreateArgs, file: &File) -> Result {
    const KINDS: u32 = queue::GEM_CREATE_SRAM | queue::GEM_CREATE_CACHED;
    if args.flags & !KINDS != 0 || args.flags == KINDS {
        return Err(EINVAL);
    }
    let client = file.inner();
    let create = || gem::create(dev, client.budget(), args.size, args.flags);
    let object = client.accelerator().with_room(create)?;
    args.handle = object.create_handle(file)?;
    Ok(())
}

fn gem_map_offset(_: &Device, _: &Registered<'_>, args: &mut first::GemMapOffsetArgs, file: &File) -> Result {
    args.offset = gem::Object::lookup_handle(file, args.handle)?.create_mmap_offset()?;
    Ok(())
}

fn gem_destroy(_: &Device, _: &Registered<'_>, args: &mut first::GemDestroyArgs, file: &File) -> Result {
    // SAFETY: The file is valid for the call; the helper checks the handle.
    kernel::error::to_result(unsafe {
        bindings::drm_gem_handle_delete(core::ptr::from_ref(file).cast_mut().cast(), args.handle)
    })
}

/// NVIDIA's submission: runs tasks one after another, and returns when the last has ended.
///
/// Holds no reference to the device while it waits, so the machine can sleep and the device can be unbound.
fn submit_first(dev: &Unguarded, args: &mut first::SubmitArgs, file: &File) -> Result {
    if args.num_tasks > first::MAX_TASKS_PER_SUBMIT
        || args.flags & !first::SUBMIT_FLAGS_ATOMIC != 0
        || args.version > first::SUBMIT_VERSION_TIMEOUT
    {
        return Err(EINVAL);
    }
    // Existing user space sets `num_tasks` to one or leaves it at zero, and means one task in both cases.
    let count = args.num_tasks.max(1);
    // Several tasks are run one after another, so "all or none" cannot be guaranteed for them.
    if count > 1 && args.flags & first::SUBMIT_FLAGS_ATOMIC != 0 {
        return Err(EINVAL);
    }
    let client = file.inner();
    client.accelerator().trace_submit(client.id(), u32::from(count));
    // All records are read before the first task runs, so that a wrong pointer is an error before any effect.
    let mut tasks = [first::SubmitTask::default(); first::MAX_TASKS_PER_SUBMIT as usize];
    let mut places = tasks.iter_mut();
    for_each_record(args.tasks, count.into(), size_of::<first::SubmitTask>(), |record| {
        *places.next().ok_or(EINVAL)? = first::SubmitTask::from_bytes(record);
        Ok(())
    })?;
    tasks.iter_mut().take(count.into()).try_for_each(|task| {
        if args.version < first::SUBMIT_VERSION_TIMEOUT {
            task.timeout = first::NO_TIMEOUT;
        }
        let sequence = queue_first(dev, task, file)?;
        let result = client.accelerator().wait_for_end(client.id(), sequence)?;
        // Each task imports other drivers' buffers anew, so their mappings must not pile up before the work frees the tasks.
        client.accelerator().clean();
        result
    })
    // Some tasks may have run, so the call cannot be restarted after a signal.
    .map_err(|error| if error == ERESTARTSYS { EINTR } else { error })
}

/// Queues a task whose addresses are dma-buf descriptors, and returns its sequence number.
///
/// As in [`queue_tasks`] the device is held only while the task is queued: the descriptors may be in another driver's buffer, and are
/// then read after those who write it.
fn queue_first(dev: &Unguarded, task: &first::SubmitTask, file: &File) -> Result<u64> {
    if task.num_addresses == 0 || task.num_addresses > first::MAX_BUFFERS_PER_TASK {
        return Err(EINVAL);
    }
    let client = file.inner();
    let (accelerator, id) = (client.accelerator(), client.id());
    accelerator.has_room(id, 1)?;
    let cost = job::cost(task.num_addresses);
    let charge = accelerator.with_room(|| client.budget().charge(budget::Kind::Tasks, cost))?;
    let size = size_of::<first::MemHandle>();
    let entries = address_list(task.address_list, task.num_addresses, size, |record| {
        let address = first::MemHandle::from_bytes(record);
        let fd = i32::try_from(address.handle).map_err(|_| EBADF)?;
        let object = accelerator.with_room(|| gem::from_fd(dev, client.budget(), fd))?;
        AddressEntry::new(gem::hold(object), address.offset, client.domain())
    })?;
    let deadline = match task.timeout {
        0 | first::NO_TIMEOUT => Deadline::Absolute(0),
        milliseconds => Deadline::Relative(u64::from(milliseconds) * 1_000_000),
    };
    let mut jobs = Jobs::new();
    jobs.push(accelerator.job(id, 0, entries, deadline, charge).map_err(|refusal| refusal.error)?);
    client.in_order(&mut jobs, |jobs| guarded(dev, |_, registered| registered.accelerator.submit(id, jobs)))
}

/// Describes the device.
fn query(_: &Device, registered: &Registered<'_>, args: &mut queue::Query, _: &File) -> Result {
    if *args != queue::Query::default() {
        return Err(EINVAL);
    }
    let accelerator = &registered.accelerator;
    let name = accelerator.config().name.as_bytes();
    for (to, from) in args.config.iter_mut().take(31).zip(name) {
        *to = *from;
    }
    args.hardware_version = accelerator.hardware_version();
    args.flags = if accelerator.is_model() { queue::QUERY_MODEL } else { 0 };
    args.flags |= if accelerator.is_uncached() { queue::QUERY_UNCACHED } else { 0 };
    args.max_addresses = first::MAX_BUFFERS_PER_TASK;
    args.max_tasks = queue::MAX_TASKS;
    args.max_queued = queue::MAX_QUEUED;
    args.max_in_fences = queue::MAX_IN_FENCES;
    args.default_timeout_ns = accelerator.default_timeout_ns();
    args.max_timeout_ns = accelerator.max_timeout_ns();
    args.sram_size = accelerator.sram().0;
    Ok(())
}

/// Queues tasks whose addresses are GEM handles. After a signal nothing is queued, so the kernel may restart the call, if the
/// program has asked for that, and after the freezer has interrupted it.
fn submit(dev: &Unguarded, args: &mut queue::Submit, file: &File) -> Result {
    queue_tasks(dev, args, file).map_err(|error| if error == EINTR { ERESTARTSYS } else { error })
}

/// As [`submit`], with `EINTR` after a signal. All tasks are checked before the first is queued.
///
/// The device is held only while tasks are queued, because reading tasks may take long and must not block an unbinding.
fn queue_tasks(dev: &Unguarded, args: &mut queue::Submit, file: &File) -> Result {
    let client = file.inner();
    let (accelerator, id) = (client.accelerator(), client.id());
    accelerator.trace_submit(id, args.num_tasks);
    let outs = [args.refused_reason, args.refused_task, args.refused_operation];
    if args.reserved != 0
        || args.sequence != 0
        || !matches!(args.out_fence, 0 | -1)
        || outs != [0; 3]
        || args.flags & !(queue::SUBMIT_OUT_FENCE | queue::SUBMIT_URGENT) != 0
        || args.num_tasks == 0
        || args.num_tasks > queue::MAX_TASKS
        || args.num_in_fences > queue::MAX_IN_FENCES
        || args.num_in_syncs > queue::MAX_SYNCS
        || args.num_out_syncs > queue::MAX_SYNCS
    {
        return Err(EINVAL);
    }
    let is_urgent = args.flags & queue::SUBMIT_URGENT != 0;
    if is_urgent && !ffi::Process::may_be_urgent() {
        return Err(EACCES);
    }
    args.out_fence = -1;
    accelerator.has_room(id, args.num_tasks as usize)?;

    let mut jobs = Jobs::new();
    let mut implicit = Implicit::new();
    let mut refused = None;
    for_each_record(args.tasks, args.num_tasks as usize, args.task_size as usize, |record| {
        let task = queue::Task::from_bytes(record);
        if task.reserved != 0
            || task.flags != 0
            || task.num_addresses == 0
            || task.num_addresses > first::MAX_BUFFERS_PER_TASK
        {
            return Err(EINVAL);
        }
        let cost = job::cost(task.num_addresses);
        let charge = accelerator.with_room(|| client.budget().charge(budget::Kind::Tasks, cost))?;
        let stride = task.address_size as usize;
        let entries = address_list(task.addresses, task.num_addresses, stride, |record| {
            let address = queue::Address::from_bytes(record);
            if address.flags & !(queue::ADDRESS_READ | queue::ADDRESS_WRITE) != 0 {
                return Err(EINVAL);
            }
            let object = gem::Object::lookup_handle(file, address.handle)?;
            if address.flags != 0 {
                implicit.add(gem::hold(object.clone()), address.flags & queue::ADDRESS_WRITE != 0)?;
            }
            AddressEntry::new(gem::hold(object), address.offset, client.domain())
        })?;
        let number = jobs.len() as u32;
        let deadline = Deadline::Absolute(args.deadline_ns);
        let mut job = accelerator.job(id, number, entries, deadline, charge).map_err(|refusal| {
            refused = refusal.reason.map(|reason| (number, reason));
            refusal.error
        })?;
        job.is_urgent = is_urgent;
        jobs.push(job);
        Ok(())
    })
    .inspect_err(|_| {
        if let Some((task, error)) = refused {
            args.refused_reason = error.reason.code();
            args.refused_task = task;
            args.refused_operation = error.operation.unwrap_or(u32::MAX);
        }
    })?;
    let worker = accelerator.worker()?;
    let raw: *mut bindings::drm_file = core::ptr::from_ref(file).cast_mut().cast();
    let first = jobs.oldest_mut().ok_or(EINVAL)?;
    let fences = args.num_in_fences + args.num_in_syncs;
    first.expect(fences as usize + implicit.len(), |work| accelerator.with_room(work))?;
    for_each_record(args.in_fences, args.num_in_fences as usize, size_of::<i32>(), |record| {
        first.wait_for(worker.watch(i32::from_ne_bytes(*record))?)
    })?;
    let size = args.sync_size as usize;
    for_each_record(args.in_syncs, args.num_in_syncs as usize, size, |record| {
        let sync = queue::Sync::from_bytes(record);
        if sync.flags != 0 {
            return Err(EINVAL);
        }
        // SAFETY: The file is valid for the call.
        first.wait_for(unsafe { worker.watch_sync(raw, sync.handle, sync.point)? })
    })?;
    let mut targets = KVec::new();
    for_each_record(args.out_syncs, args.num_out_syncs as usize, size, |record| {
        let sync = queue::Sync::from_bytes(record);
        if sync.flags != 0 {
            return Err(EINVAL);
        }
        // SAFETY: The file is valid for the call.
        Ok(targets.push(unsafe { ffi::Target::new(raw, sync.handle, sync.point)? }, GFP_KERNEL_ACCOUNT)?)
    })?;
    implicit.lock(|implicit| {
        implicit.wait(&worker, jobs.oldest_mut().ok_or(EINVAL)?)?;
        client.in_order(&mut jobs, |jobs| {
            let descriptor = match jobs.newest() {
                Some(last) if args.flags & queue::SUBMIT_OUT_FENCE != 0 => Some(last.fence.reserve_descriptor()?),
                _ => None,
            };
            // The tasks may end before this returns, so their last fence is kept.
            let last = jobs.newest().map(|job| job.fence.shared());
            args.sequence = guarded(dev, |_, registered| registered.accelerator.submit(id, jobs))?;
            if let Some(last) = last {
                implicit.share(&last);
                while let Some(target) = targets.pop() {
                    target.set(&last);
                }
            }
            if let Some(descriptor) = descriptor {
                args.out_fence = descriptor.install();
            }
            Ok(())
        })
    })
}

/// The buffers of a submission whose reservations tell others of it.
struct Implicit(KVec<(Held, bool)>);

impl Implicit {
    fn new() -> Self {
        Self(KVec::new())
    }

    /// Adds a buffer that the submission reads, or also writes.
    fn add(&mut self, object: Held, write: bool) -> Result {
        if self.0.len() >= queue::MAX_IMPLICIT as usize {
            return Err(EINVAL);
        }
        if let Some((_, writes)) = self.0.iter_mut().find(|(other, _)| other.raw() == object.raw()) {
            *writes |= write;
            return Ok(());
        }
        Ok(self.0.push((object, write), GFP_KERNEL_ACCOUNT)?)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// Calls `work` while the reservations are locked.
    fn lock<R>(self, work: impl FnOnce(&Self) -> Result<R>) -> Result<R> {
        let _locked = if self.0.is_empty() { None } else { Some(ffi::Reservations::lock(&self.0)?) };
        work(&self)
    }

    /// Makes a job wait for others that use the buffers.
    fn wait(&self, worker: &ffi::WorkerReference, job: &mut job::Job) -> Result {
        for (object, write) in &self.0 {
            if let Some(watch) = worker.watch_buffer(object, *write)? {
                job.wait_for(watch)?;
            }
        }
        Ok(())
    }

    /// Makes others wait for the fence.
    fn share(&self, fence: &ffi::SharedFence) {
        for (object, write) in &self.0 {
            fence.share(object, *write);
        }
    }
}

/// Begins or ends accesses of the processor to a buffer.
fn access(dev: &Unguarded, args: &mut queue::Access, file: &File) -> Result {
    const BOTH: u32 = queue::ACCESS_READ | queue::ACCESS_WRITE;
    if args.flags & BOTH == 0 || args.flags & !(BOTH | queue::ACCESS_END) != 0 {
        return Err(EINVAL);
    }
    guarded(dev, |_, _| Ok(()))?;
    let object = gem::hold(gem::Object::lookup_handle(file, args.handle)?);
    let (read, write) = (args.flags & queue::ACCESS_READ != 0, args.flags & queue::ACCESS_WRITE != 0);
    if args.flags & queue::ACCESS_END != 0 {
        return object.sync(read, write, true);
    }
    ffi::wait_for_buffer(&object, write, args.deadline_ns)?;
    object.sync(read, write, false)
}

/// Waits until a task of this client has ended. No device is held during the wait, because a held device prevents the unbinding
/// of every DRM device.
fn wait(dev: &Unguarded, args: &mut queue::Wait, file: &File) -> Result {
    if args.reserved != 0 || args.status != 0 {
        return Err(EINVAL);
    }
    guarded(dev, |_, _| Ok(()))?;
    let client = file.inner();
    let ended = client.accelerator().wait(client.id(), args.sequence, args.deadline_ns)?;
    args.status = ended.err().map_or(0, Error::to_errno);
    Ok(())
}
