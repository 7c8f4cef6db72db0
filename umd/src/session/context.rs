// SPDX-License-Identifier: MIT OR Apache-2.0

//! Networks and contexts: one copy of a network's constants on a device, and any number of runs at the same time.
//!
//! A [`Network`] is a loadable on a shared device. It holds one copy of the memory that its tasks only read, such as weights. A
//! [`Context`] has the other memory: inputs, outputs, and intermediate surfaces. Contexts of one network, and of several networks
//! on one device, can run in any thread. Each context runs one input at a time.
//!
//! ```
//! use nvdla_runtime::device::{ModelDevice, Shared};
//! use nvdla_runtime::{loadable::Loadable, Network};
//! use nvdla_uapi::config::NV_SMALL;
//!
//! let device = Shared::new(ModelDevice::new(&NV_SMALL));
//! let network = Network::new(Loadable::open("../examples/lenet/lenet.nv_small.nvdla")?, &device)?;
//! let mut contexts = [network.context()?, network.context()?];
//! let mut pending = Vec::new();
//! for context in &mut contexts {
//!     context.input_mut(0)?.fill(1);
//!     pending.push(context.submit()?);
//! }
//! for run in &mut pending {
//!     run.wait(None)?;
//! }
//! assert_eq!(contexts[0].output(0)?, contexts[1].output(0)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::Error;
use super::flight::{InFlight, Limits};
use super::memory::fill;
use super::options::{Report, RunOptions};
use super::state::Session;
use super::tensor::{Direction, TensorInfo};
use crate::cancel::Cancel;
use crate::device::{Client, Device as _, DeviceInfo, Handle, Shared};
use crate::half::f16;
use crate::loadable::{Loadable, Memory};
use crate::operations::constants;

/// A loadable on a shared device. Clones are the same network.
#[derive(Clone)]
pub struct Network(Arc<Inner>);

struct Inner {
    loadable: Arc<Loadable>,
    /// The client that holds the constants.
    client: Client,
    /// The memories, by position in the loadable, that hold constants.
    constants: Vec<Option<Handle>>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("device", self.0.client.shared()).finish_non_exhaustive()
    }
}

impl Network {
    /// An error in a process that was forked from the one that has the device.
    fn check_process(&self) -> Result<(), Error> {
        self.device().check_process().map_err(Error::Forked)
    }

    /// Copies the constants of a loadable to a device.
    ///
    /// # Errors
    ///
    /// When the device lacks memory, or cannot be shared.
    pub fn new(loadable: impl Into<Arc<Loadable>>, device: &Shared) -> Result<Self, Error> {
        let loadable = loadable.into();
        let mut client = device.client();
        let constant = constants(&loadable, client.keeps_graphs());
        let mut constants = Vec::with_capacity(constant.len());
        for (memory, constant) in loadable.memories().iter().zip(constant) {
            constants.push(if constant {
                let (id, size) = (memory.id(), memory.size());
                let handle = client.allocate(size);
                let handle = handle.map_err(|source| Error::Allocate { memory: id, size, source })?;
                fill(&loadable, memory, client.bytes_mut(handle));
                client.seal(handle);
                Some(handle)
            } else {
                None
            });
        }
        Ok(Self(Arc::new(Inner { loadable, client, constants })))
    }

    /// Makes a context: its inputs and outputs are zero.
    ///
    /// # Errors
    ///
    /// When the device lacks memory, or the loadable's tasks cannot be run by this runtime.
    pub fn context(&self) -> Result<Context, Error> {
        let Inner { loadable, client, constants } = &*self.0;
        let mut own = client.shared().client();
        own.read_constants(client);
        let session = Session::with_constants(Arc::clone(loadable), own, constants)?;
        Ok(Context { session, flying: None, handed: AtomicBool::new(false), network: self.clone() })
    }

    /// The loadable.
    pub fn loadable(&self) -> &Arc<Loadable> {
        &self.0.loadable
    }

    /// The device.
    pub fn device(&self) -> &Shared {
        self.0.client.shared()
    }

    /// Bytes of the constants, which all contexts share.
    pub fn shared_bytes(&self) -> u64 {
        let memories = self.0.loadable.memories();
        let size = |(at, handle): (usize, &Option<Handle>)| handle.and(memories.get(at)).map_or(0, Memory::size);
        self.0.constants.iter().enumerate().map(size).sum()
    }
}

/// Options of a submitted run.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubmitOptions {
    /// The time limit of each task; none for the device's own limit.
    pub timeout: Option<Duration>,
    /// The time limit of all tasks together; none for the device's own limit, or for `timeout` if that is longer.
    pub run_timeout: Option<Duration>,
}

