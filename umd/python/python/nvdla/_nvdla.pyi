# SPDX-License-Identifier: MIT OR Apache-2.0

from collections.abc import Generator
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

__version__: str

class Error(Exception):
    """A call that failed."""

    kind: str
    """The kind of the failure: "argument", "file", "loadable", "refused", "memory", "device", "deadline", "busy", "unsupported",
    "cancelled" or "other"."""

    refusals: list[tuple[str, str, str]]
    """The nodes that a compilation refuses: name, operator and reason."""

def compile(arguments: dict[str, object]) -> tuple[bytes, str, list[str]]: ...
def evaluate(arguments: dict[str, object], samples: dict[str, object]) -> tuple[str, list[str]]: ...

class Tensor:
    """An input or output of a network."""

    @property
    def name(self) -> str: ...
    @property
    def direction(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Images, channels, lines, elements per line."""
    @property
    def dtype(self) -> str | None:
        """The NumPy type of an element."""
    @property
    def format(self) -> str:
        """The element format of the loadable."""
    @property
    def atom(self) -> int | None:
        """Bytes of an atom; none of an image tensor."""
    @property
    def element_bytes(self) -> int:
        """Bytes of an element; of an image tensor with all its components."""
    @property
    def line_stride(self) -> int: ...
    @property
    def surface_stride(self) -> int: ...
    @property
    def offset(self) -> int:
        """Where the tensor begins in its memory: bytes."""
    @property
    def size(self) -> int:
        """Bytes."""
    @property
    def scale(self) -> list[float]:
        """Real value = (element - zero_point) * scale; one of each, or one per channel."""
    @property
    def zero_point(self) -> list[float]: ...

class Operation:
    """An operation of a network."""

    @property
    def task(self) -> int: ...
    @property
    def index(self) -> int:
        """Position in the task's operation list."""
    @property
    def unit(self) -> str: ...
    @property
    def layer(self) -> str | None:
        """The layers of the model that it computes, if the loadable says so."""
    @property
    def shape(self) -> tuple[int, int, int] | None:
        """Channels, lines and elements per line of what it writes; none if it writes no cube."""
    @property
    def dtype(self) -> str: ...

class Loadable:
    @staticmethod
    def open(path: str) -> Loadable: ...
    @staticmethod
    def from_bytes(data: bytes) -> Loadable: ...
    @property
    def version(self) -> str: ...
    @property
    def configuration(self) -> str: ...
    def operations(self) -> list[Operation]: ...
    def __bytes__(self) -> bytes: ...

class Network:
    @staticmethod
    def load(loadable: Loadable, device: str | None) -> Network: ...
    def load_beside(self, loadable: Loadable) -> Network: ...
    @property
    def device(self) -> str: ...
    @property
    def loadable(self) -> Loadable: ...
    @property
    def shared_bytes(self) -> int: ...
    def context(self, bound: list[tuple[bool, SupportsIndex | str, int]]) -> Context: ...

class Context:
    @property
    def inputs(self) -> list[Tensor]: ...
    @property
    def outputs(self) -> list[Tensor]: ...
    @property
    def network(self) -> Network: ...
    @property
    def busy(self) -> bool: ...
    def find(self, output: bool, which: SupportsIndex | str) -> int: ...
    def set_numbers(self, which: SupportsIndex | str, shape: tuple[int, ...], values: npt.NDArray[np.float32]) -> None: ...
    def set_bytes(self, which: SupportsIndex | str, bytes: npt.NDArray[np.uint8]) -> None: ...
    def set_picture(
        self,
        which: SupportsIndex | str,
        path: str,
        *,
        mean: list[float] | None,
        normalize: float | None,
        rgb: bool | None,
        resize: bool,
        background: tuple[int, int, int] | None,
    ) -> None: ...
    def numbers(self, which: SupportsIndex | str) -> npt.NDArray[np.float32]: ...
    def memory(self, output: bool, which: SupportsIndex | str) -> npt.NDArray[np.uint8]: ...
    def run(self, timeout: SupportsFloat | None) -> float: ...
    def run_surfaces(self, timeout: SupportsFloat | None) -> list[tuple[Operation, npt.NDArray[np.uint8] | None]]: ...
    def submit(self, timeout: SupportsFloat | None) -> Run: ...

class Run:
    """A submitted run. It is not stopped when this object goes. Any number of tasks may await it."""

    def fileno(self) -> int:
        """A file descriptor that becomes readable when the run has ended. It belongs to this object."""
    @property
    def done(self) -> bool:
        """Whether the run has ended."""
    def wait(self, timeout: SupportsFloat | None = None) -> float:
        """Waits at most `timeout` seconds, and returns the seconds that the run took. Raises TimeoutError if the run has not
        ended by then. The result of a run is returned once."""
    def cancel(self) -> None:
        """Ends the run. Its result is then an Error of the kind "cancelled", unless it has ended before."""
    def _result(self) -> float: ...
    def __await__(self) -> Generator[Any, None, float]: ...

def devices() -> list[str]: ...
def pack(
    elements: npt.NDArray[np.uint8],
    shape: tuple[int, int, int],
    element_bytes: int,
    atom: int,
    strides: tuple[int, int] | None,
) -> npt.NDArray[np.uint8]: ...
def unpack(
    memory: npt.NDArray[np.uint8],
    shape: tuple[int, int, int],
    element_bytes: int,
    atom: int,
    strides: tuple[int, int] | None,
) -> npt.NDArray[np.uint8]: ...
