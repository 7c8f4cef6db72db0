// SPDX-License-Identifier: MIT OR Apache-2.0

//! A session: a loadable on a device, ready to run as often as one likes.
//!
//! Making a session allocates the loadable's memories and fills them; [`Session::run`] then submits its tasks in
//! order, those for NVDLA to the device, the emulated ones to [`crate::emulator`]. Between runs only the inputs change.
//!
//! ```no_run
//! use nvdla_runtime::device::{self, Selection};
//! use nvdla_runtime::{loadable::Loadable, session::Session};
//!
//! let loadable = Loadable::open("lenet.nvdla")?;
//! let device = device::open(&Selection::Auto, &loadable)?.device;
//! let mut session = Session::new(loadable, device)?;
//! for image in [[0u8; 3584], [1u8; 3584]] {
//!     session.set_input(0, &image)?;
//!     session.run()?;
//!     println!("{:?}", session.output(0)?);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod context;
mod convert;
mod dump;
mod error;
mod flight;
pub(crate) mod plan;
mod refusals;
mod tensor;

use std::{
    collections::HashMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use nvdla_uapi::desc::{upgrade_surfaces, OpType};

use crate::{
    device::{AddressEntry, Buffers, Completion, Device, DeviceInfo, Handle, Measured},
    emulator,
    loadable::{schema, Interface, Loadable, Memory, MemoryFlags},
    network::{self, races},
};

pub use context::{Context, Network, Pending, SubmitOptions};
pub use dump::dump_to;
pub use error::Error;
use flight::{Limits, Stage};
use plan::{Lists, TaskPlan};
pub use refusals::{refusals, Refusal};
pub use tensor::{Direction, TensorError, TensorInfo};

/// An operation that has completed, for [`RunOptions::on_operation`].
#[derive(Clone, Copy, Debug)]
pub struct Completed<'a> {
    /// The task's id.
    pub task: u16,
    /// Position in the task's operation list.
    pub operation: usize,
    /// The region of interest that it worked on; 0 in nearly every task.
    pub roi: usize,
    /// The unit that executed it.
    pub unit: OpType,
    /// The bytes of its destination, from the surface's address on; none when it writes to no memory.
    pub surface: Option<&'a [u8]>,
    /// What it took, where the device counts cycles.
    pub measured: Option<Measured>,
}

/// Looks at each operation that has completed.
pub type OnOperation<'a> = &'a mut dyn FnMut(Completed<'_>) -> io::Result<()>;

/// How to run.
#[derive(Default)]
pub struct RunOptions<'a> {
    /// The time that each task has, on its device or emulated; none for the device's own limit.
    pub timeout: Option<Duration>,
    /// The time that all tasks have together, however often the loadable submits them; none for
    /// [`Device::time_limit`], or for `timeout` where that is longer, looked at before each task.
    pub run_timeout: Option<Duration>,
    /// Called when an operation of a task for NVDLA has completed. An error that it gives ends the run after the task.
    pub on_operation: Option<OnOperation<'a>>,
}

impl std::fmt::Debug for RunOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("timeout", &self.timeout)
            .field("run_timeout", &self.run_timeout)
            .finish_non_exhaustive()
    }
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each task in the order in which it ran.
    pub tasks: Vec<TaskRun>,
}

impl Report {
    /// The time of all tasks.
    pub fn duration(&self) -> Duration {
        self.tasks.iter().map(|task| task.duration).sum()
    }
}

/// A task that has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRun {
    /// Its id.
    pub id: u16,
    /// Who executed it.
    pub interface: Interface,
    /// From its submission to its end.
    pub duration: Duration,
    /// Its operations.
    pub operations: usize,
}

/// A memory of the loadable on the device.
#[derive(Clone, Copy, Debug)]
struct Allocated {
    /// The buffer; none where the loadable does not ask for one.
    handle: Option<Handle>,
    /// The buffer's bytes as the session asked for them.
    size: u64,
    /// The buffer holds constants that other sessions read, too.
    shared: bool,
    /// An application's buffer that replaces it. Address entries then reach to the end of that buffer.
    bound: Option<(Handle, u64)>,
}

impl Allocated {
    fn handle(&self) -> Option<Handle> {
        self.bound.map(|(handle, _)| handle).or(self.handle)
    }
}

/// A bound tensor, with the application's changes.
#[derive(Clone, Debug)]
struct Bound {
    info: TensorInfo,
    /// Position of its memory.
    memory: usize,
    /// The application gave other strides than the loadable has.
    restrided: bool,
}