/// The inputs and outputs of a network, which runs them one after another.
///
/// While a submitted run is in flight, the context's memory belongs to the device: every call that would access it
/// returns [`Error::Busy`], even if the [`Pending`] was dropped. [`Context::wait`] waits for the run.
pub struct Context {
    session: Session<Client>,
    flying: Option<Arc<InFlight>>,
    /// Whether shared buffers were passed to the device and not accessed since.
    handed: AtomicBool,
    network: Network,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let busy = self.is_busy();
        f.debug_struct("Context").field("network", &self.network).field("busy", &busy).finish_non_exhaustive()
    }
}

impl Context {
    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The device that runs it.
    pub fn device(&self) -> &DeviceInfo {
        self.network.device().info()
    }

    /// The inputs, by bind id.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.session.inputs()
    }

    /// The outputs, by bind id.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.session.outputs()
    }

    /// The number of the input or output of that name: see [`Session::find`].
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn find(&self, direction: Direction, which: &str) -> Result<usize, Error> {
        self.session.find(direction, which)
    }

    /// Whether a submitted run has not ended.
    pub fn is_busy(&self) -> bool {
        self.flying.as_ref().is_some_and(|flying| !flying.is_ended())
    }

    /// Checks that no run is in flight, so that the context may access its memory.
    fn idle(&self) -> Result<(), Error> {
        self.network.check_process()?;
        if self.is_busy() {
            return Err(Error::Busy);
        }
        if self.handed.swap(false, Ordering::AcqRel) {
            self.session.device.access(false).map_err(|source| Error::Share { source })?;
        }
        Ok(())
    }

    /// Access to the further functions of a session: strides, application buffers, an order for operations that race.
    ///
    /// # Errors
    ///
    /// While a run is in flight.
    pub fn session(&mut self) -> Result<&mut Session<Client>, Error> {
        self.idle()?;
        Ok(&mut self.session)
    }

    /// Writes an input's bytes, as they lie in memory.
    ///
    /// # Errors
    ///
    /// While a run is in flight; when there is no such input, or it has another size.
    pub fn set_input(&mut self, index: usize, bytes: &[u8]) -> Result<(), Error> {
        self.session()?.set_input(index, bytes)
    }

    /// An input's bytes, to be written in place.
    ///
    /// # Errors
    ///
    /// While a run is in flight; when there is no such input.
    pub fn input_mut(&mut self, index: usize) -> Result<&mut [u8], Error> {
        self.session()?.input_mut(index)
    }

    /// Writes an input from numbers in NCHW order: see [`Session::set_input_f32`].
    ///
    /// # Errors
    ///
    /// While a run is in flight, and as for that function.
    pub fn set_input_f32(&mut self, index: usize, values: &[f32]) -> Result<(), Error> {
        self.session()?.set_input_f32(index, values)
    }

    /// Writes an input from an array: see [`Session::set_input_array`].
    ///
    /// # Errors
    ///
    /// While a run is in flight, and as for that function.
    pub fn set_input_array(&mut self, index: usize, shape: &[usize], values: &[f32]) -> Result<(), Error> {
        self.session()?.set_input_array(index, shape, values)
    }

    /// Writes an input from half-precision numbers in NCHW order: see [`Session::set_input_f32`]. The elements of an input in
    /// half precision that has no scale are the given numbers, bit for bit; a signalling NaN becomes a quiet one.
    ///
    /// # Errors
    ///
    /// While a run is in flight, and as for that function.
    pub fn set_input_f16(&mut self, index: usize, values: &[f16]) -> Result<(), Error> {
        self.session()?.set_input_f16(index, values)
    }

    /// An output's bytes, as they lie in memory.
    ///
    /// # Errors
    ///
    /// While a run is in flight; when there is no such output.
    pub fn output(&self, index: usize) -> Result<&[u8], Error> {
        self.idle()?;
        self.session.output(index)
    }

    /// An output as numbers in NCHW order: see [`Session::output_f32`].
    ///
    /// # Errors
    ///
    /// While a run is in flight, and as for that function.
    pub fn output_f32(&self, index: usize) -> Result<Vec<f32>, Error> {
        self.idle()?;
        self.session.output_f32(index)
    }

    /// An output as half-precision numbers in NCHW order: see [`Session::output_f32`]. The numbers of an output in half precision
    /// that has no scale are its elements, bit for bit; a signalling NaN becomes a quiet one.
    ///
    /// # Errors
    ///
    /// While a run is in flight, and as for that function.
    pub fn output_f16(&self, index: usize) -> Result<Vec<f16>, Error> {
        self.idle()?;
        self.session.output_f16(index)
    }

    /// A descriptor of the memory that contains a tensor, [`TensorInfo::offset`] bytes from its start: a dma-buf, which other
    /// drivers accept; for the model a file, which other processes can map.
    ///
    /// # Errors
    ///
    /// While a run is in flight; when there is no such tensor, or the device cannot share buffers.
    pub fn export(&mut self, direction: Direction, index: usize) -> Result<OwnedFd, Error> {
        let session = self.session()?;
        let (handle, _) = session.place(direction, index)?;
        session.device.export(handle).map_err(|source| Error::Share { source })
    }

    /// From the next run on, uses the memory behind a descriptor as the memory of a tensor: for example a camera's dma-buf for an
    /// input, or for the model any file that can be mapped. The tensor begins [`TensorInfo::offset`] bytes after the start of
    /// that memory.
    ///
    /// If another program writes the memory during a run, the result may or may not include these writes. The file must not
    /// become shorter while the context lives.
    ///
    /// # Errors
    ///
    /// While a run is in flight; when there is no such tensor, the memory is too small, or the device cannot take it.
    pub fn bind_fd(&mut self, direction: Direction, index: usize, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let session = self.session()?;
        let handle = session.device.import(fd).map_err(|source| Error::Share { source })?;
        session.extra.push(handle);
        session.bind(direction, index, handle)
    }

    /// Runs the tasks, and returns when they have ended. On the model they run in the caller's thread.
    ///
    /// # Errors
    ///
    /// While a run is in flight; when a task is refused, fails, or does not end in time.
    pub fn run(&mut self) -> Result<Report, Error> {
        self.session()?.run()
    }

    /// As [`Self::run`], with options.
    ///
    /// # Errors
    ///
    /// As [`Self::run`]; and when operations are to be observed on a device that cannot report them.
    pub fn run_with(&mut self, options: RunOptions<'_>) -> Result<Report, Error> {
        self.session()?.run_with(options)
    }

    /// Submits the tasks, and returns before they have run.
    ///
    /// # Errors
    ///
    /// While a run is in flight; when a task is refused.
    pub fn submit(&mut self) -> Result<Pending, Error> {
        self.submit_with(SubmitOptions::default())
    }

    /// As [`Self::submit`], with options.
    ///
    /// # Errors
    ///
    /// As [`Self::submit`].
    pub fn submit_with(&mut self, options: SubmitOptions) -> Result<Pending, Error> {
        let session = self.session()?;
        let stages = session.stages()?;
        for stage in &stages {
            session.device.check(&stage.addresses).map_err(|source| Error::Task { task: stage.id, source })?;
        }
        session.device.access(true).map_err(|source| Error::Share { source })?;
        let (own, cancel) = (session.device.time_limit(), Cancel::default());
        let limits = Limits::new(options.timeout, options.run_timeout, own, stages.len(), cancel);
        let flying = InFlight::launch(session.device.shared(), session.device.held(), stages, limits);
        self.handed.store(true, Ordering::Release);
        let flying = Arc::new(flying?);
        self.flying = Some(Arc::clone(&flying));
        Ok(Pending { flying, network: self.network.clone() })
    }

    /// Waits for the run in flight until the deadline, if there is one. The [`Pending`] may have been dropped.
    ///
    /// # Errors
    ///
    /// As [`Pending::wait`]; also when nothing was submitted.
    pub fn wait(&mut self, deadline: impl Into<Option<Instant>>) -> Result<Report, Error> {
        self.network.check_process()?;
        self.flying.as_ref().ok_or(Error::Taken)?.wait(deadline.into())
    }

    /// The run that was submitted last, also if its [`Pending`] was dropped. None if nothing was submitted.
    pub fn pending(&self) -> Option<Pending> {
        let flying = Arc::clone(self.flying.as_ref()?);
        Some(Pending { flying, network: self.network.clone() })
    }
}

