// SPDX-License-Identifier: MIT OR Apache-2.0

//! The compiled part of the Python package `nvdla`. `python/nvdla` is the part in Python: it has the documentation of the
//! methods, and the code that is shorter in Python.
//!
//! Every call that may take long releases Python's lock. Several threads may use the objects; calls on one context are executed
//! one after another.
#![allow(clippy::needless_pass_by_value)] // Python's arguments come by value

mod compile;
mod failure;
mod interrupt;
mod layout;

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use numpy::ndarray::ArrayView1;
use numpy::{PyArray1, PyReadonlyArray1};
use nvdla_runtime::device::{self, recognise, Selection, Shared};
use nvdla_runtime::image::{Encoder, Given, Order, PictureFile, Target};
use nvdla_runtime::loadable::{self, DataType};
use nvdla_runtime::operations::{self, NetworkOperation};
use nvdla_runtime::session::{self, Direction, RunOptions, SubmitOptions, TensorInfo};
use nvdla_runtime::Cancel;
use nvdla_uapi::reg::values::Precision;
use pyo3::exceptions::{PyTimeoutError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use failure::{Failure, Raise as _};
use layout::Bytes;

/// The NumPy name of a type of elements.
fn dtype(precision: Precision) -> &'static str {
    match precision {
        Precision::Int8 => "int8",
        Precision::Int16 => "int16",
        Precision::Fp16 => "float16",
    }
}

/// An input or output of a network.
#[pyclass(frozen, get_all, module = "nvdla")]
struct Tensor {
    name: String,
    direction: &'static str,
    index: usize,
    shape: (u32, u32, u32, u32),
    dtype: Option<&'static str>,
    format: String,
    atom: Option<u32>,
    element_bytes: u32,
    line_stride: u32,
    surface_stride: u32,
    offset: u64,
    size: u64,
    scale: Vec<f64>,
    zero_point: Vec<f64>,
}

#[pymethods]
impl Tensor {
    fn __repr__(&self) -> String {
        let (n, c, h, w) = self.shape;
        format!("<nvdla.Tensor: {} {:?}, {n} x {c} x {h} x {w}, {}>", self.direction, self.name, self.format)
    }
}

impl Tensor {
    fn new(info: &TensorInfo) -> Self {
        let (scale, zero_point) = match &info.meaning {
            Some(meaning) => (meaning.scale.clone(), meaning.zero_point.clone()),
            None => (vec![1.0], vec![0.0]),
        };
        Self {
            name: info.name.clone(),
            direction: if info.direction == Direction::Input { "input" } else { "output" },
            index: info.index,
            shape: info.shape().into(),
            dtype: match info.data_type {
                DataType::Int8 => Some("int8"),
                DataType::Int16 => Some("int16"),
                DataType::Half => Some("float16"),
                _ => None,
            },
            format: info.pixel_format.to_string(),
            atom: if info.is_feature() { info.atom() } else { None },
            element_bytes: info.strides[0],
            line_stride: info.line_stride(),
            surface_stride: info.surface_stride(),
            offset: info.offset,
            size: info.size,
            scale,
            zero_point,
        }
    }
}

/// An operation of a network.
#[pyclass(frozen, get_all, module = "nvdla")]
struct Operation {
    task: u16,
    index: usize,
    unit: &'static str,
    layer: Option<String>,
    shape: Option<(u16, u16, u16)>,
    dtype: &'static str,
}

#[pymethods]
impl Operation {
    fn __repr__(&self) -> String {
        let layer = self.layer.as_ref().map(|layer| format!(" of {layer:?}")).unwrap_or_default();
        format!("<nvdla.Operation: {} {} of task {}{layer}>", self.unit, self.index, self.task)
    }
}

impl Operation {
    fn new(operation: &NetworkOperation, names: &loadable::names::Names) -> Self {
        Self {
            task: operation.task,
            index: operation.index,
            unit: operation.unit.name(),
            layer: names.layer(operation.task, operation.index).map(ToString::to_string),
            shape: operation.destination().map(|cube| (cube.channel, cube.height, cube.width)),
            dtype: dtype(operation.precision()),
        }
    }
}

