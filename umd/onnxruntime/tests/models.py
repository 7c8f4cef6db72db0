# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models for the tests of the provider, with weights of a fixed seed."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """An ONNX model under construction."""

    def __init__(self, seed=1):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def constant(self, value):
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weights(self, *shape):
        fan = np.prod(shape[1:]) if len(shape) > 1 else shape[0]
        return self.constant((self.random.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def node(self, operator, *inputs, outputs=1, **attributes):
        names = [f"{operator.lower()}_{len(self.nodes)}{'_' + str(k) if k else ''}" for k in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=names[0] + "_node", **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x, from_channels, channels, kernel=3, **attributes):
        weights = self.weights(channels, from_channels, kernel, kernel)
        pad = kernel // 2
        return self.node("Conv", x, weights, self.weights(channels), pads=[pad] * 4, **attributes)

    def model(self, inputs, outputs):
        def info(name, shape, kind=TensorProto.FLOAT):
            return helper.make_tensor_value_info(name, kind, shape)

        graph = helper.make_graph(self.nodes, "test", [info(*one) for one in inputs], [info(*one) for one in outputs],
                                  self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def lenet():
    """Two convolutions with poolings, two products, and a softmax, for digits."""
    b = Builder()
    x = b.node("MaxPool", b.node("Relu", b.conv("x", 1, 20, 5)), kernel_shape=[2, 2], strides=[2, 2])
    x = b.node("MaxPool", b.node("Relu", b.conv(x, 20, 50, 5)), kernel_shape=[2, 2], strides=[2, 2])
    x = b.node("Flatten", x)
    x = b.node("Relu", b.node("Gemm", x, b.weights(500, 2450), b.weights(500), transB=1))
    x = b.node("Gemm", x, b.weights(10, 500), b.weights(10), transB=1)
    return b.model([("x", [1, 1, 28, 28])], [(b.node("Softmax", x), [1, 10])])


def divided(batch=1):
    """Convolutions around a layer normalisation, of whose variance nothing is known, and the largest elements at the end."""
    b = Builder(2)
    x = b.node("Relu", b.conv("x", 8, 32))
    x = b.node("Relu", b.conv(x, 32, 32))
    skip = x
    x = b.node("LayerNormalization", x, b.constant(np.ones(24, np.float32)), b.constant(np.zeros(24, np.float32)))
    x = b.node("Relu", b.conv(x, 32, 32))
    x = b.node("Add", b.conv(x, 32, 32), skip)
    mean = b.node("GlobalAveragePool", x)
    flat = b.node("Flatten", mean)
    values, indices = b.node("TopK", flat, b.constant(np.array([4], np.int64)), outputs=2)
    return b.model([("x", [batch, 8, 24, 24])],
                   [(x, [batch, 32, 24, 24]), (values, [batch, 4]), (indices, [batch, 4], TensorProto.INT64)])


def heads():
    """Two detection heads, whose outputs have their channels last and are joined: three numbers per place and anchor."""
    b = Builder(4)
    x = b.node("Relu", b.conv("x", 8, 32))
    parts = []
    for anchors in (2, 4):
        x = b.node("MaxPool", b.node("Relu", b.conv(x, 32, 32)), kernel_shape=[2, 2], strides=[2, 2])
        head = b.node("Transpose", b.conv(x, 32, 3 * anchors, 1), perm=[0, 2, 3, 1])
        parts.append(b.node("Reshape", head, b.constant(np.array([1, -1, 3], np.int64))))
    joined = b.node("LpNormalization", b.node("Concat", *parts, axis=1), axis=2)
    return b.model([("x", [1, 8, 16, 16])], [(joined, [1, 192, 3])])