/// A submitted run. It continues when this value is dropped. Its context is busy until the run has ended.
///
/// Its descriptor becomes readable when the run has ended: for `poll`, `epoll` and the event loops over them. A run of one
/// task on a driver with a queue has the driver's own sync_file, which other drivers can wait for.
pub struct Pending {
    flying: Arc<InFlight>,
    /// Keeps the constants while the run is in flight.
    network: Network,
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = self.is_ended();
        f.debug_struct("Pending").field("fd", &self.as_fd()).field("ended", &ended).finish_non_exhaustive()
    }
}

impl Pending {
    /// Waits until the run has ended or the deadline, if any, has passed. Returns the run's result once. Several threads may wait
    /// for one run; one of them gets the result.
    ///
    /// # Errors
    ///
    /// When the deadline comes first ([`Error::NotYet`]: the run continues, and this can be called again); when a task failed or
    /// exceeded its time limit; when the result was returned before ([`Error::Taken`]).
    pub fn wait(&self, deadline: impl Into<Option<Instant>>) -> Result<Report, Error> {
        self.network.check_process()?;
        self.flying.wait(deadline.into())
    }

    /// Ends the run: see [`Cancel`]. Its result is then an error of the kind [`crate::ErrorKind::Cancelled`], unless it has ended
    /// before.
    pub fn cancel(&self) {
        self.flying.cancel();
    }

    /// Whether the run has ended, with success or not.
    pub fn is_ended(&self) -> bool {
        self.flying.is_ended()
    }
}

impl AsFd for Pending {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.flying.as_fd()
    }
}
