# SPDX-License-Identifier: MIT OR Apache-2.0
"""Times a network of the benchmark `peers` with ONNX Runtime's CPU provider, in fp32 and in int8.

    peers.py THREADS... < network.json

The network comes from a loadable: its layers and their shapes, without weights, which are random here; their values
do not change the time. The int8 form is ONNX Runtime's own: quantize and dequantize nodes around fp32 operators,
unsigned activations, signed weights with a scale per kernel, which it turns into integer operators.

Prints one JSON object: the version, and milliseconds of the best run by form and number of threads.
"""

import json
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
# Activations of either sign, and after a ReLU: scale and zero point of uint8.
SIGNED = (6.0 / 127, 128)
POSITIVE = (6.0 / 255, 0)


class Model:
    """Layers as ONNX nodes; with `int8`, each value is quantized where it is made."""

    def __init__(self, int8):
        self.int8 = int8
        self.nodes, self.constants, self.inputs = [], [], []
        self.random = np.random.default_rng(1)
        # The range of each value: poolings hand their input's on.
        self.ranges = {}

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, operator, inputs, output, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))

    def value(self, name, made, values):
        """Gives the layer's result `made` its name, quantized and back."""
        self.ranges[name] = values
        if not self.int8:
            self.node("Identity", [made], name)
            return
        scale = self.constant(f"{name}.scale", np.float32(values[0]))
        zero = self.constant(f"{name}.zero", np.uint8(values[1]))
        self.node("QuantizeLinear", [made, scale, zero], f"{name}.q")
        self.node("DequantizeLinear", [f"{name}.q", scale, zero], name)

    def weights(self, name, shape, source):
        """Random weights that keep the size of values, and no bias but zeros."""
        each = int(np.prod(shape[1:]))
        weights = self.random.normal(0, (2.0 / each) ** 0.5, shape).astype(np.float32)
        bias = np.zeros(shape[0], np.float32)
        if not self.int8:
            return [self.constant(f"{name}.weights", weights), self.constant(f"{name}.bias", bias)]
        axes = tuple(range(1, len(shape)))
        scales = (np.abs(weights).max(axis=axes) / 127).astype(np.float32)
        quantized = np.rint(weights / scales.reshape(-1, *[1] * len(axes))).astype(np.int8)
        parts = {
            "weights": (quantized, scales, np.zeros(shape[0], np.int8)),
            "bias": (bias.astype(np.int32), scales * np.float32(self.ranges[source][0]), np.zeros(shape[0], np.int32)),
        }
        for part, arrays in parts.items():
            names = [self.constant(f"{name}.{part}.{i}", array) for i, array in enumerate(arrays)]
            self.node("DequantizeLinear", names, f"{name}.{part}", axis=0)
        return [f"{name}.weights", f"{name}.bias"]

    def layer(self, layer):
        operator, name, sources = layer["op"], layer["output"], layer["inputs"]
        made, values = f"{name}.made", self.ranges[sources[0]]
        window = {key: layer[key] for key in ("kernel_shape", "strides", "pads") if key in layer}
        if operator == "conv":
            shape = [layer["kernels"], layer["channels"], *layer["kernel_shape"]]
            weights = self.weights(name, shape, sources[0])
            self.node("Conv", [*sources, *weights], made, dilations=layer["dilations"], **window)
            values = SIGNED
        elif operator == "sum":
            self.node("Add", sources, made)
            values = SIGNED
        elif operator == "relu":
            self.node("Identity", sources, made)
        elif operator == "max":
            self.node("MaxPool", sources, made, **window)
        elif operator == "average":
            self.node("AveragePool", sources, made, count_include_pad=1, **window)
        elif operator == "concat":
            self.node("Concat", sources, made, axis=1)
        elif operator == "reshape":
            shape = self.constant(f"{name}.shape", np.array([1, *layer["shape"]], np.int64))
            self.node("Reshape", [sources[0], shape], made)
        elif operator == "lrn":
            self.node("LRN", sources, made, size=layer["size"])
        else:
            raise ValueError(f"no ONNX operator is known for {operator}")
        if layer.get("relu"):
            self.node("Relu", [made], f"{made}.relu")
            made, values = f"{made}.relu", POSITIVE
        self.value(name, made, values)

    def build(self, network):
        for tensor in network["inputs"]:
            name = tensor["name"]
            self.inputs.append(helper.make_tensor_value_info(f"{name}.in", TensorProto.FLOAT, [1, *tensor["shape"]]))
            self.value(name, f"{name}.in", SIGNED)
        for layer in network["layers"]:
            self.layer(layer)
        # Of the outputs, ONNX wants the number of dimensions.
        shape = [None] * 4
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in network["outputs"]]
        graph = helper.make_graph(self.nodes, network["name"], self.inputs, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        onnx.checker.check_model(model)
        return model


def best(model, network, threads):
    """Milliseconds of the best run."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(2)
    feed = {
        f"{tensor['name']}.in": random.normal(0, 1, [1, *tensor["shape"]]).astype(np.float32)
        for tensor in network["inputs"]
    }
    session.run(None, feed)
    # With one thread the time that the process has computed, so that what else runs on the machine does not count.
    clock = time.process_time if threads == 1 else time.perf_counter
    times = []
    end = time.perf_counter() + 1
    while len(times) < 5 or time.perf_counter() < end:
        start = clock()
        session.run(None, feed)
        times.append(clock() - start)
    return min(times) * 1e3


def main():
    threads = [int(argument) for argument in sys.argv[1:]]
    network = json.load(sys.stdin)
    result = {"version": onnxruntime.__version__}
    for form in ("fp32", "int8"):
        model = Model(form == "int8").build(network)
        result[form] = {str(count): best(model, network, count) for count in threads}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
