#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles networks of one operator and compares their outputs with ONNX Runtime's, for arguments of several sizes.

    operators.py [NAME...] [--precision int8|fp16] [--config CONFIG] [--below DECIBELS]

One line per operator has the ratio of signal to noise in decibels for arguments up to 1, 4, 16, 64 and 1000, of which a half are
near 0. A ratio with a * comes with a warning of the compiler. The same arguments calibrate. With --below only ratios below this one
are shown, and the exit status is 1 if one of them comes without a warning. The compiler is that of target/release, or that of the
environment variable NVDLA_COMPILER. Needs numpy, onnx and onnxruntime (`environment.sh`).
"""

import argparse
import os
import subprocess
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
COMPILER = os.environ.get("NVDLA_COMPILER") or os.path.join(
    os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release/nvdla_compiler")
SIZES = (1, 4, 16, 64, 1000)
SHAPE = (1, 16, 24, 24)

# The least and the greatest argument of functions that have no value for all numbers.
ENDS = {"Acos": (-1, 1), "Asin": (-1, 1), "Atanh": (-0.999, 0.999), "Acosh": (1, None), "Log": (1e-3, None), "Sqrt": (0, None),
        "Reciprocal": (0.05, None), "Exp": (None, 11), "Sinh": (-11, 11), "Cosh": (-11, 11)}


def constant(value):
    return numpy.float32(value)


# Name: operator, attributes, constants behind the input.
OPERATORS = {name: (name, {}, []) for name in (
    "Relu LeakyRelu Abs Neg HardSigmoid HardSwish Sigmoid Tanh Elu Selu Gelu Mish Softplus Softsign Exp Log Sqrt Reciprocal Erf "
    "Sin Cos Tan Acos Asin Atan Acosh Asinh Atanh Cosh Sinh Celu ThresholdedRelu Shrink Softmax LogSoftmax Sign Swish "
    "GlobalAveragePool GlobalMaxPool ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp ReduceMax ReduceMin Hardmax "
    "LpNormalization MeanVarianceNormalization").split()}
OPERATORS |= {
    "Gelu, tanh": ("Gelu", {"approximate": "tanh"}, []),
    "ThresholdedRelu 0.1": ("ThresholdedRelu", {"alpha": 0.1}, []),
    "ThresholdedRelu 3": ("ThresholdedRelu", {"alpha": 3.0}, []),
    "ThresholdedRelu -1": ("ThresholdedRelu", {"alpha": -1.0}, []),
    "Shrink, hard": ("Shrink", {"lambd": 0.7, "bias": 0.0}, []),
    "Shrink, soft": ("Shrink", {"lambd": 0.7, "bias": 0.7}, []),
    "Clip": ("Clip", {}, [constant(-0.5), constant(6)]),
    "LeakyRelu 0.3": ("LeakyRelu", {"alpha": 0.3}, []),
    "Elu 2": ("Elu", {"alpha": 2.0}, []),
    "Pow 2": ("Pow", {}, [constant(2)]),
    "Pow 3": ("Pow", {}, [constant(3)]),
    "Pow 0.5": ("Pow", {}, [constant(0.5)]),
    "Pow -1": ("Pow", {}, [constant(-1)]),
    "Pow 4": ("Pow", {}, [constant(4)]),
    "Pow 1.5": ("Pow", {}, [constant(1.5)]),
    "Pow -0.5": ("Pow", {}, [constant(-0.5)]),
    "Softmax, lines": ("Softmax", {"axis": 2}, []),
    "LogSoftmax, channels": ("LogSoftmax", {"axis": 1}, []),
    "Softmax, channels": ("Softmax", {"axis": 1}, []),
    "LRN": ("LRN", {"size": 5, "alpha": 0.5}, []),
    "LRN, AlexNet": ("LRN", {"size": 5, "alpha": 1e-4}, []),
    "Mul with itself": ("Mul", {}, ["x"]),
    "LpPool": ("LpPool", {"kernel_shape": [2, 2], "p": 2}, []),
    "LpPool 1": ("LpPool", {"kernel_shape": [3, 3], "p": 1}, []),
    "AveragePool": ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, []),
    "AveragePool 12": ("AveragePool", {"kernel_shape": [12, 12]}, []),
    "MaxPool": ("MaxPool", {"kernel_shape": [3, 3]}, []),
    "ReduceMean": ("ReduceMean", {"keepdims": 1}, [numpy.int64([2, 3])]),
    "ReduceMean, all": ("ReduceMean", {"keepdims": 1}, [numpy.int64([1, 2, 3])]),
    "ReduceSum": ("ReduceSum", {"keepdims": 1}, [numpy.int64([2, 3])]),
    "ReduceProd": ("ReduceProd", {"keepdims": 1, "axes": [3]}, []),
    "c / x": ("Div", {}, "reversed"),
}
for name in ("Pow 0.5", "Pow 1.5"):
    ENDS[name] = (0, None)
for name in ("Pow -1", "Pow -0.5", "c / x"):
    ENDS[name] = (0.05, None)
for name in ("ReduceLogSum",):
    ENDS[name] = (0.01, None)


def model(name):
    operator, attributes, constants = OPERATORS[name]
    inputs, weights = ["x"], []
    for k, value in enumerate([constant(2)] if constants == "reversed" else constants):
        if isinstance(value, str):
            inputs.append(value)
            continue
        weights.append(numpy_helper.from_array(numpy.asarray(value), f"c{k}"))
        inputs.append(f"c{k}")
    if constants == "reversed":
        inputs.reverse()
    # Newer sets have newer operators; reductions had axes as attributes up to 17.
    opset = {"Swish": 24}.get(operator, 13 if "axes" in attributes else 20)
    node = helper.make_node(operator, inputs, ["y"], **attributes)
    graph = helper.make_graph([node], name, [helper.make_tensor_value_info("x", 1, SHAPE)],
                              [helper.make_tensor_value_info("y", 1, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def arguments(name, size):
    random = numpy.random.default_rng(7)
    values = random.uniform(-size, size, SHAPE)
    near = random.normal(0, min(size, 2) / 2, SHAPE)
    values = numpy.where(random.integers(0, 2, SHAPE) == 0, values, numpy.clip(near, -size, size))
    low, high = ENDS.get(name, (None, None))
    if low is not None and high is None:
        values = low + numpy.abs(values)
    elif low is not None or high is not None:
        values = numpy.clip(values, low, high)
    # The network's inputs are half precision.
    return values.astype(numpy.float16).astype(numpy.float32)


def measured(name, size, config, precision, folder):
    """The ratio, and what the compiler said."""
    path, values = os.path.join(folder, "model.onnx"), arguments(name, size)
    onnx.save(model(name), path)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # The exceptions of ONNX Runtime have no common public base.
        return None, "ONNX Runtime: " + str(error).splitlines()[0]
    expected = session.run(None, {"x": values})[0]
    samples = os.path.join(folder, "samples")
    os.makedirs(samples, exist_ok=True)
    numpy.save(os.path.join(samples, "0.npy"), values)
    command = [COMPILER, path, "-o", os.path.join(folder, "net.nvdla"), "--config", config, "--precision", precision,
               "--calibrate", samples, "--evaluate", samples, "--report", os.path.join(folder, "report")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line.strip() for line in done.stderr.splitlines()]
    if done.returncode != 0:
        return None, next((line for line in said if 'node "' in line), said[-1] if said else "")
    found = numpy.load(os.path.join(folder, "report/output_0.npy")).reshape(expected.shape)
    noise = numpy.square(found.astype(float) - expected).sum()
    signal = numpy.square(expected.astype(float)).sum()
    ratio = 10 * numpy.log10(signal / noise) if noise and signal else 999.0
    return ratio, next((line for line in said if "warning" in line), "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--config", default="nv_full")
    parser.add_argument("--below", type=float)
    parser.add_argument("--warnings", action="store_true", help="show the warnings")
    options = parser.parse_args()
    silent = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or OPERATORS:
            shown, low, said = [], False, []
            for size in SIZES:
                ratio, text = measured(name, size, options.config, options.precision, folder)
                if ratio is None:
                    shown.append("-")
                    said.append(f"{size}: {text}")
                    continue
                shown.append(f"{ratio:.1f}{'*' if text else ''}")
                if text and options.warnings:
                    said.append(f"{size}: {text}")
                if options.below and ratio < options.below:
                    low = True
                    silent += not text
            if not options.below or low:
                print(f"{name:22}{' '.join(f'{text:>9}' for text in shown)}", flush=True)
                for text in dict.fromkeys(said):
                    print("    " + text[:230])
    raise SystemExit(silent > 0)


if __name__ == "__main__":
    main()
