#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the node cases of the package onnx through the provider, and compares them with the processor's provider.

Usage: node_cases.py [CONFIG...]

Each case runs as it is, and with all inputs but the first as constants, which NVDLA needs of weights. Cases that ONNX Runtime
itself does not run are left out. A case is wrong if an output differs by more than 1 % of its largest value, or if it fails with
the provider only. Without CONFIG: nv_full, in half precision.
"""

import collections
import json
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime as ort
import onnxruntime_ep_nvdla as nvdla
from onnx.backend.test.case.node import collect_testcases

import test_provider


def is_near(one, other):
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind not in "fiu":
        return np.array_equal(one, other)
    one, other = one.astype(np.float64), other.astype(np.float64)
    largest = np.abs(other[np.isfinite(other)]).max(initial=0)
    return np.allclose(one, other, rtol=0, atol=max(largest, 1e-3) / 100, equal_nan=True)


def with_constants(model, inputs):
    """The model with all inputs but the first as constants."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    names = [value.name for value in changed.graph.input]
    for name, array in zip(names[1:], inputs[1:]):
        changed.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    del changed.graph.input[1:]
    return changed


def variants():
    """The name, model and inputs of each case."""
    for case in collect_testcases(None):
        if case.model is None or not case.data_sets:
            continue
        inputs = case.data_sets[0][0]
        names = [value.name for value in case.model.graph.input]
        if len(names) != len(inputs) or not all(isinstance(array, np.ndarray) for array in inputs):
            continue
        yield case.name, case.model, dict(zip(names, inputs))
        if len(inputs) > 1 and all(array.dtype.kind in "fiub" for array in inputs):
            yield case.name + " with constants", with_constants(case.model, inputs), {names[0]: inputs[0]}


def main():
    warnings.simplefilter("ignore")
    ort.set_default_logger_severity(4)
    ort.register_execution_provider_library("nvdla", nvdla.get_library_path())
    bad = 0
    for config in sys.argv[1:] or ["nv_full"]:
        counts, claimed, wrong = collections.Counter(), collections.Counter(), []
        with tempfile.TemporaryDirectory() as folder:
            division = pathlib.Path(folder) / "partition.json"
            for name, model, inputs in variants():
                try:
                    right = test_provider.expected(model, inputs)
                except Exception:
                    counts["not run"] += 1
                    continue
                division.unlink(missing_ok=True)
                try:
                    found = test_provider.session(model, config=config, min_nodes=0, dump_dir=folder).run(None, inputs)
                except Exception as error:
                    wrong.append(f"{name}: {error}")
                    continue
                groups = json.loads(division.read_text())["groups"] if division.exists() else []
                counts["on NVDLA" if groups else "on the processor"] += 1
                if groups:
                    claimed.update({node.op_type for node in model.graph.node})
                for one, other in zip(found, right):
                    if isinstance(other, np.ndarray) and not is_near(one, other):
                        differs = one.astype(float) - other.astype(float) if one.shape == other.shape else np.nan
                        wrong.append(f"{name}: differs by {np.abs(differs).max()}, largest {np.abs(other).max()}")
                        break
        print(config, dict(counts))
        print(f"{len(claimed)} operators on NVDLA:", ", ".join(f"{op} {count}" for op, count in sorted(claimed.items())))
        for line in wrong:
            print("WRONG", line)
        bad += len(wrong)
    sys.exit(bool(bad))


main()
