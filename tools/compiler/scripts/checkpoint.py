# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the tensors of a PyTorch checkpoint without PyTorch.

Both containers are read: the archive of PyTorch 1.6 and later, and the sequence of pickles before it. Only the names that
a state dictionary needs are unpickled, so that a checkpoint cannot run code.
"""

import collections
import io
import pickle
import struct
import zipfile

import numpy

TYPES = {"FloatStorage": numpy.float32, "HalfStorage": numpy.float16, "LongStorage": numpy.int64, "IntStorage": numpy.int32}


def _tensor(storage, offset, size, stride, *_):
    """Describes a tensor; its storage may be filled later."""
    return ("tensor", storage, offset, size, stride)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, storages):
        super().__init__(file)
        self.storages = storages

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda data, *_: data
        if module == "torch" and name in TYPES:
            return name
        raise pickle.UnpicklingError(f"a checkpoint with {module}.{name}")

    def persistent_load(self, identity):
        _, kind, key, _, count = identity[:5]
        self.storages[key] = (TYPES[kind], count)
        return key


def read(data):
    """The tensors of a checkpoint's bytes, by their names."""
    storages = {}
    if zipfile.is_zipfile(io.BytesIO(data)):
        archive = zipfile.ZipFile(io.BytesIO(data))
        root = next(name for name in archive.namelist() if name.endswith("data.pkl"))[: -len("data.pkl")]
        state = _Unpickler(io.BytesIO(archive.read(root + "data.pkl")), storages).load()
        arrays = {key: numpy.frombuffer(archive.read(f"{root}data/{key}"), kind) for key, (kind, _) in storages.items()}
    else:
        file = io.BytesIO(data)
        for _ in range(3):  # Magic number, protocol, the writer's system.
            pickle.load(file)
        state = _Unpickler(file, storages).load()
        arrays = {}
        for key in pickle.load(file):
            kind, _ = storages[key]
            (count,) = struct.unpack("<q", file.read(8))
            arrays[key] = numpy.frombuffer(file.read(count * numpy.dtype(kind).itemsize), kind)
    tensors = {}
    for name, value in state.items():
        if isinstance(value, tuple) and value[:1] == ("tensor",):
            _, key, offset, size, stride = value
            item = arrays[key].itemsize
            view = numpy.lib.stride_tricks.as_strided(arrays[key][offset:], size, [s * item for s in stride])
            tensors[name] = numpy.ascontiguousarray(view).reshape(size)
    return tensors