/// A compiled network in a file or in memory.
#[pyclass(frozen, module = "nvdla")]
struct Loadable(Arc<loadable::Loadable>);

#[pymethods]
impl Loadable {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let loadable = py.detach(|| loadable::Loadable::open(path).map_err(Failure::from)).raise(py)?;
        Ok(Self(Arc::new(loadable)))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let loadable = py.detach(|| loadable::Loadable::from_bytes(data).map_err(Failure::from)).raise(py)?;
        Ok(Self(Arc::new(loadable)))
    }

    /// The version of the format.
    #[getter]
    fn version(&self) -> String {
        self.0.version().to_string()
    }

    #[getter]
    fn configuration(&self) -> &'static str {
        recognise(&self.0).config.name
    }

    fn operations(&self, py: Python<'_>) -> PyResult<Vec<Operation>> {
        let names = self.0.names().unwrap_or_default();
        let operations = operations::operations(&self.0).map_err(Failure::from).raise(py)?;
        Ok(operations.iter().map(|operation| Operation::new(operation, &names)).collect())
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.as_bytes())
    }
}

/// A network on a device.
#[pyclass(frozen, module = "nvdla")]
struct Network(nvdla_runtime::Network);

#[pymethods]
impl Network {
    #[staticmethod]
    fn load(py: Python<'_>, loadable: &Loadable, device: Option<&str>) -> PyResult<Self> {
        let load = || -> Result<Self, Failure> {
            let selection = match device {
                Some(name) => name.parse::<Selection>().map_err(Failure::argument)?,
                None => Selection::Auto,
            };
            let opened = device::open(&selection, &loadable.0)?;
            Ok(Self(nvdla_runtime::Network::new(Arc::clone(&loadable.0), &Shared::new(opened.device))?))
        };
        py.detach(load).raise(py)
    }

    fn load_beside(&self, py: Python<'_>, loadable: &Loadable) -> PyResult<Self> {
        let network = py.detach(|| nvdla_runtime::Network::new(Arc::clone(&loadable.0), self.0.device()));
        network.map(Self).map_err(Failure::from).raise(py)
    }

    #[getter]
    fn device(&self) -> String {
        self.0.device().info().to_string()
    }

    #[getter]
    fn loadable(&self) -> Loadable {
        Loadable(Arc::clone(self.0.loadable()))
    }

    #[getter]
    fn shared_bytes(&self) -> u64 {
        self.0.shared_bytes()
    }

    /// A context, of which some tensors use the memory behind descriptors. Each is whether it is an output, which, and the descriptor.
    fn context(&self, py: Python<'_>, bound: Vec<(bool, Which, RawFd)>) -> PyResult<Context> {
        let make = || -> Result<nvdla_runtime::Context, Failure> {
            let mut context = self.0.context()?;
            for (output, which, fd) in bound {
                let direction = if output { Direction::Output } else { Direction::Input };
                let index = which.find(&context, direction)?;
                if fd < 0 {
                    return Err(Failure::argument(format!("{fd} is no descriptor")));
                }
                // SAFETY: it is not negative, and the call below fails if it is not open.
                context.bind_fd(direction, index, unsafe { BorrowedFd::borrow_raw(fd) })?;
            }
            Ok(context)
        };
        let context = py.detach(make).raise(py)?;
        Ok(Context { has_queue: context.network().device().has_queue(), context: Mutex::new(context) })
    }
}

/// The inputs and outputs of a network.
#[pyclass(frozen, module = "nvdla")]
struct Context {
    context: Mutex<nvdla_runtime::Context>,
    has_queue: bool,
}

/// A tensor's name or number. Negative numbers count from the end.
enum Which {
    Index(isize),
    Name(String),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Which {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(index) = object.extract() {
            return Ok(Self::Index(index));
        }
        object.extract().map(Self::Name).map_err(|_| {
            let given = object.repr().map_or_else(|_| object.get_type().to_string(), |text| text.to_string());
            PyTypeError::new_err(format!("a tensor is given by its number or its name, not {given}"))
        })
    }
}