/// A loadable on a device.
#[derive(Debug)]
pub struct Session<D: Device = Box<dyn Device>> {
    loadable: Arc<Loadable>,
    device: D,
    memories: Vec<Allocated>,
    inputs: Vec<Bound>,
    outputs: Vec<Bound>,
    /// Tasks that are submitted, each once.
    tasks: Vec<TaskPlan>,
    /// Positions in `tasks`, in the order of submission.
    order: Vec<usize>,
    /// Buffers of the application.
    extra: Vec<Handle>,
    /// The dependency graphs of tasks with added edges, by task id.
    ordered: HashMap<u16, Vec<u8>>,
    /// What makes results differ from run to run was looked for.
    looked: bool,
}

impl<D: Device> Session<D> {
    /// Allocates and fills a loadable's memories on a device.
    ///
    /// # Errors
    ///
    /// When the device lacks memory, or the loadable's tasks cannot be run by this runtime.
    pub fn new(loadable: impl Into<Arc<Loadable>>, device: D) -> Result<Self, Error> {
        Self::with_constants(loadable.into(), device, &[])
    }

    /// The same, where some memories are there already, filled, and are only read.
    fn with_constants(loadable: Arc<Loadable>, device: D, constants: &[Option<Handle>]) -> Result<Self, Error> {
        for (what, empty) in [
            ("task", loadable.tasks().is_empty()),
            ("submission", loadable.submits().is_empty()),
            ("memory", loadable.memories().is_empty()),
        ] {
            if empty {
                return Err(Error::Nothing { what });
            }
        }
        let names = loadable.names().unwrap_or_default();
        let bound = |direction, memories: Vec<Memory<'_>>| -> Vec<Bound> {
            let bound = |(index, memory): (usize, &Memory<'_>)| {
                let tensor = loadable.tensor(memory.tensor_desc_id())?;
                let memory = loadable.memory_position(memory.id())?;
                Some(Bound { info: TensorInfo::new(direction, index, tensor, &names), memory, restrided: false })
            };
            memories.iter().enumerate().filter_map(bound).collect()
        };
        let inputs = bound(Direction::Input, loadable.inputs().collect());
        let outputs = bound(Direction::Output, loadable.outputs().collect());
        let mut session = Self {
            loadable,
            device,
            memories: Vec::new(),
            inputs,
            outputs,
            tasks: Vec::new(),
            order: Vec::new(),
            extra: Vec::new(),
            ordered: HashMap::new(),
            looked: false,
        };
        session.allocate_memories(constants)?;
        session.fill(|_| true);
        session.plan()?;
        session.prepare_descriptors()?;
        Ok(session)
    }

    /// Lets operations that race run in the order of their list, from the next run on: see [`races::order`]. Gives the
    /// edges that their dependency graphs lacked.
    ///
    /// The graphs of this session's own copy of the tasks are changed, so that it works on every device.
    ///
    /// # Errors
    ///
    /// If a dependency graph cannot hold an edge that is missing.
    pub fn order(&mut self) -> Result<Vec<races::Edge>, Error> {
        let races::Ordered { graphs, edges } = races::order(&self.loadable)?;
        self.ordered = graphs;
        self.prepare_descriptors()?;
        Ok(edges)
    }

    /// The loadable.
    pub fn loadable(&self) -> &Loadable {
        &self.loadable
    }

    /// What runs it.
    pub fn device(&self) -> DeviceInfo {
        self.device.info()
    }

    /// The inputs, by bind id.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.inputs.iter().map(|bound| &bound.info)
    }

    /// The outputs, by bind id.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.outputs.iter().map(|bound| &bound.info)
    }

    /// How many operations of tasks for NVDLA a run has.
    pub fn operations(&self) -> usize {
        self.order.iter().filter_map(|&at| self.tasks.get(at)).map(|task| task.operations).sum()
    }

    /// The number of the input or output of that name. A decimal number names itself.
    ///
    /// # Errors
    ///
    /// If there is none; the error lists the tensors that exist.
    pub fn find(&self, direction: Direction, which: &str) -> Result<usize, Error> {
        let tensors = self.bound(direction);
        let by_name = tensors.iter().position(|bound| bound.info.name == which);
        let by_number = || which.parse().ok().filter(|&index: &usize| index < tensors.len());
        by_name.or_else(by_number).ok_or_else(|| self.no_tensor(direction, which))
    }

    /// The tensor and the value that `NAME=VALUE` gives; the first tensor where it is a value alone.
    ///
    /// A name may contain equals signs: the longest name with which `argument` begins is used. If there is none, the
    /// part before the first equals sign is looked up as in [`Self::find`]: a number, or an error.
    ///
    /// # Errors
    ///
    /// As [`Self::find`].
    pub fn find_named<'a>(&self, direction: Direction, argument: &'a str) -> Result<(usize, &'a str), Error> {
        let value = |name: &str| argument.strip_prefix(name)?.strip_prefix('=');
        let named = self.bound(direction).iter().enumerate();
        let named = named.filter_map(|(index, bound)| Some((index, bound.info.name.len(), value(&bound.info.name)?)));
        if let Some((index, _, value)) = named.max_by_key(|&(index, length, _)| (length, std::cmp::Reverse(index))) {
            return Ok((index, value));
        }
        match argument.split_once('=') {
            Some((which, value)) => Ok((self.find(direction, which)?, value)),
            None => Ok((self.find(direction, "0")?, argument)),
        }
    }

    /// Writes an input's bytes, as they lie in memory.
    ///
    /// # Errors
    ///
    /// When there is no such input, or it has another size.
    pub fn set_input(&mut self, index: usize, bytes: &[u8]) -> Result<(), Error> {
        let into = self.input_mut(index)?;
        if into.len() != bytes.len() {
            let source = TensorError::Size { needed: into.len() as u64, given: bytes.len() as u64 };
            return Err(self.tensor_error(Direction::Input, index, source));
        }
        into.copy_from_slice(bytes);
        Ok(())
    }

    /// An input's bytes, to be written in place.
    ///
    /// # Errors
    ///
    /// When there is no such input.
    pub fn input_mut(&mut self, index: usize) -> Result<&mut [u8], Error> {
        let (handle, range) = self.place(Direction::Input, index)?;
        Ok(self.device.bytes_mut(handle).get_mut(range).unwrap_or_default())
    }

    /// Writes an input from numbers in NCHW order. Each number is `scale` times its element.
    ///
    /// # Errors
    ///
    /// When there is no such input, it has another number of elements, or a format without plain numbers.
    pub fn set_input_nchw(&mut self, index: usize, values: &[f32], scale: f32) -> Result<(), Error> {
        let Some(info) = self.inputs.get(index).map(|bound| bound.info.clone()) else {
            return Err(self.no_tensor(Direction::Input, &index.to_string()));
        };
        let result = convert::encode(&info, values, scale, self.input_mut(index)?);
        result.map_err(|source| self.tensor_error(Direction::Input, index, source))
    }

    /// An output as numbers in NCHW order: each element times `scale`.
    ///
    /// # Errors
    ///
    /// When there is no such output, or it has a format without plain numbers.
    pub fn output_nchw(&self, index: usize, scale: f32) -> Result<Vec<f32>, Error> {
        let bytes = self.output(index)?;
        let Some(bound) = self.outputs.get(index) else {
            return Err(self.no_tensor(Direction::Output, &index.to_string()));
        };
        let values = convert::decode(&bound.info, scale, bytes);
        values.map_err(|source| self.tensor_error(Direction::Output, index, source))
    }

    /// Writes an input from numbers in NCHW order, with the scale and zero point that the compiler has stored in the
    /// loadable. Without them each number is its element.
    ///
    /// # Errors
    ///
    /// As [`Self::set_input_nchw`].
    pub fn set_input_f32(&mut self, index: usize, values: &[f32]) -> Result<(), Error> {
        let Some(info) = self.inputs.get(index).map(|bound| bound.info.clone()) else {
            return Err(self.no_tensor(Direction::Input, &index.to_string()));
        };
        let result = convert::quantise(&info, values, self.input_mut(index)?);
        result.map_err(|source| self.tensor_error(Direction::Input, index, source))
    }

    /// An output as numbers in NCHW order, with the scale and zero point that the compiler has stored in the loadable.
    /// Without them each number is its element.
    ///
    /// # Errors
    ///
    /// As [`Self::output_nchw`].
    pub fn output_f32(&self, index: usize) -> Result<Vec<f32>, Error> {
        let bytes = self.output(index)?;
        let Some(bound) = self.outputs.get(index) else {
            return Err(self.no_tensor(Direction::Output, &index.to_string()));
        };
        let values = convert::dequantise(&bound.info, bytes);
        values.map_err(|source| self.tensor_error(Direction::Output, index, source))
    }

    /// An output's bytes, as they lie in memory.
    ///
    /// # Errors
    ///
    /// When there is no such output.
    pub fn output(&self, index: usize) -> Result<&[u8], Error> {
        let (handle, range) = self.place(Direction::Output, index)?;
        Ok(self.device.bytes(handle).get(range).unwrap_or_default())
    }

    /// Makes a buffer on the device, for [`Self::bind`]. It lives as long as the session.
    ///
    /// # Errors
    ///
    /// When the device lacks memory.
    pub fn allocate(&mut self, size: u64) -> Result<Handle, crate::device::Error> {
        let handle = self.device.allocate(size)?;
        self.extra.push(handle);
        Ok(handle)
    }

    /// The bytes of a buffer that [`Self::allocate`] made.
    pub fn buffer_mut(&mut self, handle: Handle) -> &mut [u8] {
        if self.extra.contains(&handle) {
            self.device.bytes_mut(handle)
        } else {
            &mut []
        }
    }

    /// From the next run on, uses a buffer from [`Self::allocate`] as the memory of an input or output.
    ///
    /// # Errors
    ///
    /// When there is no such tensor or buffer, or the buffer is too small.
    pub fn bind(&mut self, direction: Direction, index: usize, handle: Handle) -> Result<(), Error> {
        let Some(bound) = self.bound(direction).get(index) else {
            return Err(self.no_tensor(direction, &index.to_string()));
        };
        let (memory, restrided) = (bound.memory, bound.restrided);
        let end = bound.info.offset.saturating_add(bound.info.size);
        let given = if self.extra.contains(&handle) { self.device.bytes(handle).len() as u64 } else { 0 };
        let own = self.memories.get(memory).map_or(0, |memory| memory.size);
        // Strides other than the loadable's may need more, or less, than its own memory.
        let needed = if restrided { end } else { own };
        if given < needed {
            return Err(self.tensor_error(direction, index, TensorError::Buffer { needed, given }));
        }
        if let Some(memory) = self.memories.get_mut(memory) {
            memory.bound = Some((handle, given));
        }
        Ok(())
    }

    /// Gives a bound tensor other strides, and every descriptor that names them with it (relocations).
    ///
    /// Its size changes accordingly; where that is more than its memory has, bind a larger buffer before.
    ///
    /// # Errors
    ///
    /// When there is no such tensor, lines or surfaces would overlap, or the tensor would leave its memory.
    pub fn set_strides(&mut self, direction: Direction, index: usize, line: u32, surface: u32) -> Result<(), Error> {
        let Some(bound) = self.bound(direction).get(index) else {
            return Err(self.no_tensor(direction, &index.to_string()));
        };
        let memory = bound.memory;
        let room = self.memories.get(memory).map_or(0, |memory| memory.bound.map_or(memory.size, |(_, size)| size));
        let info = match bound.info.with_strides(line, surface, room) {
            Ok(info) => info,
            Err(source) => return Err(self.tensor_error(direction, index, source)),
        };
        // Refuse before anything changes.
        self.check_relocations(memory)?;
        let bound = match direction {
            Direction::Input => self.inputs.get_mut(index),
            Direction::Output => self.outputs.get_mut(index),
        };
        if let Some(bound) = bound {
            bound.restrided = true;
            bound.info = info;
        }
        let loadable = Arc::clone(&self.loadable);
        let targets: Vec<_> =
            loadable.relocations().iter().filter_map(|r| loadable.memory_position(r.write_id())).collect();
        for &memory in &targets {
            self.own(memory)?;
        }
        self.fill(|memory| targets.contains(&memory));
        self.prepare_descriptors()
    }

    /// Runs the tasks in order.
    ///
    /// # Errors
    ///
    /// When a task is refused, fails, or does not end in time. The session can run again afterwards.
    pub fn run(&mut self) -> Result<Report, Error> {
        self.run_with(RunOptions::default())
    }

    /// Runs the tasks in order, with options.
    ///
    /// # Errors
    ///
    /// As [`Self::run`]; and when operations are to be observed on a device that cannot.
    pub fn run_with(&mut self, mut options: RunOptions<'_>) -> Result<Report, Error> {
        if options.on_operation.is_some() && !self.device.can_observe() {
            return Err(Error::CannotObserve { device: self.device.info().to_string() });
        }
        if !std::mem::replace(&mut self.looked, true) {
            self.warn();
        }
        let (timeout, run_timeout) = (options.timeout, options.run_timeout);
        let limits = Limits::new(timeout, run_timeout, self.device.time_limit(), self.order.len());
        let mut report = Report::default();
        let order = std::mem::take(&mut self.order);
        let result = order.iter().enumerate().try_for_each(|(done, &at)| {
            let timeout = limits.of_task(done)?;
            let started = Instant::now();
            let run = self.run_task(at, timeout, &mut options).map_err(|error| limits.explain(done, error))?;
            report.tasks.push(TaskRun { duration: started.elapsed(), ..run });
            Ok(())
        });
        self.order = order;
        result.map(|()| report)
    }

    /// The tasks of a run, ready to be submitted.
    fn stages(&mut self) -> Result<Vec<Stage>, Error> {
        if !std::mem::replace(&mut self.looked, true) {
            self.warn();
        }
        let once: std::collections::HashSet<_> = self.order.iter().collect();
        let changes = |task: &&TaskPlan| task.refill.is_some() || !self.device.keeps_graphs() && task.graph.is_some();
        if let Some(task) = self.tasks.iter().find(changes).filter(|_| once.len() < self.order.len()) {
            return Err(Error::Repeated { task: task.id });
        }
        for at in 0..self.tasks.len() {
            self.renew(at)?;
        }
        let stage = |&at: &usize| {
            let task = self.tasks.get(at)?;
            let addresses = self.addresses(task);
            Some(Stage { id: task.id, interface: task.interface, operations: task.operations, addresses })
        };
        Ok(self.order.iter().filter_map(stage).collect())
    }

    /// Warns of reasons why results differ from run to run, or from device to device.
    fn warn(&self) {
        if let (true, Ok(races::Races { pairs, .. })) = (self.ordered.is_empty(), races::races(&self.loadable)) {
            if let Some(first) = pairs.first() {
                log::warn!(
                    "the loadable races, so that its results depend on how long operations take: {} pairs of operations \
                     touch the same bytes in no fixed order, the first: {first}; they run in the list's order if asked to \
                     (--order)",
                    pairs.len()
                );
            }
        }
        for found in network::statistics(&self.loadable).unwrap_or_default() {
            log::warn!("{found}: these bytes differ from run to run");
        }
    }

    fn run_task(
        &mut self,
        at: usize,
        timeout: Option<Duration>,
        options: &mut RunOptions<'_>,
    ) -> Result<TaskRun, Error> {
        let Some(&TaskPlan { id, interface, operations, .. }) = self.tasks.get(at) else {
            return Err(Error::Nothing { what: "such task" });
        };
        let operations = if interface == Interface::Emu1 {
            self.run_emulated(at, timeout.or(self.device.time_limit()))?
        } else {
            self.run_on_device(at, timeout, options)?;
            operations
        };
        Ok(TaskRun { id, interface, duration: Duration::ZERO, operations })
    }

    fn release(&mut self) {
        for handle in self.memories.drain(..).filter_map(|memory| memory.handle).chain(self.extra.drain(..)) {
            self.device.free(handle);
        }
    }

    fn bound(&self, direction: Direction) -> &[Bound] {
        match direction {
            Direction::Input => &self.inputs,
            Direction::Output => &self.outputs,
        }
    }

    fn no_tensor(&self, direction: Direction, which: &str) -> Error {
        let names: Vec<_> = self.bound(direction).iter().map(|bound| format!("{:?}", bound.info.name)).collect();
        let known = if names.is_empty() { "none".into() } else { names.join(", ") };
        Error::NoTensor { direction, which: which.into(), known }
    }

    fn tensor_error(&self, direction: Direction, index: usize, source: TensorError) -> Error {
        let name = self.bound(direction).get(index).map(|bound| bound.info.name.clone()).unwrap_or_default();
        Error::Tensor { direction, index, name, source }
    }

    /// The buffer of a bound tensor, and where in it the tensor lies.
    fn place(&self, direction: Direction, index: usize) -> Result<(Handle, std::ops::Range<usize>), Error> {
        let found = self.bound(direction).get(index).and_then(|bound| {
            let handle = self.memories.get(bound.memory)?.handle()?;
            let start = usize::try_from(bound.info.offset).ok()?;
            let end = start.checked_add(usize::try_from(bound.info.size).ok()?)?;
            Some((handle, start..end))
        });
        found.ok_or_else(|| self.no_tensor(direction, &index.to_string()))
    }

    /// Allocates in list order.
    fn allocate_memories(&mut self, constants: &[Option<Handle>]) -> Result<(), Error> {
        let loadable = Arc::clone(&self.loadable);
        for (at, memory) in loadable.memories().iter().enumerate() {
            let size = memory.size();
            if let Some(&Some(handle)) = constants.get(at) {
                self.memories.push(Allocated { handle: Some(handle), size, shared: true, bound: None });
                continue;
            }
            let handle = if memory.flags().has(MemoryFlags::ALLOC) {
                let failed = |source| Error::Allocate { memory: memory.id(), size, source };
                Some(self.device.allocate(size).map_err(failed)?)
            } else {
                None
            };
            self.memories.push(Allocated { handle, size, shared: false, bound: None });
        }
        Ok(())
    }

    /// Replaces a memory that others also read by a copy for this session.
    fn own(&mut self, at: usize) -> Result<(), Error> {
        let Some(&Allocated { handle: Some(old), size, shared: true, .. }) = self.memories.get(at) else {
            return Ok(());
        };
        let memory = self.loadable.memories().get(at).map_or(0, Memory::id);
        let new = self.device.allocate(size).map_err(|source| Error::Allocate { memory, size, source })?;
        let bytes = self.device.bytes(old).to_vec();
        if let Some(into) = self.device.bytes_mut(new).get_mut(..bytes.len()) {
            into.copy_from_slice(&bytes);
        }
        self.device.free(old);
        if let Some(memory) = self.memories.get_mut(at) {
            (memory.handle, memory.shared) = (Some(new), false);
        }
        Ok(())
    }

    /// Sets the contents of the memories at the positions that `which` accepts.
    fn fill(&mut self, which: impl Fn(usize) -> bool) {
        let loadable = Arc::clone(&self.loadable);
        for (at, memory) in loadable.memories().iter().enumerate().filter(|&(at, _)| which(at)) {
            let own = self.memories.get(at).filter(|memory| !memory.shared);
            let Some(handle) = own.and_then(|memory| memory.handle) else { continue };
            fill(&loadable, memory, self.device.bytes_mut(handle));
        }
    }

    /// Works out each task's address list and checks its version.
    fn plan(&mut self) -> Result<(), Error> {
        let loadable = Arc::clone(&self.loadable);
        let mut places = HashMap::new();
        for task in loadable.distinct_tasks() {
            let id = task.id();
            places.insert(id, self.tasks.len());
            let slots = plan::slots(&loadable, task);
            for (position, slot) in slots.iter().enumerate() {
                let allocated = self.memories.get(slot.memory).is_some_and(|memory| memory.handle.is_some());
                if !allocated {
                    let memory = loadable.memories().get(slot.memory).map_or(0, Memory::id);
                    return Err(Error::NotAllocated { task: id, position, memory });
                }
            }
            let version = plan::version(&loadable, &slots).unwrap_or_default();
            let supported = match task.interface() {
                Interface::Dla1 => plan::interface_version(&loadable, &slots).is_supported(),
                // Only version 0.0.1 exists, in two forms that the emulator distinguishes.
                _ => (version.major(), version.minor()) == (0, 0),
            };
            if !supported {
                return Err(Error::Version { task: id, interface: task.interface(), version });
            }
            let interface = task.interface();
            self.tasks.push(TaskPlan { id, interface, slots, operations: 0, graph: None, refill: None, ran: false });
        }
        self.order = loadable.tasks_in_order().filter_map(|task| places.get(&task.id()).copied()).collect();
        Ok(())
    }

    /// After the memories are filled: changed strides, and the present form of older descriptors.
    fn prepare_descriptors(&mut self) -> Result<(), Error> {
        self.relocate();
        let loadable = Arc::clone(&self.loadable);
        // A list that two tasks share is upgraded once.
        let mut upgraded: Vec<plan::Slot> = Vec::new();
        for at in 0..self.tasks.len() {
            let Some(task) = self.tasks.get(at).filter(|task| task.interface == Interface::Dla1) else { continue };
            let id = task.id;
            let bytes = |position: usize| self.slot_bytes(&self.device, at, position);
            let lists = Lists::new(id, &bytes)?;
            let graph = lists.graph(&bytes)?;
            let units = plan::units(id, graph)?;
            let mut surfaces = lists.surfaces(&bytes)?.to_vec();
            let slot = usize::try_from(lists.surfaces).ok().and_then(|position| task.slots.get(position)).copied();
            let version = plan::interface_version(&loadable, &task.slots);
            let upgrade = version.needs_upgrade() && slot.is_some_and(|slot| !upgraded.contains(&slot));
            if upgrade {
                upgrade_surfaces(units.iter().copied(), &mut surfaces).map_err(|problem| Error::Descriptor {
                    task: id,
                    list: "surface list",
                    entry: 0,
                    problem,
                })?;
                upgraded.extend(slot);
            }
            // What statistics were written over is there again for the next run.
            let statistics = usize::try_from(lists.statistics).ok().and_then(|at| task.slots.get(at));
            let filled = |memory: &usize| {
                loadable.memories().get(*memory).is_some_and(|memory| memory.flags().has(MemoryFlags::SET))
            };
            let statistics = statistics.map(|slot| slot.memory).filter(filled);
            let graph = self.ordered.get(&id).map_or(graph, Vec::as_slice);
            let graph = usize::try_from(lists.graph).ok().map(|position| (position, graph.to_vec()));
            if upgrade {
                self.write_slot(at, lists.surfaces, &surfaces)?;
            }
            if let Some(task) = self.tasks.get_mut(at) {
                task.operations = units.len();
                task.refill = statistics;
                task.graph = graph;
            }
        }
        Ok(())
    }

    /// That every relocation of the tensor in this memory can be written.
    fn check_relocations(&self, tensor_memory: usize) -> Result<(), Error> {
        for (position, relocation) in self.loadable.relocations().iter().enumerate() {
            if self.relocated_memory(relocation) != Some(tensor_memory) {
                continue;
            }
            let target = self.loadable.memory(relocation.write_id());
            if !target.is_some_and(|memory| memory.flags().has(MemoryFlags::SET)) {
                return Err(Error::Relocation { relocation: position, memory: relocation.write_id() });
            }
        }
        Ok(())
    }

    /// The memory of the tensor whose stride a relocation writes.
    fn relocated_memory(&self, relocation: schema::Relocation<'_>) -> Option<usize> {
        let address = self.loadable.address(relocation.address_id())?;
        self.loadable.memory_position(address.mem_id())
    }

    /// Writes the strides that the application has changed.
    fn relocate(&mut self) {
        let changed: HashMap<usize, [u32; 2]> = self
            .inputs
            .iter()
            .chain(&self.outputs)
            .filter(|bound| bound.restrided)
            .map(|bound| (bound.memory, [bound.info.line_stride(), bound.info.surface_stride()]))
            .collect();
        if changed.is_empty() {
            return;
        }
        let loadable = Arc::clone(&self.loadable);
        for relocation in loadable.relocations().iter() {
            let strides = self.relocated_memory(relocation).and_then(|memory| changed.get(&memory));
            let Some(&[line, surface]) = strides else { continue };
            let stride = if relocation.reloc_type() == 1 { line } else { surface };
            let target = loadable.memory_position(relocation.write_id()).and_then(|at| self.memories.get(at)?.handle);
            let place = target.and_then(|handle| {
                let offset = usize::try_from(relocation.offset()).ok()?;
                self.device.bytes_mut(handle).get_mut(offset..)?.get_mut(..4)
            });
            if let Some(place) = place {
                place.copy_from_slice(&stride.to_le_bytes());
            }
        }
    }

    /// A task's address list as the device takes it.
    fn addresses(&self, task: &TaskPlan) -> Vec<AddressEntry> {
        let entry = |slot: &plan::Slot| {
            let memory = self.memories.get(slot.memory)?;
            let size = memory.bound.map_or(slot.size, |(_, size)| size.saturating_sub(slot.offset));
            Some(AddressEntry { handle: memory.handle()?, offset: slot.offset, size })
        };
        task.slots.iter().filter_map(entry).collect()
    }

    /// The bytes of an entry of a task's address list.
    fn slot_bytes<'b>(&self, buffers: &'b dyn Buffers, task: usize, position: usize) -> Option<&'b [u8]> {
        let slot = self.tasks.get(task)?.slots.get(position)?;
        let handle = self.memories.get(slot.memory)?.handle()?;
        range(buffers.bytes(handle), slot.offset, slot.size)
    }

    fn write_slot(&mut self, task: usize, position: i16, bytes: &[u8]) -> Result<(), Error> {
        let slot = usize::try_from(position).ok().and_then(|position| self.tasks.get(task)?.slots.get(position));
        let Some(&plan::Slot { memory, offset, .. }) = slot else { return Ok(()) };
        self.own(memory)?;
        let Some(handle) = self.memories.get(memory).and_then(Allocated::handle) else { return Ok(()) };
        let into =
            self.device.bytes_mut(handle).get_mut(offset as usize..).and_then(|into| into.get_mut(..bytes.len()));
        if let Some(into) = into {
            into.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Restores the memory that a run of a task has changed.
    fn renew(&mut self, at: usize) -> Result<(), Error> {
        if let Some(TaskPlan { ran, refill: Some(memory), .. }) = self.tasks.get_mut(at) {
            let memory = *memory;
            if std::mem::replace(ran, true) {
                self.fill(|at| at == memory);
                self.prepare_descriptors()?;
            }
        }
        self.restore_graph(at)
    }

    fn run_on_device(
        &mut self,
        at: usize,
        timeout: Option<Duration>,
        options: &mut RunOptions<'_>,
    ) -> Result<(), Error> {
        self.renew(at)?;
        let Some(task) = self.tasks.get(at) else { return Ok(()) };
        let id = task.id;
        let addresses = self.addresses(task);
        let mut unsaved = None;
        let result = match &mut options.on_operation {
            None => self.device.submit(&addresses, timeout, None),
            Some(on_operation) => {
                let mut observer = |completion: Completion, buffers: &dyn Buffers| {
                    let Completion { operation, roi, unit, output, measured } = completion;
                    let surface = output.and_then(|(position, offset, size)| {
                        let address = addresses.get(position)?;
                        range(buffers.bytes(address.handle), address.offset.checked_add(offset)?, size)
                    });
                    let completed = Completed { task: id, operation, roi, unit, surface, measured };
                    if let Err(error) = on_operation(completed) {
                        unsaved.get_or_insert((operation, error));
                    }
                };
                self.device.submit(&addresses, timeout, Some(&mut observer))
            }
        };
        result.map_err(|source| Error::Task { task: id, source })?;
        match unsaved {
            Some((operation, source)) => Err(Error::Save { task: id, operation, source }),
            None => Ok(()),
        }
    }

    /// Puts the dependency graph back where a run has changed it.
    fn restore_graph(&mut self, at: usize) -> Result<(), Error> {
        let Some((position, graph)) = self.tasks.get(at).and_then(|task| task.graph.clone()) else { return Ok(()) };
        let now = self.slot_bytes(&self.device, at, position).and_then(|bytes| bytes.get(..graph.len()));
        if now == Some(&graph[..]) {
            return Ok(());
        }
        self.write_slot(at, position as i16, &graph)
    }

    fn run_emulated(&mut self, at: usize, timeout: Option<Duration>) -> Result<usize, Error> {
        let Some(task) = self.tasks.get(at) else { return Ok(0) };
        let id = task.id;
        let addresses = self.addresses(task);
        let mut memory = EmulatedMemory { device: &mut self.device, addresses };
        let operations =
            emulator::run_within(&mut memory, timeout).map_err(|source| Error::Emulated { task: id, source })?;
        Ok(operations.into())
    }
}

impl<D: Device> Drop for Session<D> {
    fn drop(&mut self) {
        self.release();
    }
}

/// Puts a loadable's blobs into one of its memories.
fn fill(loadable: &Loadable, memory: Memory<'_>, bytes: &mut [u8]) {
    for (blob, offset) in loadable.contents(memory) {
        // Opening the loadable has checked that the blob fits.
        let into =
            usize::try_from(offset).ok().and_then(|offset| bytes.get_mut(offset..)?.get_mut(..blob.data().len()));
        if let Some(into) = into {
            into.copy_from_slice(blob.data());
        }
    }
}

/// Part of a slice, with numbers of the descriptors' width.
fn range(bytes: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(offset).ok()?..)?.get(..usize::try_from(size).ok()?)
}

