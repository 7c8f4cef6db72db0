# SPDX-License-Identifier: MIT OR Apache-2.0
"""What goes wrong: devices, runs and models. Nothing may end the process.

NVDLA_VP is the path of nvdla_vp, whose device hangs in one of the tests.
"""

import gc
import os
import pathlib
import random
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

import models
import test_provider
from test_provider import expected, nvdla, session

LENET = {"x": test_provider.random(1, 1, 28, 28)}


class Faults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_device_that_hangs(self):
        socket = self.folder / "socket"
        command = [os.environ["NVDLA_VP"], "--config", "nv_full", "--socket", socket, "--hang", "2"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as device:
            self.addCleanup(device.kill)
            while not socket.exists():
                self.assertIsNone(device.poll())
                time.sleep(0.01)
            one = session(models.lenet(), device=f"vfio-user:{socket}", config="nv_full", timeout_ms=3000)
            with self.assertRaisesRegex(Exception, "NVDLA: .*the run did not end within 3s"):
                one.run(None, LENET)
            found = one.run(None, LENET)
            self.assertGreater(test_provider.decibels(found[0], expected(models.lenet(), LENET)[0]), 40)
            del one
            gc.collect()
            device.kill()

    def test_a_run_that_is_cancelled(self):
        one = session(models.lenet(), config="nv_full")
        right = one.run(None, LENET)
        options = ort.RunOptions()
        options.terminate = True
        with self.assertRaisesRegex(Exception, "terminate flag"):
            one.run(None, LENET, options)
        options.terminate = False
        np.testing.assert_array_equal(one.run(None, LENET, options)[0], right[0])

        def cancel():
            time.sleep(0.05)
            options.terminate = True

        thread = threading.Thread(target=cancel)
        thread.start()
        with self.assertRaisesRegex(Exception, "terminate flag"):
            while True:
                one.run(None, LENET, options)
        thread.join()
        np.testing.assert_array_equal(one.run(None, LENET)[0], right[0])

    def test_a_library_that_is_unregistered_under_a_session(self):
        one = session(models.lenet(), config="nv_full")
        right = one.run(None, LENET)
        ort.unregister_execution_provider_library("nvdla")
        np.testing.assert_array_equal(one.run(None, LENET)[0], right[0])
        ort.register_execution_provider_library("nvdla", nvdla.get_library_path())
        two = session(models.lenet(), config="nv_full")
        del one
        gc.collect()
        np.testing.assert_array_equal(two.run(None, LENET)[0], right[0])

    def test_a_model_that_is_too_large(self):
        # The file has a hole; three constants that share it have 2.25 GiB.
        count = 3 << 26
        with open(self.folder / "weights", "wb") as file:
            file.truncate(4 * count)
        b = models.Builder()
        x = "x"
        for k in range(3):
            tensor = TensorProto(name=f"w{k}", data_type=TensorProto.FLOAT, dims=[1 << 13, count >> 13],
                                 data_location=TensorProto.EXTERNAL)
            for key, value in {"location": "weights", "offset": "0", "length": str(4 * count)}.items():
                tensor.external_data.add(key=key, value=value)
            b.constants.append(tensor)
            x = b.node("Gather", f"w{k}", x)
            x = b.node("Cast", b.node("ReduceMax", x, keepdims=0), to=TensorProto.INT64)
        model = b.model([("x", [1], TensorProto.INT64)], [(x, [], TensorProto.INT64)])
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        lines = self.logged(lambda: session(str(path), config="nv_full", min_nodes=0))
        self.assertIn("bytes of constants, more than 2147483648", lines)

    def logged(self, call):
        """What a call writes to the standard error."""
        ort.set_default_logger_severity(2)
        os.environ["LOG"] = "2"
        saved = os.dup(2)
        try:
            with tempfile.TemporaryFile() as file:
                os.dup2(file.fileno(), 2)
                call()
                file.seek(0)
                return file.read().decode()
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            ort.set_default_logger_severity(3)
            del os.environ["LOG"]

    @unittest.skipIf(ort.__version__ < "1.32", "this version itself ends the process on some of them, or does not end")
    def test_hostile_models(self):
        """Attributes, shapes and constants of models are replaced by others; ONNX Runtime or the provider may refuse them."""
        draw = random.Random(7)
        numbers = [0, 1, 2, 3, 7, 255, 4096, 1 << 31, (1 << 31) - 1, 1 << 40, (1 << 63) - 1, -1, -(1 << 31), -(1 << 63)]
        extents = [number for number in numbers if number <= 4096]
        counts = {"ran": 0, "refused": 0}

        def attempt(model):
            try:
                one = session(model, config=draw.choice(["nv_full", "nv_small"]), min_nodes=0,
                              precision=draw.choice(["auto", "fp16"]))
                shape = [extent if isinstance(extent, int) else 1 for extent in one.get_inputs()[0].shape]
                if np.prod(shape, dtype=float) > 1e6:
                    raise ValueError("the input is too large to be tried")
                one.run(None, {"x": np.zeros(shape, np.float32)})
                counts["ran"] += 1
            except Exception:
                counts["refused"] += 1

        for seed in range(60):
            model = draw.choice([models.lenet, models.divided])()
            graph = model.graph
            for _ in range(draw.randint(1, 3)):
                kind = draw.randrange(5)
                node = draw.choice(graph.node)
                if kind == 0 and node.attribute:
                    attribute = draw.choice(node.attribute)
                    if attribute.ints:
                        attribute.ints[draw.randrange(len(attribute.ints))] = draw.choice(numbers)
                    attribute.i = draw.choice(numbers)
                elif kind == 1 and node.input:
                    node.input[draw.randrange(len(node.input))] = draw.choice(
                        [name for other in graph.node for name in other.input])
                elif kind == 2:
                    tensor = draw.choice(graph.initializer)
                    tensor.dims[draw.randrange(len(tensor.dims))] = draw.choice(extents)
                elif kind == 3:
                    tensor = draw.choice(graph.initializer)
                    junk = draw.choice([np.nan, np.inf, 1e38, -1e-40])
                    values = np.frombuffer(tensor.raw_data, np.uint32).copy()
                    values[draw.randrange(values.size)] = np.float32(junk).view(np.uint32)
                    tensor.raw_data = values.tobytes()
                else:
                    dim = draw.choice(graph.input[0].type.tensor_type.shape.dim)
                    dim.dim_value = draw.choice(extents)
            lines = self.logged(lambda: attempt(model))
            self.assertNotIn("panicked", lines, f"seed {seed}")
        self.assertGreater(counts["ran"], 10)
        self.assertGreater(counts["refused"], 10)

    def test_hostile_payloads(self):
        """Bytes of a compiled model are changed: it is refused, or it runs."""
        path = self.folder / "model.onnx"
        onnx.save(models.lenet(), path)
        context = self.folder / "context.onnx"
        session(str(path), {"ep.context_enable": "1", "ep.context_embed_mode": "1", "ep.context_file_path": str(context)},
                config="nv_full")
        model = onnx.load(context)
        attribute = next(a for a in model.graph.node[0].attribute if a.name == "ep_cache_context")
        payload, draw, refused = attribute.s, random.Random(3), 0
        for seed in range(40):
            changed = bytearray(payload)
            for _ in range(draw.randint(1, 8)):
                # Most of the loadable is weights; its structure is at both ends.
                place = draw.choice([draw.randrange(4096), len(changed) - 1 - draw.randrange(4096)])
                changed[place] = draw.randrange(256)
            if seed % 8 == 0:
                del changed[draw.randrange(len(changed)):]
            attribute.s = bytes(changed)
            try:
                session(model, timeout_ms=2000).run(None, LENET)
            except Exception:
                refused += 1
        self.assertGreater(refused, 5)