impl Which {
    fn find(&self, context: &nvdla_runtime::Context, direction: Direction) -> Result<usize, session::Error> {
        match self {
            Self::Index(index) => {
                let count = match direction {
                    Direction::Input => context.inputs().len(),
                    Direction::Output => context.outputs().len(),
                };
                let from_end = if *index < 0 { count.checked_add_signed(*index) } else { usize::try_from(*index).ok() };
                // The error for a number that does not exist lists the tensors.
                from_end.map_or_else(|| context.find(direction, &index.to_string()), Ok)
            }
            Self::Name(name) => context.find(direction, name),
        }
    }
}

/// A timeout; infinity is the longest that there is. None is the device's own limit.
fn seconds(timeout: Option<f64>) -> Result<Option<Duration>, Failure> {
    match timeout {
        Some(timeout) if timeout >= 0.0 => Ok(Some(Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX))),
        Some(timeout) => Err(Failure::argument(format!("the timeout is {timeout}, which is not 0 or more seconds"))),
        None => Ok(None),
    }
}

impl Context {
    fn lock(&self) -> MutexGuard<'_, nvdla_runtime::Context> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a function with the context while other Python threads run.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut nvdla_runtime::Context) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(&mut self.lock())).raise(py)
    }

    /// As [`Self::with`], for work that takes long: a signal such as Ctrl-C ends it.
    fn interruptible<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut nvdla_runtime::Context, &Cancel) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        interrupt::interruptible(py, |cancel| loop {
            // Another thread may have the context for long.
            match self.context.try_lock() {
                Ok(mut context) => return work(&mut context, cancel),
                Err(TryLockError::Poisoned(poisoned)) => return work(&mut poisoned.into_inner(), cancel),
                Err(TryLockError::WouldBlock) if cancel.is_cancelled() => return Err(Failure::cancelled()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(200)),
            }
        })
    }
}

#[pymethods]
impl Context {
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<Tensor>> {
        self.with(py, |context| Ok(context.inputs().map(Tensor::new).collect()))
    }

    #[getter]
    fn outputs(&self, py: Python<'_>) -> PyResult<Vec<Tensor>> {
        self.with(py, |context| Ok(context.outputs().map(Tensor::new).collect()))
    }

    #[getter]
    fn network(&self, py: Python<'_>) -> PyResult<Network> {
        self.with(py, |context| Ok(Network(context.network().clone())))
    }

    /// The number of a tensor.
    fn find(&self, py: Python<'_>, output: bool, which: Which) -> PyResult<usize> {
        self.with(py, |context| {
            let direction = if output { Direction::Output } else { Direction::Input };
            let index = which.find(context, direction)?;
            Ok(context.find(direction, &index.to_string())?)
        })
    }