/// An emulated task's view of its buffers.
struct EmulatedMemory<'a, D> {
    device: &'a mut D,
    addresses: Vec<AddressEntry>,
}

impl<D: Device> EmulatedMemory<'_, D> {
    /// Where the bytes at `offset` of an entry are, when they are inside it.
    fn place(&self, index: usize, offset: u64, length: usize) -> Option<(Handle, u64)> {
        let address = self.addresses.get(index)?;
        let inside = offset.checked_add(length as u64)? <= address.size;
        inside.then_some((address.handle, address.offset.checked_add(offset)?))
    }
}

impl<D: Device> emulator::Memory for EmulatedMemory<'_, D> {
    fn size(&self, index: usize) -> Option<u64> {
        self.addresses.get(index).map(|address| address.size)
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> bool {
        let from = self
            .place(index, offset, into.len())
            .and_then(|(handle, at)| range(self.device.bytes(handle), at, into.len() as u64));
        from.map(|from| into.copy_from_slice(from)).is_some()
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> bool {
        let Some((handle, at)) = self.place(index, offset, from.len()) else { return false };
        let into =
            usize::try_from(at).ok().and_then(|at| self.device.bytes_mut(handle).get_mut(at..)?.get_mut(..from.len()));
        into.map(|into| into.copy_from_slice(from)).is_some()
    }
}
