#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes the node cases of the `onnx` package as folders for `examples/compare.rs`.

    node_cases.py FOLDER

Each case of one node with inputs of real numbers and at most four dimensions becomes FOLDER/NAME/{model.onnx,
input_K.npy, output_K.npy}. Inputs that a compiler needs at compile time (shapes, axes, weights, scales) become
initializers: all but the first input of the operators in CONSTANT, and integers everywhere. The expected outputs are
ONNX Runtime's, or the case's own where ONNX Runtime lacks the operator; a case in which the two differ is left out.

Needs the packages onnx, onnxruntime and numpy (`scripts/environment.sh` makes an environment with them).
"""

import collections
import os
import shutil
import sys
import warnings

import numpy
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

# Operators of which only the first input is computed by the network.
CONSTANT = {"Conv", "ConvTranspose", "BatchNormalization", "PRelu", "Gemm", "MatMul", "QuantizeLinear", "DequantizeLinear",
            "QLinearConv", "QLinearMatMul", "Resize", "Upsample", "Clip", "Pad", "Slice", "Tile", "Expand", "Reshape"}
REAL = (numpy.float32, numpy.float64, numpy.float16)


def constant_inputs(model, inputs):
    """The numbers of the inputs that become initializers."""
    operator = model.graph.node[0].op_type
    return [k for k, value in enumerate(inputs)
            if k > 0 and (operator in CONSTANT or value.dtype not in REAL)]


def runtime(model, feeds):
    """ONNX Runtime's outputs, or None if it does not have the operator."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)
    except Exception:  # The exceptions of ONNX Runtime have no common public base.
        return None


def main(folder):
    warnings.simplefilter("ignore")
    counts = collections.Counter()
    for case in collect_testcases(None):
        model, data = case.model, case.data_sets
        if model is None or not data or len(model.graph.node) != 1 or model.graph.node[0].domain not in ("", "ai.onnx"):
            continue
        inputs, outputs = data[0]
        if not all(isinstance(x, numpy.ndarray) for x in list(inputs) + list(outputs)):
            continue
        if not inputs or inputs[0].dtype not in REAL + (numpy.uint8, numpy.int8):
            continue
        if not all(x.dtype in REAL for x in outputs):
            continue
        if any(x.ndim > 4 or x.size == 0 for x in inputs[:1]) or any(x.ndim > 4 for x in outputs):
            continue
        counts["cases"] += 1
        feeds = {value.name: array for value, array in zip(model.graph.input, inputs)}
        again = runtime(model, feeds)
        if again is None:
            counts["not in ONNX Runtime"] += 1
        elif not all(a.shape == b.shape and numpy.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True)
                     for a, b in zip(again, outputs)):
            counts["left out: ONNX Runtime differs"] += 1
            continue
        else:
            outputs = again  # With all digits; some cases list rounded numbers.
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        kept = []
        constants = constant_inputs(model, inputs)
        del changed.graph.input[:]
        for k, (value, array) in enumerate(zip(model.graph.input, inputs)):
            if k in constants:
                changed.graph.initializer.append(numpy_helper.from_array(numpy.ascontiguousarray(array), value.name))
            else:
                changed.graph.input.append(value)
                kept.append(array)
        path = os.path.join(folder, case.name)
        os.makedirs(path)
        onnx.save(changed, os.path.join(path, "model.onnx"))
        for name, arrays in (("input", kept), ("output", outputs)):
            for k, array in enumerate(arrays):
                numpy.save(os.path.join(path, f"{name}_{k}.npy"), numpy.ascontiguousarray(array).reshape(array.shape))
        counts["written"] += 1
    print(", ".join(f"{count} {what}" for what, count in counts.items()))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    main(sys.argv[1])
