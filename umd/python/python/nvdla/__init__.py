# SPDX-License-Identifier: MIT OR Apache-2.0

"""Runs compiled networks on an NVDLA, or on its bit-exact model.

    import nvdla

    network = nvdla.Network("lenet.nvdla")
    context = network.context()
    context.set_image(0, "seven.pgm")
    context.run()
    print(context.output(0).argmax())

A network is a loadable on a device, with one copy of its weights. A context has inputs and outputs, and executes one run at
a time; several contexts run at the same time. Every call that may take long releases Python's lock, and any thread may use
any object. A call that fails raises nvdla.Error.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _nvdla
from ._nvdla import Error, Operation, Run, Tensor, __version__

__all__ = [
    "Context",
    "Error",
    "Loadable",
    "Network",
    "Operation",
    "Run",
    "Surface",
    "Tensor",
    "__version__",
    "compile",
    "devices",
    "evaluate",
    "pack",
    "unpack",
]

Path = str | os.PathLike[str]


def _error(kind: str, text: str) -> Error:
    error = Error(text)
    error.kind = kind
    return error


def _numbers(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """The values as real numbers. Everything that is not a number is an error."""
    if np.ma.is_masked(values):
        raise _error("argument", "the array has masked values, which are no numbers")
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise _error("argument", f"elements of the type {array.dtype} are no real numbers")
    return np.ascontiguousarray(array, np.float32)


def _little(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array with little-endian elements, one after another."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a str")
    return value


def _names(value: Sequence[str]) -> list[str]:
    if isinstance(value, str):
        raise TypeError(f"{value!r} is one name and not a list of names")
    return [_text(name) for name in value]


def _extents(value: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    return {_text(name): [operator.index(extent) for extent in shape] for name, shape in value.items()}


def _read(name: str, kind: Callable[[Any], object], value: object) -> object:
    """The value of an option. The error names the option."""
    try:
        return kind(value)
    except (AttributeError, TypeError, ValueError) as error:
        raise TypeError(f"{name}: {error}") from None


def devices() -> list[str]:
    """The device nodes of this machine that belong to an NVDLA driver."""
    return _nvdla.devices()


Samples = Path | Sequence[npt.ArrayLike] | Sequence[Mapping[str, npt.ArrayLike]]


@contextlib.contextmanager
def _folder(samples: Samples) -> Iterator[str]:
    """The folder of samples; arrays, or one array per input of each sample, are written to one."""
    if isinstance(samples, (str, os.PathLike)):
        yield os.fspath(samples)
        return
    if not isinstance(samples, Iterable):
        raise TypeError(f"samples are a folder or a list of arrays, not {samples!r}")
    with tempfile.TemporaryDirectory() as folder:
        for number, sample in enumerate(samples):
            path = os.path.join(folder, f"{number:08}")
            if isinstance(sample, Mapping):
                os.mkdir(path)
                short = [os.path.basename(name) for name in sample]
                for name, values in sample.items():
                    # The file that the compiler reads for an input.
                    file = os.path.basename(name)
                    if short.count(file) > 1:
                        file = name.replace("/", "_").replace("\\", "_")
                    np.save(os.path.join(path, file + ".npy"), _numbers(values))
            else:
                np.save(path, _numbers(sample))
        yield folder


def _arguments(
    model: Path,
    config: str,
    *,
    precision: Literal["int8", "fp16", "mixed"] = "int8",
    mixed_layers: SupportsFloat | None = None,
    calibtable: Path | None = None,
    method: str | None = None,
    mean: float | Sequence[float] = 0.0,
    std: float | Sequence[float] = 1.0,
    color: Literal["rgb", "bgr", "gray"] | None = None,
    resize: Literal["stretch", "crop"] | None = None,
    input: Literal["i8", "u8"] = "i8",
    weights: Literal["kernel", "layer"] = "kernel",
    winograd: Literal["never", "faster", "always"] | None = None,
    winograd_loss: SupportsFloat | None = None,
    softmax: Literal["half", "int8"] = "half",
    optimize: Literal["time", "size", "memory"] = "time",
    sram: int = 0,
    batch: int = 1,
    clock: float | None = None,
    bandwidth: float | None = None,
    sram_bandwidth: float | None = None,
    latency: int | None = None,
    register_write: float | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
) -> dict[str, object]:
    means, stds = (np.atleast_1d(_numbers(given)).tolist() for given in (mean, std))
    if color is None and (resize is not None or means != [0.0] or stds != [1.0]):
        raise ValueError("mean, std and resize are for pictures: give color")
    given = locals()
    defaults = {"model": "", "config": "", **(_arguments.__kwdefaults__ or {})}

    def read(kind: Callable[[Any], object], *names: str) -> dict[str, object]:
        absent = [name for name in names if given[name] is None and defaults[name] is None]
        return {name: None if name in absent else _read(name, kind, given[name]) for name in names}

    return {
        **read(os.fspath, "model", "calibtable"),
        **read(_text, "config", "precision", "method", "color", "resize", "input", "weights", "winograd", "softmax", "optimize"),
        **read(float, "mixed_layers", "winograd_loss", "clock", "bandwidth", "sram_bandwidth", "register_write"),
        **read(operator.index, "sram", "batch", "latency"),
        **read(_names, "inputs", "outputs"),
        "mean": means,
        "std": stds,
        "shapes": _read("shapes", _extents, shapes or {}),
    }


def compile(model: Path, config: str, *, calibrate: Samples | None = None, **options: Any) -> Loadable:
    """Compiles a trained network (ONNX, TFLite, or NCNN's .param with .bin beside it) for a configuration of NVDLA.

    The options are those of `nvdla compile`:

    precision           "int8", "fp16" or "mixed"; mixed is for nv_full: int8, and int16 in those layers, at most mixed_layers
                        percent (25), that lose most on the samples
    calibrate           samples like those that the network will process, on which int8 scales are measured: a folder with
                        pictures or .npy files, or a list of arrays, or for several inputs a list of dictionaries of arrays
    calibtable, method  a table of scales in JSON; how scales are chosen ("max", "percentile=99.99", "mse", "entropy")
    color, mean, std    with color ("rgb", "bgr", "gray") the input is a picture in this order of channels, and a value of the
                        network is (byte - mean) / std; both are one number, or one per channel
    resize, input       how calibration pictures of another size are fitted ("stretch", "crop"); whether an int8 network reads 7
                        or 8 bits of a picture's bytes ("i8", "u8")
    weights, winograd   "kernel" or "layer"; "never", "faster" or "always"
    winograd_loss       with winograd="faster" in int8, the most that the mode may lower an output's ratio of signal to noise on the
                        samples, in decibels
    softmax             the results of a softmax that are outputs of an int8 network: "half", or "int8" for NVIDIA's runtime
    optimize, sram      "time", "size" or "memory"; the size of the device's SRAM in bytes
    batch               pictures per run: inputs and outputs of the loadable have that many, and the weights are read once for several
    clock, bandwidth    the board by which times are estimated: MHz; GB/s of DRAM. Also sram_bandwidth in GB/s, latency in cycles and
                        register_write in ns; those that are left out are the configuration's
    shapes              the shapes of inputs that the model leaves open, by their names
    inputs, outputs     the names of the tensors that become inputs and outputs; other nodes are left out

    The compiler's warnings are Python's warnings. The result's attribute report is the content of report.json. If nodes are refused,
    the Error's attribute refusals lists them. The bytes of the result are the file:
    Path("net.nvdla").write_bytes(bytes(loadable)).
    """
    arguments = _arguments(model, config, **options)
    with contextlib.nullcontext() if calibrate is None else _folder(calibrate) as folder:
        loadable, report, found = _nvdla.compile({**arguments, "calibrate": folder})
    for warning in found:
        warnings.warn(warning, stacklevel=2)
    compiled = Loadable(loadable)
    compiled.report = json.loads(report)
    return compiled


def evaluate(
    model: Path,
    config: str,
    samples: Samples,
    classes: Sequence[int] | None = None,
    *,
    labels: Path | None = None,
    device: str | None = None,
    calibrate: Samples | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Compiles a network, runs it with labelled samples, and returns how well it does, as `nvdla evaluate --json` prints it.

    samples is a folder with one folder per class or a CSV file, as for `nvdla evaluate`, and labels a file with the names of the
    classes; or samples is a list of arrays, and classes has the class of each. device is as for Network; by default the built-in
    model. The other arguments are those of compile. The result has "samples", the numbers of samples that are right in "device" and
    "float" ("top1" and "top5"), "agreement", the ratio of signal to noise of each of "outputs" in decibels, and of "layers".
    """
    arguments = _arguments(model, config, **options)
    with contextlib.ExitStack() as stack:
        folder = None if calibrate is None else stack.enter_context(_folder(calibrate))
        path = stack.enter_context(_folder(samples))
        if classes is not None:
            names = sorted(os.listdir(path))
            if isinstance(samples, (str, os.PathLike)) or len(names) != len(classes):
                raise ValueError("classes has the class of each array of samples")
            lines = [f"{name},{operator.index(number)}" for name, number in zip(names, classes)]
            path = os.path.join(path, "classes.csv")
            with open(path, "w") as file:
                file.write("\n".join(lines))
        given = {"samples": path, "labels": None if labels is None else os.fspath(labels), "device": device}
        result, found = _nvdla.evaluate({**arguments, "calibrate": folder}, given)
    for warning in found:
        warnings.warn(warning, stacklevel=2)
    evaluated: dict[str, Any] = json.loads(result)
    return evaluated


class Loadable:
    """A compiled network: a path, or the bytes of the file."""

    report: dict[str, Any] | None = None
    """Of a network that compile has compiled, the content of report.json."""

    def __init__(self, source: Path | bytes) -> None:
        if isinstance(source, bytes):
            self._loadable = _nvdla.Loadable.from_bytes(source)
        else:
            self._loadable = _nvdla.Loadable.open(os.fspath(source))

    @property
    def version(self) -> str:
        """The version of the file's format."""
        return self._loadable.version

    @property
    def configuration(self) -> str:
        """The configuration of NVDLA that the network was compiled for, such as "nv_small"."""
        return self._loadable.configuration

    def operations(self) -> list[Operation]:
        """The operations of the tasks for NVDLA, in the order of tasks and lists."""
        return self._loadable.operations()

    def __bytes__(self) -> bytes:
        return bytes(self._loadable)

    def __reduce__(self) -> tuple[type[Loadable], tuple[bytes], dict[str, Any]]:
        return type(self), (bytes(self),), vars(self) and {"report": self.report}

    def __repr__(self) -> str:
        return f"<nvdla.Loadable: {self.configuration}, {len(bytes(self))} bytes>"


class Network:
    """A loadable on a device.

    `device` is another network, whose device is shared, or as in `nvdla run --device`: "auto" (the first NVDLA of this
    machine, or the model if there is none), "model", "model:nv_small", or a device node.
    """

    def __init__(self, loadable: Loadable | Path | bytes, device: str | Network | None = None) -> None:
        if not isinstance(loadable, Loadable):
            loadable = Loadable(loadable)
        self.loadable = loadable
        if isinstance(device, Network):
            self._network: _nvdla.Network = device._network.load_beside(loadable._loadable)
        else:
            self._network = _nvdla.Network.load(loadable._loadable, device)

    @property
    def device(self) -> str:
        """Describes the device."""
        return self._network.device

    @property
    def shared_bytes(self) -> int:
        """Bytes of the constants, of which all contexts use one copy."""
        return self._network.shared_bytes

    def context(
        self,
        inputs: Mapping[SupportsIndex | str, int] | None = None,
        outputs: Mapping[SupportsIndex | str, int] | None = None,
    ) -> Context:
        """Creates a context. Its inputs are zero.

        `inputs` and `outputs` have a file descriptor for each tensor that is to use the memory behind it: for example a camera's
        dma-buf, and on the model a file. The tensor begins `offset` bytes after the start of that memory. The descriptor may be closed
        afterwards. A file must not become shorter while the context lives.
        """
        bound = [(output, which, fd) for output, given in ((False, inputs), (True, outputs)) for which, fd in (given or {}).items()]
        return Context(self, self._network.context(bound))

    def __repr__(self) -> str:
        return f"<nvdla.Network: {self.loadable.configuration} on {self.device}>"


class Surface(NamedTuple):
    """The output of an operation: its elements in CHW order, or None if it wrote no cube."""

    operation: Operation
    array: npt.NDArray[Any] | None


class Context:
    """The inputs and outputs of a network. `Network.context` creates it.

    Inputs and outputs are named by their number or their name. While a submitted run is in flight, calls that access them
    raise an Error of the kind "busy".
    """

    def __init__(self, network: Network, context: _nvdla.Context) -> None:
        self.network = network
        self._context = context

    @property
    def inputs(self) -> list[Tensor]:
        """Describes the inputs."""
        return self._context.inputs

    @property
    def outputs(self) -> list[Tensor]:
        """Describes the outputs."""
        return self._context.outputs

    @property
    def busy(self) -> bool:
        """Whether a submitted run has not ended."""
        return self._context.busy

    def set_input(self, which: SupportsIndex | str, values: npt.ArrayLike) -> None:
        """Writes an input from an array of real numbers, whose dimensions are N, C, H and W.

        Adjacent dimensions may be joined, and dimensions of 1 may be left out. An array of other dimensions, for example with
        its channels last, is an error. The numbers are converted by the scale and zero point that the compiler wrote into
        the loadable. Without a scale they are the elements.
        """
        array = _numbers(values)
        self._context.set_numbers(which, array.shape, array.reshape(-1))

    def set_input_bytes(self, which: SupportsIndex | str, data: Any) -> None:
        """Writes an input's bytes, as they lie in memory, from any object with a buffer.

        The elements of an array are written in the order of the device's bytes, which is little-endian.
        """
        if isinstance(data, np.ndarray):
            data = _little(data)
        self._context.set_bytes(which, np.frombuffer(data, np.uint8))

    def set_image(
        self,
        which: SupportsIndex | str,
        path: Path,
        *,
        mean: Sequence[SupportsFloat] | None = None,
        normalize: SupportsFloat | None = None,
        order: Literal["bgr", "rgb"] | None = None,
        resize: bool = False,
        background: tuple[int, int, int] | None = None,
    ) -> None:
        """Writes an input from a picture file (pgm, ppm, png or jpeg), as `nvdla run --image` does.

        `order` is the colour of channel 0 first. `mean` and `normalize` are for inputs of more than 8 bits. A loadable of this
        project's compiler has all three; arguments that repeat them change nothing, and arguments that contradict them are errors.
        """
        if order not in (None, "bgr", "rgb"):
            raise _error("argument", f"there is no order {order!r}; there are bgr, rgb")
        means = None if mean is None else [float(value) for value in mean]
        if means is not None and len(means) > 4:
            raise _error("argument", f"mean has {len(means)} numbers, and a picture at most 4 channels")
        self._context.set_picture(
            which,
            os.fspath(path),
            mean=means,
            normalize=None if normalize is None else float(normalize),
            rgb=None if order is None else order == "rgb",
            resize=resize,
            background=background,
        )

    def output(self, which: SupportsIndex | str) -> npt.NDArray[np.float32]:
        """Returns an output as real numbers in NCHW order. They are converted as in set_input."""
        return self._context.numbers(which).reshape(self._tensor("output", which).shape)

    def memory(self, direction: Literal["input", "output"], which: SupportsIndex | str) -> npt.NDArray[np.uint8]:
        """Returns the memory of a tensor as an array of bytes, without a copy.

        The array stays valid as long as it is used, and has NumPy's buffer protocol and DLPack. An output is read-only.
        Reads and writes during a run may or may not see the data of the run.
        """
        return self._context.memory(direction == "output", self._tensor(direction, which).index)

    def view(self, direction: Literal["input", "output"], which: SupportsIndex | str) -> npt.NDArray[Any]:
        """Returns the elements of a tensor without a copy, as an array over `memory`.

        An image tensor is (N, H, W, components). A feature tensor whose channels fit into one atom is (N, C, H, W). Any
        other feature tensor is (N, surfaces, H, W, channels of an atom), which is how its channels lie in memory.
        """
        tensor = self._tensor(direction, which)
        if tensor.dtype is None:
            raise TypeError(f"the elements of {tensor.name!r} ({tensor.format}) have no NumPy type")
        memory = self.memory(direction, which)
        dtype = np.dtype(tensor.dtype)
        n, c, h, w = tensor.shape
        one = tensor.size // n
        if tensor.atom is None:
            line = tensor.line_stride if h > 1 else w * c * dtype.itemsize
            strides: tuple[int, ...] = (one, line, c * dtype.itemsize, dtype.itemsize)
            return np.ndarray((n, h, w, c), dtype, memory, strides=strides)
        lanes = tensor.atom // dtype.itemsize
        if c <= lanes:
            strides = (one, dtype.itemsize, tensor.line_stride, tensor.atom)
            return np.ndarray((n, c, h, w), dtype, memory, strides=strides)
        strides = (one, tensor.surface_stride, tensor.line_stride, tensor.atom, dtype.itemsize)
        return np.ndarray((n, -(-c // lanes), h, w, lanes), dtype, memory, strides=strides)

    def run(self, timeout: SupportsFloat | None = None) -> float:
        """Runs the network, and returns the seconds that its tasks took. Each task has `timeout` seconds."""
        return self._context.run(timeout)

    def run_surfaces(self, timeout: SupportsFloat | None = None) -> list[Surface]:
        """Runs the network, and returns what each operation wrote, in the order in which they completed."""
        surfaces = []
        for operation, elements in self._context.run_surfaces(timeout):
            array = None
            if elements is not None and operation.shape is not None:
                array = elements.view(operation.dtype).reshape(operation.shape)
            surfaces.append(Surface(operation, array))
        return surfaces

    def submit(self, timeout: SupportsFloat | None = None) -> Run:
        """Submits a run, and returns before it has ended. `Run.wait` waits for it, as does `await` in an event loop."""
        return self._context.submit(timeout)

    def __repr__(self) -> str:
        names = [", ".join(repr(tensor.name) for tensor in tensors) for tensors in (self.inputs, self.outputs)]
        return f"<nvdla.Context: {names[0]} -> {names[1]}>"

    def _tensor(self, direction: Literal["input", "output"], which: SupportsIndex | str) -> Tensor:
        if direction not in ("input", "output"):
            raise _error("argument", f"there is no direction {direction!r}; there are input, output")
        tensors = self.inputs if direction == "input" else self.outputs
        return tensors[self._context.find(direction == "output", which)]


def pack(
    array: npt.NDArray[Any], atom: int = 32, strides: tuple[int, int] | None = None
) -> npt.NDArray[np.uint8]:
    """Returns the memory of a feature cube with the elements of an array in CHW order.

    The elements have 1 or 2 bytes. `atom` is the bytes of an atom: 8 on nv_small, 32 on nv_full and nv_large. `strides` are
    the bytes from line to line and from surface to surface; without them the cube is packed.
    """
    if array.ndim != 3:
        raise ValueError(f"a cube has 3 dimensions, not {array.ndim}")
    if array.dtype.kind not in "biuf":
        raise _error("argument", f"elements of the type {array.dtype} are no numbers")
    plain = _little(array).reshape(-1).view(np.uint8)
    c, h, w = array.shape
    return _nvdla.pack(plain, (c, h, w), array.itemsize, atom, strides)


def unpack(
    memory: Any,
    shape: tuple[int, int, int],
    dtype: npt.DTypeLike,
    atom: int = 32,
    strides: tuple[int, int] | None = None,
) -> npt.NDArray[Any]:
    """Returns the elements of a feature cube in CHW order. The inverse of `pack`."""
    kind = np.dtype(dtype)
    plain = _nvdla.unpack(np.frombuffer(memory, np.uint8), shape, kind.itemsize, atom, strides)
    return plain.view(kind.newbyteorder("<")).astype(kind, copy=False).reshape(shape)
