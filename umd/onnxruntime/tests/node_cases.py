# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the node cases of the package onnx through the provider, and compares them with the processor's provider.

Usage: node_cases.py [CONFIG]

Cases that ONNX Runtime itself does not run are left out. A case is wrong if an output differs by more than 1 % of its
largest value, or if it fails with the provider only.
"""

import json
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime as ort
from onnx.backend.test.loader import load_model_tests

import test_provider


def tensor(path):
    proto = onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return onnx.numpy_helper.to_array(proto)


def is_near(one, other):
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind not in "fiu":
        return np.array_equal(one, other)
    one, other = one.astype(np.float64), other.astype(np.float64)
    largest = np.abs(other[np.isfinite(other)]).max(initial=0)
    return np.allclose(one, other, rtol=0, atol=max(largest, 1e-3) / 100, equal_nan=True)


def main():
    config = sys.argv[1] if len(sys.argv) > 1 else "nv_full"
    warnings.simplefilter("ignore")
    ort.register_execution_provider_library("nvdla", test_provider.nvdla.get_library_path())
    counts = {"on NVDLA": 0, "on the processor": 0, "not run": 0}
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for case in load_model_tests(kind="node"):
            files = pathlib.Path(case.model_dir)
            model = str(files / "model.onnx")
            try:
                names = [value.name for value in ort.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()]
                data = files / "test_data_set_0"
                inputs = {name: tensor(data / f"input_{k}.pb") for k, name in enumerate(names)}
                right = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)
            except Exception:
                counts["not run"] += 1
                continue
            division = pathlib.Path(folder) / "partition.json"
            division.unlink(missing_ok=True)
            try:
                found = test_provider.session(model, config=config, min_nodes=0, dump_dir=folder).run(None, inputs)
            except Exception as error:
                wrong.append(f"{case.name}: {error}")
                continue
            claimed = division.exists() and json.loads(division.read_text())["groups"]
            counts["on NVDLA" if claimed else "on the processor"] += 1
            for one, other in zip(found, right):
                if isinstance(other, np.ndarray) and not is_near(one, other):
                    off = np.abs(one.astype(float) - other.astype(float)).max() if one.shape == other.shape else "shape"
                    wrong.append(f"{case.name}: differs by {off}, largest {np.abs(other).max()}")
                    break
    print(counts)
    for line in wrong:
        print("WRONG", line)
    sys.exit(bool(wrong))


main()