    #[getter]
    fn busy(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |context| Ok(context.is_busy()))
    }

    /// Writes an input from an array of real numbers: its shape and its elements.
    fn set_numbers(
        &self,
        py: Python<'_>,
        which: Which,
        shape: Vec<usize>,
        values: PyReadonlyArray1<'_, f32>,
    ) -> PyResult<()> {
        let values = values.as_slice()?;
        self.with(py, |context| {
            let index = which.find(context, Direction::Input)?;
            Ok(context.set_input_array(index, &shape, values)?)
        })
    }

    fn set_bytes(&self, py: Python<'_>, which: Which, bytes: PyReadonlyArray1<'_, u8>) -> PyResult<()> {
        let bytes = bytes.as_slice()?;
        self.with(py, |context| {
            let index = which.find(context, Direction::Input)?;
            Ok(context.set_input(index, bytes)?)
        })
    }

    #[pyo3(signature = (which, path, *, mean, normalize, rgb, resize, background))]
    fn set_picture(
        &self,
        py: Python<'_>,
        which: Which,
        path: PathBuf,
        mean: Option<Vec<f32>>,
        normalize: Option<f32>,
        rgb: Option<bool>,
        resize: bool,
        background: Option<[u8; 3]>,
    ) -> PyResult<()> {
        self.with(py, |context| {
            let index = which.find(context, Direction::Input)?;
            let input = context.inputs().nth(index);
            let input = input.ok_or_else(|| Failure::argument(format!("there is no input {index}")))?;
            let order = rgb.map(|rgb| if rgb { Order::Rgb } else { Order::Bgr });
            let settings = Given { mean, normalize, order, resize }.settings(input)?;
            let encoder = Encoder::new(&Target::from(input), &settings)?;
            let changes = settings.mean.iter().any(|&mean| mean != 0.0) || settings.normalize.to_bits() != 1.0_f32.to_bits();
            if encoder.is_bytes() && changes {
                let text = "mean and normalize have no effect on an input of 8 bits: the compiler has them from its own options";
                return Err(Failure::argument(text));
            }
            let file = PictureFile::open(path)?;
            encoder.check_size(file.width(), file.height())?;
            let picture = file.decode(background)?;
            Ok(encoder.encode(&picture, context.input_mut(index)?)?)
        })
    }

    /// An output as real numbers in NCHW order.
    fn numbers<'py>(&self, py: Python<'py>, which: Which) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let values = self.with(py, |context| {
            let index = which.find(context, Direction::Output)?;
            Ok(context.output_f32(index)?)
        })?;
        Ok(PyArray1::from_vec(py, values))
    }

    /// The memory of a tensor, without a copy.
    fn memory<'py>(slf: &Bound<'py, Self>, output: bool, which: Which) -> PyResult<Bytes<'py>> {
        let py = slf.py();
        let (address, size) = slf.get().with(py, |context| {
            if output {
                let bytes = context.output(which.find(context, Direction::Output)?)?;
                Ok((bytes.as_ptr().expose_provenance(), bytes.len()))
            } else {
                let bytes = context.input_mut(which.find(context, Direction::Input)?)?;
                Ok((bytes.as_mut_ptr().expose_provenance(), bytes.len()))
            }
        })?;
        // SAFETY: the memory of a tensor does not move until its context is dropped, because nothing here changes its strides or
        // its buffer; the array keeps the context alive. Its bytes are plain numbers: if Python reads while a run writes, it gets
        // old or new bytes.
        let array = unsafe {
            let view = ArrayView1::from_shape_ptr(size, std::ptr::with_exposed_provenance::<u8>(address));
            PyArray1::borrow_from_array(&view, slf.clone().into_any())
        };
        if output {
            array.getattr("flags")?.setattr("writeable", false)?;
        }
        Ok(array)
    }

    fn run(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<f64> {
        let timeout = seconds(timeout).raise(py)?;
        if self.has_queue {
            // The driver has the run, which continues if this call is interrupted.
            let run = self.submit(py, timeout.map(|timeout| timeout.as_secs_f64()))?;
            return run.wait(py, None);
        }
        let report = self.interruptible(py, |context, cancel| {
            let cancel = Some(cancel.clone());
            Ok(context.run_with(RunOptions { timeout, cancel, ..RunOptions::default() })?)
        })?;
        Ok(report.duration().as_secs_f64())
    }

    /// Runs, and returns each operation with the elements of its surface.
    fn run_surfaces<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<(Operation, Option<Bytes<'py>>)>> {
        let timeout = seconds(timeout).raise(py)?;
        let surfaces = self.interruptible(py, |context, cancel| {
            let loadable = Arc::clone(context.network().loadable());
            let operations = operations::operations(&loadable)?;
            let names = loadable.names().unwrap_or_default();
            let atom = context.device().config.unwrap_or_else(|| recognise(&loadable).config).memory_atomic;
            let mut surfaces = Vec::new();
            let mut look = |completed: session::Completed<'_>| -> std::io::Result<()> {
                let same = |operation: &&NetworkOperation| {
                    operation.task == completed.task && operation.index == completed.operation
                };
                if let Some(operation) = operations.iter().find(same) {
                    let plain = completed.surface.map(|bytes| layout::surface(operation, atom, bytes)).transpose();
                    let plain = plain.map_err(std::io::Error::other)?.flatten();
                    surfaces.push((Operation::new(operation, &names), plain));
                }
                Ok(())
            };
            let on_operation = Some(&mut look as session::OnOperation<'_>);
            context.run_with(RunOptions { timeout, run_timeout: None, cancel: Some(cancel.clone()), on_operation })?;
            Ok(surfaces)
        })?;
        let array = |plain: Option<Vec<u8>>| plain.map(|plain| PyArray1::from_vec(py, plain));
        Ok(surfaces.into_iter().map(|(operation, plain)| (operation, array(plain))).collect())
    }

    fn submit(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Run> {
        let timeout = seconds(timeout).raise(py)?;
        let pending =
            self.with(py, |context| Ok(context.submit_with(SubmitOptions { timeout, run_timeout: None })?))?;
        Ok(Run { pending, outcome: OnceLock::new(), returned: AtomicBool::new(false) })
    }
}

/// A submitted run.
#[pyclass(frozen, module = "nvdla")]
struct Run {
    pending: nvdla_runtime::Pending,
    /// The result, once it is known. Several callers may await it.
    outcome: OnceLock<Result<f64, Failure>>,
    /// Whether `wait` has returned the result.
    returned: AtomicBool,
}

impl Run {
    /// The seconds that the run took. None if the deadline came first.
    fn outcome(&self, deadline: Option<Instant>) -> Option<Result<f64, Failure>> {
        loop {
            if let Some(outcome) = self.outcome.get() {
                return Some(outcome.clone());
            }
            match self.pending.wait(deadline) {
                Ok(report) => {
                    let _ = self.outcome.set(Ok(report.duration().as_secs_f64()));
                }
                Err(session::Error::NotYet) => return None,
                // Another thread has the result, and is about to store it.
                Err(session::Error::Taken) => std::thread::yield_now(),
                Err(error) => {
                    let _ = self.outcome.set(Err(error.into()));
                }
            }
        }
    }

    /// Waits until the deadline. Signals are handled meanwhile.
    fn wait_until(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Option<Result<f64, Failure>>> {
        loop {
            let slice = Instant::now() + interrupt::INTERVAL;
            let end = deadline.map_or(slice, |deadline| deadline.min(slice));
            if let Some(outcome) = py.detach(|| self.outcome(Some(end))) {
                return Ok(Some(outcome));
            }
            py.check_signals()?;
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(None);
            }
        }
    }
}

#[pymethods]
impl Run {
    fn fileno(&self) -> i32 {
        self.pending.as_fd().as_raw_fd()
    }

    #[getter]
    fn done(&self) -> bool {
        self.pending.is_ended()
    }

    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<f64> {
        let timeout = seconds(timeout).raise(py)?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let outcome = match self.wait_until(py, deadline) {
            Ok(Some(outcome)) => outcome,
            Ok(None) => return Err(PyTimeoutError::new_err(session::Error::NotYet.to_string())),
            Err(interrupted) => {
                self.pending.cancel();
                return Err(interrupted);
            }
        };
        if self.returned.swap(true, Ordering::AcqRel) {
            return Err(Failure::from(session::Error::Taken)).raise(py);
        }
        outcome.raise(py)
    }

    /// Ends the run.
    fn cancel(&self) {
        self.pending.cancel();
    }

    /// The result of a run that has ended, any number of times.
    fn _result(&self, py: Python<'_>) -> PyResult<f64> {
        py.detach(|| self.outcome(None)).unwrap_or(Err(Failure::from(session::Error::NotYet))).raise(py)
    }

    fn __repr__(&self) -> String {
        format!("<nvdla.Run: {}>", if self.pending.is_ended() { "ended" } else { "in flight" })
    }

    /// Waits for the run in an event loop.
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let wait = slf.py().import("nvdla._await")?.getattr("wait")?;
        wait.call1((slf,))?.call_method0("__await__")
    }
}

/// The device nodes of this machine.
#[pyfunction]
fn devices() -> Vec<String> {
    device::discover().iter().map(|path| path.display().to_string()).collect()
}

/// The module.
#[pymodule]
fn _nvdla(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<failure::Error>())?;
    module.add_class::<Loadable>()?;
    module.add_class::<Network>()?;
    module.add_class::<Context>()?;
    module.add_class::<Run>()?;
    module.add_class::<Tensor>()?;
    module.add_class::<Operation>()?;
    module.add_function(wrap_pyfunction!(compile::compile, module)?)?;
    module.add_function(wrap_pyfunction!(compile::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(devices, module)?)?;
    module.add_function(wrap_pyfunction!(layout::pack, module)?)?;
    module.add_function(wrap_pyfunction!(layout::unpack, module)?)
}
