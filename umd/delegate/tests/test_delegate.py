# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests the delegate with an unmodified LiteRT, on the built-in model or the device that DEVICE names."""

import json
import os
import pathlib
import tempfile
import threading
import unittest

import numpy as np
from ai_edge_litert.interpreter import Interpreter, load_delegate

import models

LIBRARY, PACKAGES = os.environ["NVDLA_DELEGATE"], os.environ["PACKAGES"]
DEVICE = os.environ.get("DEVICE", "model")


def interpreter(model, **options):
    """An interpreter with the delegate."""
    options = {"device": DEVICE, **{key: str(value) for key, value in options.items()}}
    made = Interpreter(model_content=model, experimental_delegates=[load_delegate(LIBRARY, options)])
    made.allocate_tensors()
    return made


def processor(model):
    made = Interpreter(model_content=model)
    made.allocate_tensors()
    return made


def inputs(interpreter, seed=5):
    """Smooth numbers, as pictures and spectra are."""
    random = np.random.default_rng(seed)
    for info in interpreter.get_input_details():
        values = random.standard_normal(info["shape"]).astype(np.float32)
        for axis in range(1, values.ndim - 1):
            values = (values + np.roll(values, 1, axis) + np.roll(values, 2, axis)) / 2
        if info["dtype"] != np.float32:
            limits = np.iinfo(info["dtype"])
            values = np.clip(values * 40 + (limits.min + limits.max) / 2, limits.min, limits.max).round()
        yield values.astype(info["dtype"])


def run(interpreter, values):
    for info, value in zip(interpreter.get_input_details(), values):
        interpreter.set_tensor(info["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(info["index"]) for info in interpreter.get_output_details()]


def decibels(found, right):
    found, right = found.astype(np.float64), right.astype(np.float64)
    return 10 * np.log10((right**2).sum() / max(((found - right) ** 2).sum(), 1e-30))


class Delegate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def division(self):
        return json.loads((self.folder / "partition.json").read_text())

    def compare(self, name, model, **options):
        """Runs a model with the delegate and without it. Returns the operators of the processor, and the number of groups."""
        quantized = name in models.TINY
        options = {"config": "nv_small" if quantized else "nv_full", "min_nodes": 0, **options}
        here, there = interpreter(model, dump_dir=self.folder, **options), processor(model)
        values = list(inputs(there))
        for one, other in zip(run(here, values), run(there, values), strict=True):
            self.assertEqual((one.shape, one.dtype), (other.shape, other.dtype))
            near = decibels(one, other)
            print(f"{name}: {near:.1f} dB", flush=True)
            # The two sets of kernels of LiteRT itself differ by as much in int8.
            self.assertGreaterEqual(near, 15 if quantized else 40, name)
            if quantized and name != "anomaly":
                self.assertEqual(one.argmax(), other.argmax(), name)
        division = self.division()
        groups, left = division["groups"], division["processor"]
        inside = sum(len(group["nodes"]) for group in groups)
        if not division["warnings"]:
            self.assertGreaterEqual(inside, 0.8 * (inside + len(left)), name)
        return {node["operator"] for node in left}, len(groups)

    def test_whole_networks(self):
        for name, (package, end) in (models.TINY | models.MEDIAPIPE).items():
            left, groups = self.compare(name, models.read(PACKAGES, package, end))
            if name not in ("blazeface-front", "blazeface-back"):
                # A conversion at the end is not worth a place in the group.
                self.assertEqual((left - {"DEQUANTIZE"}, groups), (set(), 1), name)

    def test_networks_with_an_unknown_operator(self):
        for name, (package, end) in (models.TINY | models.MEDIAPIPE).items():
            left, groups = self.compare(name, models.mirrored(models.read(PACKAGES, package, end)))
            self.assertIn("REVERSE_V2", left, name)
            self.assertGreaterEqual(groups, 2, name)

    def test_inputs_are_resized(self):
        model = models.read(PACKAGES, *models.TINY["resnet8"])
        here, there = interpreter(model, config="nv_small"), processor(model)
        for made in (here, there):
            info = made.get_input_details()[0]
            made.resize_tensor_input(info["index"], [2, *info["shape"][1:]])
            made.allocate_tensors()
        values = list(inputs(there))
        found, right = run(here, values)[0], run(there, values)[0]
        self.assertEqual(found.shape, (2, 10))
        self.assertGreaterEqual(decibels(found, right), 15)

    def test_interpreters_and_threads_share_a_device(self):
        model = models.read(PACKAGES, *models.TINY["kws"])
        values = list(inputs(processor(model)))
        right = run(interpreter(model, config="nv_small"), values)[0]
        found = []

        def work():
            made = interpreter(model, config="nv_small")
            found.extend(run(made, values)[0] for _ in range(3))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 12)
        for one in found:
            np.testing.assert_array_equal(one, right)

    def test_wrong_options_are_errors(self):
        for options, reason in (({"config": "nv_tiny"}, "config=nv_tiny"), ({"colour": "red"}, "colour"),
                                ({"device": "/nonexistent"}, "nonexistent")):
            with self.assertRaisesRegex(ValueError, reason):
                load_delegate(LIBRARY, options)

    def test_a_network_in_real_numbers_needs_a_table_for_int8(self):
        model = models.read(PACKAGES, *models.MEDIAPIPE["blazeface-front"])
        self.compare("blazeface-front", model, config="nv_small")
        self.assertEqual((len(self.division()["groups"]), len(self.division()["warnings"])), (0, 1))


if __name__ == "__main__":
    unittest.main()
